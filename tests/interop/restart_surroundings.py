#!/usr/bin/env python3
"""A session daemon that is killed and started again, and what is around it: its keeper, other daemons, users, disks and
relays."""
import collections
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time

from relays import LeatRelay
from session_daemons import (KEEPER_PATIENCE, SESSIOND, TICKS, RelayedTest, RestartTest, SessionDaemon, SmallDiskTest, as_user,
                             discarded)
from support import (LEAT, PATIENCE, SANITIZERS, SOURCE, Event, can_be_two_users, cpu_seconds_of, has_namespaces,
                     main, needs, plain_run, program, state_of, stop_process, wait_until)

ALICE, BOB = 1000, 1001  # need not be in /etc/passwd
PUT = struct.pack("<II", 1, 0)  # to the keeper: docs/formats/runtime-directory.md


def can_limit_watches():
    words = ["unshare", "--map-root-user", "sh", "-c", "echo 2 > /proc/sys/user/max_inotify_watches"]
    return subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0


def kill_dead(pid):
    """Returns when its sockets are closed. Somebody else's child, so it may stay as a zombie."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: state_of(pid) in "ZX", "a killed process does not end")


class Daemons(RestartTest):
    def test_killed_twice_in_a_row(self):
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        for _ in range(5):
            running.do("emit 10")
            for _ in range(2):
                daemon = self.restart(daemon)
        self.assert_numbers(self.complete_trace("web", directory), "order:tick", range(50))

    def test_killed_while_it_takes_over(self):
        daemon = self.daemon()
        directories = {name: self.create_active(name, "order:*") for name in ("first", "second")}
        running = self.program()
        for turn in range(30):
            running.do("emit 10")
            self.kill(daemon)
            daemon = self.start_again(daemon, is_awaited=False)
            time.sleep(turn / 1000)
        self.restart(daemon)
        running.do("emit 10")
        for name, directory in directories.items():
            self.assert_numbers(self.complete_trace(name, directory), "order:tick", range(310))

    def test_second_daemon_is_refused(self):
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        for _ in range(2):
            for _ in range(3):
                running.do("emit 10")
                second = subprocess.run([SESSIOND], capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual(second.returncode, 1)
                self.assertIn("another session daemon", second.stderr)
            daemon = self.restart(daemon)
        self.assertEqual(len(self.keepers()), 1)
        self.assert_numbers(self.complete_trace("web", directory), "order:tick", range(60))

    def test_daemon_that_a_client_starts(self):
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        self.kill(daemon)
        running.do("emit 10")
        self.create("other")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(daemon.directory / "control.sock"))
            client.sendall(b'{"version": 1, "verb": "version"}\n')
            pid = json.loads(client.recv(1 << 16))["pid"]
        self.addCleanup(self.end_process, pid)
        running.do("emit 10")
        self.assertEqual({session["name"] for session in self.json("list")["sessions"]}, {"web", "other"})
        self.assert_numbers(self.complete_trace("web", directory), "order:tick", range(30))
        self.end_process(pid)
        self.assert_no_keeper()

    def end_process(self, pid):
        """It is not our child."""
        try:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the daemon does not end")
        except ProcessLookupError:
            pass

    def check_both_killed(self, kill):
        """What the next daemon does then: it begins without sessions, and says that there were some."""
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 10, "events are not stored")
        keeper, = self.keepers()
        kill(daemon, keeper)
        self.assert_no_keeper()
        running.do("emit 10")
        daemon = self.start_again(daemon)
        self.assertEqual(self.json("list")["sessions"], [])
        self.assertRegex(daemon.log(), r"(?i)\b(warning|error): .*\bsession")
        self.wait_for_programs(running)
        running.do("emit 10")
        self.assert_numbers(self.read(directory), "order:tick", range(10))
        # Whatever is left of before, new sessions are as ever.
        again = self.create_active("web", "order:tick")
        self.attach("web", running)
        begin = running.do("emit 0")
        daemon = self.restart(daemon)
        running.do("emit 10")
        self.stopped("web")
        numbers = [event["n"] for event in self.read(again).events()]
        self.assertEqual(numbers[-10:], list(range(begin, begin + 10)))
        self.assert_numbers(self.read(directory), "order:tick", range(10))

    def test_daemon_and_keeper_killed(self):
        def kill(daemon, keeper):
            self.kill(daemon)
            kill_dead(keeper)
        self.check_both_killed(kill)

    def test_keeper_and_daemon_killed(self):
        def kill(daemon, keeper):
            kill_dead(keeper)
            self.kill(daemon)
        self.check_both_killed(kill)

    def test_keeper_killed(self):
        """The daemon goes on, and says so once."""
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        keeper, = self.keepers()
        kill_dead(keeper)
        running.do("emit 10")
        other = self.create_active("other", "order:tick")
        younger = self.program()
        younger.do("emit 10")
        self.leat("rotate", "other")
        self.leat("enable-event", "stock:*", "-s", "web")
        running.do("emit 10")
        wait_until(lambda: "keeper" in daemon.log(), "the daemon does not say that its keeper was killed")
        trace = self.complete_trace("web", directory)
        self.assertEqual(self.numbers(trace, "order:tick", running), list(range(30)))
        self.assertEqual(self.numbers(trace, "stock:tick", running), list(range(20, 30)))
        counts = self.json("destroy", "other")
        # Of `running`, what came before it had the rings was counted.
        self.assertEqual(counts["events"] + discarded(counts), 20)
        self.assertEqual(sum(len(self.read(chunk).lines) for chunk in self.chunks_of(other)), counts["events"])
        self.assertTrue(daemon.is_alive())
        told = [line for line in daemon.log().splitlines() if re.search(r"(warning|error): .*keeper", line)]
        self.assertEqual(len(told), 1, daemon.log())


class OtherVersion(RestartTest):
    def test_state_of_another_version(self):
        self.check(b'{"leat_state": 1000, "sessions": []}', r"it is of version 1000, this daemon of \d+\n")

    def test_state_whose_version_is_none(self):
        self.check(b'{"leat_state": "one", "sessions": []}', r'it is of version "one", this daemon of \d+\n')

    def test_state_of_this_version_that_makes_no_sense(self):
        # As the daemon before wrote it.
        version = re.search(r"kStateVersion = (\d+)", (SOURCE / "src/sessiond/kept_state.hpp").read_text())[1]
        self.check(b'{"leat_state": %s, "sessions": 7}' % version.encode(), "the state .* is not understood")

    def check(self, text, message):
        """A daemon that does not understand it says so, and begins without sessions."""
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 10, "events are not stored")
        self.kill(daemon)
        state = os.memfd_create("state")
        os.write(state, text)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as keeper:
            keeper.connect(str(daemon.directory / "keeper.sock"))
            socket.send_fds(keeper, [PUT + b"state"], [state])
        os.close(state)
        daemon = self.start_again(daemon)
        self.assertRegex(daemon.log(), message)
        self.assertEqual(self.json("list")["sessions"], [])
        self.assertEqual(len(self.keepers()), 1)
        running.do("emit 10")
        again = self.create_active("web", "order:tick")
        self.attach("web", running)
        end = running.do("emit 10")
        self.leat("stop")
        self.assert_numbers(self.read(directory), "order:tick", range(10))
        self.assertEqual([event["n"] for event in self.read(again).events()][-10:], list(range(end - 10, end)))


class StoppedKeeper(RestartTest):
    """A keeper that stands still, as in a debugger."""

    def stopped_keeper(self):
        keeper, = self.keepers()
        stop_process(keeper)
        return keeper

    def test_verbs_meanwhile(self):
        """What they have done waits in the keeper's socket."""
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        keeper = self.stopped_keeper()
        other = self.create_active("other", "order:tick")
        self.leat("enable-event", "stock:*", "-s", "web")
        self.leat("rotate", "web")
        running.do("emit 10")
        self.attach("other", running)
        self.kill(daemon)
        os.kill(keeper, signal.SIGCONT)
        running.do("emit 10")
        self.start_again(daemon)
        self.assertEqual(self.keepers(), [keeper])
        end = running.do("emit 10")
        self.assertEqual(discarded(self.stopped("web")), 0)
        numbers = [event["n"] for chunk in self.chunks_of(directory) for event in self.read(chunk).events("order:tick")]
        self.assertEqual(numbers, list(range(end)))
        self.leat("stop", "other")
        self.assertEqual([event["n"] for event in self.read(other).events()][-20:], list(range(end - 20, end)))

    def test_daemon_that_gives_it_up(self):
        """Nobody goes on with what the keeper still knows when it wakes up."""
        daemon = self.daemon()
        self.begun("order:tick")
        self.program().do("emit 10")
        keeper = self.stopped_keeper()
        while "keeper is gone" not in daemon.log():
            self.create("short")
            self.leat("destroy", "short")
        self.leat("destroy", "web")
        os.kill(keeper, signal.SIGCONT)
        self.assert_no_keeper()
        self.restart(daemon)
        self.assertEqual(self.json("list")["sessions"], [])

    def test_daemons_that_start_meanwhile_are_refused(self):
        """Nothing is lost: the next one goes on. Several that gave up wait in the keeper's socket."""
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        keeper = self.stopped_keeper()
        self.kill(daemon)
        starting = [subprocess.Popen([SESSIOND], stderr=subprocess.PIPE, text=True)]
        starting[0].wait(PATIENCE)
        # The keeper's backlog has room for less than that.
        callers = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(8)]
        for caller in callers:
            self.addCleanup(caller.close)
            caller.setblocking(False)
            caller.connect_ex(str(daemon.directory / "keeper.sock"))
        starting.append(subprocess.Popen([SESSIOND], stderr=subprocess.PIPE, text=True))
        for each in starting:
            _, told = each.communicate(timeout=PATIENCE)
            self.assertEqual((each.returncode, len(told.splitlines())), (1, 1), told)
            for part in ("leat-keeper has not answered", "let it go on", str(daemon.directory / "keeper.sock")):
                self.assertIn(part, told)
        for caller in callers:
            caller.close()
        running.do("emit 10")
        os.kill(keeper, signal.SIGCONT)
        self.start_again(daemon)
        self.assertEqual(self.keepers(), [keeper])
        running.do("emit 10")
        self.assert_numbers(self.complete_trace("web", directory), "order:tick", range(30))


@needs("undefined" not in SANITIZERS, "sanitizers")  # without descriptors UBSan reports every type as wrong
class FewDescriptors(RestartTest):
    def many_sessions(self):
        """Of a daemon that was killed: it, their directories, a program that has emitted 10 events, the keeper, and how many
        descriptors that has."""
        daemon = self.daemon()
        directories = {f"web-{number}": self.begun("order:tick", name=f"web-{number}") for number in range(8)}
        running = self.program()
        running.do("emit 10")
        keeper, = self.keepers()
        held = self.kept_by(keeper)
        self.kill(daemon)
        return daemon, directories, running, keeper, held

    def test_daemon_with_a_lower_limit_is_refused(self):
        """It cannot have all that is kept. The one after it, whose limit is as before, goes on."""
        daemon, directories, running, keeper, held = self.many_sessions()
        # Too few for all that is kept; for that, and for nothing else.
        for limit in (held - 12, held):
            refused = plain_run("prlimit", f"--nofile={limit}:{limit}", SESSIOND)
            self.assertEqual((refused.returncode, len(refused.stderr.splitlines())), (1, 1), refused.stderr)
            for part in (f"the limit of {limit}", "LimitNOFILE", str(daemon.directory / "keeper.sock")):
                self.assertIn(part, refused.stderr)
        running.do("emit 10")
        self.start_again(daemon)
        self.assertEqual(self.keepers(), [keeper])
        running.do("emit 10")
        for name, directory in directories.items():
            self.assert_numbers(self.complete_trace(name, directory), "order:tick", range(30))

    def test_daemon_has_all_sessions_or_is_refused(self):
        """Whatever its limit is: what is kept needs more descriptors when it goes on."""
        daemon, directories, running, keeper, held = self.many_sessions()
        refusals = []
        for limit in range(held, 3 * held, max(1, held // 12)):
            other = SessionDaemon(self.runtime, wrapper=("prlimit", f"--nofile={limit}:{limit}"), is_awaited=False)
            wait_until(other.has_begun, "the daemon neither starts nor ends")
            self.assertNotIn("lost", other.log())
            if other.is_alive():
                self.assertEqual(other.log().count(" goes on"), len(directories), other.log())
                self.kill(other)
            else:
                self.assertEqual(other.process.returncode, 1, other.log())
                refusals.append(other.log().splitlines()[-1])
                self.assertIn("keeper.sock", refusals[-1])
            self.assertEqual(self.keepers(), [keeper])
        self.assertTrue(any("web-" in refusal for refusal in refusals), refusals)
        self.start_again(daemon)
        running.do("emit 10")
        for name, directory in directories.items():
            self.assert_numbers(self.complete_trace(name, directory), "order:tick", range(20))

    @needs(not SANITIZERS, "sanitizers")  # their memory is nearly all address space
    def test_daemon_without_address_space_is_refused(self):
        """It can be neither rings nor a thread for what it takes over."""
        idle = self.daemon()
        with open(f"/proc/{idle.process.pid}/status", encoding="ascii") as file:
            status = file.read()
        limit = (int(re.search(r"^VmPeak:\s*(\d+) kB$", status, re.MULTILINE)[1]) << 10) + (1 << 20)
        self.kill(idle)
        daemon, directories, running, keeper, _ = self.many_sessions()
        refused = plain_run("prlimit", f"--as={limit}:{limit}", SESSIOND)
        self.assertEqual((refused.returncode, len(refused.stderr.splitlines())), (1, 1), refused.stderr)
        for part in ("session web-", str(daemon.directory / "keeper.sock")):
            self.assertIn(part, refused.stderr)
        self.assertEqual(self.keepers(), [keeper])
        self.start_again(daemon)
        running.do("emit 10")
        for name, directory in directories.items():
            self.assert_numbers(self.complete_trace(name, directory), "order:tick", range(20))

    def test_sessions_are_given_up_as_it_says(self):
        daemon = self.daemon()
        self.begun("order:tick")
        self.program().do("emit 1")
        keeper, = self.keepers()
        self.kill(daemon)
        refused = plain_run("prlimit", "--nofile=10:10", SESSIOND)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("keeper.sock", refused.stderr)
        (daemon.directory / "keeper.sock").unlink()
        self.assert_no_keeper()
        daemon = self.start_again(daemon)
        self.assertNotEqual(self.keepers(), [keeper])
        self.assertIn("are lost, because its keeper has ended", daemon.log())
        self.assertEqual(self.json("list")["sessions"], [])


    def test_create_that_fails_leaves_nothing_with_the_keeper(self):
        """Where it has no descriptor left, all sessions are lost at the next restart."""
        daemon = self.daemon()
        self.create("first")
        keeper, = self.keepers()
        held = self.kept_by(keeper)
        pid = daemon.process.pid
        most = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        opened = len(os.listdir(f"/proc/{pid}/fd"))
        refusals = 0
        for more in range(1, 20):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (opened + more, most))
            created = subprocess.run([LEAT, "create", "second", "-o", self.directory / str(more)], capture_output=True, timeout=PATIENCE)
            if created.returncode == 0:
                break
            refusals += 1
            self.assertEqual(self.kept_by(keeper), held, created.stderr)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
        self.assertGreater(refusals, 1)
        self.assertEqual({session["name"] for session in self.json("list")["sessions"]}, {"first", "second"})


class FewWatches(RestartTest):
    @needs(can_be_two_users() and can_limit_watches(), "watches-limit")
    def test_programs_are_found_all_the_same(self):
        """fs.inotify.max_user_watches is for all programs of a user."""
        limited = 'echo 2 > /proc/sys/user/max_inotify_watches && exec "$@"'
        daemon = self.daemon(wrapper=("unshare", "--map-root-user", "sh", "-c", limited, "sh"))
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        self.assertIn("raise fs.inotify.max_user_watches", daemon.log())
        self.assert_numbers(self.complete_trace("web", directory), "order:tick", range(10))


class Replacing(RestartTest):
    """SIGUSR2 puts the daemon's program into the same process once more, as after an upgrade."""

    def replace(self, daemon):
        count = daemon.log().count(" ready in ")
        daemon.send_signal(signal.SIGUSR2)
        wait_until(lambda: not daemon.is_alive() or daemon.log().count(" ready in ") > count, "the daemon does not come back")
        self.assertTrue(daemon.is_alive(), daemon.log())

    def test_sessions_go_on(self):
        daemon = self.daemon()
        directory = self.begun("load:*", channel_options=("--ring-size=4M",))
        programs = self.switched(4, 50, 2000)
        wait_until(lambda: all(started.evaluated() > 0 for started in programs), "no program is traced")
        for turn in range(10):
            self.replace(daemon)
            if turn % 4 == 1:
                self.leat("rotate", "web")
            if turn % 4 == 3:
                daemon = self.restart(daemon)
            time.sleep(self.random.random() * 0.1)
        self.assertEqual(len(self.keepers()), 1)
        evaluated = self.end_all(programs)
        counts = self.stopped("web")
        self.assertEqual(discarded(counts), 0)
        self.assert_each_once(directory, counts, evaluated)

    def test_place_is_never_empty(self):
        """Clients and programs that come while the program starts anew wait, and nobody else takes the place."""
        daemon = self.daemon()
        self.begun("order:tick")
        for turn in range(10):
            daemon.send_signal(signal.SIGUSR2)
            self.leat("create", f"other{turn}", "-o", self.directory / f"other{turn}")
            running = self.program(LEAT_REGISTER_TIMEOUT="-1")
            running.do("emit 100")
            self.assertEqual(running.end(), 0)
            self.leat("destroy", f"other{turn}")
        self.assertTrue(daemon.is_alive(), daemon.log())
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (1000, 0))

    def test_request_under_way_is_answered(self):
        daemon = self.daemon()
        self.begun("order:tick")
        running = self.program()
        for _ in range(10):
            running.do("emit 100")
            rotating = subprocess.Popen([LEAT, "rotate", "web"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            time.sleep(self.random.random() * 0.02)
            self.replace(daemon)
            _, errors = rotating.communicate(timeout=PATIENCE)
            self.assertEqual((rotating.returncode, errors), (0, ""))
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (1000, 0))

    def test_without_a_keeper(self):
        """It stays."""
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        keeper, = self.keepers()
        kill_dead(keeper)
        self.leat("enable-event", "stock:none")
        daemon.send_signal(signal.SIGUSR2)
        wait_until(lambda: "cannot restart" in daemon.log(), f"it does not refuse: {daemon.log()}")
        running.do("emit 10")
        self.assert_numbers(self.complete_trace("web", directory), "order:tick", range(20))


class Endings(RestartTest):
    """A keeper lives no longer than somebody needs it."""

    def check_ended_by(self, number):
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        daemon = self.restart(daemon)
        running.do("emit 10")
        self.assertEqual(len(self.keepers()), 1)
        self.assertEqual(daemon.stop(number), 0)
        self.assert_no_keeper()
        self.assertEqual([path.name for path in daemon.directory.glob("*.sock")], [])
        self.assert_numbers(self.trace_of(directory), "order:tick", range(20))
        self.daemon()
        self.assertEqual(self.json("list")["sessions"], [])
        running.do("emit 10")
        self.assert_numbers(self.trace_of(directory), "order:tick", range(20))

    def test_sigterm_stores_all(self):
        self.check_ended_by(signal.SIGTERM)

    def test_sigint_stores_all(self):
        self.check_ended_by(signal.SIGINT)

    def test_daemon_killed_without_a_session(self):
        self.kill(self.daemon())
        self.assert_no_keeper()

    def test_daemon_killed_after_its_last_session(self):
        daemon = self.daemon()
        self.begun("order:tick")
        self.program().do("emit 10")
        daemon = self.restart(daemon)
        self.leat("destroy", "web")
        self.kill(daemon)
        self.assert_no_keeper()

    def test_keeper_waits_for_the_next_daemon(self):
        """However long that takes, as long as the runtime directory is there."""
        daemon = self.daemon()
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        keepers = self.keepers()
        self.kill(daemon)
        time.sleep(KEEPER_PATIENCE + 1)
        self.assertEqual(self.keepers(), keepers)
        running.do("emit 10")
        self.start_again(daemon)
        self.assertEqual(len(self.keepers()), 1)
        self.assert_numbers(self.complete_trace("web", directory), "order:tick", range(20))

    def test_keeper_ends_with_the_runtime_directory(self):
        daemon = self.daemon()
        self.begun("order:tick")
        self.program().end()
        self.kill(daemon)
        self.assertEqual(len(self.keepers()), 1)
        shutil.rmtree(self.runtime)
        self.assert_no_keeper()

    def test_keeper_waits_for_nothing_with_processor_time(self):
        daemon = self.daemon()
        self.begun("order:tick")
        self.program().do("emit 10")
        keeper, = self.keepers()
        self.kill(daemon)
        before = cpu_seconds_of(keeper)
        time.sleep(2)
        self.assertLess(cpu_seconds_of(keeper) - before, 0.025)

    def test_keeper_does_not_grow(self):
        """Sessions, processes and rotations come and go."""
        daemon = self.daemon()
        self.begun("order:tick", channel_options=("--buffers=pid",))

        def work(count):
            for _ in range(count):
                running = self.program()
                running.do("emit 10")
                running.end()
                self.leat("rotate", "web")
                self.create_active("short", "order:tick")
                self.leat("destroy", "short")
            self.wait_for_program_count(0)

        def kept():
            keeper, = self.keepers()
            return self.kept_by(keeper)

        work(5)
        before = kept()
        work(20)
        wait_until(lambda: kept() <= before, f"descriptors stay open: {before} after 5, {kept()} after 25")
        self.restart(daemon)
        wait_until(lambda: kept() <= before, f"descriptors stay open: {before} before, {kept()} after a restart")


@needs(can_be_two_users(), "two-users")
class Users(RestartTest):
    def owners_and_modes(self, directory):
        return {(path.stat().st_uid, path.stat().st_mode & 0o7777, path.is_dir())
                for path in (directory, *directory.rglob("*")) if not path.is_symlink()}

    def test_daemon_of_an_ordinary_user(self):
        daemon = self.daemon(uid=ALICE)
        directory = self.create_active("mine", "order:tick", uid=ALICE)
        running = self.program(uid=ALICE)
        running.do("emit 10")
        self.assertEqual(len(self.keepers(uid=ALICE)), 1)
        self.kill(daemon)
        running.do("emit 10")
        daemon = self.start_again(daemon)
        running.do("emit 10")
        self.leat("rotate", "mine", uid=ALICE)
        running.do("emit 10")
        daemon = self.restart(daemon)
        self.assertEqual(discarded(self.stopped("mine", uid=ALICE)), 0)
        numbers = [event["n"] for chunk in self.chunks_of(directory) for event in self.read(chunk).events()]
        self.assertEqual(numbers, list(range(40)))
        self.assertEqual({path.stat().st_uid for path in directory.rglob("*")}, {ALICE})
        daemon.stop()
        self.assert_no_keeper()

    def test_daemons_of_root_and_of_a_user(self):
        """Each has a keeper, and each may be killed without the other."""
        daemons = {None: self.daemon(), ALICE: self.daemon(uid=ALICE)}
        directories = {uid: self.create_active("web", "order:tick", uid=uid) for uid in daemons}
        running = self.program(uid=ALICE)
        for uid in (None, ALICE, None, ALICE):
            running.do("emit 10")
            self.kill(daemons[uid])
            running.do("emit 10")
            daemons[uid] = self.start_again(daemons[uid])
        self.assertEqual([len(self.keepers(uid=uid)) for uid in (0, ALICE)], [1, 1])
        for uid, directory in directories.items():
            self.assert_numbers(self.complete_trace("web", directory, uid=uid), "order:tick", range(80))

    def test_users_of_roots_daemon_have_traces_of_their_own(self):
        daemon = self.daemon()
        directory = self.create_active("all", "order:tick")
        programs = {uid: self.program(uid=uid) for uid in (0, ALICE)}
        for turn in range(3):
            for running in programs.values():
                running.do("emit 10")
            self.kill(daemon)
            for running in programs.values():
                running.do("emit 10")
            daemon = self.start_again(daemon)
        programs[BOB] = self.program(uid=BOB)
        programs[BOB].do("emit 10")
        self.leat("rotate", "all")
        daemon = self.restart(daemon)
        for running in programs.values():
            running.do("emit 10")
        self.assertEqual(discarded(self.stopped("all")), 0)
        chunks = self.chunks_of(directory)
        self.assertEqual(len(chunks), 2)
        for chunk in chunks:
            for uid, count in ((0, 60), (ALICE, 60), (BOB, 10)):
                part = chunk / "ust" / "uid" / str(uid)
                numbers = range(count) if chunk == chunks[0] else range(count, count + 10)
                self.assert_numbers(self.read(part), "order:tick", numbers)
                self.assertEqual(self.owners_and_modes(part), {(uid, 0o750, True), (uid, 0o640, False)})

    def test_other_users_do_not_reach_a_keeper(self):
        daemon = self.daemon()
        self.create_active("all", "order:tick")
        self.daemon(uid=ALICE)
        script = ("import socket, sys\n"
                  "for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):\n"
                  "    peer = socket.socket(socket.AF_UNIX, kind)\n"
                  "    try:\n"
                  "        peer.connect(sys.argv[1])\n"
                  "        print('connected')\n"
                  "    except (PermissionError, FileNotFoundError):\n"
                  "        pass\n")
        for is_there in (True, False):
            for directory in (self.runtime, self.runtime / "apps" / f"leat-{ALICE}"):
                self.assertTrue((directory / "keeper.sock").exists())
                result = subprocess.run(["python3", "-c", script, str(directory / "keeper.sock")], capture_output=True,
                                        text=True, **as_user(BOB))
                self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
            if is_there:
                self.kill(daemon)


@needs(has_namespaces(), "namespaces")
class FullDisk(SmallDiskTest):
    def fill(self):
        """Leaves no byte."""
        self.on_disk('head -c 2M /dev/zero >"$DISK/fill" 2>/dev/null; test "$(df --output=avail "$DISK" | tail -1)" -eq 0')

    def begun_on_full_disk(self, rule, events, *options):
        """Returns a daemon that has stored so many events, and a program that has emitted as many again since then."""
        daemon = self.daemon(wrapper=self.inside)
        self.leat("create", "web", "-o", self.disk / "trace", *options)
        self.leat("enable-event", rule)
        self.leat("start")
        running = self.program()
        running.do("emit 100")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == events, "events are not stored")
        self.fill()
        running.do("emit 100")
        return daemon, running

    def test_events_stay_in_the_rings(self):
        daemon, running = self.begun_on_full_disk("order:*", 200)
        wait_until(self.warns_of_full_disk, "nobody is told")
        daemon = self.restart(daemon)
        running.do("emit 100")
        self.leat("enable-event", "stock:*")
        running.do("emit 100")
        daemon = self.restart(daemon)
        running.do("emit 100")
        time.sleep(0.5)
        self.on_disk('rm "$DISK/fill"')
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 1200, "events are not stored")
        wait_until(lambda: self.json("list")["warnings"] == [], "people are told of what is over")
        self.restart(daemon)
        counts = self.stopped("web")
        self.on_disk(f'cp -r "$DISK/trace" "{self.directory}/copy"')
        self.assertEqual(discarded(counts), 0)
        trace = self.trace_of(self.directory / "copy", counts)
        self.assertEqual(trace.stderr, "")
        for name in TICKS[:2]:
            self.assert_numbers(trace, name, range(500))
        self.assert_numbers(trace, "stock:tick", range(300, 500))

    def test_limit_that_is_reached_behind_it(self):
        daemon, running = self.begun_on_full_disk("order:tick", 100, "--max-size=64K", "--duration=1h")
        running.do("emit 10000")
        time.sleep(0.5)
        self.assertEqual(self.session("web")["state"], "active")
        self.restart(daemon)
        self.on_disk('rm "$DISK/fill"')
        wait_until(lambda: self.session("web").get("stopped_by") == "max-size", "the limit is not reached")
        counts = self.stopped("web")
        self.assertEqual(counts["events"] + discarded(counts), 10200)
        self.on_disk(f'cp -r "$DISK/trace" "{self.directory}/copy"')
        trace = self.trace_of(self.directory / "copy", counts)
        self.assert_numbers(trace, "order:tick", range(counts["events"]))
        sizes = [path.stat().st_size for path in (self.directory / "copy").rglob("channel0_*") if path.suffix != ".idx"]
        self.assertLessEqual(sum(sizes), 64 << 10)
        self.assertEqual(self.session("web")["bytes"], sum(sizes))

    def test_programs_with_rings_of_their_own_that_end_meanwhile(self):
        """One has a trace; the other's cannot be made yet."""
        self.daemon(wrapper=self.inside)
        self.leat("create", "web", "-o", self.disk / "trace")
        self.leat("enable-channel", "c", "--buffers=pid")
        self.leat("enable-event", "order:tick", "-c", "c")
        self.leat("start")
        running = self.program()
        running.do("emit 100")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 100, "events are not stored")
        self.fill()
        younger = self.program()
        for each in (running, younger):
            each.do("emit 100")
            each.end()
        time.sleep(0.5)
        self.on_disk('rm "$DISK/fill"')
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 300, "events are not stored")
        counts = self.json("destroy")
        self.assertEqual((counts["events"], discarded(counts), counts["warnings"]), (300, 0, []))
        self.on_disk(f'cp -r "$DISK/trace" "{self.directory}/copy"')
        trace = self.trace_of(self.directory / "copy", counts)
        self.assertEqual(self.numbers(trace, "order:tick", running), list(range(200)))
        self.assertEqual(self.numbers(trace, "order:tick", younger), list(range(100)))

    def test_relay_beside_the_disk_gets_what_that_has(self):
        """No sooner: the next daemon may write other packets of the same numbers.

        Where a file had room behind its end, the relay may miss what was stored before the kill."""
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        daemon, running = self.begun_on_full_disk("order:tick", 100, f"--live={relay.url}")
        self.kill(daemon)
        self.on_disk(f'cp -r "$DISK/trace" "{self.directory}/killed"')
        # babeltrace2 reads nothing of a file that ends in half a packet.
        view = subprocess.run([LEAT, "view", self.directory / "killed"], capture_output=True, timeout=PATIENCE)
        stored = len(view.stdout.splitlines())
        self.assertTrue(100 <= stored <= 200, stored)
        self.start_again(daemon)
        running.do("emit 100")
        self.on_disk('rm "$DISK/fill"')
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 300, "events are not stored")
        counts = self.json("destroy")
        self.on_disk(f'cp -r "$DISK/trace" "{self.directory}/copy"')
        self.assertEqual((counts["events"], discarded(counts)), (300, 0))
        self.assert_numbers(self.trace_of(self.directory / "copy", counts), "order:tick", range(300))
        parts = [part for part in relay.parts("web") if any(path.stat().st_size for path in part.rglob("metadata"))]
        at_relay = [event["n"] for part in parts for event in self.read(part).events()]
        self.assertEqual(at_relay[stored - 300:], list(range(stored, 300)))
        self.assertEqual(at_relay, sorted(set(at_relay)))


class OverARelay(RelayedTest):
    """What a session sends to a relay goes on there as a new part."""

    def watch(self):
        """A viewer that goes on when the session does, and has shown its first events."""
        self.viewed = self.directory / "viewed"
        with open(self.viewed, "wb") as output:
            viewer = subprocess.Popen([LEAT, "view", "--reconnect", self.relay.live_url("web")], stdout=output,
                                      stderr=subprocess.PIPE, text=True)
        self.addCleanup(viewer.communicate)
        self.addCleanup(viewer.kill)
        self.wait_for_viewer(100)

    def viewed_numbers(self):
        return [int(n) for n in re.findall(r"order:tick: .* n = (\d+) ", self.viewed.read_text())]

    def wait_for_viewer(self, count):
        """It takes a second until it looks for a new part, which is there until the session ends. Afterwards, the relay has
        not yet confirmed what was shown."""
        deadline = time.monotonic() + PATIENCE
        while len(set(self.viewed_numbers())) != count:
            self.assertLess(time.monotonic(), deadline, f"the viewer does not show all {count} events")
            time.sleep(0.001)

    def test_process_that_became_another_program(self):
        """Its first trace still waits for the relay, and the next daemon finds two of one process."""
        daemon = self.daemon()
        self.leat("create", "web", f"--output={self.relay.url}")
        self.leat("enable-channel", "c", "--buffers=pid")
        self.leat("enable-event", "steps:tick")
        self.leat("start")
        counts = self.directory / "counts"
        counts.write_bytes(bytes(24))
        running = self.program("steps", LEAT_TEST_STEPS=str(counts))
        running.do("emit 10")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 10, "the events are not stored")
        stop_process(self.relay.process.pid)
        running.do("emit 100")
        self.become_another(running)
        running.do("emit 100")
        self.kill(daemon)
        self.relay.process.send_signal(signal.SIGCONT)
        self.start_again(daemon)
        self.wait_for_programs(running)
        running.do("emit 10")
        counts = self.json("destroy", "web")
        self.assertEqual((counts["events"], discarded(counts)), (220, 0))
        # Each by a name of its own, also where both daemons had something of it.
        self.assertEqual(len({path.parent.name for path in self.relay.output.rglob("metadata")}), 2)

    def become_another(self, running):
        """In between, the process is one that is not traced, until the daemon has seen that: else, the next program may go
        on with the trace of the one before."""
        between = self.directory / "between"
        between.write_text(f'#!/bin/sh\nread line\nexec {program("steps")} "$@"\n')
        between.chmod(0o755)
        running.say(f"exec {between}")
        self.wait_for_program_count(0)
        running.say("go on")
        running.answer()

    def emit_over_restarts(self, daemon, running, wait=lambda count: None):
        """Returns how many events there are in all. `wait` is called with their number after each restart."""
        for _ in range(3):
            running.do("emit 100")
            time.sleep(self.random.random() * 0.3)
            self.kill(daemon)
            running.do("emit 100")
            daemon = self.start_again(daemon)
            wait(running.do("emit 100"))
        return running.do("emit 100")

    def assert_all(self, count):
        """Nothing is lost. A packet that the relay had stored, but not confirmed when the daemon was killed, is sent again
        as it was: an event may be in several parts, but readers of all of them show it once."""
        # One of the two may have been killed before it had anything.
        parts = [part for part in self.relay.parts("web")
                 if any(path.stat().st_size for path in part.rglob("*_[0-9]"))]
        for part in parts:
            trace = self.read(part)
            self.assertEqual(trace.stderr, "")
            numbers = [event["n"] for event in trace.events("order:tick")]
            self.assertEqual(numbers, sorted(set(numbers)), "order in a part")
        for reader in (["babeltrace2"], [LEAT, "view"]):
            whole = subprocess.run([*reader, *map(str, parts)], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((whole.returncode, whole.stderr), (0, ""))
            self.assertEqual([Event(line)["n"] for line in whole.stdout.splitlines()], list(range(count)), reader)

    def test_live_session(self):
        daemon, running = self.begun_over_relay("live")
        self.watch()
        count = self.emit_over_restarts(daemon, running, self.wait_for_viewer)
        self.wait_for_viewer(count)
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (count, 0))
        self.leat("destroy", "web")
        self.assertLessEqual(max(collections.Counter(self.viewed_numbers()).values()), len(self.relay.parts("web")))
        self.assertGreaterEqual(len(self.relay.parts("web")), 4)
        self.assert_all(count)

    def test_viewer_misses_nothing(self):
        """It has shown what the relay had not confirmed when the daemon was killed. That is sent again, and what comes after
        it is no part of that."""
        daemon, running = self.begun_over_relay("live")
        self.watch()
        for _ in range(4):
            for _ in range(5):
                self.wait_for_viewer(running.do("emit 20"))
            self.kill(daemon)
            running.do("emit 100")
            daemon = self.start_again(daemon)
            self.wait_for_viewer(running.do("emit 100"))

    def test_session_that_nobody_watches(self):
        count = self.emit_over_restarts(*self.begun_over_relay("output"))
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (count, 0))
        self.leat("destroy", "web")
        self.assert_all(count)

    def check_killed_while_packets_are_under_way(self, kind):
        """The relay has stored more of them than the daemon knows."""
        daemon, running = self.begun_over_relay(kind)
        for _ in range(5):
            for _ in range(self.random.randrange(20, 60)):
                count = running.do("emit 10")
            daemon = self.restart(daemon)
        counts = self.json("destroy", "web")
        self.assertEqual((counts["events"], discarded(counts)), (count, 0))
        self.assert_all(count)

    def test_killed_while_packets_of_a_live_session_are_under_way(self):
        self.check_killed_while_packets_are_under_way("live")

    def test_killed_while_packets_of_a_session_that_nobody_watches_are_under_way(self):
        self.check_killed_while_packets_are_under_way("output")

    def test_relay_that_is_away_at_the_restart(self):
        daemon, running = self.begun_over_relay("live")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 100, "events are not stored")
        self.relay.kill()
        running.do("emit 100")
        daemon = self.restart(daemon)
        running.do("emit 100")
        self.assertEqual(self.session("web")["state"], "active")
        self.relay.start()
        running.do("emit 100")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 400, "events are not stored")
        counts = self.stopped("web")
        self.assertEqual(discarded(counts), 0)
        self.leat("destroy", "web")
        self.assert_all(400)

    def test_program_with_rings_of_its_own_that_ends_while_the_relay_is_away(self):
        """The next daemon cannot begin to send what is in them, and keeps it."""
        daemon = self.daemon()
        self.leat("create", "web", f"--output={self.relay.url}")
        self.leat("enable-channel", "c", "--buffers=pid")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        running = self.program()
        running.do("emit 100")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 100, "events are not stored")
        self.relay.kill()
        running.do("emit 50")
        running.end()
        for _ in range(2):
            daemon = self.restart(daemon)
            wait_until(lambda: "events stay in the rings" in daemon.log(), "the daemon does not try")
            self.assertEqual(self.json("list", "--programs")["programs"], [])
        self.relay.start()
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 150, "events are lost")
        counts = self.json("destroy")
        self.assertEqual((counts["events"], discarded(counts), counts["warnings"]), (150, 0, []))
        self.assert_all(150)


if __name__ == "__main__":
    main()
