#!/usr/bin/env python3
"""How long an event may lie in a ring before it is in the trace, and what an idle session costs."""
import pathlib
import subprocess
import time

from session_daemons import RestartTest
from support import LEAT, PATIENCE, InteropTest, main, program, wait_until

LONG = 3  # s
QUIET = 2.5  # s; after that, a recording rests
AT_ONCE = 0.35  # s; less than from one drain of a resting recording to the next


def switches(pid):
    """How often its threads have gone to sleep."""
    files = pathlib.Path(f"/proc/{pid}/task").glob("*/status")
    return sum(int(file.read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0]) for file in files)


class Recorded(InteropTest):
    def test_long_period_is_kept(self):
        directory = self.directory / "trace"
        begin = time.monotonic()
        recorder = subprocess.Popen([LEAT, "record", "-o", directory, f"--read-period={LONG}s", "--", "sh", "-c",
                                     f"{program('emit')} 3 1; sleep {2 * LONG}"], stderr=subprocess.DEVNULL)
        self.addCleanup(recorder.kill)
        wait_until(lambda: any(path.stat().st_size for path in directory.rglob("channel0_*")), "nothing is stored")
        self.assertGreater(time.monotonic() - begin, LONG / 3)
        self.assertEqual(recorder.wait(PATIENCE), 0)
        self.assertEqual(len(self.read(directory).events("test:count")), 3)

    def test_last_events_do_not_wait_for_their_period(self):
        """Nor does the end: they are in the trace."""
        directory = self.directory / "trace"
        subprocess.run([LEAT, "record", "-o", directory, "--read-period=1m", "--", program("emit"), "3", "1"], check=True,
                       stderr=subprocess.DEVNULL, timeout=PATIENCE)
        self.assertEqual(len(self.read(directory).events("test:count")), 3)

    def test_periods_that_cannot_be(self):
        for period in ("10us", "2m", "soon"):
            result = subprocess.run([LEAT, "record", "-o", self.directory / "trace", f"--read-period={period}", "--", "true"],
                                    capture_output=True, text=True, timeout=PATIENCE)
            self.assertNotEqual(result.returncode, 0)
            self.assert_one_line(result.stderr, "period" if period != "soon" else "soon")


class OfSessions(RestartTest):
    def stored(self):
        channel, = self.session("web")["channels"]
        return channel["events"]

    def seconds_until_stored(self, running):
        known = self.stored()
        running.do("emit 1")
        begin = time.monotonic()
        wait_until(lambda: self.stored() > known, "the event is not stored")
        return time.monotonic() - begin

    def test_shorter_period_counts_also_after_a_restart(self):
        daemon = self.daemon()
        self.begun("order:tick", channel_options=("--read-period=1m", f"--switch-period={LONG}s"))
        channel, = self.session("web")["channels"]
        self.assertEqual((channel["read_period_us"], channel["switch_period_us"]), (60_000_000, LONG * 1_000_000))
        text = self.leat("list", "web").stdout
        self.assertIn("    read       at least every 1m\n", text)
        self.assertIn(f"    switch     at least every {LONG}s\n", text)
        running = self.program()
        self.seconds_until_stored(running)
        # One drain has just been.
        self.assertGreater(self.seconds_until_stored(running), LONG / 3)
        self.restart(daemon)
        self.seconds_until_stored(running)
        self.assertGreater(self.seconds_until_stored(running), LONG / 3)
        self.assertEqual(self.stopped("web")["events"], 4)

    def test_idle_session_sleeps_and_the_next_event_is_stored_at_once(self):
        daemon = self.daemon()
        self.begun("order:tick")
        running = self.program()
        for _ in range(3):
            self.seconds_until_stored(running)
            time.sleep(QUIET)
            before = switches(daemon.process.pid)
            time.sleep(2)
            self.assertLess(switches(daemon.process.pid) - before, 12)
            self.assertLess(self.seconds_until_stored(running), AT_ONCE)

    def test_periods_are_saved_and_loaded(self):
        self.daemon()
        self.create("web")
        self.leat("enable-channel", "c", "--read-timer=1000", "--switch-timer=20ms")
        file = self.directory / "web.json"
        self.leat("save", "web", "-o", file)
        self.leat("destroy", "web")
        self.leat("load", "-i", file)
        channel, = self.session("web")["channels"]
        self.assertEqual((channel["read_period_us"], channel["switch_period_us"]), (1000, 20000))

    def test_periods_that_cannot_be(self):
        self.daemon()
        self.create("web")
        for option in ("--read-period=10us", "--switch-period=2m"):
            self.assert_one_line(self.leat("enable-channel", "c", option, status=2).stderr, "from 1 ms to 1 minute")


if __name__ == "__main__":
    main()
