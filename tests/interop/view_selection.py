#!/usr/bin/env python3
"""Which events `leat view` prints: --filter, and the times that babeltrace2 knows."""
import json
import subprocess

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
        self.assertEqual((result.returncode, result.stdout), (1, ""))
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
        for options, word in ((["--begin", "noon"], "no time"), (["--begin", "2", "--end", "1"], "before"),
                              (["--timerange", "1"], "BEGIN,END"), (["--begin", "1", "--timerange", "1,2"], "--timerange"),
                              (["--follow", "--end", "1"], "finished")):
            result = plain_run(LEAT, "view", *options, trace)
            self.assertEqual((result.returncode, result.stdout), (1, ""), options)
            self.assert_one_line(result.stderr, word)


if __name__ == "__main__":
    main()
