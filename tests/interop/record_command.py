#!/usr/bin/env python3
"""`leat record` as users meet it: options, exit statuses, signals, bad input and faults."""
import fcntl
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import subprocess
import termios

from relays import LeatRelay
from support import (LEAT, MUSL_GCC, ON_ONE_CPU, PATIENCE, InteropTest, Trace, can_be_two_users, compiled, enter_user_namespace, has_namespaces,
                     lacks, main, needs, outside_gate, plain_run, program, runs_32_bit_programs,
                     stop_process, wait_until)


def tree(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*"))


def has_signal(pid, which, number):
    """In a mask of /proc/PID/status: SigBlk, SigCgt, ShdPnd."""
    mask, = re.findall(rf"^{which}:\s*(\w+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> (number - 1) & 1)


def take_terminal():
    """The leader of a new session makes its standard input the terminal of that session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def children_of(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def end_session_of(process):
    """Ends all processes that a failed test left in a session of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Selection(InteropTest):
    def names(self, *options, command=("processes", "thread")):
        recording = self.record(program(command[0]), *command[1:], options=options)
        self.assertEqual(recording.status, 0, recording.stderr)
        names = {event.name for event in self.read_complete(recording).events()}
        shutil.rmtree(recording.path)
        return names

    def test_event_patterns_and_exclusions(self):
        emit = ("emit", "3")
        self.assertEqual(self.names(command=emit), {"test:count", "test:done"})
        self.assertEqual(self.names("-e", "test:count", command=emit), {"test:count"})
        self.assertEqual(self.names("-e", "*:d*", command=emit), {"test:done"})
        self.assertEqual(self.names("-e", "nothing*", "-e", "test:d*", command=emit), {"test:done"})
        self.assertEqual(self.names("-x", "test:c*", command=emit), {"test:done"})
        self.assertEqual(self.names("-x", "none,test:c*", command=emit), {"test:done"})
        self.assertEqual(self.names("-e", r"nothing*,test:d*,test\,c", command=emit), {"test:done"})
        self.assertEqual(self.names("-e", "test:*", "-x", "*:done", "-x", "none", command=emit), {"test:count"})

    def test_log_levels(self):
        emit = ("emit", "3")
        self.assertEqual(self.names("-l", "warning", command=emit), {"test:done"})
        self.assertEqual(self.names("-l", "4", command=emit), {"test:done"})
        self.assertEqual(self.names("-l", "5", command=emit), {"test:done"})
        self.assertEqual(self.names("-l", "info", command=emit), {"test:count", "test:done"})
        self.assertEqual(self.names("-l", "debug", command=emit), {"test:count", "test:done"})

    def test_contexts(self):
        for options, expected in (((), {"vpid", "vtid", "procname"}), (("--context", "none"), set()),
                                  (("--context", "vtid"), {"vtid"}), (("--context", "procname,vpid"), {"vpid", "procname"})):
            recording = self.record(program("processes"), options=options)
            event = self.read_complete(recording).events("test:step")[0]
            has = {name for name in ("vpid", "vtid", "procname") if f" {name} = " in event.rest}
            self.assertEqual(has, expected)
            shutil.rmtree(recording.path)

    def test_large_headers_carry_the_same_events(self):
        recording = self.record(program("fields"), options=("--header", "large", "--context", "none"), name="large")
        compact = self.record(program("fields"), options=("--context", "none"), name="compact")
        large_events = [(event.name, event.rest) for event in self.read_complete(recording).events()]
        self.assertEqual(large_events,
                         [(event.name, event.rest) for event in self.read_complete(compact).events()])
        metadata = next(recording.path.rglob("metadata")).read_text()
        self.assertTrue('"extended" = 65535' in metadata)

    def test_default_directory_is_named_after_the_program(self):
        result = plain_run(LEAT, "record", "--", program("emit"), cwd=self.directory)
        self.assertEqual(result.returncode, 0)
        made = [path.name for path in self.directory.iterdir()]
        self.assertEqual(len(made), 1)
        self.assertRegex(made[0], r"^leat-test-program-emit-\d{8}-\d{6}$")

    def test_default_directories_of_recorders_that_begin_at_once(self):
        recorders = [subprocess.Popen([LEAT, "record", "--", program("emit")], cwd=self.directory, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
        for recorder in recorders:
            _, errors = recorder.communicate(timeout=PATIENCE)
            self.assertEqual(recorder.returncode, 0, errors)
        self.assertEqual(len(list(self.directory.iterdir())), len(recorders))

    def test_default_directory_of_what_was_not_recorded(self):
        for words in (["--", "./no-such-program"], ["--session", "a/b", "--shm-path", ".", "--", "true"]):
            self.assertNotEqual(plain_run(LEAT, "record", *words, cwd=self.directory).returncode, 0)
            self.assertEqual(tree(self.directory), [])

    def test_directory_with_a_name_of_two_lines(self):
        result = plain_run(LEAT, "record", "-o", self.directory / "a\nb", "--", program("emit"))
        self.assertEqual(result.returncode, 0)
        self.assert_one_line(result.stderr, "leat view", "a?b")

    def test_files_that_may_not_be_large(self):
        """The recorder says so; and programs have the signal as they had it before."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

        result = plain_run(LEAT, "record", "-o", self.directory / "trace", "--", program("emit"), preexec_fn=limit)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assert_one_line(result.stderr, "65536 bytes", "ulimit -f")
        self.assertEqual(tree(self.directory), [])
        words = "ulimit -f 0; head -c 1000 /dev/zero > file"
        result = plain_run(LEAT, "record", "--preload", "libc", "--", "sh", "-c", words, cwd=self.directory)
        self.assertEqual(result.returncode, 128 + signal.SIGXFSZ)


    def test_what_follows_the_program_is_its_own(self):
        """Also what looks like an option of ours, and also `--`."""
        words = ["-e", "hi", "[a,b]", "[]", "--session", "x", "--", "", "-h"]
        for before in ([], ["--"]):
            result = plain_run(LEAT, "record", "-o", f"trace{len(before)}", "--preload", "libc", *before, "sh", "-c",
                               'echo "$@"', "sh", *words, cwd=self.directory)
            self.assertEqual((result.returncode, result.stdout), (0, " ".join(words) + "\n"), result.stderr)


class ExitStatus(InteropTest):
    def test_of_the_program(self):
        self.assertEqual(self.record(program("emit"), "1", "1", "exit3").status, 3)

    def test_of_a_program_whose_summary_cannot_be_written(self):
        """That is said, and fails what has not failed already."""
        place = self.directory / "place"
        place.mkdir()
        for words, status in ((("exit3",), 3), ((), 1)):
            trace = self.directory / f"trace-{status}"
            recorded = plain_run(LEAT, "record", "-o", str(trace), "--summary", str(place), "--", program("emit"), "1", "1",
                                 *words)
            self.assertEqual(recorded.returncode, status, recorded.stderr)
            self.assert_one_line(recorded.stderr.splitlines()[-1], str(place))
            self.assertEqual(len(self.read(trace).lines), int(recorded.stdout))

    def test_of_a_program_that_was_killed(self):
        recording = self.record(program("emit"), "1", "1", "term")
        self.assertEqual(recording.status, 143)
        self.assertEqual(recording.summary["exit_status"], 143)
        self.read_complete(recording)

    def test_of_a_program_that_ends_as_if_it_had_been_interrupted(self):
        """No signal has ended it, so none ends the recorder."""
        self.assertEqual(self.record("sh", "-c", "exit 130").status, 130)

    def test_script_that_does_not_say_what_interprets_it(self):
        """As a shell starts it, and env(1)."""
        script = self.directory / "script"
        script.write_text(f'{program("emit")} "$2"; exit 3\n')
        script.chmod(0o755)
        path = {**os.environ, "PATH": f"{self.directory}:{os.environ['PATH']}"}
        for command, arguments in (str(script), {}), ("script", {"env": path}):
            recording = self.record(command, "1", "5", name=f"trace-{len(arguments)}", **arguments)
            self.assertEqual((recording.status, recording.stdout), (3, "6\n"), recording.stderr)
            self.assertEqual(len(self.read_complete(recording).lines), 6)

    def test_output_ends_when_the_program_closes_it(self):
        """Its reader does not wait for us."""
        os.mkfifo(self.directory / "fifo")
        process = subprocess.Popen([LEAT, "record", "-o", self.directory / "trace", "--", "sh", "-c",
                                    'echo ready; exec >&-; read line <fifo'], cwd=self.directory, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.read(), "ready\n")
        (self.directory / "fifo").write_text("end\n")
        self.assertEqual(process.wait(), 0)
        process.stdout.close()

    def test_stdin_passes_through(self):
        recording = self.record("cat", options=("--preload", "libc"), input="one\ntwo\n")
        self.assertEqual((recording.status, recording.stdout), (0, "one\ntwo\n"))


class Signals(InteropTest):
    def started(self, *command, options=(), stdin=subprocess.DEVNULL, **arguments):
        """Starts `leat record` and waits until its program has printed its first line."""
        return self.started_process(*self.record_command(command, options), stdin=stdin, **arguments)

    def started_process(self, *command, stdin=subprocess.DEVNULL, **arguments):
        process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True, **arguments)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(end_session_of, process)
        self.first_line = process.stdout.readline()
        return process

    def test_interrupt_to_the_recorder_ends_the_program(self):
        process = self.started(program("emit"), "1000", "1", "wait")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), -signal.SIGINT)
        self.assertEqual(len(self.read(self.directory / "trace").lines), int(self.first_line))

    def test_what_is_sent_to_the_recorder_reaches_the_program(self):
        """Also what would have ended the recorder, had nobody taken it."""
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM,
                       signal.SIGPROF, signal.SIGPOLL, signal.SIGPWR, signal.SIGWINCH, signal.SIGRTMIN, signal.SIGRTMAX):
            with self.subTest(number):
                number = int(number)
                script = f"trap 'exit 3' {number}; kill -{number} $PPID; while :; do sleep 0.01; done"
                self.assertEqual(self.record("sh", "-c", script, name=f"trace-{number}").status, 3)

    @outside_gate("a timer does not wait for anybody")
    def test_timer_that_was_set_before_ends_the_program(self):
        recording = self.record("sleep", "60", preexec_fn=lambda: signal.setitimer(signal.ITIMER_REAL, 2))
        self.assertEqual(recording.status, 128 + signal.SIGALRM)

    def test_program_blocks_what_it_would_without_it(self):
        def block_and_ignore():
            signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1, signal.SIGTERM))
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
        command = ("grep", "SigBlk", "/proc/self/status")
        plain = plain_run(*command, preexec_fn=block_and_ignore)
        self.assertEqual(self.record(*command, preexec_fn=block_and_ignore).stdout, plain.stdout)

    def test_interrupt_from_the_terminal_ends_both(self):
        process = self.started(program("emit"), "1000", "1", "wait")
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(60), -signal.SIGINT)
        self.assertEqual(len(self.read(self.directory / "trace").lines), int(self.first_line))

    def test_interrupt_from_the_terminal_ends_a_script(self):
        """Which goes on, if what it waits for ends otherwise."""
        recorder = self.record_command((program("emit"), "1000", "1", "wait"))
        process = self.started_process("bash", "-c", '"$@"; echo it goes on', "bash", *recorder)
        wait_until(lambda: has_signal(process.pid, "SigCgt", signal.SIGINT), "the shell does not wait")
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual((process.communicate(timeout=PATIENCE)[0], process.returncode), ("", -signal.SIGINT))

    def test_terminal_that_hangs_up_ends_both(self):
        """It tells the recorder alone, which leads the session."""
        controller, terminal = pty.openpty()
        process = self.started(program("emit"), "1000", "1", "wait", stdin=terminal, preexec_fn=take_terminal)
        os.close(terminal)
        os.close(controller)
        self.assertEqual(process.wait(PATIENCE), 128 + signal.SIGHUP)
        self.assertEqual(len(self.read(self.directory / "trace").lines), int(self.first_line))

    def test_signal_behind_the_end_of_the_program(self):
        """What it recorded is stored all the same, and the exit status is its own."""
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        self.addCleanup(relay.process.send_signal, signal.SIGCONT)
        process = self.started("sh", "-c", f"{program('emit')} 1000; read line; exit 3", stdin=subprocess.PIPE,
                               options=("--live", relay.url))
        stop_process(relay.process.pid)
        process.stdin.close()
        wait_until(lambda: not children_of(process.pid), "the program has not ended")
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: process.poll() is not None or has_signal(process.pid, "ShdPnd", signal.SIGTERM), "no signal")
        relay.process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(PATIENCE), 3)
        self.assertEqual(len(self.read(self.directory / "trace").lines), int(self.first_line))

    def test_killed_program_leaves_all_it_committed(self):
        recording = self.record(program("emit"), "20000", "3", "kill", options=("--ring-size", "8M"))
        self.assertEqual(recording.status, 137)
        self.assertEqual(len(self.read_complete(recording).lines), int(recording.stdout))

    def test_killed_recorder_leaves_complete_packets(self):
        process = self.started(program("emit"), "1000000", "1", "wait", options=("--ring-size", "64K"))
        trace = self.directory / "trace"
        data = trace / "ust" / "uid" / str(os.getuid()) / "64-bit"
        wait_until(lambda: any(file.stat().st_size > 0 for file in data.glob("channel0_*")), "no packet")
        children = children_of(process.pid)
        process.kill()
        process.wait(60)
        for child in children:  # the program goes on untraced, and the test must end it
            os.kill(int(child), signal.SIGTERM)
        # The kernel may leave a part of the packet that it was just writing, which babeltrace2 refuses.
        viewed = plain_run(LEAT, "view", str(trace))
        self.assertGreater(len(viewed.stdout.splitlines()), 0)
        if viewed.returncode != 0:
            self.assertRegex(viewed.stderr.splitlines()[-1], r"^leat: .*channel0_\d+: packet at offset \d+ is cut short: ")
        else:
            self.assertGreater(len(self.read(trace).lines), 0)
        self.assertFalse((self.directory / "trace.json").exists())


class BadInput(InteropTest):
    def fails(self, *arguments, status=1, **keywords):
        result = plain_run(LEAT, "record", *arguments, cwd=self.directory, **keywords)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def test_usage(self):
        for wrong in (("--no-such-option", "--", "true"), ("--header", "small", "--", "true"), ("-o", "t"),
                      ("--preload", "libm", "--", "true"), ("--ring-size", "3M", "--", "true"),
                      ("--ring-size", "much", "--", "true"), ("-l", "loud", "--", "true"),
                      ("--context", "weather", "--", "true"), ("--context", "none,vpid", "--", "true"),
                      ("-e", "", "--", "true"), ("-x", "", "--", "true"), ("--blocking-timeout", "1s", "--", "true"),
                      ("-o", "http://here", "--", "true"), ("--ring-size=-64K", "--", "true"),
                      ("--tracefile-size=-1", "--", "true"), ("--tracefile-size", "99999999999999999999", "--", "true"),
                      ("--tracefile-count=-1", "--", "true")):
            self.assert_one_line(self.fails(*wrong, status=2))
        for option in ("-o", "--live", "--session", "-l", "-e", "--context", "--shm-path", "--summary", "--snapshot-on",
                       "--read-period"):
            self.assert_one_line(self.fails(option, "", "--", "true", status=2), "is empty")
        for option in ("--output=", "--live=", "--session=", "--event=", "--shm-path="):
            self.assert_one_line(self.fails("-x", "a", option, "--", "true", status=2), f"{option[:-1]} is empty")
        self.assert_one_line(self.fails("--ring-sise", "64K", "--", "true", status=2), "--ring-sise", "see leat record --help")
        self.assertEqual(tree(self.directory), [])

    def test_arguments_of_the_program_may_be_empty(self):
        for separator in ([], ["--"]):
            words = ["-x", "a", *separator, "printf", "%s|", "--session=", "--", "", "--output="]
            self.assertEqual(plain_run(LEAT, "record", *words, cwd=self.directory).stdout, "--session=|--||--output=|")

    def test_directory_that_is_not_empty_is_left_alone(self):
        occupied = self.directory / "occupied"
        occupied.mkdir()
        (occupied / "precious").write_text("mine")
        self.assert_one_line(self.fails("-o", "occupied", "--", program("emit")), "occupied", "not empty", "-o")
        self.assertEqual(tree(self.directory), ["occupied", "occupied/precious"])
        self.assertEqual((occupied / "precious").read_text(), "mine")

    def test_file_in_the_place_of_the_directory_is_left_alone(self):
        (self.directory / "file").write_text("mine")
        self.assert_one_line(self.fails("-o", "file", "--", program("emit")), "file")
        self.assertEqual((self.directory / "file").read_text(), "mine")

    def test_empty_directory_is_taken(self):
        (self.directory / "trace").mkdir()
        self.read_complete(self.record(program("emit")))

    def test_program_that_is_not_there(self):
        self.assert_one_line(self.fails("-o", "trace", "--", "no-such-program"), "no-such-program", "name")
        self.assert_one_line(self.fails("-o", "a/b/trace", "--", str(self.directory)), "cannot start")
        self.assertEqual([name for name in tree(self.directory) if "trace" in name], [])

    def test_names_that_are_not_utf8(self):
        name = os.fsdecode(b"caf\xe9")
        trace = self.directory / name
        os.symlink(program("emit"), self.directory / (name + "-program"))
        for options in ((), ("--session", name)):
            result = subprocess.run([LEAT, "record", "-o", trace, *options, "--summary", self.directory / "summary",
                                     "--", self.directory / (name + "-program"), "10"], capture_output=True)
            self.assertEqual((result.returncode, result.stdout), (0, b"11\n"), result.stderr)
            self.assertIn(b"leat view " + os.fsencode(trace), result.stderr)
            summary = json.loads((self.directory / "summary").read_text())
            self.assertEqual((summary["events"], summary["trace"]), (11, f"{self.directory}/caf\ufffd"))
            view = subprocess.run([LEAT, "view", trace], capture_output=True)
            self.assertEqual((view.returncode, len(view.stdout.splitlines())), (0, 11), view.stderr)
            self.assertIn(b'procname = "caf\xe9-program"', view.stdout)
            shutil.rmtree(trace)


class NothingRecorded(InteropTest):
    """The closing line names the reason and the remedy."""

    def closing_line(self, *command, preload=None, **arguments):
        recording = self.record(*command, options=("--preload", preload) if preload else (), **arguments)
        shutil.rmtree(recording.path)
        self.assertEqual(recording.summary["registrations"], 0)
        lines = [line for line in recording.stderr.splitlines() if line.startswith("leat: ")]
        self.assertEqual(len(lines), 1, recording.stderr)
        self.assertIn("nothing was recorded", lines[0])
        return lines[0]

    def closing_line_with_or_without_preload(self, *command):
        lines = {self.closing_line(*command), self.closing_line(*command, preload="libc,dl")}
        self.assertEqual(len(lines), 1, lines)
        self.assertNotIn("--preload", next(iter(lines)))
        return lines.pop()

    def empty_program(self, *compiler, name="empty"):
        return compiled(compiler, self.directory / name, "int main(void) { return 0; }")

    def script(self, interpreter, name="script"):
        path = self.directory / name
        path.write_text(f"#! {interpreter} argument\n")
        path.chmod(0o755)
        return str(path)

    def test_no_traced_library(self):
        self.assert_one_line(self.closing_line("true"), "no traced library", "--preload libc")

    def test_program_that_is_ended_before_it_loads_anything(self):
        self.assert_one_line(self.closing_line("sh", "-c", "kill $$"), "no traced library", "before sh ended with status 143")

    def test_preload_that_did_not_get_to_run(self):
        broken = self.empty_program("gcc", "-Wl,--no-as-needed", f"-Wl,-rpath,{self.directory}", self.library())
        (self.directory / "libgone.so").unlink()
        self.assert_one_line(self.closing_line(broken, preload="libc"), "ended before it had loaded")

    def library(self):
        return compiled(["gcc", "-shared", "-Wl,-soname,libgone.so"], self.directory / "libgone.so", "")

    def test_statically_linked(self):
        for option in ("-static", "-static-pie"):
            static = self.empty_program("gcc", option, name=option[1:])
            self.assert_one_line(self.closing_line_with_or_without_preload(static), f"{static} is statically linked",
                                 "libleat.a")

    @needs(MUSL_GCC, "musl-gcc")
    def test_another_c_library(self):
        self.assert_one_line(self.closing_line_with_or_without_preload(self.empty_program(MUSL_GCC)),
                             "another C library", "ld-musl-x86_64.so.1", "build it with glibc")

    @needs(runs_32_bit_programs(), "32-bit-kernel")
    def test_32_bit(self):
        program_of_32_bit = compiled(["gcc", "-m32", "-nostdlib", "-static"], self.directory / "of-32-bit",
                                     'void _start(void) { __asm__("mov $1, %eax; xor %ebx, %ebx; int $0x80"); }')
        self.assert_one_line(self.closing_line_with_or_without_preload(program_of_32_bit), "is a 32-bit program")

    def test_script_of_a_script_whose_interpreter_is_static(self):
        static = self.empty_program("gcc", "-static")
        script = self.script(self.script(static, "inner"))
        self.assert_one_line(self.closing_line_with_or_without_preload(script),
                             f"{static}, which runs {script}, is statically linked")

    def test_program_found_through_the_path(self):
        self.empty_program("gcc", "-static", name="only-here")
        os.environ["PATH"] = f"/nonexistent:{self.directory}:" + os.environ["PATH"]  # setUp() restores it
        self.assert_one_line(self.closing_line_with_or_without_preload("only-here"), "only-here is statically linked")

    @needs(can_be_two_users(), "two-users")
    def test_program_that_changes_its_user_or_group(self):
        other = self.empty_program("gcc")
        os.chown(other, 65534, 65534)
        self.directory.chmod(0o755)
        for mode, word in ((0o4755, "setuid"), (0o2755, "setgid")):
            os.chmod(other, mode)
            self.assert_one_line(self.closing_line_with_or_without_preload(other), f"is {word}", "65534",
                                 "record it as")

    def test_no_event_matched(self):
        recording = self.record(program("emit"), options=("-e", "typo:*"))
        self.assert_one_line(recording.stderr, "nothing was recorded", "none of its 2 tracepoints matched", "-e")

    def test_no_event_was_reached(self):
        unreached = self.record(program("emit"), "0", options=("-e", "test:count"))
        self.assert_one_line(unreached.stderr, "nothing was recorded", "1 tracepoint matched", "none was reached")
        self.assertEqual(self.read_complete(unreached).lines, [])


class BadDays(InteropTest):
    def test_runtime_directory_whose_name_is_relative(self):
        """It counts as none: the program may look for it from elsewhere."""
        (self.directory / "runtime").mkdir()
        recording = self.record("sh", "-c", f"ls {self.directory}/runtime; cd / && exec {program('emit')} 10",
                                cwd=self.directory, env={**os.environ, "XDG_RUNTIME_DIR": "runtime"})
        self.assertEqual(len(self.read_complete(recording).lines), int(recording.stdout))

    def test_runtime_directory_that_is_of_no_use(self):
        """As that of the user whom somebody was before su(1)."""
        for directory in "/proc", f"{self.directory}/{'long' * 25}":
            recording = self.record(program("emit"), "10", name=f"trace-{len(directory)}",
                                    env={**os.environ, "XDG_RUNTIME_DIR": directory})
            self.assertEqual(len(self.read_complete(recording).lines), int(recording.stdout))

    def test_directory_with_a_slash_behind_it(self):
        result = plain_run(LEAT, "record", "-o", "trace/", "--shm-path", "rings", "--", program("emit"), "10",
                           cwd=self.directory)
        self.assertEqual((result.returncode, result.stdout), (0, "11\n"), result.stderr)
        metadata, = (self.directory / "trace").rglob("metadata")
        self.assertIn('trace_name = "trace"', metadata.read_text())

    def test_whoever_starts_it_may_ignore_the_ends_of_children(self):
        result = plain_run("env", "--ignore-signal=CHLD", *self.record_command([program("emit"), "10"]))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_interrupted_before_the_program_is_started(self):
        """At a terminal, whose signals the program would have got too."""
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        self.addCleanup(relay.process.send_signal, signal.SIGCONT)
        stop_process(relay.process.pid)
        controller, terminal = pty.openpty()
        self.addCleanup(os.close, controller)
        command = [LEAT, "record", "-o", relay.url, "--", "touch", str(self.directory / "started")]
        with subprocess.Popen(command, stdin=terminal, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True, preexec_fn=take_terminal) as recorder:
            os.close(terminal)
            wait_until(lambda: has_signal(recorder.pid, "SigBlk", signal.SIGINT), "signals are not blocked")
            os.write(controller, b"\x03")
            wait_until(lambda: has_signal(recorder.pid, "ShdPnd", signal.SIGINT), "no signal")
            relay.process.send_signal(signal.SIGCONT)
            self.assertEqual(recorder.wait(PATIENCE), -signal.SIGINT)
        self.assertFalse((self.directory / "started").exists())

    @needs(has_namespaces(), "namespaces")
    def test_full_disk(self):
        mount_and_record = ('mount -t tmpfs -o size=256k none "$1/disk" && shift && "$@"; status=$?; '
                            'cp -r disk copy; exit $status')
        # Every program that registers makes the recorder drain the rings, so the disk fills step by step.
        emit_again_and_again = f"for i in $(seq 60); do {program('emit')} 300 >/dev/null; done"
        (self.directory / "disk").mkdir()
        result = plain_run("unshare", "-m", "sh", "-c", mount_and_record, "sh", str(self.directory), LEAT, "record",
                           "-o", "disk/trace", "--ring-size", "64K", "--summary", "summary.json", "--", "sh", "-c",
                           emit_again_and_again, cwd=self.directory)
        self.assertEqual(result.returncode, 1, result.stderr)
        errors = [line for line in result.stderr.splitlines() if "the trace lacks" in line]
        self.assertEqual(len(errors), 1, result.stderr)
        self.assert_one_line(errors[0], "No space left on device", "lacks its last", "make room", "leat: disk/trace/ust/uid/", "-o")
        lines = self.read(self.directory / "copy" / "trace").lines
        summary = json.loads((self.directory / "summary.json").read_text())
        self.assertGreater(len(lines), 0)
        self.assertEqual(len(lines), summary["events"])
        # Each program emits 300 events and one at its end. All of them are accounted for.
        self.assertEqual(summary["events"] + summary["discarded"] + summary["left_in_rings"], 60 * 301)
        self.assertEqual(summary["exit_status"], 0)

    @needs(has_namespaces(), "namespaces")
    def test_full_disk_from_the_start(self):
        script = 'mount -t tmpfs -o size=4k none "$1/disk" && head -c 4096 /dev/zero > disk/fill; shift && "$@"'
        (self.directory / "disk").mkdir()
        result = plain_run("unshare", "-m", "sh", "-c", script, "sh", str(self.directory), LEAT, "record", "-o",
                           "disk/trace", "--", program("emit"), cwd=self.directory)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assert_one_line(result.stderr, "No space left")

    @needs(has_namespaces(), "namespaces")
    def test_disk_that_is_full_before_the_first_event(self):
        script = 'mount -t tmpfs -o size=64k none "$1/disk" && shift && "$@"'
        (self.directory / "disk").mkdir()
        result = plain_run("unshare", "-m", "sh", "-c", script, "sh", str(self.directory), LEAT, "record", "-o",
                           "disk/trace", "--", "sh", "-c", f"head -c 1M /dev/zero >disk/fill; {program('emit')} 10",
                           cwd=self.directory)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("the trace lacks its last 11 events", result.stderr)
        self.assertEqual(result.stderr.splitlines()[-1], "leat: nothing could be stored")

    def test_trace_that_is_removed(self):
        """The user is told how many events nobody will find."""
        stored = "until find trace -name 'channel0_*' -size +0 | grep -q . ; do :; done"
        result = plain_run(LEAT, "record", "-o", "trace", "--summary", "summary.json", "--", *ON_ONE_CPU, "sh", "-c",
                           f"{program('emit')} 100; {stored}; rm -r trace; {program('emit')} 50", cwd=self.directory)
        self.assertEqual(result.returncode, 0, result.stderr)
        warnings = json.loads((self.directory / "summary.json").read_text())["warnings"]
        self.assertIn(f"trace/ust/uid/{os.getuid()}/64-bit was removed, or files in it: what is recorded there is lost", warnings)
        lost = int(re.fullmatch(r"(\d+) events are missing: .*", warnings[-1])[1])
        self.assertTrue(51 <= lost <= 152, lost)
        self.assertIn(warnings[-1], result.stderr)

    def unprivileged(self, *command, **arguments):
        # The other user cannot use our runtime directory.
        return plain_run("env", "--unset=XDG_RUNTIME_DIR", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                         *command, **arguments)

    @needs(can_be_two_users(), "two-users")
    def test_no_permission(self):
        self.directory.chmod(0o755)
        if self.unprivileged("test", "-x", LEAT).returncode != 0:
            lacks("directory-for-others")
        result = self.unprivileged(LEAT, "record", "-o", str(self.directory / "trace"), "--", program("emit"))
        self.assertEqual(result.returncode, 1)
        self.assert_one_line(result.stderr, "Permission denied", str(self.directory / "trace"))
        self.assertEqual(tree(self.directory), [])

    @needs(can_be_two_users(), "two-users")
    def test_no_root_is_needed(self):
        self.directory.chmod(0o777)
        if self.unprivileged("test", "-x", LEAT).returncode != 0:
            lacks("directory-for-others")
        result = self.unprivileged(LEAT, "record", "-o", str(self.directory / "trace"), "--", program("emit"), "10")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(Trace(self.directory / "trace").lines), 11)


if __name__ == "__main__":
    enter_user_namespace()
    main()
