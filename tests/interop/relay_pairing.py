#!/usr/bin/env python3
"""Data and indexes that do not match, from leat-relayd's producers: gaps, repetitions, and one far ahead of the
other."""
import struct
import threading

from relay_peer import CLOSE_STREAM, OK, SEND_INDEX, Producer, control_message, data_message, index_payload, packet_of
from relays import LeatRelay
from support import InteropTest, main

SIZE = 128  # bytes of a packet
INDEX_HEADER, INDEX_ENTRY = 16, struct.Struct(">9Q")
LOST = 2 ** 64 - 1
WAITING = 4096  # the most that wait for their other half
LISTED = 4096  # the most lost packets that a stream lists
LISTED_PER_PACKET = 16  # how many more for each packet that comes


class Pairing(InteropTest):
    def setUp(self):
        super().setUp()
        self.relay = LeatRelay(self.directory / "relay")
        self.addCleanup(self.relay.kill)
        self.producer = Producer(self.relay).start(cpus=2)
        self.addCleanup(self.producer.close)
        self.stream, _ = self.producer.streams

    def data(self, number):
        return data_message(self.stream, number, packet_of([(number % 2 ** 32, number)], number, size=SIZE), SIZE)

    def index(self, number):
        return index_payload(self.stream, number, [(number % 2 ** 32, number)], size=SIZE)

    def send_data(self, *numbers):
        self.producer.data_link.send(b"".join(map(self.data, numbers)))

    def send_indexes(self, *numbers):
        self.producer.send(b"".join(control_message(SEND_INDEX, self.index(number)) for number in numbers))

    def send_beside(self, send, count):
        """The relay takes so much, then the system's buffers do. The rest waits in a thread."""
        sender = threading.Thread(target=send, args=range(count))
        sender.start()
        self.addCleanup(sender.join)

    def wait_until_stored(self, count):
        """Data has a connection of its own, and may come after all answers."""
        self.producer.numbers[self.stream] = count
        self.producer.wait_until_stored()

    def codes(self, count):
        return set(struct.unpack(f">{count}I", self.producer.receive(4 * count)))

    def finish(self, last):
        self.assertEqual(self.producer.code(CLOSE_STREAM, struct.pack(">QQ", self.stream, last)), OK)
        self.producer.close()
        self.assertEqual(self.relay.stop(), 0)

    def offsets(self):
        path, = (self.directory / "relay").rglob("channel_0.idx")
        return [entry[0] for entry in INDEX_ENTRY.iter_unpack(path.read_bytes()[INDEX_HEADER:])]

    def test_indexes_far_ahead_of_data(self):
        count = 2 * WAITING
        self.send_beside(self.send_indexes, count)
        self.assertEqual(self.codes(WAITING), {OK})
        self.send_data(*range(count))
        self.assertEqual(self.codes(count - WAITING), {OK})
        self.wait_until_stored(count)
        self.finish(count - 1)
        self.assertEqual(self.offsets(), [number * SIZE for number in range(count)])

    def test_data_far_ahead_of_indexes(self):
        count = 2 * WAITING
        self.send_beside(self.send_data, count)
        for begin in range(0, count, 64):
            self.send_indexes(*range(begin, begin + 64))
            self.assertEqual(self.codes(64), {OK})
        self.wait_until_stored(count)
        self.finish(count - 1)
        self.assertEqual(self.offsets(), [number * SIZE for number in range(count)])

    def test_huge_gap(self):
        numbers = [0, 1, LISTED + 100, 2 ** 40, 2 ** 40 + 1]
        for number in numbers:
            self.send_data(number)
            self.send_indexes(number)
            self.assertEqual(self.codes(1), {OK})
        self.wait_until_stored(numbers[-1] + 1)
        self.finish(numbers[-1])
        offsets = self.offsets()
        self.assertEqual([offset for offset in offsets if offset != LOST], [i * SIZE for i in range(len(numbers))])
        listed = LISTED + LISTED_PER_PACKET  # the packet between the gaps allows more for the second one
        self.assertEqual(offsets.count(LOST), listed)
        missing = (LISTED + 98) + (2 ** 40 - LISTED - 101)
        self.assertRegex(self.relay.log, rf"{missing} packets are missing, {missing - listed} of them without an entry")

    def test_producer_that_ends_between_data_and_index(self):
        """As one that is killed there. Readers of the directory find a stream that ends after the packet before."""
        self.send_data(0, 1, 2)
        self.send_indexes(0, 1)
        self.assertEqual(self.codes(2), {OK})
        self.assertEqual(self.producer.push([(1, 1)], cpu=1, size=SIZE), OK)
        self.producer.wait_until_stored()  # the other stream's packet is read after the one without index
        self.producer.close()
        self.assertEqual(self.relay.stop(), 0)
        self.assertEqual(self.offsets(), [0, SIZE])
        path, = (path for path in (self.directory / "relay").rglob("channel_0"))
        self.assertEqual(path.stat().st_size, 2 * SIZE)
        self.assertIn("before the index of its last packets came (1)", self.relay.log)

    def test_repeated_data_is_dropped(self):
        self.send_data(0)
        self.send_indexes(0)
        self.assertEqual(self.codes(1), {OK})
        self.send_data(0, 0, 1, 1, 2)
        self.send_indexes(1, 2)
        self.assertEqual(self.codes(2), {OK})
        self.wait_until_stored(3)
        self.finish(2)
        self.assertEqual(self.offsets(), [0, SIZE, 2 * SIZE])
        self.assertRegex(self.relay.log, r"its data is dropped")


if __name__ == "__main__":
    main()
