#!/usr/bin/env python3
"""Sessions of a daemon whose disk is full."""
from relays import LeatRelay
from session_daemons import SmallDiskTest, discarded
from support import LEAT, enter_user_namespace, has_namespaces, main, needs, plain_run, wait_until


@needs(has_namespaces(), "namespaces")
class FullDisk(SmallDiskTest):
    DISK_SIZE = "256k"

    def setUp(self):
        super().setUp()
        self.daemon(wrapper=self.inside)

    def fill(self, running):
        """Returns how many events that took: at last, the rings are full."""
        emitted = 0
        while not self.warns_of_full_disk() or not discarded(self.session("web")):
            running.do("emit 1000")
            emitted += 1000
        return emitted

    def check_clear(self, *channel_options):
        """What was recorded goes, and so does what there was no room for. Then it records as before."""
        self.leat("create", "web", "-o", self.disk / "web")
        self.leat("enable-channel", "c", "--ring-size=64K", *channel_options)
        self.leat("enable-event", "order:tick")
        self.leat("start")
        running = self.program()
        emitted = self.fill(running)
        self.assert_one_line(self.leat("rotate", status=1).stderr, str(self.disk / "web"), "No space left on device")
        self.leat("clear")
        self.assertFalse(self.warns_of_full_disk())
        running.do("emit 10")
        self.leat("stop")
        session = self.session("web")
        channel = session["channels"][0]
        self.assertEqual(channel["events"] + discarded(session), emitted + 10)
        shown = plain_run(*self.inside, LEAT, "view", str(self.disk / "web"))
        self.assertEqual((shown.returncode, len(shown.stdout.splitlines())), (0, 10), shown.stderr)
        running.end()
        self.leat("destroy")

    def test_clear(self):
        self.check_clear()

    def test_clear_of_processes(self):
        self.check_clear("--buffers=pid")

    def test_clear_for_a_trace_that_could_not_begin(self):
        """What traces of ended processes have is room for it."""
        self.leat("create", "web", "-o", self.disk / "web")
        self.leat("enable-channel", "c", "--ring-size=64K", "--buffers=pid")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        running = self.program()
        running.do("emit 1000")
        running.end()
        wait_until(lambda: not self.json("list", "--programs")["programs"], "it is listed, and has ended")
        self.on_disk('cat /dev/zero >"$DISK/fill" 2>/dev/null || true')
        other = self.program()
        other.do("emit 10")
        wait_until(self.warns_of_full_disk, "the disk is not full")
        self.leat("clear")
        self.assertFalse(self.warns_of_full_disk())
        other.do("emit 5")
        other.end()
        self.leat("destroy")
        shown = plain_run(*self.inside, LEAT, "view", str(self.disk / "web"))
        self.assertEqual((shown.returncode, len(shown.stdout.splitlines())), (0, 5), shown.stderr)

    def test_clear_when_the_process_has_ended(self):
        self.leat("create", "web", "-o", self.disk / "web")
        self.leat("enable-channel", "c", "--ring-size=64K", "--buffers=pid")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        running = self.program()
        emitted = self.fill(running)
        running.end()
        wait_until(self.warns_of_full_disk, "the disk is not full any more")
        self.leat("clear")
        self.assertFalse(self.warns_of_full_disk())
        session = self.session("web")
        channel = session["channels"][0]
        self.assertEqual(channel["events"] + discarded(session), emitted)
        other = self.program()
        other.do("emit 10")
        other.end()
        self.leat("destroy")
        shown = plain_run(*self.inside, LEAT, "view", str(self.disk / "web"))
        self.assertEqual((shown.returncode, len(shown.stdout.splitlines())), (0, 10), shown.stderr)

    def test_relay_beside_it_is_told_what_is_missing(self):
        """It has what the directory has, and knows as much of what is not there."""
        relay = LeatRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        self.leat("create", "web", "-o", self.disk / "web", f"--live={relay.url}")
        self.leat("enable-channel", "c", "--ring-size=64K")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        emitted = self.fill(self.program())
        counts = self.json("destroy")
        self.assertLess(counts["events"], emitted)
        trace = self.read(relay.output)
        self.assertEqual((len(trace.lines), trace.discarded()), (counts["events"], discarded(counts)))


if __name__ == "__main__":
    enter_user_namespace()
    main()
