#!/usr/bin/env python3
"""The flight recorder: rings that keep the last events, and snapshots of them, by `leat record --flight-recorder` and by
sessions of the daemon (`leat create --snapshot`)."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

from session_daemons import Commanded, RestartTest, SmallDiskTest, Switched
from support import (BUILD, LEAT, ON_ONE_CPU, PATIENCE, SOURCE, InteropTest, can_be_two_users, enter_user_namespace,
                     exit_status_of, has_namespaces, main, needs, outside_gate, plain_run, program, wait_until)

# Where something is gone, and between the last packet of one snapshot and the first of the next.
LOST = re.compile(r"^WARNING: Tracer (?:lost|may have lost|discarded|may have discarded) ")
PACKET_HEADER = 84
RING = 64 << 10
OTHER = 1000  # who is not root
WHOLE_RING = 1000  # events, at least: more than 7/8 of RING, with the contexts of `leat record`


# What a ring keeps is without gaps only if the program stays on its CPU.


class FlightTest(InteropTest):
    def last_numbers(self, path, name="test:count", warnings=LOST):
        """The numbers of a snapshot's events: in order, without gap."""
        numbers = [event["n"] for event in self.read(path, warnings).events(name)]
        if numbers:
            self.assertEqual(numbers, list(range(numbers[0], numbers[-1] + 1)))
        return numbers


class Recorder(FlightTest):
    def fly(self, commands, count, end="exit", options=(), status=0, name="trace"):
        """Records tests/programs/flight.c."""
        recording = self.record(*ON_ONE_CPU, program("flight"), str(count), end, options=["--flight-recorder", *options], name=name,
                                input=commands)
        self.assertEqual(recording.status, status, recording.stderr)
        return recording

    def recorder(self, command, *options):
        return subprocess.Popen(self.record_command(command, ["--flight-recorder", *options]), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def snapshots(self, recording):
        """What the summary says, which is what is there."""
        found = recording.summary["snapshots"]
        for snapshot in found:
            self.assertEqual(len(self.read(snapshot["directory"], LOST).lines), snapshot["events"])
        self.assertEqual(sorted(snapshot["directory"] for snapshot in found),
                         sorted(str(path) for path in recording.path.iterdir()))
        return found

    def reasons(self, recording):
        return [snapshot["reason"] for snapshot in self.snapshots(recording)]

    def test_snapshot_at_the_end_holds_the_last_events(self):
        recording = self.fly("q", 100_000, options=[f"--ring-size={RING}"])
        self.assertEqual(self.reasons(recording), ["at the end"])
        numbers = self.last_numbers(recording.path)
        self.assertEqual(numbers[-1], 99_999)
        self.assertGreater(len(numbers), WHOLE_RING)
        snapshot, = recording.summary["snapshots"]
        self.assertGreaterEqual(snapshot["bytes"] - snapshot["packets"] * PACKET_HEADER, RING * 7 // 8 - 64)
        self.assertEqual(recording.summary["discarded"], 0)

    def test_program_asks_and_goes_on(self):
        recording = self.fly("sq", 1000)
        self.assertEqual(self.reasons(recording)[-1], "at the end")
        self.assertEqual(self.last_numbers(recording.path, warnings=re.compile("(?!)")), list(range(2000)))

    def test_each_way_to_end(self):
        for end, number in (("kill", signal.SIGKILL), ("segv", signal.SIGSEGV), ("abort", signal.SIGABRT),
                            ("handler", signal.SIGSEGV), ("_exit", 0)):
            with self.subTest(end):
                recording = self.fly("q", 20_000, end, [f"--ring-size={RING}"], exit_status_of(-number), name=end)
                numbers = self.last_numbers(pathlib.Path(self.snapshots(recording)[-1]["directory"]))
                self.assertEqual(numbers[-1], 19_999)
                self.assertGreater(len(numbers), WHOLE_RING)

    def test_what_was_asked_for_at_the_very_end_is_told(self):
        """The program may end in the turn in which its snapshot is taken."""
        for turn in range(10):
            self.snapshots(self.fly("sq", 100, "_exit", name=f"trace-{turn}"))

    def test_headers(self):
        for header in ("compact", "large", "tiny"):
            with self.subTest(header):
                recording = self.fly("q", 30_000, options=[f"--header={header}", f"--ring-size={RING}"], name=header)
                self.assertEqual(self.last_numbers(recording.path)[-1], 29_999)

    def test_event_asks_with_what_came_before(self):
        with self.recorder([program("flight"), "1000", "exit"], "--snapshot-on", "test:err*") as recorder:
            recorder.stdin.write("e")
            recorder.stdin.flush()
            wait_until(lambda: list((self.directory / "trace").glob("*-0")), "no snapshot")
            said = recorder.stderr.readline()
            self.assertIn("asked for by the program", said)
            recorder.communicate("q", timeout=PATIENCE)
        trace = self.read(next((self.directory / "trace").glob("*-0")))
        self.assertEqual([event["n"] for event in trace.events("test:count")], list(range(1000)))
        self.assertEqual([event["n"] for event in trace.events("test:error")], [1000])

    def test_event_that_the_ring_of_triggers_has_no_room_for_asks_too(self):
        large = ["sh", "-c", '"$0" 20000 >/dev/null && exec cat', program("fields")]
        with self.recorder(large, "--snapshot-on", "fields:large") as recorder:
            wait_until(lambda: list((self.directory / "trace").glob("*-0")), "no snapshot")
            _, errors = recorder.communicate(timeout=PATIENCE)
        self.assertIn("(asked for by the program)", errors)
        self.assertIn("snapshots, 0 discarded", errors)

    def test_event_that_asks_is_switched_off_as_all_others(self):
        with self.recorder([program("commanded")], "-e", "order:*", "--snapshot-on", "order:tick",
                           "--duration=300ms") as recorder:
            recorder.stdin.write("emit 10\n")
            recorder.stdin.flush()
            self.assertEqual(recorder.stdout.readline(), "10\n")
            next(line for line in recorder.stderr if "runs on" in line)
            recorder.communicate("emit 1000\n", timeout=PATIENCE)
        numbers = {event["n"] for event in self.read(self.directory / "trace", LOST).events("order:tick")}
        self.assertLessEqual(numbers, set(range(10)))

    def test_user_asks_by_signal(self):
        with self.recorder([program("flight"), "1000", "exit"]) as recorder:
            recorder.stdin.write("c")
            recorder.stdin.flush()
            self.assertEqual(recorder.stdout.readline(), "1000\n")
            for turn in range(3):
                recorder.send_signal(signal.SIGUSR2)
                self.assertIn("(asked for by signal): 1000 events", recorder.stderr.readline())
            _, errors = recorder.communicate("q", timeout=PATIENCE)
        self.assertEqual(recorder.returncode, 0)
        self.assertIn("4 snapshots", errors)
        self.assertEqual(self.last_numbers(self.directory / "trace"), list(range(2000)))

    def test_maximum_size(self):
        recording = self.fly("q", 100_000, options=["--max-size=64K"])
        snapshot, = self.snapshots(recording)
        self.assertLessEqual(snapshot["bytes"], 64 << 10)
        # Of rings of 1M, a packet is at most 32K and a record.
        self.assertGreater(snapshot["bytes"], 16 << 10)
        self.assertEqual(self.last_numbers(recording.path)[-1], 99_999)

    def test_children(self):
        """Several processes write into the rings. The events of all of them are there."""
        recording = self.record(program("workers"), "4", "1000", options=["--flight-recorder"], input="work\nend\n")
        self.assertEqual(recording.status, 0, recording.stderr)
        self.snapshots(recording)
        self.assertEqual(len(self.read(recording.path).events("worker:step")), 4000)

    def test_nothing_was_recorded(self):
        recording = self.fly("", 1000)
        self.assertIn("nothing was recorded", recording.stderr)
        self.assertEqual(self.last_numbers(recording.path), [])

    def test_options_that_exclude_each_other(self):
        for options in (["--mode=blocking"], ["--tracefile-size=1M"], ["--live"], ["--max-size=1"]):
            result = plain_run(LEAT, "record", "--flight-recorder", *options, "--", "true", cwd=self.directory)
            self.assertEqual(result.returncode, 2, options)
            self.assert_one_line(result.stderr)
        result = plain_run(LEAT, "record", "--snapshot-on=x", "--", "true", cwd=self.directory)
        self.assertEqual(result.returncode, 2)
        self.assert_one_line(result.stderr, "--flight-recorder")


class SnapshotFixture(RestartTest, FlightTest):
    """With sessions of snapshots."""

    def setUp(self):
        super().setUp()
        # A program has the rings before its first event, however long the daemon takes.
        os.environ["LEAT_REGISTER_TIMEOUT"] = "-1"
        self.first = self.daemon()

    def create_flying(self, *patterns, options=(), channel_options=("--ring-size=64K",), name="web"):
        directory = self.directory / f"of-{name}"
        self.leat("create", name, "--snapshot", "-o", directory, *options)
        self.leat("enable-channel", "c", *channel_options, "-s", name)
        self.leat("enable-event", *(patterns or ("test:*",)), "-s", name)
        self.leat("start", name)
        return directory

    def flight(self, count, end="exit", **variables):
        """A program that has the rings."""
        path = self.directory / f"flight-{count}-{end}"
        path.write_text(f'#!/bin/sh\nexec {" ".join(ON_ONE_CPU)} "{program("flight")}" {count} {end}\n')
        path.chmod(0o755)
        running = Commanded(str(path), **variables)
        self.addCleanup(running.kill)
        return running

    def command(self, running, letter):
        running.process.stdin.write(letter)
        running.process.stdin.flush()
        return running.answer()

    def snapshot(self, *options):
        return self.json("snapshot", "record", *options)

    def taken(self, directory):
        found = directory.iterdir() if directory.exists() else []
        return sorted(path for path in found if not path.name.startswith("."))

    def wait_for_snapshots(self, directory, count):
        return wait_until(lambda: len(found := self.taken(directory)) >= count and found, "no snapshot")


class SnapshotTest(SnapshotFixture):
    """In directories."""

    def test_snapshots_overlap_without_doubles(self):
        directory = self.create_flying()
        running = self.flight(700)
        answers = []
        for turn in range(4):
            self.command(running, "c")
            answers.append(self.snapshot())
        numbers = self.last_numbers(directory)
        self.assertEqual(numbers[-1], 4 * 700 - 1)
        self.assertGreater(sum(answer["events"] for answer in answers), len(numbers))
        for answer in answers:
            self.assertEqual(len(self.last_numbers(answer["snapshot"])), answer["events"])
        self.assertIn(": 4 snapshots, 0 events discarded", self.leat("stop", "web").stdout)
        self.assertEqual(self.json("destroy", "web")["snapshots"], 4)

    def test_where_something_is_gone_readers_say_so(self):
        directory = self.create_flying()
        running = self.flight(20_000)
        first = self.command(running, "c")
        self.snapshot()
        last = self.command(running, "c")
        self.snapshot()
        trace = self.read(directory, LOST)
        numbers = [event["n"] for event in trace.events()]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertIn(first - 1, numbers)
        self.assertEqual(numbers[-1], last - 1)
        self.assertRegex(trace.stderr, LOST)

    def test_options_of_a_snapshot(self):
        directory = self.create_flying()
        self.command(self.flight(5000), "c")
        named = self.snapshot("--name=before-lunch")["snapshot"]
        self.assertRegex(named, rf"^{directory}/before-lunch-\d{{8}}-\d{{6}}-0$")
        small = self.snapshot("--max-size=8K")
        self.assertLessEqual(small["bytes"], 8192)
        self.assertEqual(self.last_numbers(small["snapshot"])[-1], 4999)
        elsewhere = self.directory / "elsewhere"
        self.assertEqual(self.snapshot("-o", elsewhere)["snapshot"], str(elsewhere))
        self.assertEqual(self.last_numbers(elsewhere), self.last_numbers(named))
        self.leat("snapshot", "record", "-o", elsewhere, status=1)
        self.leat("snapshot", "record", "--max-size=100", status=1)
        self.leat("snapshot", "record", "--max-size=0", status=2)
        self.leat("snapshot", "record", "--name=a/b", status=2)

    def test_stopped_session_has_snapshots_and_goes_on(self):
        directory = self.create_flying()
        running = self.flight(100)
        self.command(running, "c")
        self.leat("stop", "web")
        self.command(running, "c")
        self.assertEqual(self.last_numbers(self.snapshot()["snapshot"]), list(range(100)))
        self.leat("start", "web")
        self.command(running, "c")
        self.snapshot()
        # What is off is not counted by the program.
        self.assertEqual(self.last_numbers(directory), list(range(200)))

    def test_clear_leaves_out_what_was_there(self):
        directory = self.create_flying()
        running = self.flight(100)
        self.command(running, "c")
        self.leat("clear", "web")
        self.command(running, "c")
        self.assertEqual(self.last_numbers(self.snapshot()["snapshot"]), list(range(100, 200)))
        self.assertEqual(len(self.taken(directory)), 1)

    def test_what_such_a_session_refuses(self):
        self.create_flying()
        self.assertIn("web", self.leat("rotate", "web", status=1).stderr)
        self.leat("create", "plain", "-o", self.directory / "plain")
        self.assertIn("--snapshot", self.leat("snapshot", "record", "plain", status=1).stderr)
        self.leat("create", "other", "--snapshot", "-o", self.directory / "other")
        self.assertIn("never started", self.leat("snapshot", "record", "other", status=1).stderr)
        self.leat("create", "third", "--snapshot-on=x", status=2)
        self.leat("snapshot", "record", "nothing", status=1)

    def test_crash_is_stored_by_itself(self):
        for end in ("segv", "kill", "abort"):
            with self.subTest(end):
                directory = self.create_flying(name=end)
                self.command(self.flight(5000, end), "q")
                found = self.wait_for_snapshots(directory, 1)
                wait_until(lambda: "has crashed: a snapshot is due" in self.first.log(), "nothing in the log")
                self.assertEqual(self.last_numbers(found[0])[-1], 4999)
                self.leat("destroy", end)

    @needs(can_be_two_users(), "two-users")
    def test_crash_of_a_program_of_another_user_is_seen_without_the_right_to_trace_it(self):
        """As the service runs. Its parent may let it lie for long."""
        unit = (SOURCE / "packaging/leat-sessiond.service.in").read_text()
        rights = re.search("^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)[1].lower().split()
        bounding = ",".join(["-all", *(right.replace("cap_", "+", 1) for right in rights)])
        self.kill(self.first)
        daemon = self.daemon(wrapper=("setpriv", f"--bounding-set={bounding}"))
        directory = self.create_flying()
        self.directory.chmod(0o755)
        running = self.flight(2000, uid=OTHER)
        self.command(running, "c")
        os.kill(running.process.pid, signal.SIGKILL)
        wait_until(lambda: "has crashed: a snapshot is due" in daemon.log(), "nothing in the log")
        self.wait_for_snapshots(directory, 1)

    def test_crash_of_a_program_that_somebody_records_as_well(self):
        directory = self.create_flying()
        command = self.record_command(["sh", "-c", '"$0" 100 segv; exec cat', program("flight")])
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              text=True) as recorder:
            recorder.stdin.write("q")
            recorder.stdin.flush()
            found = self.wait_for_snapshots(directory, 1)
            recorder.communicate(timeout=PATIENCE)
        self.assertEqual(self.last_numbers(found[0])[-1], 99)

    def test_end_that_is_meant_is_no_crash(self):
        directory = self.create_flying()
        for end in ("exit", "_exit"):
            running = self.flight(100, end)
            self.command(running, "q")
            self.assertEqual(running.end(), 0)
        forking = self.program()
        forking.do("fork 10")
        forking.do("emit 1")
        self.assertEqual(forking.end(), 0)
        self.leat("enable-event", "lttng_ust_libc:free", "-s", "web")
        preloaded = plain_run(sys.executable, "-c", "import os; os._exit(0)",
                              env={**os.environ, "LD_PRELOAD": str(BUILD / "lib" / "libleat-preload-libc.so")})
        self.assertEqual(preloaded.returncode, 0, preloaded.stderr)
        # Those are gone for the daemon, too.
        self.wait_for_program_count(0)
        self.snapshot()
        self.assertEqual(len(self.taken(directory)), 1)

    def test_events_and_programs_ask(self):
        directory = self.create_flying("test:count", options=["--snapshot-on=test:err*"])
        running = self.flight(500)
        self.command(running, "e")
        self.wait_for_snapshots(directory, 1)
        self.command(running, "s")
        found = self.wait_for_snapshots(directory, 2)
        wait_until(lambda: self.first.log().count("session web: snapshot of ") == 2, "nothing in the log")
        self.assertEqual(self.last_numbers(found[0]), list(range(500)))
        # Events that ask are in no trace.
        self.assertEqual(self.stopped("web")["events"], 0)

    def test_what_was_asked_for_is_stored_when_the_session_ends(self):
        """Though it is not due yet, as there was another one a moment ago."""
        for end in ("exit", "segv"):
            with self.subTest(end):
                directory = self.create_flying("test:count", options=["--snapshot-on=test:err*"], name=end)
                running = self.flight(500, end)
                self.command(running, "e")
                self.wait_for_snapshots(directory, 1)
                if end == "segv":
                    self.command(running, "q")
                    running.process.wait(PATIENCE)
                else:
                    self.command(running, "e")
                self.assertEqual(self.json("destroy", end)["warnings"], [])
                self.assertEqual(len(self.read(self.taken(directory)[-1]).events("test:count")), 1000)

    def test_buffers_of_each_process(self):
        directory = self.directory / "of-web"
        self.leat("create", "web", "--snapshot", "-o", directory)
        self.leat("enable-channel", "c", "--buffers=pid", "--header=tiny")
        self.leat("enable-event", "test:*")
        self.leat("start", "web")
        first, second = self.flight(100), self.flight(200)
        self.command(first, "c")
        self.command(second, "c")
        self.assertEqual(self.snapshot()["events"], 300)
        self.assertEqual(len(list(self.taken(directory)[0].rglob("metadata"))), 2)

    def test_trace_that_has_no_room_keeps_the_others_from_nothing(self):
        directory = self.directory / "of-web"
        self.leat("create", "web", "--snapshot", "-o", directory)
        self.leat("enable-channel", "c", "--buffers=pid")
        self.leat("enable-event", "test:*")
        self.leat("start", "web")
        for count in (1000, 10):
            self.command(self.flight(count), "c")
        refused = self.leat("snapshot", "record", "--max-size=8K", status=1)
        self.assert_one_line(refused.stderr, "of 4096 bytes has no room for its newest packet", "what could be stored is in")
        self.assertEqual(len(self.read(self.taken(directory)[0]).events("test:count")), 10)
        self.assertEqual(self.snapshot()["events"], 1010)

    def test_daemon_that_is_killed(self):
        """Another one goes on: its snapshots overlap with those of the first, and a crash is stored."""
        directory = self.create_flying()
        running = self.flight(300, "segv")
        daemon = self.first
        for turn in range(3):
            for _ in range(2):
                last = self.command(running, "c")
                taken = self.snapshot()
                self.assertEqual(self.last_numbers(taken["snapshot"])[-1], last - 1)
            daemon = self.restart(daemon)
        # Only of programs that it knows, the daemon sees that they crash.
        self.wait_for_programs(running)
        self.command(running, "q")
        found = self.wait_for_snapshots(directory, 7)
        wait_until(lambda: "has crashed: a snapshot is due" in daemon.log(), "nothing in the log")
        self.assertIn(2099, {self.last_numbers(path)[-1] for path in found})
        self.assertEqual(self.last_numbers(directory), list(range(2100)))
        wait_until(lambda: self.session("web")["snapshots"] == 7, "those of the daemons before do not count")

    def test_daemon_is_killed_when_it_has_noticed_a_crash(self):
        """Before it has stored anything, or after that."""
        directory = self.create_flying()
        daemon = self.first
        for turn in range(1, 6):
            running = self.flight(100, "segv")
            last = self.command(running, "c")
            noticed = daemon.log().count("has crashed: a snapshot is due")
            self.command(running, "q")
            wait_until(lambda: daemon.log().count("has crashed: a snapshot is due") > noticed, "nothing in the log")
            daemon = self.restart(daemon)
            wait_until(lambda: any(event["vpid"] == running.pid and event["n"] == 2 * last - 1 for path in self.taken(directory)
                                   for event in self.read(path, LOST).events("test:count")), f"no snapshot of crash {turn}")

    def test_program_that_becomes_another_is_no_crash(self):
        directory = self.create_flying("lttng_ust_libc:*")
        running = subprocess.Popen(["sh", "-c", "read line; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   env={**os.environ, "LD_PRELOAD": str(BUILD / "lib" / "libleat-preload-libc.so")})
        self.addCleanup(running.communicate)
        self.wait_for_programs(running)
        running.stdin.write(b"\n")
        running.stdin.flush()
        wait_until(lambda: pathlib.Path(f"/proc/{running.pid}/comm").read_text() == "cat\n", "no exec")
        self.wait_for_programs(running)
        self.leat("list")
        self.assertEqual(self.taken(directory), [])

    def test_saved_session_is_one_of_snapshots(self):
        self.create_flying(options=["--snapshot-on=test:error", "--max-size=64K"])
        self.leat("save", "web", "-o", self.directory / "saved")
        self.leat("destroy", "web")
        self.leat("load", "-i", self.directory / "saved", "web")
        running = self.flight(100)
        self.command(running, "c")
        self.assertEqual(self.snapshot()["events"], 100)

    def test_sticky_events_are_in_each(self):
        self.create_flying("queue:*")
        running = self.program(program("sticky", 64))
        running.do("set 7 orders")
        for turn in range(2):
            running.do("emit 20000")
            trace = self.read(self.snapshot()["snapshot"], LOST)
            self.assertEqual([(event["id"], event["name"]) for event in trace.events("queue:named")][-1:],
                             [(7, "orders")])

    def test_sticky_events_are_in_that_of_a_stopped_session(self):
        self.create_flying("queue:*")
        running = self.program(program("sticky", 64))
        os.sched_setaffinity(running.pid, {min(os.sched_getaffinity(0))})
        running.do("emit 1")
        self.snapshot()  # afterwards, the daemon has asked a new program for its values
        running.do("set 7 orders")
        running.do("emit 20000")
        self.leat("stop", "web")
        trace = self.read(self.snapshot()["snapshot"], LOST)
        self.assertEqual({(event["id"], event["name"]) for event in trace.events("queue:named")}, {(7, "orders")})

    def test_sticky_events_of_who_has_crashed(self):
        directory = self.create_flying("queue:*")
        running = self.program(program("sticky", 64))
        os.sched_setaffinity(running.pid, {min(os.sched_getaffinity(0))})
        running.do("set 7 orders")
        running.do("emit 20000")
        running.kill()
        trace = self.read(self.wait_for_snapshots(directory, 1)[0], LOST)
        # The daemon may have replayed it for the session as well, into the ring of another CPU.
        self.assertEqual({(event["id"], event["name"]) for event in trace.events("queue:named")}, {(7, "orders")})

    @outside_gate("needs load to show anything: two programs write all the time")
    def test_snapshots_during_the_heaviest_writing(self):
        directory = self.create_flying("load:*", channel_options=("--ring-size=256K",))
        writers = [Switched(self.directory / f"shared-{number}", 1, 0) for number in range(2)]
        for writer in writers:
            self.addCleanup(writer.close)
        wait_until(lambda: all(writer.evaluated() > 2 * WHOLE_RING for writer in writers), "a program is not traced")
        answers = []
        lock = threading.Lock()

        def ask():
            for _ in range(5):
                answer = self.snapshot()
                with lock:
                    answers.append(answer)
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len({answer["snapshot"] for answer in answers}), 10)
        for answer in answers:
            self.assertEqual(answer["warnings"], [])
            # While a packet is copied, its writers may overtake: it is left out, and readers are told.
            for numbers in self.numbers_of(pathlib.Path(answer["snapshot"]), LOST).values():
                self.assertEqual(numbers, sorted(set(numbers)))
        # A snapshot that has to wait for a processor while it copies finds less: these writers go once round in a millisecond.
        self.assertGreater(max(answer["events"] for answer in answers), WHOLE_RING)
        trace = self.read(directory, LOST)
        seen = [(event["vpid"], event["n"]) for event in trace.events()]
        self.assertEqual(len(seen), len(set(seen)))

    @outside_gate("counts the snapshots of a second")
    @needs(can_be_two_users(), "two-users")
    def test_crashes_one_after_the_other_share_snapshots(self):
        directory = self.create_flying()
        for _ in range(8):
            running = self.flight(50, "kill")
            self.command(running, "c")
            self.command(running, "q")
        wait_until(lambda: self.first.log().count("has crashed: a snapshot is due") == 8, "nothing in the log")
        self.wait_for_snapshots(directory, 1)
        time.sleep(1.2)
        self.assertLess(len(self.taken(directory)), 8)
        numbers = [event["n"] for event in self.read(directory, LOST).events("test:count")]
        self.assertEqual(len(numbers), 8 * 100)

    def test_request_of_a_process_that_ends_at_once_is_met(self):
        """Its rings go with it."""
        directory = self.directory / "of-web"
        self.leat("create", "web", "--snapshot", "-o", directory)
        self.leat("enable-channel", "c", "--buffers=pid", "--ring-size=64K")
        self.leat("enable-event", "test:*")
        self.leat("start", "web")
        for count in range(1, 5):
            running = self.flight(20)
            self.command(running, "sq")
            running.process.wait(PATIENCE)
            wait_until(lambda: len({event["vpid"] for path in self.taken(directory)
                                    for event in self.read(path, LOST).events("test:count")}) == count, "a request is lost")
        self.assertNotIn("no snapshot", self.first.log())

    def test_definitions_keep_what_create_keeps(self):
        self.create_flying()
        saved = self.directory / "web.json"
        self.leat("save", "web", "-o", saved)
        definition = json.loads(saved.read_text())
        for change, error in (({"snapshot": False}, "--snapshot"),
                              ({"snapshot": False, "snapshot_on": ["x:*"], "channels": []}, "snapshot_on"),
                              ({"live": "net://localhost"}, "live"),
                              ({"output": "net://localhost"}, "not to both"),
                              ({"channels": [{**definition["channels"][0], "mode": "trigger"}]}, "overwrites"),
                              ({"channels": [{**definition["channels"][0], "name": "snapshot-on"}]}, "snapshot-on")):
            wrong = self.directory / "wrong.json"
            wrong.write_text(json.dumps({**definition, "name": "other", "directory": str(self.directory / "other"), **change}))
            result = plain_run(LEAT, "load", "-i", str(wrong))
            self.assertNotEqual(result.returncode, 0, change)
            self.assertIn(error, result.stderr)
        empty = self.directory / "empty.json"
        empty.write_text(json.dumps({**definition, "name": "empty", "directory": str(self.directory / "empty"), "active": True,
                                     "snapshot_on": ["x:*"], "channels": []}))
        self.leat("load", "-i", empty)
        self.leat("enable-channel", "snapshot-on", "-s", "empty", status=1)
        self.leat("enable-channel", "other", "--mode=discard", "-s", "empty", status=1)
        self.leat("enable-channel", "other", "--mode=overwrite", "-s", "empty")

    @needs(can_be_two_users(), "two-users")
    def test_another_user_is_refused(self):
        self.create_flying()
        self.leat("snapshot", "record", "web", uid=1000, status=1)

    @needs(has_namespaces(), "namespaces")
    def test_full_disk(self):
        disk = self.directory / "disk"
        disk.mkdir()
        self.first.stop()
        daemon = self.daemon(wrapper=("unshare", "--mount", "sh", "-c",
                                      f'mount -t tmpfs -o size=256k none {disk} && exec "$@"', "sh"))
        self.leat("create", "web", "--snapshot", "--snapshot-on=test:err*", "-o", disk / "web")
        self.leat("enable-channel", "c", "--ring-size=512K")
        self.leat("enable-event", "test:*")
        self.leat("start", "web")
        running = self.flight(20_000)
        self.command(running, "c")
        failed = self.leat("snapshot", "record", status=1)
        self.assert_one_line(failed.stderr, "No space left on device", f"what could be stored is in {disk}/web/snapshot-1-")
        self.assertEqual(self.json("list")["warnings"], [])
        self.command(running, "e")
        warned = wait_until(lambda: self.json("list")["warnings"], "nobody is warned")
        self.assertRegex(warned[0], "not stored, or not as a whole: .*No space left on device")
        inside = ("nsenter", "--mount", f"--target={daemon.process.pid}")
        result = plain_run(*inside, LEAT, "view", str(disk / "web"))
        self.assertEqual(result.returncode, 0, result.stderr)
        plain_run(*inside, "sh", "-c", f"rm -rf {disk}/web/*")
        small = self.json("snapshot", "record", "--max-size=64K", "-o", self.directory / "small")
        self.assertEqual(self.last_numbers(small["snapshot"])[-1], 39_999)


@needs(has_namespaces(), "namespaces")
class OnAFullDisk(SmallDiskTest, SnapshotFixture):
    """What was asked for stays wanted until there is room."""

    def setUp(self):
        super().setUp()
        self.first.stop()
        self.first = self.daemon(wrapper=self.inside)

    def create_flying_on_disk(self, *channel_options):
        self.leat("create", "web", "--snapshot", "--snapshot-on=test:err*", "-o", self.disk / "web")
        self.leat("enable-channel", "c", "--ring-size=64K", *channel_options)
        self.leat("enable-event", "test:count")
        self.leat("start")

    def fill_disk(self):
        self.on_disk('cat /dev/zero >"$DISK/filler" 2>/dev/null || true')

    def empty_disk(self):
        self.on_disk('rm "$DISK/filler"')

    def wait_for_log(self, text):
        wait_until(lambda: text in self.first.log(), f"not in the log: {text}")

    def test_wish_outlives_those_who_ask_in_vain(self):
        self.create_flying_on_disk()
        running = self.flight(100)
        self.fill_disk()
        self.command(running, "e")
        wait_until(self.warns_of_full_disk, "nobody is warned")
        self.leat("snapshot", "record", status=1)
        self.assertTrue(self.warns_of_full_disk())
        self.empty_disk()
        self.wait_for_log("session web: snapshot of 100 events")
        wait_until(lambda: not self.json("list")["warnings"], "the warning stays")
        self.assert_nothing_unfinished()

    def test_tries_leave_one_part(self):
        """Of what there was room for. Each more would take what others make free."""
        self.create_flying_on_disk()
        running = self.flight(20_000)
        self.command(running, "c")
        # Room for the metadata, and not for the ring.
        self.fill_disk()
        self.on_disk('truncate -s -40K "$DISK/filler"')
        self.command(running, "e")
        wait_until(lambda: self.first.log().count("session web: no snapshot: ") >= 3, "it is not tried again")
        parts = plain_run(*self.inside, "sh", "-c", f"ls -d {self.disk}/web/snapshot-*").stdout.splitlines()
        self.assertEqual(len(parts), 1, parts)
        log = self.first.log()
        self.assertEqual(log.count(f"what could be stored is in {parts[0]}\n"), log.count("session web: no snapshot: "))

    def wait_for_taken(self, log, events):
        """Of all, or of the process alone."""
        wait_until(lambda: re.search(rf"session web: snapshot of (a process that has ended, of )?{events} events", log()),
                   "a wish is forgotten")

    def killed_and_started_again(self, daemon):
        """In the middle of a try, for all that anybody knows."""
        self.kill(daemon)
        self.on_disk('mkdir -p "$DISK/web/.snapshot-1-20260102-030405-77.part/ust"')
        self.empty_disk()
        return self.start_again(daemon)

    def assert_nothing_unfinished(self):
        names = plain_run(*self.inside, "ls", "-A", str(self.disk / "web")).stdout.splitlines()
        self.assertEqual([name for name in names if name.startswith(".")], [])

    def test_daemon_is_killed_when_an_event_has_asked(self):
        self.create_flying_on_disk()
        running = self.flight(100)
        self.fill_disk()
        self.command(running, "e")
        self.wait_for_log("session web: no snapshot")
        daemon = self.killed_and_started_again(self.first)
        self.wait_for_taken(daemon.log, 100)
        self.assert_nothing_unfinished()
        # It was met, as is noted by the time that the session's thread has done two other things: the next one has nothing to do.
        for verb in ("stop", "start"):
            self.leat(verb, "web")
        self.leat("stop", "web")
        self.restart(daemon)
        self.leat("snapshot", "record", "--name=by-hand")
        names = plain_run(*self.inside, "ls", "-A", str(self.disk / "web")).stdout.splitlines()
        self.assertEqual(len([name for name in names if name.startswith("snapshot-1-")]), 1, names)

    def check_crash(self, *channel_options):
        self.create_flying_on_disk(*channel_options)
        running = self.flight(20, "segv")
        self.command(running, "c")
        self.fill_disk()
        self.command(running, "q")
        running.process.wait(PATIENCE)
        self.wait_for_log("session web: no snapshot")
        self.wait_for_program_count(0)
        daemon = self.killed_and_started_again(self.first)
        self.wait_for_taken(daemon.log, 40)
        self.assert_nothing_unfinished()

    def test_daemon_is_killed_when_a_program_has_crashed(self):
        self.check_crash()

    def test_daemon_is_killed_when_a_program_with_rings_of_its_own_has_crashed(self):
        self.check_crash("--buffers=pid")

    def test_daemon_is_replaced_when_an_event_has_asked(self):
        """By itself, as after an upgrade."""
        self.create_flying_on_disk()
        running = self.flight(100)
        self.fill_disk()
        self.command(running, "e")
        self.wait_for_log("session web: no snapshot")
        self.first.send_signal(signal.SIGUSR2)
        wait_until(lambda: self.first.log().count(" ready in ") == 2, "the daemon does not come back")
        self.empty_disk()
        self.wait_for_taken(self.first.log, 100)

    def test_process_ends_after_its_snapshot_has_failed(self):
        self.create_flying_on_disk("--buffers=pid")
        running = self.flight(20)
        self.command(running, "c")
        self.fill_disk()
        self.command(running, "s")
        self.wait_for_log("session web: no snapshot")
        self.command(running, "q")
        self.assertEqual(running.end(), 0)
        self.wait_for_program_count(0)
        self.empty_disk()
        self.wait_for_log("session web: snapshot of 60 events")

    def test_process_ends_as_it_asks(self):
        """Its trace waits for the next snapshot of all."""
        self.create_flying_on_disk("--buffers=pid")
        running = self.flight(20)
        self.command(running, "c")
        self.fill_disk()
        self.command(running, "sq")
        running.process.wait(PATIENCE)
        self.wait_for_log("session web: no snapshot")
        self.wait_for_program_count(0)
        self.empty_disk()
        self.wait_for_log("session web: snapshot of 60 events")


if __name__ == "__main__":
    enter_user_namespace()
    main()
