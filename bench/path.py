#!/usr/bin/env python3
"""The whole path under load: a program, the consumer, the relay, all on one machine.

    bench/path.py [--build DIR] [--json FILE] [--rounds N]

Two threads emit 13 million events of 46 bytes a second for 4 s, in bursts, a millisecond apart. Leat's recorder and relay
beside LTTng's three daemons, with 8 MiB of buffers for each CPU, into files of 8 MiB, two for each stream, which are
written over: on some machines the first touch of fresh memory costs more than everything else. Counted is what the
tracer had to discard because nobody emptied the buffers, what CPU time the daemons took, and what the program. A figure
is the median over the rounds.
"""

import json
import os
import shutil
import subprocess

import support
from support import Daemons, Failed, LttngDaemons, Samples, cpu_seconds, run, say

RATE, SECONDS, THREADS = 13_000_000, 4, 2
FLOOD = [RATE, SECONDS, THREADS]
FIGURES = {"offered-m-per-s": "M/s", "discarded-percent": "%", "program-ns-per-event": "ns", "daemons-cpu-s-per-s": "s/s"}


def figures(printed, discarded, daemons_cpu):
    """What bench-flood printed, and what became of it."""
    emitted, seconds, cpu = (float(word) for word in printed.split())
    return {"offered-m-per-s": emitted / seconds / 1e6, "discarded-percent": 100 * discarded / emitted,
            "program-ns-per-event": 1e9 * cpu / emitted, "daemons-cpu-s-per-s": daemons_cpu(cpu) / seconds}


def discarded_in(indexes):
    """By the last packet of each stream. `lttng list` counts 2^63 too many now and then."""
    header_size, entry_size, at = 16, 72, 40
    of_streams = {}
    for index in indexes:
        entries = index.read_bytes()[header_size:]
        for entry in range(0, len(entries), entry_size):
            discarded = int.from_bytes(entries[entry + at:entry + at + 8], "big")
            stream = index.name.rpartition("_")[0]
            of_streams[stream] = max(of_streams.get(stream, 0), discarded)
    return sum(of_streams.values())


def measure_leat(programs, work):
    output = work / "leat"
    output.mkdir()
    summary = work / "summary.json"
    with Daemons() as running:
        relay = running.start(programs / "leat-relayd", "-o", output, "--ports", "6342:6343:6344",
                              stdout=subprocess.PIPE, text=True)
        if not relay.stdout.readline().startswith("listening"):
            raise Failed("leat-relayd does not start")
        before = cpu_seconds([relay.pid]) + os.times().children_user + os.times().children_system
        printed = run([programs / "leat", "record", "-o", "net://127.0.0.1:6342:6343", "--context", "none", "--ring-size",
                       "8M", "--tracefile-size", "8M", "--tracefile-count", "2", "--summary", summary, "--",
                       programs / "bench-flood-leat", *FLOOD])
        # Those of the recorder are counted with its child, the program.
        after = cpu_seconds([relay.pid]) + os.times().children_user + os.times().children_system
    shutil.rmtree(output)
    figures_of = json.loads(summary.read_text(encoding="ascii"))
    return figures(printed, figures_of["discarded"], lambda program: after - before - program)


def measure_lttng(programs, work):
    with LttngDaemons(programs, work) as lttng:
        lttng.lttng("create", "bench", "--set-url=net://127.0.0.1")
        lttng.lttng("enable-channel", "--userspace", "channel", "--num-subbuf=8", "--subbuf-size=1M",
                    "--tracefile-size=8M", "--tracefile-count=2")
        lttng.lttng("enable-event", "--userspace", "--channel=channel", "bench:*")
        lttng.lttng("start")
        pids = lttng.pids()
        before = cpu_seconds(pids)
        printed = run([programs / "bench-flood-lttng", *FLOOD])
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
    samples = {name: Samples() for name in FIGURES}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for side, measure_side in sides.items():
            for name, figure in measure_side(programs, work).items():
                samples[name].add(side, [figure])
    return [{"name": f"path/{name}", "unit": unit, "leat": samples[name].median("leat"),
             "peer": samples[name].median("peer"), "floor": None} for name, unit in FIGURES.items()]


if __name__ == "__main__":
    support.main("compare the whole path of Leat under load with LTTng's", "bench-flood-leat", 5, measure, peer="lttng")
