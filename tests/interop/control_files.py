#!/usr/bin/env python3
"""Programs that nobody has started for recording leave their control files where daemons find them."""
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import time

from support import (PATIENCE, PROGRAMS, InteropTest, can_be_two_users, enter_user_namespace, has_namespaces,
                     lacks, main, open_files_of, outside_gate, plain_run, program, wait_until, without_daemon)

MAGIC = b"LEAC"
VERSION = 5
REGISTER, DONE, REGISTER_FILE = (struct.pack("<4sHH", b"LEAP", VERSION, kind) for kind in (1, 2, 6))


def is_dead(path):
    """No process has it mapped."""
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


class Daemon:
    """A daemon that listens in a directory, and has a session if it is active."""

    def __init__(self, directory, active=True):
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(directory / "app.sock"))
        self.socket.listen(5)
        self.socket.settimeout(PATIENCE)
        self.active = open(directory / "active", "wb")
        if active:
            self.activate()

    def activate(self):
        fcntl.fcntl(self.active, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))

    def take(self):
        """The next program's connection, its message, and the number of the file that came with it."""
        program, _ = self.socket.accept()
        program.settimeout(PATIENCE)
        message, fds, _, _ = socket.recv_fds(program, 100, 4)
        inodes = [os.fstat(fd).st_ino for fd in fds]
        for fd in fds:
            os.close(fd)
        return program, message, inodes

    def message(self):
        connection, message, _ = self.take()
        connection.close()
        return message

    def hears_nothing(self):
        self.socket.settimeout(0)
        try:
            self.socket.accept()
        except BlockingIOError:
            return True
        return False

    def close(self):
        self.socket.close()
        self.active.close()


class ControlFilesTest(InteropTest):
    def setUp(self):
        super().setUp()
        self.apps = self.runtime / "apps" / f"leat-{os.geteuid()}"

    def names(self):
        return sorted(path.name for path in self.apps.iterdir()) if self.apps.exists() else []

    def start(self, *command, **arguments):
        """A program that waits for a line."""
        process = subprocess.Popen([program("paced"), "1", "0", *command], stdin=subprocess.PIPE, env=without_daemon(),
                                   **arguments)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def file_of(self, process):
        """Its control file, when it is ready."""
        def find():
            for name in self.names():
                header = (self.apps / name).read_bytes()[:64] if name.endswith(".app") else b""
                if header[:4] == MAGIC and int.from_bytes(header[16:20], "little") == process.pid:
                    return self.apps / name
            return None
        return wait_until(find, "no control file")

    def assert_untouched(self, **variables):
        result = plain_run(program("emit"), "1000", "2", env={**without_daemon(), **variables})
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "2001\n", ""))


class ControlFiles(ControlFilesTest):
    def test_running_program_has_one_and_takes_it_along(self):
        process = self.start()
        file = self.file_of(process)
        self.assertEqual(file.stat().st_mode & 0o7777, 0o600)
        self.assertFalse(is_dead(file))
        wait_until(lambda: not [path for path in open_files_of(process.pid) if "leat-" in path], "it keeps a descriptor")
        process.communicate(b"\n")
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.names(), [])

    def test_next_program_clears_away_what_a_killed_one_left(self):
        killed = self.start()
        file = self.file_of(killed)
        living = self.start()
        self.file_of(living)
        (self.apps / "0123456789abcdef.new").write_bytes(b"")
        os.utime(self.apps / "0123456789abcdef.new", (0, 0))
        (self.apps / "other").write_bytes(b"")
        killed.kill()
        killed.wait()
        self.assertTrue(is_dead(file))
        self.assertEqual(plain_run(program("emit"), "1", "0", env=without_daemon()).returncode, 0)
        self.assertEqual(self.names(), sorted([self.file_of(living).name, "other"]))

    def test_libraries_that_come_and_go_leave_nothing(self):
        result = plain_run(program("plugin-host"), str(PROGRAMS / "libtest-plugin.so"), "300", env=without_daemon())
        self.assertEqual((result.returncode, result.stdout), (0, "done\n"), result.stderr)
        self.assertEqual(self.names(), [])

    def test_many_starts_at_once(self):
        """Each also looks for dead files of others, which begin and end meanwhile."""
        script = f"for i in $(seq 100); do {program('emit')} 0 0 >/dev/null & done; wait"
        for _ in range(3):
            told = plain_run("sh", "-c", script, env={**without_daemon(), "LEAT_TEST_SAYS_WHETHER_ON": "1"}).stderr
            self.assertRegex(told, r"\A(off: [0-9a-f]{16}\.app\n){100}\Z")
        self.assertEqual(self.names(), [])

    def test_directory_that_cannot_be_used(self):
        self.assert_untouched(LEAT_RUNTIME_DIR="")
        self.assert_untouched(LEAT_RUNTIME_DIR="/nonexistent")
        self.assert_untouched(LEAT_RUNTIME_DIR="/proc")
        self.apps.mkdir(parents=True)
        self.apps.chmod(0o777)
        self.assert_untouched()
        self.assertEqual(self.names(), [])

    def test_recorder_gets_its_events_all_the_same(self):
        self.apps.mkdir(parents=True)
        self.apps.chmod(0o777)
        self.assertEqual(len(self.read_complete(self.record(program("emit"), "10", "1")).lines), 11)

    def test_programs_of_other_users_have_directories_of_their_own(self):
        if not can_be_two_users():
            lacks("two-users")
        self.runtime.chmod(0o755)
        self.assert_untouched()
        other = subprocess.Popen([program("paced"), "1", "0"], stdin=subprocess.PIPE, env=without_daemon(), user=65534)
        self.addCleanup(other.kill)
        directory = self.runtime / "apps" / "leat-65534"
        wait_until(lambda: directory.exists() and any(directory.glob("*.app")), "no control file")
        self.assertEqual((directory.stat().st_uid, directory.stat().st_mode & 0o7777), (65534, 0o700))
        self.assertEqual((self.runtime / "apps").stat().st_mode & 0o7777, 0o1777)
        other.communicate(b"\n")
        self.assertEqual(list(directory.iterdir()), [])

    def test_shared_memory_of_another_namespace(self):
        """Who is root in a user namespace leaves the directory of the host's root alone."""
        if os.geteuid() != 0 or not has_namespaces() or not can_be_two_users():
            lacks("two-users")
        environment = {name: value for name, value in without_daemon().items() if name != "LEAT_RUNTIME_DIR"}
        script = ('mount -t tmpfs -o mode=1777 none /dev/shm || exit 77; for in_namespace in "" "unshare --map-root-user"; do '
                  'setpriv --reuid 1000 --regid 1000 --clear-groups $in_namespace "$@" || exit 1; ls /dev/shm; done')
        result = plain_run("unshare", "--mount", "sh", "-c", script, "sh", program("emit"), "10", "1", env=environment)
        self.assertEqual((result.returncode, result.stdout), (0, "11\nleat-1000\n11\nleat-1000\n"), result.stderr)

    def test_full_shared_memory(self):
        """Wherever room ends, the program runs, and a recorder gets its events."""
        if not has_namespaces():
            lacks("namespaces")
        environment = {name: value for name, value in without_daemon().items() if name != "LEAT_RUNTIME_DIR"}
        script = ('mount -t tmpfs -o size=64k none /dev/shm || exit 77; i=0; while [ $i -lt 17 ]; do rm -rf /dev/shm/*; '
                  'dd if=/dev/zero of=/dev/shm/fill bs=4k count=$i 2>/dev/null; "$@" || exit 1; i=$((i+1)); done')
        in_namespace = ("unshare", "--mount", "sh", "-c", script, "sh")
        result = plain_run(*in_namespace, program("emit"), "10", "1", env=environment)
        self.assertEqual((result.returncode, result.stdout), (0, "11\n" * 17), result.stderr)
        command = self.record_command([program("emit"), "10", "1"])
        result = plain_run(*in_namespace, "sh", "-c", 'rm -rf "$0"; exec "$@"', str(self.directory / "trace"), *command,
                           env=environment)
        self.assertEqual((result.returncode, result.stdout), (0, "11\n" * 17), result.stderr)
        self.assertEqual(result.stderr.count("11 events"), 17, result.stderr)


class Lanes(ControlFilesTest):
    """Whom a program tells at its start that it is there."""

    def daemon(self, directory, active=True):
        daemon = Daemon(directory, active)
        self.addCleanup(daemon.close)
        return daemon

    def setUp(self):
        super().setUp()
        self.apps.mkdir(parents=True)
        self.apps.chmod(0o700)

    def test_nobody_without_a_session(self):
        daemons = self.daemon(self.runtime, active=False), self.daemon(self.apps, active=False)
        (self.runtime / "active").unlink()
        self.assert_untouched(LEAT_REGISTER_TIMEOUT="-1")  # if it waited, it would wait for ever
        self.assertTrue(all(daemon.hears_nothing() for daemon in daemons))

    def test_daemon_that_was_killed_is_not_asked(self):
        daemons = self.daemon(self.runtime, active=False), self.daemon(self.apps, active=False)
        self.assert_untouched(LEAT_REGISTER_TIMEOUT="-1")
        self.assertTrue(all(daemon.hears_nothing() for daemon in daemons))

    def test_each_daemon_with_a_session_and_the_recorder(self):
        """The program goes on when all have answered."""
        daemons = [self.daemon(self.runtime), self.daemon(self.apps), self.daemon(self.directory / "recorder")]
        environment = {**without_daemon(), "LEAT_RECORDER_DIR": str(self.directory / "recorder")}
        process = subprocess.Popen([program("emit"), "5", "0"], env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        for daemon in daemons:
            connection, message, inodes = daemon.take()
            file = self.file_of(process)
            if daemon is daemons[2]:
                self.assertEqual((message, inodes), (REGISTER, [file.stat().st_ino]))
            else:
                self.assertEqual((message, inodes), (REGISTER_FILE + struct.pack("<Q", int(file.stem, 16)), []))
            self.assertIsNone(process.poll(), "it does not wait")
            connection.send(DONE)
            connection.close()
        self.assertEqual(process.communicate(timeout=PATIENCE)[0], "1\n")

    def test_handler_ends_a_program_that_waits(self):
        """By exit(), in the middle of dlopen()."""
        daemon = self.daemon(self.runtime, active=False)
        process = subprocess.Popen([program("commanded")], env={**without_daemon(), "LEAT_REGISTER_TIMEOUT": "-1"},
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        process.stdin.write("emit 0\n")
        self.assertEqual(process.stdout.readline(), "0\n")
        daemon.activate()
        process.stdin.write(f"load {PROGRAMS / 'libtest-plugin.so'}\n")
        connection, _, _ = daemon.take()
        self.addCleanup(connection.close)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(PATIENCE), 0)

    def elapsed(self, **variables):
        begin = time.monotonic()  # moment: only tests outside the gate call it
        self.assert_untouched(**variables)
        return time.monotonic() - begin  # moment: the same

    @outside_gate("asserts how long a start takes")
    def test_those_that_do_not_answer_delay_a_start_once_together(self):
        daemons = [self.daemon(self.runtime), self.daemon(self.apps), self.daemon(self.directory / "recorder")]
        variables = {"LEAT_RECORDER_DIR": str(self.directory / "recorder")}
        self.assertLess(self.elapsed(LEAT_REGISTER_TIMEOUT="0", **variables), 0.4)
        elapsed = self.elapsed(LEAT_REGISTER_TIMEOUT="500", **variables)
        self.assertGreaterEqual(elapsed, 0.5)
        self.assertLess(elapsed, 1.0)
        for daemon in daemons:
            for _ in range(2):
                self.assertEqual(daemon.message()[:8], REGISTER if daemon is daemons[2] else REGISTER_FILE)

    @outside_gate("asserts how long a start takes")
    def test_libraries_that_come_later_wait_no_more(self):
        self.daemon(self.runtime)
        begin = time.monotonic()
        result = plain_run(program("plugin-host"), str(PROGRAMS / "libtest-plugin.so"), "10",
                           env={**without_daemon(), "LEAT_REGISTER_TIMEOUT": "300"})
        self.assertEqual((result.returncode, result.stdout), (0, "done\n"), result.stderr)
        self.assertLess(time.monotonic() - begin, 1.0)

    def test_directory_that_others_may_write_is_not_trusted(self):
        daemon = self.daemon(self.runtime)
        self.runtime.chmod(0o1777)
        self.assert_untouched(LEAT_REGISTER_TIMEOUT="300")
        self.assertTrue(daemon.hears_nothing())

    def test_program_without_a_file_tells_the_recorder_alone(self):
        daemons = self.daemon(self.runtime), self.daemon(self.apps)
        recorder = self.daemon(self.directory / "recorder")
        self.apps.chmod(0o777)
        variables = {"LEAT_RECORDER_DIR": str(self.directory / "recorder"), "LEAT_REGISTER_TIMEOUT": "300"}
        self.assert_untouched(**variables)
        self.assertEqual(recorder.message(), REGISTER)
        self.assertTrue(all(daemon.hears_nothing() for daemon in daemons))


# Registers one tracepoint, and asks for channels by their numbers: that which it got, another one.
ASK = """
import array, os, socket, struct, sys
def connected():
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(os.environ["LEAT_RECORDER_DIR"] + "/app.sock")
    return peer
def asked(number):
    peer = connected()
    peer.send(struct.pack("<4sHHII", b"LEAP", 5, 5, number, 0))
    answer, fds, _, _ = socket.recv_fds(peer, 100, 4)
    return answer, len(fds)
memory = os.memfd_create("control")
def text(words):
    return struct.pack("<H", len(words)) + words
tracepoint = text(b"test:asked") + struct.pack("<i", 6) + text(b"test.c") + struct.pack("<I", 1) + text(b"") + bytes(4)
table = struct.pack("<4sIII", b"LETD", 2, 1, 16 + len(tracepoint)) + tracepoint
header = struct.pack("<4sHHIII", b"LEAC", 5, 64, 1, len(table), os.getpid())
os.pwrite(memory, header.ljust(4096 + 64, b"\\0") + table, 0)
os.ftruncate(memory, 4096 + 64 + -len(table) % 8 + len(table) + 720)
peer = connected()
socket.send_fds(peer, [struct.pack("<4sHH", b"LEAP", 5, 1)], [memory])
channel, fds, _, _ = socket.recv_fds(peer, 100, 4)
number = struct.unpack_from("<I", channel, 8)[0]
print(len(fds), asked(number) == (channel, 2), asked(number + 4), asked(0))
"""


class Attaching(InteropTest):
    def test_recorder_gives_its_channel_to_who_asks_for_it(self):
        recording = self.record(sys.executable, "-c", ASK)
        self.assertEqual((recording.status, recording.stdout), (0, "2 True (b'', 0) (b'', 0)\n"), recording.stderr)


if __name__ == "__main__":
    enter_user_namespace()
    main()
