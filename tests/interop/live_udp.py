#!/usr/bin/env python3
"""`leat record --live=net+udp://...` over a network that loses and reorders: what is missing is accounted for."""
import re
import socket
import struct
import subprocess

from bad_line import BadLine
from relays import LeatRelay, LttngRelay
from support import LEAT, PATIENCE, InteropTest, Trace, main, program

COUNT = 10_000  # events of each thread
THREADS = 2
PACKET_HEADER = 84  # bytes
RECORD = 4 + (4 + 4 + 17) + (4 + 8)  # compact header, contexts, fields
INDEX_ENTRY = struct.Struct(">9Q")
INDEX_HEADER = 16
LOST = 2 ** 64 - 1


class Udp(InteropTest):
    def start_relay(self, **arguments):
        self.relay = LeatRelay(self.directory / "relay", **arguments)
        self.addCleanup(self.relay.kill)

    def record(self, data_port, count):
        url = f"net+udp://{self.relay.address}:{self.relay.control}:{data_port}"
        result = subprocess.run(
            [LEAT, "record", f"--live={url}", "--ring-size", "4M", "--", program("paced"), str(count), "0",
             str(THREADS)], input="\n", capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("0 discarded", result.stderr)
        self.assertEqual(self.relay.stop(), 0)

    def record_over(self, count, **line):
        """The datagrams share the line with the control connection."""
        line = BadLine(**line)
        self.addCleanup(line.close)
        with line.far:
            self.start_relay(address=line.far.address)
        with line.near:
            self.record(self.relay.data, count)
        self.assertGreater(line.there.reordered, 0)
        return line

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
        self.record_over(count, reordering=0.1)
        events = self.events()
        self.assertEqual(len(events), count * THREADS)
        self.assertEqual(self.lost_packets(), [])

    def test_lost_and_reordered(self):
        line = self.record_over(COUNT, loss=0.01, reordering=0.1)
        self.assertGreater(line.there.lost, 0)
        lost = self.lost_packets()
        self.assertGreater(len(lost), 0)
        self.assert_accounted_for(self.events(), lost, COUNT)

    def test_everything_is_lost(self):
        self.start_relay()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
            nobody.bind(("127.0.0.1", 0))
            self.record(nobody.getsockname()[1], 100)
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
