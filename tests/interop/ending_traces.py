#!/usr/bin/env python3
"""Programs with rings of their own that end while nobody takes what is in them. Their traces end when all is stored, and
hold up neither their session nor the daemon."""
import collections
import signal
import subprocess
import time

from session_daemons import RelayedTest, discarded, elapsed
from support import LEAT, main, stop_process, wait_until

PATIENCE_OF_DAEMON = 10  # s; without progress
AT_ONCE = 2  # s


class EndingTraces(RelayedTest):
    def begun(self):
        """Returns two programs whose 100 events each the relay has."""
        self.daemon()
        self.leat("create", "web", f"--output={self.relay.url}")
        self.leat("enable-channel", "c", "--buffers=pid")
        self.leat("enable-event", "order:tick", "-c", "c")
        self.leat("start")
        programs = [self.program() for _ in range(2)]
        for running in programs:
            running.do("emit 100")
        wait_until(lambda: sum(map(len, self.numbers().values())) == 200, "events are not at the relay")
        self.leat("stop")  # now the daemon knows it
        self.leat("start")
        return programs

    def freeze(self):
        stop_process(self.relay.process.pid)
        self.addCleanup(self.relay.process.send_signal, signal.SIGCONT)

    def numbers(self):
        """The numbers of the events of each program at the relay, over all parts."""
        numbers = collections.defaultdict(list)
        for part in self.relay.parts("web"):
            if any(path.stat().st_size for path in part.rglob("c_[0-9]")):
                for event in self.read(part).events("order:tick"):
                    numbers[event["vpid"]].append(event["n"])
        return numbers

    def assert_prompt(self, *arguments):
        self.assertLess(elapsed(self.leat, *arguments), AT_ONCE, arguments)

    def assert_complete(self, emitted):
        """Each event is at the relay, once."""
        counts = self.json("destroy")
        self.assertEqual((counts["events"], discarded(counts), counts["warnings"]), (sum(emitted.values()), 0, []))
        self.assertEqual({pid: sorted(found) for pid, found in self.numbers().items()},
                         {pid: list(range(count)) for pid, count in emitted.items()})

    def test_relay_that_stands_still_for_longer_than_anybody_waits(self):
        running, ends = self.begun()
        self.freeze()
        younger = self.program()
        for each in (ends, younger):
            each.do("emit 50")
            self.assertEqual(each.end(), 0)
        begin = time.monotonic()
        count = 100
        while time.monotonic() < begin + PATIENCE_OF_DAEMON + 1:
            count = running.do("emit 10")
            self.assert_prompt("status")
            self.assert_prompt("list")
            time.sleep(0.5)
        self.relay.process.send_signal(signal.SIGCONT)
        self.assert_complete({running.pid: count, ends.pid: 150, younger.pid: 50})

    def test_relay_that_is_away(self):
        running, ends = self.begun()
        self.relay.kill()
        younger = self.program()
        for each in (ends, younger):
            each.do("emit 50")
            self.assertEqual(each.end(), 0)
        count = running.do("emit 10")
        self.assert_prompt("status")
        self.relay.start()
        self.assert_complete({running.pid: count, ends.pid: 150, younger.pid: 50})

    def test_session_that_is_stopped_has_what_its_dead_programs_wrote(self):
        """The relay goes on while `stop` waits."""
        _, ends = self.begun()
        self.freeze()
        ends.do("emit 50")
        ends.end()
        wait_until(lambda: self.json("list", "--programs")["programs"][1:] == [], "the program is not known to have ended")
        stopping = subprocess.Popen([LEAT, "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        self.relay.process.send_signal(signal.SIGCONT)
        _, errors = stopping.communicate(timeout=PATIENCE_OF_DAEMON)
        self.assertEqual((stopping.returncode, errors), (0, ""))
        self.assertEqual(len(self.numbers()[ends.pid]), 150)

    def test_session_that_is_destroyed_meanwhile(self):
        """However many traces there are, they wait together. The answer says what is not stored."""
        running, ends = self.begun()
        others = [self.program() for _ in range(3)]
        self.freeze()
        for each in (running, ends, *others):
            each.do("emit 50")
        for each in (ends, *others):
            each.end()
        begin = time.monotonic()
        counts = self.json("destroy")
        took = time.monotonic() - begin
        self.assertGreater(took, PATIENCE_OF_DAEMON - 2)
        self.assertLess(took, PATIENCE_OF_DAEMON + 3)
        self.assertEqual(len(counts["warnings"]), 1, counts)
        self.assertRegex(counts["warnings"][0], r"^relay \S+ does not take packets? \d+.* of stream c_\d+.*: 50 events$")


if __name__ == "__main__":
    main()
