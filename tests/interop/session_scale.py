#!/usr/bin/env python3
"""The session daemon on long and bad days: thousands of short programs, thousands that are killed, and seconds in which
the daemon itself is stopped. Nothing grows, nothing is torn, and every event is there or counted.

    LEAT_SHORT_PROCESSES=10000 LEAT_KILLS=10000 LEAT_STOPPED_SECONDS=10 tests/interop/session_scale.py

By default the tests take about a minute."""
import concurrent.futures
import os
import random
import re
import signal
import subprocess
import time

from session_daemons import SessionTest, Switched, discarded, elapsed
from support import PATIENCE, main, plain_run, program, stop_process, wait_until, without_sanitizers

SHORT_PROCESSES = int(os.environ.get("LEAT_SHORT_PROCESSES", 2000))
KILLS = int(os.environ.get("LEAT_KILLS", 500))
HOT_KILLS = 100  # of programs that do nothing but emit
STOPPED_SECONDS = float(os.environ.get("LEAT_STOPPED_SECONDS", 5))
AT_ONCE = 4
EVENTS = 2  # of `emit 1 1`
MORE_DESCRIPTORS = 2 * AT_ONCE  # more than after a tenth of the processes: for those that have just ended
MORE_KIB = 64
WRITERS = 6
LONGEST_PAUSE = 0.004  # s; between two kills
HEALTHY_EVENTS = 1_000_000
STOP_PATIENCE = 2  # s; how much longer a program may take on a busy machine


class ShortPrograms(SessionTest):
    def setUp(self):
        super().setUp()
        self.started = {}  # by their pids: what they say of themselves, and when they were started

    @without_sanitizers
    def test_descriptors_and_memory_are_flat(self):
        daemon = self.daemon("-v")  # its log names each program
        directory = self.create_active("short", "test:*")
        tenth = SHORT_PROCESSES // 10
        self.run_programs(tenth)
        first = self.settled(daemon)
        self.run_programs(SHORT_PROCESSES - tenth)
        last = self.settled(daemon)
        print("{} programs: {} descriptors, {} KiB; {}: {}, {} KiB".format(tenth, *first, SHORT_PROCESSES, *last),
              flush=True)
        self.assertLessEqual(last[0], first[0] + MORE_DESCRIPTORS, "descriptors grow with programs")
        self.assertLessEqual(last[1], first[1] + MORE_KIB, "memory grows with programs")
        trace = self.complete_trace("short", directory)
        self.assert_accounted(SHORT_PROCESSES * EVENTS, len(trace.lines), 0, lambda: self.missing(trace, daemon.log()))

    def missing(self, trace, log):
        """Which programs are not in the trace, and whether the daemon has seen them."""
        there = {event["vpid"] for event in trace.events()}
        seen = set(map(int, re.findall(r"test-program-em \((\d+)\) of user", log)))
        warnings = [line for line in log.splitlines() if " warning: " in line or " error: " in line]
        def told(pids):
            return {pid: self.started[pid] for pid in pids}
        return (f"never seen: {told(self.started.keys() - seen)}; seen, but not there: {told(seen - there)}; "
                f"warnings: {warnings[:20]}")

    def run_programs(self, count):
        patient = {**os.environ, "LEAT_REGISTER_TIMEOUT": "-1", "LEAT_TEST_SAYS_WHETHER_ON": "1"}
        def run_one(number):
            process = subprocess.Popen([program("emit"), "1", "1"], env=patient, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            begun = time.time()
            output, errors = process.communicate(timeout=PATIENCE)
            self.started[process.pid] = (number, begun, time.time(), process.returncode, errors)
            return output
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for output in pool.map(run_one, range(count)):
                self.assertEqual(output, f"{EVENTS}\n")

    def settled(self, daemon):
        """Descriptors and memory after the last program is forgotten. Not the rings: events touch them page by page."""
        self.wait_for_program_count(0)
        return daemon.descriptors(), daemon.memory_kib("RssAnon")


class KilledPrograms(SessionTest):
    """Programs are killed while they register, fetch rings, and emit. A healthy one loses nothing by that."""

    def test_paced_programs(self):
        self.kill_under_load(KILLS, 10, 1000, "4M")

    def test_programs_in_a_hot_loop(self):
        self.kill_under_load(HOT_KILLS, 1, 0, "64K")

    def kill_under_load(self, kills, burst, pause_us, ring_size):
        seed = int(os.environ.get("LEAT_SEED", random.randrange(1 << 32)))
        source = random.Random(seed)
        daemon = self.daemon()
        directory = self.create_active("web", "load:*,test:count", channel=(f"--ring-size={ring_size}",))
        evaluated = 0
        pids = []
        writers = []
        memories = [self.directory / f"shared-{number}" for number in range(WRITERS)]
        for number in range(kills + WRITERS):
            if len(writers) == WRITERS:
                time.sleep(source.random() * LONGEST_PAUSE)
                victim = writers.pop(source.randrange(WRITERS))
                victim.process.kill()
                victim.process.wait()
                evaluated += victim.evaluated()
                memories.append(victim.path)
                victim.close()
            writers.append(Switched(memories.pop(0), burst, pause_us, LEAT_REGISTER_TIMEOUT="-1"))
            pids.append(writers[-1].pid)
        for writer in writers:
            self.assertEqual(writer.end(), 0)
            evaluated += writer.evaluated()
            writer.close()
        healthy = plain_run(program("emit"), str(HEALTHY_EVENTS), "1", env={**os.environ, "LEAT_REGISTER_TIMEOUT": "-1"})
        self.assertEqual(healthy.stdout, f"{HEALTHY_EVENTS + 1}\n", healthy.stderr)
        evaluated += HEALTHY_EVENTS
        counts = self.stopped("web")
        self.assertTrue(daemon.is_alive(), daemon.log())
        numbers = self.numbers_of(directory)
        for pid, found in numbers.items():
            # The kernel may use a number again.
            drops = sum(after <= before for before, after in zip(found, found[1:]))
            self.assertLess(drops, max(1, pids.count(pid)), f"order of {pid}, seed {seed}")
        self.assertLessEqual(numbers.keys(), set(pids))
        found = sum(map(len, numbers.values()))
        present, lost = counts["events"], discarded(counts)
        print(f"seed {seed}: {kills} killed; {evaluated} evaluated; {present} there, {lost} counted; of the healthy program "
              f"{present - found} there", flush=True)
        # An event that was evaluated is missing only if its program was killed before it was written.
        self.assertLessEqual(present + lost, evaluated)
        self.assertGreaterEqual(present + lost, evaluated - kills)
        self.assertGreater(found, kills)


class StoppedDaemon(SessionTest):
    def test_programs_run_start_and_end(self):
        """While the daemon is stopped under load. Afterwards, all events are there or counted."""
        daemon = self.daemon()
        directory = self.create_active("web", "load:*", channel=("--ring-size=1M",))
        programs = [self.switched(number) for number in range(4)]
        wait_until(lambda: all(started.evaluated() > 0 for started in programs), "no program is traced")
        stop_process(daemon.process.pid)
        begin = time.monotonic()
        before = [started.begun() for started in programs]
        # One ends, one is killed.
        self.assertLess(elapsed(programs[0].end), STOP_PATIENCE)
        self.assertEqual(programs[0].process.returncode, 0)
        programs[1].process.kill()
        # Those that start wait as long as they are asked to.
        emit = program("emit"), "1", "1"
        for timeout in ("0", "500"):
            took = elapsed(self.run_emit, emit, timeout)
            self.assertLess(took, int(timeout) / 1000 + STOP_PATIENCE)
        programs.append(self.switched(4, LEAT_REGISTER_TIMEOUT="500"))
        wait_until(lambda: programs[4].begun() > 0, "a program does not start")
        time.sleep(max(0.0, begin + STOPPED_SECONDS - time.monotonic()))
        for started, number in zip(programs[2:4], before[2:4]):
            # 200 events in at least 5 ms
            self.assertGreater(started.begun(), number + 1000, "a program does not go on")
        daemon.send_signal(signal.SIGCONT)
        # Its first events may find full rings.
        wait_until(lambda: programs[4].evaluated() > 2000, "a program that started meanwhile is not traced")
        for started in programs[2:]:
            self.assertEqual(started.end(), 0)
        counts = self.stopped("web")
        numbers = self.numbers_of(directory)
        evaluated = sum(started.evaluated() for started in programs)
        present, lost = counts["events"], discarded(counts)
        print(f"stopped for {STOPPED_SECONDS} s: {evaluated} evaluated; {present} there, {lost} counted", flush=True)
        for started in programs:
            found = numbers[started.pid]
            self.assertEqual(found, sorted(set(found)), "order")
            # One that starts meanwhile finds full rings, and may find no others.
            if started is not programs[4]:
                self.assertGreater(len(found), 0)
        self.assertEqual(sum(map(len, numbers.values())), present)
        self.assertGreater(lost, 0, "the rings were never full")
        # Of the one that was killed, one event may be missing.
        self.assertIn(evaluated - present - lost, (0, 1))

    def switched(self, number, **variables):
        started = Switched(self.directory / f"shared-{number}", 200, 5000, **variables)
        self.addCleanup(started.close)
        return started

    def run_emit(self, command, timeout):
        result = plain_run(*command, env={**os.environ, "LEAT_REGISTER_TIMEOUT": timeout})
        self.assertEqual((result.returncode, result.stdout), (0, f"{EVENTS}\n"), result.stderr)


if __name__ == "__main__":
    main()
