#!/usr/bin/env python3
"""Which events `leat view` prints: --filter, and the times that babeltrace2 knows; and its colours."""
import json
import os
import pathlib
import pty
import shutil
import struct
import subprocess

import ctf_random
from support import LEAT, SOURCE, InteropTest, main, plain_run, program

CAPTURES = SOURCE / "tests" / "data" / "captures"
SECOND = 10 ** 9


def objects_of(*arguments):
    return list(map(json.loads, plain_run(LEAT, "view", "--format=json", *arguments).stdout.splitlines()))


class Filters(InteropTest):
    def setUp(self):
        super().setUp()
        self.trace = self.record(program("emit"), "50", "3", name="trace").path
        self.all = objects_of(self.trace)

    def check(self, expression, is_chosen):
        expected = [event for event in self.all if is_chosen(event)]
        self.assertEqual(objects_of("--filter", expression, self.trace), expected, expression)
        self.assertGreater(len(expected), 0)
        return expected

    def test_chosen_are_those_for_which_it_holds(self):
        cpu = self.all[0]["packet_context"]["cpu_id"]
        vtid = self.all[-1]["common_context"]["vtid"]
        self.check("n >= 25 && thread == 1", lambda event: event["payload"].get("n", -1) >= 25 and event["payload"]["thread"] == 1)
        self.check("n & 1", lambda event: event["payload"].get("n", 0) & 1)
        self.check(f"$ctx.cpu_id == {cpu}", lambda event: event["packet_context"]["cpu_id"] == cpu)
        self.check(f"$ctx.vtid == {vtid}", lambda event: event["common_context"]["vtid"] == vtid)
        self.check('$name == "*:done"', lambda event: event["name"] == "test:done")
        middle = self.all[len(self.all) // 2]["time_ns"]
        self.check(f"$time < {middle}", lambda event: event["time_ns"] < middle)

    def test_text_has_the_time_since_the_event_that_was_printed_before(self):
        chosen = self.check("n == 0 || n == 49", lambda event: event["payload"].get("n") in (0, 49))
        lines = plain_run(LEAT, "view", "--filter", "n == 0 || n == 49", self.trace).stdout.splitlines()
        deltas = [line.split("(+")[1].split(")")[0] for line in lines]
        times = [event["time_ns"] for event in chosen]
        self.assertEqual(deltas[1:], [f"{(b - a) // SECOND}.{(b - a) % SECOND:09}" for a, b in zip(times, times[1:])])

    def test_field_that_no_event_has(self):
        for expression, word in (("nosuch == 1", "field \"nosuch\""), ("$ctx.nosuch || n", "context \"$ctx.nosuch\"")):
            result = plain_run(LEAT, "view", "--filter", expression, self.trace)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assert_one_line(result.stderr, word)

    def test_expression_that_is_none(self):
        result = plain_run(LEAT, "view", "--filter", "n == ", self.trace)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assert_one_line(result.stderr, "character 6")

    def test_of_a_trace_that_is_followed(self):
        """One that is finished is printed as if it were not followed."""
        self.assertEqual(len(objects_of("--follow", "--filter", "n == 7", self.trace)), 3)


class Times(InteropTest):
    """The same as babeltrace2, of all captures that have times."""

    def run_both(self, *arguments):
        theirs, ours = (subprocess.run([*command, *arguments], capture_output=True, check=False)
                        for command in (["babeltrace2"], [LEAT, "view"]))
        return theirs, ours

    def check(self, *arguments):
        theirs, ours = self.run_both(*arguments)
        self.assertEqual((ours.returncode, ours.stdout), (theirs.returncode, theirs.stdout), arguments)
        return ours.stdout.count(b"\n")

    def test_as_babeltrace2(self):
        checked = printed = 0
        for metadata in sorted(CAPTURES.rglob("metadata")):
            trace = str(metadata.parent)
            theirs, ours = self.run_both("--clock-gmt", trace)
            if theirs.returncode != 0 or theirs.stdout != ours.stdout:
                continue
            times = [event["time_ns"] for event in objects_of(trace) if "time_ns" in event and "name" in event]
            if len(times) < 4 or times[0] < 0:
                continue
            first, last = times[len(times) // 4], times[3 * len(times) // 4]
            begin, end = (f"{time // SECOND}.{time % SECOND:09}" for time in (first, last))
            for options in (["--begin", begin], ["--end", end], ["--timerange", f"{begin},{end}"],
                            ["--timerange", f"[{begin},{end}]"]):
                printed += self.check("--clock-gmt", *options, trace)
            checked += 1
        self.assertGreater(checked, 15)
        self.assertGreater(printed, 1000)

    def test_time_of_day(self):
        trace = str(CAPTURES / "local-disk" / "trace")
        times = [event["time"] for event in objects_of(trace) if "name" in event]
        date, time = times[len(times) // 2].rstrip("Z").split("T")
        for bound in (time, f"{date} {time}", time[:8], f"{date} {time[:5]}"):
            self.check("--clock-gmt", "--begin", bound, trace)
            self.check("--clock-gmt", "--end", bound, trace)

    def test_refused(self):
        trace = str(CAPTURES / "local-disk" / "trace")
        for options, status, word in ((["--begin", "noon"], 2, "no time"), (["--begin", "2", "--end", "1"], 2, "before"),
                                      (["--timerange", "2,1"], 2, "before"),
                                      (["--begin", "23:59", "--end", "1"], 1, "before"),
                                      (["--end", "99999999999"], 2, "\"99999999999\" is out of range"),
                                      (["--format=csv", "--columns", "time,"], 2, "--columns"),
                                      (["--timerange", "1"], 2, "BEGIN,END"),
                                      (["--begin", "1", "--timerange", "1,2"], 2, "--timerange"),
                                      (["--follow", "--end", "1"], 2, "finished"), (["--columns", "n"], 2, "csv")):
            result = plain_run(LEAT, "view", *options, trace)
            self.assertEqual((result.returncode, result.stdout), (status, ""), options)
            self.assert_one_line(result.stderr, word, *(["see leat view --help"] if status == 2 else []))


METADATA = """/* CTF 1.8 */
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; u32 stream_instance_id; }; };
clock { name = c; freq = 1000000000; absolute = true; };
stream { id = 0; packet.context := struct { time timestamp_begin; time timestamp_end; u32 content_size; u32 packet_size; };
         event.header := struct { time timestamp; }; };
event { name = e; stream_id = 0; fields := struct { u32 n; }; };
"""


class StreamIntersection(InteropTest):
    def make(self, *streams):
        """Each is a list of packets: begin, end, times of events."""
        directory = pathlib.Path(self.directory) / f"trace{len(os.listdir(self.directory))}"
        directory.mkdir()
        (directory / "metadata").write_text(METADATA)
        for number, packets in enumerate(streams):
            data = b""
            for begin, end, times in packets:
                size = 8 * (12 + 24 + 12 * len(times))
                data += struct.pack("<IIIQQII", 0xC1FC1FC1, 0, number, begin, end, size, size)
                data += b"".join(struct.pack("<QI", time, number) for time in times)
            (directory / f"s_{number}").write_bytes(data)
        return str(directory)

    def run_both(self, trace):
        return (subprocess.run([*command, "--clock-gmt", "--stream-intersection", trace], capture_output=True, check=False)
                for command in (["babeltrace2"], [LEAT, "view"]))

    def test_as_babeltrace2(self):
        some = self.make([(10, 20, [10, 15, 20]), (20, 45, [20, 30, 45])], [(15, 40, [15, 16, 30, 40])])
        traces = [some, self.make([(10, 20, [10, 15, 20])], [(20, 40, [20, 40])]),
                  *(str(metadata.parent) for metadata in sorted(CAPTURES.rglob("metadata")))]
        for seed in range(60):
            traces.append(str(pathlib.Path(self.directory) / f"random{seed}"))
            ctf_random.write_traces(seed, traces[-1])
        compared = fewer = 0
        for trace in traces:
            theirs, ours = self.run_both(trace)
            if theirs.returncode != 0:
                continue
            whole = plain_run(LEAT, "view", "--clock-gmt", trace, errors="surrogateescape")
            if whole.returncode != 0:
                continue
            self.assertEqual((ours.returncode, ours.stdout), (0, theirs.stdout), trace)
            compared += 1
            fewer += len(ours.stdout.splitlines()) < len(whole.stdout.splitlines())
        self.assertGreater(compared, 30)
        self.assertGreater(fewer, 3)

    def test_with_other_bounds_and_in_other_outputs(self):
        trace = self.make([(10, 20, [10, 15, 20]), (20, 45, [20, 30, 45])], [(15, 40, [15, 16, 30, 40])])
        chosen = [event["time_ns"] for event in objects_of("--stream-intersection", "--begin", "0.000000016", trace)]
        self.assertEqual(chosen, [16, 20, 20, 30, 30, 40])
        stats = json.loads(plain_run(LEAT, "stats", "--format=json", "--stream-intersection", trace).stdout)
        self.assertEqual((stats["events"], stats["begin_ns"], stats["end_ns"]), (8, 15, 40))

    def test_of_each_trace_on_its_own(self):
        first = self.make([(10, 20, [10, 15, 20])], [(15, 40, [15, 16, 40])])
        second = self.make([(1, 50, [1, 15, 50])], [(5, 45, [5, 45])])
        chosen = [event["time_ns"] for event in objects_of("--stream-intersection", first, second)]
        self.assertEqual(chosen, [5, 15, 15, 15, 16, 20, 45])

    def test_refused(self):
        apart = self.make([(10, 20, [10])], [(30, 40, [30])])
        timeless = str(CAPTURES / "ctf-examples" / "ctx-no-timestamps" / "trace")
        for trace, word in ((apart, "at no time were all streams active"), (timeless, "does not say when it begins")):
            result = plain_run(LEAT, "view", "--stream-intersection", trace)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assert_one_line(result.stderr, word)


class Colours(InteropTest):
    TERMINAL = {"TERM": "xterm-256color", "BABELTRACE_TERM_COLOR": "always"}

    def test_as_babeltrace2(self):
        traces = [str(metadata.parent) for metadata in sorted(CAPTURES.rglob("metadata"))]
        for seed in range(60):
            traces.append(str(pathlib.Path(self.directory) / str(seed)))
            ctf_random.write_traces(seed, traces[-1])
        compared = 0
        environment = {**os.environ, **self.TERMINAL}
        for number, trace in enumerate(traces):
            options = [[], ["--names=all", "--fields=all"], ["--clock-cycles"], ["--names=none", "--no-delta"]][number % 4]
            plain = [plain_run(*command, *options, trace, errors="surrogateescape") for command in (["babeltrace2"], [LEAT, "view"])]
            if any(result.returncode != 0 for result in plain) or plain[0].stdout != plain[1].stdout:
                continue  # what differs without colours is compared elsewhere
            theirs, ours = (plain_run(*command, "--color=always", *options, trace, env=environment, errors="surrogateescape")
                            for command in (["babeltrace2"], [LEAT, "view"]))
            # It ends by taking back a colour that it has not given.
            self.assertEqual(ours.stdout, theirs.stdout.removesuffix("\x1b[0m"), (trace, options))
            warnings = [line for line in theirs.stderr.splitlines() if "WARNING" in line]
            self.assertEqual([line for line in ours.stderr.splitlines() if "WARNING" in line],
                             [line[line.index("\x1b[33m\x1b[1mWARNING"):] for line in warnings])
            compared += 1
        self.assertGreater(compared, 60)

    def on_a_terminal(self, environment, *arguments, stderr=subprocess.DEVNULL):
        controller, terminal = pty.openpty()
        with os.fdopen(controller, "rb", buffering=0) as output:
            with subprocess.Popen([LEAT, "view", *arguments], stdout=terminal, stderr=stderr,
                                  env={**os.environ, "NO_COLOR": "", **environment}) as process:
                os.close(terminal)
                text = b""
                try:
                    while piece := output.read(4096):
                        text += piece
                except OSError:  # the terminal has no more writers
                    pass
                self.assertEqual(process.wait(), 0)
        return text

    def test_of_warnings(self):
        """They go to another place, which is asked for itself."""
        trace = str(CAPTURES / "ctf-examples" / "discarded" / "trace")
        warnings = pathlib.Path(self.directory) / "warnings"
        with open(warnings, "wb") as file:
            self.assertIn(b"\x1b", self.on_a_terminal({"TERM": "xterm"}, trace, stderr=file))
        self.assertEqual(warnings.read_text(), plain_run(LEAT, "view", trace).stderr)

    def test_auto(self):
        trace = str(CAPTURES / "ctf-examples" / "types" / "trace")
        self.assertIn(b"\x1b[36mi8\x1b[0m = \x1b[1m-5\x1b[0m", self.on_a_terminal({"TERM": "xterm"}, trace))
        for environment, options in (({"TERM": "dumb"}, []), ({"TERM": "xterm", "NO_COLOR": "1"}, []),
                                     ({"TERM": "xterm"}, ["--color=never"]), ({"TERM": "xterm"}, ["--format=json"])):
            self.assertNotIn(b"\x1b", self.on_a_terminal(environment, *options, trace))
        self.assertNotIn("\x1b", plain_run(LEAT, "view", trace, env={**os.environ, "TERM": "xterm"}).stdout)


class Nothing(InteropTest):
    """`--format=none`"""

    def test_all_is_read_and_only_losses_are_told(self):
        trace = str(CAPTURES / "ctf-examples" / "discarded" / "trace")
        result = plain_run(LEAT, "view", "--format=none", trace)
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertEqual(result.stderr, plain_run(LEAT, "view", trace).stderr)

    def test_damage_is_told(self):
        trace = pathlib.Path(self.directory) / "trace"
        shutil.copytree(CAPTURES / "ctf-examples" / "types" / "trace", trace)
        stream = max((path for path in trace.iterdir() if path.name != "metadata"), key=lambda path: path.stat().st_size)
        stream.write_bytes(stream.read_bytes()[:-3])
        result = plain_run(LEAT, "view", "--format=none", str(trace))
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assert_one_line(result.stderr, stream.name)


if __name__ == "__main__":
    main()
