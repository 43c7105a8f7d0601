#!/usr/bin/env python3
"""Sequences of legal or nearly legal messages. Each of them once made leat-relayd hang, starved its other peers, or
left something unreadable."""
import os
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import tempfile
import time
import unittest
import uuid

import relay_peer as peer
from relay_peer import (ADD_STREAM, CLOSE_STREAM, CREATE_TRACE_CHUNK, GET_NEXT_INDEX, GET_PACKET, METADATA, NO_PACKET, OK,
                        SEND_INDEX, SEND_METADATA, STREAMS_SENT, Closed, Link, Producer, Viewer, control_message,
                        data_message, index_payload, packet_of)
from relays import LeatRelay
from support import IS_WHOLE, InteropTest, enter_user_namespace, fields_of, main, outside_gate, wait_until

ASK_CAPABILITIES, GET_NEWS = 0x4c65617400000000, 0x4c650002
REFUSED = 11
MIB = 1 << 20
INDEX_HEADER, INDEX_ENTRY, LOST = 16, struct.Struct(">9Q"), 2 ** 64 - 1
KEPT = 1024  # finished streams that a session remembers
LAST_ENDS = (3, 4, 6)  # statuses of an index after which there is no other
WAITING = 4096  # the most packets or indexes of a stream that wait for their other half


def close_stream(stream, last=NO_PACKET):
    return control_message(CLOSE_STREAM, struct.pack(">QQ", stream, last))


def index_message(stream, number, events, **arguments):
    return control_message(SEND_INDEX, index_payload(stream, number, events, **arguments))


class NewsViewer(Viewer):
    """A viewer that asks for everything new, of all streams at once."""

    def __init__(self, relay):
        super().__init__(relay, connect=False)
        self.ask(peer.CONNECT, struct.pack(">QIII", ASK_CAPABILITIES | 3, 2, 4, 1), 20)
        self.ask(peer.VIEWER_CREATE_SESSION)

    def news(self):
        """[(stream, status, flags)]; empty when nothing has happened for a while."""
        status, more, count = struct.unpack(">III", self.ask(GET_NEWS, struct.pack(">I", MIB), 12))
        assert status == 1 or count == 0, status
        entries = []
        for _ in range(count):
            stream, *index, size = struct.unpack(">Q7QIII", self.receive(76))
            self.receive(size)
            entries.append((stream, *index[-2:]))
        return entries, more


class SequenceTest(InteropTest):
    def start(self, output="output", **arguments):
        self.output = self.directory / output
        self.relay = LeatRelay(self.output, **arguments)
        self.addCleanup(self.relay.kill)

    def start_with_files(self, limit):
        """Starts the relay with this limit of descriptors."""
        self.start(wrapper=("prlimit", f"--nofile={limit}:{limit}"))

    def opened(self, link):
        self.addCleanup(link.close)
        return link

    def producer(self, **arguments):
        return self.opened(Producer(self.relay)).start(**arguments)

    def producer_without_streams(self, address="127.0.0.1"):
        producer = self.opened(Producer(self.relay, address))
        producer.greet()
        producer.session, code, _ = producer.create()
        self.assertEqual(code, OK)
        self.assertEqual(producer.code(CREATE_TRACE_CHUNK, struct.pack(">QQI", 0, 1_600_000_000, 0)), OK)
        return producer

    def viewer(self):
        return self.opened(Viewer(self.relay))

    def stop(self):
        self.assertTrue(self.relay.is_alive(), "the relay is dead")
        self.assertEqual(self.relay.stop(), 0, self.relay.log)

    def log_so_far(self):
        return self.relay.log_so_far()

    def events(self, directory=None):
        """What babeltrace2 reads from the only trace on disk."""
        trace, = [path.parent for path in (directory or self.output).rglob("metadata")]
        result = subprocess.run(["babeltrace2", str(trace)], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [int(line.rpartition("n = ")[2].split()[0]) for line in result.stdout.splitlines()]

    def assert_codes(self, producer, count, code=OK):
        self.assertEqual(set(struct.unpack(f">{count}I", producer.receive(4 * count))), {code})


class Bursts(SequenceTest):
    """One piece holds more whole messages than one turn serves."""
    COUNT = 300

    def setUp(self):
        super().setUp()
        self.start()

    def test_streams_that_close_at_once(self):
        producer = self.producer(cpus=self.COUNT)
        producer.send(b"".join(map(close_stream, producer.streams)))
        self.assert_codes(producer, self.COUNT)
        self.stop()

    def test_streams_with_data_that_close_at_once(self):
        producer = self.producer(cpus=self.COUNT)
        streams = list(enumerate(producer.streams))
        producer.data_link.send(b"".join(data_message(stream, 0, packet_of([(n + 1, n)], 0), 4096) for n, stream in streams))
        producer.send(b"".join(index_message(stream, 0, [(n + 1, n)]) for n, stream in streams))
        self.assert_codes(producer, self.COUNT)
        producer.send(b"".join(close_stream(stream, 0) for _, stream in streams))
        self.assert_codes(producer, self.COUNT)
        producer.close()
        self.stop()
        self.assertEqual(self.events(), list(range(self.COUNT)))

    def test_pieces_of_metadata(self):
        producer = self.producer()
        piece = control_message(SEND_METADATA, struct.pack(">QI", producer.metadata, 0) + b" ")
        producer.send(self.COUNT * piece + control_message(STREAMS_SENT))
        self.assert_codes(producer, 1)
        self.stop()

    def test_viewer_that_asks_for_more_than_it_reads(self):
        count, size = 64, 65536
        producer = self.producer()
        for number in range(count):
            self.assertEqual(producer.push([(number + 1, number)], size=size), OK)
        viewer = self.viewer()
        viewer.attach(producer.session)
        viewer.read_metadata()
        stream = viewer.ids[producer.streams[0]]
        viewer.read_packets(stream, count)
        viewer.send(b"".join(peer.viewer_message(GET_PACKET, struct.pack(">QQI", stream, number * size, size))
                             for number in range(count)))
        replies = viewer.receive(count * (12 + size))
        headers = {replies[at:at + 12] for at in range(0, len(replies), 12 + size)}
        self.assertEqual(headers, {struct.pack(">III", 1, size, 0)})
        self.stop()


class Killed(SequenceTest):
    """A relay that is killed in the middle of a message."""
    NEW = b'event { name = "tock"; id = 1; stream_id = 0; fields := struct { u64 n; }; };\n'

    def has_read(self, link):
        """Whether the relay's end of a connection has nothing left to read, by the kernel's table."""
        ends = [f"0100007F:{link.socket.getpeername()[1]:04X}", f"0100007F:{link.socket.getsockname()[1]:04X}"]
        lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()]
        queued, = [line[4] for line in lines if line[1:3] == ends]
        return queued.endswith(":00000000")

    def test_half_a_declaration(self):
        self.start()
        producer = self.producer()
        producer.push([(10, 1)])
        producer.wait_until_stored()
        message = control_message(SEND_METADATA, struct.pack(">QI", producer.metadata, 0) + self.NEW)
        producer.send(message[:-20])
        wait_until(lambda: self.has_read(producer), "the relay does not read")
        metadata, = self.output.rglob("metadata")
        self.assertEqual(metadata.read_bytes(), METADATA)
        self.relay.kill()
        self.assertEqual(self.events(), [1])

    def test_message_larger_than_what_is_gathered(self):
        self.start()
        producer = self.producer()
        text = b"/* " + 300_000 * b"x" + b" */\n"
        producer.send_metadata(text)
        producer.push([(10, 1)])
        producer.finish()
        self.stop()
        self.assertEqual(self.events(), [1])
        metadata, = self.output.rglob("metadata")
        self.assertEqual(metadata.read_bytes(), METADATA + text)


class Silence(SequenceTest):
    def test_indexes_without_data(self):
        """Each is answered. The packets are lost, and the stream goes on when data comes."""
        count, batch = 10_000, 100
        self.start()
        producer = self.producer()
        stream, = producer.streams
        viewer = self.viewer()
        viewer.attach(producer.session)
        viewer.read_metadata()
        for begin in range(0, count, batch):
            producer.send(b"".join(index_message(stream, n, [(n + 1, n)]) for n in range(begin, begin + batch)))
            self.assert_codes(producer, batch)
        producer.numbers[stream] = count
        self.assertEqual(producer.push([(count + 1, count)]), OK)
        self.assertEqual(viewer.read_packets(stream, 1), [(count + 1, count)])
        producer.finish()
        self.stop()
        path, = self.output.rglob("channel_0.idx")
        offsets = [entry[0] for entry in INDEX_ENTRY.iter_unpack(path.read_bytes()[INDEX_HEADER:])]
        self.assertEqual(offsets, count * [LOST] + [0])
        self.assertEqual(self.relay.log.count("no data comes"), 1, self.relay.log)


    def test_data_connection_that_ends_alone(self):
        """Nobody hears that a packet is stored whose data went with it. What was stored before it, is."""
        pending = 1
        self.start()
        producer = self.producer()
        stream, = producer.streams
        self.assertEqual(producer.push([(10, 1)]), OK)
        producer.wait_until_stored()
        producer.data_link.close()
        producer.send(index_message(stream, 1, [(20, 2)]))
        self.assert_codes(producer, 1)
        code = pending
        while code == pending:
            code = producer.code(peer.DATA_PENDING, struct.pack(">QQ", stream, 1))
        self.assertEqual(code, REFUSED)
        self.assertTrue(producer.is_closed())
        self.stop()
        self.assertEqual(self.events(), [1])


class Padding(SequenceTest):
    """A few bytes that ask for many zeros."""

    def setUp(self):
        super().setUp()
        self.start()

    def metadata_size(self):
        path, = self.output.rglob("metadata")
        return path.stat().st_size

    def padded(self, producer, padding):
        return control_message(SEND_METADATA, struct.pack(">QI", producer.metadata, padding) + b" ")

    def test_metadata_with_more_than_a_packets_is_refused(self):
        producer = self.producer()
        producer.send(self.padded(producer, MIB))
        self.assertEqual(producer.code(STREAMS_SENT), OK)
        size = self.metadata_size()
        self.assertEqual(size, len(peer.METADATA) + 1 + MIB)
        producer.send(self.padded(producer, 4 * MIB) + control_message(STREAMS_SENT))
        with self.assertRaises(Closed):
            producer.receive(4)
        self.assertEqual(self.metadata_size(), size)
        self.stop()
        self.assertIn("padding", self.relay.log)

    def test_packets_take_no_room(self):
        count, size = 8, 16 * MIB
        producer = self.producer()
        stream, = producer.streams
        for number in range(count):
            events = [(number + 1, number)]
            content = packet_of(events, number, size=size)
            producer.data_link.send(struct.pack(">QQQII", 0, stream, number, len(content), size - len(content)) + content)
            self.assertEqual(producer.code(SEND_INDEX, index_payload(stream, number, events, size=size)), OK)
        producer.numbers[stream] = count
        producer.wait_until_stored()
        file, = self.output.rglob("channel_0")
        status = file.stat()
        self.assertEqual(status.st_size, count * size)
        self.assertLess(status.st_blocks * 512, size)
        producer.finish()
        self.stop()
        self.assertEqual(self.events(), list(range(count)))


class Repacked(SequenceTest):
    """After a clear all metadata comes again, in other packets. Each viewer gets each unit once."""
    UNITS = [b"/* CTF 1.8 */ stream { id = 0; };"] + [b"/* %d */" % n for n in range(1, 8)]
    BEFORE = (2, 2, 2, 2)  # units in each message
    AGAIN = {"same": (2, 2, 2, 2), "denser": (4, 4), "sparser": 8 * (1,), "shifted": (1, 2, 2, 2, 1),
             "one alone": (1, 4, 3)}

    @staticmethod
    def packet(text, size=512):
        header = struct.pack("<I16sIII5B", 0x75D11D57, b"u" * 16, 0, (37 + len(text)) * 8, size * 8, 0, 0, 0, 1, 8)
        return (header + text).ljust(size, b"\0")

    def packets(self, counts):
        units = iter(self.UNITS)
        return [self.packet(b"".join(next(units) for _ in range(count))) for count in counts]

    def text_of(self, metadata):
        text = b""
        while metadata:
            magic, _, _, content, size = struct.unpack_from("<I16sIII", metadata)
            self.assertEqual(magic, 0x75D11D57)
            self.assertLessEqual(content, size)
            self.assertLessEqual(size, 8 * len(metadata))
            text += metadata[37:content // 8]
            metadata = metadata[size // 8:]
        return text

    def check(self, again, read):
        """`read`: how many messages the viewer has seen when the session is cleared."""
        first, *rest = self.packets(self.BEFORE)
        producer = self.producer(metadata=first)
        stream, = producer.streams
        viewer = self.viewer()
        viewer.attach(producer.session)
        seen = b""
        for count, message in enumerate(rest, 1):
            self.assertEqual(producer.push([(count, count)]), OK)
            if count <= read:
                seen += viewer.read_metadata()
            producer.send_metadata(message)
        self.assertEqual(producer.push([(10, 10)]), OK)
        if read == len(self.BEFORE):
            seen += viewer.read_metadata()
        self.assertEqual(producer.code(CREATE_TRACE_CHUNK, struct.pack(">QQI", 1, 1_600_000_001, 0)), OK)
        for position in ((stream, producer.numbers[stream]), (producer.metadata, 0)):
            payload = struct.pack(">IB7xQQQ", 1, 1, 1, *position)
            self.assertEqual(producer.code(peer.ROTATE_STREAMS, payload), OK)
        for message in self.packets(again):
            producer.send_metadata(message)
        close = struct.pack(">QQBI", 0, 1_600_000_002, 1, 2)
        code, length = struct.unpack(">II", producer.ask(peer.CLOSE_TRACE_CHUNK, close, 8))
        producer.receive(length)
        self.assertEqual(code, OK)
        producer.send_metadata(self.packet(b"/* new */"))
        self.assertEqual(producer.push([(20, 20)]), OK)
        seen += viewer.read_metadata()
        self.assertEqual(self.text_of(seen), b"".join(self.UNITS) + b"/* new */")
        # The next rotation goes on from there.
        self.assertEqual(producer.code(CREATE_TRACE_CHUNK, struct.pack(">QQI", 2, 1_600_000_003, 0)), OK)
        payload = struct.pack(">IB7xQQQQQ", 2, 1, 2, producer.metadata, 0, stream, producer.numbers[stream])
        self.assertEqual(producer.code(peer.ROTATE_STREAMS, payload), OK)
        producer.send_metadata(self.packet(b"".join(self.UNITS) + b"/* new *//* last */"))
        self.assertEqual(producer.push([(30, 30)]), OK)
        self.assertEqual(self.text_of(viewer.read_metadata()), b"/* last */")
        producer.close()

    def test_metadata_in_other_packets_after_a_clear(self):
        self.start()
        for name, again in self.AGAIN.items():
            for read in range(len(self.BEFORE) + 1):
                with self.subTest(again=name, read=read):
                    self.check(again, read)
        self.stop()


class Descriptors(SequenceTest):
    """What one peer opens does not reduce what the others may open."""

    def test_streams_of_one_host(self):
        self.start_with_files(1024)
        sound = self.producer(cpus=2, session="sound")
        self.assertEqual(sound.push([(1, 1)], cpu=0), OK)
        greedy = self.producer(session="greedy")
        greedy.send(b"".join(control_message(ADD_STREAM, peer.add_stream_payload(f"more_{n}")) for n in range(600)))
        replies = [struct.unpack(">QI", greedy.receive(12)) for _ in range(600)]
        streams = [handle for handle, code in replies if code == OK]
        self.assertEqual({code for _, code in replies}, {OK, REFUSED})
        greedy.data_link.send(b"".join(data_message(stream, 0, b"x", 1) for stream in streams))
        self.assertEqual(greedy.push([(1, 1)]), OK)
        greedy.wait_until_stored()  # this packet came after those of all other streams
        self.assertEqual(sound.push([(2, 2)], cpu=1), OK)
        sound.wait_until_stored()
        # Streams that have finished make room for new ones.
        self.assertEqual(greedy.add_stream("other")[1], REFUSED)
        greedy.send(close_stream(streams[0], 0))
        self.assert_codes(greedy, 1)
        greedy.close()
        again = self.opened(Producer(self.relay))
        again.greet()
        again.create(session="again")
        again.code(CREATE_TRACE_CHUNK, struct.pack(">QQI", 0, 1_600_000_000, 0))
        wait_until(lambda: again.add_stream("channel_0")[1] == OK, "a place for a stream")
        sound.finish()
        self.stop()

    def add_many(self, producer, count):
        """How many of them it gets."""
        payloads = [peer.add_stream_payload("metadata", path=f"p/{n}") for n in range(count)]
        producer.send(b"".join(control_message(ADD_STREAM, payload) for payload in payloads))
        codes = [struct.unpack(">QI", producer.receive(12))[1] for _ in range(count)]
        self.assertLessEqual(set(codes), {OK, REFUSED})
        return codes.count(OK)

    def test_metadata_streams_of_one_producer(self):
        """Each keeps more files open than a stream of data. Others of that host, and other hosts, get theirs."""
        self.start_with_files(1024)
        greedy, beside = self.producer_without_streams(), self.producer_without_streams()
        far = self.producer_without_streams("127.0.0.2")
        self.assertGreater(self.add_many(greedy, 3000), 100)
        self.assertLess(len(os.listdir(f"/proc/{self.relay.process.pid}/fd")), 1024 * 5 // 8)
        self.assertGreaterEqual(self.add_many(beside, 10), 10)
        self.assertGreaterEqual(self.add_many(far, 100), 100)
        self.stop()

    def test_stream_waits_for_a_descriptor(self):
        # No descriptor is free; one for the directory is; one more for the index is, but none for the data.
        for spare in range(3):
            with self.subTest(spare=spare):
                self.check_that_a_stream_waits(spare)

    def check_that_a_stream_waits(self, spare):
        self.start(output=f"output-{spare}")
        producer = self.producer(cpus=2)
        self.assertEqual(producer.push([(1, 0)], cpu=0), OK)
        producer.wait_until_stored()
        limits = resource.prlimit(self.relay.process.pid, resource.RLIMIT_NOFILE)
        count = len(os.listdir(f"/proc/{self.relay.process.pid}/fd"))
        resource.prlimit(self.relay.process.pid, resource.RLIMIT_NOFILE, (count + spare, limits[1]))
        producer.data_link.send(data_message(producer.streams[1], 0, packet_of([(2, 1)], 0), 4096))
        producer.numbers[producer.streams[1]] = 1
        wait_until(lambda: "descriptor" in self.log_so_far() or producer.data_link.is_closed(0), "the relay's limit")
        resource.prlimit(self.relay.process.pid, resource.RLIMIT_NOFILE, limits)
        self.assertEqual(producer.code(SEND_INDEX, index_payload(producer.streams[1], 0, [(2, 1)])), OK)
        producer.finish()
        self.stop()
        self.assertEqual(self.events(), [0, 1])

    def test_viewers_of_many_finished_streams(self):
        count = 200
        self.start_with_files(1024)
        producer = self.producer(cpus=count)
        packets = [(stream, number, [(number * count + cpu + 1, cpu)]) for number in range(2)
                   for cpu, stream in enumerate(producer.streams)]
        producer.data_link.send(b"".join(data_message(stream, number, packet_of(events, number), 4096)
                                         for stream, number, events in packets))
        producer.send(b"".join(index_message(*packet) for packet in packets))
        self.assert_codes(producer, len(packets))
        producer.numbers = dict.fromkeys(producer.streams, 2)
        producer.wait_until_stored()
        producer.send(b"".join(close_stream(stream, 1) for stream in producer.streams))
        self.assert_codes(producer, count)
        for _ in range(4):
            viewer = self.viewer()
            _, streams = viewer.attach(producer.session)
            streams = [stream for stream, _, is_metadata in streams if not is_metadata]
            self.assertEqual(len(streams), count)
            viewer.send(b"".join(peer.viewer_message(GET_NEXT_INDEX, struct.pack(">Q", stream)) for stream in streams))
            statuses = [struct.unpack(">7QII", viewer.receive(64))[7] for _ in streams]
            self.assertEqual(statuses.count(1), count)
        self.producer(session="other").finish()
        self.stop()


class Parts(SequenceTest):
    """Two consumer daemons send one session, as those of 32- and 64-bit programs do."""

    def test_streams_of_the_same_names(self):
        count = 12
        self.start()
        session_uuid = uuid.uuid4().bytes
        parts = [self.producer(cpus=2, session="both", session_uuid=session_uuid) for _ in range(2)]
        self.assertEqual(len({part.path for part in parts}), 1)
        viewers = [self.viewer() for _ in parts]
        for part, viewer in zip(parts, viewers):
            viewer.attach(part.session)
            viewer.read_metadata()
        for number in range(count):
            for n, part in enumerate(parts):
                self.assertEqual(part.push([(2 * number + n + 1, 2 * number + n)], cpu=number % 2), OK)
        seen = [events for part, viewer in zip(parts, viewers) for stream in part.streams
                for events in viewer.read_packets(stream, count // 2)]
        self.assertEqual(sorted(n for _, n in seen), list(range(2 * count)))
        for part in parts:
            part.finish()
        self.stop()
        traces = [path.parent for path in self.output.rglob("metadata")]
        self.assertEqual(sorted(path.name for path in traces), ["64-bit", "64-bit-2"])
        result = subprocess.run(["babeltrace2", str(self.output)], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(int(n) for n in re.findall(r"n = (\d+)", result.stdout)), list(range(2 * count)))


@outside_gate("it takes many seconds")
class Forgotten(SequenceTest):
    def test_streams_that_end_while_a_viewer_looks_away(self):
        """There are more finished streams than the session remembers. The viewer is told of all of them anyway."""
        count = KEPT + 100
        self.start_with_files(12288)
        producer = self.producer(cpus=count)
        viewer = self.opened(NewsViewer(self.relay))
        _, streams = viewer.attach(producer.session)
        viewer.read_metadata()
        self.assertEqual(producer.push([(1, 0)], cpu=0), OK)
        while not any(status == 1 for _, status, _ in viewer.news()[0]):
            viewer.read_metadata()
        others = list(enumerate(producer.streams))[1:]
        producer.data_link.send(b"".join(data_message(stream, 0, packet_of([(n + 1, n)], 0), 4096) for n, stream in others))
        producer.send(b"".join(index_message(stream, 0, [(n + 1, n)]) for n, stream in others))
        self.assert_codes(producer, len(others))
        producer.numbers = {stream: 1 for stream in producer.streams}
        producer.wait_until_stored()
        for begin in range(0, len(others), 100):
            part = others[begin:begin + 100]
            producer.send(b"".join(close_stream(stream, 0) for _, stream in part))
            self.assert_codes(producer, len(part))
        packets, ends = [], []
        while len(ends) < len(others):
            entries, more = viewer.news()
            packets += [stream for stream, status, _ in entries if status == 1]
            ends += [stream for stream, status, _ in entries if status in LAST_ENDS]
            if any(flags & 1 for *_, flags in entries):
                viewer.read_metadata()
            if not entries and not more:
                break
        expected = sorted(viewer.ids[stream] for _, stream in others)
        self.assertEqual(len(streams), count + 1)
        self.assertEqual(len(packets), len(others))
        self.assertEqual(sorted(packets), expected)
        self.assertEqual(sorted(ends), expected)
        self.stop()


@outside_gate("the relay waits 10 s for the disk")
class FullDisk(SequenceTest):
    def test_end_with_half_a_packet(self):
        """The index cannot get another page either. All whole packets can be read."""
        stored = 56  # packets: as many as one page has entries
        self.output = self.directory / "output"
        self.output.mkdir()
        mount = f"mount -t tmpfs -o size=2m tmpfs {self.output} && exec \"$@\""
        self.start(wrapper=("unshare", "--mount", "sh", "-c", mount, "relay"))
        # The mount ends with the relay, but open files stay readable.
        inside = os.open(f"/proc/{self.relay.process.pid}/root{self.output}", os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, inside)
        producer = self.producer()
        stream, = producer.streams
        for number in range(stored):
            self.assertEqual(producer.push([(number + 1, number)]), OK)
        producer.wait_until_stored()
        producer.data_link.send(struct.pack(">QQQII", 0, stream, stored, 3 * MIB, 0) + b"\1" * (2 * MIB))
        wait_until(lambda: os.fstatvfs(inside).f_bavail == 0, "a full disk")
        self.assertEqual(producer.code(SEND_INDEX, index_payload(stream, stored, [(99, 99)], size=3 * MIB)), OK)
        self.stop()
        shutil.copytree(f"/proc/self/fd/{inside}", self.directory / "copy")
        self.assertEqual(self.events(self.directory / "copy"), list(range(stored)))


class Again(SequenceTest):
    """A producer closes what it has declared, and declares it again."""

    def add_stream(self, producer):
        handle, code = producer.add_stream("channel_0")
        self.assertEqual(code, OK)
        producer.streams, producer.numbers = [handle], {handle: 0}

    def check(self, with_data, read):
        producer = self.producer()
        viewer = self.viewer()
        viewer.attach(producer.session)
        self.assertEqual(producer.push([(1, 0)]), OK)
        if read:
            viewer.read_metadata()
            viewer.read_packets(producer.streams[0], 1)
        producer.wait_until_stored()  # until then its stream is not closed, and has its name
        producer.send(close_stream(producer.metadata) + (close_stream(producer.streams[0], 0) if with_data else b""))
        self.assert_codes(producer, 1 + with_data)
        if with_data:
            self.add_stream(producer)
        producer.metadata, code = producer.add_stream("metadata")
        self.assertEqual(code, OK)
        self.assertEqual(producer.code(STREAMS_SENT), OK)
        producer.send_metadata(peer.METADATA)
        producer.wait_until_stored()  # metadata has no answer, but what is asked behind it has
        later = self.viewer()
        _, streams = later.attach(producer.session)
        self.assertEqual([is_metadata for *_, is_metadata in streams], [1, 0, 0] if with_data else [1, 0])
        self.assertEqual(len({trace for _, trace, _ in streams}), 1)
        self.assertEqual(later.read_metadata(), peer.METADATA)
        self.assertEqual(producer.push([(2, 1)]), OK)
        self.assertEqual(later.read_packets(producer.streams[0], 1 if with_data else 2)[-1], (2, 1))
        producer.finish()

    def test_viewer_that_comes_later(self):
        self.start()
        for with_data in (False, True):
            for read in (False, True):
                with self.subTest(with_data=with_data, read=read):
                    self.check(with_data, read)
        self.stop()

    def test_babeltrace2_goes_on_with_another_trace(self):
        for closes_metadata in (False, True):
            with self.subTest(closes_metadata=closes_metadata):
                self.check_babeltrace2(closes_metadata)

    def check_babeltrace2(self, closes_metadata):
        self.start(f"output-{closes_metadata}")
        producer = self.producer(session="night")
        shown = self.directory / f"shown-{closes_metadata}"
        with open(shown, "wb") as output:
            url = f"net://{self.relay.address}:{self.relay.live}/host/host/night"
            viewer = subprocess.Popen(["babeltrace2", url], stdout=output, stderr=subprocess.PIPE, text=True)
        self.addCleanup(viewer.communicate)
        self.addCleanup(viewer.kill)
        probe = self.viewer()
        wait_until(lambda: probe.clients().get("night") == 1, "babeltrace2 attaches")
        for round_number in range(2):
            # It reads from now on: a packet is sent when it has had the time to ask for the first.
            wait_until(lambda: self.pushed_is_shown(producer, shown, round_number), "babeltrace2 goes on")
            producer.wait_until_stored()
            stream, = producer.streams
            producer.send(close_stream(stream, producer.numbers[stream] - 1))
            self.assert_codes(producer, 1)
            if round_number == 1:
                break
            if closes_metadata:
                producer.send(close_stream(producer.metadata))
                self.assert_codes(producer, 1)
            time.sleep(0.5)  # moment: it hears of the end
            if closes_metadata:
                producer.metadata, _ = producer.add_stream("metadata")
                producer.send_metadata(peer.METADATA)
            self.add_stream(producer)
            self.assertEqual(producer.code(STREAMS_SENT), OK)
        producer.close()
        self.stop()

    def pushed_is_shown(self, producer, shown, round_number):
        stream, = producer.streams
        number = 1000 * round_number + producer.numbers[stream]
        self.assertEqual(producer.push([(number + 1, number)]), OK)
        time.sleep(0.1)  # moment: asks again
        return any(f"n = {n} " in shown.read_text() for n in range(1000 * round_number, number + 1))


class Lies(SequenceTest):
    def test_index_that_says_more_than_its_data_has(self):
        """That packet is lost, but no connection is."""
        self.start()
        producer = self.producer()
        stream, = producer.streams
        viewer = self.viewer()
        viewer.attach(producer.session)
        viewer.read_metadata()
        for number in range(2):
            producer.data_link.send(data_message(stream, number, packet_of([(number + 1, number)], number), 4096))
            self.assertEqual(producer.code(SEND_INDEX, index_payload(stream, number, [(number + 1, number)], size=MIB)), OK)
        producer.numbers[stream] = 2
        self.assertEqual(producer.push([(3, 2)]), OK)
        self.assertEqual(viewer.read_packets(stream, 1), [(3, 2)])
        producer.finish()
        self.stop()
        path, = self.output.rglob("channel_0.idx")
        offsets = [entry[0] for entry in INDEX_ENTRY.iter_unpack(path.read_bytes()[INDEX_HEADER:])]
        self.assertEqual(offsets, [LOST, LOST, 2 * 4096])
        self.assertEqual(self.relay.log.count("by its index"), 1, self.relay.log)


class Names(SequenceTest):
    def setUp(self):
        super().setUp()
        self.start_with_files(12288)

    def add_metadata(self, producer, paths):
        payloads = [peer.add_stream_payload("metadata", path=path) for path in paths]
        producer.send(b"".join(control_message(ADD_STREAM, payload) for payload in payloads))
        self.assertEqual({struct.unpack(">QI", producer.receive(12))[1] for _ in paths}, {OK})

    def user_seconds(self):
        return int(fields_of(self.relay.process.pid)[11]) / os.sysconf("SC_CLK_TCK")

    def seconds_for(self, producer, paths):
        before = self.user_seconds()
        self.add_metadata(producer, paths)
        return self.user_seconds() - before

    @outside_gate("it measures how long the relay computes")
    def test_traces_inside_of_traces(self):
        """Finding a place beside a hundred others costs as much as beside none, however many traces there are."""
        producer = self.producer_without_streams()
        self.add_metadata(producer, [f"q/{n}" for n in range(1000)])
        self.add_metadata(producer, ["p/x" + n * "-2" for n in range(110)])
        beside_none = self.seconds_for(producer, [f"r/{n}" for n in range(100)])
        beside_all = self.seconds_for(producer, [f"p/x/y{n}" for n in range(100)])
        places = {path.name: path.parent for path in self.output.rglob("y*")}
        self.assertEqual(set(places), {f"y{n}" for n in range(100)})
        self.assertEqual({path.name for path in places.values()}, {"x" + 110 * "-2"})
        self.assertLess(beside_all, 4 * beside_none + 0.05)
        self.stop()

    def test_rolled_file_that_has_another_streams_name(self):
        producer = self.producer_without_streams()
        rolled, code = producer.add_stream("s_1", file_size=4096)
        self.assertEqual(code, OK)
        other, code = producer.add_stream("s_1_1")
        self.assertEqual(code, OK)
        producer.metadata, code = producer.add_stream("metadata")
        self.assertEqual(code, OK)
        self.assertEqual(producer.code(STREAMS_SENT), OK)
        producer.send_metadata(peer.METADATA)
        producer.data_link = self.opened(Link(self.relay.data))
        producer.streams, producer.numbers = [rolled, other], {rolled: 0, other: 0}
        for n, cpu in enumerate([1, 0, 0, 0, 1]):
            self.assertEqual(producer.push([(n + 1, n)], cpu=cpu), OK)
        producer.finish()
        self.stop()
        self.assertEqual(self.events(), list(range(5)))


class LockedSession:
    """One stream has indexes without data, another has data without indexes. Each connection waits for the other, so
    the relay reads neither. Then the peer leaves."""

    def __init__(self, more, stays):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="leat-interop-"))
        unittest.addModuleCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.relay = LeatRelay(self.directory / "output")
        unittest.addModuleCleanup(self.relay.kill)
        producer = Producer(self.relay).start(cpus=2)
        count = WAITING + more
        producer.data_link.send(b"".join(data_message(producer.streams[0], n, b"x", 1) for n in range(count)))
        producer.send(b"".join(index_message(producer.streams[1], n, [(n + 1, n)]) for n in range(count)))
        self.answers = producer.receive(4 * WAITING)
        if stays:
            unittest.addModuleCleanup(producer.close)
        else:
            producer.close()


def setUpModule():
    if not IS_WHOLE:
        return
    # The relay waits a while before it gives such a session up. The other tests run in this time.
    Waiting.locked = {
        # The rest fits into the relay's sockets, so it sees the end of the connections.
        "gone": LockedSession(20, stays=False),
        # The rest does not fit, and the end comes after it.
        "gone behind much": LockedSession(8000, stays=False),
        "there": LockedSession(20, stays=True),
    }


@outside_gate("the relay waits a while before it gives such a session up")
class Waiting(unittest.TestCase):
    def test_connections_that_wait_for_one_another(self):
        for name, locked in self.locked.items():
            with self.subTest(peer=name):
                viewer = Viewer(locked.relay)
                self.addCleanup(viewer.close)
                if name == "there":
                    wait_until(lambda locked=locked: "in another" in locked.relay.log_so_far(),
                               "the end of a connection")
                else:
                    wait_until(lambda viewer=viewer: not viewer.list(), "the end of the session")
                self.assertEqual(locked.answers, struct.pack(">I", OK) * WAITING)
                self.assertEqual(locked.relay.stop(), 0, locked.relay.log)


if __name__ == "__main__":
    enter_user_namespace()
    main()
