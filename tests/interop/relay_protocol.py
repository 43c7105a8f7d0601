#!/usr/bin/env python3
"""Every version of the ingest protocol, from 2.1 to 2.13, and what its commands promise. Viewers that attach late or
are killed. The relay's memory after much data and many sessions."""
import os
import re
import signal
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import relay_peer as peer  # noqa: E402
from relay_hostile import RelayTest, ticks  # noqa: E402
from relay_peer import METADATA, OK, Link, Producer  # noqa: E402
from support import LEAT, PATIENCE, main, outside_gate, stop_process, wait_until, without_sanitizers  # noqa: E402

OLDEST_SERVED, NEWEST = 4, 13  # before 2.4, producers did not state a session's name
MOST_MEMORY = 32  # MiB


class ProducerOf(Producer):
    """A producer that speaks 2.MINOR, with the commands and layouts of that version."""

    def __init__(self, relay, minor):
        super().__init__(relay)
        self.minor = minor

    def start(self, session, metadata=METADATA):
        assert self.greet(self.minor) == (2, NEWEST)
        name = session
        self.session, code = self.create_session(name)
        assert code == OK, code
        Producer.started[self.relay.live, self.session] = self
        if self.minor >= 11:
            assert self.code(peer.CREATE_TRACE_CHUNK, struct.pack(">QQI", 0, 1_600_000_000, 0)) == OK
        path = "ust/uid/0/64-bit" if self.minor >= 11 else f"/host/{name}-20200101-101010/ust/uid/0/64-bit"
        for channel in ("channel_0", "metadata"):
            handle, code = self.add_stream(channel, path)
            assert code == OK, code
            if channel == "metadata":
                self.metadata = handle
            else:
                self.streams.append(handle)
                self.numbers[handle] = 0
        assert self.code(peer.STREAMS_SENT) == OK
        self.send_metadata(metadata)
        self.data_link = Link(self.relay.data, self.relay.address)
        return self

    def create_session(self, name):
        """(id, code)"""
        if self.minor >= 11:
            return self.create(session=name)[:2]
        fixed = name.encode().ljust(255, b"\0") + b"host".ljust(64, b"\0") + struct.pack(">II", 1_000_000, 0)
        return struct.unpack(">QI", self.ask(peer.CREATE_SESSION, fixed if self.minor >= 4 else b"", 12))

    def add_stream(self, channel, path):
        if self.minor >= 11:
            return super().add_stream(channel, path=path)
        fixed = channel.encode().ljust(264, b"\0") + path.encode().ljust(4096, b"\0") + struct.pack(">QQ", 0, 0)
        return struct.unpack(">QI", self.ask(peer.ADD_STREAM, fixed, 12))

    def push(self, events, cpu=0, size=4096):
        stream = self.streams[cpu]
        number = self.numbers[stream]
        self.numbers[stream] += 1
        self.data_link.send(peer.data_message(stream, number, peer.packet_of(events, number, cpu, size), size))
        index = peer.index_payload(stream, number, events, cpu, size)
        return self.code(peer.SEND_INDEX, index if self.minor >= 8 else index[:-16])


class Versions(RelayTest):
    def producer_of(self, minor):
        producer = ProducerOf(self.relay, minor)
        self.addCleanup(producer.close)
        return producer

    def test_each_that_names_its_sessions_is_stored_and_shown(self):
        for minor in range(OLDEST_SERVED, NEWEST + 1):
            with self.subTest(minor=minor):
                producer = self.producer_of(minor).start(f"minor-{minor}")
                viewer = self.viewer()
                self.assertEqual(viewer.attach(producer.session)[0], 1)
                for first in (1, 4, 7):
                    self.assertEqual(producer.push(ticks(first, 3)), OK)
                self.assertEqual(viewer.read_packets(producer.streams[0], 3), ticks(1, 9))
                producer.finish()
                trace, = [path for path in self.traces() if path.is_relative_to(self.output / "host") and
                          f"minor-{minor}-" in str(path)]
                self.assertEqual(self.read_events(trace), (list(range(1, 10)), ""))
        self.stop_relay()

    def test_those_before_are_told_and_no_harm_is_done(self):
        for minor in range(1, OLDEST_SERVED):
            with self.subTest(minor=minor):
                producer = self.producer_of(minor)
                self.assertEqual(producer.greet(minor), (2, NEWEST))
                self.assertNotEqual(producer.create_session("")[1], OK)
        self.assert_serves()
        self.stop_relay()
        self.assertEqual(len(re.findall("do not name their sessions", self.relay.log)), OLDEST_SERVED - 1, self.relay.log)

    def test_a_later_one_is_spoken_to_as_we_can(self):
        producer = self.producer_of(NEWEST)
        producer.minor = NEWEST + 1
        producer.start("later")
        self.assertEqual(producer.push(ticks(1, 3)), OK)
        producer.finish()
        self.stop_relay()


class ResetMetadata(RelayTest):
    OTHER = METADATA.replace(b'name = "tick"', b'name = "tock"')

    def test_metadata_begin_anew(self):
        producer = self.producer(live_timer=0, metadata=self.OTHER + b"/* half of what is to be forgott")
        self.assertEqual(producer.push(ticks(1, 3)), OK)
        self.assertEqual(producer.code(peer.RESET_METADATA, struct.pack(">QQ", producer.metadata, 1)), OK)
        producer.send_metadata(METADATA)
        self.assertEqual(producer.push(ticks(4, 3)), OK)
        producer.finish()
        trace, = self.traces()
        self.assertEqual((trace / "metadata").read_bytes(), METADATA)
        self.assertEqual(self.read_events(trace), ([1, 2, 3, 4, 5, 6], ""))
        self.stop_relay()

    def test_refused_where_it_may_not_be(self):
        producer = self.producer(session="live", live_timer=1_000_000)
        viewer = self.viewer()
        self.assertEqual(viewer.attach(producer.session)[0], 1)
        self.assertNotEqual(producer.code(peer.RESET_METADATA, struct.pack(">QQ", producer.metadata, 1)), OK)
        self.assertEqual(viewer.read_metadata(), METADATA)
        neighbour = self.producer(session="neighbour", live_timer=0)
        for of_whom in ("somebody else", "a data stream", "nobody"):
            other = self.producer(session="other", live_timer=0)
            stream = {"somebody else": neighbour.metadata, "a data stream": other.streams[0], "nobody": 2 ** 64 - 1}[of_whom]
            with self.subTest(stream=of_whom):
                self.assertNotEqual(other.code(peer.RESET_METADATA, struct.pack(">QQ", stream, 1)), OK)
        neighbour.finish()
        self.stop_relay()
        self.assertEqual([(trace / "metadata").read_bytes() for trace in self.traces()], [METADATA] * 5)


class Watching(RelayTest):
    def setUp(self):
        super().setUp()
        self.lister = self.viewer()

    def watch(self, producer, *options):
        """Starts `leat view` and waits until it has attached. Returns it and the file that it prints into."""
        [name] = [name for name, session in self.lister.list().items() if session == producer.session]
        before = self.lister.clients()[name]
        printed = self.directory / f"printed-{before}"
        with open(printed, "w", encoding="ascii") as output:
            process = subprocess.Popen([LEAT, "view", *options, f"net://127.0.0.1:{self.relay.live}/host/host/{name}"],
                                       stdout=output, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        wait_until(lambda: self.lister.clients()[name] == before + 1, "the viewer is attached")
        return process, printed

    def numbers(self, printed):
        return [int(n) for n in re.findall(r"n = (\d+) \}", printed.read_text())]

    def finished(self, process, printed):
        self.assertEqual((process.wait(PATIENCE), process.stderr.read()), (0, ""))
        return self.numbers(printed)

    def test_list_that_nobody_reads(self):
        """It ends as other tools do, by SIGPIPE, however long the list is."""
        for number in range(40):
            producer = Producer(self.relay)
            self.addCleanup(producer.close)
            producer.greet()
            self.assertEqual(producer.create(session=f"{number:0200}")[1], OK)
        reader, writer = os.pipe()
        os.close(reader)
        self.addCleanup(os.close, writer)
        for options in ((), ("--format=json",)):
            ended = subprocess.run([LEAT, "view", *options, f"net://127.0.0.1:{self.relay.live}"], stdout=writer,
                                   stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
            self.assertEqual((ended.returncode, ended.stderr), (-signal.SIGPIPE, b""))

    def test_from_now_shows_what_comes_and_from_the_start_all(self):
        producer = self.producer(session="watched")
        for first in (1, 4):
            self.assertEqual(producer.push(ticks(first, 3)), OK)
        producer.wait_until_stored()
        from_now = self.watch(producer, "--from", "now")
        from_start = self.watch(producer)
        by_hand = self.viewer()
        self.assertEqual(by_hand.attach(producer.session, seek=2)[0], 1)
        for first in (7, 10):
            self.assertEqual(producer.push(ticks(first, 3)), OK)
        self.assertEqual(by_hand.read_packets(producer.streams[0], 2), ticks(7, 6))
        producer.finish()
        self.assertEqual(self.finished(*from_now), list(range(7, 13)))
        self.assertEqual(self.finished(*from_start), list(range(1, 13)))
        self.stop_relay()

    def test_killed_viewer_harms_nobody(self):
        producer = self.producer(session="watched")
        viewers = [self.watch(producer) for _ in range(3)]
        self.assertEqual(producer.push(ticks(1, 3)), OK)
        # A beacon: viewers need not wait for anything older.
        self.assertEqual(producer.code(peer.SEND_INDEX, struct.pack(">10Q", producer.streams[0], 2 ** 64 - 1, 0, 0, 0, 1000,
                                                                    0, 0, 0, 0)), OK)
        for _, printed in viewers:
            wait_until(lambda printed=printed: len(self.numbers(printed)) == 3, "the first events are shown")
        # One viewer waits for news, the other has not read what it was sent.
        viewers[0][0].kill()
        stop_process(viewers[1][0].pid)
        for first in range(200, 500, 3):
            self.assertEqual(producer.push(ticks(first, 3), size=64 << 10), OK)
        viewers[1][0].kill()
        for killed in viewers[:2]:
            self.assertEqual(killed[0].wait(PATIENCE), -signal.SIGKILL)
        wait_until(lambda: self.lister.clients()["watched"] == 1, "the relay sees that they are gone")
        self.assertEqual(producer.push(ticks(500, 3)), OK)
        producer.finish()
        self.assertEqual(self.finished(*viewers[2]), [1, 2, 3, *range(200, 503)])
        self.assertEqual(self.read_events(self.traces()[0])[0], [1, 2, 3, *range(200, 503)])
        self.stop_relay()


@outside_gate("it measures memory, which depends on the machine")
@without_sanitizers  # they need more memory, and keep what is freed
class Memory(RelayTest):
    SESSIONS, STREAMS, PACKETS, SIZE = 120, 4, 4, 128 << 10  # 250 MB in all

    def most_memory(self):
        """The most memory that the relay ever had, in MiB."""
        with open(f"/proc/{self.relay.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) / 1024

    def test_after_many_sessions_and_much_data(self):
        kept = []
        for number in range(self.SESSIONS):
            # Each stream keeps only its newest file, so that all of it fits on small disks.
            producer = self.producer(session=f"s{number}", cpus=self.STREAMS, file_size=2 * self.SIZE, file_count=1)
            viewer = self.viewer()
            self.assertEqual(viewer.attach(producer.session)[0], 1)
            for packet in range(self.PACKETS):
                for cpu in range(self.STREAMS):
                    self.assertEqual(producer.push(ticks(packet * 3 + 1, 3), cpu, self.SIZE), OK)
            self.assertEqual(len(viewer.read_metadata()), len(METADATA))
            # Some sessions stay until all others have come.
            if number % 5 == 0:
                kept.append(producer)
            else:
                producer.finish()
                viewer.close()
        self.assertLess(self.most_memory(), MOST_MEMORY)
        for producer in kept:
            producer.finish()
        self.assertLess(self.most_memory(), MOST_MEMORY)
        self.stop_relay()


if __name__ == "__main__":
    main()
