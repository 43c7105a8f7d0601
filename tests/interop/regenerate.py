#!/usr/bin/env python3
"""`leat regenerate`: metadata with the time of day that the system has by now, and the values of sticky events once more."""
import mmap
import os
import re
import struct
import subprocess
import threading
import time

from relays import LeatRelay, LttngRelay
from session_daemons import DECLARATIONS, DISCARDED_IN_CHUNK, RestartTest, metadata_of
from support import LEAT, PATIENCE, PROGRAMS, main, wait_until, without_sanitizers

HOUR = 3600
OFFSET = re.compile(r"\toffset = +(\d+);\n")
NUMBER = re.compile(r"\bn = (\d+)")


def offset_of(metadata):
    """Of the clock to the Unix epoch, ns."""
    offset, = OFFSET.findall(metadata)
    return int(offset)


def without_offset(metadata):
    return OFFSET.sub(lambda match: "-" * len(match[0]), metadata)


class RegenerateTest(RestartTest):
    def setUp(self):
        super().setUp()
        path = self.directory / "shift"
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as file:
            self.shift = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.addCleanup(self.shift.close)
        self.environment = {**os.environ, "LD_PRELOAD": str(PROGRAMS / "libtest-shifted-clock.so"),
                            "LEAT_TEST_SHIFT": str(path)}

    def set_clock(self, hours):
        """As the daemon sees it."""
        struct.pack_into("<q", self.shift, 0, hours * HOUR)

    def regenerate(self, hours, name="web"):
        """The metadata, after the clock was set."""
        self.set_clock(hours)
        self.assertEqual(self.json("regenerate", "metadata", name),
                         {"ok": True, "session": name, "what": "metadata", "warnings": []})

    def metadata(self, directory):
        """Of the only trace, as soon as it is there."""
        return wait_until(lambda: metadata_of(directory), "there is no metadata")

    def assert_hours(self, before, after, hours):
        """The clock was set by so much; nothing else has changed, but that there may be more."""
        self.assertAlmostEqual(offset_of(after) - offset_of(before), hours * HOUR * 1e9, delta=60e9)
        self.assertEqual(without_offset(after)[:len(before)], without_offset(before))


@without_sanitizers
class Metadata(RegenerateTest):
    def test_time_of_day_is_that_of_now(self):
        self.daemon(env=self.environment)
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        before = self.metadata(directory)
        self.regenerate(5)
        self.assertIn("metadata", self.leat("regenerate", "metadata").stdout)
        running.do("emit 10")
        now = time.time()  # moment: the clock is wrong by hours
        trace = self.complete_trace("web", directory)
        self.assert_numbers(trace, "order:tick", range(20))
        self.assert_hours(before, metadata_of(directory), 5)
        shown = subprocess.run([LEAT, "view", "--clock-seconds", directory], capture_output=True, text=True, check=True)
        for line in shown.stdout.splitlines():
            self.assertAlmostEqual(float(line[1:].split("]")[0]) - now, 5 * HOUR, delta=HOUR)

    def test_events_that_come_later_are_described(self):
        self.daemon(env=self.environment)
        directory = self.begun("order:tick")
        running = self.program()
        for hours, pattern in enumerate(("order:tock", "stock:*"), start=1):
            running.do("emit 10")
            before = self.metadata(directory)
            self.regenerate(hours)
            self.leat("enable-event", pattern)
            running.do("emit 10")
            self.assert_hours(before, self.metadata(directory), 1)
        trace = self.complete_trace("web", directory)
        for name, numbers in (("order:tick", range(40)), ("order:tock", range(10, 40)), ("stock:tick", range(30, 40))):
            self.assert_numbers(trace, name, numbers)

    def test_stopped_session(self):
        self.daemon(env=self.environment)
        directory = self.begun("order:tick")
        self.program().do("emit 10")
        self.leat("stop")
        before = self.metadata(directory)
        self.regenerate(-3)
        self.assert_hours(before, metadata_of(directory), -3)
        self.assertEqual(len(self.read(directory).lines), 10)

    def test_chunks_that_are_complete_keep_theirs(self):
        self.daemon(env=self.environment)
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        before = self.metadata(directory)
        self.leat("rotate")
        running.do("emit 10")
        self.regenerate(1)
        self.leat("rotate")
        running.do("emit 10")
        self.leat("destroy")
        for chunk, hours in zip(self.chunks_of(directory), (0, 1, 1), strict=True):
            self.assert_hours(before, metadata_of(chunk), hours)
            self.assertEqual(len(self.read(chunk, DISCARDED_IN_CHUNK).lines), 10)

    def test_processes_that_have_ended_keep_theirs(self):
        self.daemon(env=self.environment)
        directory = self.begun("order:tick", channel_options=("--buffers=pid",))
        ended, running = self.program(), self.program()
        for program in (ended, running):
            program.do("emit 10")
        wait_until(lambda: len(OFFSET.findall(metadata_of(directory))) == 2, "there are no traces")
        traces = [next(directory.glob(f"ust/pid/*-{program.pid}-*")) for program in (ended, running)]
        before = [metadata_of(trace) for trace in traces]
        ended.end()
        wait_until(lambda: not (traces[0] / ".leat-sync").exists(), "the trace does not end")
        self.regenerate(1)
        running.do("emit 10")
        for trace, first, hours in zip(traces, before, (0, 1)):
            self.assert_hours(first, metadata_of(trace), hours)
        self.assertEqual(len(self.complete_trace("web", directory).lines), 30)

    def test_refused(self):
        self.daemon()
        self.create("web")
        self.assert_one_line(self.leat("regenerate", "metadata", status=1).stderr, "never started")
        self.assert_one_line(self.leat("regenerate", "metadata", "other", status=1).stderr, '"other"')
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        for place in ((f"--live={relay.url}",), ("-o", self.directory / "both", f"--live={relay.url}")):
            self.leat("create", "relayed", *place)
            self.leat("enable-event", "order:tick")
            self.leat("start")
            self.assert_one_line(self.leat("regenerate", "metadata", status=1).stderr, '"relayed"', "live")
            self.leat("destroy")

    def test_snapshots_keep_theirs(self):
        self.daemon()
        self.leat("create", "web", "--snapshot", "-o", self.directory / "web")
        self.leat("enable-event", "test:*")
        self.leat("start")
        self.assert_one_line(self.leat("regenerate", "metadata", status=1).stderr, 'session "web" stores snapshots alone')

    def test_request_that_means_nothing(self):
        daemon = self.daemon()
        self.create("web")
        for members in ({}, {"what": "all"}, {"what": 1}, {"what": "metadata", "more": 1}):
            answer = daemon.ask("regenerate", **members)
            self.assertEqual((answer["ok"], answer["kind"]), (False, "usage"), answer)


@without_sanitizers
class AtRelay(RegenerateTest):
    """Of a session that nobody follows."""

    def begun_at(self, relay, *places):
        self.addCleanup(relay.kill)
        self.leat("create", "web", *places, "-o", relay.url)
        self.leat("enable-event", "order:tick")
        self.leat("start")

    def part(self, relay, number=0):
        """Of the session, as soon as it has metadata."""
        wait_until(lambda: len(relay.parts("web")) > number and metadata_of(relay.parts("web")[number]), "no metadata")
        return relay.parts("web")[number]

    def is_shifted(self, before, after, hours):
        return abs(offset_of(after) - offset_of(before) - hours * HOUR * 1e9) < HOUR * 1e9 / 2

    def check_time_of_day(self, relay, *places):
        self.begun_at(relay, *places)
        running = self.program()
        running.do("emit 10")
        before = metadata_of(self.part(relay))
        for hours, pattern in ((5, "order:tock"), (-2, "stock:tick")):
            self.regenerate(hours)
            # Beside a directory, nobody waits for the relay.
            wait_until(lambda: self.is_shifted(before, metadata_of(self.part(relay)), hours), "the relay has the old text")
            self.assert_hours(before, metadata_of(self.part(relay)), hours)
            self.leat("enable-event", pattern)
            running.do("emit 10")
        self.leat("destroy")
        return self.part(relay), before

    def test_time_of_day_is_that_of_now(self):
        self.daemon(env=self.environment)
        for make_relay in (LeatRelay, LttngRelay):
            self.set_clock(0)
            with self.subTest(make_relay.__name__):
                part, before = self.check_time_of_day(make_relay(self.directory / make_relay.__name__))
                self.assert_hours(before, metadata_of(part), -2)
                self.assertEqual(len(self.read(part).lines), 30 + 20 + 10)
                self.assertEqual(list(part.rglob(".metadata*")), [])

    def test_directory_and_relay(self):
        self.daemon(env=self.environment)
        both = self.directory / "both"
        part, before = self.check_time_of_day(LeatRelay(self.directory / "relay"), "-o", both)
        for place in (part, both):
            self.assert_hours(before, metadata_of(place), -2)
            self.assertEqual(len(self.read(place).lines), 60)

    def test_chunks_that_are_complete_keep_theirs(self):
        self.daemon(env=self.environment)
        relay = LeatRelay(self.directory / "relay")
        self.begun_at(relay)
        running = self.program()
        running.do("emit 10")
        before = metadata_of(self.part(relay))
        self.leat("rotate")
        self.regenerate(1)
        running.do("emit 10")
        self.leat("destroy")
        chunks = sorted(self.part(relay).glob("archives/*"))
        for chunk, hours in zip(chunks, (0, 1), strict=True):
            self.assert_hours(before, metadata_of(chunk), hours)
            self.assertEqual(len(self.read(chunk, DISCARDED_IN_CHUNK).lines), 10)

    def test_followers_of_its_files_go_on(self):
        self.daemon(env=self.environment)
        relay = LeatRelay(self.directory / "relay")
        self.begun_at(relay)
        running = self.program()
        # The session is not live: nobody would hear that another CPU has nothing to tell.
        os.sched_setaffinity(running.process.pid, {min(os.sched_getaffinity(0))})
        running.do("emit 10")
        for pattern in ("order:tock", "none:*"):
            self.leat("enable-event", pattern)
            running.do("emit 10")
        part = self.part(relay)
        with open(self.directory / "printed", "w", encoding="utf-8") as output:
            view = subprocess.Popen([LEAT, "view", "--follow", part], stdout=output, stderr=subprocess.PIPE, text=True)
        self.addCleanup(view.communicate)
        self.addCleanup(view.kill)
        printed = self.directory / "printed"
        wait_until(lambda: "order:tock" in printed.read_text(), "nothing is printed")
        self.regenerate(1)
        self.leat("enable-event", "stock:tick")
        running.do("emit 10")
        self.leat("destroy")
        _, warnings = view.communicate(timeout=PATIENCE)
        self.assertEqual((view.returncode, warnings), (0, ""))
        lines = printed.read_text().splitlines()
        for name, numbers in (("order:tick", range(40)), ("order:tock", range(10, 40)), ("stock:tick", range(30, 40))):
            self.assertEqual([int(NUMBER.search(line)[1]) for line in lines if f" {name}: " in line], list(numbers))

    def test_relay_that_is_gone(self):
        """What it gets when it is back has the time of now; what it has stored keeps its own."""
        self.daemon(env=self.environment)
        relay = LeatRelay(self.directory / "relay")
        self.begun_at(relay)
        running = self.program()
        running.do("emit 10")
        before = metadata_of(self.part(relay))
        relay.stop()
        self.set_clock(3)
        self.assert_one_line(self.leat("regenerate", "metadata", status=1).stderr, "is not connected")
        running.do("emit 10")
        relay.start()
        self.assert_hours(before, metadata_of(self.part(relay, 1)), 3)
        self.leat("destroy")
        self.assert_hours(before, metadata_of(self.part(relay, 0)), 0)


@without_sanitizers
class UnderLoad(RegenerateTest):
    def read_again_and_again(self, path, seen):
        while not self.is_over:
            seen.add(path.read_text())

    def test_whoever_reads_finds_the_old_or_the_new(self):
        self.daemon(env=self.environment)
        directory = self.begun("load:*", channel_options=("--ring-size=4M",))
        programs = self.switched(2, 20, 2000)
        first = self.metadata(directory)
        self.is_over, seen = False, set()
        path, = directory.rglob("metadata")
        reading = threading.Thread(target=self.read_again_and_again, args=(path, seen))
        reading.start()
        self.addCleanup(reading.join)
        try:
            for hours in range(20):
                self.regenerate(hours)
                self.leat("enable-event", f"none:{hours}")
        finally:
            self.is_over = True
        evaluated = self.end_all(programs)
        counts = self.stopped("web")
        self.assert_each_once(directory, counts, evaluated)
        last = without_offset(metadata_of(directory))
        self.assertGreater(len(seen), 1)
        for text in seen:
            offset_of(text)
            self.assertGreaterEqual(len(text), len(first))
            self.assertTrue(last.startswith(without_offset(text)))

    def test_killed_right_after_it(self):
        daemon = self.daemon(env=self.environment)
        directory = self.begun("load:*", "order:*", channel_options=("--ring-size=4M",))
        programs = self.switched(2, 1, 0)
        before = self.metadata(directory)
        for hours in range(1, 8):
            self.regenerate(hours)
            self.kill(daemon)
            time.sleep(self.random.random() * 0.1)  # moment: the programs go on without a daemon
            daemon = self.start_again(daemon)
            self.assertEqual(self.session("web")["state"], "active")
            after = metadata_of(directory)
            self.assert_hours(before, after, hours)
        wait_until(lambda: offset_of(metadata_of(directory)) == offset_of(after), "it is another one")
        evaluated = self.end_all(programs)
        self.assert_each_once(directory, self.stopped("web"), evaluated)
        self.assert_hours(before, metadata_of(directory), 7)
        self.assertEqual(metadata_of(directory).count('name = "load:tick";'), DECLARATIONS)
        self.assertEqual(sorted(path.name for path in directory.rglob(".*")), [".leat-sync"])

    def test_follower_goes_on(self):
        self.daemon(env=self.environment)
        directory = self.begun("order:tick")
        running = self.program()
        running.do("emit 10")
        self.metadata(directory)
        printed = self.directory / "printed"
        with open(printed, "w", encoding="utf-8") as output:
            view = subprocess.Popen([LEAT, "view", "--follow", "--clock-seconds", directory], stdout=output,
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(view.kill)
        wait_until(lambda: printed.read_text().count("\n") == 10, "nothing is printed")
        for hours, pattern in ((1, "order:tock"), (-2, "stock:tick")):
            self.regenerate(hours)
            self.leat("enable-event", pattern)
            running.do("emit 10")
        self.leat("destroy")
        _, warnings = view.communicate(timeout=PATIENCE)
        self.assertEqual((view.returncode, warnings), (0, ""))
        lines = printed.read_text().splitlines()
        for name, numbers in (("order:tick", range(30)), ("order:tock", range(10, 30)), ("stock:tick", range(20, 30))):
            self.assertEqual([int(NUMBER.search(line)[1]) for line in lines if f" {name}: " in line], list(numbers))
        times = [float(line[1:].split("]")[0]) for line in lines]
        self.assertEqual(times, sorted(times))
        self.assertLess(times[-1] - times[0], 60)


class Statedump(RestartTest):
    def named(self, directory):
        return [(event["id"], event["name"]) for event in self.complete_trace("web", directory).events("queue:named")]

    def test_sticky_values_come_again(self):
        self.daemon()
        directory = self.create_active("web", "queue:*")
        running = self.program("sticky")
        self.wait_for_programs(running)
        self.json("stop")
        for line in ("set 1 one", "set 2 two"):
            running.do(line)
        self.leat("start")
        self.assertEqual(self.json("regenerate", "statedump"),
                         {"ok": True, "session": "web", "what": "statedump", "warnings": []})
        running.do("set 1 changed")
        self.assertIn("statedump", self.leat("regenerate", "statedump", "web").stdout)
        self.assertEqual(self.named(directory), [(1, "one"), (2, "two")] * 2 + [(1, "changed"), (2, "two"), (1, "changed")])

    def test_only_in_the_session_that_is_meant(self):
        self.daemon()
        running = self.program("sticky")
        running.do("set 1 one")
        self.wait_for_programs(running)
        directories = {name: self.create_active(name, "queue:*") for name in ("other", "web")}
        self.leat("regenerate", "statedump", "other")
        self.assertEqual(self.named(directories["web"]), [(1, "one")])

    def test_session_that_is_not_active(self):
        self.daemon()
        self.create_active("web", "queue:*")
        self.leat("stop")
        self.assert_one_line(self.leat("regenerate", "statedump", status=1).stderr, '"web"', "not active")


if __name__ == "__main__":
    main()
