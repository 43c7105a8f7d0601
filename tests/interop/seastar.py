#!/usr/bin/env python3
"""docs/seastar.md: every piece of its code, built into a reactor with the same names (tests/support/seastar), and the trace that
comes of it."""
import json
import re
import subprocess

from support import LEAT, LIBRARIES, ON_ONE_CPU, PATIENCE, SOURCE, InteropTest, main, without_sanitizers

PIECE = re.compile(r"^```c\+\+\n// (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REACTOR = SOURCE / "tests" / "support" / "seastar"
REQUESTS = 1000
# Each CPU that the program runs on has a packet of its own.


@without_sanitizers
class Recipe(InteropTest):
    def build(self, change=lambda name, text: text):
        """Returns the program. Its code is what the page has, but for the change."""
        pieces = dict(PIECE.findall((SOURCE / "docs" / "seastar.md").read_text()))
        self.assertEqual(set(pieces), {"leat_events.hh", "leat_capture.hh", "queued", "dispatched", "completed", "cancelled", "wait", "task"})
        for name, text in pieces.items():
            (self.directory / (name if "." in name else f"{name}.inc")).write_text(change(name, text))
        program = self.directory / "reactor"
        command = ["g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE / 'include'}", f"-I{self.directory}", f"-I{REACTOR}",
                   REACTOR / "main.cpp", "-o", program, f"-L{LIBRARIES}", f"-Wl,-rpath,{LIBRARIES}", "-lleat-capture", "-lleat"]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return program

    def capture(self, program):
        trace = self.directory / "trace"
        result = subprocess.run([*ON_ONE_CPU, program, trace, str(REQUESTS)], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return self.read(trace)

    def report(self):
        result = subprocess.run([SOURCE / "examples/io_tracer/report", "--leat", LEAT, "--format=json", self.directory / "trace"],
                                capture_output=True, text=True, check=True)
        return json.loads(result.stdout)

    def test_requests(self):
        trace = self.capture(self.build())
        self.assertEqual(len(trace.events("task:begin")), 0)
        report = self.report()
        self.assertEqual(len(trace.lines), report["events"])
        self.assertEqual((report["requests"]["queued"], report["requests"]["completed"], report["requests"]["cancelled"]),
                         (REQUESTS, REQUESTS - REQUESTS // 100, REQUESTS // 100))
        self.assertEqual((report["in_flight"], report["waits"]["begun"]), ([], REQUESTS // 10))
        rows = {(row["class"], row["direction"]): row["queued"] for row in report["classes"]}
        self.assertEqual(rows, {("main", "read"): 333, ("main", "write"): 167, ("streaming", "read"): 333, ("streaming", "write"): 167})
        # 24 bytes a request, and 3 a wait; and what all traces have.
        metadata = (self.directory / "trace" / "metadata").stat().st_size
        self.assertLess((report["bytes_on_disk"] - metadata) / REQUESTS, 25)

    def test_every_task(self):
        trace = self.capture(self.build(lambda name, text: text.replace('"io:*"', '"task:*"')))
        begins = trace.events("task:begin")
        self.assertEqual((len(begins), len(trace.events("task:end"))), (REQUESTS, REQUESTS))
        self.assertEqual({event["group"] for event in begins}, {1})
        stream = sum(file.stat().st_size for file in (self.directory / "trace").glob("channel0_*"))
        self.assertLess(stream, 11 * REQUESTS + 1024)


if __name__ == "__main__":
    main()
