#!/usr/bin/env python3
"""`leat check` finds what is wrong with a trace; `leat repair` makes a trace of the rest, which every reader reads."""
import json
import os
import random as random_module
import shutil

import ctf_random
from random_traces import damage
from support import LEAT, SOURCE, InteropTest, Trace, main, plain_run, program

CAPTURES = SOURCE / "tests" / "data" / "captures"
SEEDS = int(os.environ.get("LEAT_TRACES", "60"))


class CheckTest(InteropTest):
    def recorded(self, count=3000):
        """Of several packets in a file."""
        trace = self.record(program("emit"), str(count), name="trace", options=("--ring-size", "64K", "--mode=blocking"),
                            env={"LEAT_ALLOW_BLOCKING": "1"}).path
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
        for command in (["check"], ["repair", "-o", self.directory / "repaired"]):
            result = plain_run(LEAT, *command, trace)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assert_one_line(result.stderr, "metadata")

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

    def test_nowhere(self):
        result = plain_run(LEAT, "repair", self.recorded(), "-o", "")
        self.assertEqual(result.returncode, 1)
        self.assert_one_line(result.stderr, "--output is empty")

    def test_there_is_something_already(self):
        trace = self.recorded()
        (self.directory / "there").mkdir()
        result = plain_run(LEAT, "repair", trace, "-o", self.directory / "there")
        self.assertEqual(result.returncode, 1)
        self.assert_one_line(result.stderr, "exists")

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
