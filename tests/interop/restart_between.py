#!/usr/bin/env python3
"""Programs that start after a session daemon was killed, and before there is another one."""
import fcntl
import os
import signal
import socket
import time
import unittest.mock

from session_daemons import SESSIOND, RestartTest, discarded
from support import main, outside_gate, plain_run, program, state_of, wait_until


class Between(RestartTest):
    def setUp(self):
        super().setUp()
        # The tests decide when programs have waited long enough.
        self.enterContext(unittest.mock.patch.dict(os.environ, LEAT_RESTART_PATIENCE="100000"))

    def begun_and_killed(self, patience=100000):
        os.environ["LEAT_RESTART_PATIENCE"] = str(patience)
        daemon = self.daemon()
        directory = self.begun("order:*")
        self.kill(daemon)
        return daemon, directory

    def begun_and_stopped(self):
        daemon = self.daemon()
        directory = self.begun("order:*")
        daemon.send_signal(signal.SIGSTOP)
        return daemon, directory

    def begun_and_deaf(self):
        """Also known to be."""
        daemon, directory = self.begun_and_stopped()
        self.assertEqual(self.started(LEAT_REGISTER_TIMEOUT="1000").answer(), 10)
        self.assertEqual(len(self.notes("deaf")), 1)
        return daemon, directory

    def started(self, **variables):
        """It emits as soon as it may."""
        running = self.program(**variables)
        running.say("emit 10")
        return running

    def waiting(self, patience="-1"):
        """One that waits, or that has emitted without."""
        before = set(self.control_files())
        running = self.started(LEAT_REGISTER_TIMEOUT=patience)
        wait_until(lambda: state_of(running.pid) == "S" and set(self.control_files()) - before, "the program does not sleep")
        return running

    def assert_all_recorded(self, directory, *programs):
        for running in programs:
            self.assertEqual(running.answer(), 10)
        counts = self.stopped("web")
        trace = self.read(directory)
        for running in programs:
            self.assertEqual(self.numbers(trace, "order:tick", running), list(range(10)))
        self.assertEqual(discarded(counts), 0)

    def test_they_wait_for_the_next(self):
        daemon, directory = self.begun_and_killed()
        programs = [self.waiting(), self.waiting()]
        self.start_again(daemon)
        self.assert_all_recorded(directory, *programs)

    def test_killed_twice(self):
        """Also after another program was put into its process."""
        daemon, directory = self.begun_and_killed()
        daemon = self.start_again(daemon)
        daemon.send_signal(signal.SIGUSR2)
        wait_until(lambda: daemon.log().count(" ready in ") == 2, "the daemon does not come back")
        self.kill(daemon)
        running = self.waiting()
        self.start_again(daemon)
        self.assert_all_recorded(directory, running)

    def notes(self, name):
        return list((self.runtime / "apps").glob(f"*/{name}-*"))

    @outside_gate("the second program has ten seconds to start")
    def test_those_that_gave_up_do_not_keep_others_from_waiting(self):
        daemon, directory = self.begun_and_killed()
        self.assertEqual(self.started(LEAT_REGISTER_TIMEOUT="1000").answer(), 10)
        self.assertEqual(len(self.notes("gone")), 1)
        running = self.waiting(patience="60000")
        self.start_again(daemon)
        self.assert_all_recorded(directory, running)

    def test_next_daemon_is_not_taken_for_deaf(self):
        """The one before was."""
        daemon, directory = self.begun_and_deaf()
        self.kill(daemon)
        daemon = self.start_again(daemon)
        daemon.send_signal(signal.SIGSTOP)
        running = self.waiting(patience="60000")
        daemon.send_signal(signal.SIGCONT)
        self.assert_all_recorded(directory, running)

    def test_killed_before_it_has_answered(self):
        daemon, directory = self.begun_and_stopped()
        programs = [self.waiting(), self.waiting()]
        daemon.send_signal(signal.SIGKILL)
        self.kill(daemon)
        self.start_again(daemon)
        self.assert_all_recorded(directory, *programs)

    def test_one_that_cannot_start_takes_nothing_over(self):
        daemon, directory = self.begun_and_killed()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            failed = plain_run(SESSIOND, f"--metrics=127.0.0.1:{taken.getsockname()[1]}")
        self.assertEqual(failed.returncode, 1, failed.stderr)
        running = self.waiting()
        self.start_again(daemon)
        self.assert_all_recorded(directory, running)

    def test_lock_of_another_user_makes_nobody_wait(self):
        """Whoever may read the file can lock it in another way."""
        daemon, _ = self.begun_and_killed(patience=1)
        with open(daemon.directory / "active", "rb") as file:
            self.assertEqual(self.waiting().answer(), 10)  # until the keeper lets go of it
            fcntl.flock(file, fcntl.LOCK_EX)
            fcntl.lockf(file, fcntl.LOCK_SH)
            self.assertEqual(self.started(LEAT_REGISTER_TIMEOUT="-1").answer(), 10)

    def test_nobody_waits_if_there_is_no_next(self):
        self.begun_and_killed(patience=1)
        self.assertEqual(self.waiting().answer(), 10)
        self.assertEqual(self.started(LEAT_REGISTER_TIMEOUT="-1").answer(), 10)
        self.assertEqual(len(self.keepers()), 1)

    @outside_gate("the ten seconds have to be over")
    def test_nobody_waits_for_long_if_the_lock_stays(self):
        """As when the keeper is stopped."""
        self.begun_and_killed()
        self.assertEqual(self.started(LEAT_REGISTER_TIMEOUT="1000").answer(), 10)
        note, = self.notes("gone")
        made = note.stat()
        time.sleep(11)
        self.assertEqual(self.started(LEAT_REGISTER_TIMEOUT="600000").answer(), 10)
        self.assertEqual(note.stat().st_ctime_ns, made.st_ctime_ns)

    def test_deaf_and_then_killed(self):
        """Those that start meanwhile wait for the next one all the same."""
        daemon, directory = self.begun_and_deaf()
        daemon.send_signal(signal.SIGKILL)
        self.kill(daemon)
        running = self.waiting(patience="600000")
        self.start_again(daemon)
        self.assert_all_recorded(directory, running)

    def test_refused_program_is_refused_once(self):
        daemon = self.daemon()
        self.begun("order:*")
        self.assertEqual(plain_run(program("other-abi"), "2").returncode, 0)
        wait_until(lambda: "is not traced" in daemon.log(), "the daemon says nothing")
        self.assertEqual(daemon.log().count("is not traced"), 1, daemon.log())

    def test_nobody_waits_without_an_active_session(self):
        daemon = self.daemon()
        self.begun("order:*")
        self.stopped("web")
        self.kill(daemon)
        self.assertEqual(self.started(LEAT_REGISTER_TIMEOUT="-1").answer(), 10)


if __name__ == "__main__":
    main()
