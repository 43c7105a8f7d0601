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
MISSED = r'WARNING: Missed \d+ packets? between .* within stream ".*": their files were replaced before they were read'


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

    def record_rolled(self, relay, program):
        """A recorder of `program`, of which the relay keeps the last three files of each stream."""
        recorder = self.start([support.LEAT, "record", "--tracefile-size", "8192", "--tracefile-count", "3",
                               f"--live={relay.url}", "--", *program])
        support.wait_until(lambda: list(relay.output.rglob("*_0.idx")), "the first file")
        return recorder

    def first_files(self, relay):
        """What stands behind the names of the first files."""
        return {path: path.stat().st_ino for path in relay.output.rglob("channel0_*_0")}

    def skip_if_reused(self, relay, before):
        """Files that are overwritten in place cannot be read while that happens."""
        now = self.first_files(relay)
        kept = [path for path in before if path in now and before[path] == now[path]]
        if kept and any(path.with_name(path.name[:-1] + "2").exists() for path in kept):
            self.skipTest("this relay writes new packets into old files")

    def test_follow_rolled_files(self):
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        recorder = self.record_rolled(relay, ["sh", "-c", PACED])
        before = self.first_files(relay)
        follower = self.start([support.LEAT, "view", "--follow", str(relay.output)])
        views = []
        while recorder.poll() is None:
            views.append(subprocess.run([support.LEAT, "view", str(relay.output)], capture_output=True, text=True))
        recorder.communicate(timeout=30)
        printed, errors = follower.communicate(timeout=30)
        self.skip_if_reused(relay, before)
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
        recorder = self.record_rolled(relay, ["sh", "-c", PACED])
        before = self.first_files(relay)
        follower = self.start([support.LEAT, "view", "--follow", str(relay.output)])
        first = follower.stdout.readline()
        follower.send_signal(signal.SIGSTOP)
        recorder.communicate(timeout=30)
        follower.send_signal(signal.SIGCONT)
        printed, errors = follower.communicate(timeout=30)
        self.skip_if_reused(relay, before)
        self.assertEqual(follower.returncode, 0, errors)
        lines = support.lines_of(first + printed)
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
