#!/usr/bin/env python3
"""The whole path under load: a program, the consumer and the relay, all on one machine.

    bench/path.py [--build DIR] [--json FILE] [--rounds N] [--quick] [--output DIR]

Two threads emit 13 million events a second for 4 s, in bursts, a millisecond apart; then 5 million, which LTTng's program
gets out on two CPUs, too. An event has 46 bytes in LTTng's trace. Leat's recorder and relay are compared with LTTng's
three daemons. Both have 8 MiB of buffers for each CPU, and files of 8 MiB, two for each stream. So most of the memory
that is written has been touched before: on some machines the first touch costs more than everything else. The figures are the events that the tracer had to discard because nobody
emptied the buffers, the CPU time of the daemons, also for each event that they got, and of the program, and the bytes of
an event in Leat's trace, with all headers.

Rows called "+contexts" have the contexts that `leat record` adds by default, on both sides; the others have none. Those
called "+5M/s" are of the lower rate.
"""

import json
import os
import shutil
import subprocess
import typing

import support
from support import Daemons, Failed, LttngDaemons, Samples, cpu_seconds, run, say

SECONDS, THREADS = 4, 2
QUICK_RATE, QUICK_SECONDS = 1_000_000, 1
FIGURES = {"offered-m-per-s": "M/s", "discarded-percent": "%", "program-ns-per-event": "ns", "daemons-cpu-s-per-s": "s/s",
           "daemons-ns-per-event": "ns", "bytes-per-event": "bytes"}


class Load(typing.NamedTuple):
    rate: int  # events a second
    has_contexts: bool

    def flood(self):
        """The arguments of bench-flood-..."""
        return [QUICK_RATE, QUICK_SECONDS, THREADS] if support.IS_QUICK else [self.rate, SECONDS, THREADS]


LOADS = {rate_suffix + suffix: Load(rate, suffix != "") for rate_suffix, rate in {"": 13_000_000, "+5M/s": 5_000_000}.items()
         for suffix in ["", "+contexts"]}


def figures(printed, discarded, daemons_cpu):
    """The output of bench-flood, and what became of its events."""
    emitted, seconds, cpu = (float(word) for word in printed.split())
    of_daemons = daemons_cpu(cpu)
    return {"offered-m-per-s": emitted / seconds / 1e6, "discarded-percent": 100 * discarded / emitted,
            "program-ns-per-event": 1e9 * cpu / emitted, "daemons-cpu-s-per-s": of_daemons / seconds,
            "daemons-ns-per-event": 1e9 * of_daemons / (emitted - discarded)}


def discarded_in(indexes):
    """The count in the last packet of each stream. `lttng list` sometimes shows 2^63 too many."""
    header_size, entry_size, at = 16, 72, 40
    of_streams = {}
    for index in indexes:
        entries = index.read_bytes()[header_size:]
        for entry in range(0, len(entries), entry_size):
            discarded = int.from_bytes(entries[entry + at:entry + at + 8], "big")
            stream = index.name.rpartition("_")[0]
            of_streams[stream] = max(of_streams.get(stream, 0), discarded)
    return sum(of_streams.values())


def measure_leat(programs, work, load):
    output = work / "leat"
    output.mkdir()
    summary = work / "summary.json"
    with Daemons() as running:
        relay = running.start(programs / "leat-relayd", "-o", output, "--ports", "6342:6343:6344",
                              stdout=subprocess.PIPE, text=True)
        if not relay.stdout.readline().startswith("listening"):
            raise Failed("leat-relayd does not start")
        before = cpu_seconds([relay.pid]) + os.times().children_user + os.times().children_system
        printed = run([programs / "leat", "record", "-o", "net://127.0.0.1:6342:6343", *support.context_words(load.has_contexts),
                       "--ring-size", "8M", "--tracefile-size", "8M", "--tracefile-count", "2", "--summary", summary,
                       "--", programs / "bench-flood-leat", *load.flood()])
        # The recorder's CPU time is counted with that of its child, the program.
        after = cpu_seconds([relay.pid]) + os.times().children_user + os.times().children_system
    shutil.rmtree(output)
    totals = json.loads(summary.read_text(encoding="ascii"))
    return (figures(printed, totals["discarded"], lambda program: after - before - program) |
            {"bytes-per-event": totals["bytes"] / totals["events"]})


def measure_lttng(programs, work, load):
    with LttngDaemons(programs, work) as lttng:
        lttng.lttng("create", "bench", "--set-url=net://127.0.0.1")
        lttng.lttng("enable-channel", "--userspace", "channel", "--num-subbuf=8", "--subbuf-size=1M",
                    "--tracefile-size=8M", "--tracefile-count=2")
        lttng.lttng("enable-event", "--userspace", "--channel=channel", "bench:*")
        if load.has_contexts:
            lttng.add_contexts()
        lttng.lttng("start")
        pids = lttng.pids()
        before = cpu_seconds(pids)
        printed = run([programs / "bench-flood-lttng", *load.flood()])
        lttng.lttng("stop")
        after = cpu_seconds(pids)
        lttng.lttng("destroy", "bench")
        discarded = discarded_in(lttng.home.rglob("*.idx"))
    shutil.rmtree(lttng.home)
    return figures(printed, discarded, lambda _: after - before)


def measure(programs, rounds, work):
    sides = {"leat": measure_leat, "peer": measure_lttng}
    if shutil.which("lttng-relayd") is None or not (programs / "bench-flood-lttng").exists():
        say("LTTng is not here: no peer in the table")
        del sides["peer"]
    samples = {f"path/{name}{suffix}": (unit, Samples()) for suffix in LOADS for name, unit in FIGURES.items()}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for suffix, load in LOADS.items():
            for side in support.in_turn(sides, number):
                for name, figure in sides[side](programs, work, load).items():
                    samples[f"path/{name}{suffix}"][1].add(side, [figure])
    return [support.row(name, unit, of_row) for name, (unit, of_row) in samples.items()]


if __name__ == "__main__":
    support.main("compare the whole path of Leat under load with LTTng's", "bench-flood-leat", 5, measure, peer="lttng")
