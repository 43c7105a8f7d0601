#!/usr/bin/env python3
"""`--header=tiny`: records that begin with 3 bytes, in traces whose clock counts in steps of 256 ns. The events are the same,
and so are their times, but for that; whatever the gaps between them, and however many events there are."""
import json
import re
import struct
import subprocess

from live_producer import Producer
from relays import LeatRelay, LttngRelay
from session_daemons import RestartTest, SessionTest
from support import BUILD, SOURCE, InteropTest, has_rseq, main, needs, outside_gate, program

CYCLE = 256  # ns
PERIOD = 65536 * CYCLE  # what the short form tells
TINY = ("--header=tiny", "--context=none")
LINE_TIME = re.compile(r"^\[(\d+)\.(\d{9})\]")

# Emits gap:begin and gap:end as far apart as its arguments say, in ns. Both say when that was, as the program sees it just
# before; it prints when it was just behind.
GAPS = """#define _GNU_SOURCE
#include <leat/tracepoint.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define TIME_FIELDS(FIELD) FIELD(integer, uint64_t, now, now)
LEAT_TRACEPOINT(gap, begin, LEAT_INFO, TIME_FIELDS, uint64_t now);
LEAT_TRACEPOINT(gap, end, LEAT_INFO, TIME_FIELDS, uint64_t now);
static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        const uint64_t begin = now();
        leat_tracepoint(gap, begin, begin);
        const uint64_t behind = now();
        uint64_t end = now();
        while (end - begin < strtoull(argv[i], NULL, 10)) end = now();
        leat_tracepoint(gap, end, end);
        printf("%" PRIu64 "\\n%" PRIu64 "\\n", behind, now());
    }
    return 0;
}
"""

MANY = 300


def many_events():
    """Ids go up to 299: from 255 on, each record is in the extended form."""
    declared = "".join(f"LEAT_TRACEPOINT(many, event{i}, LEAT_INFO, N_FIELDS, int n);\n" for i in range(MANY))
    emitted = "".join(f"leat_tracepoint(many, event{i}, n);\n" for i in range(MANY))
    return ("#include <leat/tracepoint.h>\n#define N_FIELDS(FIELD) FIELD(integer, int, n, n)\n" + declared +
            f"int main(void) {{\nfor (int n = 0; n < 3; ++n) {{\n{emitted}}}\nreturn 0; }}\n")


class TinyTest(InteropTest):
    def build(self, source):
        file = self.directory / "source.c"
        file.write_text(source)
        path = self.directory / "program"
        subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE / 'include'}", "-o", path, file,
                        f"-L{BUILD / 'lib'}", f"-Wl,-rpath,{BUILD / 'lib'}", "-lleat"], check=True)
        return str(path)

    def recorded(self, *command, options=TINY, name="trace"):
        recording = self.record(*command, options=options, name=name)
        self.assertEqual(recording.status, 0, recording.stderr)
        return recording, self.read_complete(recording)

    def times(self, trace):
        text = subprocess.run(["babeltrace2", "--clock-seconds", str(trace.path)], capture_output=True, text=True, check=True).stdout
        return [int(seconds) * 1_000_000_000 + int(ns) for seconds, ns in
                (LINE_TIME.match(line).groups() for line in text.splitlines())]

    def bytes_of(self, trace):
        """Of the packets, without their headers."""
        count = packets = 0
        for path in trace.path.rglob("channel0_*"):
            if path.suffix == ".idx":
                continue
            data = path.read_bytes()
            while data:
                content, size = self.sizes(data)
                count += content // 8
                data = data[size // 8:]
                packets += 1
        return count, packets

    HEADER = struct.Struct("<I16sIQQQQQ")

    def sizes(self, packet):
        """Content and packet size, in bits, as `src/ctf/record/packet_header.hpp` lays them out."""
        fields = self.HEADER.unpack_from(packet)
        self.assertEqual(fields[0], 0xc1fc1fc1)
        return fields[6], fields[7]


class Recorded(TinyTest):
    def test_same_events_as_with_compact_headers(self):
        for name in "fields", "fields-cpp", "classes":
            with self.subTest(program=name):
                _, tiny = self.recorded(program(name), name=f"{name}-tiny")
                _, compact = self.recorded(program(name), options=("--context=none",), name=f"{name}-compact")
                self.assertEqual([(event.name, event.rest) for event in tiny.events()],
                                 [(event.name, event.rest) for event in compact.events()])

    def test_metadata_tell_of_the_clock(self):
        recording, trace = self.recorded(program("emit"), "10")
        metadata = next(recording.path.rglob("metadata")).read_text()
        self.assertRegex(metadata, r"freq = 3906250\b")
        self.assertIn('"extended" = 255', metadata)
        times = self.times(trace)
        # babeltrace2 works out ns in floating point.
        self.assertLessEqual({(time - times[0]) % CYCLE for time in times}, {0, 1, CYCLE - 1}, "whole cycles apart")

    def test_same_time_of_day_as_with_compact_headers(self):
        gaps = self.build(GAPS)
        offsets = {}
        for options in TINY, ("--context=none",):
            _, trace = self.recorded(gaps, *["1000"] * 20, options=options, name=f"trace{len(options)}-{options[0][2:5]}")
            # The program may be kept waiting between its look at the clock and the event.
            offsets[options] = min(time - event["now"] for time, event in zip(self.times(trace), trace.events(), strict=True))
        self.assertLess(abs(offsets[TINY] - offsets["--context=none",]), 50_000_000)

    def test_contexts(self):
        _, trace = self.recorded(program("emit"), "100", "2", options=("--header=tiny", "--context=vpid,vtid,procname"))
        self.assertEqual(len({event["vtid"] for event in trace.events()}), 2)

    def test_gaps_about_the_longest_that_the_short_form_tells(self):
        gaps = [0, 300, 1_000_000, PERIOD - 2 * CYCLE, PERIOD - CYCLE, PERIOD - 1, PERIOD, PERIOD + CYCLE, 2 * PERIOD, 10 * PERIOD + 7]
        recording, trace = self.recorded(self.build(GAPS), *map(str, gaps))
        events = trace.events()
        self.assertEqual([event.name for event in events], ["gap:begin", "gap:end"] * len(gaps))
        # The trace's clock is ahead of the program's by something between these, for each of them, and an error would be a whole
        # period. A program may be kept waiting anywhere.
        times = self.times(trace)
        at_least = [time - int(behind) for time, behind in zip(times, recording.stdout.split(), strict=True)]
        at_most = [time - event["now"] for time, event in zip(times, events, strict=True)]
        self.assertLess(max(at_least) - min(at_most), PERIOD / 2, list(zip(at_least, at_most)))

    def test_more_events_than_short_ids(self):
        _, trace = self.recorded(self.build(many_events()))
        self.assertEqual([(event.name, event["n"]) for event in trace.events()],
                         [(f"many:event{i}", n) for n in range(3) for i in range(MANY)])

    def test_many_events_of_several_threads(self):
        recording, trace = self.recorded(program("emit"), "100000", "4", options=(*TINY, "--ring-size=32M"))
        for thread in range(4):
            self.assertEqual([event["n"] for event in trace.events("test:count") if event["thread"] == thread],
                             list(range(100000)))

    def test_events_that_find_no_room_are_counted(self):
        recording = self.record(program("emit"), "200000", "2", options=(*TINY, "--ring-size=64K"))
        trace = self.read_recording(recording)
        self.assertEqual(recording.summary["events"] + recording.summary["discarded"], 400_001)
        self.assertEqual(recording.summary["events"], len(trace.lines))

    @needs(has_rseq(), "rings-of-cpus")
    def test_three_bytes(self):
        sizes = {}
        for header in "tiny", "compact":
            recording, trace = self.recorded(program("emit"), "100000", "1", name=header,
                                             options=(f"--header={header}", "--context=none", "--ring-size=32M"))
            size, packets = self.bytes_of(trace)
            sizes[header] = (size - packets * self.HEADER.size) / len(trace.lines)
        # u32 and u64, the header, and what is left of the packets' headers.
        self.assertLess(sizes["tiny"], 15.05)
        self.assertGreater(sizes["compact"], 16)


class Live(Producer):
    relay_class = LeatRelay

    def test_all_viewers_print_each_event_while_it_runs(self):
        live = self.start_paced

        def with_tiny_headers(*arguments, options=None):
            return live(*arguments, options=(f"--live={self.relay.url}", "--session", "paced", "--header=tiny"))
        self.start_paced = with_tiny_headers
        self.check_watched(self.BABELTRACE2, self.LEAT_VIEW)


@outside_gate("it needs LTTng's relay")
class LiveAtLttng(Live):
    relay_class = LttngRelay

    def test_all_viewers_print_each_event_while_it_runs(self):
        live = self.start_paced
        self.start_paced = lambda *arguments: live(*arguments, options=(f"--live={self.relay.url}", "--session", "paced",
                                                                       "--header=tiny"))
        self.check_watched(self.LEAT_VIEW)


class OfSessions(SessionTest):
    def test_channels_of_one_session_count_alike(self):
        self.daemon()
        self.create("web")
        self.leat("enable-channel", "tiny", "--header=tiny", "-s", "web")
        for other in "compact", "large":
            refused = self.leat("enable-channel", other, f"--header={other}", "-s", "web", status=1)
            self.assert_one_line(refused.stderr, "tiny", other)
        self.leat("enable-channel", "too", "--header=tiny", "-s", "web")
        self.create("other")
        self.leat("enable-channel", "large", "--header=large", "-s", "other")
        self.leat("enable-channel", "compact", "--header=compact", "-s", "other")
        self.leat("enable-channel", "tiny", "--header=tiny", "-s", "other", status=1)

    def test_two_channels_and_rotations(self):
        self.daemon()
        directory = self.create("web")
        for channel, event in ("ticks", "order:tick"), ("tocks", "order:tock"):
            self.leat("enable-channel", channel, "--header=tiny", "-s", "web")
            self.leat("enable-event", event, "-c", channel, "-s", "web")
        self.leat("start", "web")
        running = self.program()
        for _ in range(3):
            running.do("emit 100")
            self.leat("rotate", "web")
        counts = self.stopped("web")
        self.assertEqual(counts["events"], 600)
        trace = self.read(directory)
        for name in "order:tick", "order:tock":
            self.assertEqual([event["n"] for event in trace.events(name)], list(range(300)))

    def test_saved_and_loaded(self):
        self.daemon()
        self.create("web")
        self.leat("enable-channel", "c", "--header=tiny", "-s", "web")
        file = self.directory / "web.json"
        self.leat("save", "web", "-o", file)
        self.leat("destroy", "web")
        self.leat("load", "-i", file)
        channel, = self.session("web")["channels"]
        self.assertEqual(channel["header"], "tiny")
        # One that was saved before there was a choice, and one that nobody could have saved.
        text = file.read_text()
        self.leat("destroy", "web")
        self.assertIn('"header"', text)
        saved = json.loads(text)
        for session in saved.get("sessions", [saved]):
            for channel in session["channels"]:
                del channel["header"]
        file.write_text(json.dumps(saved))
        self.leat("load", "-i", file)
        channel, = self.session("web")["channels"]
        self.assertEqual(channel["header"], "compact")
        self.leat("destroy", "web")
        for session in saved.get("sessions", [saved]):
            session["channels"].append({**session["channels"][0], "name": "d", "header": "tiny"})
        file.write_text(json.dumps(saved))
        self.assert_one_line(self.leat("load", "-i", file, status=1).stderr, "all tiny")


class OfKilledDaemons(RestartTest):
    def test_before_between_and_after(self):
        daemon = self.daemon()
        directory = self.begun("order:*", channel_options=("--header=tiny", "--ring-size=4M"))
        running = self.program()
        for _ in range(3):
            running.do("emit 100")
            self.kill(daemon)
            running.do("emit 100")
            daemon = self.start_again(daemon)
        running.do("emit 100")
        counts = self.stopped("web")
        trace = self.trace_of(directory, counts)
        for name in "order:tick", "order:tock":
            self.assertEqual(self.numbers(trace, name, running), list(range(700)))


if __name__ == "__main__":
    main()
