#!/usr/bin/env python3
"""`leat record --live=net+udp://...` over a network that loses and reorders packets. All missing events are accounted
for."""
import contextlib
import multiprocessing
import os
import re
import select
import socket
import struct
import subprocess

from bad_line import BadLine
from relays import LeatRelay
from support import LEAT, PATIENCE, InteropTest, Trace, enter_user_namespace, main, outside_gate, program, wait_until

COUNT = 10_000  # events of each thread
THREADS = 2
PACKET_HEADER = 84  # bytes
RECORD = 4 + (4 + 4 + 17) + (4 + 8)  # compact header, contexts, fields
INDEX_ENTRY = struct.Struct(">9Q")
INDEX_HEADER = 16
LOST = 2 ** 64 - 1
DATAGRAM = struct.Struct(">IQQIIIQ")  # magic, stream, number, size of the packet, offset of the piece, key, code
DATAGRAM_MAGIC = 0x4C655502
PIECE = 1400
LARGEST = 1 << 20
SO_RCVBUFFORCE = 33


class Forger(multiprocessing.Process):
    """Forwards datagrams to the relay, learns the handles of streams from them, and sends forged ones in between."""

    def __init__(self, relay, forge):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((relay.address, 0))
        with contextlib.suppress(PermissionError):
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
        self.port = self.socket.getsockname()[1]
        self.to = (relay.address, relay.data)
        self.forge = forge
        self.forged = multiprocessing.Value("Q", 0)
        self.largest = multiprocessing.Value("Q", 0)  # the largest number of a real packet

    def run(self):
        known = {}
        while True:
            if not select.select([self.socket], [], [], 0.001)[0]:
                for stream, number in known.items():
                    self.forge(self, stream, number, False)
                continue
            datagram = self.socket.recv(1 << 16)
            _, stream, number, *_ = DATAGRAM.unpack_from(datagram)
            is_new = stream not in known
            known[stream] = number
            self.largest.value = max(self.largest.value, number)
            self.forge(self, stream, number, is_new)
            self.socket.sendto(datagram, self.to)

    def send(self, stream, number, size=100, offset=0, piece=None):
        length = max(0, min(PIECE, size - offset)) if piece is None else piece
        header = DATAGRAM.pack(DATAGRAM_MAGIC, stream, number, size, offset, 0, 0)
        self.socket.sendto(header + b"\xee" * length, self.to)
        self.forged.value += 1

    def stop(self):
        self.kill()
        self.join()
        self.socket.close()


def end(process):
    process.kill()
    process.communicate()


def forge_what_cannot_be(forger, stream, number, is_new):
    """Forges datagrams with numbers that no packet of this recording has."""
    for far in (60_000, 2 ** 63, 2 ** 64 - 2, 2 ** 64 - 1, number + 60_000):
        forger.send(stream, far)
    forger.send(int.from_bytes(os.urandom(8), "big"), 0)
    if is_new:
        for i in range(8):
            forger.send(stream, 100 + i, size=LARGEST)
            forger.send(stream, 110 + i)


def forge_everything(forger, stream, number, is_new):
    """Also forges numbers of packets that are real, or will be."""
    for far in (60_000, 2 ** 63, 2 ** 64 - 1):
        forger.send(stream, far)
    for ahead in range(8):
        forger.send(stream, number + ahead, size=LARGEST, offset=(ahead + number) % 8 * PIECE)
        forger.send(stream, number + ahead)


class Udp(InteropTest):
    def start_relay(self, **arguments):
        self.relay = LeatRelay(self.directory / "relay", **arguments)
        self.addCleanup(self.relay.kill)

    def command(self, data_port, count, interval=0):
        url = f"net+udp://{self.relay.address}:{self.relay.control}:{data_port}"
        return [LEAT, "record", f"--live={url}", "--ring-size", "4M", "--", program("paced"), str(count), str(interval),
                str(THREADS)]

    def record(self, data_port, count):
        result = subprocess.run(self.command(data_port, count), input="\n", capture_output=True, text=True,
                                timeout=PATIENCE)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(" 0 discarded", result.stderr)
        self.assertEqual(self.relay.stop(), 0)

    def forger(self, forge):
        forger = Forger(self.relay, forge)
        forger.start()
        self.addCleanup(forger.stop)
        return forger

    def dropped_by_the_system(self, *ports):
        """How many datagrams found no room in the sockets of these ports: a busy machine may be too slow."""
        with open("/proc/net/udp", encoding="ascii") as sockets:
            rows = [line.split() for line in sockets][1:]
        ends = tuple(f":{port:04X}" for port in ports)
        return sum(int(row[-1]) for row in rows if row[1].endswith(ends))

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
        """{(thread, n): time in ns} as babeltrace2 prints them. No event may be there twice, and Leat must print the
        same."""
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
        """(begin, end, number of events) of the packets that the indexes list as lost."""
        lost = []
        for path in (self.directory / "relay").rglob("*.idx"):
            entries = path.read_bytes()[INDEX_HEADER:]
            for offset, _, content, begin, end, *_ in INDEX_ENTRY.iter_unpack(entries):
                if offset == LOST:
                    lost.append((begin, end, (content // 8 - PACKET_HEADER) // RECORD))
        return lost

    def assert_accounted_for(self, events, lost, count):
        self.assert_accounted(count * THREADS, len(events), sum(number for _, _, number in lost))
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

    LATE = "a piece of a packet that comes 500 ms late is lost"

    @outside_gate(LATE)
    def test_reordered(self):
        count = 2_000  # fits into the smallest buffers that sockets have
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

    def test_forged_handles_and_numbers(self):
        self.check_forged(2_000)

    @outside_gate(LATE)
    def test_forged_handles_and_numbers_make_no_packet_lost(self):
        dropped, lost = self.check_forged(2_000)
        if dropped == 0:
            self.assertEqual(lost, [], self.relay.log)

    def check_forged(self, count):
        """All events are accounted for. Returns how many datagrams the system has dropped, and the lost packets."""
        self.start_relay()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for _ in range(5_000):
                header = DATAGRAM.pack(DATAGRAM_MAGIC, int.from_bytes(os.urandom(8), "big"), 0, 100, 0, 0, 0)
                stranger.sendto(header + bytes(100), (self.relay.address, self.relay.data))
        forger = self.forger(forge_what_cannot_be)
        result = subprocess.run(self.command(forger.port, count), input="\n", capture_output=True, text=True,
                                timeout=PATIENCE)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(" 0 discarded", result.stderr)
        dropped = self.dropped_by_the_system(self.relay.data, forger.port)
        self.assertEqual(self.relay.stop(), 0)
        self.assertGreater(forger.forged.value, 100)
        self.assertLess(forger.largest.value, 100, "real packets must not have the numbers that are forged")
        lost = self.lost_packets()
        self.assert_accounted_for(self.events(), lost, count)
        self.assertRegex(self.relay.log, r"stream \d+: a datagram that its producer cannot have sent is dropped")
        self.assertRegex(self.relay.log, r"stream \d+: dropped \d+ datagrams that its producer cannot have sent")
        self.assertRegex(self.relay.log, r"\d+ datagrams for no stream were dropped")
        return dropped, lost

    @outside_gate(LATE)
    def test_forged_packets_of_one_session_do_not_harm_another(self):
        count = 2_000
        self.start_relay()
        forger = self.forger(forge_everything)
        attacked = subprocess.Popen(self.command(forger.port, 1_000, 1_000), stdin=subprocess.PIPE,
                                    stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.addCleanup(end, attacked)
        attacked.stdin.write("\n")
        attacked.stdin.flush()
        wait_until(lambda: forger.forged.value > 1_000, "the forger learns no handles")
        other = subprocess.run(self.command(self.relay.data, count), input="\n", capture_output=True, text=True,
                               timeout=PATIENCE)
        _, errors = attacked.communicate(timeout=PATIENCE)
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertEqual(attacked.returncode, 0, errors)
        self.assertNotIn("events stay in the rings", errors, "the connection to the relay must hold")
        dropped = self.dropped_by_the_system(self.relay.data)
        self.assertEqual(self.relay.stop(), 0)
        traces = sorted(path.parent for path in (self.directory / "relay").rglob("metadata"))
        self.assertEqual(len(traces), 2)
        events = [subprocess.run([LEAT, "view", str(trace)], capture_output=True, text=True).stdout.count(" n = ")
                  for trace in traces]
        if dropped == 0:
            self.assertIn(count * THREADS, events, self.relay.log)

    def test_everything_is_lost(self):
        self.start_relay()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
            nobody.bind(("127.0.0.1", 0))
            self.record(nobody.getsockname()[1], 100)
        self.assertEqual(sum(number for _, _, number in self.lost_packets()), 100 * THREADS)


if __name__ == "__main__":
    enter_user_namespace()
    main()
