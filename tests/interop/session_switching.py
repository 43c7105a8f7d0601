#!/usr/bin/env python3
"""Sessions, channels and rules are switched on and off at random moments while programs emit. What programs emit while
all is on is in the trace or counted; what they emit after something was switched off is in no trace."""
import bisect
import os
import random
import time

from session_daemons import SessionTest, Switched, discarded
from support import HAS_RSEQ, main

PROGRAMS = 8
# Events of a program after "stopped": without rseq, nobody sends a thread back that is stopped between its last look at the
# word and its commit.
STRAYS = 0 if HAS_RSEQ else 1


class Periods:
    """What is known of the numbers of the programs' events: (after, up to) lies in the trace, or does not."""

    def __init__(self, programs):
        self.programs = programs
        self.recorded = {started.pid: [] for started in programs}
        self.silent = {started.pid: [] for started in programs}
        self.begin = {}

    def now(self):
        return {started.pid: started.begun() for started in self.programs}

    def begin_period(self, is_on):
        self.is_on = is_on
        self.begin = self.now()

    def end_period(self):
        for pid, end in self.now().items():
            # That which is on its way counts for neither.
            (self.recorded if self.is_on else self.silent)[pid].append(range(self.begin[pid] + 1, end))


class Switching(SessionTest):
    TOGGLES = {"session": (("stop",), ("start",)),
               "channel": (("disable-channel", "c"), ("enable-channel", "c")),
               "rule": (("disable-event", "load:*"), ("enable-event", "load:*"))}

    def switch_at_random(self, periods, seconds, source):
        is_on = {name: True for name in self.TOGGLES}
        end = time.monotonic() + seconds
        count = 0
        while time.monotonic() < end or not all(is_on.values()):
            periods.begin_period(all(is_on.values()))
            time.sleep(source.choice((0, 0, 0.001, 0.01, 0.1)))
            periods.end_period()
            off = [name for name, state in is_on.items() if not state]
            # Mostly on: one thing is off, seldom two.
            name = source.choice(off) if off and source.random() < 0.7 else source.choice(list(is_on))
            is_on[name] = not is_on[name]
            self.leat(*self.TOGGLES[name][is_on[name]])
            count += 1
        return count

    def switch_under_load(self, burst, pause_us, seconds, *channel_options):
        seed = int(os.environ.get("LEAT_SEED", random.randrange(1 << 32)))
        self.daemon()
        directory = self.create("web")
        self.leat("enable-channel", "c", *channel_options)
        self.leat("enable-event", "load:*")
        programs = [Switched(self.directory / f"shared-{number}", burst, pause_us) for number in range(PROGRAMS)]
        for started in programs:
            self.addCleanup(started.close)
        self.wait_for_programs(*programs)
        self.leat("start")
        periods = Periods(programs)
        changes = self.switch_at_random(periods, seconds, random.Random(seed))
        counts = self.json("stop")
        for started in programs:
            self.assertEqual(started.end(), 0)
        after_stop = self.json("destroy")["events"] - counts["events"]
        self.assertLessEqual(after_stop, STRAYS * PROGRAMS)
        self.assertGreaterEqual(after_stop, 0)
        numbers = self.numbers_of(directory)
        missing = 0
        for started in programs:
            found = numbers.get(started.pid, [])
            self.assertEqual(sum(after <= before for before, after in zip(found, found[1:])), 0, "order")
            for period in periods.silent[started.pid]:
                begin = bisect.bisect_left(found, period.start)
                stray = bisect.bisect_left(found, max(period.stop, period.start)) - begin
                self.assertLessEqual(stray, STRAYS, f"{period} was off, but {found[begin:begin + 5]}")
            for period in periods.recorded[started.pid]:
                if period:
                    missing += len(period) - (bisect.bisect_left(found, period.stop) -
                                              bisect.bisect_left(found, period.start))
        present = sum(map(len, numbers.values()))
        evaluated = sum(started.evaluated() for started in programs)
        required = sum(len(period) for periods_of in periods.recorded.values() for period in periods_of)
        print(f"seed {seed}: {changes} changes; {evaluated} evaluated, {required} certain; {present} there, {discarded(counts)} counted, "
              f"{missing} certain ones not there", flush=True)
        self.assertEqual(present, counts["events"] + after_stop)
        self.assertLessEqual(missing, discarded(counts), seed)
        # An event that is on its way when it is switched off is no event: one of each program at each change.
        self.assertLessEqual(present + discarded(counts), evaluated, seed)
        self.assertGreaterEqual(present + discarded(counts), evaluated - PROGRAMS * changes, seed)
        self.assertGreater(required, 10000)

    def test_programs_in_bursts(self):
        self.switch_under_load(200, 20000, 10, "--ring-size=4M")

    def test_programs_flat_out(self):
        """The rings are full most of the time."""
        self.switch_under_load(1, 0, 3, "--ring-size=64K")


if __name__ == "__main__":
    main()
