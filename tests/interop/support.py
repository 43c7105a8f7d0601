"""The common part of the interop tests: recording a program, and reading the trace with every reader there is."""
import contextlib
import ctypes
import faulthandler
import functools
import itertools
import json
import operator
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

# ctest calls SCRIPT SOURCE BUILD. By hand: SCRIPT [TEST...], with the release build or that of LEAT_PRESET.
IS_FROM_CTEST = len(sys.argv) == 3 and os.path.isabs(sys.argv[2])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[2]) if IS_FROM_CTEST else SOURCE / "build" / os.environ.get("LEAT_PRESET", "release")
BITS = int(os.environ.get("LEAT_TEST_BITS", "64"))  # of the programs that are recorded
LIBRARIES = BUILD / ("lib32" if BITS == 32 else "lib")
LEAT = str(BUILD / "bin" / "leat")
PROGRAMS = BUILD / "tests" / "programs"
PATIENCE = float(os.environ.get("LEAT_TEST_PATIENCE", 120))  # s; how long a test waits for anything, before it calls that a hang
IS_WHOLE = os.environ.get("LEAT_TEST_ALL") == "1" or not IS_FROM_CTEST  # also what is not for the gate: outside_gate()
HAS_RSEQ = BITS == 64 and "glibc.pthread.rseq=0" not in os.environ.get("GLIBC_TUNABLES", "")

DISCARDED = re.compile(r"^WARNING: Tracer discarded (\d+) events? ")
EVENT = re.compile(r"^\[(?P<time>[^]]+)\] \((?P<delta>[^)]+)\) (?P<host>\S+) (?P<name>[^ ]+): "
                   r"\{ (?:cpu_id|thread_ring) = (?P<cpu>\d+) \}, (?P<rest>.*)$")


def sanitizers_of(build):
    """The sanitizers that its programs are built with."""
    cache = build / "CMakeCache.txt"
    match = re.search(r"^LEAT_SANITIZE:\w+=(.*)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
    return match[1] if match else ""


SANITIZERS = sanitizers_of(BUILD)
CTEST_PATIENCE = 1200 if SANITIZERS else 600  # s; the TIMEOUT of tests/CMakeLists.txt
MUSL_GCC = shutil.which("musl-gcc")
# In front of a program: all its events are in one stream.
ON_ONE_CPU = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))


def program(name, bits=BITS):
    """The path of a program in tests/programs; 32 bits only of some."""
    return str(PROGRAMS / f"test-program-{name}{'-32bit' if bits == 32 else ''}")


def library(name, bits=BITS):
    return str(PROGRAMS / f"libtest-{name}{'-32bit' if bits == 32 else ''}.so")


class Event:
    """One line of babeltrace2's output."""

    def __init__(self, line):
        match = EVENT.match(line)
        assert match, f"not an event: {line!r}"
        self.name = match["name"]
        self.cpu = int(match["cpu"])
        self.rest = match["rest"]  # contexts, if any, and the payload, each in braces

    def __getitem__(self, field):
        """The value of a number or a quoted text among the contexts and fields."""
        match = re.search(rf'[ {{]{field} = ("(?:[^"\\]|\\.)*"|[^ ,}}]+)', self.rest)
        if match is None:
            raise KeyError(f"{field} in {self.rest}")
        text = match[1]
        return text[1:-1] if text.startswith('"') else int(text, 0)


class Trace:
    """The output of babeltrace2 for a trace directory."""

    def __init__(self, path):
        result = subprocess.run(["babeltrace2", str(path)], capture_output=True, text=True, timeout=PATIENCE)
        self.path = path
        self.status = result.returncode
        self.text = result.stdout
        self.stderr = result.stderr
        self.lines = result.stdout.splitlines()

    def events(self, name=None):
        events = [Event(line) for line in self.lines]
        return [event for event in events if name is None or event.name == name]

    def discarded(self):
        """The sum of the numbers in the warnings."""
        return sum(int(match[1]) for match in map(DISCARDED.match, self.stderr.splitlines()) if match)


def is_described(directory):
    """Whether a trace is there that has its metadata: the file may be empty for a moment."""
    return any(path.stat().st_size for path in directory.rglob("metadata"))


LINE_TIME = re.compile(r"^\[([^]]+)\] (?:\(\+[^)]*\) )?")


def lines_of(text):
    """The lines of a viewer's text in their order, without their deltas. Lines of the same time are sorted, because a
    live viewer cannot know which of their streams comes first."""
    timed = [(match[1], f"[{match[1]}] {line[match.end():]}") for line in text.splitlines()
             for match in [LINE_TIME.match(line)]]
    return [line for _, same in itertools.groupby(timed, operator.itemgetter(0)) for _, line in sorted(same)]


class Recording:
    """One run of `leat record`."""

    def __init__(self, result, path, summary):
        self.status = result.returncode
        self.stdout = result.stdout
        self.stderr = result.stderr
        self.path = path
        self.summary = summary


class InteropTest(unittest.TestCase):
    """Each test has a directory of its own, and leaves nothing behind."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="leat-interop-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        # Where programs leave their control files: killed ones leave them for good.
        self.runtime = pathlib.Path(tempfile.mkdtemp(prefix="leat-interop-run-"))
        self.addCleanup(shutil.rmtree, self.runtime, ignore_errors=True)
        # A recorder that is killed leaves its runtime directory. It is created here, so it is deleted with the rest.
        # By default a program waits 3 s for its recorder, or for a daemon with a session: then it goes on untraced.
        environment = unittest.mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": str(self.directory),
                                                            "LEAT_RUNTIME_DIR": str(self.runtime),
                                                            "LEAT_REGISTER_TIMEOUT": str(int(PATIENCE * 1000)),
                                                            **self.sanitizer_options()})
        environment.start()
        self.addCleanup(environment.stop)
        # Clean-ups run last to first, so those of the test end its processes before this one looks.
        self.addCleanup(self.assert_no_sanitizer_reports)

    def sanitizer_options(self):
        """Reports go into files, one for each process, so that those of children and of processes whose output is lost
        are found too. Undefined behaviour is reported on standard error only: it ends the process, and the relay's log
        is checked."""
        if not SANITIZERS:
            return {}
        log = f"log_path={self.directory / 'sanitizer-report'}"
        options = {"ASAN_OPTIONS": log, "LSAN_OPTIONS": log, "UBSAN_OPTIONS": "print_stacktrace=1",
                   "TSAN_OPTIONS": f"{log}:second_deadlock_stack=1"}
        return {name: ":".join(filter(None, [os.environ.get(name), value])) for name, value in options.items()}

    def assert_no_sanitizer_reports(self):
        reports = [path.read_text(errors="replace") for path in sorted(self.directory.glob("sanitizer-report.*"))]
        if reports:
            self.fail("a sanitizer reports:\n" + "\n".join(reports))

    def record_command(self, command, options=(), name="trace"):
        trace = self.directory / name
        return [LEAT, "record", "-o", str(trace), "--summary", str(trace) + ".json", *options, "--", *command]

    def record(self, *command, options=(), name="trace", **arguments):
        """Records a program to its end."""
        result = subprocess.run(self.record_command(command, options, name), capture_output=True, text=True,
                                **{"timeout": PATIENCE, **arguments})
        return self.recording_of(result, name)

    def recording_of(self, result, name):
        """The result of a `leat record` that `record_command` started."""
        path = self.directory / name
        summary_file = pathlib.Path(str(path) + ".json")
        summary = json.loads(summary_file.read_text()) if summary_file.exists() else None
        return Recording(result, path, summary)

    def read(self, path, warnings=DISCARDED):
        """Every reader reads the trace with the same result, and babeltrace2 gives no other warnings."""
        trace = Trace(path)
        self.assertEqual(trace.status, 0, trace.stderr)
        for line in trace.stderr.splitlines():
            self.assertRegex(line, warnings)
        view = subprocess.run([LEAT, "view", str(path)], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(view.returncode, 0, view.stderr)
        self.assert_same_text(view.stdout, trace)
        return trace

    def assert_same_text(self, text, trace):
        """What leat view prints is what babeltrace2 prints."""
        if text != trace.text:
            for ours, theirs in zip(text.splitlines(), trace.lines):
                self.assertEqual(ours, theirs, "leat view prints something else than babeltrace2")
        self.assertTrue(text == trace.text, "leat view prints more or fewer events than babeltrace2")

    def read_recording(self, recording):
        """Returns the trace of a recording, after checking the closing figures."""
        self.assertIsNotNone(recording.summary, recording.stderr)
        trace = self.read(recording.path)
        self.assertEqual(recording.summary["events"], len(trace.lines))
        self.assertEqual(recording.summary["discarded"], trace.discarded())
        return trace

    def read_complete(self, recording):
        """The trace of a recording that discarded nothing."""
        trace = self.read_recording(recording)
        self.assertEqual(recording.summary["discarded"], 0, recording.summary["discarded_by_reason"])
        self.assertEqual(trace.stderr, "")
        return trace

    def assert_like_plain(self, recording, plain):
        """The program's own output and exit status are the same as without a recorder."""
        self.assertEqual(recording.stdout, plain.stdout)
        other_lines = [line for line in recording.stderr.splitlines() if not line.startswith("leat: ")]
        self.assertEqual(other_lines, plain.stderr.splitlines())
        self.assertEqual(recording.status, exit_status_of(plain.returncode), recording.stderr)

    def assert_accounted(self, emitted, delivered, counted, what=None):
        """Each event is in the trace once, or counted. Where that fails, nobody looks twice (tools/run-tests)."""
        if emitted != delivered + counted:
            self.fail(f"leat-defect: of {emitted} events, {delivered} are there and {counted} are counted"
                      f"{'' if what is None else f': {what() if callable(what) else what}'}")

    def assert_one_line(self, text, *parts):
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertTrue(text.startswith("leat: "), text)
        for part in parts:
            self.assertIn(part, text)


def note_skip(capability):
    """Notes that something is skipped, in a form that tools/test finds. Returns whether that is allowed: in continuous
    integration (CI=true) only what tests/allowed-skips names may be skipped."""
    print(f"\nleat-skip: {capability}", flush=True)
    allowed = (SOURCE / "tests" / "allowed-skips").read_text().splitlines()
    return os.environ.get("CI") != "true" or any(line.startswith(f"{capability}: ") for line in allowed)


def lacks(capability):
    """Ends a test that needs something this machine lacks."""
    if not note_skip(capability):
        raise AssertionError(f"this machine lacks {capability}")
    raise unittest.SkipTest(capability)


def needs(condition, capability):
    """Decorates a test, or a class for all its tests: see lacks()."""
    def decorate(test):
        if condition:
            return test
        if isinstance(test, type):
            test.setUp = lambda self: lacks(capability)
            return test
        return functools.wraps(test)(lambda *_: lacks(capability))
    return decorate


def outside_gate(reason):
    """Decorates a test, or a class for all its tests, that says the same on no two machines, or takes long: it asserts how long
    something takes, needs load to show anything, or counts on chance. `./dev test --all` runs it, and so does whoever calls the
    script by hand; the gate (`./dev test`) does not. Classes inherit it."""
    assert reason
    return (lambda test: test) if IS_WHOLE else unittest.skip(f"outside the gate: {reason}")


def has(*programs):
    return all(map(shutil.which, programs))


# For tests of properties that sanitizers change. The release build runs them.
without_sanitizers = needs(not SANITIZERS, "sanitizers")


@functools.cache
def runs_32_bit_programs():
    """Whether the kernel does: some are built without that, or started without it."""
    base, end_with_0 = 0x8048000, bytes.fromhex("b801000000 31db cd80")
    header = b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    size = 84 + len(end_with_0)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "of-32-bit"
        path.write_bytes(header + struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 0x1000) + end_with_0)
        path.chmod(0o755)
        try:
            return subprocess.run([path], check=False).returncode == 0
        except OSError:
            return False


def can_be_two_users():
    """Whether we are root, and not only in a user namespace that has no other users."""
    ranges = pathlib.Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    return os.geteuid() == 0 and any(int(line.split()[2]) > 65534 for line in ranges)


def enter_user_namespace():
    """Starts this script again as root of a user namespace, unless we are root of the whole machine. For scripts that need
    mounts or networks of their own. A network of its own must be made here, too, because only its owner may come back
    into one."""
    own = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    is_inside = os.environ.get("LEAT_TEST_IN_NAMESPACE") == str(os.getpid())
    if can_be_two_users() or is_inside or subprocess.run([*own, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        return
    os.environ["LEAT_TEST_IN_NAMESPACE"] = str(os.getpid())
    os.execvp(own[0], [*own, sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]])


def has_namespaces():
    return subprocess.run(["unshare", "--mount", "--net", "true"], stderr=subprocess.DEVNULL).returncode == 0


def has_rseq():
    try:
        return ctypes.c_uint.in_dll(ctypes.CDLL(None), "__rseq_size").value != 0
    except ValueError:
        return False


def compiled(compiler, path, source):
    """Compiles `source` into a C program at `path`, with these compiler options."""
    subprocess.run([*compiler, "-o", path, "-x", "c", "-"], input=source, text=True, check=True)
    return str(path)


def plain_run(*command, **arguments):
    """Runs the same program without a recorder."""
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **arguments)


def exit_status_of(returncode):
    """The status as a shell gives it: 128 + signal for a process that was killed."""
    return returncode if returncode >= 0 else 128 - returncode


def without_daemon():
    """Our environment, without a daemon in it."""
    return {name: value for name, value in os.environ.items() if name != "LEAT_RECORDER_DIR"}


def wait_until(condition, what):
    """Waits until the condition gives something true, and returns that."""
    deadline = time.monotonic() + PATIENCE  # moment: patience
    while not (result := condition()):
        if time.monotonic() > deadline:  # moment: patience
            raise TimeoutError(what)
        time.sleep(0.02)  # moment: looks again
    return result


def fields_of(pid):
    """What /proc/PID/stat says, from the process's state on: proc(5). Its name may contain anything."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def state_of(pid):
    """The kernel's letter for it: "T" is stopped, "Z" a zombie, "X" gone."""
    try:
        return fields_of(pid)[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def stop_process(pid):
    """None of its threads runs an instruction of its own any more, nor if it has ended. The signal alone leaves them time,
    until one of them gets a CPU to hear of it."""
    os.kill(pid, signal.SIGSTOP)

    def stands_still():
        return state_of(pid) in "ZX" or all(state_of(thread) in "TX" for thread in os.listdir(f"/proc/{pid}/task"))
    wait_until(stands_still, "it does not stand still")


class Held:
    """A process that is to stand where it has made a system call for the first time from now on, as strace(1) sees it:
    `options` say which call."""

    def __init__(self, test, pid, call, *options):
        self.log = test.directory / f"strace-{pid}"
        self.call = call
        self.strace = subprocess.Popen(["strace", "-f", "-qq", "-p", str(pid), "-e", f"trace={call}", "-e",
                                        f"inject={call}:delay_exit={int(PATIENCE * 1e6)}:when=1", *options, "-o", self.log])
        test.addCleanup(self.let_go)
        threads = pathlib.Path(f"/proc/{pid}/task")
        wait_until(lambda: all("TracerPid:\t0\n" not in (thread / "status").read_text() for thread in threads.iterdir()),
                   "strace does not attach")

    def wait(self):
        wait_until(lambda: self.log.exists() and self.call in self.log.read_text(), f"{self.call} is not called")

    def let_go(self):
        self.strace.kill()
        self.strace.wait()


def open_files_of(pid):
    """What its descriptors lead to; it may close them meanwhile."""
    found = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(entry))
    return found


def sleeps_of(pid):
    """How often its first thread has gone to sleep."""
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def cpu_seconds_of(pid):
    user, system = fields_of(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main():
    # Where a test hangs is said before ctest ends it.
    faulthandler.dump_traceback_later(CTEST_PATIENCE - 20, exit=IS_FROM_CTEST)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without rseq, tests of recordings would test the rings of threads twice.
    if HAS_RSEQ and not has_rseq() and not note_skip("rseq"):
        raise SystemExit("this machine lacks rseq")
    if BITS == 32 and not runs_32_bit_programs():
        raise SystemExit(0 if note_skip("32-bit-kernel") else "this machine runs no 32-bit programs")
    unittest.main(argv=sys.argv[:1] if IS_FROM_CTEST else None, verbosity=2)
