#!/usr/bin/env python3
"""What `cmake --install` brings into a directory of one's own works there, and wherever it is moved to."""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile

from support import BUILD, PATIENCE, SOURCE, InteropTest, has, main, needs, program, wait_until, without_sanitizers

VERBS = ("create", "set-session", "start", "stop", "destroy", "rotate", "clear", "snapshot", "regenerate", "enable-channel",
         "disable-channel", "enable-event", "disable-event", "add-context", "track", "untrack", "list", "status", "save", "load")
COMMANDS = ("leat record", "leat recover", "leat view", "leat stats", "leat export", "leat check", "leat repair", *(f"leat {verb}" for verb in VERBS), "leat-relayd", "leat-sessiond")
COMPLETE = """
source "$1"
shift
compopt() { [[ $2 != *dir* ]] || COMPREPLY+=("<$2>"); }
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
"_$(echo "$1" | tr - _)"
printf '%s\\n' "${COMPREPLY[@]}"
"""

CAPTURE_IN_CPP = """
#include <leat/capture.hpp>
#include <leat/tracepoint.h>

#include <iostream>
#define FIELDS(FIELD) FIELD(integer, int, number, number)
LEAT_TRACEPOINT(io, done, LEAT_INFO, FIELDS, int number);

int main(int, char** arguments) {
    leat::capture::options options;
    options.directory = arguments[1];
    options.duration_ns = 60'000'000'000;
    options.max_size = 1 << 20;
    std::string error;
    leat::capture capture = leat::capture::start(options, error);
    if (!capture) {
        std::cerr << error;
        return 1;
    }
    leat_tracepoint(io, done, 7);
    capture.stop();
    while (capture.write()) {}
    std::cout << capture.get_result().events << " events\\n";
}
"""


READING_IN_CPP = """
#include <leat/ctf.hpp>
#include <iostream>

int main(int, char** argv) {
    leat::ctf::reader trace(argv[1]);
    int events = 0, with_n = 0;
    for (const leat::ctf::event event : trace) {
        ++events;
        for (const leat::ctf::value field : event.fields()) with_n += field.name() == "n";
    }
    trace.seek(0);
    const leat::ctf::columns columns = trace.read_columns({"n"}, 1);
    std::cout << events << " events, " << trace.losses().events << " of them lost, n " << with_n << ", [0] = "
              << static_cast<const std::int64_t*>(columns[0].data)[0] << "\\n";
    try {
        leat::ctf::reader nothing("nowhere");
    } catch (const leat::ctf::error&) {
        return 0;
    }
    return 1;
}
"""


def run(*command, **arguments):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE, **arguments)
    assert result.returncode == 0, f"{command}:\n{result.stdout}{result.stderr}"
    return result.stdout


@without_sanitizers
class InstalledTree(InteropTest):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="leat-install-")
        cls.addClassCleanup(cls.scratch.cleanup)
        installed = pathlib.Path(cls.scratch.name) / "installed"
        run("cmake", "--install", BUILD, "--prefix", installed)
        # Whoever looks for something there finds nothing.
        cls.prefix = installed.rename(installed.with_name("moved"))

    def record_and_count(self, *command, options=()):
        trace = self.directory / "trace"
        shutil.rmtree(trace, ignore_errors=True)
        run(self.prefix / "bin/leat", "record", "-o", trace, *options, "--", *command)
        return len(run(self.prefix / "bin/leat", "view", trace).splitlines())

    def test_preload_libraries_are_found(self):
        self.assertGreater(self.record_and_count("ls", "/", options=("--preload", "libc,pthread,dl")), 10)

    @needs(has("pkg-config"), "pkg-config")
    def test_pkg_config(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}
        for static in (), ("--static",):
            with self.subTest(static=static):
                flags = run("pkg-config", "--cflags", "--libs", *static, "leat", env=environment).split()
                program = self.directory / "hello"
                run("gcc", *(["-static"] if static else []), SOURCE / "examples/hello.c", "-o", program, *flags,
                    f"-Wl,-rpath,{self.prefix / 'lib'}")
                self.assertEqual(self.record_and_count(program, "Ada"), 4)

    @needs(has("pkg-config"), "pkg-config")
    def test_capture_by_pkg_config(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "leat-capture", env=environment).split()
        rpath = f"-Wl,-rpath,{self.prefix / 'lib'}"
        run("gcc", SOURCE / "examples/capture.c", "-o", self.directory / "c", *flags, rpath)
        run("g++", "-std=c++17", "-x", "c++", "-", "-o", self.directory / "c++", *flags, rpath, input=CAPTURE_IN_CPP)
        self.assert_captures(self.directory / "c")
        trace = self.directory / "trace-of-c++"
        self.assertEqual(run(self.directory / "c++", trace), "1 events\n")
        self.assertIn("io:done: ", run(self.prefix / "bin/leat", "view", trace))

    def assert_captures(self, program):
        trace = self.directory / f"trace-of-{program.name}"
        self.assertRegex(run(program, trace, "0.3"), r"^\d+ events, 0 skipped, \d+ bytes\n$")
        self.assertIn("io:queued: ", run(self.prefix / "bin/leat", "view", trace).splitlines()[0])

    def test_cmake_package(self):
        project = self.directory / "project"
        shutil.copytree(SOURCE / "examples", project)
        with open(project / "CMakeLists.txt", "a", encoding="ascii") as file:
            file.write("add_executable(static hello.c)\ntarget_link_libraries(static PRIVATE leat::leat-static)\n")
        run("cmake", "-S", project, "-B", self.directory / "built", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", self.directory / "built")
        for name, events in ("example-hello", 4), ("static", 4), ("example-io-queue", 3000):
            with self.subTest(program=name):
                arguments = ["Ada"] if events == 4 else []
                self.assertGreaterEqual(self.record_and_count(self.directory / "built" / name, *arguments), events)
        self.assert_captures(self.directory / "built/example-capture")

    def test_exported_symbols_have_versions(self):
        """Ours have; what we interpose must not, or the loader passes it over."""
        symbols = run("nm", "--dynamic", "--defined-only", "--with-symbol-versions", self.prefix / "lib/libleat.so.0")
        names = {line.split()[-1] for line in symbols.splitlines() if " A " not in line}
        self.assertEqual(names, {
            *(f"leat_{name}@@LEAT_0" for name in ("module_load", "module_unload", "write", "stage_large", "write_large")),
            *(f"leat_{name}@@LEAT_1" for name in ("context_provide", "context_withdraw", "stick", "unstick",
                                                  "write_text")),
            "leat_snapshot@@LEAT_2",
            "leat_write_words@@LEAT_3",
            "leat_write_text_words@@LEAT_4",
            *(f"leat_{name}@@LEAT_PRIVATE" for name in ("thread_share", "thread_unshare", "contexts_changed",
                                                        "user_changed", "process_ends", "sandbox_begins", "capture_begin", "capture_end",
                                                        "capture_leave", "capture_control_changes", "capture_control_files",
                                                        "capture_attach", "capture_detach", "capture_process")),
            "_exit", "_Exit", "clone", "vfork", "syscall", "prctl", "pthread_setname_np", "unshare", "setns",
            "setuid", "seteuid", "setreuid", "setresuid", "setgid", "setegid", "setregid", "setresgid"})

    def test_capture_exports_its_header_alone(self):
        symbols = run("nm", "--dynamic", "--defined-only", "--with-symbol-versions", self.prefix / "lib/libleat-capture.so.0")
        names = {line.split()[-1] for line in symbols.splitlines() if " A " not in line}
        declared = re.findall(r"^LEAT_EXPORT .*?(leat_capture_\w+)\(", (SOURCE / "include/leat/capture.h").read_text(), re.MULTILINE)
        self.assertEqual(names, {f"{name}@@LEAT_CAPTURE_0" for name in declared})

    def test_ctf_exports_its_header_alone(self):
        symbols = run("nm", "--dynamic", "--defined-only", "--with-symbol-versions", self.prefix / "lib/libleat-ctf.so.0")
        names = {line.split()[-1] for line in symbols.splitlines() if " A " not in line}
        header = (SOURCE / "include/leat/ctf.h").read_text()
        declared = re.findall(r"^LEAT_EXPORT [^;]*?\b(leat_ctf_\w+)\(", header, re.MULTILINE)
        self.assertGreater(len(declared), 30)
        self.assertEqual(names, {f"{name}@@LEAT_CTF_0" for name in declared})

    @needs(has("pkg-config"), "pkg-config")
    def test_reading_by_pkg_config_and_from_python(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "leat-ctf", env=environment).split()
        rpath = f"-Wl,-rpath,{self.prefix / 'lib'}"
        run("gcc", "-Wall", "-Wextra", "-Werror", SOURCE / "examples/read_trace.c", "-o", self.directory / "c", *flags, rpath)
        run("g++", "-Wall", "-Wextra", "-Werror", "-std=c++17", "-x", "c++", "-", "-o", self.directory / "c++", *flags, rpath,
            input=READING_IN_CPP)
        trace = SOURCE / "tests/data/captures/live-uid-two-apps/trace"
        lines = run(self.prefix / "bin/leat", "view", trace).splitlines()
        events = len(lines)
        with_n = sum("{ n = " in line for line in lines)
        self.assertEqual(len(run(self.directory / "c", trace).splitlines()), events)
        self.assertIn(' alpha:tick n=0 who="one"\n', run(self.directory / "c", trace, "n == 0"))
        self.assertEqual(run(self.directory / "c++", trace), f"{events} events, 0 of them lost, n {with_n}, [0] = 0\n")
        modules = self.prefix / "lib/python3/dist-packages"
        if modules.exists():
            program = f"import leat; print(len(list(leat.open({str(trace)!r}))))"
            self.assertEqual(run(sys.executable, "-c", program, env={**os.environ, "PYTHONPATH": str(modules)}), f"{events}\n")

    def test_manual_pages_and_unit(self):
        pages = {str(path.relative_to(self.prefix / "share/man")) for path in (self.prefix / "share/man").glob("*/*")}
        self.assertEqual(pages, {"man1/leat.1", "man1/leat-record.1", "man1/leat-recover.1", "man1/leat-view.1", "man1/leat-stats.1", "man1/leat-export.1", "man1/leat-check.1", "man1/leat-session.1",
                                 "man1/leat-relayd.1", "man8/leat-sessiond.8"})
        for unit, line in (("system/leat-relayd", "User=leat-relayd"), ("system/leat-sessiond", "RuntimeDirectory=leat"),
                           ("system/leat-sessiond", "RuntimeDirectoryPreserve=yes"),
                           ("user/leat-sessiond", "WantedBy=default.target")):
            text = (self.prefix / f"lib/systemd/{unit}.service").read_text()
            self.assertIn(f"\n{line}\n", text)
            self.assertNotRegex(text, "@CMAKE")

    def daemons(self):
        """The keeper is of the same program. It has a name of its own as soon as it runs."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (os.path.samefile(process / "exe", self.prefix / "bin/leat-sessiond") and
                        (process / "comm").read_text() == "leat-sessiond\n"):
                    found.append(int(process.name))
            except OSError:  # it has ended, or is of somebody else
                pass
        return found

    def test_daemon_of_the_same_tree_is_started(self):
        leat = self.prefix / "bin/leat"
        self.assertIn("created", run(leat, "create", "web", "-o", self.directory / "trace"))
        [daemon] = wait_until(lambda: len(found := self.daemons()) == 1 and found, "one daemon")
        self.addCleanup(os.kill, daemon, signal.SIGTERM)
        self.assertEqual(os.readlink(f"/proc/{daemon}/cwd"), "/", "it keeps no file system busy")
        self.assertIn('"web" (inactive, current)', run(leat, "list"))


class CompletionTest(InteropTest):
    def complete(self, *words):
        """What bash would offer for the last word."""
        file = SOURCE / "packaging/completion" / words[0]
        here = self.directory / "here"
        here.mkdir(exist_ok=True)
        # The completion gives up after a second, so that nobody waits for it. Here it waits.
        patient = self.directory / "patient"
        patient.mkdir(exist_ok=True)
        (patient / "timeout").write_text('#!/bin/sh\nshift\nexec "$@"\n')
        (patient / "timeout").chmod(0o755)
        path = f"{patient}:{BUILD / 'bin'}:{os.environ['PATH']}"
        return run("bash", "-c", COMPLETE, "bash", file, *words, cwd=here, env={**os.environ, "PATH": path}).strip("\n").splitlines()


class Completion(CompletionTest):
    def help_of(self, command):
        name, *words = command.split()
        return run(BUILD / "bin" / name, *words, "--help").split("Examples:")[0]

    def test_every_option_of_help(self):
        for command in COMMANDS:
            text = self.help_of(command)
            options = set(re.findall(r"^  (?:-\w,)?(--[a-z][a-z-]+)\b", text, re.MULTILINE))
            self.assertGreater(len(options), 1, text)
            self.assertEqual(set(self.complete(*command.split(), "--")) - {"--"}, options, command)

    def test_every_value_of_help(self):
        for command in COMMANDS:
            lists = re.findall(r"^ .*?(--[a-z-]+|[A-Z]+) [A-Z]+:\{(.*?)\}", self.help_of(command), re.MULTILINE)
            self.assertGreater(len(lists), 0, command)
            for option, values in lists:
                before = [option] if option.startswith("--") else []
                self.assertEqual(self.complete(*command.split(), *before, ""), values.split(","), f"{command} {option}")

    def test_commands_and_values(self):
        self.assertEqual(self.complete("leat", ""), ["record", "recover", "view", "stats", "export", "check", "repair", *VERBS, "--help", "--version"])
        offered = re.findall(r"^  ([a-z][a-z-]+)  ", self.help_of("leat"), re.MULTILINE)
        self.assertEqual({"record", "recover", "view", "stats", "export", "check", "repair", *VERBS}, set(offered))
        self.assertEqual(self.complete("leat", "v"), ["view"])
        self.assertEqual(self.complete("leat", "view", "t"), ["<dirnames>"])
        self.assertEqual(self.complete("leat", "recover", "t"), ["<dirnames>"])
        self.assertEqual(self.complete("leat", "recover", "--format", ""), ["text", "json"])
        self.assertEqual(self.complete("leat", "create", "web", "--shm-path", "t"), ["<dirnames>"])
        self.assertEqual(self.complete("leat", "view", "--format", ""), ["text", "json", "csv", "none"])
        self.assertEqual(self.complete("leat", "view", "--format", "=", "j"), ["json"])
        self.assertEqual(self.complete("leat", "record", "-o", "tr"), ["<dirnames>"])
        self.assertEqual(self.complete("leat", "record", "--preload", "libc,p"), ["libc,pthread"])
        self.assertEqual(self.complete("leat", "record", "--header", "="), ["compact", "large", "tiny"])
        known = run(BUILD / "bin/leat", "record", "--help").split("some of")[1].split("  --")[0].replace(",", "").split()
        self.assertEqual(self.complete("leat", "record", "--context", ""), [*known, "none"])
        self.assertEqual(self.complete("leat", "record", "--context", "vpid,ut"), ["vpid,uts_ns"])
        self.assertEqual(self.complete("leat", "add-context", ""), known)
        self.assertEqual(self.complete("leat-relayd", "--log-format", ""), ["text", "json"])
        self.assertEqual(self.complete("leat-relayd", "-o", ""), ["<dirnames>"])

    def test_directories_in_bash_itself(self):
        """It quotes what must be, and goes on below."""
        (self.directory / "my traces" / "first").mkdir(parents=True)
        shell, terminal = pty.fork()
        if shell == 0:
            os.chdir(self.directory)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"],
                       {**os.environ, "INPUTRC": "/dev/null", "HISTFILE": "", "PS1": "$ ", "TERM": "dumb"})
        self.addCleanup(os.close, terminal)
        self.addCleanup(os.waitpid, shell, 0)
        self.addCleanup(os.kill, shell, signal.SIGKILL)
        shown = b""

        def shows(text):
            nonlocal shown
            if select.select([terminal], [], [], 0)[0]:
                shown += os.read(terminal, 4096)
            return text in shown
        os.write(terminal, f"source {SOURCE / 'packaging/completion/leat'}\n".encode())
        for typed, expected in ((b"leat record -o my\t", rb"my\ traces/"), (b"f\t", rb"my\ traces/first/")):
            os.write(terminal, typed)
            wait_until(lambda: shows(expected), f"{expected} is offered")

    def test_value_of_an_option_is_not_the_program(self):
        options = set(re.findall(r"^ .*?(--[a-z-]+) [A-Z]+", self.help_of("leat record"), re.MULTILINE))
        self.assertGreater(len(options), 10)
        for option in options - {"--live"}:  # it may stand alone
            self.assertIn("env", self.complete("leat", "record", option, "value", "en"), option)
            self.assertIn("env", self.complete("leat", "record", option, "=", "value", "en"), option)

    def test_program_to_record(self):
        self.assertIn("env", self.complete("leat", "record", "--", "en"))
        self.assertIn("env", self.complete("leat", "record", "--live", "-e", "io:*", "en"))
        self.assertEqual(self.complete("leat", "record", "--", "env", "--"), [], "the program's options are not ours")
        self.assertEqual(self.complete("leat", "record", "-o", "traces", "env", "--"), [])


@without_sanitizers
class CompletionOfSessions(CompletionTest):
    """bash asks the session daemon what there is."""

    def setUp(self):
        super().setUp()
        self.daemon = subprocess.Popen([BUILD / "bin/leat-sessiond"], stderr=subprocess.DEVNULL)
        self.addCleanup(self.daemon.wait)
        self.addCleanup(self.daemon.kill)
        wait_until(self.is_daemon_ready, "the daemon is ready")
        self.leat("create", "shop", "-o", self.directory / "shop")
        self.leat("enable-channel", "payments")
        self.leat("enable-event", "-c", "payments", "pay:*,pay:refund")
        self.leat("create", "web", "-o", self.directory / "web")
        self.leat("enable-channel", "requests")

    def is_daemon_ready(self):
        return subprocess.run([BUILD / "bin/leat", "list"], capture_output=True).returncode == 0

    def leat(self, *words):
        return run(BUILD / "bin/leat", *words)

    def test_sessions(self):
        for verb in "set-session", "start", "stop", "destroy", "rotate", "clear", "list", "save":
            self.assertEqual(self.complete("leat", verb, ""), ["shop", "web"], verb)
        self.assertEqual(self.complete("leat", "regenerate", ""), ["metadata", "statedump"])
        self.assertEqual(self.complete("leat", "regenerate", "metadata", ""), ["shop", "web"])
        self.assertEqual(self.complete("leat", "enable-event", "-s", "w"), ["web"])
        self.assertEqual(self.complete("leat", "status", "--session", "=", "s"), ["shop"])
        self.assertEqual(self.complete("leat", "view", ""), ["shop", "web", "<plusdirs>"])
        self.assertEqual(self.complete("leat", "create", ""), [])

    def test_channels_and_rules_of_the_session(self):
        self.assertEqual(self.complete("leat", "enable-event", "-c", ""), ["requests"])
        self.assertEqual(self.complete("leat", "enable-event", "-s", "shop", "-c", ""), ["payments"])
        self.assertEqual(self.complete("leat", "enable-event", "--session", "=", "shop", "--channel", "=", ""), ["payments"])
        self.assertEqual(self.complete("leat", "disable-channel", "r"), ["requests"])
        self.assertEqual(self.complete("leat", "disable-event", "-s", "shop", "pay", ":", "r"), ["refund"])

    def test_events_and_processes(self):
        emit = subprocess.Popen([program("emit"), "1", "1", "wait"], stdout=subprocess.DEVNULL)
        self.addCleanup(emit.wait)
        self.addCleanup(emit.kill)
        wait_until(lambda: "test:count" in self.leat("list", "--programs"), "the program is known")
        self.assertEqual(self.complete("leat", "enable-event", "te"), ["test:count", "test:done"])
        self.assertEqual(self.complete("leat", "enable-event", "test", ":"), ["count", "done"])
        self.assertEqual(self.complete("leat", "enable-event", "test", ":", "d"), ["done"])
        self.assertEqual(self.complete("leat", "enable-event", "a", ":", "b,test", ":", "c"), ["count"])
        self.assertEqual(self.complete("leat", "enable-event", "'test:d"), ["test:done"])
        self.assertEqual(self.complete("leat", "enable-event", "a:*", "--exclude", "=", "test", ":", "d"), ["done"])
        self.assertEqual(self.complete("leat", "track", "--vpid", ""), [str(emit.pid), "all"])

    def test_names_of_sessions_are_data(self):
        """Sessions of other users may be called anything."""
        self.leat("create", "zz $(touch evil)`touch evil`'\"\\;*", "-o", self.directory / "strange")
        self.assertEqual(len(self.complete("leat", "stop", "")), 3)
        [word] = self.complete("leat", "stop", "z")
        self.assertIn("is stopped already", run("bash", "-c", f"{BUILD / 'bin/leat'} stop {word}"))
        self.assertEqual(self.complete("leat", "stop", "'z"), [], "it cannot stand in quotes")
        self.assertEqual(list(self.directory.glob("**/evil")), [])

    def test_without_a_daemon_it_is_silent(self):
        self.daemon.kill()
        self.daemon.wait()
        self.assertEqual(self.complete("leat", "start", ""), [])
        self.assertEqual(self.complete("leat", "enable-event", "-c", ""), [])


if __name__ == "__main__":
    main()
