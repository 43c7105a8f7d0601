#!/usr/bin/env python3
"""Children of every kind, made by a program where only a library is instrumented. Every event is recorded, under the
ids of its process."""
import re
import subprocess

from support import LEAT, InteropTest, main, program

STEP = re.compile(r"vpid = (\d+), vtid = (\d+).*pid = (-?\d+), tid = (-?\d+)")


class Recorded(InteropTest):
    PROGRAM = "children"

    def record_children(self, way, milliseconds=400, threads=0, options=("--ring-size", "64M"), name="trace"):
        recording = self.record(program(self.PROGRAM), way, str(milliseconds), str(threads), options=options, name=name)
        self.assertEqual(recording.status, 0, recording.stderr)
        emitted, children = map(int, recording.stdout.split())
        self.assertGreaterEqual(children, 6)
        summary = recording.summary
        self.assertEqual(emitted, summary["events"] + summary["discarded"], summary)
        self.assertEqual((summary["discarded_by_reason"]["unreadable"], summary["warnings"]), (0, []))
        self.assertEqual(self.read_steps(recording), summary["events"])
        return recording

    def read_steps(self, recording):
        """Returns how many events `leat view` prints. Checks the contexts of those that state their own ids."""
        count = 0
        with subprocess.Popen([LEAT, "view", recording.path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True) as view:
            for line in view.stdout:
                count += 1
                if " child:step: " in line:
                    vpid, vtid, pid, tid = STEP.search(line).groups()
                    self.assertEqual((vpid, vtid), (pid, tid), line)
        self.assertEqual(view.returncode, 0)
        return count

    def assert_all_recorded(self, way):
        recording = self.record_children(way)
        self.assertEqual(recording.summary["discarded"], 0, recording.summary["discarded_by_reason"])
        self.read_complete(recording)

    def assert_right_under_load(self, *ways):
        for way in ways:
            with self.subTest(way):
                self.record_children(way, 400, threads=3, options=("--ring-size", "256K", "--context", "vpid,vtid"),
                                     name=way)


class Children(Recorded):
    def test_fork(self):
        self.assert_all_recorded("fork")

    def test_vfork(self):
        self.assert_all_recorded("vfork")

    def test_vfork_that_ends_by_exit(self):
        self.assert_all_recorded("vfork_exit")

    def test_bare_vfork_instruction(self):
        self.assert_all_recorded("raw_vfork")

    def test_clone_that_shares_memory_until_it_ends(self):
        self.assert_all_recorded("clone_vfork")

    def test_clone_that_shares_memory_and_runs_beside_us(self):
        self.assert_all_recorded("clone_vm")

    def test_all_of_them_while_every_cpu_is_busy_and_rings_run_over(self):
        self.assert_right_under_load("fork", "vfork", "raw_vfork", "clone_vfork", "clone_vm")

    def test_shell_that_starts_a_thousand_commands(self):
        script = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done; echo $i"
        recording = self.record("sh", "-c", script, options=("--preload", "libc"))
        self.assertEqual((recording.status, recording.stdout), (0, "1000\n"), recording.stderr)
        self.assertEqual(recording.summary["discarded"], 0, recording.summary["discarded_by_reason"])
        self.read_complete(recording)


class OfAProgramThatIsInstrumented(Recorded):
    """The program's calls of vfork and clone go to libleat, so no other child has to ask for its ids."""

    PROGRAM = "children-direct"

    def test_all_recorded(self):
        for way in ("fork", "vfork", "syscall_vfork", "clone_vfork", "clone_vm", "clone_vm_beside"):
            with self.subTest(way):
                recording = self.record_children(way, name=way)
                self.assertEqual(recording.summary["discarded"], 0, recording.summary["discarded_by_reason"])

    def test_all_of_them_while_every_cpu_is_busy_and_rings_run_over(self):
        self.assert_right_under_load("fork", "vfork", "syscall_vfork", "clone_vfork", "clone_vm", "clone_vm_beside")


if __name__ == "__main__":
    main()
