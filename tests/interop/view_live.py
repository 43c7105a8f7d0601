#!/usr/bin/env python3
"""Traces that are viewed while they are recorded: through a relay, and on disk."""
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading

import support
from relays import LeatRelay, free_ports

# A program every tenth of a second, ten in all.
PACED = "for i in 1 2 3 4 5 6 7 8 9 10; do %s 50 2 >/dev/null; sleep 0.1; done" % support.program("emit")
EVENTS = 10 * (2 * 50 + 1)
# Several steps, each of them a program. The shell waits for a line between two steps.
STEP_COUNT, THREADS, COUNT = 3, 2, 50
EVENTS_OF_STEP = THREADS * COUNT + 1
STEPS = "for i in $(seq %d); do %s %d %d >/dev/null; read line; done" % (STEP_COUNT, support.program("emit"), COUNT, THREADS)
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
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()

    def finish(self, process):
        """Everything that it printed."""
        output, errors = process.communicate(timeout=support.PATIENCE)
        self.assertEqual((process.returncode, errors), (0, ""))
        return output

    def start_steps(self, command):
        """Starts a recorder of STEPS, which goes on when it is told to."""
        return self.start([*command, "sh", "-c", STEPS], stdin=subprocess.PIPE)

    def start_recorder(self, name="trace"):
        return self.start_steps(self.record_command([], name=name))

    def go_on(self, recorder):
        recorder.stdin.write("\n")
        recorder.stdin.flush()

    def start_viewer(self, *arguments):
        """leat view, which prints into a file."""
        text = self.directory / f"viewer-{len(list(self.directory.glob('viewer-*')))}"
        with open(text, "wb") as output:
            viewer = subprocess.Popen([support.LEAT, "view", *map(str, arguments)], stdout=output, stderr=subprocess.PIPE,
                                      text=True)
        viewer.printed = text.read_text
        self.addCleanup(lambda: (viewer.kill(), viewer.communicate()))
        return viewer

    def finish_viewer(self, viewer):
        """The recording has ended normally."""
        _, errors = viewer.communicate(timeout=support.PATIENCE)
        self.assertEqual((viewer.returncode, errors), (0, ""))
        return viewer.printed()

    def assert_follow(self, viewers, recorder, first_step=0):
        """Each step is printed before the program takes the next, so nobody waits for the end."""
        for step in range(first_step + 1, STEP_COUNT + 1):
            self.wait_for_lines(viewers, step * EVENTS_OF_STEP)
            self.assertIsNone(recorder.poll())
            self.go_on(recorder)
        _, errors = recorder.communicate(timeout=support.PATIENCE)
        self.assertEqual(recorder.returncode, 0, errors)
        self.assertIn(" 0 discarded", errors)

    def wait_for_lines(self, viewers, count):
        for viewer in viewers:
            support.wait_until(lambda: viewer.printed().count("\n") >= count, f"{count} events")
            self.assertEqual(viewer.printed().count("\n"), count)

    def assert_steps(self, text, steps=STEP_COUNT):
        """Each event of each step is there once, and those of a thread are in order."""
        events = [support.Event(line) for line in text.splitlines()]
        self.assertEqual(len(events), steps * EVENTS_OF_STEP)
        for thread in range(THREADS):
            numbers = [event["n"] for event in events if event.name == "test:count" and event["thread"] == thread]
            self.assertEqual(numbers, steps * list(range(COUNT)))
        self.assertEqual([event["emitted"] for event in events if event.name == "test:done"], steps * [THREADS * COUNT])

    def assert_all_printed(self, viewers, path):
        """babeltrace2 reads from the trace what the program did, and the viewers printed the same."""
        stored = self.read(path).text
        self.assert_steps(stored)
        for viewer in viewers:
            self.assertEqual(support.lines_of(self.finish_viewer(viewer)), support.lines_of(stored))

    def test_follow_a_recording(self):
        trace = self.directory / "trace"
        recorder = self.start_recorder()
        support.wait_until(lambda: support.is_described(trace), "the metadata")
        first, second, killed, interrupted = viewers = [self.start_viewer("--follow", trace) for _ in range(4)]
        in_json = self.start_viewer("--follow", "--format=json", trace)
        viewers.append(in_json)
        self.wait_for_lines(viewers, EVENTS_OF_STEP)
        killed.kill()
        interrupted.send_signal(signal.SIGINT)
        self.finish_viewer(interrupted)
        self.assert_follow((first, second, in_json), recorder)
        self.assert_all_printed((first, second), trace)
        objects = [json.loads(line) for line in self.finish_viewer(in_json).splitlines()]
        self.assertEqual([(event["name"], event["payload"].get("n")) for event in objects],
                         [(event.name, event["n"] if event.name == "test:count" else None)
                          for event in self.read(trace).events()])

    def test_follow_traces_that_come_later(self):
        first = self.start_recorder("all/first")
        support.wait_until(lambda: support.is_described(self.directory), "the metadata")
        follower = self.start_viewer("--follow", self.directory / "all")
        self.wait_for_lines([follower], EVENTS_OF_STEP)
        second = self.start_recorder("all/second")
        self.wait_for_lines([follower], 2 * EVENTS_OF_STEP)
        for step in range(3, 2 * STEP_COUNT + 1):
            self.go_on((first, second)[step % 2])
            self.wait_for_lines([follower], step * EVENTS_OF_STEP)
        for recorder in (first, second):
            self.assertIsNone(recorder.poll())
            self.go_on(recorder)
            _, errors = recorder.communicate(timeout=support.PATIENCE)
            self.assertEqual(recorder.returncode, 0, errors)
        _, errors = follower.communicate(timeout=support.PATIENCE)
        # The first events of the second recorder may be older than what was already shown of the first.
        self.assertRegex(errors, r"\A(leat: warning: events came too late to be shown in order\n)?\Z")
        self.assertEqual(follower.returncode, 0)
        printed, stored = support.lines_of(follower.printed()), support.lines_of(self.read(self.directory / "all").text)
        self.assertEqual(sorted(printed), sorted(stored))
        if not errors:
            self.assertEqual(printed, stored)
        for name in ("first", "second"):
            of_one = support.lines_of(self.read(self.directory / "all" / name).text)
            self.assert_steps(self.read(self.directory / "all" / name).text)
            self.assertEqual([line for line in printed if line in set(of_one)], of_one)

    def watches(self, process):
        """Whether it has been told of a directory by then."""
        for descriptor in pathlib.Path(f"/proc/{process.pid}/fdinfo").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if "inotify wd:" in descriptor.read_text():
                    return True
        return False

    def test_follower_of_directories_that_come_and_go_ends(self):
        """A signal ends it also while no listing of them is like the one before."""
        root = self.directory / "all"
        shutil.copytree(support.SOURCE / "tests" / "data" / "captures" / "local-disk", root / "trace")
        for i in range(3000):  # a listing takes long
            (root / f"empty-{i}").mkdir()
        is_over = threading.Event()

        def come_and_go():
            for i in itertools.count():
                if is_over.is_set():
                    break
                (root / f"{i}").mkdir()
                if i > 0:
                    (root / f"{i - 1}").rmdir()

        others = threading.Thread(target=come_and_go)
        others.start()
        try:
            follower = self.start_viewer("--follow", root)
            support.wait_until(lambda: self.watches(follower), "it watches nothing")
            follower.send_signal(signal.SIGINT)
            _, errors = follower.communicate(timeout=support.PATIENCE)
        finally:
            is_over.set()
            others.join()
        self.assertEqual(follower.returncode, 0, errors)

    @support.outside_gate("it counts on chance: the writer may be anywhere when it is killed")
    def test_follower_of_a_killed_writer_ends(self):
        trace = self.directory / "trace"
        recorder = self.start_recorder()
        support.wait_until(lambda: support.is_described(trace), "the metadata")
        [directory] = [path.parent for path in trace.rglob("metadata")]
        followers = [self.start_viewer("--follow", path) for path in (trace, directory)]
        self.wait_for_lines(followers, EVENTS_OF_STEP)
        self.go_on(recorder)
        self.wait_for_lines(followers, 2 * EVENTS_OF_STEP)
        recorder.kill()
        stored = self.read(trace).text
        self.assert_steps(stored, 2)
        for follower in followers:
            self.assertEqual(support.lines_of(self.finish_viewer(follower)), support.lines_of(stored))

    def test_follow_what_is_finished(self):
        recording = self.record(support.program("emit"), "20")
        followed = self.start_viewer("--follow", recording.path)
        stored = self.read_complete(recording)
        self.assertEqual([event["n"] for event in stored.events("test:count")], list(range(20)))
        self.assertEqual(support.lines_of(self.finish_viewer(followed)), support.lines_of(stored.text))

    def test_session_of_a_relay(self):
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        recorder = self.start_steps([support.LEAT, "record", f"--live={relay.url}", "--"])
        listing = [support.LEAT, "view", "--format=json", f"net://127.0.0.1:{relay.live}"]
        sessions = support.wait_until(lambda: json.loads(self.finish(self.start(listing))), "the session")
        url = sessions[0]["url"]
        self.assertEqual(url, relay.live_url("sh"))
        self.assertIn(url, self.finish(self.start([support.LEAT, "view", f"net://127.0.0.1:{relay.live}"])))
        first, second, interrupted = viewers = [self.start_viewer(url) for _ in range(3)]
        self.wait_for_lines(viewers, EVENTS_OF_STEP)
        interrupted.send_signal(signal.SIGINT)
        self.finish_viewer(interrupted)
        self.assert_follow((first, second), recorder)
        self.assert_all_printed((first, second), self.directory / "relay")

    def record_rolled(self, relay):
        """A recorder of one ring. The relay keeps the last four files of it."""
        if not support.HAS_RSEQ:
            support.lacks("rings-of-cpus")  # and no thread's ring has many packets
        program = ["taskset", "-c", str(min(os.sched_getaffinity(0))), "sh", "-c", PACED]
        recorder = self.start([support.LEAT, "record", "--tracefile-size", "8192", "--tracefile-count", "4",
                               f"--live={relay.url}", "--", *program])
        support.wait_until(lambda: list(relay.output.rglob("channel0_*_0")), "the first file")
        return recorder

    def first_files(self, relay):
        """The files that will be replaced, and their indexes."""
        files = []
        for path in relay.output.rglob("channel0_*_0"):
            files.append((open(path, "rb"), open(path.parent / "index" / (path.name + ".idx"), "rb")))
            for file in files[-1]:
                self.addCleanup(file.close)
        return files

    def assert_replaced(self, files):
        """Files that are overwritten in place cannot be read while that happens."""
        links = [[os.fstat(file.fileno()).st_nlink for file in pair] for pair in files]
        self.assertNotIn([1, 0], links, "new packets in an old file")
        self.assertIn([0, 0], links, "files were replaced")

    @support.outside_gate("the first file must be seen before it is replaced")
    def test_follow_rolled_files(self):
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        recorder = self.record_rolled(relay)
        before = self.first_files(relay)
        follower = self.start([support.LEAT, "view", "--follow", str(relay.output)])
        views = []
        while recorder.poll() is None:
            views.append(subprocess.run([support.LEAT, "view", str(relay.output)], capture_output=True, text=True))
        recorder.communicate(timeout=support.PATIENCE)
        printed, errors = follower.communicate(timeout=support.PATIENCE)
        self.assert_replaced(before)
        self.assertEqual(follower.returncode, 0, errors)
        # On a busy machine the writer may be ahead by more than its files hold. Then the viewer says so.
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
        kept = support.lines_of(kept.text)
        self.assertTrue(support.lines_of(printed)[-len(kept):] == kept, "the last events are shown, and nothing after them")

    @support.outside_gate("the first file must be seen before it is replaced")
    def test_follower_that_falls_behind_says_what_it_missed(self):
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        recorder = self.record_rolled(relay)
        before = self.first_files(relay)
        printed = self.directory / "printed"
        # A full pipe would also make the follower fall behind, but nobody knows how far.
        with open(printed, "w", encoding="ascii") as output:
            follower = subprocess.Popen([support.LEAT, "view", "--follow", str(relay.output)], stdout=output,
                                        stderr=subprocess.PIPE, text=True)
        self.addCleanup(follower.stderr.close)
        self.addCleanup(follower.kill)
        support.wait_until(lambda: printed.stat().st_size > 0, "the first events")
        support.stop_process(follower.pid)
        recorder.communicate(timeout=support.PATIENCE)
        follower.send_signal(signal.SIGCONT)
        _, errors = follower.communicate(timeout=support.PATIENCE)
        self.assert_replaced(before)
        self.assertEqual(follower.returncode, 0, errors)
        lines = support.lines_of(printed.read_text())
        self.assertLess(len(lines), EVENTS)
        self.assertRegex(errors, MISSED)
        for line in errors.splitlines():
            self.assertRegex(line, MISSED)
        kept = support.lines_of(self.read(relay.output).text)
        self.assertTrue(lines[-len(kept):] == kept, "all that is kept is shown, and nothing after it")

    def test_bad_addresses(self):
        for url in ("net://", "net://h:0", "net://h:x", "net://h/host/a"):
            view = support.plain_run(support.LEAT, "view", url)
            self.assertEqual((view.returncode, view.stdout), (2, ""))
            self.assert_one_line(view.stderr, url, "see leat view --help")

    def test_relay_that_is_not_there(self):
        [port] = free_ports(1)
        view = subprocess.run([support.LEAT, "view", f"net://127.0.0.1:{port}"], capture_output=True, text=True)
        self.assertEqual(view.returncode, 1)
        self.assert_one_line(view.stderr, f"127.0.0.1:{port}", "Connection refused")


if __name__ == "__main__":
    support.main()
