#!/usr/bin/env python3
"""Children of fork(), and processes that change their user, under the session daemon: each is a program of its own, and
each event goes to the trace of the user that the process has by then."""
import collections
import os
import pathlib
import signal
import struct
import subprocess
import time

from session_daemons import Commanded, SessionTest, discarded
from support import BUILD, can_be_two_users, lacks, main, plain_run, program, stop_process, wait_until

WORKER = 65534  # the user that workers become


class Workers(Commanded):
    """tests/programs/workers.c."""

    def __init__(self, count, events, *uid):
        # pylint: disable=super-init-not-called
        self.process = subprocess.Popen([program("workers"), *map(str, (count, events, *uid))], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = self.process.pid


class ChildrenTest(SessionTest):
    def workers(self, count, events, *uid):
        started = Workers(count, events, *uid)
        self.addCleanup(started.kill)
        return started

    def control_files(self):
        """The bytes of all there are, of all users."""
        for path in (self.runtime / "apps").glob("leat-*/*.app"):
            try:
                yield path.read_bytes()
            except FileNotFoundError:
                pass

    def control_names(self):
        return {path.name for path in (self.runtime / "apps").glob("leat-*/*.app")}

    def words(self):
        """Of all tracepoints that somebody has switched on."""
        for content in self.control_files():
            count, = struct.unpack_from("<I", content, 8)
            for index in range(count):
                word, = struct.unpack_from("<I", content, 4096 + 64 * index)
                if word != 0:
                    yield word

    def listed(self):
        return [entry["pid"] for entry in self.json("list", "--programs")["programs"]]

    def steps_of(self, trace):
        """Process and number of each event."""
        steps = collections.Counter((event["pid"], event["n"]) for event in trace.events("worker:step"))
        self.assertEqual(set(steps.values()), {1}, "events are doubled")
        return steps

    def assert_each_once(self, trace, processes, events):
        """Every process has emitted each number once."""
        by_process = collections.Counter(pid for pid, _ in self.steps_of(trace))
        self.assertEqual((len(by_process), set(by_process.values())), (processes, {events}))


class Children(ChildrenTest):
    def test_two_hundred_at_once(self):
        """No event is lost or doubled, and each is listed."""
        self.daemon()
        master = self.workers(200, 100)
        directory = self.create_active("web", "worker:*")
        self.assertEqual(master.do("work"), 20000)
        wait_until(lambda: len(self.listed()) == 201, "not all are listed")
        self.assertEqual(len(set(self.listed())), 201)
        master.do("end")
        wait_until(lambda: len(self.listed()) == 1, "some are listed that have ended")
        counts = self.stopped("web")
        trace = self.trace_of(directory, counts)
        # The master is older than the session: what it emitted before it had the rings is counted.
        self.assertLessEqual(discarded(counts), 1 + 1, counts)
        self.assert_each_once(trace, 200, 100)

    def test_those_that_come_later_are_found(self):
        self.daemon()
        master = self.workers(20, 10)
        master.do("work")
        wait_until(lambda: len(self.listed()) == 21, "not all are listed")

    def test_daemon_that_comes_later_finds_each(self):
        master = self.workers(20, 10)
        master.do("work")
        self.daemon()
        self.assertEqual(len(self.listed()), 21)

    def test_daemon_does_not_grow(self):
        daemon = self.daemon()
        master = self.workers(50, 20)
        directory = self.create_active("web", "worker:*")

        def work():
            master.do("work")
            master.do("end")

        def is_settled():
            return len(self.listed()) == 1

        for _ in range(10):
            work()
        wait_until(is_settled, "some are listed that have ended")
        before = daemon.descriptors(), daemon.memory_kib()
        for _ in range(40):
            work()
        wait_until(is_settled, "some are listed that have ended")
        # A client that is gone may still have its descriptor for a moment.
        wait_until(lambda: daemon.descriptors() <= before[0], "descriptors stay open")
        self.assertLess(daemon.memory_kib(), before[1] + 2048)
        self.assertEqual(len(list(self.control_files())), 1)
        counts = self.stopped("web")
        trace = self.trace_of(directory, counts)
        self.assertLessEqual(len(self.steps_of(trace)), 2500 * 20)
        # What finds no ring, or no room in it, is counted. The master emits twice in each turn.
        self.assertEqual(len(trace.lines) + discarded(counts), 2500 * 20 + 100, counts)

    def test_nothing_is_on_after_stop_was_answered(self):
        """However many children are being made meanwhile."""
        self.daemon()
        self.create_active("web", "worker:step")
        master = self.workers(8, 5)
        master.say("forever")
        try:
            for turn in range(20):
                wait_until(lambda: any(self.words()), "nothing is on")
                self.leat("stop", "web")
                until = time.monotonic() + 0.1
                while time.monotonic() < until:
                    self.assertEqual(list(self.words()), [], f"turn {turn}: on after it was stopped")
                self.leat("start", "web")
        finally:
            master.say("")
            self.assertGreater(master.answer(), 100)

    def test_children_of_a_program_that_is_recorded(self):
        """The recorder does not look for files: what it has switched on is on in the children."""
        recording = self.record("sh", "-c", f"printf 'work\\nend\\n' | {program('workers')} 20 100")
        self.assertEqual((recording.status, recording.stdout), (0, "2000\n0\n"), recording.stderr)
        self.assert_each_once(self.read_complete(recording), 20, 100)


class Orphans(ChildrenTest):
    """A child that the tracer has not seen shares its parent's control file, and outlives the parent."""

    def orphan(self):
        """Returns it, when its parent has emitted once and the daemon knows that this has ended."""
        running = self.program()
        running.do("emit 1")
        running.do("leave")
        self.assertEqual(running.process.wait(), 0)
        self.listed()
        return running

    def test_nothing_is_on_after_stop_was_answered(self):
        self.daemon()
        self.create_active("web", "order:tick")
        running = self.orphan()
        running.do("emit 10")
        counts = self.stopped("web")
        self.assertEqual(counts["events"] + discarded(counts), 11, counts)
        running.do("emit 10")
        self.assertEqual(self.json("destroy", "web")["events"], counts["events"])

    def test_trace_of_its_own(self):
        """It ends with the last process that writes into it."""
        self.daemon()
        directory = self.create_active("web", "order:tick", channel=("--buffers=pid",))
        running = self.orphan()
        running.do("emit 10")
        self.assertEqual(len(self.listed()), 1)
        running.end()
        wait_until(lambda: not self.listed(), "it is listed, and has ended")
        counts = self.stopped("web")
        self.assertEqual(counts["events"] + discarded(counts), 11, counts)
        self.trace_of(directory, counts)


class Successors(ChildrenTest):
    def test_program_that_becomes_another_with_another_event_of_the_name(self):
        """However long the daemon does not look: each has a trace of its own."""
        daemon = self.daemon()
        directory = self.create_active("web", "order:tick", channel=("--buffers=pid",))
        running = self.program()
        running.do("emit 5")
        stop_process(daemon.process.pid)
        before = self.control_names()
        other = program("commanded-field")
        running.say(f"exec {other}")
        wait_until(lambda: other in pathlib.Path(f"/proc/{running.pid}/maps").read_text(), "it does not become the other one")
        wait_until(lambda: self.control_names() - before, "the other one has no control file")
        os.kill(daemon.process.pid, signal.SIGCONT)
        self.assertEqual(running.do("emit 3"), 3)
        running.end()
        wait_until(lambda: not self.listed(), "it is listed, and has ended")
        counts = self.stopped("web")
        self.assertEqual(counts["events"] + discarded(counts), 5 + 3, counts)
        self.trace_of(directory, counts)
        self.assertNotIn("rename one of them", daemon.log())


class Users(ChildrenTest):
    def setUp(self):
        super().setUp()
        if not can_be_two_users():
            lacks("two-users")

    def uids(self, trace):
        return {event["uid"] for event in trace.events("worker:step")}

    def test_master_of_root_and_workers_of_another_user(self):
        """Each in its user's trace."""
        self.daemon()
        directory = self.create_active("web", "worker:*")
        master = self.workers(20, 100, WORKER)
        master.do("work")
        wait_until(lambda: len(self.listed()) == 21, "not all are listed")
        users = collections.Counter(entry["uid"] for entry in self.json("list", "--programs")["programs"])
        self.assertEqual(users, {0: 1, WORKER: 20})
        master.do("end")
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (2002, 0), counts)
        of_workers = self.read(directory / "ust/uid" / str(WORKER))
        self.assert_each_once(of_workers, 20, 100)
        self.assertEqual(self.uids(of_workers), {WORKER})
        self.assertEqual({event.name for event in self.read(directory / "ust/uid/0").events()}, {"worker:master"})

    def test_forth_and_back(self):
        self.daemon()
        directory = self.create_active("web", "worker:step")
        master = self.workers(0, 0, WORKER)
        self.assertEqual(master.do("users 50"), 100)
        wait_until(lambda: len(self.listed()) == 1, "files of before are listed")
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (100, 0), counts)
        for uid in 0, WORKER:
            trace = self.read(directory / "ust/uid" / str(uid))
            self.assertEqual((len(trace.lines), self.uids(trace)), (50, {uid}))
        self.assertEqual(len(list(self.control_files())), 1)

    def test_user_for_a_while_leaves_all_as_it_is(self):
        """By seteuid(), as file servers do: that user could shorten files that root's process has mapped, and so end it."""
        self.daemon()
        directory = self.create_active("web", "worker:*")
        master = self.workers(0, 0, WORKER)
        master.do("masks 0")  # has the rings now: a daemon gives them to no other user
        places = sorted((self.runtime / "apps").rglob("*"))
        self.assertEqual(master.do("masks 50"), 100)
        self.assertEqual(sorted((self.runtime / "apps").rglob("*")), places)
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (102, 0), counts)
        trace = self.read(directory / "ust/uid/0")
        self.assertEqual((len(trace.events("worker:step")), self.uids(trace)), (100, {0, WORKER}))

    def test_program_that_is_not_linked_with_libleat(self):
        """The preload libraries notice the change, too, and make one of it."""
        script = ("import ctypes, os, sys\nos.fork() or os.setuid(int(sys.argv[1]))\nlibc = ctypes.CDLL(None)\n"
                  "for _ in range(100): libc.posix_memalign(ctypes.byref(ctypes.c_void_p()), 64, 12345 + os.getuid())\n"
                  "input() if os.getuid() == 0 else os._exit(0)")
        libraries = ":".join(str(BUILD / "lib" / f"libleat-preload-{name}.so") for name in ("libc", "pthread", "dl"))
        self.daemon()
        directory = self.create_active("web", "lttng_ust_libc:posix_memalign")
        result = plain_run("python3", "-S", "-c", script, str(WORKER), input="\n",
                           env={**os.environ, "LD_PRELOAD": libraries})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        counts = self.stopped("web")
        self.assertEqual(discarded(counts), 0, counts)
        for uid in 0, WORKER:
            sizes = [event["size"] for event in self.read(directory / "ust/uid" / str(uid)).events()]
            self.assertEqual([size for size in sizes if size >= 12345], [12345 + uid] * 100)

    def test_recorder_goes_on(self):
        recording = self.record("sh", "-c", f"printf 'work\\nend\\n' | {program('workers')} 20 100 {WORKER}")
        self.assertEqual((recording.status, recording.stdout), (0, "2000\n0\n"), recording.stderr)
        self.assert_each_once(self.read_complete(recording), 20, 100)


if __name__ == "__main__":
    main()
