#!/usr/bin/env python3
"""Snapshots that go to a relay, Leat's and LTTng's, by `leat record --flight-recorder` and by sessions of the daemon."""
import ctypes
import grp
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import threading

from flight_recorder import LOST, SnapshotFixture
from relays import LeatRelay, LttngRelay
from session_daemons import elapsed
from support import (LEAT, ON_ONE_CPU, PATIENCE, Trace, can_be_two_users, enter_user_namespace, has_namespaces, main,
                     needs, outside_gate, plain_run, program, stop_process, wait_until)

# Longer than ours with a relay that says nothing (10 s), on a busy machine.
LONGEST_WAIT = 40
CLONE_NEWNET = 0x40000000


def enter_network_of_our_own():
    """While a relay is dead, nobody else takes its ports."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class RelayedSnapshots(SnapshotFixture):
    make_relay = LeatRelay

    def setUp(self):
        super().setUp()
        self.relay = self.make_relay(self.directory / "relay")
        self.addCleanup(self.relay.kill)

    def create_relayed(self, name="web", options=(), channel_options=("--ring-size=64K",)):
        self.leat("create", name, "--snapshot", "-o", self.relay.url, *options)
        self.leat("enable-channel", "c", *channel_options, "-s", name)
        self.leat("enable-event", "test:*", "-s", name)
        self.leat("start", name)

    def session_directory(self, name="web"):
        """That of all its snapshots at the relay."""
        parts = self.relay.parts(name)
        self.assertEqual(len(parts), 1, parts)
        found, = parts
        return found

    def at_relay(self, answer):
        """Where a snapshot is."""
        self.assertEqual(answer["relay"], f"{self.relay.address}:{self.relay.control}")
        return self.relay.output / answer["snapshot"]

    def files(self, directory):
        """The bytes of the streams of a trace, which are those of its packets."""
        return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("c_*") if path.suffix != ".idx"}

    def port_of_nobody(self):
        """A port that refuses connections, and stays so: its socket does not listen."""
        server = socket.socket()
        self.addCleanup(server.close)
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]

    def traces(self, directory):
        return sorted(path.parent for path in directory.rglob("metadata"))


class AtLeatRelay(RelayedSnapshots):
    def test_where_it_is_and_what_is_in_it(self):
        """As of LTTng's sessions of snapshots: and the same packets as of a snapshot in a directory."""
        self.create_relayed()
        self.command(self.flight(5000), "c")
        self.leat("stop", "web")
        sent = self.snapshot()
        host = socket.gethostname()
        self.assertRegex(sent["snapshot"],
                         rf"^{host}/web-\d{{8}}-\d{{6}}/snapshot-1-\d{{8}}-\d{{6}}-0$")
        place = self.at_relay(sent)
        kept = pathlib.Path(self.snapshot("-o", self.directory / "kept")["snapshot"])
        trace, = self.traces(place)
        self.assertRegex(str(trace.relative_to(place)), r"^ust/uid/\d+/(?:64|32)-bit$")
        self.assertEqual(self.last_numbers(place), self.last_numbers(kept))
        self.assertEqual(self.last_numbers(place)[-1], 4999)
        self.assertTrue(self.files(place) == self.files(kept), "other packets")
        self.assertTrue(self.files(place))
        shown = self.leat("snapshot", "record", "--name=before-lunch")
        self.assertRegex(shown.stdout, rf"it is at relay {self.relay.address}:\d+, in {host}/web-.*/before-lunch-.*-1 below")
        # What goes to a directory does not go to the relay as well.
        self.assertEqual(len(self.traces(self.relay.output)), 2)

    def test_overlap_without_doubles(self):
        self.create_relayed()
        running = self.flight(700)
        answers = []
        for _ in range(4):
            self.command(running, "c")
            answers.append(self.snapshot())
        directory = self.session_directory()
        self.assertEqual(len(self.traces(directory)), 4)
        numbers = self.last_numbers(directory)
        self.assertEqual(numbers[-1], 4 * 700 - 1)
        self.assertGreater(sum(answer["events"] for answer in answers), len(numbers))
        for answer in answers:
            self.assertEqual(len(self.last_numbers(self.at_relay(answer))), answer["events"])

    def test_nothing_in_the_rings(self):
        self.create_relayed()
        running = self.flight(100)
        self.command(running, "c")
        self.leat("clear")
        self.assertEqual(self.last_numbers(self.at_relay(self.snapshot())), [])
        self.command(running, "c")
        self.assertEqual(self.last_numbers(self.at_relay(self.snapshot())), list(range(100, 200)))

    def test_traces_of_several_processes_are_in_one_directory(self):
        self.leat("create", "web", "--snapshot", "-o", self.relay.url)
        self.leat("enable-channel", "c", "--buffers=pid", "--header=tiny")
        self.leat("enable-event", "test:*")
        self.leat("start", "web")
        for count in (100, 200, 300):
            self.command(self.flight(count), "c")
        answer = self.snapshot()
        self.assertEqual(answer["events"], 600)
        self.assertEqual(len(self.traces(self.at_relay(answer))), 3)
        self.assertEqual(len(self.read(self.at_relay(answer)).events("test:count")), 600)
        self.assertEqual(len(self.traces(self.session_directory())), 3)

    def test_processes_that_have_had_nothing_since_a_clear(self):
        self.create_relayed(channel_options=("--buffers=pid",))
        running = {count: self.flight(count) for count in (100, 200, 300)}
        for one in running.values():
            self.command(one, "c")
        self.leat("clear")
        self.assertEqual(self.snapshot()["events"], 0)
        for count, busy in running.items():
            self.command(busy, "c")
            place = self.at_relay(self.snapshot())
            self.assertEqual(len(self.traces(place)), 3)
            self.assertEqual(self.last_numbers(place), list(range(count, 2 * count)))
            self.leat("clear")

    def test_large_packets(self):
        """A packet is a part of a ring, as large as that may be."""
        self.create_relayed(channel_options=("--ring-size=128M",))
        self.command(self.flight(150_000), "c")
        answer = self.snapshot()
        self.assertEqual(self.last_numbers(self.at_relay(answer)), list(range(150_000)))
        self.assertGreater(answer["bytes"], 4 << 20)

    def test_one_of_a_session_in_a_directory(self):
        directory = self.create_flying()
        self.command(self.flight(500), "c")
        place = self.at_relay(self.snapshot("-o", self.relay.url, "--max-size=8K"))
        self.assertEqual(self.last_numbers(place)[-1], 499)
        self.assertEqual(self.taken(directory), [])
        self.assertEqual(self.last_numbers(self.snapshot()["snapshot"]), list(range(500)))
        self.leat("snapshot", "record", "-o", self.relay.url, "--max-size=100", status=1)
        # What was not stored is no trace.
        self.assertEqual(len(self.traces(self.relay.output)), 1)
        self.assertEqual(self.session("web")["snapshots"], 2)

    def test_crash_and_program_that_asks(self):
        self.create_relayed()
        running = self.flight(100, "segv")
        self.command(running, "s")
        self.wait_for_traces(1)
        self.command(running, "q")
        self.wait_for_traces(2)
        wait_until(lambda: self.first.log().count("session web: snapshot of ") == 2, "nothing in the log")
        self.assertEqual(self.last_numbers(self.session_directory()), list(range(200)))

    def wait_for_traces(self, count):
        wait_until(lambda: len(self.traces(self.relay.output)) == count, f"there are no {count} snapshots")

    def test_daemon_that_is_killed(self):
        self.create_relayed()
        running = self.flight(300)
        daemon = self.first
        for _ in range(2):
            self.command(running, "c")
            self.snapshot()
            daemon = self.restart(daemon)
        self.command(running, "c")
        self.snapshot()
        self.assertEqual(self.last_numbers(self.relay.output), list(range(900)))

    def test_flight_recorder(self):
        """The same by leat record."""
        summary = self.directory / "summary.json"
        recorded = plain_run(LEAT, "record", "--flight-recorder", "-o", self.relay.url, "--session=box", "--summary", str(summary),
                             "--", *ON_ONE_CPU, program("flight"), "1000", "segv", input="sq")
        self.assertEqual(recorded.returncode, 128 + signal.SIGSEGV, recorded.stderr)
        snapshots = json.loads(summary.read_text())["snapshots"]
        self.assertEqual([snapshot["reason"] for snapshot in snapshots][-1], "at the end")
        for snapshot in snapshots:
            self.assertIn(f"it is at relay {snapshot['relay']}, in {snapshot['directory']} below", recorded.stderr)
            self.assertEqual(len(self.read(self.relay.output / snapshot["directory"], LOST).lines), snapshot["events"])
        self.assertEqual(self.last_numbers(self.session_directory("box")), list(range(2000)))


class AtLttngRelay(AtLeatRelay):
    make_relay = LttngRelay


class Gate:
    """Stands before a relay's ports, and lets through what it is told to: after so many bytes of data it says nothing any
    more, or breaks the connections."""

    def __init__(self, relay):
        self.relay = relay
        self.limit = None  # bytes of data connections
        self.passed = 0
        self.servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.control, self.data = (server.getsockname()[1] for server in self.servers)
        self.url = f"net://127.0.0.1:{self.control}:{self.data}"
        self.links = []
        self.ends = os.pipe()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        to = dict(zip(self.servers, (self.relay.control, self.relay.data)))
        while True:
            readers = [self.ends[0], *self.servers, *(end for link in self.links for end in link[:2])]
            ready, _, _ = select.select(readers, [], [])
            if self.ends[0] in ready:
                return
            for server in self.servers:
                if server in ready:
                    self.accept(server, to[server])
            for link in list(self.links):
                for source, sink in (link[:2], link[1::-1]):
                    if source in ready and link in self.links:
                        self.pass_on(link, source, sink)

    def accept(self, server, port):
        client, _ = server.accept()
        try:
            self.links.append((client, socket.create_connection(("127.0.0.1", port)), server is self.servers[1]))
        except OSError:
            client.close()

    def pass_on(self, link, source, sink):
        try:
            data = source.recv(1 << 16)
            if link[2]:
                self.passed += len(data)
            if data and (self.limit is None or self.passed <= self.limit):
                return sink.sendall(data)
        except OSError:
            pass
        for link in self.links:
            link[0].close()
            link[1].close()
        self.links.clear()

    def close(self):
        os.write(self.ends[1], b"x")
        self.thread.join()
        for end in [*self.servers, *(end for link in self.links for end in link[:2])]:
            end.close()
        os.close(self.ends[0])
        os.close(self.ends[1])


class BadDays(RelayedSnapshots):
    """The relay is not well."""

    def filled(self, **options):
        self.create_relayed(**options)
        running = self.flight(5000)
        self.command(running, "c")
        return running

    def refused(self, *options):
        return self.assert_one_line(self.leat("snapshot", "record", *options, status=1).stderr,
                                    f"{self.relay.address}:{self.relay.control}")

    def test_relay_that_is_dead_and_back_again(self):
        running = self.filled()
        self.relay.kill()
        self.refused()
        self.command(running, "c")
        self.refused()
        self.relay.start()
        self.assertEqual(self.last_numbers(self.at_relay(self.snapshot()))[-1], 9999)
        self.assertEqual(self.session("web")["snapshots"], 1)
        self.leat("create", "other", "--snapshot", "-o", f"net://127.0.0.1:{self.port_of_nobody()}", status=1)

    def test_cut_in_the_middle(self):
        """After any number of bytes: what came by then is no trace, and the next one is whole."""
        gate = Gate(self.relay)
        self.addCleanup(gate.close)
        self.leat("create", "web", "--snapshot", "-o", gate.url)
        self.leat("enable-channel", "c", "--ring-size=64K")
        self.leat("enable-event", "test:*")
        self.leat("start")
        running = self.flight(5000)
        self.command(running, "c")
        whole = self.snapshot()
        for limit in (0, 10, 5000, whole["bytes"] - 1):
            gate.passed, gate.limit = 0, limit
            self.assert_one_line(self.leat("snapshot", "record", status=1).stderr, str(gate.control), "is not stored")
        gate.limit = None
        self.assertEqual(self.snapshot()["events"], whole["events"])
        self.assertEqual(len(self.traces(self.relay.output)), 2)
        self.assertEqual(len(self.last_numbers(self.relay.output)), whole["events"])
        self.assertEqual(self.session("web")["snapshots"], 2)

    def test_relay_that_stands_still_is_given_up(self):
        self.filled()
        stop_process(self.relay.process.pid)
        self.assert_one_line(self.leat("snapshot", "record", status=1).stderr, "does not answer")
        self.relay.process.send_signal(signal.SIGCONT)
        self.assertIn(4999, [event["n"] for event in self.read(self.at_relay(self.snapshot())).events()])

    @outside_gate("asserts that others are answered sooner than the relay is given up")
    def test_relay_that_stands_still_keeps_nobody_else_waiting(self):
        """It keeps verbs waiting for the patience, and others not at all."""
        self.filled()
        directory = self.create_flying(name="other")
        stop_process(self.relay.process.pid)
        asking = subprocess.Popen([LEAT, "snapshot", "record", "web"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(asking.communicate)
        self.addCleanup(asking.kill)
        self.command(self.flight(100), "c")
        self.assertEqual(self.snapshot("other")["events"], 100)
        self.leat("list")
        self.assertIsNone(asking.poll(), "the daemon has waited")
        self.assertEqual(len(self.taken(directory)), 1)
        self.assertLess(elapsed(self.leat, "stop", "web"), LONGEST_WAIT)
        _, errors = asking.communicate(timeout=PATIENCE)
        self.assertEqual(asking.returncode, 1)
        self.assert_one_line(errors, "does not answer")

    def test_what_was_asked_for_is_tried_again(self):
        """Of a crash, of which the rings tell until then; and of a process whose rings would be gone."""
        self.create_relayed()
        self.leat("create", "each", "--snapshot", "-o", self.relay.url)
        self.leat("enable-channel", "c", "--buffers=pid", "--ring-size=64K", "-s", "each")
        self.leat("enable-event", "test:*", "-s", "each")
        self.leat("start", "each")
        self.relay.kill()
        for _ in range(2):
            running = self.flight(500, "segv")
            self.command(running, "q")
            running.process.wait(PATIENCE)
        for name in ("web", "each"):
            wait_until(lambda: re.search(f"session {name}: no snapshot.*cannot reach relay", self.first.log()),
                       "nothing in the log")
        self.relay.start()
        for name in ("web", "each"):
            wait_until(lambda: self.count_stored(name) == 1000, f"no snapshot of {name}")
        # Each crash asks for a snapshot. The last one may be on its way until the session ends.
        for name in ("web", "each"):
            self.assertEqual(self.json("destroy", name)["warnings"], [])
            self.assertEqual(len(self.events_of(name)), 1000)

    def count_stored(self, name):
        """Of events, while snapshots are being stored: one whose metadata is not whole cannot be read yet."""
        stored = [Trace(part) for part in self.relay.parts(name) if self.traces(part)]
        return sum(len(trace.events("test:count")) for trace in stored if trace.status == 0)

    def events_of(self, name):
        """Of those snapshots that are whole."""
        return [event for part in self.relay.parts(name) if self.traces(part)
                for event in self.read(part, LOST).events("test:count")]

    def crash_without_relay(self):
        """What is asked for then, the relay does not take."""
        self.create_relayed()
        self.relay.kill()
        self.command(self.flight(500, "segv"), "q")
        wait_until(lambda: "session web: no snapshot" in self.first.log(), "nothing in the log")

    def test_end_of_a_session_tries_once_more(self):
        self.crash_without_relay()
        self.relay.start()
        self.assertEqual(self.json("destroy", "web")["warnings"], [])
        self.assertEqual(len(self.events_of("web")), 500)

    def test_end_of_a_session_says_what_is_lost(self):
        self.crash_without_relay()
        warning, = self.json("destroy", "web")["warnings"]
        self.assertIn("a snapshot that was asked for is lost: cannot reach relay", warning)

    @needs(has_namespaces(), "namespaces")
    def test_full_disk_of_the_relay(self):
        disk = self.directory / "disk"
        disk.mkdir()
        self.relay.stop()
        self.relay = LeatRelay(disk / "relay", wrapper=("unshare", "--mount", "sh", "-c",
                                                        f'mount -t tmpfs -o size=256k none {disk} && exec "$@"', "sh"))
        self.addCleanup(self.relay.kill)
        self.create_relayed(channel_options=("--ring-size=512K",))
        self.command(self.flight(20_000), "c")
        self.refused()
        inside = ("nsenter", "--mount", f"--target={self.relay.process.pid}")
        self.assertEqual(plain_run(*inside, "find", str(disk), "-name", "metadata").stdout, "")

    def test_what_is_refused(self):
        for places in (["--live"], [f"--live={self.relay.url}"], ["-o", self.relay.url, "-o", self.directory / "x"],
                       ["-o", self.relay.url.replace("net", "net+udp")]):
            result = self.leat("create", "web", "--snapshot", *places, status=2)
            self.assert_one_line(result.stderr)
        self.create_flying()
        self.leat("snapshot", "record", "-o", "net://", status=2)
        self.leat("snapshot", "record", "-o", "net+udp://localhost", status=1)
        self.leat("snapshot", "record", "-o", self.relay.url, "--name=.hidden", status=1)
        for places in (["--live"], ["-o", "net+udp://127.0.0.1"]):
            result = plain_run(LEAT, "record", "--flight-recorder", *places, "--", "true", cwd=self.directory)
            self.assertEqual(result.returncode, 2)
            self.assert_one_line(result.stderr, "snapshots")
        away = plain_run(LEAT, "record", "--flight-recorder", "-o", f"net://127.0.0.1:{self.port_of_nobody()}", "--", "true")
        self.assertEqual(away.returncode, 1)
        self.assert_one_line(away.stderr, "cannot reach relay")

    def test_what_there_is_to_view(self):
        self.create_relayed()
        self.assert_one_line(self.leat("view", "web", status=1).stderr, self.relay.url)

    @needs(can_be_two_users(), "two-users")
    def test_only_its_user_and_root_choose_where_it_goes(self):
        """Members of the group that steers root's daemon may have sessions of their own at any relay."""
        self.first.stop()
        self.daemon("--group=nogroup")
        self.create_flying()
        self.command(self.flight(100), "c")
        member = {"user": 1000, "group": grp.getgrnam("nogroup").gr_gid, "extra_groups": []}
        self.leat("snapshot", "record", "web", **member)
        refused = self.leat("snapshot", "record", "web", "-o", self.relay.url, status=1, **member)
        self.assert_one_line(refused.stderr, "only that user and root")
        self.assertEqual(self.relay.parts(), [])
        self.leat("create", "own", "--snapshot", "-o", self.relay.url, **member)


if __name__ == "__main__":
    enter_user_namespace()
    enter_network_of_our_own()
    main()
