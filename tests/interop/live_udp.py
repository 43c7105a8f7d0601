#!/usr/bin/env python3
"""`leat record --live=net+udp://...` over a network that loses and reorders: what is missing is accounted for."""
import random
import re
import select
import socket
import struct
import subprocess
import threading
import time
import unittest

from relays import LeatRelay, LttngRelay
from support import LEAT, InteropTest, Trace, main, program

COUNT = 10_000  # events of each thread
THREADS = 2
PACKET_HEADER = 84  # bytes
RECORD = 4 + (4 + 4 + 17) + (4 + 8)  # compact header, contexts, fields
INDEX_ENTRY = struct.Struct(">9Q")
INDEX_HEADER = 16
LOST = 2 ** 64 - 1


class BadNetwork:
    """Between a producer and the UDP port of a relay. Datagrams are numbered as they come."""

    def __init__(self, port, seed=1, loss=0.0):
        self.random = random.Random(seed)
        self.loss = loss
        self.lost = 0
        self.held = []  # (when it leaves, datagram)
        self.incoming = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.incoming.bind(("127.0.0.1", 0))
        self.incoming.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.outgoing = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.outgoing.connect(("127.0.0.1", port))
        self.ending, self.end = socket.socketpair()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    @property
    def port(self):
        return self.incoming.getsockname()[1]

    def run(self):
        while True:
            ready, _, _ = select.select([self.incoming, self.ending], [], [], 0.001 if self.held else None)
            if self.ending in ready:
                return
            if self.incoming in ready:
                self.take(self.incoming.recv(65536))
            while self.held and self.held[0][0] <= time.monotonic():
                self.outgoing.send(self.held.pop(0)[1])

    def take(self, datagram):
        if self.random.random() < self.loss:
            self.lost += 1
        elif self.random.random() < 0.1:
            self.held.append((time.monotonic() + 0.003, datagram))
        else:
            self.outgoing.send(datagram)

    def stop(self):
        self.end.send(b"x")
        self.thread.join()
        for each in (self.incoming, self.outgoing, self.ending, self.end):
            each.close()


class Udp(InteropTest):
    def setUp(self):
        super().setUp()
        self.relay = LeatRelay(self.directory / "relay")
        self.addCleanup(self.relay.kill)

    def record(self, network, count):
        url = f"net+udp://127.0.0.1:{self.relay.control}:{network.port}"
        result = subprocess.run(
            [LEAT, "record", f"--live={url}", "--ring-size", "4M", "--", program("paced"), str(count), "0",
             str(THREADS)], input="\n", capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("0 discarded", result.stderr)
        self.assertEqual(self.relay.stop(), 0)

    def network(self, **arguments):
        network = BadNetwork(self.relay.data, **arguments)
        self.addCleanup(network.stop)
        return network

    def events(self):
        """{(thread, n): time in ns}, as babeltrace2 has them; no event is there twice, and Leat has the same."""
        trace = Trace(self.directory / "relay")
        self.assertEqual(trace.status, 0, trace.stderr)
        view = subprocess.run([LEAT, "view", str(trace.path)], capture_output=True, text=True, check=True)
        self.assertEqual(view.stdout, trace.text)
        text = subprocess.run(["babeltrace2", "--clock-cycles", trace.path], capture_output=True, text=True).stdout
        found = re.findall(r"^\[(\d+)\].*thread = (\d+), n = (\d+)", text, re.MULTILINE)
        events = {(int(thread), int(n)): int(cycles) for cycles, thread, n in found}
        self.assertEqual(len(events), len(found), "an event is there twice")
        return events

    def lost_packets(self):
        """(begin, end, number of events) of those that the indexes list as lost."""
        lost = []
        for path in (self.directory / "relay").rglob("*.idx"):
            entries = path.read_bytes()[INDEX_HEADER:]
            for offset, _, content, begin, end, *_ in INDEX_ENTRY.iter_unpack(entries):
                if offset == LOST:
                    lost.append((begin, end, (content // 8 - PACKET_HEADER) // RECORD))
        return lost

    def assert_accounted_for(self, events, lost, count):
        self.assertEqual(len(events) + sum(number for _, _, number in lost), count * THREADS)
        for thread in range(THREADS):
            before = 0
            is_gap = False
            for n in [*range(count), None]:
                if n is not None and (thread, n) not in events:
                    is_gap = True
                    continue
                after = LOST if n is None else events[thread, n]
                if is_gap:
                    self.assertTrue(any(begin <= after and before <= end for begin, end, _ in lost),
                                    f"thread {thread} lacks events before {n} that are in no lost packet")
                before, is_gap = after, False

    def test_reordered(self):
        count = 2_000  # what fits into the sockets' smallest buffers
        self.record(self.network(), count)
        events = self.events()
        self.assertEqual(len(events), count * THREADS)
        self.assertEqual(self.lost_packets(), [])

    def test_lost_and_reordered(self):
        network = self.network(loss=0.01)
        self.record(network, COUNT)
        self.assertGreater(network.lost, 0)
        lost = self.lost_packets()
        self.assertGreater(len(lost), 0)
        self.assert_accounted_for(self.events(), lost, COUNT)

    def test_everything_is_lost(self):
        self.record(self.network(loss=1.0), 100)
        self.assertEqual(sum(number for _, _, number in self.lost_packets()), 100 * THREADS)


class OtherRelay(InteropTest):
    def test_lttng_relayd_takes_no_datagrams(self):
        relay = LttngRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        result = subprocess.run([LEAT, "record", f"--live=net+udp://127.0.0.1:{relay.control}", "--", "false"],
                                capture_output=True, text=True, timeout=30)
        self.assertEqual(result.returncode, 1)
        self.assert_one_line(result.stderr, f"relay 127.0.0.1:{relay.control}: it does not take datagrams: use net://")


if __name__ == "__main__":
    main()
