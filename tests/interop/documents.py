#!/usr/bin/env python3
"""Runs every command that README.md and docs/ show, and compiles every snippet.

usage: documents.py SOURCE_DIRECTORY BUILD_DIRECTORY
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()
BUILD = pathlib.Path(sys.argv[2]).resolve()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# ./dev commands run this test, or take as long as it.
NOT_RUN_HERE = re.compile(r"^\./dev ")


def documents():
    return [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]


def blocks(language):
    for document in documents():
        for match in BLOCK.finditer(document.read_text()):
            if match.group(1) == language:
                yield document.name, match.group(2)


def split_snippet(snippet):
    """Statements go into a function; includes, macros and declarations stay in front of it."""
    lines = snippet.splitlines()
    last = max(i for i, line in enumerate(lines) if re.match(r"(leat_tracepoint|leat_printf|leat_log|LEAT_EVENT)\b", line))
    return "\n".join(lines[:last]), lines[last]


class Documents(unittest.TestCase):
    def run_in(self, directory, command):
        # The commands get a network and process IDs of their own, so the default ports are free, and background
        # processes end with the shell.
        own = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return subprocess.run([*own, "sh", "-c", command], cwd=directory, capture_output=True, text=True, timeout=120)

    def test_commands_run(self):
        count = 0
        for document, text in blocks("sh"):
            with tempfile.TemporaryDirectory() as directory:
                (pathlib.Path(directory) / "build").mkdir()
                # The product that ./dev demo builds.
                (pathlib.Path(directory) / "build" / "product").symlink_to(BUILD)
                commands = [line for line in text.splitlines() if not NOT_RUN_HERE.match(line)]
                count += len(commands)
                result = self.run_in(directory, "\n".join(["set -ex", "ip link set lo up", *commands]))
                self.assertEqual(result.returncode, 0, f"{document}:\n{result.stderr}")
        self.assertGreater(count, 0)

    def test_words_of_dev_exist(self):
        """Every `./dev WORD` that a document mentions exists, in code blocks and in running text."""
        usage = subprocess.run([SOURCE / "dev", "help"], capture_output=True, text=True, check=True).stdout
        words = set(re.findall(r"^  (\w+) ", usage, re.MULTILINE))
        code = (SOURCE / "dev").read_text()
        for word in words:
            self.assertRegex(code, rf"(?m)^    {word}\) ", "the usage has a word that ./dev has not")
        said = [(document.name, *match.groups()) for document in documents()
                for match in re.finditer(r"\./dev (\w+)(?: ([a-z][\w-]*))?", document.read_text())]
        self.assertGreaterEqual({word for _, word, _ in said}, {"demo", "test", "bench"})
        places = {"bench": "bench/{}.py", "torture": "tests/crash/{}_writers.cpp", "fuzz": "fuzz/{}.cpp"}
        for document, word, argument in said:
            self.assertIn(word, words, document)
            if word in places and argument:
                self.assertTrue((SOURCE / places[word].format(argument)).exists(), f"{document}: ./dev {word} {argument}")

    def compile(self, compiler, suffix, snippet):
        declarations, statement = split_snippet(snippet)
        program = f"#include <stdint.h>\n{declarations}\nint main(void) {{ int id = 1, length = 2; (void)id; (void)length;\n"
        program += f"{statement}\nreturn 0; }}\n"
        with tempfile.TemporaryDirectory() as directory:
            source = pathlib.Path(directory) / f"snippet.{suffix}"
            source.write_text(program)
            command = [*compiler, "-Wall", "-Wextra", "-Werror", f"-I{SOURCE / 'include'}", str(source), "-o",
                       f"{directory}/snippet", f"-L{BUILD / 'lib'}", f"-Wl,-rpath,{BUILD / 'lib'}", "-lleat"]
            result = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stderr + program)
            self.assertEqual(subprocess.run([f"{directory}/snippet"]).returncode, 0)

    def test_cpp_snippets_compile_and_run(self):
        for _, snippet in blocks("cpp"):
            self.compile(["g++", "-std=c++17"], "cpp", snippet)

    def test_c_snippets_compile_and_run(self):
        for _, snippet in blocks("c"):
            self.compile(["gcc", "-std=c11"], "c", snippet)

    def test_manual_pages_name_every_option(self):
        for command in ("leat record", "leat view", "leat-relayd"):
            program = [BUILD / "bin" / command.split()[0], *command.split()[1:]]
            help_text = subprocess.run([*program, "--help"], capture_output=True, text=True).stdout
            page = (SOURCE / "docs" / "man" / f"{command.replace(' ', '-')}.1").read_text().replace("\\-", "-")
            for option in re.findall(r"^ .*?(--[a-z][a-z-]+) ", help_text.split("Examples:")[0], re.MULTILINE):
                if option not in ("--help",):
                    self.assertIn(option, page, f"the page of {command} does not name {option}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
