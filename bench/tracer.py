#!/usr/bin/env python3
"""What an event costs: Leat beside LTTng-UST and beside two floors.

    bench/tracer.py [--build DIR] [--json FILE] [--rounds N]

Each round runs every event once with Leat, once with LTTng-UST, once as a bare `rdtsc` (the floor) and once as `rdtsc`
and as many bytes as Leat's record has, written into a buffer of the thread's own (the copy: the least that any tracer
does), in turn, so that whatever else the machine does meets all of them. A run repeats a short loop and gives its fastest
repetition, because what others do on the same processor (or behind it, on a virtual one) only ever adds; a figure is the
median over the rounds, and the empty loop is subtracted. The loop runs on CPU 0, daemons and consumers on CPU 1. Both
write per-user buffers, in discard mode, and a buffer holds all that a run emits: nothing can be discarded, and
babeltrace2 counts the events of every trace to show it.

LTTng's default channel has no contexts, so Leat is told to add none; rows called "+contexts" have those that `leat
record` adds by default (vpid, vtid, procname), in both. Rows called "paused" are of events 10 us apart, each timed by
itself; "cold" ones of a process's first events in a new recording, whose memory nobody has touched, with the 99.9th
percentile and the longest of the gaps between two of them (medians over the rounds, too).
"""

import os
import re
import shutil
import signal
import subprocess
import time

import support
from support import Failed, Samples, is_alive, run, say

EVENTS = ["none", "two-integers", "four-integers", "io-request", "string"]
LOOP_EVENTS = 20_000
LOOP_REPETITIONS = 25
WARM_UP_EVENTS = 10_000  # bench/programs/emit.c
DISABLED_EVENTS = 20_000_000
SIZE_EVENTS = 1_000_000
SIZED = ["two-integers", "io-request"]
STARTS_EACH_ROUND = 25
CONTEXTS = ["vpid", "vtid", "procname"]
WITH_CONTEXTS = ["none", "two-integers", "string"]
CONTEXTS_REPETITIONS = 16  # records are larger, the buffer is not
SINGLE = "two-integers"  # the event of the paused and cold rows
PAUSED_EVENTS = 200
PAUSED_REPETITIONS = 20
COLD_EVENTS = 20_000
COLD_WARM_UP_EVENTS = 16  # bench/programs/emit.c
BUFFER = 32 << 20  # bytes for each CPU: more than a run of the largest event writes
SUB_BUFFERS = 16
CONSUMER_CPU = ["taskset", "-c", "1"]


class Trace:
    """A finished trace, checked: every event is there."""

    def __init__(self, directory, events):
        self.directory = directory
        self.events = events
        counted = subprocess.run(CONSUMER_CPU + ["babeltrace2", str(directory), "--component", "sink.utils.counter"],
                                 text=True, capture_output=True, check=False)
        # It counts aloud: the last figures are those of the whole trace.
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
    def __init__(self, programs, work):
        self.programs = programs
        self.trace = work / "leat-trace"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def record(self, command, events, contexts=()):
        shutil.rmtree(self.trace, ignore_errors=True)
        printed = run(CONSUMER_CPU + [self.programs / "leat", "record", "-o", self.trace,
                                      "--context", ",".join(contexts) or "none",
                                      "--ring-size", str(BUFFER), "--", *command])
        return printed, Trace(self.trace, events)

    def emitter(self):
        return self.programs / "bench-emit-leat"


class Lttng:
    """LTTng's session daemon, and a session for each run."""

    def __init__(self, programs, work):
        self.programs = programs
        self.home = work / "lttng"
        self.trace = work / "lttng-trace"
        self.pid = None

    def __enter__(self):
        self.home.mkdir()
        os.environ["LTTNG_HOME"] = str(self.home)
        os.environ["HOME"] = str(self.home)
        pid_file = self.home / "pid"
        # Not run(): the daemon keeps what it is given for output, and nobody would see its end.
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

    def record(self, command, events, contexts=()):
        shutil.rmtree(self.trace, ignore_errors=True)
        self.lttng("create", "bench", f"--output={self.trace}")
        try:
            self.lttng("enable-channel", "--userspace", "--buffers-uid", "--discard",
                       f"--subbuf-size={BUFFER // SUB_BUFFERS}", f"--num-subbuf={SUB_BUFFERS}", "channel")
            self.lttng("enable-event", "--userspace", "--channel=channel", "bench:*")
            if contexts:
                self.lttng("add-context", "--userspace", "--channel=channel",
                           *[f"--type={context}" for context in contexts])
            self.lttng("start")
            printed = run(command)
            self.lttng("stop")
        finally:
            self.lttng("destroy", "bench")
        return printed, Trace(self.trace, events)

    def emitter(self):
        return self.programs / "bench-emit-lttng"


def loop_times(printed):
    """(ns of the loop, ns of the empty loop) for each repetition."""
    return [tuple(int(figure) for figure in line.split()[:2]) for line in printed.splitlines()]


def ns_an_event(printed, events=LOOP_EVENTS):
    return [min((loop - empty) / events for loop, empty in loop_times(printed))]


def row_name(event, contexts):
    return f"{event}+contexts" if contexts else event


class Bench:
    def __init__(self, programs, tracers):
        self.programs = programs
        self.tracers = tracers  # by side: "leat", and "peer" where LTTng is there
        self.samples = {}
        self.emitted = {}  # rows of the emitter, in order

    def add(self, row, side, figures):
        self.samples.setdefault(row, Samples()).add(side, figures)

    def add_emitted(self, row, side, figures):
        self.emitted[row] = True
        self.add(row, side, figures)

    def emit(self, words, events, contexts=()):
        """Runs the emitter in all ways: what each printed, by side."""
        printed = {}
        for side, tracer in self.tracers.items():
            printed[side], _ = tracer.record([tracer.emitter(), *words], events, contexts)
        printed["floor"] = run([self.programs / "bench-emit-plain", *words])
        printed["copy"] = run([self.programs / f"bench-emit-copy{'-contexts' if contexts else ''}", *words])
        return printed

    def measure_events(self, names, repetitions, contexts=()):
        for event in names:
            printed = self.emit([event, LOOP_EVENTS, repetitions, 1], LOOP_EVENTS * repetitions + WARM_UP_EVENTS,
                                contexts)
            for side, text in printed.items():
                self.add_emitted(row_name(event, contexts), side, ns_an_event(text))

    def measure_paused(self, contexts=()):
        printed = self.emit([SINGLE, PAUSED_EVENTS, PAUSED_REPETITIONS, 1, "paused"],
                            PAUSED_EVENTS * PAUSED_REPETITIONS + WARM_UP_EVENTS, contexts)
        for side, text in printed.items():
            self.add_emitted(row_name(f"paused-{SINGLE}", contexts), side, ns_an_event(text, PAUSED_EVENTS))

    def measure_cold(self, contexts=()):
        printed = self.emit([SINGLE, COLD_EVENTS, 1, 1, "cold"], COLD_EVENTS + COLD_WARM_UP_EVENTS, contexts)
        for side, text in printed.items():
            name = row_name(f"cold-{SINGLE}", contexts)
            self.add_emitted(name, side, ns_an_event(text, COLD_EVENTS))
            for gap, figure in zip(["p999", "longest"], text.split()[2:]):
                self.add_emitted(f"{name}-{gap}-gap", side, [int(figure)])

    def measure_disabled(self):
        for side, tracer in self.tracers.items():
            printed = run([tracer.emitter(), "two-integers", DISABLED_EVENTS, 1, 1])
            self.add("disabled", side, ns_an_event(printed, DISABLED_EVENTS))

    def measure_two_threads(self):
        for side, tracer in self.tracers.items():
            for threads in [1, 2]:
                command = [tracer.emitter(), "two-integers", LOOP_EVENTS, LOOP_REPETITIONS, threads]
                printed, _ = tracer.record(command, threads * (LOOP_EVENTS * LOOP_REPETITIONS + WARM_UP_EVENTS))
                fastest = min(loop for loop, _ in loop_times(printed))
                self.add(f"threads-{threads}", side, [threads * LOOP_EVENTS / fastest])

    def measure_sizes(self):
        for event in SIZED:
            for side, tracer in self.tracers.items():
                command = [tracer.emitter(), event, SIZE_EVENTS - WARM_UP_EVENTS, 1, 1]
                _, trace = tracer.record(command, SIZE_EVENTS)
                self.add(f"size-{event}", side, [trace.bytes_an_event()])

    def measure_starts(self):
        """Nothing but the programs: no daemon anywhere."""
        programs = {"floor": "bench-start-plain", "leat": "bench-start-leat"}
        if "peer" in self.tracers:
            programs["peer"] = "bench-start-lttng"
        for _ in range(STARTS_EACH_ROUND):
            for side, program in programs.items():
                self.add("start", side, [milliseconds_of(self.programs / program)])

    def rows(self):
        def row(name, unit, figures):
            return {"name": name, "unit": unit, "leat": figures("leat"), "peer": figures("peer"), "floor": None}

        def row_of_emitter(name):
            samples = self.samples[name]
            return {"name": f"tracer/{name}", "unit": "ns"} | {side: samples.median(side) for side in samples.of}

        def two_threads_speedup(side):
            one, two = (self.samples[f"threads-{threads}"].median(side) for threads in [1, 2])
            return two / one if one else None

        def start_over_plain(side):
            median = self.samples["start"].median(side)
            return median and median - self.samples["start"].median("floor")

        rows = [row_of_emitter(name) for name in self.emitted]
        rows.append(row("tracer/disabled", "ns", self.samples["disabled"].median))
        rows.append(row("tracer/two-threads-speedup", "x", two_threads_speedup))
        rows += [row(f"size/{event}", "bytes", self.samples[f"size-{event}"].median) for event in SIZED]
        rows.append(row("startup/nothing-running", "ms", start_over_plain))
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
    # Before any daemon is there. The first round warms the page cache.
    bench = Bench(programs, {"leat": None})
    has_peer = (programs / "bench-emit-lttng").exists() and shutil.which("lttng-sessiond") is not None
    if has_peer:
        bench.tracers["peer"] = None
    else:
        say("LTTng-UST is not here (./dev setup brings it): no peer in the table")
    say("starting programs")
    for _ in range(max(rounds, 200 // STARTS_EACH_ROUND)):
        bench.measure_starts()

    bench.tracers = {"leat": Leat(programs, work)}
    if has_peer:
        bench.tracers["peer"] = Lttng(programs, work)
    with bench.tracers["leat"], bench.tracers.get("peer", bench.tracers["leat"]):
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            bench.measure_events(EVENTS, LOOP_REPETITIONS)
            bench.measure_events(WITH_CONTEXTS, CONTEXTS_REPETITIONS, CONTEXTS)
            for contexts in [(), CONTEXTS]:
                bench.measure_paused(contexts)
                bench.measure_cold(contexts)
            bench.measure_disabled()
            bench.measure_two_threads()
        say("sizes")
        bench.measure_sizes()
    return bench.rows()


if __name__ == "__main__":
    support.main("compare Leat's tracer with LTTng-UST and with the clock alone", "bench-emit-leat", 11, measure,
                 peer="lttng-ust")
