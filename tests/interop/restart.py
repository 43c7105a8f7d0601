#!/usr/bin/env python3
"""A session daemon that is killed and started again goes on where it was: sessions, programs, rings and what lies in them,
ids, counts, chunks. Programs write on meanwhile. What is around it: restart_surroundings.py."""
import collections
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import urllib.request

from session_daemons import DECLARATIONS, TICKS, RestartTest, by_reason, discarded, ids_of, metadata_of
from support import LEAT, PATIENCE, PROGRAMS, is_described, main, outside_gate, stop_process, wait_until

PLUGIN = PROGRAMS / "libtest-plugin.so"
FETCH_PAUSE = 0.15  # s; a program asks for rings again after 100 ms


class Events(RestartTest):
    def check_before_between_and_after(self, *channel_options):
        daemon = self.daemon()
        directory = self.begun("order:*", channel_options=channel_options)
        programs = [self.program(), self.program()]
        for turn in range(4):
            for running in programs:
                running.do("emit 100")
            self.kill(daemon)
            for running in programs:
                running.do("emit 100")
            daemon = self.start_again(daemon)
        for running in programs:
            running.do("emit 100")
        trace = self.complete_trace("web", directory)
        for running in programs:
            for name in TICKS[:2]:
                self.assertEqual(self.numbers(trace, name, running), list(range(900)))

    def test_before_between_and_after(self):
        self.check_before_between_and_after()

    def test_in_large_headers(self):
        self.check_before_between_and_after("--header=large", "--ring-size=4M")

    def test_in_rings_of_each_process(self):
        self.check_before_between_and_after("--buffers=pid")

    def test_stored_ones_are_not_stored_again(self):
        """Nor are they lost, whether the daemon had stored all, or nothing, or something."""
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        for _ in range(12):
            running.do("emit 1000")
            time.sleep(self.random.random() * 0.2)
            daemon = self.restart(daemon)
        self.assert_numbers(self.complete_trace("web", directory), "order:tick", range(12000))

    def test_program_that_has_not_waited_for_the_next_daemon(self):
        daemon = self.daemon()
        directory = self.begun("order:*")
        first = self.program()
        first.do("emit 10")
        self.kill(daemon)
        second = self.program(LEAT_REGISTER_TIMEOUT="10")
        second.do("emit 10")
        self.start_again(daemon)
        self.wait_for_programs(first, second)
        self.attach("web", second)
        begin = second.do("emit 0")
        first.do("emit 10")
        second.do("emit 10")
        counts = self.stopped("web")
        trace = self.read(directory)
        self.assertEqual(self.numbers(trace, "order:tick", first), list(range(20)))
        numbers = self.numbers(trace, "order:tick", second)
        self.assertEqual(numbers, list(range(begin + 10 - len(numbers), begin + 10)))
        self.assertGreaterEqual(len(numbers), 10)
        self.assertEqual(counts["events"], len(trace.lines))

    def test_program_without_rings_finds_no_daemon(self):
        """It counts its events as not attached, and asks again later."""
        daemon = self.daemon()
        running = self.program()
        self.wait_for_programs(running)
        directory = self.begun("order:tick")
        self.kill(daemon)
        self.assertEqual(running.do("emit 5"), 5)
        self.start_again(daemon)
        wait_until(lambda: by_reason(self.session("web")) == {"not_attached": 5}, "events are not counted")
        time.sleep(FETCH_PAUSE)
        self.attach("web", running)
        end = running.do("emit 10")
        counts = self.stopped("web")
        numbers = self.numbers(self.read(directory), "order:tick", running)
        self.assertEqual(by_reason(counts), {"not_attached": end - len(numbers)}, counts)
        self.assertEqual((numbers, counts["events"]), (list(range(end - len(numbers), end)), len(numbers)))
        self.assertGreater(len(numbers), 10)

    def test_what_was_not_attached_is_counted_once(self):
        daemon = self.daemon()
        running = self.program()
        self.wait_for_programs(running)
        self.begun("order:tick")
        self.kill(daemon)
        running.do("emit 5")
        for _ in range(4):
            daemon = self.start_again(daemon)
            self.wait_for_programs(running)
            self.assertEqual(by_reason(self.session("web")), {"not_attached": 5})
            self.kill(daemon)
        self.start_again(daemon)
        self.assertEqual(by_reason(self.stopped("web")), {"not_attached": 5})

    @outside_gate("the session's time is to be over while there is no daemon")
    def test_what_was_not_attached_when_the_time_was_over(self):
        """It is of the session that it was for, and of no later one."""
        daemon = self.daemon()
        running = self.program()
        self.wait_for_programs(running)
        self.leat("create", "web", "-o", self.directory / "web", "--duration=8s")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        self.kill(daemon)
        running.do("emit 5")
        time.sleep(8)
        self.start_again(daemon)
        self.wait_for_programs(running)
        wait_until(lambda: self.session("web")["state"] == "stopped", "it goes on")
        self.begun("order:tick", name="next")
        running.do("emit 1")
        self.assertEqual(by_reason(self.session("web")), {"not_attached": 5})
        self.assertEqual(discarded(self.stopped("next")), 0)

    def test_what_was_counted_before_the_program_ended(self):
        """The metrics have it already, but nothing had to be kept for that."""
        daemon = self.daemon("--metrics=127.0.0.1:0")
        running = self.program()
        self.wait_for_programs(running)
        self.begun("order:tick")
        self.kill(daemon)
        running.do("emit 5")
        daemon = self.start_again(daemon)
        endpoint = re.search(r"127\.0\.0\.1:\d+", daemon.log())[0]

        def has_counted():
            with urllib.request.urlopen(f"http://{endpoint}/metrics") as page:
                return re.search(r'^leat_discarded_events_total\{.*"web".*\} 5$', page.read().decode(), re.MULTILINE)
        wait_until(has_counted, "events are not counted")
        self.assertEqual(running.end(), 0)
        wait_until(lambda: not self.control_files(), "the control file stays")
        self.kill(daemon)
        self.start_again(daemon)
        self.assertEqual(by_reason(self.stopped("web")), {"not_attached": 5})

    def check_program_that_ends(self, end):
        """While there is no daemon. One has rings, the other has not."""
        daemon = self.daemon()
        without = self.program()
        self.wait_for_programs(without)
        directory = self.begun("order:tick")
        attached = self.program()
        attached.do("emit 10")
        self.kill(daemon)
        attached.do("emit 10")
        without.do("emit 7")
        for running in (attached, without):
            end(running)
        self.start_again(daemon)
        wait_until(lambda: not self.control_files(), "control files stay")
        self.assertEqual(self.json("list", "--programs")["programs"], [])
        counts = self.stopped("web")
        self.assertEqual((counts["events"], by_reason(counts)), (20, {"not_attached": 7}))
        self.assert_numbers(self.read(directory), "order:tick", range(20))

    def test_program_that_ends_while_there_is_no_daemon(self):
        self.check_program_that_ends(lambda running: self.assertEqual(running.end(), 0))

    def test_program_that_ends_before_another_one_starts(self):
        """While there is no daemon, those that start clear dead files away, but none that has counted something."""
        daemon = self.daemon()
        running = self.program()
        self.wait_for_programs(running)
        self.begun("order:tick")
        self.kill(daemon)
        running.do("emit 7")
        self.assertEqual(running.end(), 0)
        self.program().do("emit 1")
        self.start_again(daemon)
        counts = self.stopped("web")
        self.assertEqual(by_reason(counts), {"not_attached": 7})

    def test_program_that_is_killed_while_there_is_no_daemon(self):
        self.check_program_that_ends(lambda running: running.kill())

    def test_library_that_is_loaded_and_unloaded_while_there_is_no_daemon(self):
        daemon = self.daemon()
        directory = self.begun("order:tick,plugin:*")
        running = self.program()
        running.do(f"load {PLUGIN}")
        running.do("work 10")
        self.kill(daemon)
        running.do("work 10")
        running.do("unload")
        running.do("emit 10")
        running.do(f"load {PLUGIN}")
        # There is nobody to say what it should do.
        running.do("work 10")
        daemon = self.start_again(daemon)
        running.do("unload")
        running.do(f"load {PLUGIN}")
        running.do("work 10")
        self.restart(daemon)
        end = running.do("emit 10")
        trace = self.complete_trace("web", directory)
        self.assert_numbers(trace, "plugin:work", range(20), range(30, 40))
        self.assert_numbers(trace, "order:tick", range(end))
        self.assertEqual(metadata_of(directory).count('name = "plugin:work";'), DECLARATIONS)

    def test_children_of_fork(self):
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("fork 10")
        self.kill(daemon)
        running.do("fork 10")
        running.do("emit 10")
        self.start_again(daemon)
        running.do("fork 10")
        numbers = [event["n"] for event in self.complete_trace("web", directory).events()]
        self.assertEqual(collections.Counter(numbers), {**{n: 3 for n in range(10)}, **{n: 1 for n in range(10, 20)}})


class FullRings(RestartTest):
    COUNT = 50_000  # far more events than a ring of 64 KiB holds

    def check_all_are_there_or_counted(self, directory, running):
        counts = self.stopped("web")
        trace = self.trace_of(directory, counts)
        numbers = self.numbers(trace, "order:tick", running)
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(by_reason(counts), {"ring_full": running.do("emit 0") - len(numbers)})
        return numbers

    def test_filled_before_the_kill(self):
        daemon = self.daemon()
        directory = self.begun("order:tick", channel_options=("--ring-size=64K",))
        running = self.program()
        running.do("emit 10")
        stop_process(daemon.process.pid)
        end = running.do(f"emit {self.COUNT}")
        self.restart(daemon)
        wait_until(lambda: self.session("web")["channels"][0]["events"] > 100, "the rings are not emptied")
        running.do("emit 100")
        numbers = self.check_all_are_there_or_counted(directory, running)
        self.assertEqual(numbers[-100:], list(range(end, end + 100)))
        self.assertEqual(numbers[:100], list(range(100)))

    def test_filled_while_there_is_no_daemon(self):
        daemon = self.daemon()
        directory = self.begun("order:tick", channel_options=("--ring-size=64K",))
        running = self.program()
        running.do("emit 10")
        for _ in range(3):
            self.kill(daemon)
            running.do(f"emit {self.COUNT}")
            daemon = self.start_again(daemon)
            running.do("emit 100")
        self.check_all_are_there_or_counted(directory, running)

    def test_programs_flat_out(self):
        daemon = self.daemon()
        directory = self.begun("load:*", channel_options=("--ring-size=64K",))
        programs = self.switched(3, 1, 0)
        for _ in range(8):
            time.sleep(self.random.random() * 0.1)
            self.kill(daemon)
            time.sleep(self.random.random() * 0.1)
            daemon = self.start_again(daemon)
        evaluated = self.end_all(programs)
        counts = self.stopped("web")
        self.assert_each_once(directory, counts, evaluated)
        self.assertEqual(self.read(directory).discarded(), discarded(counts) - by_reason(counts).get("not_attached", 0))


class Ids(RestartTest):
    def test_events_keep_their_ids_and_new_ones_get_others(self):
        daemon = self.daemon()
        directory = self.begun("order:*")
        self.program().do("emit 1")
        known = wait_until(lambda: ids_of(directory), "events are not described")
        daemon = self.restart(daemon)
        self.program().do("emit 2")
        self.leat("enable-event", "stock:*")
        self.program().do("emit 3")
        daemon = self.restart(daemon)
        running = self.program()
        running.do(f"load {PLUGIN}")
        self.leat("enable-event", "plugin:*")
        running.do("emit 4")
        running.do("unload")
        running.do(f"load {PLUGIN}")
        running.do("work 5")
        trace = self.complete_trace("web", directory)
        self.assertEqual(known, {"order:tick": {1}, "order:tock": {0}})
        self.assertEqual(ids_of(directory), {**known, "stock:tick": {2}, "plugin:work": {3}})
        for name in (*TICKS, "plugin:work"):
            self.assertEqual(metadata_of(directory).count(f'name = "{name}";'), DECLARATIONS)
        self.assertEqual(len(trace.events("order:tick")), 10)
        self.assert_numbers(trace, "plugin:work", range(5))

    def test_event_that_was_enabled_right_before_the_kill(self):
        """Its class may have been in the rings, but not in the metadata."""
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 1")
        for pattern in ("order:tock", "stock:tick"):
            self.leat("enable-event", pattern)
            running.do("emit 10")
            daemon = self.restart(daemon)
        trace = self.complete_trace("web", directory)
        for name, begin in (("order:tick", 0), ("order:tock", 1), ("stock:tick", 11)):
            self.assert_numbers(trace, name, range(begin, 21))
            self.assertEqual(metadata_of(directory).count(f'name = "{name}";'), DECLARATIONS)

    def test_conflicts_are_refused_as_before(self):
        daemon = self.daemon()
        directory = self.begun("order:*")
        first, second = self.program(), None
        first.do("emit 10")
        daemon = self.restart(daemon)
        second = self.program("commanded-field")
        second.do("emit 10")
        conflict, = self.session("web")["conflicts"]
        self.assertEqual([entry["pid"] for entry in conflict["programs"]], [first.pid, second.pid])
        self.restart(daemon)
        self.wait_for_programs(first, second)
        self.assertEqual(self.session("web")["conflicts"], [conflict])
        second.do("emit 10")
        self.program("commanded-level").do("emit 10")
        self.assertEqual(len(self.session("web")["conflicts"]), 2)
        trace = self.complete_trace("web", directory)
        self.assert_numbers(trace, "order:tick", range(10))
        self.assertEqual(len(trace.events("order:tock")), 40)

    def test_versions_go_on(self):
        daemon = self.daemon()
        directory = self.create_active("web", "order:*", options=("--on-conflict=version",))
        programs = []
        for name in ("commanded", "commanded-field", "commanded-level", "commanded-field"):
            programs.append(self.program(name))
            for running in programs:
                running.do("emit 10")
            daemon = self.restart(daemon)
        trace = self.complete_trace("web", directory)
        self.assertEqual(len(ids_of(directory)["order:tick"]), 3)
        for turns, running in zip((4, 3, 2, 1), programs):
            self.assertEqual(self.numbers(trace, "order:tick", running), list(range(10 * turns)))
        self.assertEqual(self.session("web")["conflicts"], [])


def without_delta(line):
    time, _, rest = line.split(" ", 2)
    return time, rest


class Followers(RestartTest):
    maxDiff = None

    def test_follower_has_printed_what_is_in_the_trace(self):
        """It ends when the daemon is killed, with what has come by then of each stream. None of that is undone afterwards."""
        daemon = self.daemon()
        directory = self.begun("load:*", channel_options=("--ring-size=4M",))
        programs = self.switched(2, 20, 2000)
        wait_until(lambda: is_described(directory), "there is no trace")
        printed = []
        for _ in range(8):
            follower = subprocess.Popen([LEAT, "view", "--follow", directory], stdout=subprocess.PIPE, text=True)
            self.addCleanup(follower.communicate)
            self.addCleanup(follower.kill)
            time.sleep(0.1 + self.random.random() * 0.1)
            self.kill(daemon)
            text, _ = follower.communicate(timeout=PATIENCE)
            printed.append(text.splitlines())
            daemon = self.start_again(daemon)
        evaluated = self.end_all(programs)
        counts = self.stopped("web")
        self.assert_each_once(directory, counts, evaluated)
        lines = self.read(directory).lines
        for of_follower in printed:
            # Events of the same time, on two CPUs, come in any order.
            undone = collections.Counter(map(without_delta, of_follower)) - collections.Counter(map(without_delta, lines))
            self.assertEqual(sorted(undone), [], f"seed {self.seed}")
        self.assertGreater(len(printed[-1]), 100)


class States(RestartTest):
    """What was answered, is so after a restart."""

    EMIT = "emit"

    def shown(self):
        """All that `list` and `save` say. How many pages of rings were used is not part of a session's state."""
        sessions = self.json("list")["sessions"]
        definitions = []
        for session in sessions:
            session.pop("memory")
            definitions.append(self.running.ask("save", session=session["name"])["definition"])
        return sessions, definitions

    def steps(self):
        """A verb and its members, or how many events of the channels c and d there are after ten more of each."""
        web, other = ({"session": name} for name in ("web", "other"))
        tracked = {"vuid": os.geteuid()}
        return [("create", {**web, "directory": str(self.directory / "web")}),
                ("enable-channel", {**web, "channel": "c", "ring_size": 2 << 20, "header": "large"}),
                ("enable-channel", {"channel": "d"}),
                ("enable-event", {"channel": "c", "pattern": "order:*", "exclude": ["order:tock"], "loglevel": "INFO"}),
                ("enable-event", {"channel": "d", "pattern": "*:tick", "on_conflict": "version"}),
                ("enable-event", {"channel": "d", "pattern": "off:*", "loglevel_only": "ERR"}),
                ("disable-event", {"channel": "d", "pattern": "off:*"}),
                ("add-context", {"channel": "d", "contexts": ["ip"]}),
                ("track", tracked), ("untrack", tracked), ("track", {"vuid": "all"}), ("track", {"vgid": os.getegid()}),
                ("start", {}), (self.EMIT, (10, 20)),
                ("enable-event", {"channel": "c", "pattern": "stock:*"}), (self.EMIT, (30, 40)),
                ("disable-event", {"channel": "d", "pattern": "*:tick"}), (self.EMIT, (50, 40)),
                ("disable-channel", {"channel": "c"}), (self.EMIT, (50, 40)),
                ("enable-channel", {"channel": "c"}), (self.EMIT, (70, 40)),
                ("rotate", {}), (self.EMIT, (90, 40)),
                ("create", {**other, "directory": str(self.directory / "other")}),
                ("enable-event", {"pattern": "never:*"}), ("start", {}), ("set-session", web), (self.EMIT, (110, 40)),
                ("stop", {}), (self.EMIT, (110, 40)), ("rotate", {}),
                ("enable-event", {"channel": "d", "pattern": "*:tick"}), ("start", {}), (self.EMIT, (130, 60)),
                ("destroy", other), (self.EMIT, (150, 80)), ("stop", {}), ("destroy", {})]

    def states(self, after_answer):
        """Takes all steps. Returns what was shown after each; `after_answer` happens before that."""
        for name in ("web", "other"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        self.running = self.daemon()
        program = None
        states = []
        for verb, members in self.steps():
            if verb == self.EMIT:
                program = program or self.program()
                program.do("emit 10")
                wait_until(lambda: [channel["events"] for channel in self.session("web")["channels"]] == list(members),
                           f"there are other events than {members}")
            else:
                answer = self.running.ask(verb, **members)
                after_answer()
                self.assertTrue(answer["ok"], (verb, members, answer))
            if program:
                self.wait_for_programs(program)
            states.append((verb, members, *self.shown()))
        self.running.stop()
        program.end()
        return states

    def restart_running(self):
        self.running = self.restart(self.running)

    def test_killed_right_after_an_answer(self):
        expected = self.states(lambda: None)
        for expected_state, state in zip(expected, self.states(self.restart_running)):
            self.assertEqual(state, expected_state)

    def test_discarded_events_are_in_the_figures(self):
        daemon = self.daemon()
        self.begun("order:tick", channel_options=("--ring-size=64K",))
        running = self.program()
        running.do("emit 10")
        stop_process(daemon.process.pid)
        running.do("emit 50000")
        daemon.send_signal(signal.SIGCONT)
        before = self.stopped("web")
        shown = self.session("web")
        self.assertGreater(discarded(before), 1000)
        self.restart(daemon)
        self.wait_for_programs(running)
        self.assertEqual({**self.session("web"), "memory": 0}, {**shown, "memory": 0})
        after = self.json("destroy", "web")
        self.assertEqual((after["events"], after["discarded"]), (before["events"], before["discarded"]))

    def test_stopped_session_stays_stopped(self):
        daemon = self.daemon()
        directory = self.begun("order:*")
        running = self.program()
        running.do("emit 10")
        before = self.stopped("web")
        daemon = self.restart(daemon)
        running.do("emit 10")
        self.program().do("emit 10")
        self.assertFalse((daemon.directory / "active").exists())
        self.assertEqual((self.session("web")["state"], self.session("web")["started_once"]), ("inactive", True))
        self.assertEqual(self.json("stop", "web")["events"], before["events"])
        self.leat("start", "web")
        running.do("emit 10")
        trace = self.complete_trace("web", directory)
        self.assert_numbers(trace, "order:tick", range(10), range(20, 30))
        self.assertEqual(ids_of(directory), {"order:tick": {1}, "order:tock": {0}})

    def test_stopped_while_the_rings_held_events(self):
        """The answer to stop says that all is stored."""
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 1000")
        counts = self.stopped("web")
        self.kill(daemon)
        self.assert_numbers(self.trace_of(directory, counts), "order:tick", range(1000))
        self.start_again(daemon)
        self.assertEqual(self.json("destroy", "web")["events"], 1000)
        self.assert_numbers(self.trace_of(directory, counts), "order:tick", range(1000))

    def test_session_that_was_never_started(self):
        daemon = self.daemon()
        directory = self.create("web")
        daemon = self.restart(daemon)
        self.leat("enable-event", "order:tick")
        daemon = self.restart(daemon)
        running = self.program()
        running.do("emit 10")
        self.assertEqual((self.session("web")["state"], self.session("web")["started_once"]), ("inactive", False))
        self.assertEqual(list(directory.rglob("metadata")), [])
        self.leat("start", "web")
        self.restart(daemon)
        second = self.program()
        second.do("emit 10")
        self.leat("stop", "web")
        self.assertEqual(self.numbers(self.read(directory), "order:tick", second), list(range(10)))

    def test_destroyed_session_does_not_come_back(self):
        daemon = self.daemon()
        directories = {name: self.create_active(name, "order:tick") for name in ("first", "second")}
        running = self.program()
        running.do("emit 10")
        self.leat("destroy", "first")
        daemon = self.restart(daemon)
        self.assertEqual([session["name"] for session in self.json("list")["sessions"]], ["second"])
        running.do("emit 10")
        self.assert_numbers(self.trace_of(directories["first"]), "order:tick", range(10))
        again = self.create_active("first", "order:tick")
        daemon = self.restart(daemon)
        self.program().do("emit 5")
        self.assert_numbers(self.complete_trace("first", again), "order:tick", range(5))
        self.assert_numbers(self.complete_trace("second", directories["second"]), "order:tick", range(20), range(5))

    def test_two_sessions_with_channels_of_their_own(self):
        daemon = self.daemon()
        directories = self.begun_with_unlike_channels()
        running = self.program()
        for _ in range(3):
            running.do("emit 100")
            self.kill(daemon)
            running.do("emit 100")
            daemon = self.start_again(daemon)
        self.leat("stop", "first")
        daemon = self.restart(daemon)
        running.do("emit 100")
        expected = {"plain": ("order:tick", "order:tock"), "rich": ("order:tick", "stock:tick")}
        for name, has_ip, count in (("first", "rich", 600), ("second", "plain", 700)):
            trace = self.complete_trace(name, directories[name])
            self.assertEqual(len(trace.lines), 4 * count, name)
            for channel, events in expected.items():
                for event in events:
                    found = [e["n"] for e in trace.events(event) if (" ip = " in e.rest) == (channel == has_ip)]
                    self.assertEqual(found, list(range(count)), (name, channel, event))

    def test_tracked_processes(self):
        daemon = self.daemon()
        directory = self.create("web")
        self.leat("enable-event", "order:tick")
        self.leat("track", "--vpid=1")
        self.leat("start")
        tracked, other = self.program(), self.program()
        self.leat("track", f"--vpid={tracked.pid}")
        self.attach("web", tracked)
        daemon = self.restart(daemon)
        begin = tracked.do("emit 0")
        tracked.do("emit 10")
        other.do("emit 10")
        self.assertEqual(self.session("web")["tracked"]["vpid"], [1, tracked.pid])
        self.leat("untrack", f"--vpid={tracked.pid}")
        self.restart(daemon)
        tracked.do("emit 10")
        self.leat("stop")
        trace = self.read(directory)
        self.assertEqual(self.numbers(trace, "order:tick", tracked)[-10:], list(range(begin, begin + 10)))
        self.assertEqual(self.numbers(trace, "order:tick", other), [])


class RingsOfEachProcess(RestartTest):
    def test_processes_that_end_go_on_and_begin(self):
        daemon = self.daemon()
        directory = self.begun("order:tick", channel_options=("--buffers=pid",))
        ended, killed, going_on, ended_before = [self.program() for _ in range(4)]
        for running in (ended, killed, going_on, ended_before):
            running.do("emit 10")
        ended_before.end()
        self.wait_for_program_count(3)
        self.kill(daemon)
        for running in (ended, killed, going_on):
            running.do("emit 10")
        ended.end()
        killed.kill()
        daemon = self.start_again(daemon)
        begun = self.program()
        for running in (going_on, begun):
            running.do("emit 10")
        daemon = self.restart(daemon)
        for running in (going_on, begun):
            running.do("emit 10")
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (10 + 20 + 20 + 40 + 20, 0))
        trace = self.trace_of(directory, counts)
        for running, count in ((ended_before, 10), (ended, 20), (killed, 20), (going_on, 40), (begun, 20)):
            self.assertEqual(self.numbers(trace, "order:tick", running), list(range(count)))
        parts = [path.parent for path in directory.rglob("metadata")]
        self.assertEqual(len(parts), 5, "a process has two traces")
        for part in parts:
            self.assertEqual(len({event["vpid"] for event in self.read(part).events()}), 1)


class Rotation(RestartTest):
    def test_before_and_after(self):
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        expected = []
        for turn in range(6):
            begin = running.do("emit 0")
            running.do("emit 100")
            if turn % 2 == 0:
                self.kill(daemon)
                running.do("emit 100")
                daemon = self.start_again(daemon)
            end = running.do("emit 100")
            chunk = self.json("rotate")["chunk"]
            expected.append((pathlib.Path(chunk), range(begin, end)))
            if turn % 3 == 0:
                daemon = self.restart(daemon)
        begin = running.do("emit 0")
        running.do("emit 100")
        counts = self.stopped("web")
        chunks = self.chunks_of(directory)
        self.assertEqual(chunks[:-1], [chunk for chunk, _ in expected])
        for chunk, numbers in (*expected, (chunks[-1], range(begin, begin + 100))):
            trace = self.read(chunk)
            self.assertEqual(trace.stderr, "")
            self.assert_numbers(trace, "order:tick", numbers)
        self.assertEqual((counts["events"], discarded(counts)), (begin + 100, 0))
        self.leat("destroy")
        self.assertEqual(len(self.chunks_of(directory)), 7)
        self.assertEqual([path.name for path in directory.iterdir()], ["archives"])

    def test_clear(self):
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        self.leat("clear")
        daemon = self.restart(daemon)
        begin = running.do("emit 0")
        running.do("emit 10")
        daemon = self.restart(daemon)
        self.leat("stop")
        numbers = [event["n"] for event in self.read(directory).events()]
        self.assertEqual(numbers, list(range(begin, begin + 10)))

    def test_killed_in_the_middle(self):
        """At random moments, under load: every chunk can be read, and together they are complete."""
        daemon = self.daemon()
        directory = self.begun("load:*", channel_options=("--ring-size=4M",))
        programs = self.switched(4, 50, 2000)
        wait_until(lambda: all(started.evaluated() > 0 for started in programs), "no program is traced")
        for _ in range(15):
            rotating = subprocess.Popen([LEAT, "rotate", "web"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(rotating.wait)
            time.sleep(self.random.random() * 0.02)
            self.kill(daemon)
            rotating.wait(PATIENCE)
            daemon = self.start_again(daemon)
        self.leat("rotate", "web")
        evaluated = self.end_all(programs)
        counts = self.stopped("web")
        self.assert_each_once(directory, counts, evaluated)
        archived = list((directory / "archives").iterdir())
        self.assertEqual([path for path in self.chunks_of(directory)[:-1] if path not in archived], [],
                         "a chunk that ended is in no archive")


if __name__ == "__main__":
    main()
