#!/usr/bin/env python3
"""Real programs with many processes and threads: recorded, they behave as always, and the trace is whole."""
import os
import pathlib
import random
import shutil
import sys

from support import InteropTest, main, plain_run, program

LARGE_RINGS = ("--ring-size", "64M")
LIBC = ("--preload", "libc", *LARGE_RINGS)
ALL = ("--preload", "libc,pthread,dl", *LARGE_RINGS)


class RealPrograms(InteropTest):
    def record_like_plain(self, command, options, fresh_directory):
        """Runs the command plain and recorded, in two directories made by `fresh_directory`, and compares the
        results."""
        plain = plain_run(*command, cwd=fresh_directory("plain"))
        recording = self.record(*command, options=options, cwd=fresh_directory("recorded"))
        self.assert_like_plain(recording, plain)
        # Shells allocate between vfork and exec. Those events are counted, never written. No others are lost.
        borrowed = recording.summary["discarded_by_reason"]["borrowed"]
        self.assertEqual(recording.summary["discarded"], borrowed, recording.stderr)
        trace = self.read_recording(recording) if borrowed else self.read_complete(recording)
        self.assertGreater(len(trace.lines), 0)
        return trace

    def empty_directory(self, name):
        path = self.directory / name
        path.mkdir()
        return path

    def test_python_importing(self):
        trace = self.record_like_plain([sys.executable, "-c", "import json, decimal; print(decimal.Decimal('1.1') * 3)"],
                                       LIBC, self.empty_directory)
        self.assertGreater(len(trace.events("lttng_ust_libc:malloc")), 1000)

    def test_python_with_all_preload_libraries(self):
        script = ("import threading, ctypes, subprocess, _sqlite3\n"
                  "lock = threading.Lock()\n"
                  "threads = [threading.Thread(target=lambda: lock.acquire() and lock.release()) for _ in range(4)]\n"
                  "[t.start() for t in threads]; [t.join() for t in threads]\n"
                  "print(subprocess.run(['echo', 'child'], capture_output=True).stdout)\n")
        trace = self.record_like_plain([sys.executable, "-c", script], ALL, self.empty_directory)
        self.assertTrue({"lttng_ust_pthread:pthread_mutex_unlock", "lttng_ust_dl:dlopen", "lttng_ust_libc:calloc"} <=
                        {event.name for event in trace.events()})

    def c_project(self, name):
        path = self.empty_directory(name)
        for i in range(6):
            (path / f"unit{i}.c").write_text(f"#include <stdio.h>\nint unit{i}(int n) {{ return n * {i + 1}; }}\n")
        calls = " + ".join(f"unit{i}(1)" for i in range(6))
        declarations = "".join(f"int unit{i}(int n);\n" for i in range(6))
        (path / "main.c").write_text(f"{declarations}int main(void) {{ return {calls}; }}\n")
        objects = " ".join(f"unit{i}.o" for i in range(6)) + " main.o"
        (path / "Makefile").write_text(f"program: {objects}\n\tgcc -o $@ $^\n"
                                       "%.o: %.c\n\tgcc -O1 -c -o $@ $<\n")
        return path

    def test_make_with_two_jobs(self):
        trace = self.record_like_plain(["make", "-s", "-j2"], LIBC, self.c_project)
        self.assertEqual(plain_run("./program", cwd=self.directory / "recorded").returncode, 21)
        processes = {event["vpid"] for event in trace.events()}
        self.assertGreater(len(processes), 20)  # make, and gcc, cc1, as, collect2, ld for each
        self.assertTrue({"make", "cc1", "as", "ld"} <= {event["procname"] for event in trace.events()})

    def test_git_from_init_to_gc(self):
        script = ("set -e\n"
                  "git init -q -b main .\n"
                  "for i in 1 2 3; do seq $i 1000 > file$i; git add .; git commit -q -m \"number $i\"; done\n"
                  "git log --format=%s\n"
                  "git gc -q\n"
                  "git fsck\n")
        identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
                    "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(self.directory)}
        os.environ.update(identity)
        trace = self.record_like_plain(["sh", "-c", script], LIBC, self.empty_directory)
        self.assertIn("git", {event["procname"] for event in trace.events()})

    def test_sqlite_with_ten_thousand_inserts(self):
        statements = "create table t(n integer, text varchar);\nbegin;\n"
        statements += "".join(f"insert into t values({n}, 'row {n}');\n" for n in range(10_000))
        statements += "commit;\nselect count(*), sum(n) from t;\n"
        file = self.directory / "statements.sql"
        file.write_text(statements)
        trace = self.record_like_plain(["sqlite3", "-init", str(file), "t.db", "select max(n) from t"], ALL,
                                       self.empty_directory)
        mallocs = {event["ptr"] for event in trace.events("lttng_ust_libc:malloc")}
        self.assertGreater(len(mallocs), 100)

    def test_xz_with_two_threads(self):
        data = self.directory / "data"
        random.seed(1)
        data.write_bytes(bytes(random.choices(range(64), k=3 << 20)))

        def directory_with_data(name):
            path = self.empty_directory(name)
            shutil.copy(data, path / "data")
            return path

        trace = self.record_like_plain(["xz", "-T2", "-1", "--block-size=1MiB", "data"], ALL, directory_with_data)
        plain, recorded = (pathlib.Path(self.directory / name / "data.xz").read_bytes() for name in ("plain", "recorded"))
        self.assertEqual(recorded, plain)
        self.assertGreater(len({event["vtid"] for event in trace.events()}), 2)


class Accounting(InteropTest):
    def test_small_rings_lose_events_and_count_them(self):
        recording = self.record(program("emit"), "1000000", "4", options=("--ring-size", "64K"))
        self.assertEqual(recording.status, 0)
        trace = self.read_recording(recording)
        emitted = int(recording.stdout)
        self.assertEqual(emitted, 4_000_001)
        self.assertGreater(recording.summary["discarded"], 0)
        self.assertEqual(emitted, recording.summary["events"] + recording.summary["discarded"])
        self.assertEqual(recording.summary["discarded"], recording.summary["discarded_by_reason"]["ring_full"])
        self.assertIn("discarded: the rings were full", recording.stderr)
        last = {}
        for event in trace.events("test:count"):
            self.assertGreater(event["n"], last.get(event["thread"], -1), "out of order within a thread")
            last[event["thread"]] = event["n"]

    def test_large_rings_lose_nothing(self):
        recording = self.record(program("emit"), "50000", "4", options=LARGE_RINGS)
        trace = self.read_complete(recording)
        self.assertEqual(int(recording.stdout), len(trace.lines))
        numbers = {}
        for event in trace.events("test:count"):
            numbers.setdefault(event["thread"], []).append(event["n"])
        self.assertEqual(numbers, {thread: list(range(50_000)) for thread in range(4)})

    def test_more_threads_than_there_are_cpus(self):
        recording = self.record(program("emit"), "2000", "64", options=LARGE_RINGS)
        trace = self.read_recording(recording)
        self.assertEqual(int(recording.stdout), len(trace.lines) + recording.summary["discarded"])


if __name__ == "__main__":
    main()
