#!/usr/bin/env python3
"""`leat check` finds what is wrong with a trace; `leat repair` makes a trace of the rest, which every reader reads."""
import csv
import json
import os
import random as random_module
import resource
import shutil
import struct
import subprocess

import ctf_random
from random_traces import damage
from session_daemons import as_user
from support import (LEAT, ON_ONE_CPU, SOURCE, InteropTest, Trace, can_be_two_users, main, needs, plain_run, program,
                     wait_until)

# Bytes from the begin of a packet of ours.
STREAM_ID, BEGIN, PACKET_SIZE, FIRST_EVENT = 20, 32, 56, 84
CAPTURES = SOURCE / "tests" / "data" / "captures"
SEEDS = int(os.environ.get("LEAT_TRACES", "60"))
OTHER = 1000  # who is not root

# Of a trace whose packets do not say when they end.
MADE_METADATA = """/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; uuid = "00000000-0000-0000-0000-000000000001";
    packet.header := struct { integer { size = 32; align = 8; } magic;
                              integer { size = 64; align = 8; } stream_instance_id; }; };
clock { name = c; freq = 1000000000; absolute = true; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
stream {
    packet.context := struct { time timestamp_begin; integer { size = 64; align = 8; } content_size; };
    event.header := struct { time timestamp; }; };
event { name = e; fields := struct { integer { size = 32; align = 8; } n; }; };
"""


def made_packet(begin, events):
    """Of the times and the numbers of its events."""
    bits = 8 * (28 + 12 * len(events))
    return struct.pack("<IQQQ", 0xc1fc1fc1, 0, begin, bits) + b"".join(struct.pack("<QI", *event) for event in events)


class CheckTest(InteropTest):
    def recorded(self, count=3000):
        """Of one file, with several packets."""
        trace = self.record(*ON_ONE_CPU, program("emit"), str(count), name="trace",
                            options=("--ring-size", "64K", "--mode=blocking"), env={"LEAT_ALLOW_BLOCKING": "1"}).path
        self.assertEqual(Trace(trace).discarded(), 0)
        return trace

    def largest(self, trace):
        return max((path for path in trace.rglob("*_*") if path.is_file() and path.parent.name != "index"),
                   key=lambda path: path.stat().st_size)

    def packets(self, path):
        """Offset and size of each, from the index."""
        data = (path.parent / "index" / f"{path.name}.idx").read_bytes()
        entries = [data[at:at + 72] for at in range(16, len(data), 72)]
        return [(int.from_bytes(entry[:8], "big"), int.from_bytes(entry[8:16], "big") // 8) for entry in entries]

    def check(self, trace, status):
        result = plain_run(LEAT, "check", "--format=json", trace)
        found = json.loads(result.stdout)
        status = int(not found["ok"]) if status is None else status
        self.assertEqual((result.returncode, result.stderr), (status, ""))
        self.assertEqual(found["ok"], status == 0)
        self.assertEqual(len(found["findings"]), found["finding_count"])
        return found

    def repair(self, trace):
        output = self.directory / "repaired"
        result = plain_run(LEAT, "repair", trace, "-o", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check(output, 0)
        repaired = Trace(output)
        self.assertEqual(repaired.status, 0, repaired.stderr)
        ours = plain_run(LEAT, "view", output)
        self.assertEqual((ours.returncode, ours.stdout), (0, repaired.text))
        return repaired

    def size_of_streams(self, trace):
        return sum(path.stat().st_size for path in trace.rglob("*_*") if path.is_file() and path.parent.name != "index")

    def two_directories(self, count=20_000):
        """A trace in two directories of one UUID, as two snapshots that have all packets in common."""
        first = next(self.recorded(count).rglob("metadata")).parent
        second = self.directory / "both" / "second"
        (self.directory / "both").mkdir()
        first = first.rename(self.directory / "both" / "first")
        shutil.copytree(first, second)
        return self.directory / "both", first, second

    def change(self, path, offset, value, size=8):
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(value.to_bytes(size, "little"))

    def value(self, path, offset, size=8):
        return int.from_bytes(path.read_bytes()[offset:offset + size], "little")

    def assert_found(self, found, path, offset, word):
        self.assertTrue(any(finding["file"] == str(path) and finding["offset"] == offset and word in finding["what"]
                            for finding in found["findings"]), found["findings"])


class Sound(CheckTest):
    def test_what_is_recorded_here(self):
        trace = self.recorded()
        found = self.check(trace, 0)
        self.assertEqual((found["events"], found["lost_bytes"], found["findings"]), (len(Trace(trace).lines), 0, []))
        result = plain_run(LEAT, "check", trace)
        self.assertRegex(result.stdout, r"^nothing is wrong: 3001 events in \d+ packets can be read, 0 B cannot\n$")

    def test_captures_that_babeltrace2_reads(self):
        checked = 0
        for metadata in sorted(CAPTURES.rglob("metadata")):
            trace = metadata.parent
            if plain_run(LEAT, "view", trace, errors="replace").returncode == 0 and (trace.parent / "README").exists():
                found = self.check(trace, None)
                self.assertEqual(found["lost_bytes"], 0, trace)
                self.assertEqual([finding for finding in found["findings"] if "/index/" not in finding["file"]], [])
                checked += 1
        self.assertGreater(checked, 20)


class Damaged(CheckTest):
    def test_file_that_is_cut_short(self):
        trace = self.recorded()
        lines = Trace(trace).lines
        path = self.largest(trace)
        offset, size = self.packets(path)[-1]
        with open(path, "r+b") as file:
            file.truncate(offset + size // 2)
        found = self.check(trace, 1)
        self.assert_found(found, path, offset, "cut short")
        self.assertEqual(found["lost_bytes"], size // 2)
        repaired = self.repair(trace)
        self.assertEqual(len(repaired.lines), found["events"])
        self.assertLess(set(repaired.lines), set(lines))

    def test_damage_in_the_middle(self):
        """The packets in front of it and behind it are kept."""
        trace = self.recorded(20_000)
        path = self.largest(trace)
        packets = self.packets(path)
        self.assertGreater(len(packets), 2)
        offset, size = packets[1]
        events = len(Trace(trace).lines)
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(b"\xff" * min(size, 200))
        found = self.check(trace, 1)
        self.assert_found(found, path, offset, "")
        self.assertEqual(found["lost_bytes"], size)
        repaired = self.repair(trace)
        self.assertEqual(len(repaired.lines), found["events"])
        self.assertLess(found["events"], events)
        self.assertEqual(self.largest(self.directory / "repaired").stat().st_size, sum(size for _, size in packets) - size)

    def test_end_that_is_damaged(self):
        """One packet says that it ends in years: it is lost, and none of those that begin before that."""
        trace = self.recorded(20_000)
        path = self.largest(trace)
        offset, size = self.packets(path)[1]
        entry = (path.parent / "index" / f"{path.name}.idx").read_bytes()[16 + 72:]
        data = bytearray(path.read_bytes())
        end = data.index(int.from_bytes(entry[32:40], "big").to_bytes(8, "little"), offset)
        data[end + 6] = 0x20
        path.write_bytes(data)
        found = self.check(trace, 1)
        self.assert_found(found, path, offset, "ends after the begin of the next")
        self.assertEqual(found["lost_bytes"], size)
        self.assertEqual(len(self.repair(trace).lines), found["events"])

    def test_metadata_that_is_cut_short(self):
        trace = self.recorded()
        metadata = next(trace.rglob("metadata"))
        with open(metadata, "ab") as file:
            file.write(b"event { name = ")
        self.assert_found(self.check(trace, 1), metadata, None, "")
        self.assertEqual(len(self.repair(trace).lines), 3001)

    def test_metadata_that_makes_no_sense(self):
        trace = self.recorded()
        metadata = next(trace.rglob("metadata"))
        metadata.write_bytes(b"nothing")
        found = self.check(trace, 1)
        self.assert_found(found, metadata, None, "neither")
        self.assertEqual((found["events"], found["lost_bytes"]), (0, self.size_of_streams(trace)))
        result = plain_run(LEAT, "repair", trace, "-o", self.directory / "repaired")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn("no trace is made", result.stdout)
        self.assertFalse((self.directory / "repaired").exists())
        told = json.loads(plain_run(LEAT, "repair", trace, "-o", self.directory / "repaired", "--format=json").stdout)
        self.assertEqual((told["ok"], told.get("output")), (False, None))

    def test_index_that_is_wrong(self):
        trace = self.recorded(20_000)
        path = self.largest(trace)
        index = path.parent / "index" / f"{path.name}.idx"
        data = bytearray(index.read_bytes())
        data[16 + 72 + 7] ^= 1
        index.write_bytes(data[:-1])
        found = self.check(trace, 1)
        self.assert_found(found, index, 16 + 72, "no whole packet")
        self.assert_found(found, index, len(data) - 72, "cut short")
        self.assertEqual(found["lost_bytes"], 0)
        self.assertEqual(self.repair(trace).text, Trace(trace).text)
        told = json.loads(plain_run(LEAT, "repair", trace, "-o", self.directory / "again", "--format=json").stdout)
        self.assertEqual((told["ok"], told["output"], told["finding_count"]),
                         (True, str(self.directory / "again"), len(found["findings"])))

    def test_file_that_is_gone(self):
        trace = self.recorded(20_000)
        path = self.largest(trace)
        path.unlink()
        found = self.check(trace, 1)
        index = path.parent / "index" / f"{path.name}.idx"
        self.assertEqual([finding["what"] for finding in found["findings"] if finding["file"] == str(index)],
                         ["the file whose packets it names is not there"])

    def test_nowhere(self):
        result = plain_run(LEAT, "repair", self.recorded(), "-o", "")
        self.assertEqual(result.returncode, 2)
        self.assert_one_line(result.stderr, "--output is empty")

    def test_wrong_use_is_told_in_json(self):
        for command in ("check", "repair", "stats", "recover"):
            result = plain_run(LEAT, command, "--format=json", "--bogus", self.directory)
            self.assertEqual(result.returncode, 2)
            answer = json.loads(result.stdout)
            self.assertEqual((answer["ok"], answer["kind"]), (False, "usage"), command)
            self.assertIn(f"see leat {command} --help", answer["error"])
        self.assertEqual(plain_run(LEAT, "view", "--format=json", "--bogus", self.directory).stdout, "")

    def test_empty_value_does_not_take_the_next_word(self):
        for command, option in ((["stats"], "--interval"), (["repair"], "--output"), (["create"], "--shm-path"),
                                (["snapshot", "record"], "--session"), (["list"], "--format")):
            result = plain_run(LEAT, *command, f"{option}=", "--format=json", self.directory, cwd=self.directory)
            self.assertEqual(result.returncode, 2, result)
            self.assertIn(option, json.loads(result.stdout)["error"] if option != "--format" else result.stderr)
        self.assertEqual(list(self.directory.iterdir()), [])

    @needs(can_be_two_users(), "two-users")
    def test_directories_that_may_not_be_read(self):
        """What can be is, and what cannot is told."""
        trace = self.recorded()
        events = self.check(trace, 0)["events"]
        hidden = trace.parent / "hidden"
        shutil.copytree(trace, hidden / "below" / "trace")
        self.directory.chmod(0o755)
        for path in (self.directory, *self.directory.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        for mode in (0o700, 0o744, 0o711):
            hidden.chmod(mode)
            other = as_user(OTHER)
            found = json.loads(plain_run(LEAT, "check", "--format=json", self.directory, **other).stdout)
            self.assertEqual((found["ok"], found["events"]), (False, events))
            self.assert_found(found, hidden, None, "may not be read")
            for command in (["view"], ["view", "--format=csv"], ["stats"], ["export", "chrome"]):
                result = plain_run(LEAT, *command, self.directory, **other)
                self.assertEqual(result.returncode, 1, command)
                self.assertIn(f"leat: warning: cannot read directory {hidden}: Permission denied\n", result.stderr)
                self.assertRegex(result.stderr, r"\nleat: what is in (1 directory|2 directories) that cannot be read is missing\n$")
                self.assertNotEqual(result.stdout, "")
            result = plain_run(LEAT, "view", hidden, **other)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assert_one_line(result.stderr, f"cannot read directory {hidden}: Permission denied")

    def test_there_is_something_already(self):
        trace = self.recorded()
        (self.directory / "there").mkdir()
        result = plain_run(LEAT, "repair", trace, "-o", self.directory / "there")
        self.assertEqual(result.returncode, 1)
        self.assert_one_line(result.stderr, "exists")

    def test_stream_id_of_the_first_packet(self):
        """It costs that packet: most say of which stream the file is."""
        trace = self.recorded(20_000)
        path = self.largest(trace)
        self.change(path, STREAM_ID, 1, 4)
        metadata = next(trace.rglob("metadata"))
        events = metadata.read_text().split("\nevent {")[1:]
        others = ("\nevent {" + event.replace("stream_id = 0", "stream_id = 1") for event in events if "stream_id = 0" in event)
        metadata.write_text(metadata.read_text() + "".join(others))
        found = self.check(trace, 1)
        self.assert_found(found, path, 0, "unlike most in the file")
        self.assertEqual(found["lost_bytes"], self.packets(path)[0][1])
        self.repair(trace)

    def test_packet_that_swallows_others(self):
        trace = self.recorded(20_000)
        path = self.largest(trace)
        (offset, size), (_, swallowed), *_ = self.packets(path)
        self.change(path, offset + PACKET_SIZE, 8 * (size + swallowed))
        found = self.check(trace, 1)
        self.assert_found(found, path, offset, f"another one begins at offset {size}")
        self.assertEqual(found["lost_bytes"], size)
        self.repair(trace)

    def test_begin_that_is_not_in_order(self):
        """It is said of the packet that is damaged, and not of those behind it."""
        trace = self.recorded(20_000)
        path = self.largest(trace)
        offset, size = self.packets(path)[1]
        last, _ = self.packets(path)[-1]
        self.change(path, offset + BEGIN, self.value(path, last + BEGIN) + 1_000_000_000_000)
        found = self.check(trace, 1)
        self.assert_found(found, path, offset, "begin of the packet is not between those of its neighbours")
        self.assertEqual({finding["offset"] for finding in found["findings"] if finding["file"] == str(path)}, {offset})
        self.assertEqual(found["lost_bytes"], size)
        self.repair(trace)

    def test_packet_that_is_sound_in_another_snapshot(self):
        both, first, _ = self.two_directories()
        expected = self.check(both, 0)
        path = self.largest(first)
        offset, size = self.packets(path)[1]
        self.change(path, offset + FIRST_EVENT, 0x1e, 1)  # an event that is not declared
        found = self.check(both, 1)
        self.assert_found(found, path, offset, "")
        self.assertEqual((found["events"], found["packets"]), (expected["events"], expected["packets"]))
        self.assertEqual(found["lost_bytes"], size)
        self.repair(both)

    def test_same_packet_with_other_content(self):
        """The first that can be read is read; of the other it is told."""
        both, _, second = self.two_directories()
        path = self.largest(second)
        offset, size = self.packets(path)[1]
        self.change(path, offset + FIRST_EVENT + 12, self.value(path, offset + FIRST_EVENT + 12, 1) ^ 1, 1)
        found = self.check(both, 1)
        self.assert_found(found, path, offset, "not equal")
        self.assertEqual(found["lost_bytes"], size)
        self.repair(both)

    def test_twins_that_viewers_do_not_take_for_twins(self):
        """A packet is passed over if it is a twin of the last one that was read, from another file."""
        one = made_packet(1000, [(1000, 1)])
        bad = made_packet(1000, [(999, 1)])
        longer = made_packet(1000, [(1000, 2), (1010, 3)])
        later = made_packet(1000, [(1005, 4)])
        for number, (first, second, told) in enumerate([
                ([one], [one], [1]),
                ([bad], [one, one], [1, 1]),
                ([one, longer], [one], [1, 2, 3]),
                ([one, longer], [later], [1, 2, 3]),
        ]):
            with self.subTest(number=number):
                trace = self.directory / f"twins-{number}"
                for name, packets in (("first", first), ("second", second)):
                    (trace / name).mkdir(parents=True)
                    (trace / name / "metadata").write_text(MADE_METADATA)
                    (trace / name / "stream").write_bytes(b"".join(packets))
                found = self.check(trace, None)
                output = self.directory / f"repaired-{number}"
                self.assertEqual(plain_run(LEAT, "repair", trace, "-o", output).returncode, 0)
                seen = plain_run(LEAT, "view", "--format=csv", output)
                self.assertEqual((seen.returncode, seen.stderr), (0, ""))
                numbers = [int(row["n"]) for row in csv.DictReader(seen.stdout.splitlines())]
                self.assertEqual(numbers, told)
                self.assertEqual(found["events"], len(numbers))
                self.check(output, 0)

    def test_metadata_of_one_directory_of_two(self):
        """Its packets can be read by those of the other."""
        both, first, second = self.two_directories()
        expected = Trace(both).text
        (first / "metadata").write_bytes(b"nothing")
        for path in second.glob("channel*"):
            path.unlink()
        found = self.check(both, 1)
        self.assertEqual(found["lost_bytes"], 0)
        self.assertEqual(self.repair(both).text, expected)

    def test_metadata_that_declare_something_else(self):
        """Each directory is read by its own, and is a trace of its own."""
        both, first, second = self.two_directories()
        text = (second / "metadata").read_text()
        (second / "metadata").write_text(text.replace("test:count", "test:other"))
        found = self.check(both, 0)
        alone = self.check(first, 0)
        self.assertEqual((found["events"], found["packets"]), (2 * alone["events"], 2 * alone["packets"]))
        shown = plain_run(LEAT, "view", both)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual((shown.stdout.count(" test:other: "), shown.stdout.count(" test:count: ")), (20_000, 20_000))
        self.repair_alone(both)

    def test_metadata_that_were_regenerated(self):
        """They declare the same, with another clock: it is one trace, whose packets are told once."""
        both, first, second = self.two_directories()
        text = (second / "metadata").read_text()
        (second / "metadata").write_text(text.replace("offset_s = 0", "offset_s = 77"))
        self.assertEqual(self.check(both, 0)["events"], self.check(first, 0)["events"])
        self.assertEqual(plain_run(LEAT, "view", both).stdout, plain_run(LEAT, "view", first).stdout)
        self.repair(both)

    def repair_alone(self, trace):
        result = plain_run(LEAT, "repair", trace, "-o", self.directory / "alone")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.check(self.directory / "alone", 0)["events"], self.check(trace, None)["events"])

    def test_bytes_that_seem_to_be_packets_everywhere(self):
        """The work is bounded, and the user is told of what is not searched."""
        trace = self.directory / "many"
        trace.mkdir()
        uuid = bytes(range(16))
        (trace / "metadata").write_text("/* CTF 1.8 */\n" + f"""trace {{ major = 1; minor = 8; byte_order = le;
            uuid = "{uuid.hex()[:8]}-{uuid.hex()[8:12]}-{uuid.hex()[12:16]}-{uuid.hex()[16:20]}-{uuid.hex()[20:]}";
            packet.header := struct {{ integer {{ size = 32; align = 8; }} magic;
                                       integer {{ size = 8; align = 8; }} uuid[16]; }}; }};
            event {{ name = a; fields := struct {{ integer {{ size = 8; align = 8; }} n;
                                                   integer {{ size = 8; align = 8; }} values[n]; }}; }};""")
        (trace / "stream").write_bytes((bytes.fromhex("c11ffcc1") + uuid) * 20_000 + b"\xff")
        found = self.check(trace, 1)
        self.assertIn("too much is damaged", found["findings"][-1]["what"])
        self.assertEqual(found["lost_bytes"], 20 * 20_000 + 1)
        self.assertLessEqual(found["finding_count"], 2)

    def test_clocks_that_cannot_be_compared(self):
        first = self.recorded().rename(self.directory / "first")
        second = self.recorded()
        metadata = next(second.rglob("metadata"))
        metadata.write_text(metadata.read_text().replace("absolute = true", "absolute = false"))
        for trace in (first, second):
            self.check(trace, 0)
        result = plain_run(LEAT, "check", "--format=json", first, second)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("cannot be compared", result.stdout)

    def test_trace_that_is_named_twice(self):
        trace = self.recorded()
        (self.directory / "link").symlink_to(trace)
        once = self.check(trace, 0)
        result = plain_run(LEAT, "check", "--format=json", trace, self.directory / "link", trace.parent / "." / trace.name)
        self.assertEqual(json.loads(result.stdout), once)
        shown = plain_run(LEAT, "view", trace, self.directory / "link")
        self.assertEqual((shown.returncode, shown.stdout), (0, plain_run(LEAT, "view", trace).stdout))

    def test_while_it_is_recorded(self):
        """Whatever is there when, nothing is wrong with it."""
        trace = self.directory / "live"
        with subprocess.Popen([LEAT, "record", "-o", trace, "--ring-size", "64K", "--", program("emit"), "1000000000000"],
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as recorder:
            try:
                wait_until(lambda: self.size_of_streams(trace) > 0, "events")
                for _ in range(5):
                    size = self.size_of_streams(trace)
                    self.check(trace, 0)
                    wait_until(lambda size=size: self.size_of_streams(trace) > size, "more events")
            finally:
                recorder.terminate()
        self.check(trace, 0)

    def test_output_that_cannot_be_written(self):
        """Nothing is left of it, and the file is named."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

        trace = self.recorded(20_000)
        before = sorted(self.directory.iterdir())
        result = plain_run(LEAT, "repair", trace, "-o", self.directory / "new", preexec_fn=limit)
        self.assertEqual(result.returncode, 1)
        self.assert_one_line(result.stderr, "File too large")
        self.assertIn(self.largest(trace).name, result.stderr)
        self.assertEqual(sorted(self.directory.iterdir()), before)

    def test_output_inside_of_what_is_read(self):
        trace = self.recorded()
        inside = next(trace.rglob("metadata")).parent / "new"
        result = plain_run(LEAT, "repair", trace, "-o", inside)
        self.assertEqual(result.returncode, 1)
        self.assert_one_line(result.stderr, "is inside of")

    def test_output_inside_by_another_way(self):
        trace = self.recorded()
        (self.directory / "elsewhere" / "sub").mkdir(parents=True)
        (self.directory / "link").symlink_to(self.directory / "elsewhere" / "sub")
        for inside in (trace / "new", self.directory / "link" / ".." / ".." / trace.name / "new"):
            result = plain_run(LEAT, "repair", trace, "-o", inside)
            self.assertEqual(result.returncode, 1)
            self.assert_one_line(result.stderr, "is inside of")
        result = plain_run(LEAT, "repair", trace, "-o", self.directory / "link" / ".." / "new")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check(self.directory / "elsewhere" / "new", 0)

    def test_damaged_packet_is_told_once(self):
        """Its index entry, which is right, is not."""
        trace = self.recorded(20_000)
        path = self.largest(trace)
        offset, _ = self.packets(path)[1]
        self.change(path, offset, 0, 4)
        self.assertEqual(self.check(trace, 1)["finding_count"], 1)

    def test_packets_within_the_padding_of_others(self):
        """None of them is later: the work is that of reading them once."""
        trace = self.recorded(2000)
        path = self.largest(trace)
        offset, size = self.packets(path)[0]
        packet = path.read_bytes()[:size]
        count = 300
        path.write_bytes(packet * count)
        for number in range(count):
            self.change(path, number * size + PACKET_SIZE, 8 * (count - number) * size)
        found = self.check(trace, 1)
        self.assertEqual(found["packets"], 1)

    def test_output_with_a_slash_and_parents(self):
        result = plain_run(LEAT, "repair", self.recorded(), "-o", f"{self.directory}/a/b/")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(os.listdir(self.directory / "a"), ["b"])
        self.check(self.directory / "a" / "b", 0)

    def test_name_that_controls_terminals(self):
        directory = self.directory / "evil\x1b[31m"
        directory.mkdir()
        for command in ("check", "view"):
            result = plain_run(LEAT, command, directory)
            self.assertEqual(result.returncode, 1)
            self.assert_one_line(result.stderr, "evil?[31m")

    def test_damage_of_any_kind(self):
        """Whatever has become of a trace: what is repaired is read to its end."""
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                trace, output = self.directory / str(seed), self.directory / f"{seed}-repaired"
                ctf_random.write_traces(seed, trace)
                damage(trace, random_module.Random(seed))
                self.assertIn(plain_run(LEAT, "check", trace, errors="replace").returncode, (0, 1))
                result = plain_run(LEAT, "repair", trace, "-o", output, errors="replace")
                if result.returncode != 0:
                    self.assertTrue(result.stderr.startswith("leat: ") or result.stdout.startswith("0 events in "), result)
                    continue
                shown = plain_run(LEAT, "view", output, errors="replace")
                self.assertEqual((shown.returncode, [line for line in shown.stderr.splitlines() if not line.startswith("WARNING")]), (0, []))
                shutil.rmtree(trace)


if __name__ == "__main__":
    main()
