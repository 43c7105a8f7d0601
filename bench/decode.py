#!/usr/bin/env python3
"""Reading traces: the text of all events, on all CPUs and on one.

    bench/decode.py [--build DIR] [--json FILE] [--rounds N] [--quick] [--output DIR]

`leat view` and babeltrace2 print the same traces to /dev/null; before that, their text is compared. On the "-decode" rows,
both read the events and print none; only Leat prints JSON. The floor reads the files of the trace with cat, and on the
"-text-one-cpu" rows counts the lines of the text with wc.

Traces: two integers, IO requests and strings, from a program with two threads; allocations of a Python program with the
contexts that `leat record` adds by default; and two integers in one stream, 256 and 1,024, which are made here, all events
of which alternate between the streams.
"""

import os
import pathlib
import shutil
import struct
import subprocess
import time

import support
from support import Failed, Samples, run, say

EVENTS, QUICK_EVENTS = 2_000_000, 20_000  # of each trace, unless --events says so
STREAMS = (1, 256, 1024)
RECORDED = {"two-integers": "two-integers", "io-requests": "io-request", "strings": "string"}
NO_TEXT = {"leat": ["--format=none"], "peer": ["--output-format=dummy"]}
SAMPLE = 0.005  # s between two looks at the memory of a process

METADATA = """/* CTF 1.8 */
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; u64 stream_instance_id; }; };
clock { name = monotonic; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := ts64;
typealias integer { size = 27; align = 1; map = clock.monotonic.value; } := ts27;
stream {
    id = 0;
    packet.context := struct { ts64 timestamp_begin; ts64 timestamp_end; u64 content_size; u64 packet_size; u32 cpu_id; };
    event.header := struct {
        enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
        variant <id> { struct { ts27 timestamp; } compact; struct { u32 id; ts64 timestamp; } extended; } v;
    } align(8);
};
event { name = "made:event"; id = 0; stream_id = 0; fields := struct { u32 a; u64 b; }; };
"""


def count_of_events():
    return QUICK_EVENTS if support.IS_QUICK else support.EVENTS or EVENTS


def record(programs, trace, *command, contexts=False):
    run([programs / "leat", "record", "-o", trace, "--mode", "blocking", "--ring-size", "8M",
         *support.context_words(contexts), "--", *command], env=dict(os.environ, LEAT_ALLOW_BLOCKING="1"))


def record_traces(programs, work):
    for name, event in RECORDED.items():
        say(f"recording {name}")
        record(programs, work / name, programs / "bench-emit-leat", event, count_of_events() // 2, 1, 2)
    say("recording allocations")
    program = f"for i in range({count_of_events() // 2}): bytes(600 + i % 100)"
    run([programs / "leat", "record", "-o", work / "allocations", "--preload", "libc", "--ring-size", "64M", "--",
         "python3", "-c", program])


def make_trace(directory, streams):
    """The events of one moment go to one stream after the other, 1 us apart."""
    directory.mkdir()
    (directory / "metadata").write_text(METADATA, encoding="ascii")
    events = count_of_events() // streams
    for stream in range(streams):
        times = range(stream * 1000, events * streams * 1000, streams * 1000)
        records = b"".join(struct.pack("<IIQ", time % 2**27 << 5, stream, time) for time in times)
        head = struct.pack("<IIQ", 0xC1FC1FC1, 0, stream)
        size = (len(head) + 36 + len(records)) * 8
        context = struct.pack("<QQQQI", 0, times[-1], size, size, stream)
        (directory / f"made_{stream}").write_bytes(head + context + records)


def seconds(command, cpu=None):
    """How long it takes, with its text thrown away."""
    words = ["taskset", "-c", str(cpu), *command] if cpu is not None else command
    begin = time.monotonic()
    done = subprocess.run([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise Failed(f"{command[0]} ended with {done.returncode}: {done.stderr.decode().strip()}")
    return time.monotonic() - begin


def own_memory_mb(command):
    """The most that it has at any time, without files that are mapped."""
    most = 0
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        status = pathlib.Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            for line in read_if_there(status):
                if line.startswith("RssAnon:"):
                    most = max(most, int(line.split()[1]))
            time.sleep(SAMPLE)
    return most / 1000


def read_if_there(status):
    """Its lines, unless its process has just ended."""
    try:
        return status.read_text(encoding="ascii").splitlines()
    except ProcessLookupError:
        return []


def text_of(command, path):
    with open(path, "wb") as text:
        subprocess.run([str(word) for word in command], stdout=text, stderr=subprocess.DEVNULL, check=True)
    return path


def stream_files(trace):
    return [path for path in sorted(trace.rglob("*_*")) if path.is_file() and path.suffix != ".idx"]


class Trace:
    """One that both have read with the same result."""

    def __init__(self, programs, path):
        self.sides = {"leat": [programs / "leat", "view", path], "peer": ["babeltrace2", path]}
        if shutil.which("babeltrace2") is None:
            del self.sides["peer"]
        self.text = text_of(self.sides["leat"], path.with_suffix(".text"))
        self.events = self.text.read_bytes().count(b"\n")
        if "peer" in self.sides:
            theirs = text_of(self.sides["peer"], path.with_suffix(".theirs"))
            if subprocess.run(["cmp", "-s", self.text, theirs], check=False).returncode != 0:
                raise Failed(f"leat view and babeltrace2 print something else of {path.name}")
            theirs.unlink()
        self.files = stream_files(path)

    def ns(self, taken):
        return taken * 1e9 / self.events


def measure_trace(name, trace, number, samples):
    for side in support.in_turn(trace.sides, number):
        command = trace.sides[side]
        samples(f"{name}-text", "ns").add(side, [trace.ns(seconds(command))])
        samples(f"{name}-text-one-cpu", "ns").add(side, [trace.ns(seconds(command, cpu=0))])
        samples(f"{name}-decode-one-cpu", "ns").add(side, [trace.ns(seconds([*command, *NO_TEXT[side]], cpu=0))])
        samples(f"{name}-memory", "mb").add(side, [own_memory_mb(command)])
    samples(f"{name}-json-one-cpu", "ns").add("leat", [trace.ns(seconds([*trace.sides["leat"], "--format=json"], cpu=0))])
    for row in ("decode", "json"):
        samples(f"{name}-{row}-one-cpu", "ns").add("floor", [trace.ns(seconds(["cat", *trace.files], cpu=0))])
    samples(f"{name}-text", "ns").add("floor", [trace.ns(seconds(["cat", *trace.files]))])
    samples(f"{name}-text-one-cpu", "ns").add("floor", [trace.ns(seconds(["wc", "-l", trace.text], cpu=0))])


def measure(programs, rounds, work):
    record_traces(programs, work)
    for streams in STREAMS:
        say(f"making a trace of {streams} streams")
        make_trace(work / f"streams-{streams}", streams)
    rows = {}

    def samples(name, unit):
        return rows.setdefault(f"decode/{name}", (unit, Samples()))[1]

    traces = {path.name: Trace(programs, path) for path in sorted(work.iterdir()) if path.is_dir()}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for name, trace in traces.items():
            measure_trace(name, trace, number, samples)
    return [support.row(name, unit, of_row) for name, (unit, of_row) in rows.items()]


if __name__ == "__main__":
    support.main("compare leat view with babeltrace2", "bench-emit-leat", 3, measure, peer="babeltrace2")
