#!/usr/bin/env python3
"""Sessions of the session daemon that go to a relay, and are rotated and cleared there: Leat's relay and LTTng's."""
import re
import signal
import subprocess
import threading
import time

import relay_peer
from relays import LeatRelay, LttngRelay
from session_daemons import RelayedTest, discarded
from support import LEAT, PATIENCE, is_described, main, stop_process, wait_until


class ChunksTest(RelayedTest):
    def watch(self):
        self.viewed = self.directory / "viewed"
        with open(self.viewed, "wb") as output:
            viewer = subprocess.Popen([LEAT, "view", self.relay.live_url("web")], stdout=output, stderr=subprocess.PIPE,
                                      text=True)
        self.addCleanup(viewer.communicate)
        self.addCleanup(viewer.kill)
        return viewer

    def viewed_numbers(self):
        return [int(n) for n in re.findall(r"order:tick: .* n = (\d+) ", self.viewed.read_text())]

    def rotate(self):
        """Returns the directory of the complete chunk. LTTng's relay says of the first one only which directory it is
        in."""
        chunk = self.relay.output / self.json("rotate")["chunk"]
        if chunk.name == "archives":
            self.assertIsInstance(self.relay, LttngRelay)
            wait_until(lambda: list(chunk.glob("*-0")), f"there is no chunk in {chunk}")
            chunk, = chunk.glob("*")
        self.assertEqual(chunk.parent.name, "archives")
        wait_until(lambda: is_described(chunk), f"the chunk is not in {chunk}")
        return chunk

    def numbers_in(self, directory):
        trace = self.read(directory)
        self.assertEqual(trace.stderr, "")
        return [event["n"] for event in trace.events("order:tick")]

    def destroy(self, count):
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (count, 0))
        self.leat("destroy", "web")

    def wait_for_end(self, viewer):
        """The viewer sees the session's end."""
        _, errors = viewer.communicate(timeout=PATIENCE)
        self.assertEqual(viewer.returncode, 0, errors)


class Chunks(ChunksTest):
    def rotated(self, kind):
        _, running = self.begun_over_relay(kind)
        chunks = [self.rotate()]
        for _ in range(3):
            running.do("emit 100")
            chunks.append(self.rotate())
        for number, chunk in enumerate(chunks):
            self.assertTrue(chunk.name.endswith(f"-{number}"), chunk)
            self.assertEqual(self.numbers_in(chunk), list(range(100 * number, 100 * number + 100)))
        running.do("emit 50")
        self.destroy(450)
        part, = self.relay.parts("web")
        wait_until(lambda: len(list(part.glob("archives/*-4"))) == 1, "the last chunk is not in the archives")
        last, = part.glob("archives/*-4")
        self.assertEqual(self.numbers_in(last), list(range(400, 450)))
        self.assertEqual(self.numbers_in(part), list(range(450)))
        self.assertEqual([path.name for path in part.iterdir()], ["archives"])

    def test_rotation_of_a_session_that_is_stored(self):
        self.rotated("output")

    def test_rotation_of_a_live_session(self):
        self.rotated("live")

    def test_rotation_with_a_viewer(self):
        _, running = self.begun_over_relay("live")
        viewer = self.watch()
        wait_until(lambda: len(self.viewed_numbers()) == 100, "the viewer does not begin")
        for number in range(2, 7):
            if isinstance(self.relay, LttngRelay):  # it does not show what was not read before
                wait_until(lambda: len(self.viewed_numbers()) == 100 * (number - 1), "the viewer does not go on")
            self.rotate()
            running.do("emit 100")
        wait_until(lambda: len(self.viewed_numbers()) == 600, "the viewer does not go on")
        self.destroy(600)
        self.wait_for_end(viewer)
        self.assertEqual(self.viewed_numbers(), list(range(600)))

    def test_new_events_after_a_rotation(self):
        """Each chunk has the metadata of all events that it holds."""
        _, running = self.begun_over_relay("live")
        self.rotate()
        self.leat("enable-event", "stock:tick")
        running.do("emit 100")
        chunk = self.rotate()
        self.assertEqual(self.numbers_in(chunk), list(range(100, 200)))
        self.assertEqual(len(self.read(chunk).events("stock:tick")), 100)
        self.destroy(300)

    def test_viewer_that_comes_right_after(self):
        """babeltrace2 shows all that comes into the chunk, and our viewer does."""
        for verb in ("rotate", "clear"):
            for command in (["babeltrace2", "-i", "lttng-live"], [LEAT, "view"]):
                with self.subTest(verb=verb, command=command[0]):
                    daemon, running = self.begun_over_relay("live")
                    self.leat(verb)
                    lister = relay_peer.Viewer(self.relay)
                    viewer = subprocess.Popen([*command, self.relay.live_url("web")], stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE, text=True)
                    self.addCleanup(viewer.communicate)
                    self.addCleanup(viewer.kill)
                    wait_until(lambda: lister.clients().get("web") == 1, "the viewer does not attach")
                    lister.close()
                    running.do("emit 50")
                    self.destroy(150)
                    shown, errors = viewer.communicate(timeout=PATIENCE)
                    self.assertEqual((viewer.returncode, errors), (0, ""))
                    self.assertEqual([int(n) for n in re.findall(r"order:tick: .* n = (\d+) ", shown)], list(range(100, 150)))
                    running.end()
                    self.assertEqual(daemon.stop(), 0)
                    wait_until(lambda: not self.is_shown(), "the relay keeps the session")

    def test_clear(self):
        for kind in ("output", "live"):
            with self.subTest(kind):
                daemon, running = self.begun_over_relay(kind)
                viewer = self.watch() if kind == "live" else None
                if viewer:
                    wait_until(lambda: len(self.viewed_numbers()) == 100, "the viewer does not begin")
                self.leat("clear")
                running.do("emit 50")
                if viewer:
                    wait_until(lambda: len(self.viewed_numbers()) == 150, "the viewer does not go on")
                self.leat("clear")
                running.do("emit 20")
                self.destroy(170)
                if viewer:
                    self.wait_for_end(viewer)
                    self.assertEqual(self.viewed_numbers(), list(range(170)))
                part = self.relay.parts("web")[-1]
                self.assertEqual(self.numbers_in(part), list(range(150, 170)))
                running.end()
                self.assertEqual(daemon.stop(), 0)


class ChunksAtLttngRelay(Chunks):
    make_relay = LttngRelay


class ViewerBehind(ChunksTest):
    def test_it_reads_chunks_that_were_rotated_meanwhile(self):
        _, running = self.begun_over_relay("live")
        viewer = self.watch()
        wait_until(lambda: len(self.viewed_numbers()) == 100, "the viewer does not begin")
        viewer.send_signal(signal.SIGSTOP)
        for _ in range(4):
            running.do("emit 100")
            self.rotate()
        running.do("emit 100")
        viewer.send_signal(signal.SIGCONT)
        self.destroy(600)
        self.wait_for_end(viewer)
        self.assertEqual(self.viewed_numbers(), list(range(600)))


class BadDays(ChunksTest):
    def in_background(self, *arguments):
        """Runs leat, which need not succeed. Returns a function that waits for the result."""
        process = subprocess.Popen([LEAT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)

        def result():
            _, errors = process.communicate(timeout=PATIENCE)
            return process.returncode, errors
        return result

    def all_numbers(self):
        """Of each part. One whose daemon or relay was killed at its beginning may hold nothing."""
        return [self.numbers_in(part) for part in self.relay.parts("web") if any(part.rglob("metadata"))]

    def test_relay_that_does_not_allow_to_clear(self):
        self.relay.stop()
        self.relay = LeatRelay(self.directory / "strict", options=("--disallow-clear",))
        self.addCleanup(self.relay.kill)
        _, running = self.begun_over_relay("live")
        refused = self.leat("clear", status=1)
        self.assertIn("does not let sessions be cleared", refused.stderr)
        running.do("emit 20")
        self.destroy(120)
        self.assertEqual(self.all_numbers(), [list(range(120))])

    def test_session_that_has_nothing_yet(self):
        self.daemon()
        self.leat("create", "web", f"--live={self.relay.url}")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        self.assertIn("nothing to rotate", self.leat("rotate", status=1).stderr)

    def test_relay_that_dies_during_a_rotation(self):
        """The answer says so, and the session goes on at the next one."""
        _, running = self.begun_over_relay("live")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 100, "events are not stored")
        stop_process(self.relay.process.pid)
        time.sleep(0.5)
        result = self.in_background("rotate")
        time.sleep(0.5)
        self.relay.kill()
        status, errors = result()
        self.assertEqual(status, 1)
        self.assert_one_line(errors, "relay")
        self.relay.start()
        running.do("emit 100")
        self.destroy(200)
        self.assertEqual(sorted({n for part in self.all_numbers() for n in part}), list(range(200)))

    def test_daemon_that_is_killed_during_a_rotation(self):
        daemon, running = self.begun_over_relay("live")
        for pause in (0, 0.002, 0.005, 0.01, 0.02, 0.05):
            result = self.in_background("rotate")
            running.do("emit 50")
            time.sleep(pause)
            self.kill(daemon)
            result()
            daemon = self.start_again(daemon)
            running.do("emit 50")
        self.destroy(700)
        numbers = [n for part in self.all_numbers() for n in part]
        self.assertEqual(sorted(set(numbers)), list(range(700)))

    def test_rotations_under_load(self):
        """Nothing is lost, nothing is twice."""
        _, running = self.begun_over_relay("live")
        rotations = threading.Thread(target=lambda: [self.leat("rotate") for _ in range(20)])
        rotations.start()
        count = 100
        while rotations.is_alive():
            count = running.do("emit 200")
            time.sleep(0.002)  # more would not fit into the rings
        rotations.join()
        self.destroy(count)
        self.assertEqual(self.all_numbers(), [list(range(count))])
        part, = self.relay.parts("web")
        self.assertEqual(len(list(part.glob("archives/*"))), 21)


if __name__ == "__main__":
    main()
