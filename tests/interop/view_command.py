#!/usr/bin/env python3
"""`leat view` of traces on disk: which of them it opens, and what strange ones may cost."""
import json
import os
import shutil
import signal
import struct
import subprocess

from relays import RELAYD
from session_daemons import SESSIOND
from support import LEAT, PATIENCE, InteropTest, Trace, main, plain_run, program


class WhichTrace(InteropTest):
    def setUp(self):
        super().setUp()
        self.age = 0

    def emit(self, name, count, options=()):
        """Makes a trace of so many events and one more. It is younger than all traces before it."""
        self.assertEqual(self.record(program("emit"), str(count), name=name, options=options).status, 0)
        self.touch(name)

    def touch(self, name):
        self.age += 10
        os.utime(self.directory / name, (1_600_000_000 + self.age,) * 2)

    def view(self, *arguments):
        return plain_run(LEAT, "view", *arguments, cwd=self.directory)

    def test_newest_of_those_that_were_recorded_here(self):
        for name, count in (("leat-b", 2), ("leat-c", 3), ("leat-a", 4)):
            self.emit(name, count)
        self.emit("of-another-name", 5)
        (self.directory / "leat-empty").mkdir()
        self.touch("leat-empty")
        (self.directory / "leat-file").write_text("no directory")
        self.touch("leat-file")
        result = self.view()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, Trace(self.directory / "leat-a").text)
        self.touch("leat-c")
        self.assertEqual(self.view().stdout, Trace(self.directory / "leat-c").text)

    def test_as_leat_record_names_it(self):
        self.assertEqual(plain_run(LEAT, "record", "--", program("emit"), "6", cwd=self.directory).returncode, 0)
        result = self.view()
        self.assertEqual((result.returncode, len(result.stdout.splitlines())), (0, 7), result.stderr)

    def test_closed_output_is_an_error(self):
        self.emit("leat-a", 3)
        def run_closed(*words):
            result = plain_run("sh", "-c", 'exec "$0" "$@" >&-', *words, cwd=self.directory)
            self.assertEqual(result.returncode, 1, words)
            return result.stderr
        for arguments in (["view"], ["view", "--format=json"], ["stats"], ["export", "chrome"], ["check", "leat-a"],
                          ["--help"], ["view", "--help"]):
            self.assert_one_line(run_closed(LEAT, *arguments), "cannot write")
        for daemon, option in ((RELAYD, "--version"), (SESSIOND, "--help")):
            self.assertRegex(run_closed(daemon, option), r"\Aleat-(relay|session)d: cannot write: .*\n\Z")

    def test_scripts_learn_why_a_command_failed(self):
        for arguments in (["stats", "nowhere"], ["check", "nowhere"], ["repair", "nowhere", "-o", "new"], ["recover", "nowhere"]):
            result = plain_run(LEAT, *arguments, "--format=json", cwd=self.directory)
            self.assertEqual(result.returncode, 1, arguments)
            self.assert_one_line(result.stderr, "nowhere")
            failure = json.loads(result.stdout)
            self.assertEqual(failure, {"ok": False, "kind": "not-found", "error": result.stderr.strip().removeprefix("leat: ")})

    def test_none_here(self):
        self.emit("of-another-name", 1)
        result = self.view()
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assert_one_line(result.stderr, "no trace here", "leat view PATH")

    def test_directory_of_several_is_all_of_them_merged_by_time(self):
        for name, count in (("all/second", 2), ("all/first", 3), ("all/deep/third", 4)):
            self.emit(name, count)
        result = self.view("all")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(len(result.stdout.splitlines()), 3 + 4 + 5)
        self.assertEqual(result.stdout, Trace(self.directory / "all").text)
        self.assertEqual(self.view("all/second", "all/deep", "all/first").stdout, result.stdout)

    def test_ends_quietly_when_nobody_reads_on(self):
        """As other tools do, by SIGPIPE. The text is longer than a pipe. The ring has room for all of it, so that nothing is discarded."""
        self.emit("long", 20_000, options=("--ring-size", "4M"))
        for reader, status in ("head -1", 128 + signal.SIGPIPE), ("sed -n 1p", 0):
            shown = subprocess.run(["bash", "-c", f'set -o pipefail; "$0" view long | {reader}', LEAT], cwd=self.directory,
                                   capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((shown.returncode, shown.stderr, shown.stdout.count("\n")), (status, "", 1))


class AsBabeltrace2(InteropTest):
    """Options of `babeltrace2 convert` mean the same here."""

    def setUp(self):
        super().setUp()
        self.trace = self.record(program("emit"), "300").path

    def view(self, *options):
        return plain_run(LEAT, "view", *options, self.trace)

    def test_options(self):
        lines = self.view("--clock-seconds").stdout.splitlines()
        first, last = (lines[number].split("]")[0].lstrip("[") for number in (100, 200))
        for options in (["-n", "ctx,arg"], ["-n", "args,scope"], ["-f", "loglevel,trace"], ["-b", first, "-e", last],
                        ["--clock-offset=7", "--clock-seconds"], ["--clock-offset=-7", "--clock-offset-ns=-1500000001"],
                        ["--clock-offset-ns=2500000000", "--clock-cycles"], ["--clock-offset=86400", "--clock-date"]):
            with self.subTest(options=options):
                expected = subprocess.run(["babeltrace2", *options, self.trace], capture_output=True, text=True, check=True)
                shown = self.view(*options)
                self.assertEqual((shown.returncode, shown.stderr, shown.stdout), (0, "", expected.stdout))

    def test_clock_that_cannot_be_moved_so_far(self):
        shown = self.view(f"--clock-offset={2**63 - 1}", "--clock-offset-ns=1000000000")
        self.assertEqual((shown.returncode, shown.stdout), (1, ""))
        self.assert_one_line(shown.stderr, "metadata", "cannot be moved so far")

    def test_output(self):
        text = self.view().stdout
        path = self.directory / "text"
        for options in (["-w", path], ["--output", path, "--color=auto"]):
            path.write_text("of an earlier trace\n" * 10000)
            shown = self.view(*options)
            self.assertEqual((shown.returncode, shown.stderr, shown.stdout), (0, "", ""))
            self.assertEqual(path.read_text(), text)
        for wrong, status in (["--from=now"], 2), (["--filter", "nothing == 1"], 1), (["--format=csv", "--columns=nothing"], 1):
            self.assertEqual(self.view("-w", path, *wrong).returncode, status)
            self.assertEqual(path.read_text(), text, "a command line that is wrong touches nothing")

    def test_output_is_standard_output(self):
        text = self.view().stdout
        log = self.directory / "log"
        for _ in range(2):
            plain_run("sh", "-c", '"$0" view -w /dev/stdout "$1" >> "$2"', LEAT, self.trace, log)
        self.assertEqual(log.read_text(), 2 * text)

    def test_output_among_the_files_of_the_trace(self):
        stream = min(self.trace.rglob("channel0_*"))
        before = stream.read_bytes()
        link = self.directory / "link"
        link.symlink_to(stream.parent / "new")
        for path in stream, stream.parent / "new", link, self.directory / "nowhere" / "text":
            shown = self.view("-w", path)
            self.assertEqual((shown.returncode, shown.stdout), (1, ""))
            self.assert_one_line(shown.stderr, str(path))
        self.assertEqual(stream.read_bytes(), before)
        self.assertFalse((stream.parent / "new").exists())


class ShorterFiles(InteropTest):
    def view_while_cut(self, cut):
        """What is printed of a trace whose largest file is cut off after the first line; and of the whole one."""
        trace = self.record(program("emit"), "100000", name="trace", options=("--ring-size", "16M")).path
        expected = Trace(trace).lines
        path = max((path for path in trace.rglob("*_*") if path.is_file()), key=lambda path: path.stat().st_size)
        with subprocess.Popen([LEAT, "view", "--threads", "1", trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as view:
            first = view.stdout.readline()
            os.truncate(path, cut(path.stat().st_size))
            rest, errors = view.stdout.read(), view.stderr.read()
            view.wait(timeout=PATIENCE)
        lines = (first + rest).splitlines()
        wrong = next((number for number, line in enumerate(lines) if line != expected[number]), None)
        self.assertIsNone(wrong, f"line {wrong} was never an event: {lines[wrong or 0][:300]!r} not {expected[wrong or 0][:300]!r}")
        return path, view.returncode, errors, lines, expected

    def test_file_that_becomes_shorter_harms_no_viewer(self):
        """It finds zeros there, and not its end by SIGBUS. What was printed before is whole."""
        for cut in (lambda size: size // 2, lambda size: size // 2 // 4096 * 4096 + 1, lambda size: size // 4096 * 4096 - 1000):
            path, status, errors, lines, expected = self.view_while_cut(cut)
            self.assertEqual(status, 1)
            self.assert_one_line(errors, path.name)
            self.assertLess(len(lines), len(expected))
            shutil.rmtree(self.directory / "trace")

    def test_file_that_loses_some_bytes_of_its_last_page(self):
        _, status, errors, lines, expected = self.view_while_cut(lambda size: (size - 1) // 4096 * 4096 + 1)
        self.assertEqual((status, errors, lines), (0, "", expected))


class StrangeTraces(InteropTest):
    METADATA = """/* CTF 1.8 */
        typealias integer { size = 32; align = 8; } := u32;
        trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; }; };
        stream { event.header := struct { u32 id; }; };"""
    ADDRESS_SPACE = 1 << 20  # KiB

    def test_long_name_of_the_host_is_kept_once(self):
        """And not for each event class: a megabyte of metadata would need gigabytes."""
        classes, host = 2000, "h" * 1_000_000
        directory = self.directory / "trace"
        directory.mkdir()
        events = "".join(f"event {{ name = e{number}; id = {number}; }};\n" for number in range(classes))
        (directory / "metadata").write_text(f'{self.METADATA} env {{ hostname = "{host}"; }}; {events}', encoding="ascii")
        (directory / "stream").write_bytes(struct.pack(f"<{classes + 1}I", 0xC1FC1FC1, *range(classes)))
        for options in ([], ["--format=json"]):
            limited = ["sh", "-c", f'ulimit -v {self.ADDRESS_SPACE} && exec "$0" "$@" | wc -lc', LEAT, "view", "--threads=2", *options, directory]
            result = plain_run(*limited)
            self.assertEqual(result.stderr, "")
            lines, size = map(int, result.stdout.split())
            self.assertEqual(lines, classes)
            self.assertGreater(size, classes * len(host))


if __name__ == "__main__":
    main()
