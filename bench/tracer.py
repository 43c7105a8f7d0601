#!/usr/bin/env python3
"""The cost of an event in Leat, in LTTng-UST, and in two floors.

    bench/tracer.py [--build DIR] [--json FILE] [--rounds N] [--quick] [--output DIR]

Each round runs every event once with Leat, once with LTTng-UST, and once with each floor: a bare `rdtsc` (the floor),
and `rdtsc` and as many bytes as Leat's record has, written into a buffer of the thread's own (the copy: the least that
any tracer does). They take turns, so that all of them meet whatever else the machine does. A run repeats a short loop
and gives its fastest repetition, because other work on the same processor (or on its host, if it is virtual) only ever
adds time. The empty loop is subtracted. The loop runs on CPU 0, daemons and consumers on CPU 1. Both tracers write
per-user buffers, in discard mode, and a buffer holds all that a run emits. So nothing can be discarded, and babeltrace2
counts the events of every trace to show it.

LTTng's default channel has no contexts and, for so few events, compact headers. So Leat is told to add no contexts.
Rows called "+contexts" have those that `leat record` adds by default (vpid, vtid, procname), on both sides.
"+large-header" has Leat's header for many event classes (6 bytes instead of 4), for which LTTng has no switch.

"+flight-recorder" has rings that nobody drains, whose writers go on over the oldest events: compare it with the row without.

Two rows have sessions of the session daemons, with the default contexts. With "+two-sessions", two active sessions
record each event, each in buffers of its own. With "stopped-session", a session has recorded the program's first events
and is then stopped.

Rows called "paused" have events 10 us apart, each timed by itself. Three rows time a single pass, with the 99.9th
percentile and the longest of the gaps between two events. "cold" has a process's first events in a new recording, whose
memory nobody has touched. "new-process" has its first events in memory that another process has touched. "warm" has
events in memory that the process itself has touched. All other rows are warm, too.
"""

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import time

import support
from support import CONTEXTS, Failed, Samples, is_alive, run, say

WARM_UP_EVENTS = 10_000  # bench/programs/emit.c
COLD_WARM_UP_EVENTS = 16  # bench/programs/emit.c
SINGLE = "two-integers"  # the event of all rows that have only one
SUB_BUFFERS = 16
CONSUMER_CPU = ["taskset", "-c", "1"]


class Records:
    """What a record has in addition to the event's fields."""

    def __init__(self, suffix, has_contexts=False, has_large_header=False, overwrites=False):
        self.suffix = suffix  # of the row's name
        self.has_contexts = has_contexts
        self.has_large_header = has_large_header
        self.overwrites = overwrites

    def words(self):
        """Arguments for `leat record`."""
        return (support.context_words(self.has_contexts) + (["--header", "large"] if self.has_large_header else []) +
                (["--flight-recorder"] if self.overwrites else []))

    def are_ours_alone(self):
        return self.has_large_header or self.overwrites


BARE = Records("")
WITH_DEFAULT_CONTEXTS = Records("+contexts", has_contexts=True)
WITH_LARGE_HEADER = Records("+large-header", has_large_header=True)
IN_A_FLIGHT_RECORDER = Records("+flight-recorder", overwrites=True)


@dataclasses.dataclass(frozen=True)
class Extent:
    """How much is run. The events of one run fit into a buffer."""

    events: list[str]
    with_contexts: list[str]  # the events that are measured with contexts, too
    sized: list[tuple[str, Records]]
    single_records: list[Records]  # the kinds of records in rows that have one event only
    buffer: int  # bytes for each CPU
    loop_events: int
    repetitions: int
    repetitions_with_contexts: int  # records are larger, the buffer is not
    disabled_events: int
    size_events: int
    starts: int  # of each program
    paused_events: int
    paused_repetitions: int
    single_events: int


FULL = Extent(events=["none", "two-integers", "four-integers", "io-request", "string"],
              with_contexts=["none", "two-integers", "string"],
              sized=[("two-integers", BARE), ("io-request", BARE), ("two-integers", WITH_DEFAULT_CONTEXTS),
                     ("two-integers", WITH_LARGE_HEADER)],
              single_records=[BARE, WITH_DEFAULT_CONTEXTS], buffer=32 << 20, loop_events=20_000, repetitions=25,
              repetitions_with_contexts=16, disabled_events=20_000_000, size_events=500_000, starts=200,
              paused_events=200, paused_repetitions=20, single_events=20_000)
QUICK = Extent(events=["two-integers"], with_contexts=["string"],
               sized=[("two-integers", WITH_DEFAULT_CONTEXTS), ("two-integers", WITH_LARGE_HEADER)],
               single_records=[BARE], buffer=4 << 20, loop_events=1_000, repetitions=5, repetitions_with_contexts=5,
               disabled_events=100_000, size_events=20_000, starts=3, paused_events=20, paused_repetitions=5,
               single_events=2_000)


class Trace:
    """Checks a finished trace: every event must be there."""

    def __init__(self, directory, events):
        self.directory = directory
        self.events = events
        counted = subprocess.run(CONSUMER_CPU + ["babeltrace2", str(directory), "--component", "sink.utils.counter"],
                                 text=True, capture_output=True, check=False)
        # It prints its counts as it goes on; the last ones are those of the whole trace.
        found = re.findall(r"(\d+) Event messages?$", counted.stdout, re.MULTILINE)
        if counted.returncode != 0 or counted.stderr:
            raise Failed(f"babeltrace2 complains about the trace: {counted.stderr.strip()}")
        if not found or int(found[-1]) != events:
            raise Failed(f"{found[-1] if found else 'no'} events in the trace, {events} were emitted")

    def bytes_an_event(self):
        streams = [file for file in self.directory.rglob("*_*")
                   if file.is_file() and file.suffix != ".idx" and file.name != "metadata"]
        return sum(file.stat().st_size for file in streams) / self.events


class Leat:
    def __init__(self, programs, work, buffer):
        self.programs = programs
        self.buffer = buffer
        self.trace = work / "leat-trace"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def record(self, command, events, records=BARE):
        shutil.rmtree(self.trace, ignore_errors=True)
        printed = run(CONSUMER_CPU + [self.programs / "leat", "record", "-o", self.trace, *records.words(),
                                      "--ring-size", str(self.buffer), "--", *command])
        return printed, Trace(self.trace, events)

    def emitter(self):
        return self.programs / "bench-emit-leat"


class LeatSessions:
    """Leat's session daemon. It runs as long as a `with` lasts."""

    def __init__(self, leat, work):
        self.programs = leat.programs
        self.buffer = leat.buffer
        self.emitter = leat.emitter
        self.runtime = work / "leat-run"
        self.daemons = support.Daemons()

    def __enter__(self):
        self.runtime.mkdir(exist_ok=True)
        os.environ["LEAT_RUNTIME_DIR"] = str(self.runtime)
        self.daemons.start(*CONSUMER_CPU, self.programs / "leat-sessiond")
        support.wait_for(self.is_ready, "leat-sessiond does not start")
        return self

    def __exit__(self, *_):
        self.daemons.__exit__()
        del os.environ["LEAT_RUNTIME_DIR"]

    def is_ready(self):
        return subprocess.run([self.programs / "leat", "list"], capture_output=True, check=False).returncode == 0

    def leat(self, *words):
        run(CONSUMER_CPU + [self.programs / "leat", *words])

    def begin(self, name, trace, _records):
        """The channel of a session always has the default contexts."""
        shutil.rmtree(trace, ignore_errors=True)
        self.leat("create", name, "-o", trace)
        self.leat("enable-channel", "channel", "-s", name, f"--ring-size={self.buffer}")
        self.leat("enable-event", "bench:*", "-s", name)
        self.leat("start", name)

    def stop(self, name):
        self.leat("stop", name)

    def end(self, name):
        self.leat("destroy", name)


class Lttng:
    """LTTng's session daemon, with a session for each run."""

    def __init__(self, programs, work, buffer):
        self.programs = programs
        self.buffer = buffer
        self.home = work / "lttng"
        self.trace = work / "lttng-trace"
        self.pid = None

    def __enter__(self):
        self.home.mkdir()
        os.environ["LTTNG_HOME"] = str(self.home)
        os.environ["HOME"] = str(self.home)
        pid_file = self.home / "pid"
        # Not run(): the daemon keeps the output open, so run() would never see its end.
        nowhere = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command = CONSUMER_CPU + ["lttng-sessiond", "--no-kernel", "--background", "--pidfile", str(pid_file)]
        if subprocess.run(command, check=False, **nowhere).returncode != 0 or not pid_file.exists():
            raise Failed("lttng-sessiond does not start")
        self.pid = int(pid_file.read_text())
        return self

    def __exit__(self, *_):
        if self.pid is None:
            return
        os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while is_alive(self.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        if is_alive(self.pid):
            os.kill(self.pid, signal.SIGKILL)

    @staticmethod
    def lttng(*words):
        return run(CONSUMER_CPU + ["lttng", "--no-sessiond", *words])

    def record(self, command, events, records=BARE):
        try:
            self.begin("bench", self.trace, records)
            printed = run(command)
            self.stop("bench")
        finally:
            self.end("bench")
        return printed, Trace(self.trace, events)

    def begin(self, name, trace, records=BARE):
        shutil.rmtree(trace, ignore_errors=True)
        self.lttng("create", name, f"--output={trace}")
        self.lttng("enable-channel", "--userspace", f"--session={name}", "--buffers-uid", "--discard",
                   f"--subbuf-size={self.buffer // SUB_BUFFERS}", f"--num-subbuf={SUB_BUFFERS}", "channel")
        self.lttng("enable-event", "--userspace", f"--session={name}", "--channel=channel", "bench:*")
        if records.has_contexts:
            self.lttng("add-context", "--userspace", f"--session={name}", "--channel=channel",
                       *[f"--type={context}" for context in CONTEXTS])
        self.lttng("start", name)

    def stop(self, name):
        self.lttng("stop", name)

    def end(self, name):
        self.lttng("destroy", name)

    def emitter(self):
        return self.programs / "bench-emit-lttng"


def loop_times(printed):
    """(ns of the loop, ns of the empty loop) for each repetition."""
    return [tuple(int(figure) for figure in line.split()[:2]) for line in printed.splitlines()]


def ns_an_event(printed, events):
    """Of the fastest loop and the fastest empty one: the slowest empty one would make some loop seem too fast."""
    loops, empties = zip(*loop_times(printed))
    return [(min(loops) - min(empties)) / events]


class Bench:
    def __init__(self, programs, tracers, extent, work):
        self.programs = programs
        self.work = work
        self.tracers = tracers  # by side: "leat", and "peer" if LTTng is installed
        self.extent = extent
        self.round_number = 0
        self.samples = {}
        self.emitted = {}  # rows of the emitter, in order

    def add(self, row, side, figures):
        self.samples.setdefault(row, Samples()).add(side, figures)

    def add_emitted(self, row, side, figures):
        self.emitted[row] = True
        self.add(row, side, figures)

    def in_turn(self, sides):
        return support.in_turn(sides, self.round_number)

    def tracers_of(self, records):
        """The tracers that can write such records."""
        return [side for side in self.tracers if side == "leat" or not records.are_ours_alone()]

    def emit(self, words, events, records, has_copy=True, touch_first=False):
        """Runs the emitter with every tracer. Returns what each printed, by side, in the order of this round."""
        printed = {}
        copy = [] if records.are_ours_alone() or not has_copy else ["copy"]
        for side in self.in_turn([*self.tracers_of(records), "floor", *copy]):
            if side == "floor":
                printed[side] = run([self.programs / "bench-emit-plain", *words])
            elif side == "copy":
                program = f"bench-emit-copy{'-contexts' if records.has_contexts else ''}"
                printed[side] = run([self.programs / program, *words])
            else:
                emitter = self.tracers[side].emitter()
                # The two programs run one after the other in the same recording.
                touching = ["sh", "-c", f'"$0" {SINGLE} 1 1 1 touch && exec "$0" "$@"'] if touch_first else []
                printed[side], _ = self.tracers[side].record([*touching, emitter, *words], events, records)
        return printed

    def measure_events(self, names, repetitions, records=BARE):
        events = self.extent.loop_events
        for event in names:
            printed = self.emit([event, events, repetitions, 1], events * repetitions + WARM_UP_EVENTS, records)
            for side, text in printed.items():
                self.add_emitted(event + records.suffix, side, ns_an_event(text, events))

    def measure_paused(self, records):
        events, repetitions = self.extent.paused_events, self.extent.paused_repetitions
        printed = self.emit([SINGLE, events, repetitions, 1, "paused"], events * repetitions + WARM_UP_EVENTS, records)
        for side, text in printed.items():
            self.add_emitted(f"paused-{SINGLE}{records.suffix}", side, ns_an_event(text, events))

    def measure_single(self, name, mode, warm_up_events, records, **how):
        """Times a single pass, event by event."""
        events = self.extent.single_events
        printed = self.emit([SINGLE, events, 1, 1, mode], events + warm_up_events, records, **how)
        row = f"{name}-{SINGLE}{records.suffix}"
        for side, text in printed.items():
            self.add_emitted(row, side, ns_an_event(text, events))
            for gap, figure in zip(["p999", "longest"], text.split()[2:]):
                self.add_emitted(f"{row}-{gap}-gap", side, [int(figure)])

    def measure_memory(self, records):
        self.measure_single("warm", "warm", WARM_UP_EVENTS, records)
        # Only its own process has memory of the copy.
        self.measure_single("new-process", "cold", COLD_WARM_UP_EVENTS, records, has_copy=False, touch_first=True)
        self.measure_single("cold", "cold", COLD_WARM_UP_EVENTS, records)

    def measure_disabled(self):
        events = self.extent.disabled_events
        for side in self.in_turn(self.tracers):
            printed = run([self.tracers[side].emitter(), SINGLE, events, 1, 1])
            self.add("disabled", side, ns_an_event(printed, events))

    def measure_two_threads(self):
        """Measures how many times as many events two threads emit in the same time."""
        events, repetitions = self.extent.loop_events, self.extent.repetitions
        for side in self.in_turn(self.tracers):
            fastest = {}
            for threads in self.in_turn([1, 2]):
                command = [self.tracers[side].emitter(), SINGLE, events, repetitions, threads]
                printed, _ = self.tracers[side].record(command, threads * (events * repetitions + WARM_UP_EVENTS))
                fastest[threads] = min(loop for loop, _ in loop_times(printed))
            self.add("two-threads-speedup", side, [2 * fastest[1] / fastest[2]])

    def with_sessions(self, measure_one):
        """Measures with the tracers' session daemons."""
        for side in self.in_turn(self.tracers):
            if side == "peer":
                measure_one(side, self.tracers[side])
                continue
            with LeatSessions(self.tracers[side], self.work) as sessions:
                measure_one(side, sessions)

    def measure_two_sessions(self, side, sessions):
        events, repetitions = self.extent.loop_events, self.extent.repetitions_with_contexts
        traces = {name: self.work / f"{side}-{name}" for name in ["one", "two"]}
        for name, trace in traces.items():
            sessions.begin(name, trace, WITH_DEFAULT_CONTEXTS)
        printed = run([sessions.emitter(), SINGLE, events, repetitions, 1])
        for name in traces:
            sessions.stop(name)
            sessions.end(name)
        for trace in traces.values():
            Trace(trace, events * repetitions + WARM_UP_EVENTS)
            shutil.rmtree(trace)
        self.add_emitted(f"{SINGLE}+contexts+two-sessions", side, ns_an_event(printed, events))

    def measure_stopped_session(self, side, sessions):
        events = self.extent.disabled_events
        trace = self.work / f"{side}-stopped"
        sessions.begin("bench", trace, WITH_DEFAULT_CONTEXTS)
        command = [sessions.emitter(), SINGLE, events, 1, 1, "stopped"]
        with subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as program:
            program.stdout.readline()
            sessions.stop("bench")
            printed, _ = program.communicate("\n")
        sessions.end("bench")
        if program.returncode != 0:
            raise Failed(f"{command[0]} ended with {program.returncode}")
        Trace(trace, WARM_UP_EVENTS)
        self.add("stopped-session", side, ns_an_event(printed, events))

    def measure_sizes(self):
        for event, records in self.extent.sized:
            for side in self.in_turn(self.tracers_of(records)):
                tracer = self.tracers[side]
                command = [tracer.emitter(), event, self.extent.size_events, 1, 1]
                _, trace = tracer.record(command, self.extent.size_events + WARM_UP_EVENTS, records)
                self.add(f"size/{event}{records.suffix}", side, [trace.bytes_an_event()])

    def measure_starts(self):
        """Measures the programs alone, without any daemon. Each is compared with a plain one that started just before
        or after."""
        programs = {"plain": "bench-start-plain", "leat": "bench-start-leat", "peer": "bench-start-lttng"}
        sides = ["plain", *self.tracers]
        for number in range(self.extent.starts):
            took = {side: milliseconds_of(self.programs / programs[side]) for side in support.in_turn(sides, number)}
            for side in self.tracers:
                self.add("startup/nothing-running", side, [took[side] - took["plain"]])

    def rows(self):
        rows = [support.row(f"tracer/{name}", "ns", self.samples[name], "copy") for name in self.emitted]
        rows.append(support.row("tracer/disabled", "ns", self.samples["disabled"]))
        rows.append(support.row("tracer/stopped-session", "ns", self.samples["stopped-session"]))
        rows.append(support.row("tracer/two-threads-speedup", "x", self.samples["two-threads-speedup"]))
        rows += [support.row(name, "bytes", samples) for name, samples in self.samples.items() if name.startswith("size/")]
        rows.append(support.row("startup/nothing-running", "ms", self.samples["startup/nothing-running"]))
        return rows


def milliseconds_of(program):
    begin = time.perf_counter_ns()
    pid = os.posix_spawn(program, [str(program)], os.environ)
    _, status = os.waitpid(pid, 0)
    end = time.perf_counter_ns()
    if status != 0:
        raise Failed(f"{program} ended with {status}")
    return (end - begin) / 1e6


def measure(programs, rounds, work):
    extent = QUICK if support.IS_QUICK else FULL
    tracers = {"leat": Leat(programs, work, extent.buffer)}
    if (programs / "bench-emit-lttng").exists() and shutil.which("lttng-sessiond") is not None:
        tracers["peer"] = Lttng(programs, work, extent.buffer)
    else:
        say("LTTng-UST is not here (./dev setup brings it): no peer in the table")
    bench = Bench(programs, tracers, extent, work)
    say("starting programs")
    bench.measure_starts()  # before any daemon runs
    with tracers["leat"], tracers.get("peer", tracers["leat"]):
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            bench.round_number = number
            bench.measure_events(extent.events, extent.repetitions)
            bench.measure_events(extent.with_contexts, extent.repetitions_with_contexts, WITH_DEFAULT_CONTEXTS)
            bench.measure_events([SINGLE], extent.repetitions_with_contexts, WITH_LARGE_HEADER)
            bench.measure_events([SINGLE], extent.repetitions, IN_A_FLIGHT_RECORDER)
            for records in extent.single_records:
                bench.measure_paused(records)
                bench.measure_memory(records)
            bench.measure_disabled()
            bench.with_sessions(bench.measure_two_sessions)
            bench.with_sessions(bench.measure_stopped_session)
            bench.measure_two_threads()
        say("sizes")
        bench.measure_sizes()
    return bench.rows()


if __name__ == "__main__":
    support.main("compare Leat's tracer with LTTng-UST and with the clock alone", "bench-emit-leat", 11, measure,
                 peer="lttng-ust")
