#!/usr/bin/env python3
"""What `cmake --install` brings into a directory of one's own works there, and wherever it is moved to."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from support import BUILD, SOURCE, InteropTest, main, needs, has, without_sanitizers

PROGRAMS = {"leat record": "leat", "leat view": "leat", "leat-relayd": "leat-relayd"}
COMPLETE = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
"_$(echo "$1" | tr - _)"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def run(*command, **arguments):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **arguments)
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

    def test_cmake_package(self):
        project = self.directory / "project"
        shutil.copytree(SOURCE / "examples", project)
        with open(project / "CMakeLists.txt", "a", encoding="ascii") as file:
            file.write("add_executable(static hello.c)\ntarget_link_libraries(static PRIVATE leat::leat-static)\n")
        run("cmake", "-S", project, "-B", self.directory / "built", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", self.directory / "built")
        for program, events in ("example-hello", 4), ("static", 4), ("example-io-queue", 3000):
            with self.subTest(program=program):
                arguments = ["Ada"] if events == 4 else []
                self.assertGreaterEqual(self.record_and_count(self.directory / "built" / program, *arguments), events)

    def test_exported_symbols_have_versions(self):
        """Ours have; what we interpose must not, or the loader passes it over."""
        symbols = run("nm", "--dynamic", "--defined-only", "--with-symbol-versions", self.prefix / "lib/libleat.so.0")
        names = {line.split()[-1] for line in symbols.splitlines() if " A " not in line}
        self.assertEqual(names, {
            *(f"leat_{name}@@LEAT_0" for name in ("module_load", "module_unload", "write", "stage_large", "write_large")),
            *(f"leat_{name}@@LEAT_PRIVATE" for name in ("thread_share", "thread_unshare", "names_changed")),
            "clone", "vfork", "syscall", "prctl", "pthread_setname_np"})

    def test_manual_pages_and_unit(self):
        pages = {path.name for path in (self.prefix / "share/man/man1").iterdir()}
        self.assertEqual(pages, {"leat.1", "leat-record.1", "leat-view.1", "leat-relayd.1"})
        unit = (self.prefix / "lib/systemd/system/leat-relayd.service").read_text()
        self.assertIn("User=leat-relayd", unit)
        self.assertNotRegex(unit, "@CMAKE")


class Completion(unittest.TestCase):
    def complete(self, *words):
        """What bash would offer for the last word."""
        file = SOURCE / "packaging/completion" / words[0]
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "traces").mkdir()
            (pathlib.Path(directory) / "file").touch()
            return run("bash", "-c", COMPLETE, "bash", file, *words, cwd=directory).split()

    def help_of(self, command):
        words = command.split()
        return run(BUILD / "bin" / PROGRAMS[command], *words[1:], "--help").split("Examples:")[0]

    def test_every_option_of_help(self):
        for command in PROGRAMS:
            text = self.help_of(command)
            options = set(re.findall(r"^ .*?(--[a-z][a-z-]+)\b", text, re.MULTILINE))
            self.assertGreater(len(options), 5, text)
            self.assertEqual(set(self.complete(*command.split(), "--")) - {"--"}, options, command)

    def test_every_value_of_help(self):
        for command in "leat record", "leat view":
            lists = re.findall(r"^ .*?(--[a-z-]+) [A-Z]+:\{(.*?)\}", self.help_of(command), re.MULTILINE)
            self.assertGreater(len(lists), 1, command)
            for option, values in lists:
                self.assertEqual(self.complete(*command.split(), option, ""), values.split(","), f"{command} {option}")

    def test_commands_and_values(self):
        self.assertEqual(self.complete("leat", ""), ["record", "view", "--help", "--version"])
        self.assertEqual(self.complete("leat", "v"), ["view"])
        self.assertEqual(self.complete("leat", "view", "t"), ["traces"])
        self.assertEqual(self.complete("leat", "view", "--format", ""), ["text", "json"])
        self.assertEqual(self.complete("leat", "view", "--format", "=", "j"), ["json"])
        self.assertEqual(self.complete("leat", "record", "-o", "tr"), ["traces"])
        self.assertEqual(self.complete("leat", "record", "--preload", "libc,p"), ["libc,pthread"])
        self.assertEqual(self.complete("leat", "record", "--header", "="), ["compact", "large"])
        self.assertEqual(self.complete("leat-relayd", "--log-format", ""), ["text", "json"])
        self.assertEqual(self.complete("leat-relayd", "-o", ""), ["traces"])

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


if __name__ == "__main__":
    main()
