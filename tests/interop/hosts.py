#!/usr/bin/env python3
"""Programs of all kinds under `leat record`: each has the same output and exit status as without tracing. Where events
can be recorded, all of them are in the trace or counted."""
import ctypes
import mmap
import os
import signal
import socket
import subprocess
import time

from support import (BUILD, MUSL_GCC, SOURCE, InteropTest, compiled, exit_status_of, main, needs, program,
                     without_daemon)

HOST = program("host")
HANGING = 20  # s; no program here takes a tenth of it
WITHOUT_RSEQ = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
PRELOAD_NAMES = ("libc", "pthread", "dl")
ALL = ("--preload", ",".join(PRELOAD_NAMES))
KIB_OF_2_GIB = 2 << 20
KIB_OF_200_MIB = 200 << 10

# This program has no tracepoints.
SPEAKING = """
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    free(malloc(1234));
    puts("out");
    fputs("err\\n", stderr);
    return 7;
}
"""


def run_bounded(command, **arguments):
    """Returns the command's result. If it hangs, all of its processes are ended."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, **arguments)
    try:
        stdout, stderr = process.communicate(timeout=HANGING)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise AssertionError(f"{command} hangs") from None
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def can_lock_memory():
    """Whether no limit holds for us. It does for root of a user namespace."""
    memory = mmap.mmap(-1, 64 << 20)
    locked = (ctypes.c_char * len(memory)).from_buffer(memory)
    return ctypes.CDLL(None).mlock(locked, ctypes.c_size_t(len(memory))) == 0


class HostTest(InteropTest):
    def record_like_plain(self, *command, options=(), plain=None, name="trace"):
        """Records the command and checks that it behaves as it does without us."""
        plain = plain or run_bounded(command)
        recording = self.recording_of(run_bounded(self.record_command(command, options, name)), name)
        self.assert_like_plain(recording, plain)
        self.assertIsNotNone(recording.summary, recording.stderr)
        return recording

    def assert_all_accounted_for(self, recording, emitted):
        self.assertEqual(recording.summary["events"] + recording.summary["discarded"], emitted, recording.stderr)
        self.read_recording(recording)

    def assert_all_recorded(self, recording, emitted):
        self.assertEqual(recording.summary["discarded"], 0, recording.stderr)
        self.assert_all_accounted_for(recording, emitted)

    def assert_traced(self, recording):
        self.assertGreater(recording.summary["events"], 0, recording.stderr)
        self.read_recording(recording)


class Toolchains(HostTest):
    def build_host(self, *compiler, link=()):
        path = self.directory / "host"
        subprocess.run([*compiler, "-O2", "-pthread", f"-I{SOURCE}/include", "-o", path,
                        SOURCE / "tests" / "programs" / "host.c", *link], check=True)
        return str(path)

    def check_linked(self, *compiler, link=()):
        host = self.build_host(*compiler, link=link)
        self.assert_all_recorded(self.record_like_plain(host, "plain", "1000", "4"), 4000)

    def check_preloaded(self, *compiler):
        speaking = compiled([*compiler, "-O0"], self.directory / "speaking", SPEAKING)
        return self.record_like_plain(speaking, options=ALL, name="preloaded")

    def test_gcc(self):
        self.check_linked("gcc", link=self.shared())
        self.assert_traced(self.check_preloaded("gcc"))

    def test_clang(self):
        self.check_linked("clang-16", link=self.shared())
        self.assert_traced(self.check_preloaded("clang-16"))

    def test_static(self):
        self.check_linked("gcc", "-static", link=self.archive())
        self.check_untraced("gcc", "-static")

    def test_static_pie(self):
        self.check_linked("gcc", "-static-pie", "-fPIE", link=self.archive())
        self.check_untraced("gcc", "-static-pie", "-fPIE")

    @needs(MUSL_GCC, "musl-gcc")
    def test_musl(self):
        self.check_untraced(MUSL_GCC)

    @needs(MUSL_GCC, "musl-gcc")
    def test_static_musl(self):
        self.check_untraced(MUSL_GCC, "-static")

    def check_untraced(self, *compiler):
        recording = self.check_preloaded(*compiler)
        self.assertEqual((recording.summary["events"], recording.summary["registrations"]), (0, 0))

    def shared(self):
        return f"-L{BUILD}/lib", "-lleat", f"-Wl,-rpath,{BUILD}/lib"

    def archive(self):
        return (str(BUILD / "lib" / "libleat.a"),)


class Threads(HostTest):
    def check(self, threads, environment=None):
        os.environ.update(environment or {})  # setUp() restores it
        self.assert_all_accounted_for(self.record_like_plain(HOST, "plain", "100", str(threads)), 100 * threads)

    def test_32(self):
        self.check(32)

    def test_200(self):
        self.check(200)

    def test_32_without_rseq(self):
        self.check(32, WITHOUT_RSEQ)

    def test_200_without_rseq(self):
        self.check(200, WITHOUT_RSEQ)


class Memory(HostTest):
    def limited(self, kib, *command):
        return "sh", "-c", f'ulimit -v {kib} && exec "$0" "$@"', *command

    def check(self, kib, *options):
        """If the rings find no room, nothing may be recorded, but then nothing at all."""
        recording = self.record_like_plain(*self.limited(kib, HOST, "plain", "1000", "4"), options=options)
        if recording.summary["registrations"]:
            self.assert_all_accounted_for(recording, 4000)
        else:
            self.assertEqual(recording.summary["events"], 0)

    def test_2_gib(self):
        recording = self.record_like_plain(*self.limited(KIB_OF_2_GIB, HOST, "plain", "1000", "4"))
        self.assert_all_recorded(recording, 4000)

    def test_2_gib_with_preload(self):
        self.assert_traced(self.record_like_plain(*self.limited(KIB_OF_2_GIB, "sort", "/etc/passwd"), options=ALL))

    def test_200_mib(self):
        command = self.limited(KIB_OF_200_MIB, HOST, "plain", "1000", "1")
        self.assert_all_recorded(self.record_like_plain(*command), 1000)

    def test_200_mib_with_preload(self):
        self.assert_traced(self.record_like_plain(*self.limited(KIB_OF_200_MIB, "sort", "/etc/passwd"), options=ALL))

    def test_rings_that_do_not_fit(self):
        """The program runs untraced, and what is missing is counted."""
        command = self.limited(KIB_OF_200_MIB, HOST, "plain", "1000", "1")
        recording = self.record_like_plain(*command, options=("--ring-size", "1G"))
        summary = recording.summary
        self.assertEqual((summary["events"], summary["discarded"], summary["discarded_by_reason"]["not_attached"]),
                         (0, 1000, 1000))
        self.assertIn("warning: 1000 events discarded: the program could not map the rings", recording.stderr)

    def test_just_enough_for_the_program(self):
        def runs(kib):
            return 0 <= run_bounded(self.limited(kib, HOST, "plain", "1000", "1")).returncode < 100

        too_little, enough = 0, KIB_OF_200_MIB
        while enough - too_little > 4:
            middle = (too_little + enough) // 2
            too_little, enough = (too_little, middle) if runs(middle) else (middle, enough)
        self.record_like_plain(*self.limited(enough, HOST, "plain", "1000", "1"))

    @needs(can_lock_memory(), "locked-memory")
    def test_locked(self):
        self.assert_all_recorded(self.record_like_plain(HOST, "locked", "1000", "4"), 4000)

    @needs(can_lock_memory(), "locked-memory")
    def test_locked_with_preload(self):
        self.assert_traced(self.record_like_plain(HOST, "locked", "1000", "4", options=ALL))


class Surroundings(HostTest):
    def test_closed_standard_descriptors(self):
        command = ("sh", "-c", 'exec "$0" "$@" 0<&- 1>&- 2>&-', HOST, "plain", "1000", "2")
        recording = self.record_like_plain(*command)
        self.assertEqual(recording.status, 0)  # the status is the lowest free descriptor
        self.assert_all_recorded(recording, 2000)

    def test_closed_standard_descriptors_with_preload(self):
        command = ("sh", "-c", 'exec 0<&- 1>&- 2>&-; "$0" "$@"; exit $?', HOST, "plain", "1000", "2")
        recording = self.record_like_plain(*command, options=ALL)
        self.assertEqual(recording.status, 0)
        self.assert_traced(recording)

    def test_recorder_without_standard_descriptors(self):
        """The program's own descriptors take the numbers of ours. It must not write into ours."""
        plain = run_bounded([HOST, "plain", "1000", "2"], preexec_fn=lambda: os.closerange(0, 3))
        result = run_bounded(self.record_command([HOST, "plain", "1000", "2"], (), "trace"),
                             preexec_fn=lambda: os.closerange(0, 3))
        self.assertEqual(exit_status_of(plain.returncode), result.returncode)
        self.assert_all_recorded(self.recording_of(result, "trace"), 2000)

    def test_timer_that_is_faster_than_a_copy(self):
        """If copying a record takes longer than the time between two signals, it would never be done: the record is
        counted."""
        recording = self.record_like_plain(HOST, "timer", "5", options=("--ring-size", "64M"))
        self.assertEqual(recording.summary["discarded_by_reason"]["too_large"], 5)
        self.assert_all_accounted_for(recording, 5)


# Its constructor waits for a thread whose first step is what a library calls the C library for.
WAITING_FOR_ITS_THREAD = """
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>
static sem_t is_ready;
static void* work(void* unused) {
    pthread_setname_np(pthread_self(), "worker");
    if (setuid(getuid()) != 0 || setgid(getgid()) != 0) return NULL;
    sem_post(&is_ready);
    return unused;
}
__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    sem_init(&is_ready, 0, 0);
    pthread_create(&thread, NULL, work, NULL);
    sem_wait(&is_ready);
    pthread_join(thread, NULL);
}
"""
LOADING = """
#include <dlfcn.h>
#include <stdio.h>
#include <leat/log.h>
int main(int argc, char** argv) {
    leat_log(LEAT_INFO, "%d", argc);
    puts(dlopen(argv[1], RTLD_NOW) != NULL ? "loaded" : dlerror());
    return 0;
}
"""


class Loaded(HostTest):
    def test_library_whose_constructor_waits_for_its_thread(self):
        """The dynamic loader has its lock meanwhile, and what we have interposed must not take it."""
        library = compiled(["gcc", "-shared", "-fPIC"], self.directory / "waiting.so", WAITING_FOR_ITS_THREAD)
        loading = compiled(["gcc", f"-I{SOURCE / 'include'}", f"-L{BUILD / 'lib'}", f"-Wl,-rpath,{BUILD / 'lib'}", "-Wl,--no-as-needed", "-lleat"],
                           self.directory / "loading", LOADING)
        self.assertEqual(run_bounded([loading, library]).stdout, "loaded\n")
        self.record_like_plain(loading, library)


class Recorders(HostTest):
    TIMEOUT_MS = 1000

    def listen_and_say_nothing(self):
        deaf = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(deaf.close)
        deaf.bind(str(self.directory / "app.sock"))
        deaf.listen(100)

    def check_delay(self, command, environment):
        plain = run_bounded(command, env=without_daemon())
        begun = time.monotonic()
        result = run_bounded(command, env={**without_daemon(), "LEAT_RECORDER_DIR": str(self.directory),
                                           "LEAT_REGISTER_TIMEOUT": str(self.TIMEOUT_MS), **environment})
        took_s = time.monotonic() - begun
        self.assertEqual((result.returncode, result.stdout, result.stderr),
                         (plain.returncode, plain.stdout, plain.stderr))
        self.assertLess(took_s, 2.2 * self.TIMEOUT_MS / 1000)

    def test_deaf(self):
        self.listen_and_say_nothing()
        self.check_delay([HOST, "plain", "1000", "2"], {})

    def test_deaf_with_preload(self):
        """The program waits for it once, not once for each library."""
        self.listen_and_say_nothing()
        libraries = ":".join(str(BUILD / "lib" / f"libleat-preload-{name}.so") for name in PRELOAD_NAMES)
        self.check_delay([HOST, "plain", "1000", "2"], {"LD_PRELOAD": libraries})

    def test_stopped_while_the_program_emits(self):
        # Without a recorder, the program would stop the shell.
        recording = self.record_like_plain(HOST, "stop", "3000",
                                           plain=run_bounded(["sh", "-c", '"$0" stop 3000; exit $?', HOST]))
        self.assert_all_recorded(recording, 3000)

    def test_stopped_while_another_program_starts(self):
        """The first program waits for its timeout and goes on untraced. The next one is traced again."""
        os.environ["LEAT_REGISTER_TIMEOUT"] = str(self.TIMEOUT_MS)  # setUp() restores it
        script = '"$0" plain 100; {}; "$0" plain 100; {}; "$0" plain 100'
        plain = run_bounded(["sh", "-c", script.format("true", "true"), HOST])
        script = script.format("kill -STOP $PPID; until grep -q '^State:.T' /proc/$PPID/status; do :; done", "kill -CONT $PPID")
        self.assert_all_recorded(self.record_like_plain("sh", "-c", script, HOST, plain=plain), 200)


if __name__ == "__main__":
    main()
