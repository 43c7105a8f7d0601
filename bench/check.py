#!/usr/bin/env python3
"""Runs a benchmark in one quick round and checks its output, so that it cannot rot. The figures themselves mean
nothing.

    bench/check.py BENCH SOURCE BUILD

Every expected row must have a figure for every contender, counts (of bytes, not times) must be exact, and
docs/benchmarks.md must explain every row.
"""

import fnmatch
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BENCH, SOURCE, BUILD = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
HAS_LTTNG = shutil.which("lttng-relayd") is not None and (BUILD / "bin" / "bench-emit-lttng").exists()

ALL = ["leat", "peer", "floor", "copy"]
BOTH = ["leat", "peer"]
RELAYS = ["leat", "peer", "floor", "splice"]
# The rows of a quick round, and the contenders that have a figure in each.
ROWS = {
    "tracer": {
        "tracer/two-integers": ALL, "tracer/string+contexts": ALL, "tracer/two-integers+large-header": ["leat", "floor"],
        "tracer/two-integers+flight-recorder": ["leat", "floor"],
        "tracer/paused-two-integers": ALL, "tracer/disabled": BOTH,
        "tracer/two-integers+contexts+two-sessions": BOTH, "tracer/stopped-session": BOTH,
        "tracer/two-threads-speedup": BOTH,
        **{f"tracer/{kind}-two-integers{what}": ALL for kind in ["warm", "cold"]
           for what in ["", "-p999-gap", "-longest-gap"]},
        **{f"tracer/new-process-two-integers{what}": ["leat", "peer", "floor"]
           for what in ["", "-p999-gap", "-longest-gap"]},
        "size/two-integers+contexts": BOTH, "size/two-integers+large-header": ["leat"], "startup/nothing-running": BOTH},
    "capture": {
        **{f"capture/request-{kind}": ALL[:3] for kind in ["tiny", "compact", "text"]},
        "capture/request-tiny-bytes": BOTH, "capture/request-compact-bytes": BOTH, "capture/request-text-bytes": BOTH,
        "capture/request-off": BOTH, "capture/task-loop-slowdown": ALL[:3]},
    "daemon": {
        "daemon/start-plain": ["floor"],
        **{f"daemon/{row}": BOTH for row in [
            "start-none", "start-idle", "start-active", "start-stopped", "start-stopped-active", "create-enable-start",
            "short-programs-cpu-percent", "all-on", "all-on-rss-mb", "idle-cpu-percent"]}},
    "relay": {
        **{f"relay/{load}{figure}": RELAYS for load in ["", "8-sessions-"]
           for figure in ["mb-per-s", "cpu-s-per-gb", "rss-mb"]},
        **{f"relay/floor-in-place-{figure}": ["floor", "splice"] for figure in ["mb-per-s", "cpu-s-per-gb", "rss-mb"]},
        "relay/streams-1-cpu-us-per-packet": BOTH, "relay/streams-1-viewers-1-polling-cpu-us-per-packet": BOTH,
        "relay/paced-streams-1000-viewers-8-cpu-us-per-packet": ["leat"]},
    "crowd": {
        f"crowd/30-producers-{figure}": BOTH
        for figure in ["descriptors", "rss-mb", "peak-mb", "cpu-us-per-packet", "p50-ms", "p99-ms"]},
    "path": {
        **{f"path/{figure}{suffix}": sides for suffix in ["", "+contexts", "+5M/s", "+5M/s+contexts"]
           for figure, sides in {"offered-m-per-s": BOTH, "discarded-percent": BOTH, "program-ns-per-event": BOTH,
                                 "daemons-cpu-s-per-s": BOTH, "daemons-ns-per-event": BOTH, "bytes-per-event": ["leat"]}.items()}},
    "decode": {
        **{f"decode/{trace}-{figure}": sides
           for trace in ["two-integers", "io-requests", "strings", "allocations", "streams-1", "streams-256", "streams-1024"]
           for figure, sides in {"text": ALL[:3], "text-one-cpu": ALL[:3], "decode-one-cpu": ALL[:3], "memory": BOTH,
                                 "json-one-cpu": ["leat", "floor"]}.items()}},
    "live": {
        **{f"live/{viewer}{percentile}-ms": sides for percentile in ["p50", "p99"]
           for viewer, sides in {"": BOTH, "babeltrace2-": BOTH, "beside-slow-viewer-": ["leat"]}.items()},
        "live/p50-ms+contexts": BOTH, "live/p99-ms+contexts": BOTH, "live/idle-cpu-percent": BOTH},
}
# The least bytes that an event has in the trace; packet headers add less than one. bench:two_integers has 12 bytes of
# fields, bench:string 40; Leat's header has 4, the large one 6, contexts have 25. LTTng's records of
# two integers have 2 bytes more.
BYTES = {"size/two-integers+contexts": {"leat": 41, "peer": 43}, "size/two-integers+large-header": {"leat": 18},
         "path/bytes-per-event": {"leat": 44}, "path/bytes-per-event+contexts": {"leat": 69}}


def run_quickly():
    with tempfile.TemporaryDirectory() as directory:
        result = pathlib.Path(directory) / "rows.json"
        done = subprocess.run([sys.executable, SOURCE / "bench" / f"{BENCH}.py", "--build", BUILD, "--quick",
                               "--json", result], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{BENCH} ended with {done.returncode}:\n{done.stderr}{done.stdout}")
        return done.stdout, json.loads(result.read_text(encoding="ascii"))


def documented_patterns():
    """Names of rows in backquotes, where "*" stands for any text."""
    page = (SOURCE / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    return re.findall(r"`((?:tracer|size|startup|capture|daemon|relay|crowd|path|decode|live)/[^`]+)`", page)


class QuickRound(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text, rows = run_quickly()
        cls.rows = {row["name"]: row for row in rows}
        cls.count = len(rows)

    def test_rows_are_those_expected_and_complete(self):
        self.assertEqual(self.rows.keys(), ROWS[BENCH].keys())
        self.assertEqual(self.count, len(self.rows), "a row comes twice")
        for name, sides in ROWS[BENCH].items():
            expected = {side for side in sides if side != "peer" or HAS_LTTNG}
            row = self.rows[name]
            self.assertEqual({side for side in ["leat", "peer", "floor", "copy", "splice"] if row.get(side) is not None},
                             expected, name)

    def test_medians_lie_within_their_spread(self):
        for name, row in self.rows.items():
            for side, (least, greatest) in row["spread"].items():
                self.assertLessEqual(least, row[side], f"{name}: {side}")
                self.assertLessEqual(row[side], greatest, f"{name}: {side}")
                self.assertGreater(row["samples"][side], 0, f"{name}: {side}")

    def test_bytes_of_an_event(self):
        for name in self.rows.keys() & BYTES.keys():
            for side, least in BYTES[name].items():
                if side == "peer" and not HAS_LTTNG:
                    continue
                self.assertGreaterEqual(self.rows[name][side], least, f"{name}: {side}")
                self.assertLess(self.rows[name][side], least + 1, f"{name}: {side}")

    def test_output_says_what_it_is(self):
        self.assertIn("output on tmpfs; 1 round: ", self.text)
        self.assertIn("THE FIGURES MEAN NOTHING", self.text)
        for row in self.rows.values():
            self.assertEqual((row["file_system"], row["rounds"], row["quick"]), ("tmpfs", 1, True))

    def test_every_row_is_documented(self):
        patterns = documented_patterns()
        self.assertNotEqual(patterns, [])
        for name in self.rows:
            self.assertTrue(any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns),
                            f"docs/benchmarks.md does not name {name}")


if __name__ == "__main__":
    if not HAS_LTTNG:
        print("skipped 'LTTng is not installed: its column is not checked'")
    unittest.main(argv=[sys.argv[0]])
