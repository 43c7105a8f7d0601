#!/usr/bin/env python3
"""Sessions that go to a directory and to a relay at once. The directory has everything, whatever becomes of the relay."""
import os
import re
import select
import signal
import socket
import subprocess
import time

from relays import LeatRelay, LttngRelay, free_ports
from session_daemons import RestartTest, discarded
from support import LEAT, PATIENCE, can_be_two_users, main, needs, program, stop_process, wait_until


class TwoPlacesTest(RestartTest):
    make_relay = LeatRelay

    def setUp(self):
        super().setUp()
        self.relay = self.make_relay(self.directory / "relay")
        self.addCleanup(self.relay.kill)
        self.trace_directory = self.directory / "trace"

    def begun(self, kind="live", count=100):
        """Returns a daemon, and a program that has emitted so many events."""
        daemon = self.daemon()
        self.leat("create", "web", "-o", self.trace_directory, f"--{kind}={self.relay.url}")
        self.leat("enable-channel", "c", "--ring-size=4M")
        self.leat("enable-event", "order:tick", "-c", "c")
        self.leat("start")
        running = self.program()
        if count:
            running.do(f"emit {count}")
        return daemon, running

    def numbers_in(self, directory):
        trace = self.read(directory)
        self.assertEqual(trace.stderr, "")
        return [event["n"] for event in trace.events("order:tick")]

    def numbers_by_chunk(self, directory):
        """What was cleared is missing between two chunks, which babeltrace2 would tell if it read all at once."""
        return [self.numbers_in(chunk) for chunk in self.chunks_of(directory)]

    def parts(self):
        """What each part at the relay has; one whose producer has not come far has nothing."""
        return [self.numbers_in(part) for part in self.relay.parts("web") if any(part.rglob("metadata"))]

    def wait_for_relay(self, count):
        """Until a viewer may see so many events at the relay."""
        def numbers():
            return sum(len(re.findall("order:tick", subprocess.run(
                ["babeltrace2", part], capture_output=True, text=True).stdout)) for part in self.relay.parts("web"))
        wait_until(lambda: numbers() >= count, "events are not at the relay")

    def destroy(self, warnings=None):
        answer = self.json("destroy", "web")
        self.assertEqual(discarded(answer), 0, answer)
        if warnings is None:
            self.assertEqual(answer["warnings"], [])
        return answer


class DeafNameServer(TwoPlacesTest):
    @needs(can_be_two_users(), "two-users")
    def test_directory_does_not_wait_for_the_name_of_the_relay(self):
        """A lookup takes minutes. As long as it takes, the directory gets everything."""
        address = f"127.53.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(server.close)
        server.bind((address, 53))
        resolver = self.directory / "resolv.conf"
        resolver.write_text(f"nameserver {address}\noptions timeout:30 attempts:5\n")
        daemon = self.daemon(wrapper=("unshare", "--mount", "sh", "-c",
                                      f'mount --bind {resolver} /etc/resolv.conf && exec "$@"', "sh"))
        self.leat("create", "web", "-o", self.trace_directory, "--live=net://relay.example")
        self.leat("enable-channel", "c", "--ring-size=64K")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        running = self.program()
        for count in range(1000, 10_001, 1000):
            running.do("emit 1000")
            wait_until(lambda: self.session("web")["channels"][0]["events"] == count, "events are not stored")
        server.settimeout(PATIENCE)
        self.assertIn(b"relay", server.recv(512))
        self.assertEqual(discarded(self.session("web")), 0)
        # It would wait for the relay.
        self.kill(daemon)
        self.assertEqual(self.numbers_in(self.trace_directory), list(range(10_000)))


class NameOfSeveralHosts(TwoPlacesTest):
    @needs(can_be_two_users(), "two-users")
    def test_each_address_gets_its_turn(self):
        """Only the last of them is a relay, and that comes late."""
        self.relay.kill()
        ports = self.relay.control, self.relay.data, self.relay.live
        others = {socket.create_server((f"127.0.0.{number}", self.relay.control)): f"127.0.0.{number}"
                  for number in (1, 2, 3)}
        for other in others:
            self.addCleanup(other.close)
        hosts = self.directory / "hosts"
        hosts.write_text("".join(f"{address} relay.example\n" for address in others.values()))
        self.daemon(wrapper=("unshare", "--mount", "sh", "-c",
                             f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"))
        self.leat("create", "web", "-o", self.trace_directory,
                  f"--output={self.relay.url.replace(self.relay.address, 'relay.example')}")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        running = self.program()
        tried = []
        while len(order := list(dict.fromkeys(tried))) < 3 or tried[-1] != order[0]:
            ready = select.select(others, [], [], PATIENCE)[0]
            self.assertTrue(ready and len(tried) < 30, tried)
            for other in ready:
                other.accept()[0].close()
                tried.append(others[other])
        for other in others:
            other.close()
        self.relay = LeatRelay(self.directory / "late", address=order[2], ports=ports)
        self.addCleanup(self.relay.kill)
        running.do("emit 100")
        wait_until(lambda: self.relay.parts("web"), "the relay is not found")
        self.destroy(warnings="of tries")
        part, = self.relay.parts("web")
        self.assertEqual(self.numbers_in(part), self.numbers_in(self.trace_directory))
        self.assertEqual(len(self.numbers_in(part)), 100)


class TwoPlaces(TwoPlacesTest):
    def both(self, kind):
        _, running = self.begun(kind)
        running.do("emit 100")
        self.assertEqual(self.stopped("web")["events"], 200)
        self.wait_for_relay(200)  # when that is there, streams get a first packet, in the directory as well
        self.assertEqual(self.numbers_in(self.trace_directory), list(range(200)))
        self.destroy()
        part, = self.relay.parts("web")
        self.assertEqual(self.read(self.trace_directory).lines, self.read(part).lines)

    def test_live_session(self):
        self.both("live")

    def test_session_that_is_stored(self):
        self.both("output")

    def rotated_and_cleared(self):
        _, running = self.begun()
        chunks = []
        for _ in range(3):
            chunks.append(self.json("rotate")["chunk"])
            running.do("emit 100")
        for number, chunk in enumerate(chunks):
            self.assertTrue(chunk.startswith(str(self.trace_directory)), chunk)
            self.assertEqual(self.numbers_in(chunk), list(range(100 * number, 100 * number + 100)))
        self.leat("clear")
        running.do("emit 50")
        self.destroy()
        expected = [list(range(100)), list(range(100, 200)), list(range(200, 300)), list(range(400, 450))]
        self.assertEqual(self.numbers_by_chunk(self.trace_directory), expected)
        part, = self.relay.parts("web")
        self.assertEqual(self.numbers_by_chunk(part), expected)

    def test_rotated_and_cleared(self):
        self.rotated_and_cleared()


class TwoPlacesWithLttngRelay(TwoPlaces):
    make_relay = LttngRelay


class Verbs(TwoPlacesTest):
    def test_shown_saved_and_loaded(self):
        self.begun()
        shown = self.session("web")
        self.assertEqual((shown["output"], shown["relay"], shown["live"], shown["relay_missed_packets"]),
                         (str(self.trace_directory), self.relay.url, True, 0))
        text = f"{self.trace_directory} and {self.relay.url}"
        self.assertIn(text, self.leat("list").stdout)
        self.assertIn(text, self.leat("status").stdout)
        saved = self.directory / "web.json"
        self.leat("save", "web", "-o", saved)
        self.destroy()
        os.rename(self.trace_directory, self.directory / "before")
        self.leat("load", "-i", saved)
        loaded = self.session("web")
        self.assertEqual((loaded["output"], loaded["relay"], loaded["live"]),
                         (shown["output"], shown["relay"], True))

    def test_two_relays_or_two_directories_are_refused(self):
        self.daemon()
        for options in (("-o", self.relay.url, f"--live={self.relay.url}"), ("-o", "/tmp/a", "-o", "/tmp/b")):
            self.assert_one_line(self.leat("create", "web", *options, status=2).stderr,
                                 "one relay")

    def test_output_twice(self):
        self.daemon()
        self.leat("create", "web", "-o", self.trace_directory, "-o", self.relay.url)
        shown = self.session("web")
        self.assertEqual((shown["output"], shown["relay"], shown["live"]),
                         (str(self.trace_directory), self.relay.url, False))

    def test_record(self):
        subprocess.run([LEAT, "record", "-o", self.trace_directory, f"--live={self.relay.url}", "--session=web", "--",
                        program("commanded")], input="emit 100\n", check=True, text=True, capture_output=True,
                       timeout=PATIENCE)
        part, = self.relay.parts("web")
        lines = self.read(self.trace_directory).lines
        self.assertEqual(len([line for line in lines if "order:tick" in line]), 100)
        self.assertEqual(lines, self.read(part).lines)


class BadDays(TwoPlacesTest):
    def test_relay_that_is_killed_and_comes_back(self):
        _, running = self.begun()
        self.wait_for_relay(100)
        self.relay.kill()
        running.do("emit 100")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 200, "the directory has to wait")
        self.relay.start()
        running.do("emit 100")
        self.destroy()
        self.assertEqual(self.numbers_in(self.trace_directory), list(range(300)))
        parts = self.parts()
        self.assertEqual(len(parts), 2)
        self.assertEqual(sorted({n for part in parts for n in part}), list(range(300)))

    def test_relay_that_is_never_there(self):
        control, data = free_ports(2)
        self.daemon()
        warning, = self.json("create", "web", "-o", self.trace_directory, f"--live=net://127.0.0.1:{control}:{data}")["warnings"]
        self.assertIn("cannot reach relay", warning)
        self.leat("enable-event", "order:tick")
        self.leat("start")
        running = self.program()
        running.do("emit 100")
        self.assertEqual(self.stopped("web")["events"], 100)
        answer = self.destroy(warnings=1)
        self.assertRegex(answer["warnings"][0], r"misses \d+ packets, which are in")
        self.assertEqual(self.numbers_in(self.trace_directory), list(range(100)))

    def test_relay_that_stands_still(self):
        """The directory has all events. The relay misses what did not fit into memory, and goes on with a new part."""
        daemon, running = self.begun()
        self.wait_for_relay(100)
        stop_process(self.relay.process.pid)
        count = 100
        while self.session("web")["relay_missed_packets"] == 0:
            self.assertLess(count, 3_000_000)
            count = running.do("emit 20000")
            wait_until(lambda: self.session("web")["channels"][0]["events"] == count, "the directory has to wait")
        self.leat("rotate")
        self.leat("clear")
        first = running.do("emit 100") - 100
        self.assertRegex(self.leat("status").stdout, r"missed +\d+ packets by net://")
        self.relay.process.send_signal(signal.SIGCONT)
        wait_until(lambda: "is back, in a new part" in daemon.log(), "the relay does not come back")
        running.do("emit 100")
        warning, = self.destroy(warnings=1)["warnings"]
        self.assertIn("misses", warning)
        chunk = self.chunks_of(self.trace_directory)[-1]
        self.assertEqual(self.numbers_in(chunk), list(range(first, first + 200)))
        self.assertEqual(self.parts()[-1], list(range(first + 100, first + 200)))

    def test_relay_that_stands_still_for_a_while(self):
        """While there is memory, nothing is missed: neither a chunk, nor that it was cleared."""
        _, running = self.begun()
        self.wait_for_relay(100)
        stop_process(self.relay.process.pid)
        running.do("emit 1000")
        self.leat("rotate")
        running.do("emit 1000")
        self.leat("clear")
        running.do("emit 1000")
        self.relay.process.send_signal(signal.SIGCONT)
        self.destroy()
        expected = [list(range(1100)), list(range(2100, 3100))]
        self.assertEqual(self.numbers_by_chunk(self.trace_directory), expected)
        part, = self.relay.parts("web")
        self.assertEqual(self.numbers_by_chunk(part), expected)

    def test_processes_that_end_while_the_relay_stands_still(self):
        """Each has a trace and a connection of its own. What they leave to be sent holds nobody up."""
        self.daemon()
        self.leat("create", "web", "-o", self.trace_directory, f"--output={self.relay.url}")
        self.leat("enable-channel", "c", "--buffers=pid")
        self.leat("enable-event", "order:tick", "-c", "c")
        self.leat("start")
        running = self.program()
        running.do("emit 100")
        self.wait_for_relay(100)
        ends = [self.program() for _ in range(5)]
        for each in ends[:3]:
            each.do("emit 10")
        self.wait_for_relay(130)
        stop_process(self.relay.process.pid)
        for each in ends[2:]:
            each.do("emit 10")
        for each in ends:
            each.end()
        begin = time.monotonic()
        running.do("emit 100")
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 260, "the directory has to wait")
        self.assertLess(time.monotonic() - begin, 5)
        self.relay.process.send_signal(signal.SIGCONT)
        answer = self.destroy()
        self.assertEqual(answer["events"], 260)
        self.assertEqual(len(self.read(self.trace_directory).lines), 260)
        parts = [self.read(part) for part in self.relay.parts("web") if any(part.rglob("metadata"))]
        self.assertEqual(sum(len(part.lines) for part in parts), 260)

    def test_daemon_that_is_killed(self):
        """The directory has all events, each once; so have the parts at the relay, but for what was on its way."""
        daemon, running = self.begun()
        count = 100
        for _ in range(3):
            self.wait_for_relay(count)
            self.kill(daemon)
            running.do("emit 50")
            daemon = self.start_again(daemon)
            count = running.do("emit 50")
        self.destroy()
        self.assertEqual(self.numbers_in(self.trace_directory), list(range(400)))
        parts = self.parts()
        self.assertEqual(len(parts), 4)
        self.assertEqual([n for part in parts for n in part], list(range(400)))

    def test_daemon_that_is_killed_under_load(self):
        daemon, running = self.begun()
        for _ in range(5):
            running.say("emit 20000")
            self.random.random()
            self.kill(daemon)
            running.answer()
            daemon = self.start_again(daemon)
        answer = self.json("destroy", "web")
        numbers = self.numbers_in(self.trace_directory)
        self.assertEqual(len(numbers), answer["events"])
        self.assertEqual(numbers, sorted(set(numbers)))
        at_relay = [n for part in self.parts() for n in part]
        self.assertEqual(len(at_relay), len(set(at_relay)), f"twice at the relay, seed {self.seed}")
        self.assertLessEqual(set(at_relay), set(numbers))


if __name__ == "__main__":
    main()
