#!/usr/bin/env python3
"""Sticky events: whoever begins to record later gets the last value for each key, once, with the names of its program."""
import os
import shutil
import struct
import threading

from session_daemons import DISCARDED_IN_CHUNK, SessionTest, by_reason, discarded
from support import main, wait_until

# docs/formats/control-memory.md and sticky-values.md
SLOTS = 128
NOT_KEPT = struct.Struct("<72xQ")


class StickyTest(SessionTest):
    def setUp(self):
        super().setUp()
        self.server = self.daemon()

    def sticky(self, *lines):
        running = self.program("sticky")
        for line in lines:
            running.do(line)
        self.wait_for_programs(running)
        return running

    def attached(self, name):
        """Stops the session. Returns its counts; nothing was discarded but what attach() tried."""
        counts = self.stopped(name)
        self.assertEqual(discarded(counts), by_reason(counts).get("not_attached", 0))
        return counts

    def named(self, trace, event="queue:named"):
        """The records' keys and names, in their order."""
        return [(record["id"], record["name"]) for record in trace.events(event)]

    def chunk(self):
        """Ends the current one, and returns its trace."""
        return self.read(self.json("rotate")["chunk"])


class Sessions(StickyTest):
    def test_session_that_begins_later_has_the_last_values(self):
        running = self.sticky("set 1 old", "set 2 second", "set 1 first", "line 1 third", "emit 5")
        trace = self.complete_trace("web", self.create_active("web", "queue:*"))
        self.assertEqual(self.named(trace), [(2, "second"), (1, "first")])
        self.assertEqual(self.named(trace, "queue:line"), [(1, "third")])
        self.assertEqual(len(trace.lines), 3)
        for event in trace.events():
            self.assertEqual((event["vpid"], event["vtid"], event["procname"]), (running.pid, running.pid, "test-program-st"))

    def test_they_wait_for_a_place(self):
        """The output of the user's trace cannot be opened when the session begins, but a while later."""
        running = self.sticky("set 1 one")
        directory = self.create("web")
        self.leat("enable-event", "queue:*")
        obstacle = directory / "ust" / "uid" / str(os.geteuid()) / "64-bit"
        (obstacle / "full").mkdir(parents=True)

        def has_no_place():
            return any("events stay in the rings" in warning for warning in self.json("list")["warnings"])

        self.leat("start")
        wait_until(has_no_place, "nobody is told of what is in the way")
        self.attach("web", running)
        shutil.rmtree(obstacle)
        wait_until(lambda: not has_no_place(), "it is still in the way")
        trace = self.trace_of(directory, self.attached("web"))
        self.assertEqual((self.named(trace), len(trace.events("queue:tick"))), ([(1, "one")], 1))

    def test_what_is_forgotten_does_not_come_again(self):
        self.sticky("set 1 one", "line 1 one", "set 2 two", "forget 1", "forget 3")
        trace = self.complete_trace("web", self.create_active("web", "queue:*"))
        self.assertEqual([event.name for event in trace.events()], ["queue:named"])
        self.assertEqual(self.named(trace), [(2, "two")])

    def test_value_that_is_set_while_recording_is_an_event_as_any_other(self):
        """The daemon may look at a program that has just started when it has values already: it has them twice then."""
        directory = self.create_active("web", "queue:*")
        running = self.sticky()
        self.session("web")
        for line in ("set 1 one", "set 1 two"):
            running.do(line)
        names = self.named(self.complete_trace("web", directory))
        self.assertIn(names, ([(1, "one"), (1, "two")], [(1, "one"), (1, "one"), (1, "two")],
                              [(1, "one"), (1, "two"), (1, "two")]))

    def test_rule_that_does_not_match_gets_nothing(self):
        self.sticky("set 1 one", "line 1 one")
        trace = self.complete_trace("web", self.create_active("web", "queue:line"))
        self.assertEqual([event.name for event in trace.events()], ["queue:line"])

    def test_each_session_and_channel_that_records_it(self):
        self.sticky("set 1 one")
        first = self.create_active("first", "queue:*")
        second = self.create("second")
        self.leat("enable-channel", "large", "--header=large")
        self.leat("enable-channel", "contexts")
        self.leat("add-context", "vuid", "ip", "-c", "contexts")
        for channel in "large", "contexts":
            self.leat("enable-event", "queue:*", "-c", channel)
        self.leat("start", "second")
        self.assertEqual(self.named(self.complete_trace("first", first)), [(1, "one")])
        self.assertEqual(self.named(self.complete_trace("second", second)), [(1, "one"), (1, "one")])

    def test_channel_with_contexts_of_the_application(self):
        """Nobody asks the program, so the records say that there are none."""
        self.sticky("set 1 one", "line 2 two")
        directory = self.create("web")
        self.leat("enable-event", "queue:*")
        self.leat("add-context", "$app.shop:user", "vpid", "$app.shop:request")
        self.leat("start")
        trace = self.complete_trace("web", directory)
        self.assertEqual((self.named(trace), self.named(trace, "queue:line")), ([(1, "one")], [(2, "two")]))

    def test_event_that_is_enabled_while_the_session_runs(self):
        self.sticky("set 1 one", "line 2 two")
        directory = self.create_active("web", "queue:tick")
        self.leat("enable-event", "queue:named")
        self.leat("enable-event", "queue:line")
        trace = self.complete_trace("web", directory)
        self.assertEqual([(event.name, event["id"]) for event in trace.events()], [("queue:named", 1), ("queue:line", 2)])

    def test_each_start_and_each_process_of_its_own_buffers(self):
        self.sticky("set 1 one")
        directory = self.create("web")
        self.leat("enable-channel", "c", "--buffers=pid")
        self.leat("enable-event", "queue:*")
        self.leat("start")
        self.leat("stop")
        self.leat("start")
        self.assertEqual(self.named(self.complete_trace("web", directory)), [(1, "one"), (1, "one")])

    def test_child_has_its_parents_values_and_its_own(self):
        running = self.sticky("set 1 parents", "set 2 both")
        child = running.do("fork")
        running.do("set 1 childs")
        wait_until(lambda: child in {known["pid"] for known in self.json("list", "--programs")["programs"]},
                   "the child is not known")
        trace = self.complete_trace("web", self.create_active("web", "queue:*"))
        found = {(event["vpid"], event["id"], event["name"]) for event in trace.events()}
        self.assertEqual(found, {(running.pid, 1, "parents"), (running.pid, 2, "both"), (child, 2, "both"),
                                 (child, 1, "childs")})
        self.assertEqual(len(trace.lines), 4)


class Chunks(StickyTest):
    def test_each_chunk_begins_with_them(self):
        running = self.sticky("set 1 one", "set 2 two")
        directory = self.create_active("web", "queue:*")
        self.assertEqual(self.named(self.chunk()), [(1, "one"), (2, "two")])
        self.attach("web", running)
        running.do("set 1 changed")
        trace = self.chunk()
        self.assertEqual(self.named(trace)[:2], [(1, "one"), (2, "two")])
        self.assertEqual(self.named(trace)[-1], (1, "changed"))
        self.attached("web")
        self.assertEqual(self.named(self.read(self.chunks_of(directory)[-1])), [(2, "two"), (1, "changed")])

    def test_chunk_that_does_not_begin_has_none(self):
        """They would come again, into rings that may be full."""
        self.sticky("set 1 one")
        directory = self.create_active("web", "queue:*")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 1, "nothing is stored")
        (directory / "archives").write_text("in the way")
        for _ in range(3):
            self.leat("rotate", status=1)
        (directory / "archives").unlink()
        self.assertEqual(self.named(self.complete_trace("web", directory)), [(1, "one")])

    def test_cleared_chunk_has_them_again(self):
        self.sticky("set 1 one")
        directory = self.create_active("web", "queue:*")
        self.leat("clear")
        self.stopped("web")
        self.assertEqual(self.named(self.read(directory)), [(1, "one")])

    def test_replay_never_follows_a_newer_value(self):
        """While a program sets one value after the other, sessions and chunks begin."""
        running = self.sticky("race 1")
        directories = []
        done = threading.Event()

        def steer():
            while not done.is_set():
                directories.append(self.create("web"))
                self.leat("enable-channel", "c", "--ring-size=8M")
                self.leat("add-context", "ip")
                self.leat("enable-event", "queue:named")
                self.leat("start")
                self.leat("rotate")
                self.leat("rotate")
                self.leat("destroy")

        steering = threading.Thread(target=steer)
        steering.start()
        while len(directories) < 10:
            running.do("race 2000")
        done.set()
        steering.join()
        replays = 0
        for chunk in (chunk for directory in directories for chunk in self.chunks_of(directory)):
            newest = 0
            for event in self.read(chunk, warnings=DISCARDED_IN_CHUNK).events("queue:named"):
                value = int(event["name"])
                if event["ip"] == 0:
                    replays += 1
                    self.assertGreaterEqual(value, newest)
                newest = max(newest, value)
        self.assertGreaterEqual(replays, 3 * len(directories))


class Limits(StickyTest):
    def not_kept(self):
        path, = (self.runtime / "apps").glob("leat-*/*.app")
        return NOT_KEPT.unpack_from(path.read_bytes())[0]

    def test_values_that_find_no_room_are_counted_and_told(self):
        running = self.sticky(f"fill {SLOTS + 10}")
        self.assertEqual(self.not_kept(), 10)
        directory = self.create_active("web", "queue:*")
        trace = self.complete_trace("web", directory)
        self.assertEqual(self.named(trace), [(1000 + i, "one of many") for i in range(SLOTS)])
        wait_until(lambda: "has not kept 10 sticky values" in self.server.log(), "nobody is told")
        running.do("forget 1000")
        running.do("set 1 one")
        self.assertEqual(self.not_kept(), 10)

    def test_value_that_is_too_large_takes_the_one_of_before_away(self):
        self.sticky("set 1 one", "set 2 two", "large 1")
        self.assertEqual(self.not_kept(), 1)
        trace = self.complete_trace("web", self.create_active("web", "queue:*"))
        self.assertEqual(self.named(trace), [(2, "two")])

    def test_more_than_a_ring_holds(self):
        """What does not fit at once follows when the consumer has made room."""
        name = "x" * 400
        self.sticky(*(f"set {key} {name}" for key in range(SLOTS)))
        self.sticky(*(f"set {key} {name}" for key in range(SLOTS)))
        directory = self.create("web")
        self.leat("enable-channel", "c", "--ring-size=64K")
        self.leat("enable-event", "queue:*")
        self.leat("start")
        trace = self.complete_trace("web", directory)
        self.assertEqual(sorted(self.named(trace)), sorted([(key, name) for key in range(SLOTS)] * 2))

    def test_program_that_scribbles_over_its_values(self):
        running = self.sticky("set 1 one", "set 2 two", "set 3 three", "set 4 four")
        path, = (self.runtime / "apps").glob("leat-*/*.app")
        with open(path, "r+b") as file:
            for slot, offset, value in ((0, 28, 0xffff_ffff), (1, 28, 3), (2, 4, 1000)):  # size, size, tracepoint
                os.pwrite(file.fileno(), struct.pack("<I", value), 4096 + 512 * slot + offset)
        directory = self.create_active("web", "queue:*")
        running.do("emit 10")
        counts = self.json("stop")
        trace = self.trace_of(directory, counts)
        self.assertEqual(self.named(trace), [(4, "four")])
        wait_until(lambda: "3 sticky values of" in self.server.log(), "nobody is told")


if __name__ == "__main__":
    main()
