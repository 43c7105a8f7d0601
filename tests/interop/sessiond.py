#!/usr/bin/env python3
"""[RFC-event-ids], point by point, with the session daemon and real programs: event ids of a user, a session and a channel;
what is told when programs start and load libraries; and who may read what."""
import os
import pathlib
import re
import signal
import subprocess
import threading

from session_daemons import (DECLARATIONS, TICKS, SessionTest, as_user, discarded, elapsed, ids_of, metadata_of)
from support import PATIENCE, PROGRAMS, can_be_two_users, main, needs, plain_run, program, stop_process, wait_until

PLUGIN = PROGRAMS / "libtest-plugin.so"
ALICE, BOB = 1000, 1001  # need not be in /etc/passwd


class EventIds(SessionTest):
    def test_wildcard_enables_many_events_of_programs_that_come_later(self):
        self.daemon()
        directory = self.create_active("web", "order:*")
        self.program().do("emit 100")
        trace = self.complete_trace("web", directory)
        self.assert_numbers(trace, "order:tick", range(100))
        self.assert_numbers(trace, "order:tock", range(100))
        self.assertEqual(len(trace.lines), 200)
        # In the order that the compiler has given them.
        self.assertIn(ids_of(directory), ({"order:tick": {0}, "order:tock": {1}}, {"order:tick": {1}, "order:tock": {0}}))

    def test_stars_anywhere_exclusions_and_levels(self):
        self.daemon()
        for name, rule, expected in (
                ("middle", ("or*:t*k",), {"order:tick", "order:tock"}),
                ("ends", ("*tick",), {"order:tick", "stock:tick"}),
                ("excluded", ("*", "--exclude", "order:*", "-x", "plugin:*"), {"stock:tick"}),
                ("at-least", ("*", "--loglevel", "WARNING"), {"stock:tick"}),
                ("exactly", ("*:t*", "--loglevel-only", "INFO"), {"order:tick"}),
                ("no-star", ("order:tick", ), {"order:tick"}),
                ("quoted-star", ("order:\\*,stock:tick", ), {"stock:tick"})):
            directory = self.create_active(name, *rule)
            self.program().do("emit 5")
            trace = self.complete_trace(name, directory)
            self.assertEqual({event.name for event in trace.events()}, expected, name)
            self.assertEqual(len(trace.lines), 5 * len(expected), name)

    def test_same_event_of_two_programs_has_one_id(self):
        self.daemon()
        directory = self.create("web")
        self.leat("enable-event", "*")
        self.leat("start")
        programs = [self.program(), self.copy_of_program("other-program")]
        for number, started in enumerate(programs):
            started.do(f"emit {10 + number}")
        trace = self.complete_trace("web", directory)
        for name in TICKS:
            self.assertEqual(metadata_of(directory).count(f'name = "{name}";'), DECLARATIONS)
            for number, started in enumerate(programs):
                numbers = [event["n"] for event in trace.events(name) if event["vpid"] == started.pid]
                self.assertEqual(numbers, list(range(10 + number)))
        self.assertEqual({event["procname"] for event in trace.events()}, {"test-program-co", "other-program"})

    def test_ids_are_stable_over_stop_and_start(self):
        self.daemon()
        directory = self.create_active("web", "order:*")
        running = self.program()
        running.do("emit 10")
        before = self.stopped("web")
        ids = ids_of(directory)
        running.do("emit 10")
        self.assertEqual(self.json("start")["ok"], True)
        # The channel of before is there again: nothing needs to be fetched.
        running.do("emit 10")
        trace = self.complete_trace("web", directory)
        self.assertEqual((before["events"], ids_of(directory)), (20, ids))
        self.assert_numbers(trace, "order:tick", range(10), range(20, 30))

    def test_library_that_is_loaded_while_tracing_and_reloaded_keeps_its_ids(self):
        self.daemon()
        directory = self.create_active("web", "order:tick,plugin:*")
        running = self.program()
        for turn in range(3):
            running.do(f"load {PLUGIN}")
            running.do("work 10")
            running.do("emit 1")
            running.do("unload")
        trace = self.complete_trace("web", directory)
        self.assert_numbers(trace, "plugin:work", range(30))
        self.assert_numbers(trace, "order:tick", range(3))
        self.assertEqual(metadata_of(directory).count('name = "plugin:work";'), DECLARATIONS)

    def test_registry_is_emptied_at_destroy(self):
        """A session of the same name begins with id 0, and knows nothing of what conflicted before."""
        self.daemon()
        first = self.create_active("web", "order:tock")
        for name in ("commanded", "commanded-field"):
            running = self.program(name)
            running.do("emit 1")
            running.end()
        self.leat("destroy", "web")
        second = self.create_active("web", "order:tick")
        self.program("commanded-field").do("emit 7")
        trace = self.complete_trace("web", second)
        self.assertEqual((ids_of(first), ids_of(second)), ({"order:tock": {0}}, {"order:tick": {0}}))
        self.assertEqual((len(trace.lines), self.session("web")["conflicts"]), (7, []))
        self.assertEqual(len(self.trace_of(first).lines), 2)

    def test_programs_that_are_older_than_the_daemon_and_than_the_session(self):
        old = self.program()
        old.do("emit 3")
        self.daemon()
        younger = self.program()
        younger.do("emit 3")
        self.wait_for_programs(old, younger)
        directory = self.create("web")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        for running in (old, younger):
            self.attach("web", running)
        emitted = {running.pid: running.do("emit 1000") for running in (old, younger)}
        counts = self.stopped("web")
        trace = self.trace_of(directory, counts)
        # One that was not attached in time has counted its first events.
        self.assertEqual(counts["events"] + discarded(counts), sum(emitted.values()) - 6)
        for running in (old, younger):
            numbers = [event["n"] for event in trace.events() if event["vpid"] == running.pid]
            self.assertEqual(numbers, list(range(emitted[running.pid] - len(numbers), emitted[running.pid])))
            self.assertGreaterEqual(len(numbers), 1000)

    def test_rule_that_is_added_while_programs_run(self):
        self.daemon()
        directory = self.create_active("web", "order:tick")
        running = self.program()
        running.do("emit 10")
        self.leat("enable-event", "stock:*")
        running.do("emit 10")
        self.leat("disable-event", "order:tick")
        running.do("emit 10")
        trace = self.complete_trace("web", directory)
        self.assert_numbers(trace, "order:tick", range(20))
        self.assert_numbers(trace, "stock:tick", range(10, 30))

    def test_children_of_fork_are_programs(self):
        self.daemon()
        directory = self.create_active("web", "order:tick")
        running = self.program()
        running.do("fork 10")
        running.do("emit 10")
        trace = self.complete_trace("web", directory)
        self.assert_numbers(trace, "order:tick", range(10), range(10))


class Conflicts(SessionTest):
    def assert_told_once(self, result, text):
        self.assertEqual(result.stderr.count(text), 1, result.stderr)

    def each_emits(self, count, *names):
        """Starts programs one after the other."""
        programs = []
        for name in names:
            programs.append(self.program(name))
            programs[-1].do(f"emit {count}")
        return programs

    def test_conflict_is_refused_and_reported_to_who_starts(self):
        daemon = self.daemon()
        known, other = self.program(), self.program("commanded-field")
        self.wait_for_programs(known, other)
        directory = self.create("web")
        self.leat("enable-event", "order:tick")
        started = self.leat("start")
        self.assert_told_once(started, '"order:tick"')
        for part in (f"({known.pid})", f"({other.pid})", 'field "n" is'):
            self.assertIn(part, started.stderr)
        conflict, = self.session("web")["conflicts"]
        self.assertEqual((conflict["event"], conflict["channel"]), ("order:tick", "channel0"))
        self.assertEqual({entry["pid"] for entry in conflict["programs"]}, {known.pid, other.pid})
        self.assertTrue(all(entry["name"].startswith("test-program-") for entry in conflict["programs"]))
        self.assertRegex(conflict["difference"], 'field "n" is u?int(64|16) there, u?int(64|16) here')
        shown = self.leat("list", "web").stdout
        for part in ("conflict", f"({known.pid})", f"({other.pid})", conflict["difference"]):
            self.assertIn(part, shown)
        self.assertEqual(daemon.log().count(conflict["text"]), 1, daemon.log())
        self.assertEqual(self.leat("start").stderr, "")
        traced = conflict["programs"][0]["pid"]
        for running in (known, other):
            self.attach("web", running) if running.pid == traced else None
            running.do("emit 10")
        counts = self.stopped("web")
        trace = self.trace_of(directory, counts)
        self.assertEqual({str(event["n"]) for event in trace.events()} >= {str(n) for n in range(2, 10)}, True)
        self.assertEqual(ids_of(directory), {"order:tick": {0}})

    def test_conflict_is_reported_to_who_enables(self):
        self.daemon()
        self.create_active("web", "stock:tick")
        programs = self.program(), self.program("commanded-level")
        for running in programs:
            running.do("emit 1")
        enabled = self.leat("enable-event", "order:*")
        self.assert_told_once(enabled, '"order:tick"')
        self.assertRegex(enabled.stderr, "log level (INFO|TRACE_INFO) there, (TRACE_)?ERR here"
                                         "|log level (TRACE_)?ERR there, (TRACE_)?INFO here")
        # The terminal is told once; who asks, as a script, finds it in the answer.
        other = self.json("enable-event", "or*")
        self.assertEqual(len(self.session("web")["conflicts"]), 1)
        self.assertEqual(other["warnings"], [])

    def test_conflict_of_a_program_that_starts_later_is_in_the_log_and_the_list(self):
        daemon = self.daemon()
        directory = self.create_active("web", "order:*")
        first, second = self.each_emits(10, "commanded", "commanded-field")
        conflict, = self.session("web")["conflicts"]
        self.assertEqual([entry["pid"] for entry in conflict["programs"]], [first.pid, second.pid])
        self.assertEqual(daemon.log().count(conflict["text"]), 1)
        trace = self.complete_trace("web", directory)
        self.assert_numbers(trace, "order:tick", range(10))
        self.assertEqual(len(trace.events("order:tock")), 20)

    def test_same_program_twice_is_told_once(self):
        daemon = self.daemon()
        self.create_active("web", "order:*")
        self.program().do("emit 1")
        for _ in range(3):
            self.program("commanded-field").do("emit 1")
        self.assertEqual(len(self.session("web")["conflicts"]), 1)
        self.assertEqual(daemon.log().count("differs from that of"), 1, daemon.log())

    def test_versions_of_an_event_have_ids_of_their_own(self):
        self.daemon()
        directory = self.create_active("web", "order:*", options=("--on-conflict=version",))
        self.each_emits(10, "commanded", "commanded-field", "commanded-level", "commanded")
        trace = self.complete_trace("web", directory)
        self.assertEqual(len(ids_of(directory)["order:tick"]), 3)
        self.assertEqual(len(ids_of(directory)["order:tock"]), 1)
        self.assert_numbers(trace, "order:tick", *[range(10)] * 4)
        self.assertEqual(self.session("web")["conflicts"], [])

    def test_version_rule_after_a_conflict_records_what_was_refused(self):
        self.daemon()
        directory = self.create_active("web", "order:tick")
        _, second = self.each_emits(10, "commanded", "commanded-field")
        self.leat("enable-event", "order:tick", "--on-conflict=version")
        self.attach("web", second)
        begin = second.do("emit 0")
        end = second.do("emit 10")
        counts = self.stopped("web")
        trace = self.trace_of(directory, counts)
        self.assertEqual(counts["events"] + discarded(counts), 10 + end - 10)
        self.assertEqual([event["n"] for event in trace.events()][-10:], list(range(begin, end)))


class Registration(SessionTest):
    """A program goes on when its events are on, or when it has waited long enough."""

    def run_time(self, *command, **variables):
        def run():
            result = plain_run(*command, env={**os.environ, **variables})
            self.assertEqual(result.returncode, 0, result.stderr)
        return elapsed(run)

    def test_first_event_of_main_is_recorded(self):
        self.daemon()
        directory = self.create_active("web", "test:*")
        for _ in range(20):
            self.assertEqual(plain_run(program("emit"), "1", "1").stdout, "2\n")
        self.assertEqual(len(self.complete_trace("web", directory).lines), 40)

    def test_first_event_of_a_library_is_recorded_whatever_else_goes_on(self):
        """While one client changes rules all the time, each library that is loaded waits for its own answer."""
        self.daemon()
        directory = self.create_active("web", "plugin:*")
        is_over = threading.Event()
        changes = []

        def change():
            while not is_over.is_set():
                self.leat("enable-event", "no:such*")
                self.leat("disable-event", "no:such*")
                changes.append(2)
        changing = threading.Thread(target=change)
        changing.start()
        try:
            result = plain_run(program("plugin-host"), str(PLUGIN), "200")
        finally:
            is_over.set()
            changing.join()
        self.assertEqual((result.returncode, result.stdout), (0, "done\n"), result.stderr)
        trace = self.complete_trace("web", directory)
        self.assert_numbers(trace, "plugin:work", [n for turn in range(200) for n in (turn, turn + 1000)])
        self.assertGreater(len(changes), 3)
        self.assertEqual(metadata_of(directory).count('name = "plugin:work";'), DECLARATIONS)

    def test_delay_at_a_start_while_the_daemon_does_not_answer(self):
        daemon = self.daemon()
        self.create_active("web", "test:*")
        stop_process(daemon.process.pid)
        emit = program("emit"), "1", "1"
        self.assertLess(self.run_time(*emit, LEAT_REGISTER_TIMEOUT="0"), 0.5)
        waited = self.run_time(*emit, LEAT_REGISTER_TIMEOUT="700")
        self.assertTrue(0.7 <= waited < 1.5, waited)
        os.environ.pop("LEAT_REGISTER_TIMEOUT")  # setUp() restores it
        waited = self.run_time(*emit)
        self.assertTrue(3 <= waited < 4.5, waited)

    def test_time_that_is_no_number_is_the_usual_one(self):
        daemon = self.daemon()
        self.create_active("web", "test:*")
        stop_process(daemon.process.pid)
        self.assertGreaterEqual(self.run_time(program("emit"), "1", "1", LEAT_REGISTER_TIMEOUT="1s"), 3)

    def test_deaf_daemon_delays_one_start_and_not_each(self):
        daemon = self.daemon()
        directory = self.create_active("web", "test:*")
        emit = program("emit"), "1", "1"
        stop_process(daemon.process.pid)
        self.assertGreaterEqual(self.run_time(*emit, LEAT_REGISTER_TIMEOUT="1000"), 1)
        script = "for i in $(seq 20); do {} 1 1 >/dev/null || exit 1; done".format(program("emit"))
        self.assertLess(self.run_time("sh", "-c", script, LEAT_REGISTER_TIMEOUT="3000"), 20)
        daemon.send_signal(signal.SIGCONT)
        (noted,) = (path for path in self.runtime.rglob("deaf-*"))
        (active,) = (path for path in self.runtime.rglob("active"))
        wait_until(lambda: active.stat().st_mtime_ns != noted.stat().st_mtime_ns, "it answers nobody")
        self.run_time(*emit)
        stop_process(daemon.process.pid)
        self.assertGreaterEqual(self.run_time(*emit, LEAT_REGISTER_TIMEOUT="1000"), 1, "nobody waits for it any more")
        daemon.send_signal(signal.SIGCONT)
        self.assertEqual(len(self.complete_trace("web", directory).lines), 2)

    def test_daemon_that_answers_others_is_not_deaf(self):
        daemon = self.daemon()
        self.create_active("web", "test:*")
        stop_process(daemon.process.pid)
        (active,) = self.runtime.rglob("active")
        with subprocess.Popen([program("emit"), "1", "1"], stdout=subprocess.DEVNULL,
                              env={**os.environ, "LEAT_REGISTER_TIMEOUT": "1000"}) as waiting:
            while waiting.poll() is None:
                active.touch()
        self.assertEqual(list(self.runtime.rglob("deaf-*")), [])

    def test_nothing_is_noted_where_a_link_leads(self):
        """As another user may have put there before."""
        daemon = self.daemon()
        self.create_active("web", "test:*")
        stop_process(daemon.process.pid)
        (active,) = self.runtime.rglob("active")
        directory = self.runtime / "apps" / f"leat-{os.geteuid()}"
        elsewhere = self.runtime / "elsewhere"
        if directory.exists():
            directory.rename(elsewhere)
        else:
            elsewhere.mkdir()
        directory.symlink_to(elsewhere)
        self.run_time(program("other-abi"), "2", LEAT_REGISTER_TIMEOUT="1000")
        self.assertEqual(list(elsewhere.glob("deaf-*")), [])
        self.assertTrue(active.exists() or elsewhere in active.parents)

    def test_unlimited_delay(self):
        daemon = self.daemon()
        directory = self.create_active("web", "test:*")
        stop_process(daemon.process.pid)
        waiting = subprocess.Popen([program("emit"), "1", "1"], stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "LEAT_REGISTER_TIMEOUT": "-1"})
        self.addCleanup(waiting.communicate)
        self.addCleanup(waiting.kill)
        with self.assertRaises(subprocess.TimeoutExpired):
            waiting.wait(4)
        daemon.send_signal(signal.SIGCONT)
        self.assertEqual(waiting.communicate(timeout=PATIENCE)[0], "2\n")
        self.assertEqual(len(self.complete_trace("web", directory).lines), 2)

    def test_nobody_waits_without_an_active_session(self):
        daemon = self.daemon()
        emit = program("emit"), "1", "1"
        directory = self.create("web")
        self.leat("enable-event", "test:*")
        stop_process(daemon.process.pid)
        self.assertLess(self.run_time(*emit), 1)
        daemon.send_signal(signal.SIGCONT)
        self.leat("start")
        self.leat("stop")
        stop_process(daemon.process.pid)
        self.assertLess(self.run_time(*emit), 1)
        daemon.send_signal(signal.SIGCONT)
        self.assertTrue(directory.exists())

    def test_delay_of_a_library_once_in_a_process(self):
        daemon = self.daemon()
        self.create_active("web", "plugin:*")
        running = self.program(LEAT_REGISTER_TIMEOUT="700")
        running.do("emit 1")
        stop_process(daemon.process.pid)
        waited = elapsed(running.do, f"load {PLUGIN}")
        self.assertTrue(0.7 <= waited < 1.5, waited)
        running.do("unload")
        self.assertLess(elapsed(running.do, f"load {PLUGIN}"), 0.5)


class SeveralSessions(SessionTest):
    def test_channels_of_two_sessions_record_the_same_tracepoint_each_in_its_own_way(self):
        self.daemon()
        directories = self.begun_with_unlike_channels()
        running = self.program()
        running.do("emit 1000")
        expected = {"plain": {"order:tick": 1000, "order:tock": 1000, "stock:tick": 0},
                    "rich": {"order:tick": 1000, "order:tock": 0, "stock:tick": 1000}}
        for name, has_ip in (("first", "rich"), ("second", "plain")):
            trace = self.complete_trace(name, directories[name])
            self.assertEqual(len(trace.lines), 4000, name)
            for channel, events in expected.items():
                for event, count in events.items():
                    found = [e for e in trace.events(event) if (" ip = " in e.rest) == (channel == has_ip)]
                    self.assertEqual([e["n"] for e in found], list(range(count)), (name, channel, event))
                    self.assertEqual({(e["vpid"], e["procname"]) for e in found},
                                     {(running.pid, "test-program-co")} if count else set())

    def test_one_session_stops_while_another_goes_on(self):
        self.daemon()
        first = self.create_active("first", "order:tick")
        second = self.create_active("second", "*")
        running = self.program()
        running.do("emit 10")
        self.leat("stop", "first")
        running.do("emit 10")
        self.leat("start", "first")
        self.leat("destroy", "second")
        running.do("emit 10")
        self.assert_numbers(self.complete_trace("first", first), "order:tick", range(10), range(20, 30))
        trace = self.trace_of(second)
        for name in TICKS:
            self.assert_numbers(trace, name, range(20))

    def test_memory_of_the_rings_goes_with_the_session(self):
        """Programs have it mapped until they attach many other channels."""
        self.daemon()
        self.create_active("web", "order:*")
        running = self.program()
        running.do("emit 1000")

        def resident():
            entries = re.split(r"^(?=[0-9a-f]+-)", pathlib.Path(f"/proc/{running.pid}/smaps").read_text(), flags=re.M)
            return sum(int(re.search(r"^Rss: +(\d+)", entry, re.M)[1]) for entry in entries if "memfd:leat-rings" in entry)

        self.assertGreater(resident(), 0)
        self.leat("destroy", "web")
        wait_until(lambda: resident() == 0, "the memory stays")
        directory = self.create_active("next", "order:tick")
        running.do("emit 10")
        self.assert_numbers(self.complete_trace("next", directory), "order:tick", range(1000, 1010))


@needs(can_be_two_users(), "two-users")
class Users(SessionTest):
    def everything_of(self, directory):
        return [path for path in directory.rglob("*") if not path.is_symlink()]

    def may(self, uid, mode, path):
        """Whether this user may open the file so (or the directory, to list it)."""
        opening = "import os, sys; os.open(sys.argv[1], int(sys.argv[2]))"
        return subprocess.run(["python3", "-c", opening, str(path), str(mode)], stderr=subprocess.DEVNULL,
                              **as_user(uid)).returncode == 0

    def assert_closed_to(self, uid, paths):
        self.assertTrue(paths)
        for path in paths:
            for mode in (os.O_RDONLY, os.O_WRONLY):
                self.assertFalse(self.may(uid, mode, path), f"user {uid} may open {path}")

    def test_users_of_roots_daemon_have_traces_of_their_own(self):
        self.daemon()
        directory = self.create_active("all", "order:tick")
        numbers = {uid: self.program(uid=uid).do(f"emit {count}") for uid, count in ((None, 5), (ALICE, 6), (BOB, 7))}
        self.complete_trace("all", directory)
        for uid, count in numbers.items():
            part = directory / "ust" / "uid" / str(uid or 0) / "64-bit"
            self.assert_numbers(self.trace_of(part), "order:tick", range(count))

    def test_users_cannot_read_each_others_files(self):
        self.daemon()
        directory = self.create_active("all", "order:tick")
        programs = {uid: self.program(uid=uid) for uid in (ALICE, BOB)}
        for running in programs.values():
            running.do("emit 100")
        for owner, other in ((ALICE, BOB), (BOB, ALICE)):
            apps = self.runtime / "apps" / f"leat-{owner}"
            controls = sorted(apps.glob("*.app"))
            self.assertEqual([(path.stat().st_uid, path.stat().st_mode & 0o7777) for path in controls],
                             [(owner, 0o600)])
            rings = [path for path in pathlib.Path(f"/proc/{programs[owner].pid}/map_files").iterdir()
                     if "leat" in os.readlink(path)]
            self.assertTrue(rings)
            self.assert_closed_to(other, [apps, *controls, *rings, pathlib.Path(f"/proc/{programs[owner].pid}/mem")])
            self.assertTrue(self.may(owner, os.O_RDWR, controls[0]))
        counts = self.stopped("all")
        self.assertEqual((counts["events"], discarded(counts)), (200, 0))
        for owner, other in ((ALICE, BOB), (BOB, ALICE)):
            part = directory / "ust" / "uid" / str(owner)
            files = [part, *self.everything_of(part)]
            for path in files:
                self.assertEqual((path.stat().st_uid, path.stat().st_mode & 0o7777),
                                 (owner, 0o750 if path.is_dir() else 0o640), path)
            self.assert_closed_to(other, files)
            self.assertTrue(self.may(owner, os.O_RDONLY, part / "64-bit" / "metadata"))

    def test_user_may_not_steer_roots_daemon(self):
        self.daemon()
        self.create("all")
        for verb in (("list",), ("destroy", "all")):
            self.assert_one_line(self.leat(*verb, uid=ALICE, status=1).stderr, "control.sock is not for you")
        self.assertEqual(self.session("all")["state"], "inactive")

    def test_each_user_has_a_daemon_of_their_own(self):
        for uid in (ALICE, BOB):
            self.daemon(uid=uid)
        directories = {uid: self.create_active("mine", "order:tick", uid=uid) for uid in (ALICE, BOB)}
        programs = [self.program(uid=uid) for uid in (ALICE, BOB, BOB, None)]
        for count, running in enumerate(programs):
            running.do(f"emit {count + 1}")
        for uid, count in ((ALICE, 1), (BOB, 5)):
            self.assertEqual([entry["pid"] for entry in self.json("list", "--programs", uid=uid)["programs"]],
                             sorted(running.pid for running, owner in zip(programs, (ALICE, BOB, BOB)) if owner == uid))
            self.assertEqual(len(self.complete_trace("mine", directories[uid], uid=uid).lines), count)
        for owner, other in ((ALICE, BOB), (BOB, ALICE)):
            own = self.runtime / "apps" / f"leat-{owner}"
            self.assert_closed_to(other, [own / "control.sock", own / "app.sock"])

    def test_daemons_of_root_and_of_the_user_trace_a_program_at_once(self):
        self.daemon()
        self.daemon(uid=ALICE)
        everybody = self.create_active("all", "order:*")
        self.leat("add-context", "ip", status=1)  # it was started
        own = self.create_active("mine", "*:tick", uid=ALICE)
        running = self.program(uid=ALICE)
        running.do("emit 1000")
        trace = self.complete_trace("mine", own, uid=ALICE)
        running.do("emit 1000")
        for name in ("order:tick", "stock:tick"):
            self.assert_numbers(trace, name, range(1000))
        trace = self.complete_trace("all", everybody)
        for name in ("order:tick", "order:tock"):
            self.assert_numbers(trace, name, range(2000))


if __name__ == "__main__":
    main()
