#!/usr/bin/env python3
"""Runs every command that README.md and docs/ show, and compiles every snippet.
"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from support import BUILD, PATIENCE, SOURCE, main, outside_gate

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# ./dev commands run this test, or take as long as it.
NOT_RUN_HERE = re.compile(r"^\./dev ")
PAUSE = re.compile(r"\bsleep\b")
# Readers see that something has begun, and pause until then. Here, the pause of a block that has one of these lines lasts
# until this command succeeds.
STATES = {
    "leat list disk ": "build/product/bin/leat list disk | grep 'recorded *[1-9]'",
    "timeout 2 build/product/bin/leat view net://localhost": "ss -Htln | awk '{print $4}' | grep -c ':534[234]$' | grep 3",
}
# One command of a line: its name and the rest.
COMMAND = re.compile(r"^(?:timeout \d+ )?(?:\S*/bin/)?(leat(?:-relayd|-sessiond)?) (.*)")


def documents():
    return [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]


def blocks(language):
    for document in documents():
        for match in BLOCK.finditer(document.read_text()):
            if match.group(1) == language:
                yield document.name, match.group(2)


def split_snippet(snippet):
    """A statement at the end goes into a function; includes, macros and declarations stay in front of it."""
    lines = snippet.splitlines()
    statement = r"(leat_tracepoint|leat_printf|leat_log|leat_sticky|leat_context_provide|LEAT_EVENT|LEAT_EVENT_URI)\b"
    last = max((i for i, line in enumerate(lines) if re.match(statement, line)), default=None)
    return (snippet, "") if last is None else ("\n".join(lines[:last]), lines[last])


def state_after_pause(text):
    """The command that succeeds when the commands after a block's pauses may follow; nothing if nobody knows."""
    return next((state for line, state in STATES.items() if line in text), None)


def can_be_told_to_wait(text):
    return not PAUSE.search(text) or state_after_pause(text) is not None


def shown_commands(text):
    """Those of Leat in a block, as name and words up to those of the program that is recorded."""
    for line in text.splitlines():
        for part in re.split(r"\s+(?:\||\|\||&&|&|;)(?:\s+|$)", re.sub(r"\s#.*", "", line)):
            if match := COMMAND.match(part):
                yield match[1], match[2].split(" -- ")[0].split()


def manual_examples():
    for page in sorted((SOURCE / "docs" / "man").iterdir()):
        text = re.sub(r"\\f[BIR]", "", page.read_text()).replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\")
        for match in re.finditer(r"^\.(?:nf|EX)\n(.*?)^\.(?:fi|EE)$", text, re.MULTILINE | re.DOTALL):
            yield page.name, match[1]


def help_of(command):
    program, *words = command.split()
    return subprocess.run([BUILD / "bin" / program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def help_examples():
    verbs = re.findall(r"^  ([a-z][a-z-]+)  ", help_of("leat"), re.MULTILINE)
    for command in ("leat", *(f"leat {verb}" for verb in verbs), "leat-relayd", "leat-sessiond"):
        yield f"{command} --help", help_of(command).partition("Examples:")[2].replace("\n  ", "\n")


class Documents(unittest.TestCase):
    def run_in(self, directory, command):
        # The commands get a network and process IDs of their own, so the default ports are free, and background
        # processes end with the shell. So has leat: a session daemon that runs here is left alone.
        own = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        # As on a fresh Debian, whose python3 has Debian's modules.
        environment = {**os.environ, "LEAT_RUNTIME_DIR": str(directory / "run"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        (directory / "run").mkdir()
        return subprocess.run([*own, "bash", "-c", command], cwd=directory, env=environment, capture_output=True, text=True,
                              timeout=PATIENCE)

    def run_blocks(self, chosen):
        count = 0
        for document, text in blocks("sh"):
            if not chosen(text):
                continue
            with tempfile.TemporaryDirectory() as name:
                directory = pathlib.Path(name)
                (directory / "build").mkdir()
                # The product that ./dev demo builds.
                (directory / "build" / "product").symlink_to(BUILD)
                for folder in "include", "examples":
                    (directory / folder).symlink_to(SOURCE / folder)
                commands = [line for line in text.splitlines() if not NOT_RUN_HERE.match(line)]
                count += len(commands)
                begin = ["set -exo pipefail", "shopt -s expand_aliases", "ip link set lo up"]
                if state := state_after_pause(text):
                    begin.append(f"sleep() {{ until {state}; do command sleep 0.1; done; }}")
                result = self.run_in(directory, "\n".join([*begin, *commands]))
                self.assertEqual(result.returncode, 0, f"{document}:\n{result.stderr}")
        self.assertGreater(count, 0)

    def test_commands_run(self):
        self.run_blocks(can_be_told_to_wait)

    @outside_gate("after a pause, what readers have started must be ready")
    def test_commands_with_pauses_run(self):
        self.run_blocks(lambda text: not can_be_told_to_wait(text))

    def test_options_of_commands_exist(self):
        """Also of those that do not run here."""
        consoles = [(document, text.replace("$ ", "")) for document, text in blocks("console")]
        for source, least in ((blocks("sh"), 10), (consoles, 0), (manual_examples(), 10), (help_examples(), 10)):
            found = 0
            for place, text in source:
                for name, words in shown_commands(text):
                    command = name if name != "leat" or words[0].startswith("-") else f"leat {words[0]}"
                    options = {match[0] for word in words if (match := re.match(r"--[a-z][a-z-]+", word))}
                    self.assertEqual(options - self.options_of(command) - {"--help", "--version"}, set(), f"{place}: {command}")
                    found += len(options)
            self.assertGreaterEqual(found, least)

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
        places = {"bench": ["bench/{}.py"], "torture": ["tests/crash/{}_writers.cpp", "tests/crash/kill_{}.py"],
                  "fuzz": ["fuzz/{}.cpp"]}
        for document, word, argument in said:
            self.assertIn(word, words, document)
            if word in places and argument:
                self.assertTrue(any((SOURCE / place.format(argument)).exists() for place in places[word]),
                                f"{document}: ./dev {word} {argument}")

    def compile(self, compiler, suffix, snippet):
        declarations, statement = split_snippet(snippet)
        program = f"#include <stdint.h>\n{declarations}\nint main(void) {{ int id = 1, length = 2; (void)id; (void)length;\n"
        program += f"{statement}\nreturn 0; }}\n"
        with tempfile.TemporaryDirectory() as directory:
            source = pathlib.Path(directory) / f"snippet.{suffix}"
            source.write_text(program)
            command = [*compiler, "-Wall", "-Wextra", "-Werror", f"-I{SOURCE / 'include'}", str(source), "-o",
                       f"{directory}/snippet", f"-L{BUILD / 'lib'}", f"-Wl,-rpath,{BUILD / 'lib'}", "-Wl,--as-needed", "-lleat-capture", "-lleat-ctf", "-lleat"]
            result = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stderr + program)
            self.assertEqual(subprocess.run([f"{directory}/snippet"]).returncode, 0)

    def test_cpp_snippets_compile_and_run(self):
        for _, snippet in blocks("cpp"):
            self.compile(["g++", "-std=c++17"], "cpp", snippet)

    def test_c_snippets_compile_and_run(self):
        for _, snippet in blocks("c"):
            self.compile(["gcc", "-std=c11"], "c", snippet)

    def options_of(self, command):
        """What its help offers."""
        return set(re.findall(r"^  (?:-\w,)?(--[a-z][a-z-]+)\b", help_of(command).split("Examples:")[0], re.MULTILINE)) - {"--help"}

    def page(self, name):
        return (SOURCE / "docs" / "man" / name).read_text().replace("\\-", "-")

    def test_manual_pages_name_every_option(self):
        pages = {"leat record": "leat-record.1", "leat recover": "leat-recover.1", "leat view": "leat-view.1", "leat stats": "leat-stats.1", "leat export": "leat-export.1", "leat repair": "leat-check.1", "leat-relayd": "leat-relayd.1",
                 "leat-sessiond": "leat-sessiond.8"}
        for command, page in pages.items():
            options = self.options_of(command)
            self.assertGreater(len(options), 1, command)
            for option in options:
                self.assertRegex(self.page(page), rf"\\fB{option}\\fR", f"the page of {command} does not name {option}")
            said = set(re.findall(r"\.TP\n(?:\\fB-\w\\fR, )?\\fB(--[a-z-]+)", self.page(page)))
            self.assertEqual(said - options, set(), f"{command} has no such option")

    def test_manual_page_of_the_verbs(self):
        """Has all of them, with their options, and no others."""
        usage = subprocess.run([BUILD / "bin" / "leat", "--help"], capture_output=True, text=True, check=True).stdout
        verbs = set(re.findall(r"^  ([a-z][a-z-]+)  ", usage.split("Steering the session daemon")[1], re.MULTILINE))
        page = self.page("leat-session.1")
        described = page[page.index(".SH VERBS"):]
        said = set(re.findall(r"\\fBleat ([a-z-]+)\\fR", described[:described.index(".SH COMMON OPTIONS")]))
        self.assertEqual(said - {"view"}, verbs)
        options = set().union(*(self.options_of(f"leat {verb}") for verb in verbs))
        self.assertEqual(set(re.findall(r"\\fB(--[a-z-]+)", described.split(".SH DISCARDED")[0])), options)
        for command in ("leat-session.1", "leat.1", "leat-view.1", "leat-stats.1", "leat-export.1", "leat-check.1", "leat-sessiond.8", "leat-relayd.1", "leat-record.1", "leat-recover.1"):
            for name, section in re.findall(r"\\fB(leat[a-z-]*)\\fR\((\d)\)", self.page(command)):
                self.assertTrue((SOURCE / "docs" / "man" / f"{name}.{section}").exists(), f"{command}: {name}({section})")


if __name__ == "__main__":
    main()
