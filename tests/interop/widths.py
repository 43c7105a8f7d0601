#!/usr/bin/env python3
"""Programs of 32 bits beside those of 64: one daemon, one session, and a trace for each width."""
import collections
import os
import signal
import subprocess
import time

from session_daemons import SessionTest, discarded
from support import BUILD, PATIENCE, InteropTest, lacks, main, outside_gate, program, runs_32_bit_programs

WIDTHS = (32, 64)


def need_32_bit_compiler():
    if not os.path.exists(program("widths", 32)):
        lacks("32-bit-compiler")


def need_32_bits():
    need_32_bit_compiler()
    if not runs_32_bit_programs():
        lacks("32-bit-kernel")


class Both(SessionTest):
    def setUp(self):
        super().setUp()
        need_32_bits()

    def traces_of(self, directory):
        """The events of each width, from its own trace."""
        traces = {bits: directory / "ust" / "uid" / str(os.geteuid()) / f"{bits}-bit" for bits in WIDTHS}
        return {bits: self.read(path).events() for bits, path in traces.items() if path.exists()}

    def assert_values(self, bits, events, count):
        """Each event of tests/programs/widths.c is there once, in order, with the values that its width gives."""
        ones = (1 << bits) - 1
        values = [event for event in events if event.name == "width:values"]
        self.assertEqual([event["n"] for event in values], list(range(count)))
        for event in values:
            n = event["n"]
            self.assertEqual((event["negative"], event["most"]), (-n - 1, ones), event.rest)
            self.assertLessEqual(event["pointer"], ones)
            elements = ["[0] = 0", f"[1] = {ones}"][:n % 3]
            self.assertIn(f"_list_length = {n % 3}, list = [ {', '.join(elements)}{' ' if elements else ''}]", event.rest)
        self.assertEqual([event["n"] for event in events if event.name == "width:fixed"], list(range(count)))
        self.assertEqual(len(events), 2 * count)

    def test_sticky_value_that_is_forgotten_does_not_come_again(self):
        self.daemon()
        for bits in WIDTHS:
            running = self.program(program("sticky", bits))
            for line in "line 1 one", "line 2 two", "set 1 one", "set 2 two", "forget 1":
                running.do(line)
            self.wait_for_programs(running)
        directory = self.create_active("web", "queue:*")
        self.stopped("web")
        events = self.traces_of(directory)
        for bits in WIDTHS:
            found = sorted((event.name, event["id"]) for event in events[bits])
            self.assertEqual(found, [("queue:line", 2), ("queue:named", 2)])

    def test_one_session_has_a_trace_of_each_width(self):
        self.daemon()
        directory = self.create_active("web", "width:*")
        count = 3000
        for bits in WIDTHS:
            result = subprocess.run([program("widths", bits), str(count)], capture_output=True, text=True, check=True)
            self.assertEqual(result.stdout, f"{bits // 8} {bits // 8} {bits // 8}\n")
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (4 * count, 0))
        events = self.traces_of(directory)
        self.assertEqual(set(events), set(WIDTHS))
        for bits in WIDTHS:
            self.assert_values(bits, events[bits], count)
        # Each has ids of its own: fields of other sizes are no conflict.
        self.assertEqual(self.session("web")["conflicts"], [])
        self.assertEqual(len(self.trace_of(directory, counts).lines), 4 * count)
        metadata = {bits: next((directory / "ust").rglob(f"{bits}-bit/metadata")).read_bytes() for bits in WIDTHS}
        for bits in WIDTHS:
            self.assertIn(f"architecture_bit_width = {bits};".encode(), metadata[bits])

    def test_programs_are_listed_with_their_width(self):
        self.daemon()
        running = {bits: self.program(program("commanded", bits)) for bits in WIDTHS}
        self.wait_for_programs(*running.values())
        listed = {entry["pid"]: entry["bits"] for entry in self.json("list", "--programs")["programs"]}
        self.assertEqual({bits: listed[started.pid] for bits, started in running.items()},
                         {bits: bits for bits in WIDTHS})

    def test_program_that_is_older_than_the_session_is_switched(self):
        self.daemon()
        running = self.program(program("commanded", 32))
        self.wait_for_programs(running)
        directory = self.create_active("web", "order:tick")
        self.attach("web", running)
        begin = running.do("emit 0")
        running.do("emit 1000")
        self.leat("disable-event", "order:tick")
        running.do("emit 1000")
        counts = self.stopped("web")
        numbers = [event["n"] for event in self.trace_of(directory, counts).events("order:tick")]
        self.assertEqual(numbers[-1000:], list(range(begin, begin + 1000)))

    def test_child_of_a_fork_writes_beside_its_parent(self):
        self.daemon()
        directory = self.create_active("web", "width:fixed")
        count = 5000
        subprocess.run([program("widths", 32), str(count), "fork"], check=True, stdout=subprocess.DEVNULL)
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (2 * count, 0))
        of_process = collections.defaultdict(list)
        for event in self.traces_of(directory)[32]:
            of_process[event["vpid"]].append(event["n"])
        self.assertEqual(list(of_process.values()), [list(range(count))] * 2)

    def test_children_are_programs_of_their_own(self):
        """Each renews its control file."""
        self.daemon()
        self.create_active("web", "worker:*")
        with subprocess.Popen([program("workers", 32), "3", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as master:
            master.stdin.write("work\n")
            master.stdin.flush()
            self.assertEqual(master.stdout.readline(), "3\n")
            listed = self.json("list", "--programs")["programs"]
            self.assertEqual([entry["bits"] for entry in listed], [32] * 4)
            master.communicate("end\n", timeout=PATIENCE)

    @outside_gate("a program that is killed early has written nothing")
    def test_killed_in_a_hot_loop(self):
        """What it had written is there, without a hole; what it was writing is not."""
        self.daemon()
        directory = self.create("web")
        self.leat("enable-channel", "c", "--ring-size=4M")
        self.leat("enable-event", "width:*", "-c", "c")
        self.leat("start")
        for turn in range(5):
            with subprocess.Popen([program("widths", 32), "0", "forever"]) as victim:
                time.sleep(0.02 * (turn + 1))
                victim.kill()
                self.assertEqual(victim.wait(PATIENCE), -signal.SIGKILL)
        counts = self.stopped("web")
        self.assertGreater(counts["events"], 0)
        self.assertEqual(len(self.trace_of(directory, counts).lines), counts["events"])
        if discarded(counts) != 0:
            return
        of_process = collections.defaultdict(list)
        for event in self.traces_of(directory)[32]:
            of_process[event["vpid"]].append((event["n"], event.name))
        self.assertEqual(len(of_process), 5)
        for seen in of_process.values():
            expected = [(n, name) for n in range(seen[-1][0] + 1) for name in ("width:values", "width:fixed")]
            self.assertEqual(seen, expected[:len(seen)])
            self.assertLessEqual(len(expected) - len(seen), 1)

    def test_daemon_that_is_killed_keeps_what_both_wrote(self):
        daemon = self.daemon()
        directory = self.create_active("web", "order:tick")
        running = {bits: self.program(program("commanded", bits)) for bits in WIDTHS}
        for started in running.values():
            started.do("emit 500")
        self.kill(daemon)
        for started in running.values():
            started.do("emit 500")
        self.start_again(daemon)
        self.complete_trace("web", directory)
        events = self.traces_of(directory)
        for bits in WIDTHS:
            self.assertEqual([event["n"] for event in events[bits]], list(range(1000)), bits)


class Recorded(InteropTest):
    """leat record has one trace for whatever it has started."""

    def test_both_widths_are_in_one_trace(self):
        need_32_bits()
        script = "; ".join(f"{program('widths', bits)} 1000" for bits in WIDTHS)
        recording = self.record("sh", "-c", script, options=("-e", "width:*"))
        self.assertEqual(recording.stdout, "4 4 4\n8 8 8\n")
        events = self.read_complete(recording).events()
        self.assertEqual([event["n"] for event in events if event.name == "width:fixed"], 2 * list(range(1000)))
        # The first one decides what the event is.
        self.assertEqual({event["most"] for event in events if event.name == "width:values"}, {(1 << 32) - 1})
        warning, = recording.summary["warnings"]
        self.assertIn('"width:values"', warning)


class Installed(InteropTest):
    def test_component_of_its_own(self):
        need_32_bit_compiler()
        subprocess.run(["cmake", "--install", BUILD, "--component", "32bit", "--prefix", self.directory / "usr"],
                       check=True, stdout=subprocess.DEVNULL)
        found = sorted(path.name for path in (self.directory / "usr" / "lib32").iterdir())
        self.assertEqual(found[:3], ["libleat.a", "libleat.so", "libleat.so.0"])


if __name__ == "__main__":
    main()
