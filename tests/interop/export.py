#!/usr/bin/env python3
"""`leat export`: what Perfetto and chrome://tracing read has all events, on tracks of their threads; what ClickHouse reads
has all their fields."""
import array
import csv
import fcntl
import io
import json
import os
import re
import resource
import signal
import struct
import subprocess
import termios

import ctf_random
from io_tracer import golden
from support import LEAT, PATIENCE, SOURCE, InteropTest, main, plain_run, program, wait_until

US = 1000
SLICE = "io:*_queued,io:completed,request"

# Numbers of fields that Perfetto's .proto files give.
PACKET = {8: "timestamp", 10: "sequence", 11: "event", 13: "flags", 60: "descriptor"}
DESCRIPTOR = {1: "uuid", 2: "name", 3: "process", 4: "thread", 5: "parent"}
PROCESS = {1: "pid", 6: "name"}
THREAD = {1: "pid", 2: "tid", 5: "name"}
EVENT = {4: "annotation", 9: "type", 11: "track", 22: "category", 23: "name"}
ANNOTATION = {3: "unsigned", 4: "signed", 5: "real", 6: "text", 10: "name", 11: "member", 12: "element"}
BEGIN, END, INSTANT = 1, 2, 3


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields_of(data, names):
    """The fields of a message in their order: [(name, value)]. Fails on one that is not known."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, = struct.unpack_from("<d", data, at)
            at += 8
        else:
            assert key & 7 == 2, key
            size, at = varint(data, at)
            value = data[at:at + size]
            assert len(value) == size
            at += size
        found.append((names[key >> 3], value))
    return found


def value_of(annotation):
    (_, name), *rest = fields_of(annotation, ANNOTATION)
    return name.decode(), plain(rest)


def plain(parts):
    if parts and parts[0][0] == "member":
        return dict(value_of(member) for _, member in parts)
    if parts and parts[0][0] == "element":
        return [plain(fields_of(element, ANNOTATION)) for _, element in parts]
    if not parts:
        return None
    (kind, value), = parts
    if kind == "signed":
        return value - (1 << 64) if value >> 63 else value
    return value.decode() if kind == "text" else value


class Perfetto:
    """The tracks and events of a trace."""

    def __init__(self, data):
        self.tracks, self.events = {}, []
        for number, (_, packet) in enumerate(fields_of(data, {1: "packet"})):
            parts = dict(fields_of(packet, PACKET))
            assert parts["sequence"] == 1 and parts.get("flags", 0) == (number == 0)
            if "descriptor" in parts:
                self.add_track(dict(fields_of(parts["descriptor"], DESCRIPTOR)))
            else:
                self.add_event(parts)

    def add_track(self, track):
        assert track["uuid"] not in self.tracks and track.get("parent", 0) in (0, *self.tracks)
        for name, names in ("process", PROCESS), ("thread", THREAD):
            if name in track:
                track[name] = dict(fields_of(track[name], names))
        self.tracks[track["uuid"]] = track

    def add_event(self, parts):
        fields = fields_of(parts["event"], EVENT)
        event = dict(fields)
        assert event["track"] in self.tracks
        event["args"] = dict(value_of(value) for name, value in fields if name == "annotation")
        event["time"] = parts["timestamp"]
        event["name"] = event.get("name", b"").decode()
        self.events.append(event)


def is_full(pipe):
    """All pages of it are in use."""
    held = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, held)
    return held[0] == fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)


class Export(InteropTest):
    def export(self, form, trace, *options):
        path = self.directory / f"{form}-{len(list(self.directory.iterdir()))}"
        result = plain_run(LEAT, "export", form, *options, trace, "-o", path)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        return Perfetto(path.read_bytes()) if form == "perfetto" else json.loads(path.read_text())

    def emitted(self):
        trace = self.record(program("emit"), "100", "3", name="trace").path
        lines = plain_run(LEAT, "view", "--format=json", trace).stdout.splitlines()
        return trace, list(map(json.loads, lines))

    def test_all_events_are_on_their_threads_in_perfetto(self):
        trace, lines = self.emitted()
        found = self.export("perfetto", trace)
        self.assertEqual(len(found.events), len(lines))
        for event, line in zip(found.events, lines):
            self.assertEqual((event["time"], event["name"], event["type"]), (line["time_ns"], line["name"], INSTANT))
            self.assertEqual(event["args"], line["payload"])
            thread = found.tracks[event["track"]]
            context = line["common_context"]
            self.assertEqual((thread["thread"]["pid"], thread["thread"]["tid"]), (context["vpid"], context["vtid"]))
            self.assertEqual(found.tracks[thread["parent"]]["process"]["pid"], context["vpid"])
        names = {track["process"]["name"].decode() for track in found.tracks.values() if "process" in track}
        self.assertEqual(names, {line["common_context"]["procname"] for line in lines[:1]})

    def test_all_events_are_on_their_threads_in_chrome(self):
        trace, lines = self.emitted()
        found = self.export("chrome", trace)
        events = [event for event in found["traceEvents"] if event["ph"] != "M"]
        self.assertEqual(len(events), len(lines))
        first = int(found["otherData"]["first_event_ns"])
        self.assertEqual(first, lines[0]["time_ns"])
        for event, line in zip(events, lines):
            context = line["common_context"]
            self.assertEqual((event["ph"], event["s"], event["name"], event["args"], event["pid"], event["tid"]),
                             ("i", "t", line["name"], line["payload"], context["vpid"], context["vtid"]))
            self.assertEqual(round(event["ts"] * 1000), line["time_ns"] - first)
        names = {(event["pid"], event["tid"]) for event in found["traceEvents"] if event["name"] == "thread_name"}
        self.assertEqual(names, {(event["pid"], event["tid"]) for event in events})

    def test_slices_of_a_key_do_not_overlap_in_a_lane(self):
        """Of the requests of CPU 0: two are on their way at once, and the write is still there at the end."""
        trace = golden(self.directory / "io").path
        found = self.export("perfetto", trace, "--slice", SLICE, "--filter", "$ctx.cpu_id == 0")
        slices = [(event["track"], event["type"], event["args"]["request"]) for event in found.events if event["type"] != INSTANT]
        lanes = sorted({track for track, _, _ in slices})
        self.assertEqual(len(lanes), 2)
        first, second = lanes
        self.assertEqual(slices, [(first, BEGIN, 0xa), (second, BEGIN, 0xb), (first, END, 0xa), (second, END, 0xb), (second, BEGIN, 0xc)])
        self.assertEqual({found.tracks[lane]["name"] for lane in lanes}, {b"io:*_queued"})
        self.assertEqual(sum(event["type"] == INSTANT for event in found.events), 4)  # dispatched, waited for capacity
        chrome = self.export("chrome", trace, "--slice", SLICE, "--filter", "$ctx.cpu_id == 0")
        self.assertEqual([(event["ph"], int(event["id"], 16)) for event in chrome["traceEvents"] if "id" in event],
                         [("b", first), ("b", second), ("e", first), ("e", second), ("b", second)])

    def test_what_does_not_belong_together_is_an_instant(self):
        """The two CPUs use one id: its second begin ends the first slice, and its second end is of none."""
        found = self.export("perfetto", golden(self.directory / "io").path, "--slice", SLICE)
        types = [event["type"] for event in found.events]
        self.assertEqual((types.count(BEGIN), types.count(END)), (5, 3))
        self.assertEqual(len(found.events), 14)

    def test_slices_of_a_thread(self):
        trace, lines = self.emitted()
        found = self.export("perfetto", trace, "--slice", "test:count,test:done")
        begun = [event for event in found.events if event["type"] == BEGIN]
        self.assertEqual(len(begun), len(lines) - 1)
        self.assertEqual({event["name"] for event in begun}, {"test:count"})

    def test_to_a_pipe(self):
        trace, lines = self.emitted()
        result = plain_run(LEAT, "export", "chrome", "--filter", "n == 7", trace)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        events = [event for event in json.loads(result.stdout)["traceEvents"] if event["ph"] != "M"]
        self.assertEqual([event["args"]["n"] for event in events], [7, 7, 7])

    def test_one_signal_ends_it_while_nobody_reads(self):
        trace = self.record(program("emit"), "3000", "3", name="large").path
        with subprocess.Popen([LEAT, "export", "chrome", trace], stdout=subprocess.PIPE) as export:
            wait_until(lambda: is_full(export.stdout), "the pipe is full")
            export.terminate()
            self.assertEqual(export.wait(PATIENCE), -signal.SIGTERM)

    def test_failure_leaves_no_half_of_a_file(self):
        path = self.directory / "out"
        trace, _ = self.emitted()
        for arguments, status, word in ((["--slice", "a"], 2, "FROM,TO"),
                                        (["--slice", "test:count,test:done,nosuch"], 1, "key of the slice: no event has a field"),
                                        (["--slice", "test:count,nobody"], 1, "nobody"), (["--filter", "nosuch"], 1, "nosuch"),
                                        (["--slice", "a,b,n =="], 2, "key of the slice, character")):
            result = plain_run(LEAT, "export", "perfetto", *arguments, trace, "-o", path)
            self.assertEqual((result.returncode, result.stdout), (status, ""), arguments)
            self.assert_one_line(result.stderr, word)
        result = plain_run(LEAT, "export", "perfetto", self.directory / "nowhere", "-o", path)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(list(self.directory.glob("out*")), [])
        self.assertEqual(plain_run(LEAT, "export", "csv", trace).returncode, 2)

    def test_where_it_goes(self):
        trace, lines = self.emitted()
        expected = plain_run(LEAT, "export", "chrome", trace).stdout
        target, link, fifo = self.directory / "target", self.directory / "link", self.directory / "fifo"
        target.write_text("old")
        target.chmod(0o600)
        link.symlink_to(target)
        self.assertEqual(plain_run(LEAT, "export", "chrome", trace, "-o", link).returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertEqual((target.read_text(), target.stat().st_mode & 0o777), (expected, 0o600))
        target.unlink()  # the link leads nowhere
        self.assertEqual(plain_run(LEAT, "export", "chrome", trace, "-o", link).returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertEqual(target.read_text(), expected)
        with open(target, "w", encoding="ascii") as output:  # standard output by another name
            words = f"echo before; {LEAT} export chrome {trace} -o /dev/stdout; echo behind"
            subprocess.run(["sh", "-c", words], stdout=output, check=True)
        self.assertEqual(target.read_text(), f"before\n{expected}behind\n")
        with open(target, "w", encoding="ascii") as output:
            words = f"echo before >&3; {LEAT} export chrome {trace} -o /dev/fd/3; echo behind >&3"
            subprocess.run(["sh", "-c", f"exec 3>&1 >&-; {words}"], stdout=output, check=True)
        self.assertEqual(target.read_text(), f"before\n{expected}behind\n")
        os.mkfifo(fifo)
        with subprocess.Popen([LEAT, "export", "chrome", trace, "-o", fifo]) as export:
            self.assertEqual(fifo.read_text(), expected)
        self.assertEqual(export.returncode, 0)
        self.assertTrue(fifo.is_fifo())
        for place, status, word in ((self.directory, 1, "directory"), (self.directory / "no" / "file", 1, "no/file"),
                                    ("", 2, "--output is empty")):
            result = plain_run(LEAT, "export", "chrome", trace, "-o", place)
            self.assertEqual((result.returncode, result.stdout), (status, ""))
            self.assert_one_line(result.stderr, word)
        result = plain_run(LEAT, "export", "chrome", trace, "-o", "/dev/full")
        self.assertEqual(result.returncode, 1)
        self.assert_one_line(result.stderr, "/dev/full", "No space left on device")
        self.assertEqual({path.name for path in self.directory.iterdir() if path.is_file()} - {"target", "link", "trace.json"}, set())

    def test_file_that_cannot_be_written_whole(self):
        """The one that was there stays."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

        trace, _ = self.emitted()
        path = self.directory / "out"
        path.write_text("old")
        for form in ("chrome", "perfetto", "clickhouse"):
            result = plain_run(LEAT, "export", form, trace, "-o", path, preexec_fn=limit)
            self.assertEqual(result.returncode, 1)
            self.assert_one_line(result.stderr, str(path), "File too large")
            self.assertEqual((path.read_text(), list(self.directory.glob("out?*"))), ("old", []))

    def test_files_of_a_trace_stay(self):
        trace, lines = self.emitted()
        among = next(trace.rglob("metadata")).parent
        self.assertNotEqual(among, trace)
        stream = next(among.glob("channel0_*"))
        # One that was moved to another disk, and one that has another name.
        moved, other_name = self.directory / "moved", self.directory / "other-name"
        stream.rename(moved)
        stream.symlink_to(moved)
        other_name.hardlink_to(among / "metadata")
        for name in (among / "metadata", among / "new.json", among / "index" / "new", stream, trace / "metadata", moved,
                     other_name):
            for command in (("export", "chrome", trace, "-o"), ("view", trace, "-w")):
                result = plain_run(LEAT, *command, name)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assert_one_line(result.stderr, str(name), "among the files of")
        self.assertEqual(plain_run(LEAT, "export", "chrome", trace, "-o", trace / "trace.json").returncode, 0)
        self.assertEqual(len(plain_run(LEAT, "view", "--format=json", trace).stdout.splitlines()), len(lines))


def native_rows(data):
    """The columns' names and types of each block of ClickHouse's format Native, and all rows."""
    heads, rows, at = [], [], 0

    def text():
        nonlocal at
        size, at = varint(data, at)
        at += size
        assert at <= len(data)
        return data[at - size:at].decode(errors="replace")

    while at < len(data):
        columns, at = varint(data, at)
        count, at = varint(data, at)
        head, values = [], []
        for _ in range(columns):
            head.append((text(), text()))
            kind = head[-1][1].removeprefix("Nullable(").removesuffix(")")
            is_null = bytes(count)
            if kind != head[-1][1]:
                is_null = data[at:at + count]
                at += count
            if kind == "String":
                column = [text() for _ in range(count)]
            else:
                column = struct.unpack_from(f"<{count}{ {'Int64': 'q', 'UInt64': 'Q', 'Float64': 'd'}[kind] }", data, at)
                at += 8 * count
            values.append([None if null else value for value, null in zip(column, is_null, strict=True)])
        heads.append(head)
        rows += zip(*values, strict=True)
    return heads, rows


class ClickHouse(InteropTest):
    """The table of the rows that `--format=csv` prints."""

    def table_of(self, trace, *options):
        path = self.directory / "table.native"
        result = plain_run(LEAT, "export", "clickhouse", *options, trace, "-o", path)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        return native_rows(path.read_bytes())

    def test_rows_are_those_of_csv(self):
        traces = [str(metadata.parent) for metadata in sorted((SOURCE / "tests" / "data" / "captures").rglob("metadata"))]
        for seed in range(40):
            traces.append(str(self.directory / f"random{seed}"))
            ctf_random.write_traces(seed, traces[-1])
        compared = 0
        for trace in traces:
            table = subprocess.run([LEAT, "view", "--format=csv", trace], capture_output=True, check=False)
            if table.returncode != 0:
                continue
            titles, *lines = csv.reader(io.StringIO(table.stdout.decode(), newline=""))
            if not lines:
                continue
            titles.remove("time")
            heads, rows = self.table_of(trace)
            for head in heads:
                self.assertEqual([name for name, _ in head], titles, trace)
            for line, row in zip(lines, rows, strict=True):
                for cell, (name, kind), value in zip(line[1:], heads[0], row, strict=True):
                    shown, cell = (re.sub("\ufffd+", "\ufffd", text) for text in ("" if value is None else str(value), cell))
                    is_real = kind == "Nullable(Float64)" and value is not None
                    self.assertTrue(cell == shown or is_real and is_same_number(cell, value), (trace, name, cell, value))
            compared += 1
        self.assertGreater(compared, 60)

    def test_blocks_have_the_same_columns(self):
        """More rows than a block has."""
        trace = self.record(program("emit"), "40000", "2", name="trace", options=("--ring-size", "16M")).path
        heads, rows = self.table_of(trace, "--columns", "time_ns,name,n,thread")
        self.assertEqual(len(heads), 2)
        self.assertEqual(heads[0], heads[1])
        self.assertEqual(heads[0], [("time_ns", "Nullable(Int64)"), ("name", "String"), ("n", "Nullable(UInt64)"),
                                    ("thread", "Nullable(Int64)")])
        self.assertEqual(sum(row[1] == "test:count" for row in rows), 80000)

    def test_large_texts_make_small_blocks(self):
        """A text of the packet is in each of its rows."""
        metadata = """/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
            stream { packet.context := struct { string text; }; };
            event { name = e; fields := struct { integer { size = 8; } n; }; };"""
        trace = self.directory / "trace"
        trace.mkdir()
        (trace / "metadata").write_text(metadata)
        (trace / "stream").write_bytes(b"x" * (1 << 20) + b"\0" + bytes(100))
        heads, rows = self.table_of(trace)
        self.assertGreater(len(heads), 5)
        self.assertEqual([len(row[-2]) for row in rows], 100 * [1 << 20])

    def test_no_rows(self):
        trace = str(SOURCE / "tests" / "data" / "captures" / "local-disk" / "trace")
        heads, rows = self.table_of(trace, "--filter", '$name == "nosuch"', "--columns", "name,time_ns")
        self.assertEqual((heads, rows), ([[("name", "String"), ("time_ns", "Nullable(Int64)")]], []))

    def test_refused(self):
        trace = str(SOURCE / "tests" / "data" / "captures" / "local-disk" / "trace")
        for options, status, word in ((["clickhouse", "--slice", "a,b"], 2, "--slice"),
                                      (["chrome", "--columns", "name"], 2, "--columns"),
                                      (["clickhouse", "--columns", "nosuch"], 1, "nosuch")):
            result = plain_run(LEAT, "export", *options, trace, "-o", self.directory / "out")
            self.assertEqual((result.returncode, result.stdout), (status, ""), options)
            self.assert_one_line(result.stderr, word)
            self.assertEqual(list(self.directory.glob("out*")), [])


def is_same_number(text, value):
    """As a float of 32 bits, too."""
    number = float(text)
    return number == value or number != number and value != value or \
        struct.pack("<f", number) == struct.pack("<f", value)


if __name__ == "__main__":
    main()
