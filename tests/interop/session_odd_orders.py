#!/usr/bin/env python3
"""Steps that are all legal, in orders that are seldom taken: tried again after a failure, by two users at once, with what is left
of another session, killed in between. Each was wrong once."""
import grp
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess

from relays import LeatRelay
from session_daemons import Commanded, RestartTest, SessionDaemon, as_user, by_reason, discarded, elapsed
from support import (LEAT, PATIENCE, Held, can_be_two_users, has, main, needs, open_files_of, outside_gate, plain_run, program,
                     stop_process, wait_until, without_sanitizers)

OTHER = 1000
GROUP = 1  # of those who may steer root's daemon

# Keeps a file locked, as a process does that is about to finish its control file, under one name after the other.
NEVER_FINISHED = """
import fcntl, itertools, os, sys, time
directory = sys.argv[1]
os.makedirs(directory, mode=0o700, exist_ok=True)
path = os.path.join(directory, f"{0:016x}.new")
file = open(path, "w")
fcntl.flock(file, fcntl.LOCK_SH)
print("ready", flush=True)
for number in itertools.count(1):
    if number % 50 == 0:  # and another file now and then
        another = open(path + "er", "w")
        fcntl.flock(another, fcntl.LOCK_SH)
        os.rename(path + "er", path)
        file = another
    next_path = os.path.join(directory, f"{number:016x}.new")
    os.rename(path, next_path)
    path = next_path
    time.sleep(0.002)
"""


class OddOrders(RestartTest):
    def begun(self, name="web", pattern="order:tick", options=(), channel_options=None):
        directory = self.directory / name
        self.leat("create", name, "-o", directory, *options)
        if channel_options is not None:
            self.leat("enable-channel", "c", *channel_options, "-s", name)
        self.leat("enable-event", pattern, "-s", name)
        self.leat("start", name)
        return directory

    def begun_at_a_relay(self, channel_options=None):
        """A relay that gets a session, and is killed at the end."""
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        self.leat("create", "web", "-o", relay.url)
        if channel_options is not None:
            self.leat("enable-channel", "c", *channel_options)
        self.leat("enable-event", "order:tick")
        self.leat("start")
        return relay

    def view(self, *metadata):
        """The lines of traces that still grow."""
        return plain_run(LEAT, "view", *(path.parent for path in metadata)).stdout.splitlines() if metadata else []

    def assert_next_are_accounted(self, name, running, **options):
        """Of a program that may not have its rings yet: what is counted is what was emitted now."""
        before = running.do("emit 0")
        now = running.do("emit 20")
        counts = self.json("stop", name, **options)
        self.assert_accounted(now - before, counts["events"], discarded(self.session(name, **options)))

    def lines(self, directory):
        return [line for trace in sorted(directory.rglob("metadata")) for line in self.read(trace.parent).lines]


class OfTwoUsers(OddOrders):
    @needs(can_be_two_users(), "two-users")
    def test_current_session_ends_with_it(self):
        """Another user may make one of the same name, which is then not the one that is meant."""
        self.daemon(f"--group={grp.getgrgid(GROUP).gr_name}")
        self.create("web")
        self.leat("destroy")
        self.directory.chmod(0o777)
        subprocess.run([LEAT, "create", "web", "-o", self.directory / "others"], check=True, timeout=PATIENCE,
                       stdout=subprocess.DEVNULL, user=OTHER, group=GROUP, extra_groups=[])
        for verb in ("start", "stop", "destroy"):
            self.assert_one_line(self.leat(verb, status=1).stderr, "there is no current session")
        self.assertEqual([session["name"] for session in self.json("list")["sessions"]], ["web"])

    @outside_gate("asserts how long verbs take")
    @needs(can_be_two_users(), "two-users")
    def test_files_that_are_never_finished_hold_up_nobody_else(self):
        """Once a minute they may, for a second."""
        self.daemon()
        self.begun()
        process = subprocess.Popen(["python3", "-c", NEVER_FINISHED, str(self.runtime / "apps" / f"leat-{OTHER}")],
                                   stdout=subprocess.PIPE, text=True, **as_user(OTHER))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        took = [elapsed(self.leat, *verb) for _ in range(4) for verb in
                (("disable-event", "order:tick"), ("enable-event", "order:tick"), ("stop",), ("start",))]
        self.assertIsNone(process.poll())
        # Were it waited for each time, it would be more than a second each.
        self.assertLess(sorted(took)[len(took) // 2], 1)


@needs(can_be_two_users(), "two-users")
class Containers(OddOrders):
    """Processes of several containers have the same pid."""

    def contained(self):
        script = self.directory / "contained"
        if not script.exists():
            script.write_text(f'#!/bin/sh\nexec unshare --pid --fork --kill-child "{program("commanded")}"\n')
            script.chmod(0o755)
        return self.program(script)

    def test_each_process_has_a_trace_of_its_own(self):
        self.daemon()
        directory = self.begun(channel_options=("--buffers=pid",))
        programs = [self.contained() for _ in range(2)]
        for running, count in zip(programs, (10, 20)):
            running.do(f"emit {count}")
        self.assertEqual([entry["pid"] for entry in self.json("list", "--programs")["programs"]], [1, 1])
        for running in programs:
            running.end()
        self.leat("destroy")
        traces = list(directory.rglob("metadata"))
        self.assertEqual(sorted(len(self.read(trace.parent).lines) for trace in traces), [10, 20])

    def test_crash_is_seen_and_an_end_is_none(self):
        daemon = self.daemon()
        self.begun(options=("--snapshot",), channel_options=("--ring-size=64K",))
        first, second = self.contained(), self.contained()
        for running in (first, second):
            running.do("emit 10")
        first.end()
        self.wait_for_program_count(1)
        child = pathlib.Path(f"/proc/{second.pid}/task/{second.pid}/children").read_text()
        os.kill(int(child), signal.SIGKILL)
        wait_until(lambda: self.session("web")["snapshots"] == 1, "a crash is not seen")
        self.assertEqual(daemon.log().count("has crashed"), 1)


class AfterAFailure(OddOrders):
    def test_trace_that_is_removed_while_it_is_recorded(self):
        """Nobody finds what goes into files that have no name any more: it is counted, and the user is told."""
        daemon = self.daemon()
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        for name, options in (("alone", ()), ("relayed", (f"--live={relay.url}",))):
            self.begun(name, options=options)
        running = self.program()

        def emitted(count, in_all):
            running.do(f"emit {count}")
            for name in ("alone", "relayed"):
                wait_until(lambda: self.session(name)["channels"][0]["events"] == in_all, f"{name} stores no events")

        emitted(100, 100)
        for name in ("alone", "relayed"):
            shutil.rmtree(self.directory / name)
        emitted(50, 150)
        for name in ("alone", "relayed"):
            self.assertEqual(self.session(name)["removed_events"], 50)
            lost = f"session {name}: 50 events are missing in {self.directory / name}: their files were removed while they were recorded"
            self.assertIn(lost, self.json("list")["warnings"])
            self.assertIn(lost, self.json("status", "-s", name)["warnings"])
            directory = self.directory / name
            wait_until(lambda: f"{directory}/ust/uid/{os.getuid()}/64-bit was removed" in daemon.log(), "nobody is told")
            self.leat("rotate", name)
        emitted(20, 170)
        for name in ("alone", "relayed"):
            counts = self.json("destroy", name)
            self.assertEqual((counts["events"], discarded(counts)), (170, 0))
            self.assertEqual(len(counts["warnings"]), 1, counts["warnings"])
            self.assertIn("50 events are missing", counts["warnings"][0])
            self.assertEqual(len(self.lines(self.directory / name)), 20)
        self.assertEqual(len(self.lines(relay.output)), 170)

    def test_trace_that_is_removed_at_a_relay(self):
        """Nothing is wrong for the producer, as with LTTng's relay. The relay's operator is told."""
        self.daemon()
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.stop)
        self.leat("create", "web", "-o", relay.url)
        self.leat("enable-event", "order:tick")
        self.leat("start")
        running = self.program()
        # A CPU whose first events come later would have a file of its own, which cannot be made any more.
        os.sched_setaffinity(running.pid, {min(os.sched_getaffinity(0))})

        def emitted(count, in_all):
            running.do(f"emit {count}")
            wait_until(lambda: self.session("web")["channels"][0]["events"] == in_all, "no events are stored")

        emitted(100, 100)
        # What was sent may not have a file yet: then none is removed.
        wait_until(lambda: len(self.view(*relay.output.rglob("metadata"))) == 100, "the relay does not store them")
        self.assertNotIn("removed", relay.log_so_far())

        def is_removed():
            for entry in relay.output.iterdir():
                shutil.rmtree(entry, ignore_errors=True)
            return not list(relay.output.iterdir())
        wait_until(is_removed, "the relay makes its files anew")
        emitted(50, 150)
        wait_until(lambda: "somebody has removed its file of" in relay.log_so_far(), "nobody is told")
        counts = self.json("destroy", "web")
        self.assertEqual((counts["events"], discarded(counts)), (150, 0))
        wait_until(lambda: "are lost, because somebody had removed their file" in relay.log_so_far(), "nobody is told how many")

    def test_rotation_of_a_stopped_session_is_tried_again(self):
        self.daemon()
        directory = self.begun()
        self.program().do("emit 10")
        self.leat("stop")
        (directory / "archives").write_text("in the way")
        self.assert_one_line(self.leat("rotate", status=1).stderr, "archives")
        (directory / "archives").unlink()
        chunk = pathlib.Path(self.json("rotate")["chunk"])
        self.assertEqual(len(self.read(chunk).lines), 10)
        self.assert_one_line(self.leat("rotate", status=1).stderr, "there is nothing new")

    def test_rotation_while_the_relay_is_away_is_tried_again(self):
        self.daemon()
        relay = self.begun_at_a_relay()
        self.program().do("emit 10")
        self.leat("stop")
        relay.stop()
        self.assert_one_line(self.leat("rotate", status=1).stderr, "try again when it is back")
        relay.start()

        def rotated():
            result = subprocess.run([LEAT, "rotate"], capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertNotIn("there is nothing new", result.stderr)
            return result.returncode == 0
        wait_until(rotated, "it is not rotated")

    def test_what_comes_after_a_rotation_can_be_rotated(self):
        """Another client starts and stops the session before it is done."""
        self.daemon()
        relay = self.begun_at_a_relay()
        running = self.program()
        running.do("emit 10")
        self.leat("stop")
        stop_process(relay.process.pid)
        # One of them is under way when the other is refused.
        rotations = [subprocess.Popen([LEAT, "rotate"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(2)]
        wait_until(lambda: any(each.poll() is not None for each in rotations), "both are rotated at once")
        self.leat("start")
        running.do("emit 10")
        stopping = subprocess.Popen([LEAT, "stop"], stdout=subprocess.DEVNULL)
        wait_until(lambda: self.session("web")["state"] == "inactive", "it is not stopped")
        relay.process.send_signal(signal.SIGCONT)
        self.assertEqual(sorted(each.wait(PATIENCE) for each in rotations), [0, 1])
        self.assertEqual(stopping.wait(PATIENCE), 0)
        self.leat("rotate")

    def test_clear_at_a_relay_removes_nothing_here(self):
        """A trace of a process may lie where the daemon was started."""
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        metadata = self.directory / "ust" / "pid" / "other-1-1" / "metadata"
        metadata.parent.mkdir(parents=True)
        metadata.write_text("another session's")
        self.daemon(cwd=self.directory)
        self.leat("create", "web", "-o", relay.url)
        self.leat("clear", "web")
        self.assertTrue(metadata.exists())

    def test_process_that_ends_while_its_session_is_destroyed_leaves_nothing(self):
        self.daemon()
        relay = self.begun_at_a_relay(channel_options=("--buffers=pid",))
        running = self.program()
        running.do("emit 10")
        stop_process(relay.process.pid)
        running.do("emit 10")
        destroying = subprocess.Popen([LEAT, "destroy", "web"], stdout=subprocess.DEVNULL)
        wait_until(lambda: "is being destroyed" in plain_run(LEAT, "start", "web").stderr, "it is not destroyed")
        running.end()
        self.wait_for_program_count(0)
        relay.process.send_signal(signal.SIGCONT)
        self.assertEqual(destroying.wait(PATIENCE), 0)
        keeper, = self.keepers()
        wait_until(lambda: not [path for path in open_files_of(keeper) if "(deleted)" in path],
                   "the keeper still holds its memory")

    def test_list_says_why_a_relay_gets_nothing(self):
        daemon = self.daemon()
        relay = self.begun_at_a_relay()
        running = self.program()

        def warned_of(what):
            return any(re.fullmatch(rf"session web: relay \S+?:? {what}: events stay in the rings while there is room", warning)
                       for warning in self.json("list").get("warnings", []))

        def is_silent():
            return not self.json("list").get("warnings")
        running.do("emit 10")
        self.leat("stop")
        relay.kill()
        wait_until(lambda: "events stay in the rings until it is back" in daemon.log(), "the daemon does not notice")
        self.assertTrue(is_silent(), "nothing waits for it")
        self.leat("start")
        running.do("emit 10")
        wait_until(lambda: warned_of("(?!has stored).+"), "nobody is told of a relay that is away")
        relay.start()
        wait_until(is_silent, "it is back")
        stop_process(relay.process.pid)
        emitted = 20

        def is_told_beside_events():
            nonlocal emitted
            running.do("emit 10")
            emitted += 10
            return warned_of(r"has stored nothing for \d+ s")
        wait_until(is_told_beside_events, "nobody is told of a relay that stands still")
        self.assertRegex(self.leat("status").stderr, r"warning: session web: relay \S+ has stored nothing for \d+ s: events stay")
        relay.process.send_signal(signal.SIGCONT)
        wait_until(is_silent, "it goes on")
        counts = self.json("destroy", "web")
        self.assertEqual((counts["events"], discarded(counts)), (emitted, 0))

    def test_sessions_that_cannot_be_made_leave_nothing_in_the_keeper(self):
        self.daemon()
        self.begun()
        occupied = self.directory / "occupied"
        occupied.mkdir()
        (occupied / "file").touch()
        keeper, = self.keepers()
        before = self.kept_by(keeper)
        for _ in range(20):
            self.leat("create", "none", "-o", occupied, status=1)
        wait_until(lambda: self.kept_by(keeper) <= before, "the keeper has more descriptors")

    def begun_live_by_process(self):
        """A relay that gets a session of processes with rings of their own."""
        self.daemon()
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        self.leat("create", "web", f"--live={relay.url}")
        self.leat("enable-channel", "c", "--buffers=pid")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        return relay

    def test_viewer_is_shown_processes_that_come_later(self):
        """Each has a trace of its own, and so a session at the relay."""
        relay = self.begun_live_by_process()
        address = f"net://{relay.address}:{relay.live}"

        def lines():
            return shown.read_text().splitlines()

        def url():
            return re.search(r"\S+/web(?=  )", plain_run(LEAT, "view", address).stdout)
        first = self.program()
        first.do("emit 10")
        wait_until(url, "the session at the relay")
        shown = self.directory / "shown"
        with open(shown, "wb") as output:
            viewer = subprocess.Popen([LEAT, "view", url()[0]], stdout=output)
        self.addCleanup(viewer.kill)
        wait_until(lambda: len(lines()) == 10, "events of the first")
        second = self.program()
        second.do("emit 10")
        wait_until(lambda: len(lines()) == 20, "events of the second")
        for running in (first, second):
            running.do("emit 10")
            running.end()
        self.assertEqual(viewer.wait(PATIENCE), 0)
        self.leat("destroy", "web")
        self.assertEqual(len(lines()), 40)

    def test_viewer_of_a_session_waits_for_processes_that_are_to_come(self):
        """Between two of them, the relay has nothing of it."""
        relay = self.begun_live_by_process()

        def lines():
            return shown.read_text().splitlines()

        def relays_sessions():
            return json.loads(plain_run(LEAT, "view", "--format=json", f"net://{relay.address}:{relay.live}").stdout)
        shown, said = self.directory / "shown", self.directory / "said"
        with open(shown, "wb") as output, open(said, "wb") as errors:
            viewer = subprocess.Popen([LEAT, "view", "web", f"--live-port={relay.live}"], stdout=output, stderr=errors)
        self.addCleanup(viewer.kill)
        wait_until(lambda: "waiting" in said.read_text(), "word that nothing is there")
        for number in range(1, 4):
            running = self.program()
            running.do("emit 10")
            wait_until(lambda: len(lines()) == 10 * number, f"events of the process {number}")
            running.end()
            wait_until(lambda: not relays_sessions(), f"end of the process {number} at the relay")
        self.assertIsNone(viewer.poll())
        self.leat("destroy", "web")
        self.assertEqual(viewer.wait(PATIENCE), 0, said.read_text())
        self.assertEqual(len(lines()), 30)

    def test_keeper_without_descriptors_ends_and_is_missed(self):
        """It does not go on with what is old: the daemon says that its sessions are not kept any more."""
        daemon = self.daemon()
        self.begun()
        keeper, = self.keepers()
        resource.prlimit(keeper, resource.RLIMIT_NOFILE, (self.kept_by(keeper),) * 2)
        self.leat("create", "other", "-o", self.directory / "other")
        wait_until(lambda: self.keepers() == [], "the keeper does not end")
        wait_until(lambda: self.leat("set-session", "web") and "the keeper is gone" in daemon.log(), "nobody is told")

    def test_log_file_is_opened_anew_at_sighup(self):
        log, moved = self.directory / "daemon.log", self.directory / "daemon.log.1"
        daemon = self.daemon("--log-file", log, is_awaited=False)
        wait_until(lambda: log.exists() and " ready in " in log.read_text(), "the daemon does not start")
        self.create_active("web", "a:*")
        log.rename(moved)
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(log.exists, "no new file")
        self.leat("stop", "web")
        self.assertIn("stop", log.read_text())
        self.assertIn(" ready in ", moved.read_text())

    def test_sighup_without_a_log_file_is_an_end_as_others(self):
        daemon = self.daemon()
        directory = self.create_active("web", "order:tick")
        self.program().do("emit 10")
        self.assertEqual(daemon.stop(signal.SIGHUP), 0)
        self.assertEqual(len(self.read(directory).events("order:tick")), 10)

    def test_sighup_that_is_ignored_at_the_start_stays_so(self):
        daemon = self.daemon(wrapper=("nohup",))
        directory = self.create_active("web", "order:tick")
        daemon.process.send_signal(signal.SIGHUP)
        self.program().do("emit 10")
        self.leat("destroy", "web")
        self.assertEqual(len(self.read(directory).events("order:tick")), 10)

    def test_definition_that_is_saved_again_on_a_full_disk_stays(self):
        self.daemon()
        self.create("web")
        saved = self.directory / "saved.json"
        self.leat("save", "web", "-o", saved)
        before = saved.read_bytes()
        self.leat("enable-event", "x:" + "y" * 200)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        self.leat("save", "web", "--force", "-o", saved, status=1, preexec_fn=limit)
        self.assertEqual(saved.read_bytes(), before)
        self.assertEqual(sorted(path.name for path in self.directory.glob("saved*")), ["saved.json"])
        self.leat("save", "web", "--force", "-o", saved)
        self.assertNotEqual(saved.read_bytes(), before)
        self.assert_one_line(self.leat("save", "web", "-o", saved, status=1).stderr, "exists")

    def test_definition_that_is_written_over_is_for_the_same_readers(self):
        self.daemon()
        self.create("web")
        saved = self.directory / "saved.json"
        saved.touch()
        for mode in (0o600, 0o664):
            saved.chmod(mode)
            self.leat("save", "web", "--force", "-o", saved)
            self.assertEqual(saved.stat().st_mode & 0o777, mode)
            self.assertNotEqual(saved.read_bytes(), b"")

    def test_definition_that_one_request_cannot_carry_is_not_saved(self):
        daemon = self.daemon()
        self.create("big")
        for number in range(10):
            excluded = [f"provider{number}:event_number_{other:04}_with_a_long_name" for other in range(4000)]
            self.assertTrue(daemon.ask("enable-event", session="big", pattern="a:*", exclude=excluded)["ok"])
        self.assert_one_line(self.leat("save", "big", "-o", self.directory / "big.json", status=1).stderr, "fewer or shorter")
        self.assertFalse((self.directory / "big.json").exists())

    def test_definition_of_a_mebibyte_with_its_spaces_is_loaded(self):
        daemon = self.daemon()
        self.create("big")
        for number in range(13):
            excluded = [f"p{number}:{other}" for other in range(4000)]
            self.assertTrue(daemon.ask("enable-event", session="big", pattern="a:*", exclude=excluded)["ok"])
        saved = self.directory / "big.json"
        self.leat("save", "big", "-o", saved)
        self.assertGreater(saved.stat().st_size, 1 << 20)
        self.leat("load", "-i", saved, "second", "-o", self.directory / "second")

    def test_events_of_a_trace_that_was_never_opened_are_told(self):
        self.daemon()
        directory = self.directory / "web"
        self.leat("create", "web", "-o", directory)
        self.leat("enable-channel", "c", "--buffers=pid")
        self.leat("enable-event", "order:tick")
        directory.rmdir()
        directory.write_text("in the way")
        self.leat("start")
        programs = [self.program(), self.program()]
        self.wait_for_programs(*programs)
        emitted = 0
        for running in programs:
            self.attach("web", running)
            emitted += running.do("emit 10")
        counted = discarded(self.session("web"))
        answer = self.json("destroy")
        warning, = answer["warnings"]
        self.assertRegex(warning, f"; the rings held {emitted - counted} more events$")

    def test_one_place_by_two_names(self):
        daemon = self.daemon()
        place = self.create("web")
        other = self.directory / "link"
        other.symlink_to(place)
        self.assert_one_line(self.leat("create", "second", "-o", other, status=1).stderr, '"web" goes to')
        self.restart(daemon)
        self.assert_one_line(self.leat("create", "second", "-o", other, status=1).stderr, '"web" goes to')


class OfSnapshots(OddOrders):
    def begun_flying(self, *options):
        return self.begun(options=("--snapshot", *options), channel_options=("--ring-size=64K",))

    def test_one_that_goes_elsewhere_leaves_those_that_are_due(self):
        self.daemon()
        self.begun_flying()
        programs = [self.program() for _ in range(2)]
        self.wait_for_programs(*programs)
        for running in programs:
            self.attach("web", running)
        programs[0].kill()
        wait_until(lambda: self.session("web")["snapshots"] == 1, "no snapshot of the first crash")
        programs[1].kill()
        self.wait_for_program_count(0)
        for options, status in ((("-o", self.directory / "else"), 0), (("-o", self.directory / "small", "-m", "1"), 1)):
            self.leat("snapshot", "record", *options, status=status)
        wait_until(lambda: len(list((self.directory / "web").glob("snapshot-1-*"))) == 2, "no snapshot of the second crash")

    def test_many_channels_beside_that_of_snapshot_on(self):
        daemon = self.daemon()
        directory = self.directory / "web"
        self.leat("create", "web", "--snapshot", "--snapshot-on", "order:tock", "-o", directory)
        for number in range(256):
            self.assertTrue(daemon.ask("enable-channel", session="web", channel=f"c{number}", ring_size=65536)["ok"])
        self.leat("start")
        self.leat("save", "web", "-o", self.directory / "saved")
        self.restart(daemon)
        self.assertEqual(self.session("web")["state"], "active")
        self.leat("load", "-i", self.directory / "saved", "second", "-o", self.directory / "second")

    def test_patterns_that_are_empty(self):
        daemon = self.daemon()
        answer = daemon.ask("create", session="web", directory=str(self.directory / "web"), snapshot=True, snapshot_on=[""])
        self.assertEqual((answer["ok"], answer["kind"]), (False, "usage"))
        self.leat("create", "web", "--snapshot", "--snapshot-on", "", "-o", self.directory / "web", status=2)

    def test_without_rings_there_is_nothing_and_people_are_told_why(self):
        self.daemon("--max-memory=1K")
        self.leat("create", "web", "--snapshot", "-o", self.directory / "web")
        self.leat("enable-event", "order:*")
        self.leat("start")
        self.assert_one_line(self.leat("snapshot", "record", status=1).stderr, "no program has had an event")
        running = self.program()
        self.wait_for_programs(running)
        running.do("emit 100")
        self.assert_one_line(self.leat("snapshot", "record", status=1).stderr, "no program has rings", "--max-memory")


class NotAttached(OddOrders):
    """Events of programs that have not got their rings are told of the session that they were for, and of no other."""

    def test_next_daemon_does_not_count_them_again(self):
        daemon = self.daemon("--max-memory=1K")
        self.begun("first")
        running = self.program()
        self.wait_for_programs(running)
        running.do("emit 100")
        self.assertEqual(by_reason(self.session("first"))["not_attached"], 100)
        self.leat("destroy", "first")
        self.assertEqual(daemon.stop(), 0)
        daemon = self.daemon()
        self.begun("second")
        self.wait_for_programs(running)
        self.assert_next_are_accounted("second", running)

    @without_sanitizers
    def test_session_after_another_has_none_of_its(self):
        self.daemon("--max-memory=1K")
        switched, = self.switched(1, 1000, 0)
        for number in range(20):  # on a busy machine, it may emit nothing while it is switched off
            self.begun(f"first-{number}", "load:*")
            before = switched.evaluated()
            wait_until(lambda: switched.evaluated() > before + 10000, "the program does nothing")
            self.leat("stop", f"first-{number}")
            self.leat("destroy", f"first-{number}")
            stop_process(switched.pid)
            self.begun(f"second-{number}", "load:*")
            self.assertEqual(discarded(self.session(f"second-{number}")), 0)
            self.leat("destroy", f"second-{number}")
            os.kill(switched.pid, signal.SIGCONT)


class WithoutAName(OddOrders):
    """Programs go on whose control files are removed: as systemd does with what a user had in /dev/shm who has logged out."""

    def remove_names(self):
        for path in self.control_files():
            path.unlink()
        if os.geteuid() == 0:  # the daemon of another user has its sockets there
            (self.runtime / "apps" / "leat-0").rmdir()

    def test_program_is_traced_on_and_people_are_told(self):
        daemon = self.daemon()
        directory = self.begun()
        running = self.program()
        self.wait_for_programs(running)
        self.remove_names()
        running.do("emit 20")
        self.leat("stop", "web")
        running.do("emit 1000")
        self.leat("start", "web")
        running.do("emit 10")
        self.leat("destroy", "web")
        self.assert_numbers(self.read(directory), "order:tick", range(20), range(1020, 1030))
        self.begun("second")
        self.assert_next_are_accounted("second", running)
        wait_until(lambda: "has removed the control file of test-program-co" in daemon.log(), "nobody is told")

    def test_its_end_is_seen(self):
        self.daemon()
        directory = self.begun(channel_options=("--buffers=pid",))
        for end in (Commanded.end, Commanded.kill):
            running = self.program()
            self.wait_for_programs(running)
            self.remove_names()
            running.do("emit 10")
            end(running)
            self.wait_for_program_count(0)
        self.leat("destroy", "web")
        self.assertEqual(len(self.lines(directory)), 20)


@needs(os.geteuid() != 0 or can_be_two_users(), "two-users")
class WithoutAPlace(OddOrders):
    """The directory of a user's daemon is removed: as systemd does with what a user had in /dev/shm who has logged out."""

    def setUp(self):
        super().setUp()
        self.uid = OTHER if os.geteuid() == 0 else None
        self.place = self.runtime / "apps" / f"leat-{os.geteuid() if self.uid is None else self.uid}"

    @staticmethod
    def stop_for_a_while(daemon):
        """So that it does not sweep while the directory is half removed."""
        stop_process(daemon.process.pid)

    def emitted(self, count, daemon):
        """Of a program that is traced, before and after the directory is removed. The daemon stands still from then on."""
        running = self.program(uid=self.uid)
        self.wait_for_programs(running, uid=self.uid)
        running.do(f"emit {count}")
        self.stop_for_a_while(daemon)
        shutil.rmtree(self.place)
        running.do(f"emit {count}")
        return running

    def test_it_is_made_again_and_all_goes_on(self):
        log = self.place / "sessiond.log"

        def is_logged(text):
            return log.exists() and text in log.read_text(encoding="utf-8")
        self.place.mkdir(mode=0o700)
        if self.uid is not None:
            shutil.chown(self.place, self.uid, self.uid)
        daemon = self.daemon("--log-file", str(log), uid=self.uid, is_awaited=False)
        wait_until(lambda: is_logged(" ready in "), "the daemon does not start")
        directory = self.create_active("web", "order:tick", uid=self.uid)
        self.emitted(10, daemon)
        daemon.send_signal(signal.SIGCONT)
        wait_until(lambda: is_logged("is made again"), "it is not made again")
        another = self.program(uid=self.uid)
        another.do("emit 10")
        self.leat("destroy", "web", uid=self.uid)
        self.assertEqual([event["n"] for event in self.read(directory).events("order:tick") if event["vpid"] == another.pid],
                         list(range(10)))
        self.assertEqual(len(self.lines(directory)), 30)
        self.create_active("next", "order:tick", uid=self.uid)

    def test_half_of_it_is_made_again(self):
        """It is looked at while it is being removed."""
        daemon = self.daemon(uid=self.uid)
        directory = self.create_active("web", "order:tick", uid=self.uid)
        self.stop_for_a_while(daemon)
        for name in ("app.sock", "control.sock"):
            (self.place / name).unlink()
        daemon.send_signal(signal.SIGCONT)
        wait_until(lambda: "is made again" in daemon.log(), "it is not made again")
        self.program(uid=self.uid).do("emit 10")
        self.leat("destroy", "web", uid=self.uid)
        self.assertEqual(len(self.lines(directory)), 10)

    def test_mark_is_made_again(self):
        """By which programs that start know that they are waited for."""
        self.daemon(uid=self.uid)
        self.create_active("web", "order:tick", uid=self.uid)
        mark = self.place / "active"
        mark.unlink()
        wait_until(mark.exists, "it is not made again")

    def test_another_came_and_went(self):
        """And has switched off what it found."""
        first = self.daemon(uid=self.uid)
        directory = self.create_active("web", "order:tick", uid=self.uid)
        running = self.program(uid=self.uid)
        self.wait_for_programs(running, uid=self.uid)
        running.do("emit 10")
        self.stop_for_a_while(first)
        for path in self.place.iterdir():
            if path.suffix != ".app":
                path.unlink()
        self.assertEqual(self.daemon(uid=self.uid).stop(), 0)
        first.send_signal(signal.SIGCONT)
        wait_until(lambda: "is made again" in first.log(), "it is not made again")
        running.do("emit 10")
        self.leat("destroy", "web", uid=self.uid)
        self.assertEqual(len(self.lines(directory)), 20)

    def test_somebody_is_in_the_way_and_it_is_tried_again(self):
        daemon = self.daemon(uid=self.uid)
        directory = self.create_active("web", "order:tick", uid=self.uid)
        self.stop_for_a_while(daemon)
        self.place.rename(self.place.with_name("elsewhere"))
        self.place.mkdir()
        self.place.chmod(0o777)
        daemon.send_signal(signal.SIGCONT)
        wait_until(lambda: "cannot be made again yet" in daemon.log(), "it is not missed")
        self.place.rmdir()
        wait_until(lambda: "is made again" in daemon.log(), "it is not made again")
        self.program(uid=self.uid).do("emit 10")
        self.leat("destroy", "web", uid=self.uid)
        self.assertEqual(len(self.lines(directory)), 10)

    def assert_next_has_it(self, end_first):
        """Another daemon starts there, and keeps all that it makes."""
        first = self.daemon(uid=self.uid)
        directory = self.create_active("web", "order:tick", uid=self.uid)
        self.emitted(10, first)
        self.daemon(uid=self.uid)
        self.create_active("next", "order:tick", uid=self.uid)
        running = self.program(uid=self.uid)
        self.wait_for_programs(running, uid=self.uid)
        self.assertEqual(end_first(first), 0)
        self.assertEqual(len(self.lines(directory)), 20)
        self.assertEqual(sorted(path.name for path in self.place.iterdir() if path.suffix != ".app"),
                         ["active", "app.sock", "control.sock", "keeper.sock", "lock", "sessions"])
        wait_until(lambda: len(self.keepers(uid=self.uid)) == 1, "the keeper of the one before stays")
        self.assert_next_are_accounted("next", running, uid=self.uid)
        return first

    def test_who_comes_meanwhile_has_it(self):
        def goes_on(daemon):
            daemon.send_signal(signal.SIGCONT)
            return daemon.process.wait(PATIENCE)
        first = self.assert_next_has_it(goes_on)
        self.assertIn("another session daemon runs already", first.log())

    def test_ended_before_it_is_noticed(self):
        self.assert_next_has_it(SessionDaemon.stop)

    def test_one_that_came_and_was_killed_left_its_sessions_there(self):
        first = self.daemon(uid=self.uid)
        directory = self.create_active("web", "order:tick", uid=self.uid)
        self.emitted(10, first)
        second = self.daemon(uid=self.uid)
        self.create_active("next", "order:tick", uid=self.uid)
        self.kill(second)
        first.send_signal(signal.SIGCONT)
        self.assertEqual(first.process.wait(PATIENCE), 0)
        self.assertIn("the sessions of another session daemon that was killed wait there", first.log())
        self.assertEqual(len(self.lines(directory)), 20)
        self.start_again(second)
        running = self.program(uid=self.uid)
        self.wait_for_programs(running, uid=self.uid)
        self.assert_next_are_accounted("next", running, uid=self.uid)

    def test_next_is_in_the_same_directory(self):
        """Whose files were removed. They are the next daemon's to switch."""
        first = self.daemon(uid=self.uid)
        self.create_active("web", "order:tick", uid=self.uid)
        running = self.program(uid=self.uid)
        self.wait_for_programs(running, uid=self.uid)
        self.stop_for_a_while(first)
        for path in self.place.iterdir():
            if path.suffix != ".app":
                path.unlink()
        self.daemon(uid=self.uid)
        self.create_active("next", "order:tick", uid=self.uid)
        self.wait_for_programs(running, uid=self.uid)
        self.assertEqual(first.stop(), 0)
        self.assert_next_are_accounted("next", running, uid=self.uid)


class KilledInBetween(OddOrders):
    def test_ended_well_nothing_is_missed_at_the_next_start(self):
        daemon = self.daemon()
        self.begun()
        self.assertEqual(daemon.stop(), 0)
        self.assertNotIn("are lost", self.start_again(daemon).log())

    @needs(has("strace"), "strace")
    @without_sanitizers
    def test_while_ring_files_are_removed(self):
        """They go when nobody would look for them any more."""
        for destroys in (False, True):
            with self.subTest(destroys=destroys):
                name = f"s{destroys}"
                daemon = self.daemon()
                directory = self.begun(name, options=("--shm-path", self.directory / "rings"),
                                       channel_options=(f"--buffers={'user' if destroys else 'pid'}",))
                running = self.program()
                self.wait_for_programs(running)
                self.attach(name, running)
                emitted = running.do("emit 10")
                wait_until(lambda: self.figures(name) == emitted, "not recorded")
                self.kill_at_rmdir(daemon, (lambda: self.leat_that_dies("destroy", name)) if destroys else running.end)
                daemon = self.start_again(daemon)
                self.assertNotIn("is lost", daemon.log())
                if destroys:
                    self.assertEqual(self.json("list")["sessions"], [])
                else:
                    self.json("destroy", name)
                self.assertEqual(len(self.lines(directory)) + self.counted, emitted)
                self.assertEqual(daemon.stop(), 0)

    def figures(self, name):
        session = self.session(name)
        self.counted = discarded(session)
        return sum(channel["events"] for channel in session["channels"]) + self.counted

    def leat_that_dies(self, *arguments):
        process = subprocess.Popen([LEAT, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

    def kill_at_rmdir(self, daemon, action):
        """Kills the daemon where it has removed a directory, and before it does anything else."""
        held = Held(self, daemon.process.pid, "rmdir")
        action()
        held.wait()
        daemon.send_signal(signal.SIGKILL)
        held.let_go()
        self.kill(daemon)


if __name__ == "__main__":
    main()
