#!/usr/bin/env python3
"""Channels that block: a program that allows it waits for room, so nothing is lost; but no longer than it must, whatever
becomes of the daemon."""
import json
import time

from session_daemons import RestartTest, by_reason, discarded
from support import InteropTest, main, program, wait_until

SMALL = "--ring-size=64K"
ALLOWED = {"LEAT_ALLOW_BLOCKING": "1"}
SILENCE = 10  # s; a daemon that has said nothing for so long counts as dead
BURST = 5_000  # times three events: several rings full


class Recorded(InteropTest):
    """leat record --mode=blocking."""

    def blocking(self, *command, **arguments):
        recording = self.record(*command, options=(SMALL, "--mode=blocking"), **arguments)
        self.assertEqual(recording.status, 0, recording.stderr)
        return recording

    def test_flood_of_several_threads(self):
        trace = self.read_complete(self.blocking(program("paced"), "50000", "0", "6", input="\n"))
        numbers = {}
        for event in trace.events("test:paced"):
            numbers.setdefault(event["thread"], []).append(event["n"])
        self.assertEqual(numbers, {thread: list(range(50_000)) for thread in range(6)})

    def test_more_threads_than_anybody_has_processors(self):
        trace = self.read_complete(self.blocking(program("paced"), "1000", "0", "64", input="\n"))
        numbers = {}
        for event in trace.events("test:paced"):
            numbers.setdefault(event["thread"], []).append(event["n"])
        self.assertEqual(numbers, {thread: list(range(1000)) for thread in range(64)})

    def test_timers_meanwhile(self):
        """Handlers that interrupt a wait do not wait: their events are counted. The program's own are all there."""
        recording = self.blocking(program("signals"), "200000")
        of_main, of_handler = map(int, recording.stdout.split())
        trace = self.read_recording(recording)
        self.assertEqual([event["n"] for event in trace.events("test:main")], list(range(of_main)))
        self.assertEqual(len(trace.events("test:handler")) + recording.summary["discarded"], of_handler)

    def test_options(self):
        for options in ("--mode=never",), ("--mode=blocking", "--blocking-timeout=0"), \
                ("--mode=blocking", "--blocking-timeout=2h"), ("--mode=blocking", "--blocking-timeout=soon"):
            recording = self.record("true", options=options)
            self.assertEqual(recording.status, 2, options)
        self.assertEqual(self.record("true", options=("--mode=blocking", "--blocking-timeout=20ms")).status, 0)


class Sessions(RestartTest):
    def started(self, *options, **variables):
        """A daemon, where its session's trace goes, a program that has its rings."""
        daemon = self.daemon()
        directory = self.begun("*", channel_options=(SMALL, *options))
        running = self.program(**variables)
        self.wait_for_programs(running)
        self.attach("web", running)
        return daemon, directory, running

    def channel(self):
        channel, = self.session("web")["channels"]
        return channel

    def assert_accounted(self, directory, running, least=0, most=None):
        """Each event is in the trace or counted. Returns how many were counted."""
        emitted = 3 * running.do("emit 0")
        counts = self.stopped("web")
        self.trace_of(directory, counts)
        self.assertEqual(counts["events"] + discarded(counts), emitted)
        self.assertGreaterEqual(discarded(counts), least)
        if most is not None:
            self.assertLessEqual(discarded(counts), most)
        self.assertLessEqual(set(by_reason(counts)), {"ring_full", "not_attached"})
        return discarded(counts)

    def test_nothing_is_lost(self):
        _, directory, running = self.started("--mode=blocking", **ALLOWED)
        before = discarded(self.session("web"))
        for _ in range(10):
            running.do(f"emit {BURST}")
        self.assert_accounted(directory, running, before, before)

    def test_program_that_does_not_allow_it(self):
        """It discards, and people are told."""
        daemon, directory, running = self.started("--mode=blocking")
        session = self.session("web")
        self.assertEqual((session["applications"], session["applications_not_blocking"]), (1, 1))
        self.assertIn("1; 1 of them discards events, as they do not allow blocking: start them with LEAT_ALLOW_BLOCKING=1",
                      self.leat("list", "web").stdout)
        daemon.process.send_signal(19)
        begin = time.monotonic()
        running.do(f"emit {BURST}")
        self.assertLess(time.monotonic() - begin, SILENCE / 2)
        daemon.process.send_signal(18)
        self.assert_accounted(directory, running, 1)

    def test_stopped_daemon_costs_one_timeout(self):
        daemon, directory, running = self.started("--blocking-timeout=300ms", **ALLOWED)
        self.assertEqual(self.session("web")["applications_not_blocking"], 0)
        self.assertEqual((self.channel()["mode"], self.channel()["blocking_timeout_us"]), ("blocking", 300_000))
        self.assertIn("mode blocking for 300ms at most", self.leat("list", "web").stdout)
        daemon.process.send_signal(19)
        begin = time.monotonic()
        running.do(f"emit {BURST}")
        waited = time.monotonic() - begin
        daemon.process.send_signal(18)
        self.assertGreaterEqual(waited, 0.3)
        self.assertLess(waited, SILENCE)
        lost = discarded(self.session("web"))
        self.assertGreater(lost, 0)
        wait_until(lambda: self.channel()["events"] + lost == 3 * running.do("emit 0"), "the daemon reads no more")
        running.do(f"emit {BURST}")
        self.assert_accounted(directory, running, lost, lost)

    def test_killed_daemon_does_not_hang_the_program(self):
        """Without a limit, too."""
        daemon, directory, running = self.started("--blocking-timeout=inf", **ALLOWED)
        self.assertEqual((self.channel()["mode"], self.channel()["blocking_timeout_us"]), ("blocking", -1))
        self.kill(daemon)
        begin = time.monotonic()
        running.do(f"emit {BURST}")
        self.assertLess(time.monotonic() - begin, 3 * SILENCE)
        begin = time.monotonic()
        running.do(f"emit {BURST}")
        self.assertLess(time.monotonic() - begin, SILENCE / 2, "nobody waits for the dead twice")
        self.start_again(daemon)
        wait_until(lambda: self.channel()["events"] > 0, "the daemon reads no more")
        lost = discarded(self.session("web"))
        self.assertGreater(lost, 0)
        running.do(f"emit {BURST}")
        self.assert_accounted(directory, running, lost, lost)

    def test_next_daemon_comes_in_time(self):
        """It takes over the mode, and the program that waits."""
        daemon, directory, running = self.started("--mode=blocking", **ALLOWED)
        before = discarded(self.session("web"))
        self.kill(daemon)
        running.say(f"emit {BURST}")
        time.sleep(1)
        self.start_again(daemon)
        running.answer()
        self.assertEqual((self.channel()["mode"], self.channel()["blocking_timeout_us"]), ("blocking", -1))
        late = self.program(**ALLOWED)
        late.do(f"emit {BURST}")
        self.assertEqual(self.session("web")["applications_not_blocking"], 0)
        emitted = 3 * (running.do("emit 0") + late.do("emit 0"))
        counts = self.stopped("web")
        self.trace_of(directory, counts)
        self.assertEqual((discarded(counts), counts["events"]), (before, emitted - before))

    def test_saved_and_loaded(self):
        self.daemon()
        self.create("web")
        self.leat("enable-channel", "c", "--mode=blocking", "--blocking-timeout=2s")
        self.leat("enable-channel", "d", "--blocking-timeout=inf")
        self.leat("enable-channel", "e", "--blocking-timeout=0")
        file = self.directory / "web.json"
        self.leat("save", "web", "-o", file)
        self.leat("destroy", "web")
        self.leat("load", "-i", file)
        self.assertEqual([(channel["mode"], channel.get("blocking_timeout_us")) for channel in self.session("web")["channels"]],
                         [("blocking", 2_000_000), ("blocking", -1), ("discard", None)])
        channels = json.loads(file.read_text())["channels"]
        self.assertEqual([channel["mode"] for channel in channels], ["blocking", "blocking", "discard"])

    def test_wrong_options(self):
        self.daemon()
        self.create("web")
        for options in ("--mode=never",), ("--mode=discard", "--blocking-timeout=1s"), \
                ("--mode=blocking", "--blocking-timeout=0"), ("--mode=blocking", "--blocking-timeout=2h"), \
                ("--mode=blocking", "--blocking-timeout=soon"):
            self.assertEqual(len(self.leat("enable-channel", "c", *options, status=2).stderr.splitlines()), 1, options)


if __name__ == "__main__":
    main()
