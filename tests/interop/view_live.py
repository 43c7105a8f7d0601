#!/usr/bin/env python3
"""Traces that are viewed while they are recorded: through a relay, and on disk."""
import json
import signal
import subprocess
import time

import support
from relays import LeatRelay

# A program a tenth of a second, ten of them.
PACED = "for i in 1 2 3 4 5 6 7 8 9 10; do %s 50 2 >/dev/null; sleep 0.1; done" % support.program("emit")
EVENTS = 10 * (2 * 50 + 1)


class LiveView(support.InteropTest):
    def start(self, command, **arguments):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **arguments)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
            process.communicate()
        process.stdout.close()
        process.stderr.close()

    def finish(self, process):
        """All that it printed."""
        output, errors = process.communicate(timeout=30)
        self.assertEqual((process.returncode, errors), (0, ""))
        return output

    def view_of(self, path):
        return subprocess.run([support.LEAT, "view", str(path)], capture_output=True, text=True).stdout

    def assert_all_printed(self, viewers, path):
        for viewer in viewers:
            printed = self.finish(viewer)
            self.assertEqual(len(printed.splitlines()), EVENTS)
            self.assertEqual(support.lines_of(printed), support.lines_of(self.view_of(path)))

    def test_follow_a_recording(self):
        trace = self.directory / "trace"
        recorder = self.start(self.record_command(["sh", "-c", PACED]))
        support.wait_until(lambda: list(trace.rglob("metadata")), "the metadata")
        follow = [support.LEAT, "view", "--follow", str(trace)]
        first, second, killed, interrupted = (self.start(follow) for _ in range(4))
        self.assertIn("test:", killed.stdout.readline())
        killed.kill()
        self.assertIn("test:", interrupted.stdout.readline())
        interrupted.send_signal(signal.SIGINT)
        self.finish(interrupted)
        recorder.communicate(timeout=30)
        self.assert_all_printed((first, second), trace)

    def test_follow_traces_that_come_later(self):
        first = self.start(self.record_command(["sh", "-c", PACED], name="all/first"))
        support.wait_until(lambda: list(self.directory.rglob("metadata")), "the metadata")
        follower = self.start([support.LEAT, "view", "--follow", str(self.directory / "all")])
        time.sleep(0.3)
        second = self.start(self.record_command(["sh", "-c", PACED], name="all/second"))
        for recorder in (first, second):
            recorder.communicate(timeout=30)
        printed, errors = follower.communicate(timeout=30)
        # What the second one had to say first, the first one may have been ahead of.
        self.assertRegex(errors, r"\A(leat: warning: events came too late to be shown in order\n)?\Z")
        self.assertEqual((follower.returncode, len(printed.splitlines())), (0, 2 * EVENTS))

    def test_follower_of_a_killed_writer_ends(self):
        trace = self.directory / "trace"
        recorder = self.start(self.record_command([support.program("paced"), "1000", "10000"]))
        support.wait_until(lambda: list(trace.rglob("metadata")), "the metadata")
        [directory] = [path.parent for path in trace.rglob("metadata")]
        followers = [self.start([support.LEAT, "view", "--follow", str(path)]) for path in (trace, directory)]
        for follower in followers:
            self.assertIn("test:", follower.stdout.readline())
        recorder.kill()
        for follower in followers:
            self.finish(follower)

    def test_follow_what_is_finished(self):
        recording = self.record(support.program("emit"), "20")
        followed = subprocess.run([support.LEAT, "view", "--follow", str(recording.path)], capture_output=True, text=True,
                                  timeout=10)
        self.assertEqual(support.lines_of(followed.stdout), support.lines_of(self.view_of(recording.path)))

    def test_session_of_a_relay(self):
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        recorder = self.start([support.LEAT, "record", f"--live={relay.url}", "--",
                               "sh", "-c", PACED])
        listing = [support.LEAT, "view", "--format=json", f"net://127.0.0.1:{relay.live}"]
        sessions = support.wait_until(lambda: json.loads(self.finish(self.start(listing))), "the session")
        url = sessions[0]["url"]
        self.assertIn(url, self.finish(self.start([support.LEAT, "view", f"net://127.0.0.1:{relay.live}"])))
        first, second, interrupted = (self.start([support.LEAT, "view", url]) for _ in range(3))
        self.assertIn("test:", interrupted.stdout.readline())
        interrupted.send_signal(signal.SIGINT)
        self.finish(interrupted)
        recorder.communicate(timeout=30)
        self.assert_all_printed((first, second), self.directory / "relay")

    def test_relay_that_is_not_there(self):
        view = subprocess.run([support.LEAT, "view", "net://127.0.0.1:1"], capture_output=True, text=True)
        self.assertEqual(view.returncode, 1)
        self.assert_one_line(view.stderr, "127.0.0.1:1", "Connection refused")


if __name__ == "__main__":
    support.main()
