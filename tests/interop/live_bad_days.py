#!/usr/bin/env python3
"""Producers and relays of live sessions that are killed or stopped while viewers read; all of them are Leat's."""
import re
import signal
import struct
import subprocess

from bad_line import BadLine
from relays import LeatRelay
from support import (LEAT, ON_ONE_CPU, PATIENCE, InteropTest, enter_user_namespace, lines_of, main, program,
                     stop_process, wait_until)

INDEX_ENTRY = struct.Struct(">9Q")


class LiveTest(InteropTest):
    count, interval_us = 800, 2_000  # events of each thread
    prefix = []  # written before the program's command

    def setUp(self):
        super().setUp()
        self.relay = self.start_relay()

    def start_relay(self, **arguments):
        relay = LeatRelay(self.directory / "relay", **arguments)
        self.addCleanup(relay.kill)
        return relay

    def record(self, name, *options, relay=None):
        relay = relay or self.relay
        process = subprocess.Popen(
            [LEAT, "record", f"--live={relay.url}", "--session", name, *options, "--", *self.prefix, program("paced"),
             str(self.count), str(self.interval_us), "2"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        wait_until(lambda: relay.parts(name), "the session")
        return process

    def view(self, name, *options, text=None, relay=None):
        """The viewer prints into a file of its own name, unless `text` gives another."""
        url = (relay or self.relay).live_url(name)
        with open(self.directory / (text or name), "wb") as output:
            process = subprocess.Popen([LEAT, "view", *options, url], stdout=output, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.communicate()

    @staticmethod
    def begin(process):
        process.stdin.write("\n")
        process.stdin.flush()

    def viewed(self, name):
        return (self.directory / name).read_text()

    @staticmethod
    def numbers(text):
        return [(int(thread), int(n)) for thread, n in re.findall(r"thread = (\d+), n = (\d+)", text)]

    def assert_all_once_in_order(self, numbers):
        for thread in (0, 1):
            self.assertEqual([n for t, n in numbers if t == thread], list(range(self.count)))

    def wait_for_events(self, name, count):
        wait_until(lambda: len(self.numbers(self.viewed(name))) >= count, f"{count} events")


class LiveBadDays(LiveTest):
    def test_viewer_across_a_killed_relay(self):
        producer = self.record("session")
        viewer = self.view("session", "--reconnect")
        self.begin(producer)
        self.wait_for_events("session", 100)
        self.relay.kill()
        self.relay.start()
        _, errors = producer.communicate(timeout=PATIENCE)
        self.assertIn("events stay in the rings until it is back", errors)
        self.wait_for_events("session", 2 * self.count)
        viewer.send_signal(signal.SIGINT)
        viewer.communicate(timeout=PATIENCE)
        self.assert_all_once_in_order(self.numbers(self.viewed("session")))
        self.assertEqual(len(self.relay.parts("session")), 2)

    def test_viewer_that_waits_says_what_for(self):
        viewer = subprocess.Popen([LEAT, "view", "--reconnect", self.relay.live_url("session")], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, viewer)
        self.assertIn("no session \"session\"", viewer.stderr.readline())
        viewer.send_signal(signal.SIGINT)
        self.assertEqual((viewer.communicate(timeout=PATIENCE)[1], viewer.returncode), ("", 0))

    def test_killed_producer(self):
        victim, other = self.record("victim"), self.record("other")
        viewers = [self.view("victim"), self.view("other")]
        self.begin(victim)
        self.begin(other)
        self.wait_for_events("victim", 100)
        victim.kill()
        victim.wait()
        _, errors = viewers[0].communicate(timeout=PATIENCE)
        self.assertEqual(viewers[0].returncode, 0, errors)
        other.communicate(timeout=PATIENCE)
        viewers[1].communicate(timeout=PATIENCE)
        self.assert_all_once_in_order(self.numbers(self.viewed("other")))
        [part] = self.relay.parts("victim")
        text = self.read(part).text
        self.assertEqual(lines_of(text), lines_of(self.viewed("victim")))
        numbers = self.numbers(text)
        for thread in (0, 1):
            of_thread = [n for t, n in numbers if t == thread]
            self.assertEqual(of_thread, list(range(len(of_thread))), "what was stored has no holes")

    def test_stopped_producer(self):
        stopped, other = self.record("stopped"), self.record("other")
        viewers = [self.view("stopped"), self.view("other")]
        self.begin(stopped)
        self.begin(other)
        self.wait_for_events("stopped", 100)
        stop_process(stopped.pid)
        other.communicate(timeout=PATIENCE)
        viewers[1].communicate(timeout=PATIENCE)
        self.assert_all_once_in_order(self.numbers(self.viewed("other")))
        self.assertIsNone(viewers[0].poll())
        stopped.send_signal(signal.SIGCONT)
        _, errors = stopped.communicate(timeout=PATIENCE)
        self.assertIn("0 discarded", errors)
        viewers[0].communicate(timeout=PATIENCE)
        self.assert_all_once_in_order(self.numbers(self.viewed("stopped")))
        self.assertEqual(lines_of(self.read(self.relay.parts("stopped")[0]).text), lines_of(self.viewed("stopped")))

    def lost_by_index(self, part):
        """Per stream, the count in the last entry of its index."""
        return sum(INDEX_ENTRY.unpack(path.read_bytes()[-INDEX_ENTRY.size:])[5] for path in part.rglob("*.idx"))

    def check_accounted_for(self, part, name, errors):
        """What did not fit into the rings is counted by the recorder, the index and every reader. The rest is in the
        trace."""
        trace = self.read(part)
        self.assertGreater(trace.discarded(), 0)
        self.assertIn(f" {trace.discarded()} discarded", errors)
        self.assertEqual(self.lost_by_index(part), trace.discarded())
        self.assertEqual(len(trace.lines) + trace.discarded(), 2 * self.count)
        numbers = self.numbers(trace.text)
        for thread in (0, 1):
            of_thread = [n for t, n in numbers if t == thread]
            self.assertEqual(of_thread, sorted(set(of_thread)))
        self.assertEqual(lines_of(trace.text), lines_of(self.viewed(name)))

    def test_relay_producer_and_viewer_paused_for_ten_seconds(self):
        """Each has its own session, all at the same time, and rings that are full long before the end."""
        self.count = 6_000
        small = ("--ring-size", "64K")
        paused_relay = LeatRelay(self.directory / "paused-relay")
        self.addCleanup(paused_relay.kill)
        of_relay = self.record("of-relay", *small, relay=paused_relay)
        of_producer = self.record("of-producer", *small)
        of_viewer = self.record("of-viewer")
        viewers = [self.view("of-relay", relay=paused_relay), self.view("of-producer"), self.view("of-viewer", text="other")]
        paused_viewer = self.view("of-viewer")
        for producer in (of_relay, of_producer, of_viewer):
            self.begin(producer)
        for name in ("of-relay", "of-producer", "of-viewer", "other"):
            self.wait_for_events(name, 100)
        paused = [paused_relay.process, of_producer, paused_viewer]
        for process in paused:
            stop_process(process.pid)
        before = len(self.viewed("of-viewer"))
        self.wait_for_events("other", 2 * 5_000 + 100)  # 2 ms each: 10 s
        self.assertEqual(len(self.viewed("of-viewer")), before)
        for process in paused:
            process.send_signal(signal.SIGCONT)
        errors = {}
        for producer in (of_relay, of_producer, of_viewer):
            _, errors[producer] = producer.communicate(timeout=PATIENCE)
            self.assertEqual(producer.returncode, 0, errors[producer])
        for viewer in (*viewers, paused_viewer):
            viewer.communicate(timeout=PATIENCE)
            self.assertEqual(viewer.returncode, 0)
        [part] = paused_relay.parts("of-relay")
        self.check_accounted_for(part, "of-relay", errors[of_relay])
        [part] = self.relay.parts("of-producer")
        self.check_accounted_for(part, "of-producer", errors[of_producer])
        for name in ("of-viewer", "other"):
            self.assert_all_once_in_order(self.numbers(self.viewed(name)))


class OverABadLine(LiveTest):
    """The relay is at the far end of the line, the producer at the near end, and viewers are at both."""

    def start_relay(self):
        return None  # only when there is a line

    def follow(self, *viewers, **line):
        """Starts viewers at these ends. Each must print all events once, in order, as they are stored."""
        line = BadLine(**line)
        self.addCleanup(line.close)
        with line.far:
            self.relay = super().start_relay(address=line.far.address)
        with line.near:
            producer = self.record("session")
        ends = {"near": line.near, "far": line.far}
        processes = {}
        for end in viewers:
            with ends[end]:
                processes[end] = self.view("session", text=end)
        self.begin(producer)
        _, errors = producer.communicate(timeout=PATIENCE)
        self.assertEqual(producer.returncode, 0, errors)
        self.assertIn("0 discarded", errors)
        [part] = self.relay.parts("session")
        stored = lines_of(self.read(part).text)
        for end, process in processes.items():
            _, errors = process.communicate(timeout=PATIENCE)
            self.assertEqual((process.returncode, errors), (0, ""))
            self.assert_all_once_in_order(self.numbers(self.viewed(end)))
            self.assertEqual(lines_of(self.viewed(end)), stored)
        return line

    def test_delay_and_loss(self):
        line = self.follow("near", "far", delay=0.05, loss=0.01)
        self.assertGreater(line.there.lost, 0)
        self.assertGreater(line.back.lost, 0)

    def test_narrow(self):
        """At the end of a session, sending one packet takes longer than a relay may be silent."""
        self.count, self.interval_us = 150, 0
        self.prefix = list(ON_ONE_CPU)  # one packet: 12 kB
        self.follow("far", rate=1000)


if __name__ == "__main__":
    enter_user_namespace()
    main()
