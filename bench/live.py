#!/usr/bin/env python3
"""The time from an event to its line on the viewer's stdout, and the cost of a live session without events.

    bench/live.py [--build DIR] [--json FILE] [--rounds N] [--quick] [--output DIR]

A program writes the time into each event, and a reader notes when the line with it arrives. There are two rates: 100
events 50 to 150 ms apart, and 10,000 events a second for 2 s. A figure is the percentile of one round's events.

These are compared:
- all of Leat (application, consumer, relay, viewer);
- all of LTTng with babeltrace2, at their best settings (live timer 1 ms, retry 1 ms) and at their default ones (1 s,
  100 ms);
- Leat's application and relay with babeltrace2, at a retry of 1 ms like the peer;
- Leat with three viewers, of which one takes a byte a second from its connection.

Records have no contexts. Rows called "+contexts" have those that `leat record` adds by default, on both sides, at the
first of the two rates.

Idle: the CPU time of the daemons (Leat's recorder and relay; LTTng's session, consumer and relay daemons) over 10 s of
a live session in which nothing happens, with LTTng at a timer of 200 ms.
"""

import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import threading
import time

import support
from support import Daemons, Failed, LttngDaemons, Samples, cpu_seconds, run, say, wait_for

LEAT_LIVE_PORT = 6344
# Events, the gap and its spread in us, and the events ahead of them.
RATES = {"": (100, 50_000, 100_000, 100), "fast-": (20_000, 100, 0, 100)}
QUICK_RATES = {"": (20, 1_000, 10_000, 50)}
IDLE_TICK = (1, 60_000_000, 0, 100)
BEST_US, DEFAULT_US, IDLE_US = 1_000, 1_000_000, 200_000
RETRY_BEST_US, RETRY_DEFAULT_US = 1_000, 100_000
IDLE_SECONDS, QUICK_IDLE_SECONDS = 10, 0.2
SETTLE_SECONDS, QUICK_SETTLE_SECONDS = 4, 0.2  # until a program has emitted its first events
ATTEMPTS = 6  # with lttng-relayd, one viewer in ten sees nothing


def idle_percent(pids):
    time.sleep(QUICK_SETTLE_SECONDS if support.IS_QUICK else SETTLE_SECONDS)
    seconds = QUICK_IDLE_SECONDS if support.IS_QUICK else IDLE_SECONDS
    before = cpu_seconds(pids)
    time.sleep(seconds)
    return 100 * (cpu_seconds(pids) - before) / seconds


def latencies(daemons, viewer, count, programs):
    """Starts a viewer. Returns a function that waits for all lines and returns their latencies in ms."""
    viewing = daemons.start(*viewer, stdout=subprocess.PIPE)
    reading = daemons.start(programs / "bench-line-latency", count, stdin=viewing.stdout, stdout=subprocess.PIPE,
                            text=True)
    viewing.stdout.close()

    def wait():
        printed, _ = reading.communicate(timeout=60)
        figures = [int(line) / 1e6 for line in printed.split()]
        if len(figures) != count:
            raise Failed(f"{len(figures)} of {count} events came to {viewer[0]}")
        return figures
    return wait


def patiently(measure, *arguments):
    """Measures again when a viewer has attached at the wrong moment and sees nothing."""
    for attempt in range(ATTEMPTS):
        try:
            return measure(*arguments)
        except Failed as error:
            if attempt == ATTEMPTS - 1:
                raise
            say(f"{error}: once more")


def babeltrace2(url, retry_us):
    return ["stdbuf", "-oL", "babeltrace2", "--input-format=lttng-live", url, f"--retry-duration={retry_us}"]


class SlowLine:
    """A port that leads to a relay. Once the viewer has had time to attach, replies arrive at a byte a second."""

    FAST_SECONDS = 1

    def __init__(self, port):
        self.relay = socket.create_connection(("127.0.0.1", port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.viewer = None
        self.carried = 0
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.carry_there, self.carry_back)]
        self.is_connected = threading.Event()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for end in (self.relay, self.viewer, self.listener):
            if end is not None:
                end.close()

    def carry_there(self):
        try:
            self.viewer, _ = self.listener.accept()
            self.is_connected.set()
            while data := self.viewer.recv(4096):
                self.relay.sendall(data)
        except OSError:
            pass

    def carry_back(self):
        try:
            self.is_connected.wait()
            slow_from = time.monotonic() + self.FAST_SECONDS
            while not self.is_over.is_set():
                is_slow = time.monotonic() >= slow_from
                data = self.relay.recv(1 if is_slow else 4096)
                if not data:
                    break
                self.viewer.sendall(data)
                self.carried += len(data)
                if is_slow:
                    self.is_over.wait(1)
        except OSError:
            pass


class Lttng(LttngDaemons):
    """LTTng's daemons, with a session for each run."""

    def session(self, timer_us, has_contexts=False):
        self.lttng("create", "bench", f"--live={timer_us}", "--set-url=net://127.0.0.1")
        self.lttng("enable-channel", "--userspace", "channel")
        self.lttng("enable-event", "--userspace", "--channel=channel", "bench:*")
        if has_contexts:
            self.add_contexts()
        self.lttng("start")

    def measure(self, rate, timer_us, retry_us, has_contexts=False):
        self.session(timer_us, has_contexts)
        try:
            url = f"net://127.0.0.1/host/{os.uname().nodename}/bench"
            with Daemons() as running:
                wait = latencies(running, babeltrace2(url, retry_us), rate[0], self.programs)
                running.start(self.programs / "bench-tick-lttng", *rate)
                return wait()
        finally:
            self.lttng("destroy", "bench")

    def idle(self):
        self.session(IDLE_US)
        try:
            with Daemons() as running:
                running.start(self.programs / "bench-tick-lttng", *IDLE_TICK)
                return idle_percent(self.pids())
        finally:
            self.lttng("destroy", "bench")


class Leat:
    """Leat's relay, with a recorder for each run."""

    def __init__(self, programs, work):
        self.programs = programs
        self.work = work
        self.daemons = Daemons()
        self.session = 0

    def __enter__(self):
        self.relay = self.daemons.start(self.programs / "leat-relayd", "-o", self.work / "leat",
                                        "--ports", f"6342:6343:{LEAT_LIVE_PORT}", stdout=subprocess.PIPE, text=True)
        if not self.relay.stdout.readline().startswith("listening"):
            raise Failed("leat-relayd does not start")
        return self

    def __exit__(self, *_):
        self.daemons.__exit__()

    def record(self, running, rate, has_contexts=False):
        # Each session has a name of its own, because the previous one may still be ending.
        self.session += 1
        return running.start(self.programs / "leat", "record", "--live=net://127.0.0.1:6342:6343",
                             *support.context_words(has_contexts), "--session", f"bench-{self.session}", "--",
                             self.programs / "bench-tick-leat", *rate)

    def url(self):
        """The URL of the session that is being recorded."""
        found = []

        def look():
            found.extend(re.findall(rf"net://\S+/host/\S+/bench-{self.session}\b", run([self.programs / "leat", "view",
                                                               f"net://127.0.0.1:{LEAT_LIVE_PORT}"])))
            return found
        wait_for(look, "leat view lists no session")
        return found[-1]

    def measure(self, rate, viewer, has_contexts=False):
        with Daemons() as running:
            self.record(running, rate, has_contexts)
            return latencies(running, viewer(self.url()), rate[0], self.programs)()

    def view(self, url):
        return [self.programs / "leat", "view", url]

    def measure_beside_slow_viewer(self, rate):
        with Daemons() as running, SlowLine(LEAT_LIVE_PORT) as line:
            self.record(running, rate)
            url = self.url()
            running.start(*self.view(url.replace(f":{LEAT_LIVE_PORT}/", f":{line.port}/")))
            running.start(*self.view(url))
            figures = latencies(running, self.view(url), rate[0], self.programs)()
            if line.carried == 0:
                raise Failed("the slow viewer has not attached")
            return figures

    def idle(self):
        with Daemons() as running:
            recorder = self.record(running, IDLE_TICK)
            return idle_percent([self.relay.pid, recorder.pid])


def percentile(figures, percent):
    return statistics.quantiles(figures, n=100, method="inclusive")[percent - 1]


class Bench:
    def __init__(self):
        self.samples = {}

    def add(self, row, side, figures):
        self.samples.setdefault(row, Samples()).add(side, figures)

    def add_latencies(self, prefix, side, figures, suffix=""):
        self.add(f"{prefix}p50-ms{suffix}", side, [percentile(figures, 50)])
        self.add(f"{prefix}p99-ms{suffix}", side, [percentile(figures, 99)])

    def measure_lttng(self, programs, work):
        rates = QUICK_RATES if support.IS_QUICK else RATES
        with Lttng(programs, work) as lttng:
            for name, rate in rates.items():
                best = patiently(lttng.measure, rate, BEST_US, RETRY_BEST_US)
                self.add_latencies(name, "peer", best)
                self.add_latencies(f"{name}babeltrace2-", "peer", best)
            self.add_latencies("", "peer", patiently(lttng.measure, rates[""], BEST_US, RETRY_BEST_US, True), "+contexts")
            if not support.IS_QUICK:  # a timer of a second makes this slow
                self.add_latencies("default-settings-", "peer",
                                   patiently(lttng.measure, rates[""], DEFAULT_US, RETRY_DEFAULT_US))
            self.add("idle-cpu-percent", "peer", [lttng.idle()])
        shutil.rmtree(work / "lttng")

    def measure_leat(self, programs, work):
        rates = QUICK_RATES if support.IS_QUICK else RATES
        with Leat(programs, work) as leat:
            for name, rate in rates.items():
                self.add_latencies(name, "leat", patiently(leat.measure, rate, leat.view))
                with_babeltrace2 = patiently(leat.measure, rate, lambda url: babeltrace2(url, RETRY_BEST_US))
                self.add_latencies(f"{name}babeltrace2-", "leat", with_babeltrace2)
                self.add_latencies(f"{name}beside-slow-viewer-", "leat", patiently(leat.measure_beside_slow_viewer, rate))
            self.add_latencies("", "leat", patiently(leat.measure, rates[""], leat.view, True), "+contexts")
            self.add("idle-cpu-percent", "leat", [leat.idle()])
        shutil.rmtree(work / "leat")

    def rows(self):
        return [support.row(f"live/{row}", "%" if row.endswith("percent") else "ms", samples)
                for row, samples in sorted(self.samples.items())]


def measure(programs, rounds, work):
    bench = Bench()
    sides = {"leat": bench.measure_leat, "peer": bench.measure_lttng}
    if shutil.which("lttng-relayd") is None or not (programs / "bench-tick-lttng").exists():
        say("LTTng is not here: no peer in the table")
        del sides["peer"]
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for side in support.in_turn(sides, number):
            sides[side](programs, work)
    return bench.rows()


if __name__ == "__main__":
    support.main("compare the live path of Leat with LTTng's and babeltrace2", "bench-tick-leat", 3, measure,
                 peer="lttng+bt2")
