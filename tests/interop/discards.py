#!/usr/bin/env python3
"""Every reason for discarding events. Each happens, is counted under its name, also in the trace, and the user is told
a remedy."""
import re

from support import HAS_RSEQ, SOURCE, InteropTest, main, needs, program

# By the name in the summary: what the user reads about it.
REASONS = {
    "ring_full": "the rings were full: try a larger --ring-size",
    "too_large": "larger than a quarter of a ring",
    "no_ring": "too many threads at once without rseq",
    "interrupted": "in signal handlers of a thread without rseq, or too many large ones at once",
    "borrowed": "between vfork and exec, in too many processes at once",
    "unreadable": "a traced program wrote over them in its ring",
}


class Discards(InteropTest):
    def check(self, reason):
        recording = self.record(program("discards"), reason, options=("--ring-size", "64K"))
        self.assertEqual(recording.status, 0, recording.stderr)
        emitted, expected = recording.stdout.split()
        trace = self.read_recording(recording)
        count = recording.summary["discarded"]
        # What a program could not write because it had no rings yet is counted beside these (tracer.py).
        self.assertEqual(recording.summary["discarded_by_reason"],
                         {name: count if name == reason else 0 for name in (*REASONS, "not_attached")})
        if expected == "-":
            self.assertGreater(count, 0)
        else:
            self.assertEqual(count, int(expected))
        self.assertEqual(len(trace.lines) + count, int(emitted))
        self.assertEqual([event["n"] for event in trace.events("test:done")], [int(emitted) - 1])
        told = [line for line in recording.stderr.splitlines() if line.startswith("leat: warning: ")]
        self.assertEqual(len(told), 1, recording.stderr)
        self.assertIn(f"{count} event{'s' if count != 1 else ''} discarded: {REASONS[reason]}", told[0])
        self.assertIn(f", {count} discarded; ", recording.stderr)

    def test_ring_full(self):
        self.check("ring_full")

    def test_too_large(self):
        self.check("too_large")

    @needs(not HAS_RSEQ, "rings-of-threads")
    def test_no_ring(self):
        self.check("no_ring")

    def test_interrupted(self):
        self.check("interrupted")

    def test_borrowed(self):
        self.check("borrowed")

    def test_unreadable(self):
        self.check("unreadable")

    def test_no_reason_is_left_out_here(self):
        reasons = re.search(r"enum class DiscardReason.*?\{(.*?)\};",
                            (SOURCE / "src" / "ring" / "ring_format.hpp").read_text(), re.DOTALL)[1]
        names = re.findall(r"^\s*k([A-Za-z]+),", reasons, re.MULTILINE)
        known = [re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower() for name in names]
        self.assertEqual(sorted([*known, "unreadable"]), sorted(REASONS))


if __name__ == "__main__":
    main()
