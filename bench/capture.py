#!/usr/bin/env python3
"""What a request costs that is captured, and what that costs a loop of short tasks.

    bench/capture.py [--build DIR] [--json FILE] [--rounds N] [--quick] [--output DIR]

A request has three events: queued (8 bytes), dispatched and completed (4 bytes each). Leat captures it inside the
program (<leat/capture.h>), with tiny and with compact headers; LTTng-UST by a session of its daemons; a logger sends
three lines of text to a log daemon that throws them away. The floor is `rdtsc` and as many bytes as Leat's tiny records
have, for each of the three, into a buffer of the thread's own.

All run on CPU 0, where nothing else does; LTTng's consumer and the log daemon have CPU 1. Everything that is written
has its memory before. A run repeats a loop and gives its fastest repetition, less the empty loop.
"""
import shutil

import support
from support import Failed, LttngDaemons, Samples, run

# Loops of a repetition, which fill about a block of a capture, and repetitions.
AMOUNTS = (5_000, 120)
TEXT_AMOUNTS = (300, 10)
QUICK_AMOUNTS = (200, 3)


def figures(printed, loops):
    """ns a loop of the fastest repetition: with events beyond the one without, and the one without. And the bytes."""
    *lines, total = [[int(word) for word in line.split()] for line in printed.splitlines()]
    full = min(full for full, _ in lines) / loops
    empty = min(empty for _, empty in lines) / loops
    return full - empty, empty, total


class Contender:
    def __init__(self, programs, work):
        self.programs = programs
        self.work = work

    amounts = AMOUNTS

    def measure(self, what):
        loops, repetitions = QUICK_AMOUNTS if support.IS_QUICK else self.amounts
        return figures(self.run(self.name, [what, loops, repetitions]), loops)

    def run(self, name, words):
        return run(["taskset", "-c", "1", self.programs / f"bench-capture-{name}", *words])


class Leat(Contender):
    name = "leat"
    header = "tiny"

    def run(self, name, words):
        directory = self.work / "capture"
        printed = super().run(name, [*words, self.header, directory])
        self.size = sum(file.stat().st_size for file in directory.glob("channel0_*"))
        shutil.rmtree(directory)
        return printed

    def bytes_a_request(self, total):
        return self.size / total[0]


class LeatCompact(Leat):
    header = "compact"


class LeatOff(Contender):
    name = "leat"

    def run(self, name, words):
        return super().run(name, [*words, "off"])


class Floor(Contender):
    name = "floor"


class Text(Contender):
    name = "text"
    amounts = TEXT_AMOUNTS

    def bytes_a_request(self, total):
        return total[1] / total[0]


class Lttng(Contender):
    name = "lttng"

    def run(self, name, words):
        with LttngDaemons(self.programs, self.work) as lttng:
            traces = lttng.home / "trace"
            lttng.lttng("create", "bench", f"--output={traces}")
            lttng.lttng("enable-channel", "--userspace", "channel", "--num-subbuf=16", "--subbuf-size=4M")
            lttng.lttng("enable-event", "--userspace", "--channel=channel", "bench:*")
            lttng.lttng("start")
            printed = super().run(name, words)
            lttng.lttng("stop")
            lttng.lttng("destroy", "bench")
            content = support.content_bytes(traces) if words[0] == "request" else 0
        shutil.rmtree(lttng.home)
        self.size = content
        return printed

    def bytes_a_request(self, total):
        return self.size / total[0]


class LttngOff(Contender):
    name = "lttng"


def measure(programs, rounds, work):
    contenders = {("tiny", "leat"): Leat, ("compact", "leat"): LeatCompact, ("tiny", "floor"): Floor, ("text", "text"): Text,
                  ("off", "leat"): LeatOff}
    if shutil.which("lttng-sessiond") is not None and (programs / "bench-capture-lttng").exists():
        contenders |= {("tiny", "peer"): Lttng, ("off", "peer"): LttngOff}
    else:
        support.say("LTTng is not here: no peer in the table")
    samples = {}

    def add(row, unit, side, figure):
        samples.setdefault(row, (unit, Samples()))[1].add(side, [figure])

    for number in range(rounds):
        support.say(f"round {number + 1} of {rounds}")
        for key in support.in_turn(contenders, number):
            (what, side), made = key, contenders[key](programs, work)
            cost, _, total = made.measure("request")
            sides = {"tiny": ["tiny", "compact", "text"], "compact": ["compact"], "text": ["text"], "off": ["off"]}
            # The peer and the floor are the same for all kinds of headers.
            rows = sides[what] if side in ("peer", "floor") else [what]
            for row in rows:
                add(f"capture/request-{row}", "ns", "leat" if side == "text" else side, cost)
                if hasattr(made, "bytes_a_request"):
                    add(f"capture/request-{row}-bytes", "bytes", "leat" if side == "text" else side,
                        made.bytes_a_request(total))
            if what == "tiny":
                cost, bare, _ = made.measure("task")
                add("capture/task-loop-slowdown", "%", side, 100 * cost / bare)
    return [support.row(name, unit, of_row) for name, (unit, of_row) in samples.items()]


if __name__ == "__main__":
    support.main("compare a captured request with other ways to trace it", "bench-capture-leat", 5, measure, peer="lttng")
