#!/usr/bin/env python3
"""What a relay needs for a stream of packets: leat-relayd, lttng-relayd, and receiving and writing alone.

    bench/relay.py [--build DIR] [--json FILE] [--rounds N] [--rows TEXT] [--quick] [--output DIR]

bench-relay-push sends the same packets of 128 KiB to each in turn, so that all of them meet whatever else the machine
does. Each run starts a relay anew and first fills its files (two for each stream, rolled over). That is not counted: on
some machines the first touch of fresh memory costs more than everything else. With one session, the sender has CPU 0
and the relay CPU 1. With eight sessions, all have all CPUs; a second row has the relay on CPU 1 alone, to show what the
other CPU brings it.

There are two floors. "floor" receives into memory and writes from there. "splice" moves the bytes from the socket
through a pipe into the file, as leat-relayd does with large packets. Both unlink and create files as they roll, as both
relays do. The rows "relay/floor-in-place-..." are the same two floors when they overwrite their files instead.

Small packets (4 KiB) go to all streams of one live session, each with its index and a beacon for another stream.
bench-relay-pace sends them as fast as the relay takes them, or ("paced") 200 a second, where nothing comes in batches.
bench-relay-view reads all of them if there are viewers. It asks Leat's relay with GET_NEWS ("polling": with
GET_NEXT_INDEX and GET_PACKET, as babeltrace2 does). It always polls the peer, which serves one viewer only. The figure
is the relay's CPU time, until all packets are there, for each packet that it received, or, with viewers, that it
delivered. The sender and the viewers have CPU 0, the relay CPU 1.

CPU time is that of all threads of the relay. Memory is the most that it ever held (VmHWM).
"""

import subprocess

import support
from relays import CONTROL, DATA, FILE_MIB, FLOORS, Paced, PacedRun, Relay, allow_many_descriptors, available, on_cpu
from support import Failed, Samples, say

SENDER_CPU, RELAY_CPU = 0, 1


class Load:
    """The load of one run; `mib` is for each session."""

    def __init__(self, prefix, sessions, streams, mib, sender_cpu=None, relay_cpu=None, file_mib=FILE_MIB):
        self.prefix = prefix
        self.sessions = sessions
        self.streams = streams
        self.mib = mib
        self.file_mib = file_mib
        self.warm_up_mib = 3 * file_mib * streams  # files have rolled before the time is taken
        self.sender_cpu = sender_cpu
        self.relay_cpu = relay_cpu


LOADS = [Load("relay", sessions=1, streams=2, mib=2048, sender_cpu=SENDER_CPU, relay_cpu=RELAY_CPU),
         Load("relay/8-sessions", sessions=8, streams=1, mib=384),
         Load("relay/8-sessions-1-cpu", sessions=8, streams=1, mib=384, relay_cpu=RELAY_CPU)]
QUICK_LOADS = [Load("relay", sessions=1, streams=2, mib=32, sender_cpu=SENDER_CPU, relay_cpu=RELAY_CPU, file_mib=4),
               Load("relay/8-sessions", sessions=8, streams=1, mib=8, file_mib=2)]


def fast(streams, **viewers):
    return Paced(sessions=1, streams=streams, rate=0, seconds=1, **viewers)


def paced(streams, **viewers):
    return Paced(sessions=1, streams=streams, rate=200, seconds=2, **viewers)


SMALL = {"streams-1": fast(1),
         "streams-1000": fast(1000),
         "streams-1-viewers-1": fast(1, viewers=1),
         "streams-1000-viewers-1": fast(1000, viewers=1),
         "streams-1000-viewers-1-polling": fast(1000, viewers=1, polls=True),
         "streams-4000-viewers-8": fast(4000, viewers=8),
         "paced-streams-1-viewers-1": paced(1, viewers=1),
         "paced-streams-1-viewers-8": paced(1, viewers=8),
         "paced-streams-1000-viewers-8": paced(1000, viewers=8),
         "paced-streams-4000-viewers-8": paced(4000, viewers=8)}
QUICK_SMALL = {"streams-1": Paced(sessions=1, streams=1, rate=0, seconds=0.2),
               "streams-1-viewers-1-polling": Paced(sessions=1, streams=1, rate=0, seconds=0.2, viewers=1, polls=True),
               "paced-streams-1000-viewers-8": Paced(sessions=1, streams=1000, rate=200, seconds=0.2, viewers=8)}


def push(side, load, programs, work):
    """(MB a second, CPU seconds a GB, MiB of memory)"""
    control = 0 if side in FLOORS else CONTROL
    command = on_cpu(load.sender_cpu) + [str(word) for word in [
        programs / "bench-relay-push", control, DATA, 1_000_000, load.sessions, load.streams, load.warm_up_mib,
        load.mib, load.file_mib]]
    with Relay(side, programs, work, load.relay_cpu, load.file_mib) as relay, \
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sender:
        if sender.stdout.readline() != "ready\n":
            raise Failed(f"bench-relay-push did not come to speak with {side}")
        before = relay.cpu_seconds()
        sender.stdin.write("go\n")
        sender.stdin.flush()
        seconds = sender.stdout.readline()
        if not seconds:
            raise Failed(f"bench-relay-push did not come to its end with {side}")
        cpu = relay.cpu_seconds() - before
        peak = relay.memory_mib("VmHWM")
        sender.stdin.write("end\n")
        sender.stdin.flush()
    gigabytes = load.sessions * load.mib * 2 ** 20 / 1e9
    return 1000 * gigabytes / float(seconds), cpu / gigabytes, peak


def push_small(side, name, load, programs, work):
    """CPU us per packet; None if that side cannot do it."""
    if side == "peer" and load.viewers > 1:
        return []
    run = PacedRun(side, load, programs, work, RELAY_CPU, SENDER_CPU)
    if run.missing > 0:
        say(f"{name}: {side}: not counted ({run.cpu_us():.1f} us a packet): {run.missing} packets of "
            f"{run.missing + run.delivered} do not come, and {run.descriptors} descriptors are open")
        return []
    return [run.cpu_us()]


FIGURES = [("mb-per-s", "MB/s"), ("cpu-s-per-gb", "s/GB"), ("rss-mb", "MiB")]


class LargePackets:
    """The rows of one load."""

    def __init__(self, load, sides, prefix):
        self.load = load
        self.sides = sides  # the contenders: each goes into the column of its name
        self.samples = {f"{prefix}{name}": (unit, Samples()) for name, unit in FIGURES}

    def is_wanted(self):
        return any(map(support.is_wanted, self.samples))

    def measure(self, programs, work, round_number):
        for side in support.in_turn(self.sides, round_number):
            for (_, samples), figure in zip(self.samples.values(), push(side, self.load, programs, work)):
                samples.add(self.sides[side], [figure])

    def rows(self):
        return [support.row(name, unit, samples, "splice") for name, (unit, samples) in self.samples.items()]


class SmallPackets:
    """One row."""

    def __init__(self, name, load, sides):
        self.name = name
        self.load = load
        self.sides = sides
        self.samples = Samples()

    def row_name(self):
        return f"relay/{self.name}-cpu-us-per-packet"

    def is_wanted(self):
        return support.is_wanted(self.row_name())

    def measure(self, programs, work, round_number):
        for side in support.in_turn(self.sides, round_number):
            self.samples.add(side, push_small(side, self.name, self.load, programs, work))

    def rows(self):
        return [support.row(self.row_name(), "us", self.samples, "splice")]


def measure(programs, rounds, work):
    allow_many_descriptors()
    relays = available(["leat", "peer"], programs)
    loads, small = (QUICK_LOADS, QUICK_SMALL) if support.IS_QUICK else (LOADS, SMALL)
    parts = [LargePackets(load, {side: side for side in [*relays, "floor", "splice"]},
                          load.prefix + ("-" if "/" in load.prefix else "/")) for load in loads]
    parts.append(LargePackets(loads[0], {"floor-in-place": "floor", "splice-in-place": "splice"},
                              "relay/floor-in-place-"))
    parts += [SmallPackets(name, load, relays) for name, load in small.items()]
    parts = [part for part in parts if part.is_wanted()]
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for part in parts:
            part.measure(programs, work, number)
    return [row for part in parts for row in part.rows()]


if __name__ == "__main__":
    support.main("compare leat-relayd with lttng-relayd, and with receiving and writing alone", "bench-relay-push", 5,
                 measure, peer="lttng-relayd")
