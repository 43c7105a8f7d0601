#!/usr/bin/env python3
"""Messages that nobody can read, on a full disk or with the pipe closed, change nothing else: neither what a command does
nor the status that it ends with."""
import contextlib
import json
import os
import signal
import subprocess

from relays import RELAYD
from session_daemons import SESSIOND
from support import LEAT, PATIENCE, InteropTest, exit_status_of, main, plain_run, program


@contextlib.contextmanager
def full_disk():
    with open("/dev/full", "wb") as file:
        yield file


@contextlib.contextmanager
def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as file:
        yield file


class UnreadMessages(InteropTest):
    def run_unread(self, nowhere, *command, **arguments):
        with nowhere() as messages:
            return subprocess.run(command, stdout=subprocess.PIPE, stderr=messages, text=True, timeout=PATIENCE,
                                  cwd=self.directory, **arguments)

    def test_of_failures(self):
        for command in ([LEAT, "view", "nowhere"], [LEAT, "view", "--bogus"], [LEAT, "view", "--begin=x", "nowhere"],
                        [LEAT, "stats", "nowhere"], [LEAT, "check", "nowhere"], [LEAT, "export", "chrome", "nowhere"],
                        [LEAT, "recover", "nowhere"], [LEAT, "record", "--", "./nowhere"], [LEAT, "destroy", "nowhere"],
                        [RELAYD, "--bogus"], [RELAYD, "-o", "/proc/nowhere"], [SESSIOND, "--bogus"]):
            status = plain_run(*command, cwd=self.directory).returncode
            self.assertIn(status, (1, 2), command)
            self.assertEqual(self.run_unread(full_disk, *command).returncode, status, command)

    def test_of_losses(self):
        trace = self.record(program("discards"), "too_large", options=("--ring-size", "64K"), name="lossy").path
        for options in ([], ["--format=json"], ["--format=csv"], ["--format=none"]):
            read = plain_run(LEAT, "view", *options, trace)
            self.assertIn("discarded", read.stderr)
            for nowhere in (full_disk, closed_pipe):
                unread = self.run_unread(nowhere, LEAT, "view", *options, trace)
                self.assertEqual((unread.returncode, unread.stdout), (0, read.stdout), (options, nowhere))

    def test_of_findings(self):
        trace = self.record(program("emit"), "100", name="broken").path
        stream = max(trace.rglob("channel0_*"), key=lambda path: path.stat().st_size)
        with open(stream, "ab") as file:
            file.write(b"no packet" * 100)
        self.assertEqual(self.run_unread(full_disk, LEAT, "repair", trace, "-o", "whole").returncode,
                         plain_run(LEAT, "repair", trace, "-o", self.directory / "again").returncode)
        self.assertEqual(plain_run(LEAT, "check", self.directory / "whole").returncode, 0)

    def test_of_a_recorder(self):
        for nowhere in (full_disk, closed_pipe):
            name = nowhere.__name__
            result = self.run_unread(nowhere, LEAT, "record", "-o", name, "--summary", f"{name}.json", "--", program("emit"), "6",
                                     "1", "exit3")
            self.assertEqual(result.returncode, 3, nowhere)
            self.assertEqual(json.loads((self.directory / f"{name}.json").read_text(encoding="utf-8"))["events"], 7)

    def test_of_a_flight_recorder(self):
        for nowhere in (full_disk, closed_pipe):
            name = nowhere.__name__
            result = self.run_unread(nowhere, LEAT, "record", "--flight-recorder", "-o", name, "--summary", f"{name}.json", "--",
                                     program("flight"), "100", "exit", input="q")
            self.assertEqual(result.returncode, 0, nowhere)
            summary = json.loads((self.directory / f"{name}.json").read_text(encoding="utf-8"))
            self.assertEqual([snapshot["reason"] for snapshot in summary["snapshots"]], ["at the end"])

    def test_program_gets_the_signal_as_the_recorder_did(self):
        for action, status, said in ((signal.SIG_DFL, 128 + signal.SIGPIPE, ""), (signal.SIG_IGN, 0, "it lives\n")):
            result = plain_run(LEAT, "record", "-o", f"trace{status}", "--preload", "libc", "sh", "-c", "kill -PIPE $$; echo it lives",
                               cwd=self.directory, restore_signals=False,
                               preexec_fn=lambda action=action: signal.signal(signal.SIGPIPE, action))
            self.assertEqual((exit_status_of(result.returncode), result.stdout), (status, said), result.stderr)


if __name__ == "__main__":
    main()
