#!/usr/bin/env python3
"""A session daemon is killed before each call that changes something outside of it, one after the other: in the whole life of
a session, and while it takes over the sessions of another daemon.

    LEAT_EACH_CALL=1 tests/interop/restart_each_call.py

By default the tests take every few calls only, with others each time."""
import mmap
import os
import shutil
import struct
import tempfile

from session_daemons import DISCARDED_IN_CHUNK, RestartTest, by_reason, discarded
from support import PROGRAMS, main, wait_until, without_sanitizers

LIBRARY = PROGRAMS / "libtest-killed-at.so"
STEP = int(os.environ.get("LEAT_EACH_CALL", 9))
MOST_CALLS = 5000

@without_sanitizers
class EachCall(RestartTest):
    def setUp(self):
        super().setUp()
        path = self.directory / "countdown"
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.addCleanup(self.memory.close)
        self.place = {}
        self.environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), "LEAT_TEST_COUNTDOWN": str(path)}

    def set_countdown(self, calls):
        """The running daemon, or the next one, is killed before this call. 0: before none."""
        struct.pack_into("<Q", self.memory, 0, calls)

    def countdown(self):
        return struct.unpack_from("<Q", self.memory, 0)[0]

    def calls(self):
        """Numbers of the calls to be killed before, until a test ends the loop."""
        return range(1 + self.random.randrange(STEP), MOST_CALLS, STEP)

    def ask(self, verb, **members):
        """Tells the daemon, and if it is killed before it answers, the next one. Returns the answer, and how often it was
        told."""
        for count in range(1, 3):
            if answer := self.running.ask(verb, **members):
                return answer, count
            wait_until(lambda: not self.running.is_alive(), "it does not answer")
            self.running = self.restart(self.running)
        raise AssertionError(f"two daemons do not answer {verb}: {self.context}")

    def tell(self, verb, **members):
        """Returns how often it was told. What the first time has been done, need not be done again."""
        answer, count = self.ask(verb, **members)
        is_done = count > 1 and (verb, answer.get("kind")) in (("create", "refused"), ("destroy", "not-found"))
        self.assertTrue(answer["ok"] or is_done, (verb, answer, self.context))
        return count

    def channels(self):
        answer, _ = self.ask("list", session="web")
        return answer["sessions"][0]["channels"]

    def live(self, call):
        """The whole life of a session. The daemon is killed before this call. Returns whether it came to that."""
        self.context = f"call {call}, seed {self.seed}"
        directory = self.directory / f"trace-{call}"
        load, = self.switched(1, 20, 2000)
        orders = self.program()
        self.wait_for_programs(load, orders)
        self.set_countdown(call)
        self.tell("create", session="web", directory=str(directory), **self.place)
        for name, pattern in (("c", "load:*"), ("d", "stock:none")):
            self.tell("enable-channel", channel=name)
            self.tell("enable-event", channel=name, pattern=pattern)
        self.tell("start")
        wait_until(lambda: self.channels()[0]["events"] > 0, f"nothing is recorded: {self.context}")
        self.tell("regenerate", what="metadata")
        self.tell("enable-event", channel="d", pattern="order:tick")
        orders.do("emit 10")
        self.tell("rotate")
        orders.do("emit 10")
        stops = self.tell("stop")
        self.tell("start")
        self.tell("rotate")
        orders.do("emit 10")
        evaluated = self.end_all([load])
        orders.end()
        stops += self.tell("stop")
        channels = self.channels()
        self.tell("destroy", session="web")
        is_killed = self.countdown() == 0
        self.set_countdown(0)
        self.assertEqual(self.ask("list")[0]["sessions"], [], self.context)
        self.check(directory, channels, evaluated, stops)
        return is_killed

    def check(self, directory, channels, evaluated, stops):
        load, order = [], []
        for chunk in self.chunks_of(directory):
            trace = self.read(chunk, DISCARDED_IN_CHUNK)
            load.append([event["n"] for event in trace.events("load:tick")])
            order += [event["n"] for event in trace.events("order:tick")]
        for numbers in load:
            self.assertEqual(numbers, sorted(set(numbers)), self.context)
        present = [n for numbers in load for n in numbers]
        self.assertEqual(len(present), len(set(present)), f"an event is in two chunks: {self.context}")
        lost = [sum(channel["discarded"].values()) for channel in channels]
        self.assertEqual([len(present), len(order)], [channel["events"] for channel in channels], self.context)
        self.assertLessEqual(len(present) + lost[0], evaluated, self.context)
        # What is on its way when it is switched off is no event.
        self.assertGreaterEqual(len(present) + lost[0], evaluated - stops, self.context)
        self.assertEqual((len(order) + lost[1], order), (30, sorted(set(order))), self.context)

    def test_life_of_a_session(self):
        self.check_life_of_a_session()

    def test_life_of_a_session_whose_rings_are_files(self):
        """What a daemon leaves that is killed while it makes a trace is not in the way of the next one."""
        with tempfile.TemporaryDirectory(dir="/dev/shm") as shm:
            self.place = {"shm_path": shm}
            self.check_life_of_a_session()

    def check_life_of_a_session(self):
        self.running = self.daemon(env=self.environment)
        count = 0
        for call in self.calls():
            if not self.live(call):
                break
            count += 1
        print(f"{count} of about {call} calls, seed {self.seed}", flush=True)
        self.assertGreater(call, 100)
        self.assertLess(call, MOST_CALLS - STEP)

    def test_taking_over(self):
        self.running = self.daemon(env=self.environment)
        directories = {}
        for name, buffers in (("shared", "user"), ("own", "pid")):
            directories[name] = self.begun("order:*", name=name, channel_options=(f"--buffers={buffers}",))
        programs = [self.program(), self.program()]
        for running in programs:
            running.do("emit 10")
        self.leat("rotate", "shared")
        count = 0
        for call in self.calls():
            for running in programs:
                running.do("emit 10")
            self.kill(self.running)
            for running in programs:
                running.do("emit 10")
            # It goes on to drain rings after it is ready.
            is_killed = self.take_over(call, self.is_quiet)
            count += 1
            if not is_killed:
                break
        print(f"{count} of about {call} calls, seed {self.seed}", flush=True)
        expected = 10 + 20 * count
        for name, directory in directories.items():
            counts = self.stopped(name)
            self.assertEqual((counts["events"], discarded(counts)), (4 * expected, 0), f"seed {self.seed}")
            events = [event for chunk in self.chunks_of(directory) for event in self.read(chunk).events("order:tick")]
            for running in programs:
                self.assertEqual([event["n"] for event in events if event["vpid"] == running.pid], list(range(expected)),
                                 f"seed {self.seed}")

    def take_over(self, call, is_done):
        """The next daemon is killed before this call, unless all is done before. Returns whether it was. A daemon runs."""
        self.set_countdown(call)
        self.running = self.start_again(self.running, is_awaited=False)
        wait_until(lambda: self.countdown() == 0 or self.running.has_begun(), "it does not start")
        wait_until(lambda: self.countdown() == 0 or is_done(), "it is never done")
        left = self.countdown()
        self.set_countdown(0)
        if left == 0:
            wait_until(lambda: not self.running.is_alive(), "it is not killed")
            self.running = self.start_again(self.running)
        return left == 0

    def test_what_programs_counted_that_have_ended(self):
        """No daemon counts that again after another one was killed on the way."""
        self.running = self.daemon(env=self.environment)
        for call in self.calls():
            running = self.program()
            self.wait_for_programs(running)
            directory = self.begun("order:tick")
            self.kill(self.running)
            running.do("emit 10")
            self.assertEqual(running.end(), 0)
            is_killed = self.take_over(call, self.has_counted)
            wait_until(lambda: not self.control_files(), "what a program has left stays")
            self.assertEqual(by_reason(self.stopped("web")), {"not_attached": 10}, f"call {call}, seed {self.seed}")
            self.leat("destroy", "web")
            shutil.rmtree(directory)
            if not is_killed:
                break
        print(f"about {call} calls, seed {self.seed}", flush=True)
        self.assertGreater(call, 50)

    def has_counted(self):
        answer = self.running.ask("list", session="web") or {}
        return answer.get("ok") and by_reason(answer["sessions"][0]) and not self.control_files()

    def is_quiet(self):
        """Whether all that was emitted is stored."""
        sessions = (self.running.ask("list") or {"sessions": []})["sessions"]
        events = {channel["events"] for session in sessions for channel in session["channels"]}
        return len(sessions) == 2 and len(events) == 1 and events == self.last_events(events)

    def last_events(self, events):
        before = getattr(self, "events_before", None)
        self.events_before = events
        return before

if __name__ == "__main__":
    main()
