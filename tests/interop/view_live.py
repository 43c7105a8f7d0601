#!/usr/bin/env python3
"""Traces that are viewed while they are recorded: through a relay, and on disk."""
import json
import os
import signal
import subprocess
import time

import support
from relays import LeatRelay

# A program a tenth of a second, ten of them.
PACED = "for i in 1 2 3 4 5 6 7 8 9 10; do %s 50 2 >/dev/null; sleep 0.1; done" % support.program("emit")
EVENTS = 10 * (2 * 50 + 1)
MISSED = r'WARNING: Missed \d+ packets? between .* within stream ".*" .*: their files were replaced before they were read'


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

    def record_rolled(self, relay):
        """A recorder of one ring, of which the relay keeps the last four files."""
        if not support.HAS_RSEQ:
            self.skipTest("each thread has a ring, and none of them many packets")
        program = ["taskset", "-c", str(min(os.sched_getaffinity(0))), "sh", "-c", PACED]
        recorder = self.start([support.LEAT, "record", "--tracefile-size", "8192", "--tracefile-count", "4",
                               f"--live={relay.url}", "--", *program])
        support.wait_until(lambda: list(relay.output.rglob("channel0_*_0")), "the first file")
        return recorder

    def first_files(self, relay):
        """Those that will be replaced, and their indexes."""
        files = []
        for path in relay.output.rglob("channel0_*_0"):
            files.append((open(path, "rb"), open(path.parent / "index" / (path.name + ".idx"), "rb")))
            for file in files[-1]:
                self.addCleanup(file.close)
        return files

    def skip_if_reused(self, files):
        """Files that are overwritten in place cannot be read while that happens."""
        links = [[os.fstat(file.fileno()).st_nlink for file in pair] for pair in files]
        if [1, 0] in links:
            self.skipTest("this relay writes new packets into old files")
        self.assertIn([0, 0], links, "files were replaced")

    def test_follow_rolled_files(self):
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        recorder = self.record_rolled(relay)
        before = self.first_files(relay)
        follower = self.start([support.LEAT, "view", "--follow", str(relay.output)])
        views = []
        while recorder.poll() is None:
            views.append(subprocess.run([support.LEAT, "view", str(relay.output)], capture_output=True, text=True))
            time.sleep(0.1)
        recorder.communicate(timeout=30)
        printed, errors = follower.communicate(timeout=30)
        self.skip_if_reused(before)
        self.assertEqual(follower.returncode, 0, errors)
        # On a busy machine the writer may be ahead by more than its files hold. Then that is said.
        if "Missed" not in errors:
            self.assertEqual(errors, "")
            self.assertEqual(len(printed.splitlines()), EVENTS)
        for line in errors.splitlines():
            self.assertRegex(line, MISSED)
        self.assertNotEqual(views, [])
        for view in views:
            self.assertEqual((view.returncode, view.stderr), (0, ""))
        kept = self.read(relay.output)
        self.assertLess(len(kept.lines), EVENTS)
        self.assertTrue(support.lines_of(printed)[-1:] == support.lines_of(kept.text)[-1:], "the last events are shown")

    def test_follower_that_falls_behind_says_what_it_missed(self):
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        recorder = self.record_rolled(relay)
        before = self.first_files(relay)
        printed = self.directory / "printed"
        # A pipe that is full would let the follower fall behind as well, but nobody knows how far.
        with open(printed, "w", encoding="ascii") as output:
            follower = subprocess.Popen([support.LEAT, "view", "--follow", str(relay.output)], stdout=output,
                                        stderr=subprocess.PIPE, text=True)
        self.addCleanup(follower.stderr.close)
        self.addCleanup(follower.kill)
        support.wait_until(lambda: printed.stat().st_size > 0, "the first events")
        follower.send_signal(signal.SIGSTOP)
        recorder.communicate(timeout=30)
        follower.send_signal(signal.SIGCONT)
        _, errors = follower.communicate(timeout=30)
        self.skip_if_reused(before)
        self.assertEqual(follower.returncode, 0, errors)
        lines = support.lines_of(printed.read_text())
        self.assertLess(len(lines), EVENTS)
        self.assertRegex(errors, MISSED)
        for line in errors.splitlines():
            self.assertRegex(line, MISSED)
        kept = support.lines_of(self.view_of(relay.output))
        self.assertTrue(lines[-len(kept):] == kept, "all that is kept is shown, and nothing after it")

    def test_relay_that_is_not_there(self):
        view = subprocess.run([support.LEAT, "view", "net://127.0.0.1:1"], capture_output=True, text=True)
        self.assertEqual(view.returncode, 1)
        self.assert_one_line(view.stderr, "127.0.0.1:1", "Connection refused")


if __name__ == "__main__":
    support.main()
