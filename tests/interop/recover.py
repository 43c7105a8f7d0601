#!/usr/bin/env python3
"""Rings in files (--shm-path), and `leat recover`, which makes a trace of what they hold after a crash of everything: of
`leat record` and its program, or of a session daemon, its keeper and its programs."""
import collections
import hashlib
import itertools
import json
import mmap
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import time

from session_daemons import RestartTest, Switched, as_user, by_reason
from support import (IS_WHOLE, LEAT, PATIENCE, PROGRAMS, can_be_two_users, enter_user_namespace, has_namespaces, lines_of, main, needs,
                     outside_gate, plain_run, program, stop_process, wait_until, without_sanitizers)

THREADS = 3
PAGE = mmap.PAGESIZE
EVENT = re.compile(r" test:committed: .* thread = (\d+), n = (\d+), padding = \"some\", same = (\d+) ")
# babeltrace2 does not know whether events were discarded in front of the packets of an overwritten ring.
LOST = re.compile(r"^WARNING: Tracer (?:lost|may have lost|discarded|may have discarded) ")
NOTHING = re.compile("(?!)")
# Of programs whose rings somebody drains. In the gate, these rings have room for minutes: who drains may be kept waiting.
PAUSE_US = 1000 if IS_WHOLE else 50_000
UNFINISHED = re.compile(r" until you do: (truncate -s \d+ .+)$")


class Committed:
    """tests/programs/committed.c, started by a command that ends with its arguments."""

    def __init__(self, path, pause_us=PAUSE_US, count=(), threads=THREADS):
        path.write_bytes(bytes(8 * threads))
        self.path = path
        self.threads = threads
        self.arguments = [program("committed"), str(path), str(pause_us), *map(str, count)]

    def counts(self):
        """How many events each thread has committed."""
        return struct.unpack(f"<{self.threads}Q", self.path.read_bytes())


class RecoverTest(RestartTest):
    def setUp(self):
        super().setUp()
        # A program has the rings before its first event, however long a daemon takes.
        os.environ["LEAT_REGISTER_TIMEOUT"] = "-1"
        self.shm = self.directory / "shm"
        self.number = 0
        # What commands make, they make here.
        before = pathlib.Path.cwd()
        os.chdir(self.directory)
        self.addCleanup(os.chdir, before)

    def new(self, name):
        self.number += 1
        return self.directory / f"{name}-{self.number}"

    def committed(self, **arguments):
        return Committed(self.new("counters"), **arguments)

    def started(self, command, **arguments):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True, **arguments)
        self.addCleanup(self.end_group, process)
        return process

    def end_group(self, process):
        """What it has started outlives it."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate(timeout=PATIENCE)

    def is_emitting(self, running, least=50):
        wait_until(lambda: min(running.counts()) >= least, "the program emits nothing")

    def recover(self, directory, *options, status=0):
        """Returns what it says, as an object."""
        result = subprocess.run([LEAT, "recover", directory, "--format=json", *options], capture_output=True, text=True,
                                timeout=PATIENCE)
        self.assertEqual(result.returncode, status, (result.stdout, result.stderr, self.seed))
        told = json.loads(result.stdout)
        self.assertEqual(told["ok"], status == 0)
        # Who reads it together with what was stored does as it says.
        for trace in told["traces"]:
            for warning in trace["warnings"]:
                if remedy := UNFINISHED.search(warning):
                    subprocess.run(["sh", "-c", remedy[1]], check=True)
        return told

    def refusal(self, directory):
        result = subprocess.run([LEAT, "recover", directory], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assert_one_line(result.stderr)
        return result.stderr

    def read_together(self, *paths, warnings=NOTHING):
        """The events that both readers find in these traces, each as a list of its numbers by thread."""
        # Of one that was killed before it had any metadata, babeltrace2 cannot tell what it is.
        for metadata in [found for path in paths for found in pathlib.Path(path).rglob("metadata")]:
            if metadata.stat().st_size == 0:
                shutil.rmtree(metadata.parent)
        paths = [path for path in paths if self.has_traces(pathlib.Path(path))]
        trace = subprocess.run(["babeltrace2", *map(str, paths)], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(trace.returncode, 0, (trace.stderr, self.seed))
        self.told = trace.stderr.splitlines()
        for line in self.told:
            self.assertRegex(line, warnings, self.seed)
        view = subprocess.run([LEAT, "view", *map(str, paths)], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(view.returncode, 0, (view.stderr, self.seed))
        self.assertTrue(view.stdout == trace.stdout, f"readers differ about {paths}, seed {self.seed}")
        return self.numbers_in(trace.stdout)

    def numbers_in(self, text):
        numbers = collections.defaultdict(list)
        for line in text.splitlines():
            match = EVENT.search(line)
            self.assertTrue(match, f"never emitted: {line}, seed {self.seed}")
            thread, n, same = map(int, match.groups())
            self.assertEqual(same, n * 7 + thread, f"never emitted: {line}, seed {self.seed}")
            numbers[thread].append(n)
        return numbers

    def assert_all(self, numbers, counts):
        """Each event that was committed is there once, in order; one more may have been, before it was counted."""
        for thread, count in enumerate(counts):
            found = numbers[thread]
            self.assertEqual(found, list(range(len(found))), f"thread {thread}, seed {self.seed}")
            self.assertIn(len(found), (count, count + 1), f"thread {thread}, seed {self.seed}")

    def assert_last(self, numbers, counts):
        """The last ones are there, without a gap."""
        for thread, count in enumerate(counts):
            found = numbers[thread]
            self.assertTrue(found, f"nothing of thread {thread}, seed {self.seed}")
            self.assertEqual(found, list(range(found[0], found[-1] + 1)), f"thread {thread}, seed {self.seed}")
            self.assertIn(found[-1], (count - 1, count), f"thread {thread}, seed {self.seed}")

    def session_directory(self, parent=None):
        found, = (parent or self.shm).iterdir()
        return found

    def state_of(self, directory):
        """All that is in there, and when it was changed."""
        return {path: (path.lstat().st_mtime_ns, path.lstat().st_mode,
                       hashlib.sha256(path.read_bytes()).digest() if path.is_file() else None)
                for path in sorted(directory.rglob("*"))}

    def has_traces(self, path):
        return any(path.rglob("metadata"))

    def kill_all(self, pids):
        """Everything at once, in any order. Stopped first: a recorder whose program ends before it ends well."""
        pids = list(pids)
        self.random.shuffle(pids)
        for pid in pids:
            stop_process(pid)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def pause(self):
        time.sleep(self.random.random() * 0.4)  # moment: any moment will do

    def left_by_recorder(self, *options, name="trace", shm=None, **arguments):
        """Everything is killed at a random moment. Returns the program and the directory of the trace."""
        running = self.committed(**arguments)
        trace = self.new(name)
        # Rings and program do not depend on each other: its process group is its own.
        recorder = self.started([LEAT, "record", "-o", trace, "--shm-path", shm or self.shm, *options, "--",
                                 "sh", "-c", 'echo $$; exec "$@"', "sh", *running.arguments])
        pid = int(recorder.stdout.readline())
        self.is_emitting(running)
        self.pause()
        self.kill_all([recorder.pid, pid])
        recorder.wait(PATIENCE)
        wait_until(lambda: not pathlib.Path(f"/proc/{pid}/exe").exists(), "the program does not end")
        return running, trace


class Recorder(RecoverTest):
    def test_everything_is_killed(self):
        for turn in range(20 if IS_WHOLE else 3):
            shm = self.new("shm")
            running, trace = self.left_by_recorder(shm=shm)
            recovered = self.new("recovered")
            told = self.recover(shm, "-o", recovered)
            self.assertEqual((told["discarded"], told["errors"]), (0, []))
            paths = [path for path in (trace, recovered) if self.has_traces(path)]
            numbers = self.read_together(*paths)
            self.assert_all(numbers, running.counts())
            stored = self.numbers_in(subprocess.run(["babeltrace2", trace], capture_output=True, text=True).stdout)
            self.assertLessEqual(sum(map(len, numbers.values())) - sum(map(len, stored.values())), told["events"])
            shutil.rmtree(shm)

    def test_flight_recorder_is_killed(self):
        for turn in range(20 if IS_WHOLE else 3):
            shm = self.new("shm")
            # So that the rings have been written over.
            running, _ = self.left_by_recorder("--flight-recorder", "--ring-size=64K", shm=shm, pause_us=50)
            wait_until(lambda: not self.recover(shm, "-o", self.new("again"))["errors"], "nothing is recovered")
            recovered = self.new("recovered")
            told = self.recover(shm, "-o", recovered)
            numbers = self.read_together(recovered, warnings=LOST)
            self.assertEqual(told["events"], sum(map(len, numbers.values())))
            self.assert_last(numbers, running.counts())
            shutil.rmtree(shm)

    def test_files_go_with_a_recording_that_ends_well(self):
        for options in ((), ("--flight-recorder",), ("--mode=blocking",)):
            running = self.committed(pause_us=0, count=(100,))
            trace = self.new("trace")
            result = subprocess.run([LEAT, "record", "-o", trace, "--shm-path", self.shm, *options, "--", *running.arguments],
                                    capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assert_all(self.read_together(trace), running.counts())
            self.assertEqual(list(self.shm.iterdir()), [])

    def test_program_that_cannot_be_started_leaves_nothing(self):
        result = subprocess.run([LEAT, "record", "-o", "trace", "--shm-path", self.shm, "--", "./nothing"],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertEqual((list(self.shm.iterdir()), pathlib.Path("trace").exists()), ([], False), result.stderr)

    def test_recording_that_runs_is_left_alone(self):
        running = self.committed()
        recorder = self.started([LEAT, "record", "-o", "trace", "--shm-path", self.shm, "--", *running.arguments])
        self.is_emitting(running)
        self.assertIn("is in use", self.refusal(self.shm))
        self.assertIn("leat destroy", self.refusal(self.shm))
        recorder.terminate()
        recorder.wait(PATIENCE)

    def test_program_goes_on_while_its_rings_are_recovered(self):
        """Nobody drains them any more: what was committed by then is there.

        A flight recorder's program may overtake whoever copies its blocks: those are told of as lost packets."""
        # Slowly enough not to fill a ring that nobody drains.
        kinds = [(PAUSE_US * 10, "--ring-size=16M")]
        if IS_WHOLE:  # whoever is kept waiting while it reads these finds them written over
            kinds.append((200, "--flight-recorder", "--ring-size=64K"))
        for pause_us, *options in kinds:
            overwrites = "--flight-recorder" in options
            shm = self.new("shm")
            running = self.committed(pause_us=pause_us)
            trace = self.new("trace")
            recorder = self.started([LEAT, "record", "-o", trace, "--shm-path", shm, *options, "--",
                                     "sh", "-c", 'echo $$; exec "$@"', "sh", *running.arguments])
            pid = int(recorder.stdout.readline())
            self.is_emitting(running)
            recorder.kill()
            recorder.wait()
            for turn in range(5):
                before = running.counts()
                recovered = self.new("recovered")
                self.assertEqual(self.recover(shm, "-o", recovered)["errors"], [])
                after = running.counts()
                numbers = self.read_together(*(path for path in (trace, recovered) if self.has_traces(path)),
                                             warnings=LOST)
                for thread in range(THREADS):
                    found = numbers[thread]
                    self.assertEqual(found, sorted(set(found)), self.seed)
                    gaps = sum(n + 1 != following for n, following in itertools.pairwise(found))
                    lost = sum("packet" in line for line in self.told) if overwrites else 0
                    self.assertLessEqual(gaps, lost, self.seed)
                    self.assertTrue(before[thread] - 1 <= found[-1] <= after[thread],
                                    (self.seed, options, turn, before[thread], found[-1], after[thread]))
                    self.assertTrue(found[0] == 0 or overwrites, self.seed)
            os.kill(pid, signal.SIGKILL)

    def test_twice_is_the_same_and_changes_nothing(self):
        for options in ((), ("--flight-recorder", "--ring-size=64K")):
            for _ in range(10):  # when it was killed, all may just have been stored
                shm = self.new("shm")
                self.left_by_recorder(*options, "--read-period=1m", shm=shm)
                before = self.state_of(shm)
                told = [self.recover(shm, "-o", path) for path in ("first", "second")]
                self.assertEqual(self.state_of(shm), before)
                if told[0]["events"] != 0:
                    break
                for path in ("first", "second", shm):
                    shutil.rmtree(path, ignore_errors=True)
            self.assertGreater(told[0]["events"], 0)
            self.assertEqual(told[0]["events"], told[1]["events"])
            subprocess.run(["diff", "-r", "first", "second"], check=True)
            for path in ("first", "second"):
                shutil.rmtree(path)

    def test_names_of_what_is_recovered(self):
        self.left_by_recorder("--session=db", "--read-period=1m")
        of_session = self.session_directory()
        outputs = [self.recover(directory)["output"] for directory in (self.shm, of_session, of_session)]
        self.assertEqual(outputs, ["db-recovered", "db-recovered-2", "db-recovered-3"])
        result = subprocess.run([LEAT, "recover", self.shm], capture_output=True, text=True)
        self.assertRegex(result.stdout, r"^session db: \d+ events of 1 trace recovered, .* leat view db-recovered-4\n"
                                        f"what was stored before is in {self.directory}/trace-")

    def test_files_that_are_recovered_stay_as_they_are(self):
        self.left_by_recorder()
        of_session = self.session_directory()
        for inside in (of_session / "new", self.shm / "new", of_session / ".." / "new"):
            result = subprocess.run([LEAT, "recover", self.shm, "-o", inside], capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assert_one_line(result.stderr, "is inside of", "elsewhere")
        self.assertEqual([path.name for path in self.shm.iterdir()], [of_session.name])

    def test_which_session(self):
        self.assertIn("is no directory", self.refusal("nowhere"))
        self.shm.mkdir()
        self.assertIn("no session", self.refusal(self.shm))
        for _ in range(2):
            self.left_by_recorder()
        self.assertRegex(self.refusal(self.shm), "has 2 sessions: choose one")
        for path in self.shm.iterdir():
            self.assertEqual(self.recover(path)["errors"], [])
        result = subprocess.run([LEAT, "recover"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)

    def test_only_those_who_own_the_files_may_read_them(self):
        self.left_by_recorder()
        for path in [self.session_directory(), *self.session_directory().rglob("*")]:
            self.assertEqual(path.stat().st_mode & 0o777, 0o700 if path.is_dir() else 0o600, path)

    @needs(can_be_two_users(), "two-users")
    def test_others_are_told_that_they_may_not_read_them(self):
        self.left_by_recorder()
        result = plain_run(LEAT, "recover", self.session_directory().parent, cwd="/", **as_user(65534))
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assert_one_line(result.stderr, str(self.session_directory()), "Permission denied")


@without_sanitizers
class EachCall(RecoverTest):
    @outside_gate("many rounds, and rings are full soon if nobody drains them")
    def test_recorder_is_killed_between_what_it_stores(self):
        """Before a call that writes data, or its index: readers know a packet that is stored, and recovered, too."""
        countdown = self.directory / "countdown"
        for turn in range(25):
            countdown.write_bytes(bytes(PAGE))
            shm, trace, running = self.new("shm"), self.new("trace"), self.committed(pause_us=500)
            recorder = self.started(
                [LEAT, "record", "-o", trace, "--shm-path", shm, "--read-period=10ms", "--", "env", "-u", "LD_PRELOAD",
                 "sh", "-c", 'echo $$; exec "$@"', "sh", *running.arguments],
                env={**os.environ, "LD_PRELOAD": str(PROGRAMS / "libtest-killed-at.so"),
                     "LEAT_TEST_COUNTDOWN": str(countdown)})
            pid = int(recorder.stdout.readline())
            self.is_emitting(running)
            with open(countdown, "r+b") as file:
                file.write(struct.pack("<Q", 1 + self.random.randrange(40)))
            self.assertEqual(recorder.wait(PATIENCE), -signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not pathlib.Path(f"/proc/{pid}/exe").exists(), "the program does not end")
            recovered = self.new("recovered")
            self.assertEqual(self.recover(shm, "-o", recovered)["errors"], [])
            paths = [path for path in (trace, recovered) if self.has_traces(path)]
            self.assert_all(self.read_together(*paths), running.counts())


class OfDaemon(RecoverTest):
    def begun_in_files(self, name, *patterns, shm=None, options=(), channel_options=()):
        """A session whose rings are files. Returns where its trace goes."""
        trace = self.new(name)
        self.leat("create", name, "-o", trace, "--shm-path", shm or self.shm, *options)
        self.leat("enable-channel", "c", *channel_options)
        self.leat("enable-event", *patterns, "-c", "c")
        self.leat("start")
        return trace

class Daemon(OfDaemon):
    def check_everything_is_killed(self, turns, check, options=(), channel_options=(), pause_us=PAUSE_US):
        for turn in range(turns):
            shm = self.new("shm")
            daemon = self.daemon()
            trace = self.begun_in_files("web", "test:*", shm=shm, options=options, channel_options=channel_options)
            programs = [self.committed(pause_us=pause_us) for _ in range(2)]
            processes = [self.started(running.arguments) for running in programs]
            for running in programs:
                self.is_emitting(running)
            self.pause()
            self.kill_all([daemon.process.pid, *self.keepers(), *(process.pid for process in processes)])
            self.kill(daemon)
            for process in processes:
                process.wait(PATIENCE)
            wait_until(lambda: not self.keepers(), "the keeper does not end")
            recovered = self.new("recovered")
            told = self.recover(shm, "-o", recovered)
            self.assertEqual(told["errors"], [])
            check(trace, recovered, told, programs, processes)
            shutil.rmtree(shm)
            # The next daemon says that sessions were lost.
            for path in self.runtime.iterdir():
                if path.name != "apps":
                    path.unlink()

    def texts_by_program(self, paths, processes, warnings):
        trace = subprocess.run(["babeltrace2", *map(str, paths)], capture_output=True, text=True)
        view = subprocess.run([LEAT, "view", *map(str, paths)], capture_output=True, text=True)
        # Those of several traces may happen at the same time.
        self.assertTrue(lines_of(trace.stdout) == lines_of(view.stdout), f"readers differ, seed {self.seed}")
        for line in trace.stderr.splitlines():
            self.assertRegex(line, warnings)
        return ["".join(line for line in trace.stdout.splitlines(True) if f" vpid = {process.pid}," in line)
                for process in processes]

    def test_everything_is_killed(self):
        def check(trace, recovered, told, programs, processes):
            self.assertEqual(told["discarded"], 0)
            paths = [path for path in (trace, recovered) if self.has_traces(path)]
            for text, running in zip(self.texts_by_program(paths, processes, NOTHING), programs):
                self.assert_all(self.numbers_in(text), running.counts())
        self.check_everything_is_killed(20 if IS_WHOLE else 2, check)

    def test_flight_recorder_is_killed(self):
        def check(trace, recovered, told, programs, processes):
            for text, running in zip(self.texts_by_program([recovered], processes, LOST), programs):
                self.assert_last(self.numbers_in(text), running.counts())
        self.check_everything_is_killed(10 if IS_WHOLE else 2, check, ["--snapshot"], ["--ring-size=256K"], pause_us=200)

    def test_rings_of_each_process(self):
        def check(trace, recovered, told, programs, processes):
            self.assertEqual(len(told["traces"]), 2)
            paths = [path for path in (trace, recovered) if self.has_traces(path)]
            for text, running in zip(self.texts_by_program(paths, processes, NOTHING), programs):
                self.assert_all(self.numbers_in(text), running.counts())
        self.check_everything_is_killed(2, check, channel_options=["--buffers=pid"])

    def test_next_daemon_goes_on_with_the_files(self):
        daemon = self.daemon()
        trace = self.begun_in_files("web", "order:tick")
        running = self.program()
        running.do("emit 100")
        files = {path: path.stat().st_ino for path in self.shm.rglob("*.rings")}
        self.assertEqual(len(files), 1)
        for _ in range(3):
            self.kill(daemon)
            running.do("emit 100")
            # The keeper has the files still.
            self.assertIn("is in use", self.refusal(self.shm))
            daemon = self.start_again(daemon)
            running.do("emit 100")
        self.assertEqual({path: path.stat().st_ino for path in self.shm.rglob("*.rings")}, files)
        self.assertEqual(self.json("destroy", "web")["warnings"], [])
        self.assert_numbers(self.read(trace), "order:tick", range(700))
        self.assertEqual(list(self.shm.iterdir()), [])

    def test_trace_that_the_next_daemon_cannot_go_on_with_is_recovered(self):
        """Its keeper lets go of the files."""
        daemon = self.daemon()
        trace = self.begun_in_files("web", "order:tick", channel_options=["--read-period=1m"])
        running = self.program()
        running.do("emit 100")
        # Killed while it writes this, it would leave half of it, which the next one puts right only if it goes on.
        wait_until(lambda: any(path.read_bytes().endswith(b"};\n\n") for path in trace.rglob("metadata")),
                   "the trace has no metadata")
        self.kill(daemon)
        self.assertEqual(running.end(), 0)  # else it gets another trace of the next daemon, which begins while we read
        metadata, = self.shm.rglob("metadata")
        os.truncate(metadata, 0)
        daemon = self.start_again(daemon)
        self.assertIn("session web: a trace is lost: ", daemon.log())
        recovered = self.new("recovered")
        self.recover_when_free(recovered, 0)
        numbers = {event["n"] for path in (trace, recovered) if self.has_traces(path)
                   for event in self.read(path).events("order:tick")}
        self.assertEqual(numbers, set(range(100)))
        self.leat("destroy", "web")
        # Nobody removes what is not stored.
        self.assertEqual(len(list(self.shm.rglob("c.rings"))), 1)

    def test_recover_says_what_is_wrong_with_a_trace_that_a_daemon_has_lost(self):
        daemon = self.daemon()
        self.begun_in_files("web", "order:tick", channel_options=["--buffers=pid"])
        programs = [self.program() for _ in range(2)]
        for running in programs:
            running.do("emit 100")
        self.kill(daemon)
        spoilt, other = sorted(self.shm.rglob("c.rings"))
        os.truncate(spoilt, PAGE)
        daemon = self.start_again(daemon)
        self.assertEqual(daemon.log().count("session web: a trace is lost: "), 1, daemon.log())
        self.leat("destroy", "web")
        self.assertFalse(other.exists())
        told = self.recover_when_free(self.new("recovered"), 1)
        self.assertEqual(told["traces"], [])
        error, = told["errors"]
        self.assertIn(str(spoilt.parent), error)
        self.assertIn("cut off", error)

    def recover_when_free(self, recovered, status):
        """The keeper is told, and does not answer. One that is refused leaves nothing."""
        results = []

        def is_free():
            results.append(subprocess.run([LEAT, "recover", self.shm, "--format=json", "-o", recovered], capture_output=True,
                                          text=True, timeout=PATIENCE))
            return "is in use" not in results[-1].stdout + results[-1].stderr
        wait_until(is_free, "the keeper still has the files")
        self.assertEqual(results[-1].returncode, status, (results[-1].stdout, results[-1].stderr))
        return json.loads(results[-1].stdout)

    def test_daemon_that_is_told_to_end_leaves_no_files(self):
        daemon = self.daemon()
        trace = self.begun_in_files("web", "order:tick", channel_options=["--buffers=pid"])
        running, other = self.program(), self.program()
        for each in (running, other):
            each.do("emit 10")
        self.assertEqual(len(list(self.shm.rglob("trace.json"))), 2)
        self.assertEqual(other.end(), 0)
        wait_until(lambda: len(list(self.shm.rglob("trace.json"))) == 1, "files of a process that has ended stay")
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(list(self.shm.iterdir()), [])
        self.assertEqual(len(self.read(trace).lines), 20)

    def test_what_people_see_of_it(self):
        self.daemon()
        self.begun_in_files("web", "order:tick")
        of_session = str(self.session_directory())
        self.assertRegex(os.path.basename(of_session), r"^web-\d{8}-\d{6}$")
        self.assertEqual(self.session("web")["memory_directory"], of_session)
        self.assertIn(of_session, self.leat("status").stdout)
        self.leat("save", "web", "-o", "web.json")
        self.assertEqual(json.loads(pathlib.Path("web.json").read_text())["shm_path"], str(self.shm))
        self.leat("destroy", "web")
        self.leat("load", "-i", "web.json", "again", "-o", self.new("trace"))
        self.assertEqual(os.path.dirname(self.session("again")["memory_directory"]), str(self.shm))
        self.leat("destroy", "again")
        self.assertEqual(list(self.shm.iterdir()), [])
        pathlib.Path("file").touch()
        refused = self.leat("create", "web", "--shm-path", "file", status=1)
        self.assertIn(f"{self.directory}/file", refused.stderr)

    def test_one_trace_cannot_be_read(self):
        """The others are recovered."""
        daemon = self.daemon()
        self.begun_in_files("web", "order:tick", channel_options=["--buffers=pid", "--read-period=1m"])
        programs = [self.program() for _ in range(3)]
        for running in programs:
            running.do("emit 100")
        self.kill(daemon)
        self.end_keepers()
        wait_until(lambda: not self.keepers(), "the keeper does not end")
        traces = sorted(self.shm.rglob("trace.json"))
        self.assertEqual(len(traces), 3)
        (traces[0].parent / "c.rings").unlink()
        told = self.recover(self.shm, "-o", "recovered", status=1)
        self.assertEqual(len(told["traces"]), 2)
        error, = told["errors"]
        self.assertIn(str(traces[0].parent), error)
        self.assertIn("c.rings", error)
        # All may be stored by then.
        shown = len(self.read("recovered").lines) if self.has_traces(pathlib.Path("recovered")) else 0
        self.assertEqual(shown, told["events"])


class Truncated(OfDaemon):
    def test_ring_file_is_truncated_while_the_daemon_runs(self):
        """By a program of the same user. Only that ring set is lost."""
        for size in (0, PAGE, 2 * PAGE, 40 * PAGE):
            with self.subTest(size):
                shm = self.new("shm")
                daemon = self.daemon()
                other = self.begun("load:tick", name="other")
                self.begun_in_files("web", "order:tick", shm=shm)
                running = self.program()
                running.do("emit 100")
                rings, = shm.rglob("c.rings")
                os.truncate(rings, size)
                wait_until(lambda: "truncated" in daemon.log(), "the daemon does not notice")
                load, = self.switched(1, 20, 200)
                self.leat("list")
                self.assertTrue(daemon.is_alive(), daemon.log())
                evaluated = self.end_all([load])
                counts = self.json("destroy", "other")
                self.assertEqual(len(self.read(other).lines) + sum(by_reason(counts).values()), evaluated)
                self.json("destroy", "web")
                self.assertEqual(list(shm.iterdir()), [])
                self.assertEqual(daemon.stop(), 0)

    def switched(self, count, burst, pause_us):
        started = [Switched(self.new("switched"), burst, pause_us) for _ in range(count)]
        for each in started:
            self.addCleanup(each.close)
            wait_until(lambda each=each: each.evaluated() > 1000, "nothing is evaluated")
        return started

    def end_all(self, programs):
        for each in programs:
            self.assertEqual(each.end(), 0)
        return sum(each.evaluated() for each in programs)


class Hostile(RecoverTest):
    def left(self, *options):
        """A copy of files that a crash has left."""
        shm = self.new("shm")
        running, trace = self.left_by_recorder("--read-period=1m", *options, shm=shm, pause_us=100 if IS_WHOLE else PAUSE_US)
        of_trace, = (path.parent for path in shm.rglob("trace.json"))
        return running, trace, shm, of_trace

    def test_descriptions_that_lie(self):
        running, trace, shm, of_trace = self.left()
        known = json.loads((of_trace / "trace.json").read_text())
        channel = known["trace"]["channels"][0]
        lies = ["", "{", "[" * 100_000, '{"a":' * 50_000, "null", json.dumps({**known, "leat_memory": 1}),
                json.dumps({**known, "channels": []}), json.dumps({**known, "channels": known["channels"] * 300}),
                json.dumps({**known, "channels": [{**known["channels"][0], "name": "../x"}]}),
                json.dumps({**known, "channels": [{**known["channels"][0], "contexts": ["vpid"]}]}),
                json.dumps({**known, "session": 7})]
        lies += [json.dumps({**known, "trace": {**known["trace"], "channels": [{**channel, name: value}]}})
                 for name, value in (("ring_size", 7), ("ring_size", 1 << 62), ("cpu_rings", 0), ("cpu_rings", 1 << 31),
                                     ("thread_rings", (1 << 32) - 1), ("thread_rings", 3), ("created", 1 << 70))]
        for lie in lies:
            (of_trace / "trace.json").write_text(lie)
            result = subprocess.run([LEAT, "recover", shm, "-o", "recovered"], capture_output=True, text=True, timeout=PATIENCE)
            shutil.rmtree("recovered", ignore_errors=True)
            if '"contexts": ["vpid"]' in lie:
                self.assertIn(result.returncode, (0, 1), (lie[:200], result.stderr))
                continue
            self.assertEqual(result.returncode, 1, (lie[:200], result.stdout, result.stderr))
            self.assert_one_line(result.stderr, str(of_trace))

    def test_files_that_are_not_there_or_are_others(self):
        running, trace, shm, of_trace = self.left()
        for name in ("registry", "metadata", "progress", "channel0.rings"):
            path = of_trace / name
            bytes_of_it = path.read_bytes()
            for spoil in (path.unlink, lambda: path.symlink_to("/etc/passwd"), lambda: os.mkfifo(path),
                          lambda: path.write_bytes(b""), lambda: path.write_bytes(bytes(100)),
                          lambda: path.write_bytes(bytes_of_it[:len(bytes_of_it) // 2]),
                          lambda: path.write_bytes(random.Random(self.seed).randbytes(min(len(bytes_of_it), 1 << 20)))):
                path.unlink(missing_ok=True)
                if spoil != path.unlink:
                    spoil()
                result = subprocess.run([LEAT, "recover", shm, "-o", "recovered"], capture_output=True, text=True,
                                        timeout=PATIENCE)
                shutil.rmtree("recovered", ignore_errors=True)
                # The metadata can be made anew.
                if name == "progress" and result.returncode == 0:
                    continue  # it looks like the progress of a trace that has none
                self.assertEqual(result.returncode, 0 if name == "metadata" else 1, (name, result.stderr))
                if name != "metadata":
                    self.assert_one_line(result.stderr, name)
                path.unlink(missing_ok=True)
            path.write_bytes(bytes_of_it)
        self.assert_all_recovered(running, trace, shm)

    def assert_all_recovered(self, running, trace, shm):
        recovered = self.new("recovered")
        self.assertEqual(self.recover(shm, "-o", recovered)["errors"], [])
        paths = [path for path in (trace, recovered) if self.has_traces(path)]
        self.assert_all(self.read_together(*paths), running.counts())

    def test_metadata_that_are_lost_are_made_anew(self):
        running, trace, shm, of_trace = self.left()
        (of_trace / "metadata").write_bytes(bytes((of_trace / "metadata").stat().st_size))
        self.assert_all_recovered(running, trace, shm)

    def spoil_pages(self, of_trace, older):
        """What may be after a power loss: any page of any file is one of before, or was never written."""
        for name in ("channel0.rings", "channel0.rings", "channel0.rings", "progress", "registry", "metadata"):
            path = of_trace / name
            if name != "channel0.rings" and self.random.random() < 0.7:
                continue
            with open(path, "r+b") as file:
                pages = [page for page in range(path.stat().st_size // PAGE)
                         if name != "channel0.rings" or page * PAGE < 8 << 20]
                for page in self.random.choices(pages, k=self.random.choice((1, 1, 3, 20))) if pages else ():
                    file.seek(page * PAGE)
                    file.write(self.random.choice((bytes(PAGE), older[name][page * PAGE:(page + 1) * PAGE].ljust(PAGE, b"\0"))))

    def check_pages_are_lost(self, *options):
        """What is shown was emitted: its numbers fit to each other, and the program has come so far."""
        found = 0
        for turn in range(4):
            shm, trace, running = self.new("shm"), self.new("trace"), self.committed(pause_us=100)
            recorder = self.started([LEAT, "record", "-o", trace, "--shm-path", shm, "--ring-size=64K", *options, "--",
                                     "sh", "-c", 'echo $$; exec "$@"', "sh", *running.arguments])
            pid = int(recorder.stdout.readline())
            self.is_emitting(running, 500)
            of_trace, = (path.parent for path in shm.rglob("trace.json"))
            older = {path.name: path.read_bytes() for path in of_trace.iterdir() if path.stat().st_size < 64 << 20}
            self.is_emitting(running, 3000)
            recorder.kill()
            # The rings get full.
            self.is_emitting(running, running.counts()[0] + 1000)
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not pathlib.Path(f"/proc/{pid}/exe").exists(), "the program does not end")
            description = json.loads((of_trace / "trace.json").read_text())
            for _ in range(10):
                spoilt, out = self.new("spoilt"), self.new("out")
                subprocess.run(["cp", "-r", "--sparse=always", shm, spoilt], check=True)
                copy, = (path.parent for path in spoilt.rglob("trace.json"))
                (copy / "trace.json").write_text(json.dumps({**description, "boot": "another one"}))
                self.spoil_pages(copy, older)
                result = subprocess.run([LEAT, "recover", spoilt, "-o", out], capture_output=True, text=True,
                                        errors="backslashreplace", timeout=PATIENCE)
                self.assertIn(result.returncode, (0, 1), (result.stderr, self.seed))
                if out.exists() and self.has_traces(out):
                    view = subprocess.run([LEAT, "view", out], capture_output=True, text=True,
                                          errors="backslashreplace", timeout=PATIENCE)
                    self.assertEqual(view.returncode, 0, (view.stderr, self.seed))
                    numbers = self.numbers_in(view.stdout)
                    for thread, of_thread in numbers.items():
                        self.assertLess(thread, THREADS)
                        self.assertLessEqual(max(of_thread), running.counts()[thread], self.seed)
                        self.assertEqual(of_thread, sorted(set(of_thread)), self.seed)
                    found += sum(map(len, numbers.values()))
                shutil.rmtree(spoilt)
                shutil.rmtree(out, ignore_errors=True)
            shutil.rmtree(shm)
        self.assertGreater(found, 0)

    @outside_gate("many rounds of random damage")
    def test_pages_are_lost(self):
        self.check_pages_are_lost()

    @outside_gate("many rounds of random damage")
    def test_pages_of_a_flight_recorder_are_lost(self):
        self.check_pages_are_lost("--flight-recorder")


@needs(has_namespaces(), "namespaces")
class FullDisk(RecoverTest):
    def on_small_disk(self, size, *command, environment=()):
        """Runs it with a file system of this size at `shm`. What is left there afterwards is printed."""
        self.shm.mkdir(exist_ok=True)
        script = f'mount -t tmpfs -o size={size} none {self.shm} || exit 77; "$@"; status=$?; find {self.shm} -type f; exit $status'
        return subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", *map(str, command)], capture_output=True,
                              text=True, timeout=PATIENCE, env={**os.environ, **dict(environment)})

    def test_no_room_for_the_rings(self):
        result = self.on_small_disk("512k", LEAT, "record", "-o", "trace", "--shm-path", self.shm, "--", program("emit"), "10", "1")
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assert_one_line(result.stderr, "no room for", "channel0.rings", "bytes", "smaller rings")
        self.assertFalse(pathlib.Path("trace").exists())

    def test_no_room_for_more_rings_of_threads(self):
        """Their programs live, and their events are counted."""
        cpus = os.cpu_count()
        room = (1056 + 200 + cpus * 68 + 3 * 64) << 10
        running = self.committed(pause_us=1000, count=(200,), threads=12)
        command = [LEAT, "record", "-o", "trace", "--summary", "summary", "--shm-path", self.shm, "--ring-size=64K", "--",
                   "env", "GLIBC_TUNABLES=glibc.pthread.rseq=0", *running.arguments]
        result = self.on_small_disk(room, *command)
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        summary = json.loads(pathlib.Path("summary").read_text())
        self.assertEqual(summary["events"] + summary["discarded"], 12 * 200)
        self.assertGreater(summary["events"], 0)
        self.assertEqual(summary["discarded_by_reason"]["no_ring"], summary["discarded"])
        self.assertGreater(summary["discarded"], 0)


if __name__ == "__main__":
    enter_user_namespace()
    main()
