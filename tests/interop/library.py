#!/usr/bin/env python3
"""libleat-ctf, by way of the Python module over it: events, fields and columns are those that `leat view` shows."""
import csv
import datetime
import io
import importlib.util
import json
import math
import os
import pickle
import shutil
import signal
import struct
import sys
import threading

# python3-numpy is for Debian's Python, and another one may come first in PATH.
if importlib.util.find_spec("numpy") is None and sys.executable != "/usr/bin/python3":
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

import ctf_random  # noqa: E402
from support import (BUILD, LEAT, SOURCE, InteropTest, can_be_two_users, main, needs, plain_run, program,  # noqa: E402
                     wait_until)

sys.path.insert(0, str(BUILD / "python"))
import leat  # noqa: E402
import numpy  # noqa: E402

CAPTURES = SOURCE / "tests" / "data" / "captures"
OTHER = 1000  # who is not root
CONTEXTS = ("packet_context", "common_context", "specific_context")


def is_same_real(value, text):
    """JSON has as many digits as a number of its size needs: of 32 bits, perhaps."""
    other = float(text)
    return value == other or numpy.float32(value) == numpy.float32(other) or (math.isnan(value) and math.isnan(other))


def is_same(value, json_value):
    """Whether a field is what JSON has."""
    if isinstance(value, leat.Enum):
        return {"value": int(value), "labels": list(value.labels)} == json_value
    if isinstance(value, dict):
        return isinstance(json_value, dict) and list(value) == list(json_value) and all(
            is_same(part, json_value[name]) for name, part in value.items())
    if isinstance(value, list):
        return isinstance(json_value, list) and len(value) == len(json_value) and all(map(is_same, value, json_value))
    if isinstance(value, float):
        return is_same_real(value, json_value)
    if isinstance(value, str) and "\ufffd" in json_value:
        return "\\x" in value
    return value == json_value


def first_of_a_name(pairs):
    return dict(reversed(pairs)) if len(dict(pairs)) < len(pairs) else dict(pairs)


def read_all(reader):
    """Its events, and the error at the end, or None."""
    events = []
    try:
        for event in reader:
            events.append(event)
    except leat.Error as error:
        return events, str(error)
    return events, None


# Times of 32 bits, which go on from packet to packet: only a packet's end says all of it.
NARROW_TIMES = """/* CTF 1.8 */
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
clock { name = c; freq = 1000000000; };
stream {
    id = 0;
    packet.context := struct {
        integer { size = 32; align = 8; map = clock.c.value; } timestamp_begin;
        integer { size = 64; align = 8; map = clock.c.value; } timestamp_end;
        u64 content_size; u64 packet_size;
    };
    event.header := struct { integer { size = 32; align = 8; map = clock.c.value; } timestamp; };
};
event { name = "e"; id = 0; stream_id = 0; fields := struct { u32 number; }; };
"""


class Library(InteropTest):
    def view(self, *arguments):
        """The events of `leat view`, and whether it has failed."""
        result = plain_run(LEAT, "view", "--format=json", *arguments)
        lines = [json.loads(line, object_pairs_hook=first_of_a_name) for line in result.stdout.split("\n")[:-1]]
        return [line for line in lines if "name" in line], result.returncode != 0

    def assert_same(self, event, line):
        self.assertEqual((event.time_ns, event.name, event.log_level),
                         (line.get("time_ns"), line["name"], line.get("log_level")))
        contexts = {}
        for scope in reversed(CONTEXTS):
            contexts.update(line.get(scope, {}))
        self.assertTrue(is_same(event.contexts, {name: contexts[name] for name in event.contexts}), (event, line))
        self.assertEqual(set(event.contexts), set(contexts))
        self.assertTrue(is_same(event.fields, line.get("payload", {})), (event, line))

    def check(self, trace):
        """Returns how many events there are."""
        lines, has_failed = self.view(trace)
        try:
            reader = leat.open(trace)
        except leat.Error:
            self.assertTrue(has_failed and not lines, trace)
            return 0
        events, error = read_all(reader)
        self.assertEqual((len(events), error is not None), (len(lines), has_failed), (trace, error))
        for event, line in zip(events, lines):
            self.assert_same(event, line)
        # What cannot be read stays so.
        self.assertEqual(read_all(reader), ([], error))
        self.check_columns(trace, events, error)
        return len(events)

    def check_columns(self, trace, events, error):
        reader = leat.open(trace)
        if error and not events:
            return self.assertRaises(leat.Error, reader.columns)
        # All there is is not in a table that lacks something; a piece of it may be shorter than it was wanted.
        rows = len(events) + 1 if error else None
        if error:
            self.assertRaises(leat.Error, leat.open(trace).columns)
        table = reader.columns(rows=rows)
        names = list(table)
        self.assertEqual(names[:2], ["time_ns", "name"])
        lines = list(csv.DictReader(io.StringIO(plain_run(LEAT, "view", "--format=csv", trace, encoding="utf-8",
                                                         errors="replace").stdout, newline="")))
        self.assertEqual({len(column) for column in table.values()}, {len(events)})
        for name, column in table.items():
            is_masked = numpy.ma.is_masked(column)
            for i, line in enumerate(lines):
                cell = line[name]
                if is_masked and column.mask[i] or column[i] is None:
                    self.assertEqual(cell, "", (trace, name, i))
                elif column.dtype == numpy.float64:
                    self.assertTrue(is_same_real(column[i], cell or "nan"), (trace, name, i))
                elif "\ufffd" not in cell:
                    self.assertEqual(str(column[i]), cell, (trace, name, i))
        self.check_numbers(trace, table, events, rows)
        if error:
            self.assertRaises(leat.Error, reader.columns)
        else:
            self.assertEqual({len(column) for column in reader.columns().values()}, {0})

    def check_numbers(self, trace, table, events, rows):
        """Those of each column alone, which are read in another way than whole events."""
        for name in table:
            if name in ("time_ns", "name", "log_level") or table[name].dtype == object:
                continue
            column = leat.open(trace).columns([name], rows)[name]
            plain = name.removeprefix("payload.").removeprefix("$ctx.")
            for i, event in enumerate(events):
                if name.startswith("$ctx."):
                    places = (event.contexts,)
                elif name != plain or f"$ctx.{name}" in table:
                    places = (event.fields,)
                else:
                    places = (event.fields, event.contexts)
                value = next((place[plain] for place in places if plain in place), None)
                is_missing = numpy.ma.getmaskarray(column)[i]
                if value is None or is_missing or isinstance(value, (dict, list, str)):
                    continue
                self.assertTrue(column[i] == value or (math.isnan(column[i]) and math.isnan(value)), (trace, name, i))

    def test_captured_traces(self):
        counts = [self.check(metadata.parent) for metadata in sorted(CAPTURES.rglob("metadata"))]
        self.assertGreater(len(counts), 90)
        self.assertGreater(sum(counts), 1000)

    def test_traces_made_by_chance(self):
        for seed in range(60):
            with self.subTest(seed=seed):
                ctf_random.write_traces(seed, self.directory / str(seed))
                self.check(self.directory / str(seed))

    def recorded(self, count=1000):
        return self.record(program("emit"), str(count), name="trace", options=("--ring-size", "64K")).path

    def test_events_as_documented(self):
        trace = self.recorded(3)
        with leat.open(trace) as reader:
            event = next(reader)
            self.assertEqual(reader.environment("tracer_name"), "leat")
            self.assertIsInstance(reader.environment("tracer_major"), int)
            self.assertIsNone(reader.environment("nothing"))
        self.assertRaises(ValueError, next, reader)
        line = self.view(trace)[0][0]
        self.assertEqual(event.time, datetime.datetime.fromtimestamp(event.time_ns // 1000 / 1e6, datetime.timezone.utc))
        self.assertEqual(event["cpu_id"], line["packet_context"]["cpu_id"])
        self.assertEqual(set(event.to_dict()), {"time_ns", "name", "log_level", "contexts", "fields"})
        self.assertTrue("cpu_id" in event and "nothing" not in event)
        self.assertEqual(pickle.loads(pickle.dumps(event)), event)
        self.assertIn("cpu_id", repr(event))
        self.assertIsNone(event.get("nothing"))
        self.assertRaises(KeyError, lambda: event["nothing"])

    def test_selected_events(self):
        trace = self.recorded()
        lines, _ = self.view(trace)
        times = [line["time_ns"] for line in lines]
        first, last = times[300], times[600]
        wanted = [line for line in lines if first <= line["time_ns"] <= last]
        events, _ = read_all(leat.open(trace, begin=first, end=last))
        self.assertEqual(len(events), len(wanted))
        for event, line in zip(events, wanted):
            self.assert_same(event, line)
        name, field = next((line["name"], field) for line in lines for field, value in line["payload"].items()
                           if isinstance(value, int))
        value = next(line["payload"][field] for line in lines if line["name"] == name and field in line["payload"])
        expression = f"{field} == {value}"
        self.assertEqual(len(read_all(leat.open(trace, filter=expression))[0]),
                         len(self.view("--filter", expression, trace)[0]))
        self.assertRaisesRegex(leat.Error, "no_such_field", leat.open, trace, filter="no_such_field == 1")
        self.assertRaisesRegex(leat.Error, ".", leat.open, trace, filter="((")
        self.assertRaisesRegex(leat.Error, "no_such_directory", leat.open, self.directory / "no_such_directory")
        self.assertRaisesRegex(leat.Error, "no path", leat.open)
        self.assertRaisesRegex(leat.Error, "before its begin", leat.open, trace, begin=2, end=1)
        self.assertRaisesRegex(leat.Error, "nowhere", leat.open, b"/nowhere\xff")
        self.assertRaises(ValueError, leat.open, f"{trace}\0x")
        self.assertRaises(ValueError, leat.open(trace).columns, ["name\0x"])
        self.assertRaises(OverflowError, leat.open(trace).columns, rows=-1)
        self.assertEqual(len(list(leat.Reader(str(trace)))), len(list(leat.open(trace))))
        both = leat.open(trace, begin=events[3].time, end=events[7].time)
        self.assertLessEqual({event.time_ns for event in events[3:8]}, {event.time_ns for event in both})

    def test_seek(self):
        """To any time, forwards and backwards, over several packets."""
        trace = self.recorded(20_000)
        times = [line["time_ns"] for line in self.view(trace)[0]]
        reader = leat.open(trace)
        for part in (0, 0.25, 1, 0.001, 0.6, 0.4, 0.9999, 0.0001):
            place = int(part * (len(times) - 1))
            reader.seek(times[place])
            self.assertEqual(next(reader).time_ns, times[place])
            self.assertEqual(len(read_all(reader)[0]), len(times) - times.index(times[place]) - 1)
        reader.seek(times[-1] + 1)
        self.assertEqual(read_all(reader), ([], None))
        reader.seek(datetime.datetime(1980, 1, 1, tzinfo=datetime.timezone.utc))
        self.assertEqual(next(reader).time_ns, times[0])
        # Not beyond what was asked for.
        reader = leat.open(trace, begin=times[100], end=times[200])
        reader.seek(times[50])
        self.assertEqual(next(reader).time_ns, times[100])
        reader.seek(times[200] + 1)
        self.assertEqual(read_all(reader), ([], None))

    def test_seek_where_times_are_narrow(self):
        """They go on from the packet before, which must be read for that."""
        trace = self.directory / "trace"
        trace.mkdir()
        (trace / "metadata").write_text(NARROW_TIMES, encoding="ascii")
        packets, times = b"", []
        for number in range(8):
            begin = number * 3_200_000_000
            of_packet = [begin + 100_000_000, begin + 1_500_000_000, begin + 3_100_000_000]
            events = b"".join(struct.pack("<II", time % 2**32, number) for time in of_packet)
            size = 8 * (36 + len(events))
            packets += struct.pack("<IIIQQQ", 0xC1FC1FC1, 0, begin % 2**32, begin + 3_200_000_000, size, size) + events
            times += of_packet
        (trace / "stream").write_bytes(packets)
        reader = leat.open(trace)
        self.assertEqual([event.time_ns for event in reader], times)
        for place, time in enumerate(times):
            reader.seek(time)
            self.assertEqual([event.time_ns for event in reader], times[place:])

    def test_what_lies_before_is_not_read(self):
        """Here, the first packet of a stream has no events any more."""
        capture = CAPTURES / "live-new-metadata-dlopen/trace"
        times = [line["time_ns"] for line in self.view(capture)[0]]
        trace = shutil.copytree(capture, self.directory / "trace")
        index = next(trace.rglob("ch0_1.idx"))
        entries = index.read_bytes()[16:]
        self.assertGreater(len(entries), 3 * 72)
        offset, content_size = (int.from_bytes(entries[at:at + 8], "big") for at in (0, 16))
        with open(index.parent.parent / index.stem, "r+b") as file:
            file.seek(offset + 100)
            file.write(b"\xff" * (content_size // 8 - 100))
        self.assertIsNotNone(read_all(leat.open(trace))[1])
        reader = leat.open(trace)
        reader.seek(times[-3])
        events, error = read_all(reader)
        self.assertEqual(([event.time_ns for event in events], error), (times[-3:], None))
        result = plain_run(LEAT, "view", "--format=json", f"--begin={times[-3] // 10**9}.{times[-3] % 10**9:09}", trace)
        self.assertEqual((result.returncode, len(result.stdout.splitlines())), (0, 3), result.stderr)

    def test_columns_in_pieces(self):
        trace = self.recorded()
        whole = leat.open(trace).columns(["time_ns", "name", "log_level"])
        reader = leat.open(trace)
        pieces = []
        while len((piece := reader.columns(["time_ns", "name", "log_level"], rows=77))["name"]):
            pieces.append(piece)
        self.assertEqual({len(piece["name"]) for piece in pieces[:-1]}, {77})
        for name, column in whole.items():
            self.assertEqual(list(numpy.ma.concatenate([piece[name] for piece in pieces])), list(column))
        self.assertEqual(whole["time_ns"].dtype, numpy.int64)
        self.assertEqual(list(leat.open(trace).columns([])), [])
        self.assertRaisesRegex(leat.Error, "no_such_field", leat.open(trace).columns, ["no_such_field"])
        # That was no harm.
        reader = leat.open(trace)
        self.assertRaises(leat.Error, reader.columns, ["no_such_field"])
        self.assertEqual(len(reader.columns()["name"]), len(whole["name"]))

    def test_cut_off_traces(self):
        """All that can be read comes first."""
        events = 0
        for number, metadata in enumerate(sorted(CAPTURES.rglob("metadata"))):
            trace = self.directory / str(number)
            shutil.copytree(metadata.parent, trace)
            stream = max((path for path in trace.iterdir() if path.is_file() and path.name != "metadata"),
                         key=lambda path: path.stat().st_size, default=None)
            if stream is None or stream.stat().st_size < 100:
                continue
            os.truncate(stream, stream.stat().st_size - 10)
            events += self.check(trace)
        self.assertGreater(events, 500)

    @needs(can_be_two_users(), "two-users")
    def test_directories_that_may_not_be_read(self):
        """They are an error at the end: nobody takes the rest for all."""
        trace = self.recorded()
        shutil.copytree(trace, self.directory / "hidden" / "trace")
        for path in (self.directory, *self.directory.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (self.directory / "hidden").chmod(0)
        os.seteuid(OTHER)
        self.addCleanup(os.seteuid, 0)
        events, error = read_all(leat.open(self.directory))
        self.assertEqual((len(events), error),
                         (1001, f"cannot read directory {self.directory / 'hidden'}: Permission denied"))

    def test_one_thread_at_a_time(self):
        """Whoever comes while another thread reads gets an exception, or waits for it; both go on."""
        reader = leat.open(self.recorded(20_000))
        counts, errors = [], []

        def read():
            try:
                counts.append(len(reader.columns(["name"])["name"]))
            except RuntimeError as error:
                errors.append(error)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(counts) + len(errors), 4)
        self.assertEqual(max(counts), sum(counts))

    def test_signals_are_noticed_while_it_reads(self):
        class Stop(Exception):
            pass

        def handle(*_):
            try:
                reader.losses()
            except RuntimeError:  # a call of ours is in it
                raise Stop from None

        def is_stopped():
            reader.seek(0)
            try:
                read()
            except Stop:
                return True
            except StopIteration:
                pass
            return False

        reader = leat.open(self.recorded(500_000), filter="n == 1000000000")
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, handle))
        for read in (lambda: next(reader), reader.columns):
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
            try:
                wait_until(is_stopped, "nobody notices the signals")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            self.assertRaisesRegex(leat.Error, "interrupted", read)

    def run_python(self, code, *arguments):
        return plain_run(sys.executable, "-c", f"import sys\nsys.path.insert(0, {str(BUILD / 'python')!r})\n{code}", *arguments)

    @needs(importlib.util.find_spec("_xxsubinterpreters") is not None, "sub-interpreters")
    def test_in_another_interpreter_of_the_process(self):
        trace = self.recorded()
        code = ("import _xxsubinterpreters as interpreters\n"
                "both = [interpreters.create() for _ in range(2)]\n"
                "count = 'import sys; sys.path = %r; import leat; print(sum(1 for _ in leat.open(%r)), flush=True)' % (sys.path, sys.argv[1])\n"
                "for interpreter in both:\n"
                "    try:\n"
                "        interpreters.run_string(interpreter, count)\n"
                "    except interpreters.RunFailedError as error:\n"
                "        print(error, flush=True)\n")
        result = self.run_python(code, trace)
        first, second = result.stdout.splitlines()
        self.assertEqual((result.returncode, result.stderr, int(first)), (0, "", len(self.view(trace)[0])))
        self.assertIn("another interpreter", second)

    def test_process_ends_while_a_thread_reads(self):
        trace = self.recorded(20_000)
        for read in ("list(leat.open(sys.argv[1], filter='n == 1000000000'))", "list(leat.open(sys.argv[1]))",
                     "leat.open(sys.argv[1]).columns()"):
            code = ("import leat, threading\n"
                    "has_read = threading.Event()\n"
                    "def go_on():\n"
                    "    while True:\n"
                    f"        {read}\n"
                    "        has_read.set()\n"
                    "threading.Thread(target=go_on, daemon=True).start()\n"
                    "has_read.wait()\n")
            for _ in range(10):
                self.assertEqual(self.run_python(code, trace).returncode, 0, read)

    def test_files_that_go_are_read_to_their_end(self):
        trace = self.recorded()
        count = len(self.view(trace)[0])
        reader = leat.open(trace)
        next(reader)
        shutil.rmtree(trace)
        self.assertEqual(len(read_all(reader)[0]), count - 1)


if __name__ == "__main__":
    main()
