#!/usr/bin/env python3
"""Limits for the files of a trace directory: the newest events are kept, every reader reads them, also while they are
written, and a session daemon that takes over goes on in the right file."""
import os
import re
import subprocess

from session_daemons import RestartTest, discarded
from support import LEAT, PATIENCE, InteropTest, is_described, main, program, wait_until

LIMIT = 16 << 10  # bytes of a file
COUNT = 3
OPTIONS = (f"--tracefile-size={LIMIT}", f"--tracefile-count={COUNT}")
CPU = min(os.sched_getaffinity(0))
NUMBER = re.compile(r"\bn = (\d+)")


def files_of(directory):
    """The sizes of the files of each stream."""
    files = {}
    for path in directory.rglob("*_*_*"):
        if path.is_file() and path.parent.name != "index":
            files.setdefault(path.name.rpartition("_")[0], []).append(path.stat().st_size)
    return files


class Limits(InteropTest):
    def test_newest_files_of_a_recording_are_kept(self):
        directory = self.directory / "trace"
        subprocess.run([LEAT, "record", "-o", directory, *OPTIONS, "--", "taskset", "-c", str(CPU), program("emit"), "20000", "1"],
                       check=True, capture_output=True, timeout=PATIENCE)
        files = files_of(directory)
        self.assertEqual(max(map(len, files.values())), COUNT, files)
        self.assertLessEqual(max(max(sizes) for sizes in files.values()), LIMIT)
        numbers = [event["n"] for event in self.read(directory).events("test:count")]
        self.assertGreater(len(numbers), 500)
        self.assertEqual(numbers, list(range(20000 - len(numbers), 20000)))


class OfSessions(RestartTest):
    def check_kept(self, directory, first, last):
        """These are the newest numbers; all of them are there that were kept."""
        files = files_of(directory)
        self.assertLessEqual(max(map(len, files.values())), COUNT)
        self.assertLessEqual(max(max(sizes) for sizes in files.values()), LIMIT)
        numbers = [event["n"] for event in self.read(directory).events("order:tick")]
        self.assertEqual(numbers, list(range(last - len(numbers), last)))
        self.assertLessEqual(numbers[0], first)

    def test_limits_are_kept_over_restarts_rotations_and_clears(self):
        daemon = self.daemon()
        directory = self.begun("order:tick", channel_options=OPTIONS)
        channel, = self.session("web")["channels"]
        self.assertEqual((channel["tracefile_size"], channel["tracefile_count"]), (LIMIT, COUNT))
        self.assertIn("files      of 16.0 KiB at most, the newest 3 of each stream", self.leat("list", "web").stdout)
        running = self.program()
        os.sched_setaffinity(running.pid, {CPU})  # all events are in one stream
        for _ in range(10):
            emitted = running.do("emit 500")
            daemon = self.restart(daemon)
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (5000, 0))
        self.check_kept(directory, emitted - 100, emitted)
        self.leat("start")
        self.leat("clear")
        self.assertEqual(self.read(directory).lines, [])
        self.assertEqual([len(sizes) for sizes in files_of(directory).values()], [1])  # without events
        running.do("emit 100")
        self.leat("rotate")
        emitted = running.do("emit 2000")
        self.leat("destroy")
        first, last = self.chunks_of(directory)
        self.assertEqual(len(self.read(first).lines), 100)
        self.check_kept(last, emitted - 100, emitted)

    def test_follower_goes_from_file_to_file(self):
        self.daemon()
        directory = self.begun("order:tick", channel_options=(f"--tracefile-size={LIMIT}",))
        running = self.program()
        running.do("emit 100")
        wait_until(lambda: is_described(directory), "there is no trace")
        view = subprocess.Popen([LEAT, "view", "--follow", directory], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)
        self.addCleanup(view.kill)
        for _ in range(20):
            emitted = running.do("emit 300")
        self.leat("destroy")
        text, warnings = view.communicate(timeout=PATIENCE)
        self.assertEqual(warnings, "")
        self.assertEqual([int(n) for n in NUMBER.findall(text)], list(range(emitted)))
        self.assertGreater(max(map(len, files_of(directory).values())), COUNT)

    def test_limits_are_saved_and_loaded(self):
        self.daemon()
        self.create("web")
        self.leat("enable-channel", "c", *OPTIONS)
        file = self.directory / "web.json"
        self.leat("save", "web", "-o", file)
        self.leat("destroy", "web")
        self.leat("load", "-i", file)
        channel, = self.session("web")["channels"]
        self.assertEqual((channel["tracefile_size"], channel["tracefile_count"]), (LIMIT, COUNT))

    def test_limits_that_cannot_be(self):
        self.daemon()
        self.create("web")
        for options, part in ((("--tracefile-size=100",), "at least 4096 bytes"),
                              (("--tracefile-count=2",), "--tracefile-size")):
            self.assert_one_line(self.leat("enable-channel", "c", *options, status=2).stderr, part)
        self.leat("enable-channel", "c", *OPTIONS)
        # Ring 2 of channel c_3 and ring 3 of channel c would write a file c_3_2.
        self.assert_one_line(self.leat("enable-channel", "c_3", status=1).stderr, "choose another name")
        self.leat("enable-channel", "c_3", *OPTIONS)
        self.leat("enable-channel", "c_x")


if __name__ == "__main__":
    main()
