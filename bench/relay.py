#!/usr/bin/env python3
"""What a relay makes of a stream of packets: leat-relayd beside lttng-relayd and beside receiving and writing alone.

    bench/relay.py [--build DIR] [--json FILE] [--rounds N]

bench-relay-push sends the same packets of 128 KiB to each in turn, so that whatever else the machine does meets all
three; a figure is the median over the rounds. Each run starts a relay anew and first fills its files (two for each
stream, rolled over and re-used), which is not counted: on some machines the first touch of fresh memory costs more than
everything else. One session: the sender has CPU 0, the relay CPU 1. Eight sessions: all have all CPUs; and again with the
relay on CPU 1 alone, to see what the second one brings it.

CPU time is that of all threads of the relay (/proc/PID/stat), memory the most that it ever held (VmHWM).
"""

import os
import shutil
import subprocess
import time

import support
from support import Failed, Samples, say

CONTROL, DATA, LIVE = 5342, 5343, 5344  # the network is our own
FILE_MIB = 32  # each stream has two
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Load:
    """What is pushed in one run; `mib` for each session."""

    def __init__(self, prefix, sessions, streams, mib, sender_cpu=None, relay_cpu=None):
        self.prefix = prefix
        self.sessions = sessions
        self.streams = streams
        self.mib = mib
        self.warm_up_mib = 3 * FILE_MIB * streams
        self.sender_cpu = [] if sender_cpu is None else ["taskset", "-c", str(sender_cpu)]
        self.relay_cpu = [] if relay_cpu is None else ["taskset", "-c", str(relay_cpu)]


LOADS = [Load("relay", sessions=1, streams=2, mib=2048, sender_cpu=0, relay_cpu=1),
         Load("relay/8-sessions", sessions=8, streams=1, mib=384),
         Load("relay/8-sessions-1-cpu", sessions=8, streams=1, mib=384, relay_cpu=1)]


def relay_command(side, programs, output):
    if side == "floor":
        return [programs / "bench-relay-floor", DATA, output, FILE_MIB]
    if side == "leat":
        return [programs / "leat-relayd", "-o", output, "--ports", f"{CONTROL}:{DATA}:{LIVE}"]
    return ["lttng-relayd", f"--output={output}", f"--control-port=tcp://127.0.0.1:{CONTROL}",
            f"--data-port=tcp://127.0.0.1:{DATA}", f"--live-port=tcp://127.0.0.1:{LIVE}"]


class Relay:
    """One that runs, and takes connections."""

    def __init__(self, side, load, programs, work):
        self.output = work / "output"
        self.output.mkdir()
        command = load.relay_cpu + [str(word) for word in relay_command(side, programs, self.output)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_for_port(DATA, self.process)
        if side != "floor":
            wait_for_port(CONTROL, self.process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.output)

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND

    def peak_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
        raise Failed("the relay has ended")


def wait_for_port(port, process):
    """Until somebody listens there; no connection is made, which a relay might count."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        with open("/proc/net/tcp", encoding="ascii") as table:
            if any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in list(table)[1:]):
                return
        time.sleep(0.01)
    raise Failed(f"{process.args[-1]}: nobody listens on port {port}")


def push(side, load, programs, work):
    """(MB a second, CPU seconds a GB, MiB of memory)"""
    control = 0 if side == "floor" else CONTROL
    command = load.sender_cpu + [str(word) for word in [
        programs / "bench-relay-push", control, DATA, 1_000_000, load.sessions, load.streams, load.warm_up_mib,
        load.mib, FILE_MIB]]
    with Relay(side, load, programs, work) as relay, \
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
        peak = relay.peak_mib()
        sender.stdin.write("end\n")
        sender.stdin.flush()
    gigabytes = load.sessions * load.mib * 2 ** 20 / 1e9
    return 1000 * gigabytes / float(seconds), cpu / gigabytes, peak


FIGURES = [("mb-per-s", "MB/s"), ("cpu-s-per-gb", "s/GB"), ("rss-mb", "MiB")]


def measure(programs, rounds, work):
    sides = ["leat", "peer", "floor"]
    for side, program in [("leat", programs / "leat-relayd"), ("peer", "lttng-relayd")]:
        if shutil.which(program) is None:
            say(f"{program} is not here: its column stays empty")
            sides.remove(side)
    samples = {(load.prefix, name): Samples() for load in LOADS for name, _ in FIGURES}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for load in LOADS:
            for side in sides:
                for (name, _), figure in zip(FIGURES, push(side, load, programs, work)):
                    samples[load.prefix, name].add(side, [figure])
    return [{"name": f"{load.prefix}/{name}" if "/" not in load.prefix else f"{load.prefix}-{name}", "unit": unit,
             **{side: samples[load.prefix, name].median(side) for side in ["leat", "peer", "floor"]}}
            for load in LOADS for name, unit in FIGURES]


if __name__ == "__main__":
    support.main("compare leat-relayd with lttng-relayd, and with receiving and writing alone", "bench-relay-push", 5,
                 measure, peer="lttng-relayd")
