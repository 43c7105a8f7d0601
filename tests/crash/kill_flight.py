#!/usr/bin/env python3
"""Kills a program in flight-recorder mode at random moments. Each snapshot holds the last events up to the kill: whole,
in order, without gap, and at least 7/8 of the ring."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))

import torture  # noqa: E402
from session_daemons import Switched, SessionTest  # noqa: E402
from support import PATIENCE, exit_status_of, wait_until  # noqa: E402

LONGEST_LIFE = 0.1  # s; of a program that emits
RING_SIZE = 64 << 10
PACKET_HEADER = 84
LONGEST_RECORD = 64
SIGNALS = signal.SIGKILL, signal.SIGSEGV
HEADERS = "compact", "large", "tiny"


def parse_arguments():
    made = torture.parser("flight", __doc__)
    return torture.options_of(made)


def child_of(process):
    """The program that a recorder has started."""
    return int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


class KillFlight(SessionTest):
    def setUp(self):
        super().setUp()
        self.source = random.Random(OPTIONS.seed)
        self.rounds = self.events = 0

    def kill_once(self, number):
        number_of_signal = self.source.choice(SIGNALS)
        options = ["--flight-recorder", f"--ring-size={RING_SIZE}", f"--header={self.source.choice(HEADERS)}"]
        cpu = self.source.choice(sorted(os.sched_getaffinity(0)))
        name = f"trace-{number}"
        command = self.record_command(["taskset", "-c", str(cpu)], options, name)
        running = Switched(self.directory / "shared", 1, 0, wrapper=command,
                           arguments={"stderr": subprocess.PIPE, "text": True})
        self.addCleanup(running.close)
        wait_until(running.begun, "the program does not begin")
        time.sleep(self.source.random() * LONGEST_LIFE)
        os.kill(child_of(running.process), number_of_signal)
        output, errors = running.process.communicate(timeout=PATIENCE)
        recording = self.recording_of(
            subprocess.CompletedProcess(command, running.process.returncode, output, errors), name)
        self.assertEqual(recording.status, exit_status_of(-number_of_signal), recording.stderr)
        self.check(recording, running.begun())
        shutil.rmtree(recording.path)

    def check(self, recording, begun):
        """The event of the number `begun` was on its way."""
        snapshot, = recording.summary["snapshots"]
        (_, numbers), = self.numbers_of(pathlib.Path(snapshot["directory"])).items()
        self.assertEqual(numbers, list(range(numbers[0], numbers[-1] + 1)), "a gap")
        self.assertIn(numbers[-1], (begun - 1, begun))
        self.assertEqual(snapshot["events"], len(numbers))
        self.assertEqual(snapshot["unreadable"], 0)
        self.assertEqual(recording.summary["discarded"], 0)
        if numbers[0] != 1:
            self.rounds += 1
            self.assertGreaterEqual(snapshot["bytes"] - snapshot["packets"] * PACKET_HEADER,
                                    RING_SIZE * 7 // 8 - LONGEST_RECORD)
        self.events += len(numbers)

    def test(self):
        for number in range(OPTIONS.kills):
            self.kill_once(number)
        print(f"seed {OPTIONS.seed}: {OPTIONS.kills} kills, {self.rounds} when the ring had gone round; "
              f"{self.events} events, each snapshot whole up to the kill", flush=True)
        self.assertGreater(self.rounds, OPTIONS.kills // 2)


if __name__ == "__main__":
    OPTIONS = parse_arguments()
    torture.run(KillFlight("test"), OPTIONS)
