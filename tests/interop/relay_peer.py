"""A producer and a viewer written from the protocols alone. They use none of Leat's encoders."""
import select
import socket
import struct
import time
import uuid

from support import PATIENCE

ADD_STREAM, CREATE_SESSION, VERSION, SEND_METADATA, CLOSE_STREAM = 1, 2, 5, 6, 7
DATA_PENDING, QUIESCENT_CONTROL, END_DATA_PENDING, SEND_INDEX = 8, 9, 11, 13
STREAMS_SENT, RESET_METADATA, ROTATE_STREAMS = 16, 17, 18
CREATE_TRACE_CHUNK, CLOSE_TRACE_CHUNK, TRACE_CHUNK_EXISTS, GET_CONFIGURATION = 19, 20, 21, 22
OK, REFUSED = 10, 11
MOVE_CHUNK, DELETE_CHUNK = 0, 2
CONNECT, LIST_SESSIONS, ATTACH_SESSION, GET_NEXT_INDEX, GET_PACKET = 1, 2, 3, 4, 5
GET_METADATA, GET_NEW_STREAMS, VIEWER_CREATE_SESSION, DETACH_SESSION = 6, 7, 8, 9
NO_PACKET = 2 ** 64 - 1

METADATA = """/* CTF 1.8 */
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
clock { name = monotonic; freq = 1000000000; offset = 1600000000000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := time;
stream {
    id = 0;
    packet.context := struct { time timestamp_begin; time timestamp_end; u64 content_size; u64 packet_size;
                               u64 packet_seq_num; u64 events_discarded; u32 cpu_id; };
    event.header := struct { time timestamp; };
};
event { name = "tick"; id = 0; stream_id = 0; fields := struct { u64 n; }; };
""".encode()
HEADER = struct.Struct("<II6QI")
RECORD = struct.Struct("<QQ")


class Closed(Exception):
    """The relay has closed the connection."""


class Link:
    """One connection."""

    def __init__(self, port, address="127.0.0.1", source=None):
        source_address = (source, 0) if source else None
        self.socket = socket.create_connection((address, port), timeout=PATIENCE, source_address=source_address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def receive(self, size):
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionResetError as error:
                raise Closed from error
            if not part:
                raise Closed(f"after {len(data)} bytes of {size}")
            data += part
        return data

    def is_closed(self, within=PATIENCE):
        """Whether the relay ends this connection in that time, without sending another byte."""
        ready, _, _ = select.select([self.socket], [], [], within)
        try:
            return bool(ready) and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def control_message(command, payload=b""):
    return struct.pack(">QQII", 0, len(payload), command, 0) + payload


def name(text):
    return text if isinstance(text, bytes) else text.encode() + b"\0"


def create_session_payload(session="night", host="host", base_path="", live_timer=1_000_000, session_uuid=None,
                           lengths=None):
    names = [name(text) for text in (session, host, base_path)]
    fixed = struct.pack(">3II", *(lengths or [len(text) for text in names]), live_timer)
    fixed += struct.pack(">BB16sQQBQ", 0, 0, session_uuid or uuid.uuid4().bytes, 1, 1_600_000_000, 0, 0)
    return fixed + b"".join(names)


def add_stream_payload(channel, path="ust/uid/0/64-bit", file_size=0, file_count=0, chunk=0, lengths=None):
    names = [name(channel), name(path)]
    return struct.pack(">IIQQQ", *(lengths or [len(text) for text in names]), file_size, file_count,
                       chunk) + b"".join(names)


def packet_of(events, number, cpu=0, size=4096):
    """A CTF packet of (time, n)."""
    content = HEADER.size + len(events) * RECORD.size
    begin, end = (events[0][0], events[-1][0]) if events else (0, 0)
    data = HEADER.pack(0xC1FC1FC1, 0, begin, end, content * 8, size * 8, number, 0, cpu)
    return data + b"".join(RECORD.pack(*event) for event in events)


def events_in(packet):
    fields = HEADER.unpack_from(packet)
    return [RECORD.unpack_from(packet, at) for at in range(HEADER.size, fields[4] // 8, RECORD.size)]


def index_payload(stream, number, events, cpu=0, size=4096):
    content = HEADER.size + len(events) * RECORD.size
    return struct.pack(">10Q", stream, number, size * 8, content * 8, events[0][0], events[-1][0], 0, 0, cpu, number)


def data_message(stream, number, data, size=4096):
    return struct.pack(">QQQII", 0, stream, number, len(data), size - len(data)) + data


class Producer(Link):
    """A session on the tracing side, with `cpus` data streams and a metadata stream."""
    started = {}  # (relay's port for viewers, session): producer

    def __init__(self, relay, source=None):
        super().__init__(relay.control, relay.address, source)
        self.relay = relay
        self.data_link = None
        self.streams = []
        self.metadata = None
        self.numbers = {}

    def close(self):
        super().close()
        if self.data_link:
            self.data_link.close()

    def ask(self, command, payload=b"", reply=4):
        self.send(control_message(command, payload))
        return self.receive(reply)

    def code(self, command, payload=b""):
        return struct.unpack(">I", self.ask(command, payload))[0]

    def greet(self, minor=13):
        return struct.unpack(">II", self.ask(VERSION, struct.pack(">II", 2, minor), 8))

    def create(self, **arguments):
        """(id, code, path)"""
        session, code, length = struct.unpack(">QII", self.ask(CREATE_SESSION, create_session_payload(**arguments), 16))
        return session, code, self.receive(length).rstrip(b"\0").decode()

    def add_stream(self, channel, **arguments):
        """(handle, code)"""
        return struct.unpack(">QI", self.ask(ADD_STREAM, add_stream_payload(channel, **arguments), 12))

    def start(self, cpus=1, metadata=METADATA, file_size=0, file_count=0, **arguments):
        self.greet()
        self.session, code, self.path = self.create(**arguments)
        assert code == OK, code
        Producer.started[self.relay.live, self.session] = self
        assert self.code(CREATE_TRACE_CHUNK, struct.pack(">QQI", 0, 1_600_000_000, 0)) == OK
        for cpu in range(cpus):
            handle, code = self.add_stream(f"channel_{cpu}", file_size=file_size, file_count=file_count)
            assert code == OK, code
            self.streams.append(handle)
            self.numbers[handle] = 0
        self.metadata, code = self.add_stream("metadata")
        assert code == OK, code
        assert self.code(STREAMS_SENT) == OK
        self.send_metadata(metadata)
        self.data_link = Link(self.relay.data, self.relay.address)
        return self

    def send_metadata(self, text):
        self.send(control_message(SEND_METADATA, struct.pack(">QI", self.metadata, 0) + text))

    def rotate(self, chunk, ahead=0):
        """Everything goes on in this chunk, whose metadata is still to be sent, and the data after so many more packets."""
        assert self.code(CREATE_TRACE_CHUNK, struct.pack(">QQI", chunk, 1_600_000_000 + chunk, 0)) == OK
        positions = [(self.metadata, 0), *((stream, number + ahead) for stream, number in self.numbers.items())]
        payload = struct.pack(">IB7xQ", len(positions), 1, chunk) + b"".join(struct.pack(">QQ", *at) for at in positions)
        assert self.code(ROTATE_STREAMS, payload) == OK

    def close_chunk(self, chunk, what_becomes_of_it):
        payload = struct.pack(">QQBI", chunk, 1_600_000_000 + chunk, 1, what_becomes_of_it)
        code, length = struct.unpack(">II", self.ask(CLOSE_TRACE_CHUNK, payload, 8))
        assert code == OK, code
        self.receive(length)

    def push(self, events, cpu=0, size=4096):
        """Sends a packet and its index."""
        stream = self.streams[cpu]
        number = self.numbers[stream]
        self.numbers[stream] += 1
        self.data_link.send(data_message(stream, number, packet_of(events, number, cpu, size), size))
        return self.code(SEND_INDEX, index_payload(stream, number, events, cpu, size))

    def wait_until_stored(self):
        deadline = time.monotonic() + PATIENCE  # moment: patience
        for stream, count in self.numbers.items():
            last = (count - 1) % 2 ** 64
            while self.code(DATA_PENDING, struct.pack(">QQ", stream, last)) != 0:
                assert time.monotonic() < deadline, "the relay does not come to its end"  # moment: patience
                time.sleep(0.005)  # moment: asks again

    def finish(self):
        self.wait_until_stored()
        for stream in [self.metadata, *self.streams]:
            last = (self.numbers.get(stream, 0) - 1) % 2 ** 64
            assert self.code(CLOSE_STREAM, struct.pack(">QQ", stream, last)) == OK
        self.close()


def viewer_message(command, payload=b""):
    return struct.pack(">QII", len(payload), command, 0) + payload


class Viewer(Link):
    """A viewer. Viewers know streams by other ids than producers do; here either id names a stream."""

    def __init__(self, relay, connect=True):
        super().__init__(relay.live, relay.address)
        self.relay = relay
        self.metadata_streams = []
        self.ids = {}  # by the producer's handle
        if connect:
            self.ask(CONNECT, struct.pack(">QIII", NO_PACKET, 2, 4, 1), 20)
            assert self.ask(VIEWER_CREATE_SESSION) == b"\0\0\0\1"

    def ask(self, command, payload=b"", reply=4):
        self.send(viewer_message(command, payload))
        return self.receive(reply)

    def _list(self):
        count, = struct.unpack(">I", self.ask(LIST_SESSIONS))
        return [struct.unpack(">QIII64s255s", self.receive(339)) for _ in range(count)]

    def list(self):
        """{name: id}"""
        return {entry[5].rstrip(b"\0").decode(): entry[0] for entry in self._list()}

    def clients(self):
        """{name: number of viewers that have attached}"""
        return {entry[5].rstrip(b"\0").decode(): entry[2] for entry in self._list()}

    def _streams(self, session, reply):
        """(status, [(id, trace, is metadata)])"""
        status, count = struct.unpack(">II", reply)
        streams = []
        producer = Producer.started.get((self.relay.live, session))
        for _ in range(count):
            descriptor = self.receive(4371)
            streams.append(struct.unpack(">QQI", descriptor[:20]))
            channel = descriptor[20 + 4096:].rstrip(b"\0").decode()
            if producer and channel == "metadata":
                self.ids[producer.metadata] = streams[-1][0]
            elif producer and channel.startswith("channel_") and int(channel[8:]) < len(producer.streams):
                self.ids[producer.streams[int(channel[8:])]] = streams[-1][0]
        return status, streams

    def attach(self, session, seek=1):
        status, streams = self._streams(session, self.ask(ATTACH_SESSION, struct.pack(">QQI", session, 0, seek), 8))
        self.metadata_streams += [stream for stream, _, is_metadata in streams if is_metadata]
        return status, streams

    def new_streams(self, session):
        return self._streams(session, self.ask(GET_NEW_STREAMS, struct.pack(">Q", session), 8))

    def index(self, stream):
        """(offset, packet size, content size, begin, end, discarded, class, status, flags)"""
        return struct.unpack(">7QII", self.ask(GET_NEXT_INDEX, struct.pack(">Q", self.ids.get(stream, stream)), 64))

    def packet(self, stream, offset, size):
        """(status, flags, bytes)"""
        request = struct.pack(">QQI", self.ids.get(stream, stream), offset, size)
        status, length, flags = struct.unpack(">III", self.ask(GET_PACKET, request, 12))
        return status, flags, self.receive(length)

    def metadata(self, stream):
        """(status, bytes)"""
        length, status = struct.unpack(">QI", self.ask(GET_METADATA, struct.pack(">Q", self.ids.get(stream, stream)), 12))
        return status, self.receive(length)

    def detach(self, session):
        return struct.unpack(">I", self.ask(DETACH_SESSION, struct.pack(">Q", session)))[0]

    def read_metadata(self):
        """Everything new from all traces."""
        return b"".join(self._metadata_of(stream) for stream in self.metadata_streams)

    def _metadata_of(self, stream):
        text = b""
        while True:
            status, part = self.metadata(stream)
            if status != 1:
                return text
            text += part

    def read_packets(self, stream, count):
        """The events of the next packets. Waits as long as it takes until they come."""
        events = []
        deadline = time.monotonic() + PATIENCE  # moment: patience
        while count > 0:
            offset, size, *_, status, flags = self.index(stream)
            assert status in (1, 2, 5), f"index status {status}, {count} packets before the end"
            if flags & 1:
                self.read_metadata()
            if status == 1:
                status, _, data = self.packet(stream, offset, size // 8)
                assert status == 1, f"packet status {status}"
                assert len(data) == size // 8
                events += events_in(data)
                count -= 1
            else:
                assert time.monotonic() < deadline, "the relay does not show what it has"  # moment: patience
                time.sleep(0.005)  # moment: asks again
        return events
