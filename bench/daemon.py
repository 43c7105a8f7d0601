#!/usr/bin/env python3
"""What a session daemon costs: leat-sessiond, compared with lttng-sessiond.

    bench/daemon.py [--build DIR] [--json FILE] [--rounds N] [--rows TEXT] [--quick] [--output DIR]

Start-up: how much later an instrumented program ends than a plain one that starts just before or after it. Both pass
one tracepoint and end. Daemons are not running, idle (no session), active (a session that records the event), or
stopped by SIGSTOP, with and without an active session.

Steering: the three commands that begin a recording, create, enable-event and start, as a script runs them.

Short programs: 50 a second start, emit an event, and end, while a session is active. The CPU time is that of all
daemons; each event must be in the trace.

Many programs: each has 100 events. A session is active, and one wildcard then enables the events of all programs. The
time is from the start of that command until the last program finds its last event on; a program looks every 50 ms.
Then the daemons' memory is read. With 100 programs, the daemons' CPU time is measured afterwards, while nothing
happens.

LTTng runs with --no-kernel. Daemons are all processes of either side: leat-keeper, lttng-consumerd and lttng-runas, too. Both have per-user buffers with their
default sizes. Daemons and programs share all CPUs.
"""

import contextlib
import mmap
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import support
from relays import allow_many_descriptors
from support import Daemons, Failed, Samples, cpu_seconds, run, say, wait_for

SIDES = {"leat": "leat", "peer": "lttng"}  # and the suffix of their programs
STARTS, QUICK_STARTS = 40, 2
STOPPED_ACTIVE_STARTS = 1  # each takes seconds
STEERED, QUICK_STEERED = 10, 1
RATE = 50
SHORT_SECONDS, QUICK_SHORT_SECONDS = 20, 1
MANY, QUICK_MANY = 1000, 20
IDLE_PROGRAMS, QUICK_IDLE_PROGRAMS = 100, 10
IDLE_SECONDS, QUICK_IDLE_SECONDS = 10, 0.5
SETTLE_SECONDS, QUICK_SETTLE_SECONDS = 3, 0.2
PATIENCE = 180
SPAWNED_AT_ONCE = 50

STATES = ["none", "idle", "active", "stopped", "stopped-active"]
ROWS = {"daemon/start-plain": "ms",
        **{f"daemon/start-{state}": "ms" for state in STATES},
        "daemon/create-enable-start": "ms",
        "daemon/short-programs-cpu-percent": "%",
        "daemon/all-on": "ms", "daemon/all-on-rss-mb": "MiB",
        "daemon/idle-cpu-percent": "%"}


def resident_kib(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has ended, and perhaps nobody has waited for it yet
    return int(re.search(r"\nPss:\s+(\d+)", text)[1])


def resident_mib(pids):
    """What two of them share counts once."""
    return sum(map(resident_kib, pids)) / 1024


def pids_of(name):
    found = subprocess.run(["pgrep", "-x", name], capture_output=True, text=True, check=False)
    return list(map(int, found.stdout.split()))


class SessionDaemon:
    """A session daemon, as long as a `with` lasts, and how it is steered."""

    def __init__(self, work):
        self.work = work
        self.daemons = Daemons()
        self.process = None
        self.sessions = 0

    def __enter__(self):
        self.prepare()
        self.process = self.daemons.start(*self.command())
        wait_for(self.is_ready, f"{self.command()[0]} does not start")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)
        self.daemons.__exit__()

    def is_ready(self):
        return subprocess.run([str(word) for word in self.list_command()], capture_output=True,
                              check=False).returncode == 0

    def pids(self):
        return [self.process.pid, *pids_of("leat-keeper")]

    @contextlib.contextmanager
    def stopped(self):
        """While this lasts, the daemon does nothing."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def session(self, pattern):
        """An active session. Gives the directory of its trace."""
        trace = self.begin(pattern)
        yield trace
        self.end()

    def new_trace(self):
        self.sessions += 1
        return self.work / f"trace-{self.sessions}"


class LeatDaemon(SessionDaemon):
    def __init__(self, programs, work):
        super().__init__(work)
        self.programs = programs

    def prepare(self):
        pass

    def command(self):
        return [self.programs / "leat-sessiond"]

    def list_command(self):
        return [self.programs / "leat", "list"]

    def leat(self, *words):
        run([self.programs / "leat", *words])

    def begin(self, pattern):
        trace = self.new_trace()
        self.leat("create", "bench", "-o", trace)
        self.enable(pattern)
        self.leat("start")
        return trace

    def enable(self, pattern):
        self.leat("enable-event", pattern)

    def end(self):
        self.leat("stop")
        self.leat("destroy", "bench")


class LttngDaemon(SessionDaemon):
    def prepare(self):
        home = self.work / "home"
        home.mkdir(exist_ok=True)
        os.environ["LTTNG_HOME"] = os.environ["HOME"] = str(home)

    def command(self):
        return ["lttng-sessiond", "--no-kernel"]

    def list_command(self):
        return ["lttng", "--no-sessiond", "list"]

    @staticmethod
    def lttng(*words):
        run(["lttng", "--no-sessiond", *words])

    def begin(self, pattern):
        trace = self.new_trace()
        self.lttng("create", "bench", f"--output={trace}")
        self.enable(pattern)
        self.lttng("start")
        return trace

    def enable(self, pattern):
        self.lttng("enable-event", "--userspace", pattern)

    def end(self):
        self.lttng("stop")
        self.lttng("destroy", "bench")

    def pids(self):
        return [self.process.pid, *pids_of("lttng-consumerd"), *pids_of("lttng-runas")]


class Meeting:
    """What the programs of bench/programs/many.c share."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def started(self):
        return struct.unpack_from("<Q", self.memory, 0)[0]

    def complete(self):
        return struct.unpack_from("<Q", self.memory, 8)[0]

    def last_ns(self):
        return struct.unpack_from("<Q", self.memory, 16)[0]

    def end(self):
        struct.pack_into("<Q", self.memory, 24, 1)


class ManyPrograms:
    """Programs of 100 events each, as long as a `with` lasts."""

    def __init__(self, program, count, work):
        self.program = program
        self.count = count
        self.meeting = Meeting(work / "meeting")
        self.processes = []

    def __enter__(self):
        # LTTng's programs wait until they are registered.
        environment = dict(os.environ, LTTNG_UST_REGISTER_TIMEOUT="-1")
        for _ in range(self.count):
            self.processes.append(subprocess.Popen([self.program, self.meeting.path], env=environment,
                                                   stdin=subprocess.DEVNULL))
            wait_patiently(lambda: self.meeting.started() > len(self.processes) - SPAWNED_AT_ONCE, "programs to start")
        wait_patiently(lambda: self.meeting.started() == self.count, "programs to start")
        return self

    def __exit__(self, *_):
        self.meeting.end()
        for process in self.processes:
            process.wait()

    def wait_until_on(self):
        wait_patiently(lambda: self.meeting.complete() == self.count, "events to be on")
        return self.meeting.last_ns()


def wait_patiently(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"waited for {what} in vain")
        time.sleep(0.005)


def milliseconds_of(program):
    begin = time.perf_counter_ns()
    pid = os.posix_spawn(program, [str(program)], os.environ)
    _, status = os.waitpid(pid, 0)
    end = time.perf_counter_ns()
    if status != 0:
        raise Failed(f"{program} ended with {status}")
    return (end - begin) / 1e6


def check_events(trace, count):
    """babeltrace2 finds that many events in the trace."""
    counted = subprocess.run(["babeltrace2", str(trace), "--component", "sink.utils.counter"], text=True,
                             capture_output=True, check=False)
    found = re.findall(r"(\d+) Event messages?$", counted.stdout, re.MULTILINE)
    if counted.returncode != 0 or counted.stderr:
        raise Failed(f"babeltrace2 complains about the trace: {counted.stderr.strip()}")
    if not found or int(found[-1]) != count:
        raise Failed(f"{found[-1] if found else 'no'} events in the trace of {count} programs")


class Bench:
    def __init__(self, programs, work):
        self.programs = programs
        self.work = work
        self.samples = {name: Samples() for name in ROWS}
        self.starts = QUICK_STARTS if support.IS_QUICK else STARTS

    def program(self, name, side):
        return self.programs / f"bench-{name}-{SIDES[side]}"

    def new_daemon(self, side):
        work = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        return LeatDaemon(self.programs, work) if side == "leat" else LttngDaemon(work)

    def add(self, row, side, *figures):
        self.samples[f"daemon/{row}"].add(side, figures)

    def measure(self, side):
        """Everything, with one daemon after the other: each finds the machine as the other has left it."""
        self.measure_starts(side, "none")
        if any(map(support.is_wanted, [f"daemon/start-{state}" for state in STATES[1:]])):
            with self.new_daemon(side) as daemon:
                self.measure_starts_with(side, daemon)
        for row, measure in {"create-enable-start": self.measure_steering,
                             "short-programs-cpu-percent": self.measure_short_programs,
                             "all-on": self.measure_all_on, "idle-cpu-percent": self.measure_idle}.items():
            if support.is_wanted(f"daemon/{row}"):
                with self.new_daemon(side) as daemon:
                    measure(side, daemon)

    def measure_starts(self, side, state, starts=None):
        if not support.is_wanted(f"daemon/start-{state}"):
            return
        plain, traced = self.programs / "bench-start-plain", self.program("start", side)
        for number in range(starts or self.starts):
            took = {program: milliseconds_of(program) for program in support.in_turn([plain, traced], number)}
            self.add(f"start-{state}", side, took[traced] - took[plain])
            self.add("start-plain", "floor", took[plain])

    def measure_starts_with(self, side, daemon):
        self.measure_starts(side, "idle")
        with daemon.stopped():
            # LTTng's programs wait for seconds here.
            self.measure_starts(side, "stopped", min(self.starts, 4) if side == "peer" else None)
        with daemon.session("bench:*"):
            self.measure_starts(side, "active")
            with daemon.stopped():
                self.measure_starts(side, "stopped-active", STOPPED_ACTIVE_STARTS)

    def measure_steering(self, side, daemon):
        for _ in range(QUICK_STEERED if support.IS_QUICK else STEERED):
            begin = time.perf_counter_ns()
            daemon.begin("bench:*")
            self.add("create-enable-start", side, (time.perf_counter_ns() - begin) / 1e6)
            daemon.end()

    def measure_short_programs(self, side, daemon):
        seconds = QUICK_SHORT_SECONDS if support.IS_QUICK else SHORT_SECONDS
        program = self.program("start", side)
        with daemon.session("bench:*") as trace:
            milliseconds_of(program)  # the rings are made for the first program of a user
            before, begin = cpu_seconds(daemon.pids()), time.monotonic()
            processes = []
            for number in range(seconds * RATE):
                time.sleep(max(0.0, begin + number / RATE - time.monotonic()))
                processes.append(subprocess.Popen([program]))
                processes = [process for process in processes if process.poll() is None]
            for process in processes:
                process.wait()
            took = time.monotonic() - begin
            self.add("short-programs-cpu-percent", side, 100 * (cpu_seconds(daemon.pids()) - before) / took)
        check_events(trace, seconds * RATE + 1)

    def measure_all_on(self, side, daemon):
        with ManyPrograms(self.program("many", side), QUICK_MANY if support.IS_QUICK else MANY, daemon.work) as many, \
                daemon.session("none:*"):
            begin = time.monotonic_ns()
            daemon.enable("many:*")
            self.add("all-on", side, (many.wait_until_on() - begin) / 1e6)
            self.add("all-on-rss-mb", side, resident_mib(daemon.pids()))

    def measure_idle(self, side, daemon):
        count = QUICK_IDLE_PROGRAMS if support.IS_QUICK else IDLE_PROGRAMS
        seconds = QUICK_IDLE_SECONDS if support.IS_QUICK else IDLE_SECONDS
        with ManyPrograms(self.program("many", side), count, daemon.work) as many, daemon.session("many:*"):
            many.wait_until_on()
            time.sleep(QUICK_SETTLE_SECONDS if support.IS_QUICK else SETTLE_SECONDS)
            before = cpu_seconds(daemon.pids())
            time.sleep(seconds)
            self.add("idle-cpu-percent", side, 100 * (cpu_seconds(daemon.pids()) - before) / seconds)


def measure(programs, rounds, work):
    allow_many_descriptors()
    runtime = work / "run"
    runtime.mkdir(mode=0o755)
    os.environ["LEAT_RUNTIME_DIR"] = str(runtime)
    sides = [side for side in SIDES if (programs / f"bench-many-{SIDES[side]}").exists()]
    if shutil.which("lttng-sessiond") is None or len(sides) == 1:
        say("LTTng is not here (./dev setup brings it): no peer in the table")
        sides = ["leat"]
    work.chmod(0o755)
    bench = Bench(programs, work)
    for number in range(rounds):
        for side in support.in_turn(sides, number):
            say(f"round {number + 1} of {rounds}: {SIDES[side]}")
            bench.measure(side)
    return [support.row(name, ROWS[name], samples) for name, samples in bench.samples.items() if samples.of]


if __name__ == "__main__":
    support.main("compare leat-sessiond with lttng-sessiond", "bench-many-leat", 3, measure, peer="lttng-sessiond")
