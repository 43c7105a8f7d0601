#!/usr/bin/env python3
"""Kills the session daemon at random moments while programs emit, and starts it again. At the end every event is in the
trace, once, or it was counted."""
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))

import torture  # noqa: E402
from session_daemons import SessionTest, SessionDaemon, Switched, by_reason, discarded  # noqa: E402
from support import LEAT, PATIENCE, wait_until  # noqa: E402

LONGEST_LIFE = 0.3  # s; of a daemon that is ready
LONGEST_START = 0.03  # s; of one that may still take over
LONGEST_PAUSE = 0.2  # s; without a daemon
RING_SIZE = "512K"
FITTING = 50, 20_000  # events of a burst, us of a pause
OVERFLOWING = 40_000, 500_000  # of the first writer: no ring holds its bursts
INDEX_ENTRY = struct.Struct(">9Q")
VERBS = (("list", "web"), ("rotate", "web"), ("stop", "web"), ("start", "web"), ("enable-event", "load:t*", "-s", "web"),
         ("enable-event", "other:*", "-s", "web"), ("disable-event", "other:*", "-s", "web"))


def parse_arguments():
    made = torture.parser("daemon", __doc__)
    made.add_argument("--writers", type=int, default=8, metavar="N", help="programs that emit; default: 8")
    return torture.options_of(made)


class KillDaemon(SessionTest):
    def setUp(self):
        super().setUp()
        self.source = random.Random(OPTIONS.seed)
        self.current = None
        self.addCleanup(self.end_current)
        self.switches = 0  # how often something may have been switched off
        self.verbs = 0
        self.evaluated = 0
        self.pids = []
        self.paths = [self.directory / f"shared-{number}" for number in range(OPTIONS.writers)]
        self.writers = []

    # The daemon.

    def begin_daemon(self):
        self.current = SessionDaemon(self.runtime, is_awaited=False)

    def end_current(self):
        if self.current:
            self.end_daemon(self.current)
            self.current = None

    def kill_current(self):
        self.kill(self.current)
        self.end_current()

    def kill_once(self):
        """Sometimes while it takes over, or in the middle of a verb; then there is another one."""
        verb = None
        if self.source.random() < 0.2:
            time.sleep(self.source.random() * LONGEST_START)
        else:
            self.current.wait_for_start()
            time.sleep(self.source.random() * LONGEST_LIFE)
            if self.source.random() < 0.4:
                verb = self.begin_verb(self.source.choice(VERBS))
                time.sleep(self.source.random() * 0.02)
            elif self.source.random() < 0.2:
                # Another program takes its place.
                self.current.send_signal(signal.SIGUSR2)
                time.sleep(self.source.random() * LONGEST_START)
        self.kill_current()
        if verb:
            verb.communicate(timeout=PATIENCE)
        if self.source.random() < 0.1:
            self.replace_writer()
        if self.source.random() < 0.5:
            time.sleep(self.source.random() * LONGEST_PAUSE)
        self.begin_daemon()
        if self.source.random() < 0.3:
            self.current.wait_for_start()
            self.make_active()

    def begin_verb(self, words):
        self.verbs += 1
        self.switches += words[0] == "stop"
        return subprocess.Popen([LEAT, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def make_active(self):
        if self.session("web")["state"] != "active":
            self.leat("start", "web")

    # The programs.

    def begin_writer(self):
        pace = FITTING if self.writers else OVERFLOWING
        self.writers.append(Switched(self.paths.pop(), *pace))
        self.addCleanup(self.writers[-1].close)
        self.pids.append(self.writers[-1].pid)

    def end_writer(self, writer):
        self.assertEqual(writer.end(), 0)
        self.evaluated += writer.evaluated()
        self.paths.append(writer.path)

    def replace_writer(self):
        """Not the first one."""
        if len(self.writers) > 1:
            self.end_writer(self.writers.pop(self.source.randrange(1, len(self.writers))))
            self.begin_writer()

    # The trace.

    def read_chunks(self, directory):
        """Returns how many events there are."""
        seen = set()
        for chunk in self.chunks_of(directory):
            for pid, numbers in self.numbers_of(chunk).items():
                drops = sum(after <= before for before, after in zip(numbers, numbers[1:]))
                # The kernel may use a number again.
                self.assertLess(drops, max(1, self.pids.count(pid)), f"order of {pid} in {chunk}")
                twice = seen.intersection((pid, n) for n in numbers)
                if self.pids.count(pid) == 1:
                    self.assertEqual(len(twice), 0, f"in two chunks: {sorted(twice)[:5]}")
                seen.update((pid, n) for n in numbers)
        self.assertLessEqual({pid for pid, _ in seen}, set(self.pids))
        return len(seen)

    def discarded_by_index(self, directory):
        """What the last packets of all streams say."""
        last = {}
        for chunk in self.chunks_of(directory):
            for path in chunk.rglob("*.idx"):
                last[path.relative_to(chunk)] = INDEX_ENTRY.unpack(path.read_bytes()[-INDEX_ENTRY.size:])[5]
        return sum(last.values())

    def test(self):
        self.begin_daemon()
        self.current.wait_for_start()
        directory = self.create("web")
        self.leat("enable-channel", "c", f"--ring-size={RING_SIZE}")
        self.leat("enable-event", "load:*")
        self.leat("start", "web")
        for _ in range(OPTIONS.writers):
            self.begin_writer()
        wait_until(lambda: all(writer.evaluated() > 0 for writer in self.writers), "a program is not traced")
        begin = time.monotonic()
        for _ in range(OPTIONS.kills):
            self.kill_once()
        took = time.monotonic() - begin
        self.current.wait_for_start()
        self.make_active()
        for writer in self.writers:
            self.end_writer(writer)
        counts = self.json("stop", "web")
        self.assertEqual(counts["warnings"], [])
        self.assertEqual(self.session("web")["conflicts"], [])
        self.leat("destroy", "web")
        present = self.read_chunks(directory)
        reasons = by_reason(counts)
        missing = self.evaluated - present - discarded(counts)
        print(f"seed {OPTIONS.seed}: {OPTIONS.kills} kills in {took:.0f} s, {self.verbs} in a verb, "
              f"{len(self.chunks_of(directory))} chunks; {self.evaluated} evaluated, {present} there, {reasons} counted, "
              f"{missing} on their way at {self.switches} stops", flush=True)
        self.assertEqual(present, counts["events"])
        self.assertEqual(self.discarded_by_index(directory), discarded(counts) - reasons.get("not_attached", 0))
        # An event that is on its way when it is switched off is no event: one of each program each time.
        self.assertGreaterEqual(missing, 0)
        self.assertLessEqual(missing, self.switches * OPTIONS.writers)
        self.end_current()
        wait_until(lambda: not self.keepers(), "a keeper is left")


if __name__ == "__main__":
    OPTIONS = parse_arguments()
    torture.run(KillDaemon("test"), OPTIONS)
