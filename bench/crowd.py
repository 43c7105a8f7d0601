#!/usr/bin/env python3
"""Many producers and 20 viewers on one relay: what leat-relayd needs for them, compared with lttng-relayd.

    bench/crowd.py [--build DIR] [--json FILE] [--rounds N] [--rows TEXT] [--quick] [--output DIR]

Each producer has a control and a data connection, and one live session of two streams. Each session gets a packet of 4
KiB a second, with its index and a beacon. Each viewer follows a session of its own: Leat's relay is asked with
GET_NEWS, the peer's is polled ten times a second. Relay, producers and viewers have all CPUs.

The relay's CPU time is per packet that it received. The delay is from the end of a packet to its arrival at a viewer.
Descriptors are counted at the end; memory is that at the end and the most that the relay ever held. A relay that cannot
serve so many gets no figure, and the reason is printed.
"""

import pathlib
import tempfile

import support
from relays import Paced, PacedRun, allow_many_descriptors, available
from support import Failed, Samples, say

PRODUCERS = [100, 250, 500, 1000]
VIEWERS = 20
SECONDS = 5
QUICK_PRODUCERS, QUICK_SECONDS = [30], 1
FIGURES = [("descriptors", "", lambda run: run.descriptors),
           ("rss-mb", "MiB", lambda run: run.rss_mib),
           ("peak-mb", "MiB", lambda run: run.peak_mib),
           ("cpu-us-per-packet", "us", lambda run: 1e6 * run.cpu_seconds / run.packets),
           ("p50-ms", "ms", lambda run: run.p50_ms),
           ("p99-ms", "ms", lambda run: run.p99_ms)]


def serve(side, producers, programs, work):
    """Returns the figures of a run; None if the relay cannot serve so many."""
    load = Paced(sessions=producers, streams=2, rate=producers, seconds=QUICK_SECONDS if support.IS_QUICK else SECONDS,
                 viewers=VIEWERS)
    try:
        run = PacedRun(side, load, programs, work)
    except Failed as failure:
        say(f"{side} does not serve {producers} producers and {VIEWERS} viewers: {failure}")
        return None
    if run.missing > 0:
        say(f"{side}: with {producers} producers the viewers wait for {run.missing} packets")
        return None
    return run


def row_name(count, name):
    return f"crowd/{count}-producers-{name}"


def measure(programs, rounds, work):
    allow_many_descriptors()
    sides = available(["leat", "peer"], programs)
    counts = [count for count in (QUICK_PRODUCERS if support.IS_QUICK else PRODUCERS)
              if any(support.is_wanted(row_name(count, name)) for name, _, _ in FIGURES)]
    samples = {(count, name): Samples() for count in counts for name, _, _ in FIGURES}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for count in counts:
            for side in support.in_turn(sides, number):
                with tempfile.TemporaryDirectory(dir=work) as run_work:
                    run = serve(side, count, programs, pathlib.Path(run_work))
                for name, _, figure in FIGURES if run else []:
                    samples[count, name].add(side, [figure(run)])
    return [support.row(row_name(count, name), unit, samples[count, name]) for count in counts for name, unit, _ in FIGURES]


if __name__ == "__main__":
    support.main("compare leat-relayd with lttng-relayd: many producers and 20 viewers", "bench-relay-pace", 3, measure,
                 peer="lttng-relayd")
