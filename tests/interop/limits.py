#!/usr/bin/env python3
"""Recordings that end by themselves, after a time or at a size: `leat record` and sessions of the daemon. Whatever happens
meanwhile, the files are no larger, the trace reads clean, and each event is in it or counted."""
import os
import pathlib
import re
import subprocess
import threading
import time

from relays import LeatRelay
from session_daemons import RestartTest, by_reason
from support import LEAT, PATIENCE, InteropTest, main, outside_gate, plain_run, program, wait_until

KIB = 1024
LOW = "64K"


def stream_files(directory):
    return [path for path in pathlib.Path(directory).rglob("*_*")
            if path.is_file() and path.suffix != ".idx" and not path.name.startswith(".")]


def stored_bytes(directory):
    return sum(path.stat().st_size for path in stream_files(directory))


class Record(InteropTest):
    def started(self, *command, options=(), name="trace", **variables):
        process = subprocess.Popen(self.record_command(command, options, name), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
                                   env={**os.environ, **variables})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def say(self, process, line):
        process.stdin.write(line + "\n")
        return int(process.stdout.readline())

    def end(self, process, name="trace"):
        stdout, stderr = process.communicate(timeout=PATIENCE)
        return self.recording_of(subprocess.CompletedProcess([], process.returncode, stdout, stderr), name)

    def commanded(self, *options, **variables):
        """A program that has emitted 10 events before its recording was stopped. Returns when it is."""
        process = self.started(program("commanded"), options=("-e", "order:tick", *options), **variables)
        self.assertEqual(self.say(process, "emit 10"), 10)
        line = process.stderr.readline()
        self.assertRegex(line, r"^leat: (stopped after|limit of) .*; .*test-program-commanded runs on\n$")
        return process

    def check_program_runs_on(self, **variables):
        process = self.commanded("--duration", "300ms", **variables)
        for _ in range(5):
            self.say(process, "emit 1000")
        recording = self.end(process)
        self.assertEqual(recording.status, 0)
        # Nothing of what it emitted after that line. Its time may have been over before it came to emit at all.
        numbers = [event["n"] for event in self.read_complete(recording).events()]
        self.assertEqual(numbers, list(range(len(numbers))))
        self.assertLessEqual(len(numbers), 10)
        self.assertEqual((recording.summary["stopped_by"], recording.summary["left_in_rings"]), ("duration", 0))

    def test_nothing_is_missing_until_the_end_of_its_time(self):
        """The program may emit some more before it is switched off. Then that is there without a gap, too."""
        process = self.commanded("--duration", "100ms")
        self.say(process, "emit 1000")
        recording = self.end(process)
        numbers = [event["n"] for event in self.read_recording(recording).events()]
        self.assertEqual(numbers, list(range(len(numbers))))
        self.assertEqual(recording.summary["discarded"], recording.summary["discarded_by_reason"]["beyond_limit"])
        self.assertEqual((recording.status, recording.summary["stopped_by"], recording.summary["left_in_rings"]),
                         (0, "duration", 0))

    def test_nothing_was_recorded_in_its_time(self):
        process = self.started(program("commanded"), options=("--duration", "1ms"))
        self.assertIn("stopped after 1ms", process.stderr.readline())
        self.assertIn("nothing was recorded: stopped after 1ms: until then, ", self.end(process).stderr)

    def test_program_runs_on_after_its_time(self):
        self.check_program_runs_on()

    def test_program_whose_control_memory_has_no_name(self):
        self.check_program_runs_on(LEAT_RUNTIME_DIR="")

    @outside_gate("the outer recorder's time is to be over after the inner one has begun")
    def test_program_of_another_recorder_is_left_alone(self):
        inner = self.record_command([program("commanded")], ("-e", "order:tick"), "inner")
        process = self.started(*inner, options=("--duration", "2s", "--preload", "libc"), name="outer")
        self.assertEqual(self.say(process, "emit 10"), 10)
        self.assertIn("stopped after", process.stderr.readline())
        time.sleep(0.5)
        self.say(process, "emit 10")
        self.assertEqual(self.end(process, "outer").summary["stopped_by"], "duration")
        self.assertEqual(len(self.read(self.directory / "inner").events("order:tick")), 20)

    @outside_gate("the child is to emit before its time is over, and its tracepoints to be off soon after")
    def test_children_that_run_on(self):
        """Also those that were made before: their control memory is their own."""
        source = self.directory / "forking"
        source.write_text("import os, subprocess, sys\nprocess = subprocess.Popen([sys.argv[1]])\nprocess.wait()\n")
        process = self.started("python3", str(source), program("commanded"), options=("--duration", "3s"))
        self.assertEqual(self.say(process, "emit 10"), 10)
        process.stderr.readline()
        time.sleep(0.5)
        self.say(process, "emit 1000")
        self.say(process, "fork 1000")
        trace = self.read_complete(self.end(process))
        self.assertEqual(len(trace.events()), 30)

    @outside_gate("counts what a child emits until its tracepoints are off")
    def test_forked_child_that_runs_on(self):
        """It has a control file of its own, which nobody has told us of."""
        code = ("import os, time\n"
                "if os.fork() == 0:\n"
                "    end = time.time() + 8\n"
                "    while time.time() < end: bytearray(1000); time.sleep(0.001)\n"
                "    os._exit(0)\n"
                "os.wait()\n")
        recording = self.record("python3", "-c", code, options=("--preload", "libc", "--duration", "3s"))
        trace = self.read_recording(recording)
        self.assertEqual(recording.summary["stopped_by"], "duration")
        pids = {event["vpid"] for event in trace.events()}
        self.assertEqual(len(pids), 2)
        # What came between the stop and the switching off, and nothing of the time after that.
        self.assertLess(recording.summary["discarded_by_reason"]["beyond_limit"], 100)
        self.assertEqual(recording.summary["discarded_by_reason"]["ring_full"], 0)

    def test_exit_status_and_end_before_the_limit(self):
        recording = self.record(program("emit"), "10", "1", "exit3", options=("--duration", "1h", "--max-size", "1G"))
        self.assertEqual((recording.status, recording.summary["stopped_by"]), (3, ""))
        self.assertNotIn("runs on", recording.stderr)
        self.assertEqual(len(self.read_complete(recording).lines), 11)

    def test_size_is_never_exceeded(self):
        for size, exact in (("64K", 64 * KIB), ("65537", 65537), ("100000B", 100000), ("1M", 1024 * KIB)):
            with self.subTest(size):
                recording = self.record(program("emit"), "100000", "4", options=("--max-size", size, "--mode=blocking"),
                                        name=f"trace-{size}")
                trace = self.read_recording(recording)
                stored = stored_bytes(recording.path)
                self.assertLessEqual(stored, exact)
                self.assertEqual(stored, recording.summary["bytes"])
                # Little is given away: room for the last packet of each CPU or thread, and less than a record.
                self.assertGreater(stored, exact - 4 * KIB)
                self.assertEqual(recording.summary["stopped_by"], "max-size")
                self.assertGreater(recording.summary["discarded_by_reason"]["beyond_limit"], 0)
                self.assertRegex(recording.stderr, r"limit of [\d.]+ [KM]iB reached: \d+ events? that came after that ")
                for thread in range(4):
                    numbers = [event["n"] for event in trace.events("test:count") if event["thread"] == thread]
                    self.assertEqual(numbers, sorted(set(numbers)))

    def test_duration_comes_before_size(self):
        process = self.commanded("--duration", "100ms", "--max-size", "1M")
        self.say(process, "emit 1")
        self.assertEqual(self.end(process).summary["stopped_by"], "duration")

    def test_size_comes_before_duration(self):
        recording = self.record(program("emit"), "100000", options=("--duration", "1h", "--max-size", LOW), name="size")
        self.assertEqual(recording.summary["stopped_by"], "max-size")

    def test_blocking_program_is_not_held_up(self):
        recording = self.record(program("emit"), "200000", "2", timeout=PATIENCE,
                                options=("--max-size", LOW, "--ring-size=64K", "--mode=blocking"))
        self.assertEqual((recording.status, recording.stdout), (0, "400001\n"))
        self.read_recording(recording)

    def test_in_files_of_a_size(self):
        recording = self.record(program("emit"), "100000", options=("--max-size", "200K", "--tracefile-size", "16K"))
        self.assertLessEqual(stored_bytes(recording.path), 200 * KIB)
        self.assertGreater(len(stream_files(recording.path)), 10)
        self.read_recording(recording)
        # What was removed again counts, too.
        recording = self.record(program("emit"), "100000", name="few",
                                options=("--max-size", "200K", "--tracefile-size", "16K", "--tracefile-count", "2"))
        self.assertEqual(recording.summary["stopped_by"], "max-size")
        self.assertLessEqual(recording.summary["bytes"], 200 * KIB)

    def test_at_a_relay(self):
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.stop)
        for option in ("-o", "--live"):
            with self.subTest(option):
                summary = self.directory / f"summary{option}.json"
                result = plain_run(LEAT, "record", f"{option}={relay.url}" if option == "--live" else option,
                                   *([] if option == "--live" else [relay.url]), "--session", f"s{option}", "--max-size", LOW,
                                   "--summary", str(summary), "--", program("emit"), "100000")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("limit of 64.0 KiB reached", result.stderr)
        wait_until(lambda: len(list(relay.output.glob("*/*"))) == 2, "the relay has not both sessions")
        for session in relay.output.glob("*/*"):
            wait_until(lambda: 60 * KIB < stored_bytes(session), "not stored")
            self.assertLessEqual(stored_bytes(session), 64 * KIB)
            self.read(session)

    def test_limits_that_are_none(self):
        for option, text in (("--duration", "0"), ("--duration", "0s"), ("--duration", "-5s"), ("--duration", "1ns"),
                             ("--duration", "999us"), ("--duration", "99999999999h"), ("--duration", "1e3"),
                             ("--duration", "18446744073709551616"), ("--duration", ""), ("--duration", "s"),
                             ("--max-size", "0"), ("--max-size", "-1M"), ("--max-size", "100"), ("--max-size", "63K"),
                             ("--max-size", "9999999999G"), ("--max-size", "1P"), ("--max-size", ""),
                             ("--max-size", "18446744073709551616")):
            with self.subTest(f"{option}={text}"):
                result = plain_run(LEAT, "record", f"{option}={text}" if text else option, *([] if text else [""]),
                                   "-o", str(self.directory / "none"), "--", "true")
                self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
                self.assert_one_line(result.stderr)
                self.assertFalse((self.directory / "none").exists())


class Sessions(RestartTest):
    def setUp(self):
        super().setUp()
        # A program has the rings before its first event, however long the daemon takes.
        os.environ["LEAT_REGISTER_TIMEOUT"] = "-1"

    def begun_limited(self, *limits, patterns=("order:tick",), channel_options=(), name="web", place=None):
        directory = self.directory / name
        self.leat("create", name, *limits, *(place or ("-o", directory)))
        self.leat("enable-channel", "c", *channel_options, "-s", name)
        self.leat("enable-event", *patterns, "-s", name)
        self.leat("start", name)
        return directory

    def wait_for_stop(self, by, name="web"):
        session = wait_until(lambda: (session := self.session(name))["state"] != "active" and session, "it does not stop")
        self.assertEqual((session["state"], session["stopped_by"]), ("stopped", by))
        return session

    def emit_until_stopped(self, running, by="max-size", name="web", burst=500):
        while self.session(name)["state"] == "active":
            running.do(f"emit {burst}")
        return self.wait_for_stop(by, name)

    def check_sized(self, directory, limit, name="web", slack=8 * KIB):
        """The session's files have this size at most, and hardly less."""
        counts = self.json("stop", name)
        stored = stored_bytes(directory)
        self.assertLessEqual(stored, limit)
        self.assertEqual(self.session(name)["bytes"], stored)
        self.assertGreater(stored, limit - slack)
        return counts

    @outside_gate("the program is to emit before the session's time is over")
    def test_stops_after_its_time_and_can_be_started_again(self):
        self.daemon()
        directory = self.begun_limited("--duration=400ms")
        running = self.program()
        self.wait_for_programs(running)
        running.do("emit 10")
        self.wait_for_stop("duration")
        running.do("emit 10")
        self.assertIn("stopped    by its duration", self.leat("list", "web").stdout)
        self.assertIn('"web" (stopped', self.leat("list").stdout)
        self.leat("start", "web")
        self.assertNotIn("stopped_by", self.session("web"))
        running.do("emit 10")
        self.wait_for_stop("duration")
        self.assert_numbers(self.complete_trace("web", directory), "order:tick", range(10), range(20, 30))
        self.leat("destroy", "web")

    @outside_gate("the session is to be stopped by hand before its time is over")
    def test_stopped_by_hand_it_begins_anew(self):
        self.daemon()
        begin = time.monotonic()
        self.begun_limited("--duration=2s")
        for _ in range(3):
            time.sleep(0.8)
            self.stopped("web")
            state = self.session("web")["state"]
            if time.monotonic() - begin < 2:
                self.assertEqual(state, "inactive")
            begin = time.monotonic()
            self.leat("start", "web")
        self.wait_for_stop("duration")

    @outside_gate("asserts when a session's time is over")
    def test_time_goes_on_without_a_daemon(self):
        daemon = self.daemon()
        begin = time.monotonic()
        directory = self.begun_limited("--duration=4s")
        running = self.program()
        self.wait_for_programs(running)
        running.do("emit 10")
        for _ in range(3):
            time.sleep(1.2)
            daemon = self.restart(daemon)
        state = self.session("web")["state"]
        if time.monotonic() - begin < 4:
            self.assertEqual(state, "active")
        self.wait_for_stop("duration")
        # From the last daemon on, it would be 7.6 s.
        self.assertLess(time.monotonic() - begin, 7)
        # The time may also end while there is none.
        self.leat("start", "web")
        begin = running.do("emit 10")
        self.kill(daemon)
        time.sleep(4.1)
        running.do("emit 10")
        daemon = self.start_again(daemon)
        self.assertEqual(self.wait_for_stop("duration")["state"], "stopped")
        running.do("emit 10")
        numbers = [event["n"] for event in self.complete_trace("web", directory).events("order:tick")]
        self.assertEqual(numbers, list(range(30)))
        daemon = self.restart(daemon)
        self.assertEqual(self.session("web")["stopped_by"], "duration")

    def test_size_is_never_exceeded(self):
        self.daemon()
        for number, options in enumerate(((), ("--buffers=pid",), ("--tracefile-size=8K",))):
            with self.subTest(options):
                name = f"s{number}"
                directory = self.begun_limited("--max-size", LOW, channel_options=options, name=name)
                programs = [self.program() for _ in range(3)]
                self.wait_for_programs(*programs)
                while self.session(name)["state"] == "active":
                    for running in programs:
                        running.do("emit 200")
                self.wait_for_stop("max-size", name)
                counts = self.check_sized(directory, 64 * KIB, name)
                self.trace_of(directory, counts)
                session = self.session(name)
                self.assertGreater(by_reason(session)["beyond_limit"], 0)
                result = self.leat("start", name, status=1)
                self.assert_one_line(result.stderr, "has reached its size", "destroy it")
                for running in programs:
                    running.do("emit 1000")
                self.assertEqual(self.session(name)["bytes"], session["bytes"])
                self.leat("destroy", name)
                self.trace_of(directory, counts)

    @outside_gate("kills at random moments")
    def test_killed_daemon_does_not_count_anew(self):
        daemon = self.daemon()
        for number, options in enumerate(((), ("--buffers=pid",))):
            name = f"s{number}"
            directory = self.begun_limited("--max-size=300K", channel_options=options, name=name)
            running = self.program()
            self.wait_for_programs(running)
            while self.session(name)["state"] == "active":
                running.do(f"emit {self.random.randrange(1, 3000)}")
                time.sleep(self.random.random() * 0.05)
                daemon = self.restart(daemon)
                self.assertLessEqual(stored_bytes(directory), 300 * KIB, f"seed {self.seed}")
                # Programs that have ended leave their bytes.
                if self.random.random() < 0.5:
                    self.assertEqual(running.end(), 0)
                    running = self.program()
                    self.wait_for_programs(running)
            self.wait_for_stop("max-size", name)
            counts = self.check_sized(directory, 300 * KIB, name)
            trace = self.read(directory)
            self.assertEqual(len(trace.lines), counts["events"], f"seed {self.seed}")
            daemon = self.restart(daemon)
            self.assertEqual(self.session(name)["stopped_by"], "max-size")
            self.leat("start", name, status=1)
            running.do("emit 1000")
            self.check_sized(directory, 300 * KIB, name)

    def test_processes_that_end(self):
        """Their traces count, and the room that was kept for their last packets is given back."""
        self.daemon()
        directory = self.begun_limited("--max-size=128K", channel_options=("--buffers=pid",))
        emitted = 0
        while self.session("web")["state"] == "active":
            running = self.program()
            self.wait_for_programs(running)
            running.do("emit 100")
            self.assertEqual(running.end(), 0)
            emitted += 1
        self.wait_for_stop("max-size")
        self.check_sized(directory, 128 * KIB)
        self.read(directory)

    def test_one_of_two_sessions(self):
        self.daemon()
        limited = self.begun_limited("--max-size", LOW, name="limited")
        free = self.begun_limited(name="free", channel_options=("--ring-size=8M",))
        running = self.program()
        self.wait_for_programs(running)
        self.emit_until_stopped(running, name="limited")
        begin = running.do("emit 100")
        self.check_sized(limited, 64 * KIB, "limited")
        self.read(limited)
        self.assert_numbers(self.complete_trace("free", free), "order:tick", range(begin))
        self.assertEqual(self.session("free")["state"], "inactive")
        self.assertNotIn("bytes", self.session("free"))

    @outside_gate("steers at random moments")
    def test_stop_destroy_and_rotate_at_the_limit(self):
        self.daemon()
        for turn, verb in enumerate(("stop", "destroy", "rotate", "clear") * 3):
            name = f"{verb}-{turn}"
            directory = self.begun_limited("--max-size", LOW, "--duration=1s", name=name)
            running = self.program()
            self.wait_for_programs(running)
            emitting = threading.Thread(target=lambda run=running: [run.do("emit 300") for _ in range(20)])
            emitting.start()
            time.sleep(self.random.random() * 0.05)
            result = subprocess.run([LEAT, verb, name], capture_output=True, text=True, timeout=PATIENCE)
            emitting.join()
            self.assertEqual(result.returncode, 0, (result.stderr, self.seed))
            if verb != "destroy":
                wait_until(lambda n=name: self.session(n)["state"] != "active", "it does not stop")
                self.leat("destroy", name)
            self.assertLessEqual(stored_bytes(directory), 64 * KIB)
            for chunk in self.chunks_of(directory):
                if verb != "clear":
                    self.numbers_of(chunk)
            self.assertEqual(running.end(), 0)

    def test_rotation_does_not_begin_anew(self):
        self.daemon()
        directory = self.begun_limited("--max-size=128K")
        running = self.program()
        self.wait_for_programs(running)
        while self.session("web")["state"] == "active":
            running.do("emit 200")
            self.leat("rotate", "web")
        self.wait_for_stop("max-size")
        self.leat("destroy", "web")
        self.assertLessEqual(stored_bytes(directory), 128 * KIB)
        self.assertGreater(stored_bytes(directory), 100 * KIB)
        for chunk in self.chunks_of(directory):
            self.numbers_of(chunk)

    def test_at_a_relay(self):
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.stop)
        self.daemon()
        self.begun_limited("--max-size", LOW, place=(f"--live={relay.url}",))
        running = self.program()
        self.wait_for_programs(running)
        self.emit_until_stopped(running)
        self.leat("destroy", "web")
        wait_until(lambda: 60 * KIB < stored_bytes(relay.output), "not stored")
        self.assertLessEqual(stored_bytes(relay.output), 64 * KIB)

    def test_saved_and_loaded(self):
        self.daemon()
        self.begun_limited("--max-size=1M", "--duration=90s")
        self.leat("save", "web", "-o", self.directory / "web.json")
        self.leat("load", "-i", self.directory / "web.json", "again", "-o", self.directory / "again")
        again = self.session("again")
        self.assertEqual((again["duration_us"], again["max_size"], again["bytes"]), (90_000_000, 1 << 20, 0))
        self.assertRegex(self.leat("list", "again").stdout, r"duration +90s\n +max-size +1\.0 MiB, has 0 B\n")

    def test_metrics_say_which_limit(self):
        daemon = self.daemon("--metrics=127.0.0.1:0")
        self.begun_limited("--duration=1ms")
        self.wait_for_stop("duration")
        endpoint = re.search(r"127\.0\.0\.1:\d+", daemon.log())[0]
        page = subprocess.run(["curl", "-s", f"http://{endpoint}/metrics"], capture_output=True, text=True).stdout
        self.assertIn('leat_session_stopped{session="web",reason="duration"} 1\n', page)
        self.assertIn('leat_session_active{session="web"} 0\n', page)

    def test_limits_that_are_none(self):
        daemon = self.daemon()
        for option in ("--duration=0", "--duration=-1s", "--duration=1ns", "--duration=", "--max-size=0", "--max-size=1",
                       "--max-size=1Q", "--max-size=99999999999999999999"):
            result = self.leat("create", "web", option, status=2)
            self.assert_one_line(result.stderr)
        for member, value in (("duration_us", 0), ("duration_us", 999), ("duration_us", -1), ("duration_us", 1 << 62),
                              ("duration_us", "1s"), ("max_size", 0), ("max_size", 65535), ("max_size", 1 << 62),
                              ("max_size", 1.5)):
            answer = daemon.ask("create", session="web", directory=str(self.directory / "t"), **{member: value})
            self.assertEqual((answer["ok"], answer["kind"]), (False, "usage"), (member, value))
        self.assertEqual(self.json("list")["sessions"], [])


if __name__ == "__main__":
    main()
