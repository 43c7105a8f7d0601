"""Attacks and faults that have hurt other relays. leat-relayd refuses them, goes on, and keeps what it has."""
import concurrent.futures
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import relay_peer as peer  # noqa: E402
from bad_line import BadLine  # noqa: E402
from relay_peer import Closed, Link, Producer, Viewer  # noqa: E402
from relays import LeatRelay  # noqa: E402
from support import (LEAT, PROGRAMS, SANITIZERS, SOURCE, InteropTest, enter_user_namespace, lacks, main,  # noqa: E402
                     outside_gate, state_of, stop_process, without_sanitizers, wait_until)


def ticks(first, count, step=10):
    """(time, n), from n = first."""
    return [(step * n, n) for n in range(first, first + count)]


class RelayTest(InteropTest):
    def setUp(self):
        super().setUp()
        self.output = self.directory / "output"
        self.relay = self.start_relay()

    def start_relay(self, **arguments):
        relay = LeatRelay(self.output, **arguments)
        self.addCleanup(relay.kill)
        return relay

    def producer(self, **arguments):
        producer = Producer(self.relay)
        self.addCleanup(producer.close)
        return producer.start(**arguments)

    def viewer(self, **arguments):
        viewer = Viewer(self.relay, **arguments)
        self.addCleanup(viewer.close)
        return viewer

    def assert_memory_below(self, mib, before=0):
        with self.subTest("memory"):
            if SANITIZERS:
                lacks("sanitizers")  # they need more memory, and keep what is freed
            self.assertLess(self.relay.memory_mib() - before, mib)

    def stop_relay(self):
        """The relay has survived, and stops normally."""
        self.assertTrue(self.relay.is_alive(), "the relay is dead")
        self.assertEqual(self.relay.stop(), 0, self.relay.log)

    def assert_serves(self, session="sound"):
        """A new producer and a new viewer are served as usual."""
        producer = self.producer(session=session)
        self.assertEqual(producer.push(ticks(1, 3)), peer.OK)
        viewer = self.viewer()
        status, streams = viewer.attach(producer.session)
        self.assertEqual(status, 1)
        stream = [id for id, _, is_metadata in streams if not is_metadata][0]
        self.assertEqual(viewer.read_packets(stream, 1), ticks(1, 3))
        producer.finish()
        viewer.close()

    def traces(self):
        return sorted(path.parent for path in self.output.rglob("metadata") if path.stat().st_size > 0)

    def read_events(self, trace):
        """babeltrace2 reads the trace on disk without a warning."""
        result = subprocess.run(["babeltrace2", str(trace)], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [int(line.rpartition("n = ")[2].split()[0]) for line in result.stdout.splitlines()], result.stderr

    @staticmethod
    def entries(index):
        bytes_of_all = index.read_bytes()[16:]
        return [struct.unpack_from(">9Q", bytes_of_all, at) for at in range(0, len(bytes_of_all), 72)]

    def offsets(self, index):
        """The offsets of its packets in their file."""
        return [entry[0] for entry in self.entries(index)]

    def numbers(self, index):
        return [entry[8] for entry in self.entries(index)]


class Viewers(RelayTest):
    def setUp(self):
        super().setUp()
        self.producing = self.producer()
        self.stream = self.producing.streams[0]

    def attached(self):
        viewer = self.viewer()
        status, _ = viewer.attach(self.producing.session)
        self.assertEqual(status, 1)
        return viewer

    def test_packet_before_any_index(self):
        viewer = self.attached()
        self.assertEqual(viewer.packet(self.stream, 0, 4096), (3, 0, b""))
        self.producing.push(ticks(1, 3))
        self.assertEqual(viewer.read_packets(self.stream, 1), ticks(1, 3))

    def test_packet_lengths_that_lie(self):
        viewer = self.attached()
        self.producing.push(ticks(1, 3))
        viewer.read_packets(self.stream, 1)
        memory = self.relay.memory_mib()
        for offset, size in [(0, 0), (0, 2 ** 31), (0, 2 ** 32 - 1), (0, 4097), (1, 4096), (4096, 1), (2 ** 63, 1),
                             (2 ** 64 - 1, 2 ** 32 - 1), (2 ** 64 - 4096, 4096)]:
            status, _, data = viewer.packet(self.stream, offset, size)
            self.assertEqual((status, data), (3, b""), f"{size} bytes at {offset}")
        self.assert_memory_below(16, memory)
        status, _, data = viewer.packet(self.stream, 100, 200)
        self.assertEqual((status, len(data)), (1, 200), "a part of the packet is as good as all of it")

    def test_data_without_its_index_is_not_shown(self):
        viewer = self.attached()
        self.producing.push(ticks(1, 3))
        viewer.read_packets(self.stream, 1)
        data, = self.output.rglob("channel_0")
        size = 65536  # large packets do not wait for more
        packet = peer.packet_of(ticks(4, 3), 1).ljust(size, b"\0")
        self.producing.data_link.send(peer.data_message(self.stream, 1, packet, size))
        wait_until(lambda: data.stat().st_size == 4096 + size, "the data in its file")
        self.assertEqual(viewer.packet(self.stream, 4096, size)[0], 3)
        self.assertIn(viewer.index(self.stream)[7], (2, 5))
        index = peer.index_payload(self.stream, 1, ticks(4, 3), size=size)
        self.assertEqual(self.producing.code(peer.SEND_INDEX, index), peer.OK)
        self.assertEqual(viewer.read_packets(self.stream, 1), ticks(4, 3))

    def test_commands_before_connect(self):
        for command, payload in [(peer.LIST_SESSIONS, b""), (peer.ATTACH_SESSION, bytes(20)),
                                 (peer.GET_NEXT_INDEX, bytes(8)), (peer.GET_PACKET, bytes(20)),
                                 (peer.GET_METADATA, bytes(8)), (peer.VIEWER_CREATE_SESSION, b""),
                                 (peer.DETACH_SESSION, bytes(8)), (0x4C650001, bytes(8))]:
            viewer = self.viewer(connect=False)
            viewer.send(peer.viewer_message(command, payload))
            self.assertTrue(viewer.is_closed(), f"command {command}")

    def test_commands_before_create_and_attach(self):
        viewer = self.viewer(connect=False)
        viewer.ask(peer.CONNECT, struct.pack(">QIII", peer.NO_PACKET, 2, 4, 1), 20)
        self.assertEqual(viewer.attach(self.producing.session), (6, []))
        self.assertEqual(viewer.detach(self.producing.session), 3)
        viewer.ask(peer.VIEWER_CREATE_SESSION)
        self.producing.push(ticks(1, 3))
        reader = self.attached()
        self.assertEqual(reader.read_packets(self.stream, 1), ticks(1, 3))
        stream, metadata = (reader.ids[handle] for handle in (self.stream, self.producing.metadata))
        self.assertEqual(viewer.index(stream)[7], 4)
        self.assertEqual(viewer.packet(stream, 0, 1), (3, 0, b""))
        self.assertEqual(viewer.metadata(metadata), (3, b""))
        self.assertEqual(viewer.new_streams(self.producing.session), (3, []))
        self.assertEqual(viewer.detach(self.producing.session), 3)
        self.assertEqual(viewer.detach(4711), 2)

    def test_streams_of_another_viewers_session(self):
        other = self.producer(session="other")
        other.push(ticks(1, 3))
        viewer = self.attached()
        reader = self.viewer()
        reader.attach(other.session)
        self.assertEqual(reader.read_packets(other.streams[0], 1), ticks(1, 3))
        stream, metadata = (reader.ids[handle] for handle in (other.streams[0], other.metadata))
        self.assertEqual(viewer.index(stream)[7], 4)
        self.assertEqual(viewer.packet(stream, 0, 4096), (3, 0, b""))
        self.assertEqual(viewer.metadata(metadata), (3, b""))
        self.assertEqual(viewer.new_streams(other.session), (3, []))

    def test_attach_that_is_refused(self):
        viewer = self.viewer()
        self.assertEqual(viewer.attach(4711), (3, []))
        self.assertEqual(viewer.attach(self.producing.session, seek=9), (5, []))
        self.assertEqual(viewer.attach(self.producing.session)[0], 1)
        self.assertEqual(viewer.attach(self.producing.session)[0], 2)
        not_live = self.producer(session="stored", live_timer=0)
        self.assertEqual(viewer.attach(not_live.session), (4, []))

    def test_metadata_asked_of_a_data_stream(self):
        viewer = self.attached()
        self.assertEqual(viewer.metadata(self.stream), (3, b""))

    def test_payload_that_is_larger_than_any(self):
        for size in [2 ** 20, 2 ** 31, 2 ** 64 - 1]:
            viewer = self.attached()
            viewer.send(struct.pack(">QII", size, peer.GET_NEXT_INDEX, 0) + bytes(8))
            try:
                viewer.receive(64)
            except Closed:
                pass
            viewer.close()
        self.assert_serves()

    def test_major_version_of_another_world(self):
        viewer = self.viewer(connect=False)
        viewer.send(peer.viewer_message(peer.CONNECT, struct.pack(">QIII", peer.NO_PACKET, 3, 0, 1)))
        self.assertTrue(viewer.is_closed())

    def test_slow_viewer_does_not_hold_up_others(self):
        """The viewer has requested 4 MiB and reads a byte while the others read a packet. They do not notice."""
        slow = self.attached()
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.assertEqual(self.producing.push(ticks(1, 3), size=65536), peer.OK)
        self.assertEqual(slow.read_packets(self.stream, 1), ticks(1, 3))
        request = peer.viewer_message(peer.GET_PACKET, struct.pack(">QQI", slow.ids[self.stream], 0, 65536))
        slow.send(64 * request)
        expected = struct.pack(">III", 1, 65536, 0) + peer.packet_of(ticks(1, 3), 0, size=65536).ljust(65536, b"\0")
        received = b""
        fast = [self.attached(), self.attached()]
        for number in range(1, 200):
            self.producing.push(ticks(1 + 3 * number, 3), size=65536)
            received += slow.receive(1)
        for viewer in fast:
            self.assertEqual(viewer.read_packets(self.stream, 200), ticks(1, 600))
        self.producing.push(ticks(601, 3), size=65536)
        for viewer in fast:
            self.assertEqual(viewer.read_packets(self.stream, 1), ticks(601, 3))
        self.assert_memory_below(64)
        self.assertEqual(received, expected[:len(received)])


class Names(RelayTest):
    """Whatever a name says, nothing is written outside the output directory."""
    BAD = ["..", "../x", "a/../../x", "../../../../x", "/x", "a/b", ".hidden", ".", "", b"a\0b\0", b"no-end",
           "x" * 4095, "\x01\n\x1b[2J"]

    def setUp(self):
        super().setUp()
        self.before = self.outside()

    def outside(self):
        return sorted(str(path) for path in self.directory.rglob("*") if self.output not in path.parents)

    def attempt(self, **arguments):
        """Whether the relay accepts a session with these names. It refuses with code 25, or closes the connection."""
        producer = Producer(self.relay)
        self.addCleanup(producer.close)
        producer.greet()
        try:
            _, code, path = producer.create(**arguments)
        except Closed:
            return None
        self.assertIn(code, (peer.OK, 25))
        if code != peer.OK:
            return None
        self.assertNotIn("..", path.split("/"))
        producer.code(peer.CREATE_TRACE_CHUNK, struct.pack(">QQI", 0, 1_600_000_000, 0))
        return producer

    def check_outside(self):
        self.assertEqual(self.outside(), self.before)
        self.assert_serves()
        self.stop_relay()

    def test_session(self):
        for bad in self.BAD[:-1]:
            self.assertIsNone(self.attempt(session=bad), f"session {bad!r}")
        self.attempt(session=self.BAD[-1])
        self.check_outside()

    def test_host(self):
        for bad in self.BAD[:-1]:
            self.assertIsNone(self.attempt(host=bad), f"host {bad!r}")
        self.check_outside()

    def test_names_that_are_good_and_too_long_with_their_date(self):
        """A session's directory is NAME-DATE-TIME, which adds 16 bytes. The name may have 254 bytes at most, a host
        name 255."""
        refused = 0
        for size in range(230, 256):
            for name in [size * "x", size // 2 * "\u00e9" + size % 2 * "x"]:
                taken = [self.attempt(session=name) is not None, self.attempt(session=name, base_path="base") is not None,
                         self.attempt(host=name) is not None]
                self.assertEqual(taken, [size <= 239, size <= 254, True], f"{size} bytes")
                refused += taken.count(False)
        viewer = self.viewer()
        self.assertEqual(max(len(name.encode()) for name in viewer.list()), 254)
        viewer.close()
        record = subprocess.run([LEAT, "record", f"--live={self.relay.url}", "--session", 240 * "x", "--", "true"],
                                capture_output=True, text=True, timeout=peer.PATIENCE)
        self.assertEqual(record.returncode, 1)
        self.assert_one_line(record.stderr, "does not take the session")
        self.check_outside()
        complaints = self.relay.log.splitlines()
        self.assertEqual(len(complaints), refused + 1, self.relay.log)
        for complaint in complaints:
            self.assertRegex(complaint, "File name too long|has 256 bytes of at most 255")

    def test_base_path(self):
        for bad in ["..", "../x", "a/../../x", "a/..", "../../../../x"]:
            self.assertIsNone(self.attempt(base_path=bad), f"base path {bad!r}")
        self.attempt(base_path="/a/b")
        self.check_outside()

    def test_base_path_that_no_reply_has_room_for(self):
        for size in (4031, 3400, 3300):
            steps = "/".join(["d" * 63] * 63)[:size]
            is_taken = self.attempt(host="h" * 255, base_path=steps) is not None
            self.assertEqual(is_taken, size == 3300, "no room for its chunks in the archives")
        self.assertIsNotNone(self.attempt())

    def test_streams(self):
        good_paths = ["a/b", "/x"]  # no channel's name is a path
        for bad in ["..", "../x", "a/../../x", *good_paths, "", "index", "x" * 4095, b"a\0b\0", b"no-end"]:
            self.assertFalse(self.takes_stream(channel=bad), f"channel {bad!r}")
            self.assertEqual(self.takes_stream(channel="c_0", path=bad), bad in good_paths, f"path {bad!r}")
        self.assertTrue(self.takes_stream(channel="c_0"))
        written = {path.relative_to(self.output).parts[2:] for path in self.output.rglob("c_0")}
        self.assertEqual(written, {("a", "b", "c_0"), ("x", "c_0"), ("ust", "uid", "0", "64-bit", "c_0")})
        self.check_outside()

    def takes_stream(self, **arguments):
        """Whether the relay accepts such a stream, in a session of its own. It refuses with code 11, or closes the
        connection."""
        producer = self.attempt()
        try:
            stream, code = producer.add_stream(**arguments)
        except Closed:
            return False
        self.assertIn(code, (peer.OK, peer.REFUSED))
        if code == peer.OK:
            producer.data_link = Link(self.relay.data)
            producer.streams, producer.numbers = [stream], {stream: 0}
            self.assertEqual(producer.push(ticks(1, 3)), peer.OK)
            producer.wait_until_stored()
        return code == peer.OK

    def test_snapshot_directory(self):
        for bad in ["..", "../x", "/x", "a/b"]:
            producer = Producer(self.relay)
            self.addCleanup(producer.close)
            producer.greet()
            producer.create()
            name = bad.encode() + b"\0"
            try:
                code = producer.code(peer.CREATE_TRACE_CHUNK, struct.pack(">QQI", 0, 1, len(name)) + name)
                self.assertNotEqual(code, peer.OK, bad)
            except Closed:
                pass
        self.check_outside()

    def test_symbolic_links_in_the_output_directory(self):
        trap = self.directory / "trap"
        trap.mkdir()
        (trap / "sentinel").write_text("as it was")
        (self.output / "host").symlink_to(trap)
        self.assertIsNone(self.attempt(host="host"))
        (self.output / "other" / "night-20200913-122640").mkdir(parents=True)
        (self.output / "other" / "night-20200913-122640" / "ust").symlink_to(trap)
        producer = self.attempt(host="other")
        if producer is not None:
            try:
                producer.add_stream("channel_0")
            except Closed:
                pass
        self.assertEqual([path.name for path in trap.rglob("*")], ["sentinel"])
        (self.output / "host").unlink()
        self.before = self.outside()
        self.check_outside()


class Producers(RelayTest):
    def test_commands_before_version(self):
        for command in [1, 2, 3, 6, 7, 8, 9, 10, 11, 13, 16, 17, 18, 19, 20, 21, 22]:
            link = Link(self.relay.control)
            link.send(peer.control_message(command, bytes(32)))
            self.assertTrue(link.is_closed(), f"command {command}")
            link.close()
        self.assert_serves()

    def test_commands_without_a_session(self):
        for command, size in [(peer.ADD_STREAM, 40), (peer.STREAMS_SENT, 0), (peer.SEND_INDEX, 80),
                              (peer.CLOSE_STREAM, 16), (peer.SEND_METADATA, 20), (peer.ROTATE_STREAMS, 20),
                              (peer.CREATE_TRACE_CHUNK, 20), (peer.CLOSE_TRACE_CHUNK, 21)]:
            producer = Producer(self.relay)
            producer.greet()
            producer.send(peer.control_message(command, bytes(size)))
            self.assertTrue(producer.is_closed(), f"command {command}")
            producer.close()
        self.assert_serves()

    def test_unknown_commands_are_answered_and_closed(self):
        for command in [0, 4, 12, 14, 15, 23, 99]:
            producer = self.producer(session=f"s{command}")
            self.assertEqual(producer.code(command), 11, f"command {command}")
            self.assertTrue(producer.is_closed(), f"command {command}")

    def test_payload_that_is_promised_and_never_sent(self):
        producer = self.producer()
        links = [Link(self.relay.control) for _ in range(10)]
        for link in links:
            link.send(peer.control_message(peer.VERSION, struct.pack(">II", 2, 13)))
            link.receive(8)
            link.send(struct.pack(">QQII", 0, 128 << 20, peer.CREATE_SESSION, 0) + b"x" * 100)
        producer.send(struct.pack(">QQIIQI", 0, 128 << 20, peer.SEND_METADATA, 0, producer.metadata, 0) + b"x" * 100)
        self.assert_serves()
        self.assert_memory_below(64)
        for link in links:
            link.close()

    def test_payload_that_is_too_large(self):
        for size in [(128 << 20) + 1, 2 ** 32, 2 ** 63, 2 ** 64 - 1]:
            producer = self.producer(session=f"s{size}")
            producer.send(struct.pack(">QQII", 0, size, peer.SEND_METADATA, 0))
            self.assertTrue(producer.is_closed(), f"{size} bytes")
        self.assert_serves()

    def test_lengths_whose_sum_wraps(self):
        half = 2 ** 31
        for lengths in [(half, half, 0), (2 ** 32 - 1, 2, 1), (6, 2 ** 32 - 1, 1), (255, 255, 255), (0, 0, 0)]:
            producer = Producer(self.relay)
            self.addCleanup(producer.close)
            producer.greet()
            producer.send(peer.control_message(peer.CREATE_SESSION, peer.create_session_payload(lengths=lengths)))
            self.assertTrue(producer.is_closed(), f"{lengths}")
        producer = self.producer()
        for lengths in [(half, half), (2 ** 32 - 1, 1), (4, 2 ** 32 - 4)]:
            producer = self.producer(session=f"adds{lengths[0]}")
            producer.send(peer.control_message(peer.ADD_STREAM, peer.add_stream_payload("c_0", lengths=lengths)))
            self.assertTrue(producer.is_closed(), f"{lengths}")
        # Each entry has 16 bytes, and their product is 0 in 32 bits.
        producer = self.producer(session="rotates")
        producer.send(peer.control_message(peer.ROTATE_STREAMS, struct.pack(">IB7xQ", 2 ** 28, 0, 0)))
        self.assertTrue(producer.is_closed())
        self.assert_serves()
        self.stop_relay()
        self.assertEqual([path for path in self.output.rglob("*") if path.name == "c_0"], [])

    def test_packet_whose_size_wraps(self):
        for sizes in [(2 ** 32 - 1, 2 ** 32 - 1), (2 ** 31, 2 ** 31), (0, 2 ** 32 - 1)]:
            producer = self.producer(session=f"s{sizes[0]}")
            producer.data_link.send(struct.pack(">QQQII", 0, producer.streams[0], 0, *sizes) + b"x" * 100)
            producer.close()
        self.assert_serves()
        used = sum(path.stat().st_blocks * 512 for path in self.output.rglob("*") if path.is_file())
        self.assertLess(used, 64 << 20)

    def test_index_that_contradicts_its_packet(self):
        """Impossible sizes are refused. If the sizes differ from those of the packet that came, the packet is lost.
        Viewers see neither, and the packets after a lost one are unharmed."""
        for size, content in [(2 ** 64 - 1, 8), (4096 * 8, 2 ** 64 - 1), (4096 * 8, 4096 * 8 + 8), (7, 7)]:
            self.assertEqual(self.push_with_index(size, content)[0], peer.REFUSED, f"{size}, {content}")
        for size, content in [(8, 8), (0, 0), (4095 * 8, 4095 * 8), (4097 * 8, 8)]:
            code, producer, viewer = self.push_with_index(size, content)
            self.assertEqual(code, peer.OK, f"{size}, {content}")
            self.assertEqual(producer.push(ticks(4, 3)), peer.OK)
            self.assertEqual(viewer.read_packets(producer.streams[0], 1), ticks(4, 3), f"{size}, {content}")
            producer.finish()
        self.assert_serves()
        self.stop_relay()
        self.assertEqual(self.relay.log.count(": impossible sizes"), 4)
        # The index of the session that continues is sound. Data whose index is refused may come before the connection
        # ends, or not.
        offsets = [self.offsets(index) for index in self.output.rglob("*.idx")]
        self.assertEqual([found for found in offsets if 0 in found], [[0]])
        self.assertEqual([found for found in offsets if 4096 in found], 4 * [[peer.NO_PACKET, 4096]])

    def push_with_index(self, size, content):
        """Sends a packet of 4096 bytes whose index states this many bits. Returns the answer, the producer, and a
        viewer that was there before."""
        producer = self.producer(session=f"s{size}-{content}")
        viewer = self.viewer()
        self.assertEqual(viewer.attach(producer.session)[0], 1)
        stream, = producer.streams
        producer.data_link.send(peer.data_message(stream, 0, peer.packet_of(ticks(1, 3), 0)))
        producer.numbers[stream] = 1
        index = struct.pack(">10Q", stream, 0, size, content, 10, 30, 0, 0, 0, 0)
        return producer.code(peer.SEND_INDEX, index), producer, viewer

    def test_no_limit_of_files(self):
        producer = self.producer(file_size=8192, file_count=0)
        for number in range(6):
            self.assertEqual(producer.push(ticks(1 + 3 * number, 3)), peer.OK)
        producer.finish()
        self.stop_relay()
        events, complaints = self.read_events(self.traces()[0])
        self.assertEqual(events, list(range(1, 19)), complaints)

    def test_data_for_streams_that_are_not_there(self):
        producer = self.producer()
        for stream in [0, 4711, peer.NO_PACKET, producer.metadata]:
            link = Link(self.relay.data)
            link.send(peer.data_message(stream, 0, b"x" * 100))
            self.assertTrue(link.is_closed(), f"stream {stream}")
            link.close()
        self.assert_serves()

    def test_streams_of_another_session(self):
        victim = self.producer(session="victim")
        victim.push(ticks(1, 3))
        robber = self.producer(session="robber")
        try:
            code = robber.code(peer.SEND_INDEX, peer.index_payload(victim.streams[0], 1, ticks(4, 3)))
            self.assertNotEqual(code, peer.OK)
        except Closed:
            pass
        robber = self.producer(session="robber2")
        try:
            code = robber.code(peer.CLOSE_STREAM, struct.pack(">QQ", victim.streams[0], 0))
            self.assertNotEqual(code, peer.OK)
        except Closed:
            pass
        self.assertEqual(victim.push(ticks(4, 3)), peer.OK)
        victim.finish()
        self.stop_relay()
        trace = [path for path in self.traces() if "victim" in str(path)][0]
        self.assertEqual(self.read_events(trace)[0], list(range(1, 7)))

    def test_peers_that_say_nothing_or_a_byte_now_and_then(self):
        """Others are served while a message is incomplete. The message takes effect when the rest of it comes."""
        producer = self.producer(session="patient")
        stream, = producer.streams
        version = peer.control_message(peer.VERSION, struct.pack(">II", 2, 13))
        connect = peer.viewer_message(peer.CONNECT, struct.pack(">QIII", peer.NO_PACKET, 2, 4, 1))
        unknown = peer.data_message(4711, 0, b"x" * 100)
        talks = [(Link(port), said) for port, said in [(self.relay.control, version), (self.relay.data, unknown),
                                                       (self.relay.live, connect)] for _ in range(30)]
        data = peer.data_message(stream, 0, peer.packet_of(ticks(1, 3), 0))
        for at in range(3):
            for link, said in [*talks, (producer.data_link, data)]:
                link.send(said[at:at + 1])
        self.assert_serves()
        for link, said in [*talks, (producer.data_link, data)]:
            link.send(said[3:])
        for link, said in talks:
            if said == unknown:
                self.assertTrue(link.is_closed(), "there is no such stream")
            else:
                answer = link.receive(8) if said == version else link.receive(20)[8:16]
                self.assertEqual(answer, struct.pack(">II", 2, 13))
            link.close()
        self.assertEqual(producer.code(peer.SEND_INDEX, peer.index_payload(stream, 0, ticks(1, 3))), peer.OK)
        producer.numbers[stream] = 1
        producer.finish()
        self.stop_relay()
        trace, = [path for path in self.traces() if "patient" in str(path)]
        self.assertEqual(self.read_events(trace)[0], [1, 2, 3])


class Endings(RelayTest):
    """Connections, relay and viewers end at any moment. What was committed stays, and the others go on."""

    def script(self, number):
        """Session `number` as [(is data, its bytes for these handles, bytes of the reply)]. Its events tell which
        session they belong to."""
        def control(command, payload=lambda stream, metadata: b"", reply=4):
            return False, lambda *handles: peer.control_message(command, payload(*handles)), reply

        def data(packet, events):
            return True, lambda stream, _: peer.data_message(stream, packet, peer.packet_of(events, packet)), 0

        def index(packet, events):
            return control(peer.SEND_INDEX, lambda stream, _: peer.index_payload(stream, packet, events))

        def add(channel):
            return control(peer.ADD_STREAM, lambda *_: peer.add_stream_payload(channel), 12)

        create = peer.create_session_payload(session=f"cut{number}")
        script = [
            control(peer.VERSION, lambda *_: struct.pack(">II", 2, 13), 8),
            control(peer.CREATE_SESSION, lambda *_: create, 16),
            control(peer.CREATE_TRACE_CHUNK, lambda *_: struct.pack(">QQI", 0, 1_600_000_000, 0)),
            add("channel_0"),
            add("metadata"),
            control(peer.STREAMS_SENT),
            control(peer.SEND_METADATA, lambda _, metadata: struct.pack(">QI", metadata, 0) + peer.METADATA, 0)]
        for packet in range(3):
            events = ticks(self.EVENTS_OF_SESSION * number + 1 + 3 * packet, 3)
            script += [data(packet, events), index(packet, events)]
        return script + [
            control(peer.CLOSE_STREAM, lambda _, metadata: struct.pack(">QQ", metadata, peer.NO_PACKET)),
            control(peer.CLOSE_STREAM, lambda stream, _: struct.pack(">QQ", stream, 2))]

    EVENTS_OF_SESSION = 1000  # at most

    def play(self, script, count, last=None, is_patient=False):
        """Sends the first `count` messages, of the last one only the first `last`(size) bytes, and cuts both
        connections. Returns the number of packets whose index was answered; the patient wait until those are stored."""
        links = [Link(self.relay.control), Link(self.relay.data)]
        handles = []
        answered = 0
        for number, (is_data, message, reply) in enumerate(script[:count]):
            message = message(*(handles + [0, 0])[:2])
            if last is not None and number == count - 1:
                links[is_data].send(message[:last(len(message))])
                break
            links[is_data].send(message)
            answer = links[0].receive(reply) if reply else b""
            if reply == 16:
                links[0].receive(struct.unpack(">I", answer[12:])[0])
            if reply == 12:
                handles.append(struct.unpack(">Q", answer[:8])[0])
            if script[number - 1][0]:  # a packet's index follows its data
                self.wait_until_stored(links[0], handles[0], answered, is_patient)
                answered += 1
        for link in links:
            link.close()
        return answered

    @staticmethod
    def wait_until_stored(link, stream, number, is_patient):
        def is_stored():
            link.send(peer.control_message(peer.DATA_PENDING, struct.pack(">QQ", stream, number)))
            return link.receive(4) == b"\0\0\0\0"

        if is_patient:
            wait_until(is_stored, f"packet {number} is stored")

    def check_traces(self, committed=()):
        """Everything that each session left can be read: whole packets from the first on, nothing else, and at least as
        many as `committed` says. Session 0 is that of assert_serves()."""
        self.stop_relay()
        found = {number: [] for number in range(len(committed))}
        traces = self.traces()
        for begin in range(0, len(traces), 100):
            printed = subprocess.run(["babeltrace2", *traces[begin:begin + 100]], capture_output=True, text=True)
            self.assertEqual(printed.returncode, 0, printed.stderr)
            for line in printed.stdout.splitlines():
                number, event = divmod(int(line.rpartition("n = ")[2].split()[0]), self.EVENTS_OF_SESSION)
                found.setdefault(number, []).append(event)
        for number, events in found.items():
            self.assertEqual(events, list(range(1, len(events) + 1)), f"session {number}")
            self.assertEqual(len(events) % 3, 0, f"session {number}")
        for number, packets in enumerate(committed):
            self.assertGreaterEqual(len(found[number]), 3 * packets, f"session {number}")

    def test_cut_at_every_message_boundary(self):
        self.check_cuts(is_patient=True)

    @outside_gate("the relay waits for data for a time, not until it comes")
    def test_cut_before_the_data_of_what_is_acknowledged_is_stored(self):
        self.check_cuts(is_patient=False)

    def check_cuts(self, is_patient):
        count = len(self.script(0))
        committed = [self.play(self.script(number), number, is_patient=is_patient) for number in range(1, count + 1)]
        self.assertEqual(committed[-1], 3)
        self.assert_serves()
        self.check_traces([1, *committed])

    @outside_gate("it cuts a thousand sessions, and the relay waits for data for a time, not until it comes")
    def test_cut_at_random_bytes(self):
        """A thousand sessions, several at a time."""
        def cut(number):
            chance = random.Random(number)
            script = self.script(number)
            return self.play(script, chance.randrange(1, len(script) + 1), chance.randrange)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            committed = list(pool.map(cut, range(1, 1001)))
        self.assert_serves()
        self.check_traces([1, *committed])

    def test_relay_killed_in_a_session(self):
        producer = self.producer(cpus=2)
        for number in range(20):
            for cpu in range(2):
                producer.push([(10 * n + cpu, n) for n in range(1 + 3 * number, 4 + 3 * number)], cpu)
        producer.wait_until_stored()
        self.relay.stop(signal.SIGKILL)
        self.assertTrue(producer.is_closed())
        events, _ = self.read_events(self.traces()[0])
        self.assertEqual(events, sorted(list(range(1, 61)) * 2))
        for index in self.output.rglob("*.idx"):
            self.assertEqual(index.stat().st_size, 16 + 20 * 72)
        self.relay = self.start_relay()
        self.assert_serves("after")

    PER_PACKET = 200

    def push_for_ever(self, producer, size):
        """The viewer reads until the relay is gone. The newest packets are in two files that are overwritten in
        turn."""
        try:
            for number in range(100000):
                producer.push(ticks(1 + self.PER_PACKET * number, self.PER_PACKET), size=size)
                producer.acknowledged = number
        except (Closed, OSError):
            pass

    def end_under_load(self, signal_number, session):
        size = 65536
        producer = self.producer(session=session, file_size=4 * size, file_count=2)
        producer.acknowledged = -1
        pushing = threading.Thread(target=self.push_for_ever, args=(producer, size))
        pushing.start()
        moment = random.Random(session).randrange(20, 200)  # in packets; files are replaced after four
        wait_until(lambda: producer.acknowledged >= moment, f"{moment} packets")
        guard = self.child_of(self.relay.process.pid)
        self.relay.stop(signal_number)
        pushing.join()
        wait_until(lambda: state_of(guard) in "ZX", "the guard's end")
        trace = [path for path in self.traces() if session in str(path)][0]
        for data in trace.glob("channel_0_*"):
            index = trace / "index" / f"{data.name}.idx"
            offsets = self.offsets(index) if index.exists() else []
            # Data that had not arrived is lost if the relay is killed, and the index says so.
            stored = [offset for offset in offsets if offset != peer.NO_PACKET]
            packets = list(range(0, data.stat().st_size, size))
            if signal_number == signal.SIGTERM:
                lost = [number for number, offset in zip(self.numbers(index), offsets) if offset == peer.NO_PACKET]
                self.assertIn(lost, ([], [producer.acknowledged + 1]), "what was acknowledged is stored")
                self.assertEqual(stored, packets, data)
            # A file that was just being replaced has its old packets and a new index.
            elif stored or len(packets) != 4:
                self.assertEqual(stored, packets, data)
        kept = []
        # Each file is a stream of its own here, so they are read one by one.
        for data in trace.glob("channel_0_*"):
            alone = self.directory / "alone" / session / data.name
            alone.mkdir(parents=True)
            shutil.copy(trace / "metadata", alone)
            shutil.copy(data, alone)
            events, _ = self.read_events(alone)
            self.assertEqual(events, list(range(events[0], events[0] + len(events))) if events else [])
            kept += events
        if signal_number == signal.SIGTERM:
            self.assertIn(self.PER_PACKET * (producer.acknowledged + 1), kept, "the newest packets are kept")
        self.relay = self.start_relay()

    def stand_still(self):
        """Stops the relay until it gets SIGCONT."""
        stop_process(self.relay.process.pid)
        wait_until(lambda: state_of(self.relay.process.pid) == "T", "the relay to stand still")

    @staticmethod
    def child_of(pid):
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0]

    @outside_gate("it counts on chance: the relay may be anywhere when it is killed")
    def test_relay_killed_under_load(self):
        for number in range(4):
            self.end_under_load(signal.SIGKILL, f"killed{number}")

    @outside_gate("it counts on chance: the relay may be anywhere, and waits for data for a time, not until it comes")
    def test_relay_terminated_under_load(self):
        for number in range(4):
            self.end_under_load(signal.SIGTERM, f"terminated{number}")

    def test_terminated_relay_takes_the_data_of_what_it_has_acknowledged(self):
        """It stands still while it is told to end and the rest of the data comes."""
        producer = self.producer(session="taken")
        stream = producer.streams[0]
        data = peer.data_message(stream, 0, peer.packet_of(ticks(1, 3), 0))
        producer.data_link.send(data[:50])
        self.assertEqual(producer.code(peer.SEND_INDEX, peer.index_payload(stream, 0, ticks(1, 3))), peer.OK)
        self.stand_still()
        self.relay.process.send_signal(signal.SIGTERM)
        producer.data_link.send(data[50:])
        self.relay.process.send_signal(signal.SIGCONT)
        self.assertTrue(producer.is_closed())
        self.assertEqual(self.relay.process.wait(peer.PATIENCE), 0)
        self.assertEqual(self.read_events(self.traces()[0]), ([1, 2, 3], ""))

    @outside_gate("the relay waits for the data for 1 s")
    def test_terminated_relay_waits_for_the_data_of_what_it_has_acknowledged(self):
        producer = self.producer(session="awaited")
        stream = producer.streams[0]
        data = peer.data_message(stream, 0, peer.packet_of(ticks(1, 3), 0))
        producer.data_link.send(data[:50])
        self.assertEqual(producer.code(peer.SEND_INDEX, peer.index_payload(stream, 0, ticks(1, 3))), peer.OK)
        self.relay.process.send_signal(signal.SIGTERM)
        self.assertTrue(producer.is_closed())
        producer.data_link.send(data[50:])
        self.assertEqual(self.relay.process.wait(peer.PATIENCE), 0)
        self.assertEqual(self.read_events(self.traces()[0]), ([1, 2, 3], ""))

    def test_terminated_relay_does_not_wait_for_ever(self):
        producer = self.producer(session="never")
        stream = producer.streams[0]
        self.assertEqual(producer.code(peer.SEND_INDEX, peer.index_payload(stream, 0, ticks(1, 3))), peer.OK)
        self.stop_relay()

    def test_lost_packet_has_an_index_without_a_place(self):
        producer = self.producer()
        stream = producer.streams[0]
        producer.push(ticks(1, 3))
        producer.code(peer.SEND_INDEX, peer.index_payload(stream, 1, ticks(4, 3)))
        producer.numbers[stream] = 2
        producer.push(ticks(7, 3))
        producer.wait_until_stored()
        producer.close()
        self.stop_relay()
        self.assertEqual(self.offsets(next(self.output.rglob("*.idx"))), [0, peer.NO_PACKET, 4096])
        events, _ = self.read_events(self.traces()[0])
        self.assertEqual(events, [1, 2, 3, 7, 8, 9])

    def test_producer_that_stands_still(self):
        still = self.producer(session="still")
        still.push(ticks(1, 3))
        still.send(peer.control_message(peer.SEND_INDEX)[:10])
        still.data_link.send(peer.data_message(still.streams[0], 1, b"x" * 100)[:50])
        self.assert_serves()
        viewer = self.viewer()
        viewer.attach(still.session)
        self.assertEqual(viewer.read_packets(still.streams[0], 1), ticks(1, 3))
        self.assertIn(viewer.index(still.streams[0])[7], (2, 5))

    def test_relay_stopped_for_a_while(self):
        producer = self.producer()
        producer.push(ticks(1, 3))
        stream = producer.streams[0]
        self.stand_still()
        producer.data_link.send(peer.data_message(stream, 1, peer.packet_of(ticks(4, 3), 1)))
        producer.send(peer.control_message(peer.SEND_INDEX, peer.index_payload(stream, 1, ticks(4, 3))))
        producer.numbers[stream] = 2
        self.relay.process.send_signal(signal.SIGCONT)
        self.assertEqual(producer.receive(4), struct.pack(">I", peer.OK))
        producer.finish()
        self.check_traces([2])

    def test_viewer_that_goes_in_the_middle_of_a_reply(self):
        producer = self.producer()
        for number in range(50):
            producer.push(ticks(1 + 3 * number, 3), size=65536)
        for _ in range(20):
            viewer = Viewer(self.relay)
            viewer.attach(producer.session)
            self.assertEqual(viewer.read_packets(producer.streams[0], 1), ticks(1, 3))
            request = struct.pack(">QQI", viewer.ids[producer.streams[0]], 0, 65536)
            viewer.send(peer.viewer_message(peer.GET_PACKET, request) * 20)
            self.assertEqual(viewer.receive(8), struct.pack(">II", 1, 65536))
            viewer.close()
        self.assertEqual(producer.push(ticks(151, 3), size=65536), peer.OK)
        producer.finish()
        self.assert_serves()


class GrowingMetadata(RelayTest):
    """New event classes arrive while viewers read. No viewer sees only part of a unit."""
    CLASSES, AT_A_TIME = 1000, 10
    UUID = bytes(range(16))
    PREAMBLE = peer.METADATA[:peer.METADATA.index(b"event {")].replace(
        b"trace {", b'trace { uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f";').replace(
        b"event.header := struct {", b"event.header := struct { u32 id;")

    def packetized(self, text):
        """Sends a unit as LTTng's consumer does: declarations cross the borders of packets."""
        room = 512 - 37
        return b"".join(
            struct.pack("<I16sIIIBBBBB", 0x75D11D57, self.UUID, 0, 8 * (37 + len(part)), 8 * 512, 0, 0, 0, 1, 8) +
            part.ljust(room, b"\0") for part in (text[at:at + room] for at in range(0, len(text), room)))

    @staticmethod
    def declaration(id):
        return f'event {{ name = "class_{id}"; id = {id}; stream_id = 0; fields := struct {{ u64 n; }}; }};\n'.encode()

    @staticmethod
    def packet(number, ids):
        records = b"".join(struct.pack("<IQQ", id, 10 + id, id) for id in ids)
        content = 8 * (peer.HEADER.size + len(records))
        return peer.HEADER.pack(0xC1FC1FC1, 0, 10 + ids[0], 10 + ids[-1], content, 8 * 4096, number, 0, 0) + records

    def send_in_pieces(self, link, message, cuts):
        for begin, end in zip([0, *cuts], [*cuts, len(message)]):
            link.send(message[begin:end])

    def watch(self, *command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def test_a_thousand_classes_while_viewers_read(self):
        producer = self.producer(metadata=self.packetized(self.PREAMBLE))
        url = f"net://127.0.0.1:{self.relay.live}/host/host/night"
        viewers = [self.watch("babeltrace2", "--input-format=lttng-live", url), self.watch(LEAT, "view", url)]
        lister = self.viewer()
        wait_until(lambda: lister.clients()["night"] == len(viewers), "the viewers to attach")
        chance = random.Random(2)
        stream = producer.streams[0]
        for number, first in enumerate(range(0, self.CLASSES, self.AT_A_TIME)):
            ids = list(range(first, first + self.AT_A_TIME))
            unit = self.packetized(b"".join(self.declaration(id) for id in ids))
            message = peer.control_message(peer.SEND_METADATA, struct.pack(">QI", producer.metadata, 0) + unit)
            cuts = range(1, len(message)) if number == 0 else sorted(chance.sample(range(1, len(message)), 5))
            self.send_in_pieces(producer, message, cuts)
            data = self.packet(number, ids)
            producer.data_link.send(peer.data_message(stream, number, data))
            index = struct.pack(">10Q", stream, number, 8 * 4096, 8 * len(data), 10 + ids[0], 10 + ids[-1], 0, 0, 0, number)
            self.assertEqual(producer.code(peer.SEND_INDEX, index), peer.OK)
            time.sleep(0.005)  # moment: viewers always have something to read
        producer.numbers[stream] = self.CLASSES // self.AT_A_TIME
        producer.finish()
        for viewer in viewers:
            printed, errors = viewer.communicate(timeout=peer.PATIENCE)
            self.assertEqual((viewer.returncode, errors), (0, ""))
            self.assertEqual([line.split()[2].rstrip(":") for line in printed.splitlines()],
                             [f"class_{id}" for id in range(self.CLASSES)])
        self.stop_relay()
        self.assertEqual(self.read_events(self.traces()[0]), (list(range(self.CLASSES)), ""))


class Sizes(RelayTest):
    def test_packets_of_all_sizes_in_pieces_of_all_sizes(self):
        """Small packets are gathered and large ones spliced. Each arrives byte for byte, wherever the network cuts
        it."""
        random_numbers = random.Random(3)
        producer = self.producer()
        stream = producer.streams[0]
        wire, stored, cuts = b"", b"", []
        sizes = [4096, 32767, 32768, 300_000, 200, 32768, 131_072, 131_072, 131_072, 70_000, 512, 512, 100_000]
        for number, size in enumerate(sizes):
            events = ticks(1 + 3 * number, 3)
            packet = peer.packet_of(events, number, size=size)
            packet += random_numbers.randbytes(size - len(packet))
            stored += packet
            cuts += [len(wire) + cut for cut in random_numbers.sample([0, 1, 31, 32, 33, 100, size // 2], 3)]
            wire += peer.data_message(stream, number, packet, size)
        for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(wire)]):
            producer.data_link.send(wire[begin:end])
            time.sleep(0.005)  # moment: keeps the pieces apart on the network
        for number, size in enumerate(sizes):
            index = peer.index_payload(stream, number, ticks(1 + 3 * number, 3), size=size)
            self.assertEqual(producer.code(peer.SEND_INDEX, index), peer.OK)
        producer.numbers[stream] = len(sizes)
        producer.finish()
        self.stop_relay()
        trace = self.traces()[0]
        self.assertEqual((trace / "channel_0").read_bytes(), stored)
        self.assertEqual(self.read_events(trace), (list(range(1, 1 + 3 * len(sizes))), ""))


@without_sanitizers  # a sanitizer's library must be loaded before any preloaded one
class SizesWithoutSplice(Sizes):
    """The same tests on a file system that takes bytes from memory only."""

    def start_relay(self):
        return super().start_relay(wrapper=["env", f"LD_PRELOAD={PROGRAMS / 'libtest-no-splice.so'}"])


class FullDisk(RelayTest):
    def start_relay(self):
        """The relay's output is a file system of 2 MiB in a mount namespace of its own."""
        self.output.mkdir()
        mount = f"mount -t tmpfs -o size=2m tmpfs {self.output} && exec \"$@\""
        return super().start_relay(wrapper=["unshare", "--mount", "sh", "-c", mount, "relay"])

    def test_session_waits_for_room_and_goes_on(self):
        inside = pathlib.Path(f"/proc/{self.relay.process.pid}/root{self.output}")
        producer = self.producer()
        self.assertEqual(producer.push(ticks(1, 3), size=65536), peer.OK)
        viewer = self.viewer()
        viewer.attach(producer.session)
        self.assertEqual(viewer.read_packets(producer.streams[0], 1), ticks(1, 3))
        ballast = inside / "ballast"
        with open(ballast, "wb") as file:
            try:
                while True:
                    file.write(bytes(65536))
                    file.flush()
            except OSError:
                pass
        producer.data_link.send(peer.data_message(producer.streams[0], 1, peer.packet_of(ticks(4, 3), 1)
                                                  .ljust(65536, b"\0"), 65536))
        wait_until(lambda: "full" in self.relay.log_so_far(), "the relay to say that its disk is full")
        self.assertIn(viewer.index(producer.streams[0])[7], (2, 5), "what is stored can be read, the rest is to come")
        self.assertTrue(self.relay.is_alive())
        ballast.unlink()
        self.assertEqual(producer.code(peer.SEND_INDEX, peer.index_payload(producer.streams[0], 1, ticks(4, 3),
                                                                           size=65536)), peer.OK)
        producer.numbers[producer.streams[0]] = 2
        self.assertEqual(viewer.read_packets(producer.streams[0], 1), ticks(4, 3))
        producer.finish()
        shutil.copytree(inside, self.directory / "copy")
        trace = next((self.directory / "copy").rglob("metadata")).parent
        self.assertEqual(self.read_events(trace)[0], list(range(1, 7)))
        self.stop_relay()


class BadNetwork(RelayTest):
    """Delay, loss and a narrow line between the relay and everybody else. live_bad_days.py does this with real
    programs."""

    def start_relay(self):
        return None  # only when there is a line

    def serve_over(self, count, viewer_end="near", **line):
        line = BadLine(**line)
        self.addCleanup(line.close)
        with line.far:
            self.relay = super().start_relay(address=line.far.address)
        with line.near:
            producer = self.producer()
        with getattr(line, viewer_end):
            viewer = self.viewer()
        viewer.attach(producer.session)
        for number in range(count):
            self.assertEqual(producer.push(ticks(1 + 3 * number, 3), size=256), peer.OK)
        self.assertEqual(viewer.read_packets(producer.streams[0], count), ticks(1, 3 * count))
        producer.finish()
        return line

    def test_delay_and_loss(self):
        line = self.serve_over(10, delay=0.05, loss=0.01)
        self.assertGreater(line.lost, 0)

    @outside_gate("the line has a rate: on a busy machine it is full of what is sent again")
    def test_narrow_line(self):
        # A list of two streams has 9 kB, so the viewer is at the relay's end.
        self.serve_over(3, viewer_end="far", rate=1000)


class Captures(RelayTest):
    """Replays to our relay what LTTng's daemons said to LTTng's relay. The answers are the same, byte for byte, except
    for the handles of streams, which a relay chooses."""
    SESSIONS = ["live-uid-two-apps", "live-pid-buffers", "live-new-metadata-dlopen", "live-tracefile-rotation",
                "stream-nonlive"]

    def replay(self, directory):
        requests = (directory / "control1.c2s.bin").read_bytes()
        replies = (directory / "control1.s2c.bin").read_bytes()
        stored = (directory / "data1.c2s.bin").read_bytes()
        control, data = Link(self.relay.control), None
        handles = {}
        at = said = sent = 0
        while at < len(requests):
            _, size, command, _ = struct.unpack_from(">QQII", requests, at)
            message = requests[at:at + 24 + size]
            at += len(message)
            if command == peer.SEND_INDEX and sent < len(stored) and struct.unpack_from(">Q", message, 40)[0] != 0:
                data = data or Link(self.relay.data)
                data_size, = struct.unpack_from(">I", stored, sent + 24)
                data.send(self.with_handle(stored[sent:sent + 32 + data_size], 8, handles))
                sent += 32 + data_size
            expected = self.reply_in(replies, said, command)
            said += len(expected)
            deadline = time.monotonic() + peer.PATIENCE  # moment: patience
            while True:
                control.send(self.with_handles(message, command, handles))
                answer = control.receive(len(expected))
                if command == peer.ADD_STREAM:
                    handles[expected[:8]] = answer[:8]
                    answer = expected[:8] + answer[8:]
                # Data has a connection of its own and may arrive later.
                if answer == expected or command not in (peer.DATA_PENDING, peer.END_DATA_PENDING):
                    break
                if time.monotonic() > deadline:  # moment: patience
                    break
                time.sleep(0.005)  # moment: asks again
            self.assertEqual(answer, expected, f"{directory.name}: command {command} that ends at byte {at}")
        self.assertEqual(said, len(replies))
        control.close()
        if data:
            data.close()

    @staticmethod
    def with_handle(message, at, handles):
        """Puts our handle in the place of theirs, if the message has one there."""
        return message[:at] + handles.get(message[at:at + 8], message[at:at + 8]) + message[at + 8:]

    def with_handles(self, message, command, handles):
        if command in (peer.SEND_METADATA, peer.CLOSE_STREAM, peer.DATA_PENDING, peer.SEND_INDEX, peer.RESET_METADATA,
                       peer.QUIESCENT_CONTROL):
            return self.with_handle(message, 24, handles)
        if command == peer.ROTATE_STREAMS:
            count, = struct.unpack_from(">I", message, 24)
            for position in range(count):
                message = self.with_handle(message, len(message) - 16 * (position + 1), handles)
        return message

    @staticmethod
    def reply_in(replies, at, command):
        sizes = {peer.VERSION: 8, peer.GET_CONFIGURATION: 12, peer.ADD_STREAM: 12, peer.SEND_METADATA: 0,
                 peer.TRACE_CHUNK_EXISTS: 5}
        size = sizes.get(command, 4)
        if command == peer.CREATE_SESSION:
            size = 16 + struct.unpack_from(">I", replies, at + 12)[0]
        if command == peer.CLOSE_TRACE_CHUNK:
            size = 8 + struct.unpack_from(">I", replies, at + 4)[0]
        return replies[at:at + size]

    def test_replayed_session_is_answered_and_stored_as_it_was(self):
        for session in self.SESSIONS:
            with self.subTest(session):
                directory = SOURCE / "tests" / "data" / "captures" / session
                self.replay(directory)
                self.stop_relay()
                theirs = sorted(path for path in (directory / "trace").rglob("*") if path.is_file())
                for path in theirs:
                    ours = self.output / path.relative_to(directory / "trace")
                    self.assertEqual(ours.read_bytes(), path.read_bytes(), path)
            shutil.rmtree(self.output)
            self.relay = self.start_relay()


if __name__ == "__main__":
    enter_user_namespace()
    main()
