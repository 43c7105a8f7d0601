#!/usr/bin/env python3
"""Crowds at leat-relayd: silent connections, half messages, greedy viewers, a thousand producers at once. Nobody can
lock the others out, and nobody has to wait for long."""
import os
import resource
import select
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import relay_peer as peer  # noqa: E402
from relay_peer import Closed, Link, Producer, Viewer  # noqa: E402
from relays import LeatRelay  # noqa: E402
from support import SANITIZERS, InteropTest, cpu_seconds_of, lacks, main, needs, outside_gate, wait_until  # noqa: E402

# Ours, on LTTng's live protocol. (docs/formats/live.md)
ASK_CAPABILITIES, WAIT, GET_NEWS = 0x4c65617400000000, 0x4c650001, 0x4c650002
QUIESCENT_CONTROL = 9
MANY = 700  # more than there are places in total
TICKS = [(10, 1), (20, 2), (30, 3)]
CONNECT = struct.pack(">QIII", peer.NO_PACKET, 2, 4, 1)
VERSION = peer.control_message(peer.VERSION, struct.pack(">II", 2, 13))


class CrowdTest(InteropTest):
    def setUp(self):
        super().setUp()
        self.output = self.directory / "output"
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 12000:
            lacks("12000-open-files")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def start(self, *options, **arguments):
        self.relay = LeatRelay(self.output, options=options, **arguments)
        self.addCleanup(self.relay.kill)

    def link(self, port, said=b""):
        link = Link(port)
        self.addCleanup(link.close)
        if said:
            link.send(said)
        return link

    def crowd(self, port, said=b"", count=MANY):
        return [self.link(port, said) for _ in range(count)]

    def producer(self, **arguments):
        producer = Producer(self.relay)
        self.addCleanup(producer.close)
        return producer.start(**arguments)

    def viewer(self):
        viewer = Viewer(self.relay)
        self.addCleanup(viewer.close)
        return viewer

    def assert_serves(self, session="sound"):
        """Starts a producer with its data and a viewer, all on new connections."""
        producer = self.producer(session=session)
        self.assertEqual(producer.push(TICKS), peer.OK)
        viewer = self.viewer()
        status, streams = viewer.attach(producer.session)
        self.assertEqual(status, 1)
        stream = next(id for id, _, is_metadata in streams if not is_metadata)
        self.assertEqual(viewer.read_packets(stream, 1), TICKS)
        producer.finish()
        viewer.close()

    def stop(self):
        self.assertTrue(self.relay.is_alive(), "the relay is dead")
        self.assertEqual(self.relay.stop(), 0, self.relay.log)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.relay.process.pid}/fd"))

    def limit_of_files(self):
        """(soft, hard)"""
        return resource.prlimit(self.relay.process.pid, resource.RLIMIT_NOFILE)


class Strangers(CrowdTest):
    def setUp(self):
        super().setUp()
        self.start("--max-connections", "512")

    def test_silent_on_every_port(self):
        for port in (self.relay.control, self.relay.data, self.relay.live):
            self.crowd(port)
            self.assert_serves(f"after-{port}")
        self.stop()

    def test_half_said_on_every_port(self):
        header = struct.pack(">QQQII", 0, 1, 0, 4096, 0)
        for port, said in [(self.relay.control, VERSION[:10]), (self.relay.control, VERSION),
                           (self.relay.data, header[:-1]), (self.relay.live, peer.viewer_message(peer.CONNECT)),
                           (self.relay.live, b"\0")]:
            self.crowd(port, said)
            self.assert_serves(f"after-{port}-{len(said)}")
        self.stop()

    def test_crowd_costs_a_bounded_number_of_descriptors(self):
        before = self.descriptors()
        for port in (self.relay.control, self.relay.data, self.relay.live):
            self.crowd(port)
        self.assert_serves()
        # One peer has at most three quarters of each port's share.
        wait_until(lambda: self.descriptors() - before <= 512 * 3 // 4 + 8, "too many strangers stay")
        self.stop()

    def test_who_is_served_is_not_dropped_for_newcomers(self):
        producer = self.producer(session="served")
        viewer = self.viewer()
        status, streams = viewer.attach(producer.session)
        self.assertEqual(status, 1)
        for port in (self.relay.control, self.relay.data, self.relay.live):
            self.crowd(port)
        self.assert_serves("newcomer")
        # The data connection has been silent until now.
        self.assertEqual(producer.push(TICKS), peer.OK)
        stream = next(id for id, _, is_metadata in streams if not is_metadata)
        self.assertEqual(viewer.read_packets(stream, 1), TICKS)
        producer.finish()
        self.stop()

    def test_viewers_that_stay_leave_producers_their_places(self):
        """Viewers that have sent CONNECT do not get more places: a stranger can send it quickly."""
        for _ in range(MANY):
            link = self.link(self.relay.live, peer.viewer_message(peer.CONNECT, CONNECT))
            try:
                link.receive(20)
            except Closed:
                break
        else:
            self.fail("viewers without end")
        producer = self.producer(session="served")
        self.assertEqual(producer.push(TICKS), peer.OK)
        producer.finish()
        self.stop()
        self.assertRegex(self.relay.log, "127.0.0.1 has 96 connections to the live port, as many as a peer may")
        self.assertLess(len(self.relay.log.splitlines()), 20)


@outside_gate("whoever is not useful within a second goes")
class Deadlines(CrowdTest):
    TIMEOUT = 3 if SANITIZERS else 1  # s; must be enough for useful peers, even on a busy machine

    def setUp(self):
        super().setUp()
        self.start("--handshake-timeout", str(self.TIMEOUT))

    def test_who_says_nothing_useful_goes(self):
        header = struct.pack(">QQQII", 0, 1, 0, 4096, 0)
        links = [self.link(port, said) for port, said in [
            (self.relay.control, b""), (self.relay.control, VERSION[:10]), (self.relay.data, b""),
            (self.relay.data, header[:-1]), (self.relay.live, b""), (self.relay.live, b"\0")]]
        greeted = self.link(self.relay.control, VERSION)
        self.assertEqual(len(greeted.receive(8)), 8)
        for link in [*links, greeted]:
            self.assertTrue(link.is_closed())
        self.stop()

    def test_version_again_and_again_is_not_useful(self):
        link = self.link(self.relay.control)
        said = 0
        try:
            while said < 200:
                link.send(peer.control_message(peer.GET_CONFIGURATION if said else peer.VERSION,
                                               struct.pack(">Q", 0) if said else struct.pack(">II", 2, 13)))
                link.receive(12 if said else 8)
                said += 1
                time.sleep(0.1)
            self.fail("it may stay for ever")
        except Closed:
            self.assertGreater(said, 2)
        self.stop()

    def test_data_connection_of_a_session_may_be_silent(self):
        """LTTng's producers open the data connection together with the session, and the first packet may come hours
        later."""
        for _ in range(2):
            self.assertTrue(self.link(self.relay.data).is_closed())
        producer = self.producer(session="quiet")
        for link in [self.link(self.relay.data) for _ in range(3)]:
            self.assertTrue(link.is_closed())
        for _ in range(2):  # one after the other, each in its own time
            self.assertTrue(self.link(self.relay.live).is_closed())
        self.assertEqual(producer.push(TICKS), peer.OK)
        producer.finish()
        self.stop()

    def test_idle_viewers_and_producers_stay(self):
        producer, viewer = self.producer(session="idle"), self.viewer()
        for _ in range(2):  # one after the other
            self.assertTrue(self.link(self.relay.live).is_closed())
        self.assertEqual(viewer.attach(producer.session)[0], 1)
        producer.finish()
        self.stop()


class Limits(CrowdTest):
    @outside_gate("the log may have a line a second")
    def test_newcomer_that_has_no_place_is_closed_at_once(self):
        self.start("--max-connections", "16")  # 6 control, 6 data, 4 viewer connections
        producers = []
        for i in range(5):
            producers.append(Producer(self.relay))
            self.addCleanup(producers[-1].close)
            producers[-1].greet()
            self.assertEqual(producers[-1].create(session=f"s{i}")[1], peer.OK)
        for _ in range(100):
            self.assertTrue(self.link(self.relay.control).is_closed())
        producers[0].close()
        wait_until(lambda: not self.link(self.relay.control).is_closed(0.2), "a place that is free again")
        self.stop()
        self.assertLessEqual(len(self.relay.log.splitlines()), 30, "one line a second")
        self.assertIn("as many as a peer may", self.relay.log)

    def test_soft_limit_of_files_is_raised(self):
        self.start(wrapper=("prlimit", "--nofile=256:8192"))
        self.assertEqual(self.limit_of_files(), (8192, 8192))
        producers = [self.producer(session=f"s{i}") for i in range(100)]  # each needs 4 to 6 descriptors
        for producer in producers:
            self.assertEqual(producer.push(TICKS), peer.OK)
        for producer in producers:
            producer.finish()
        self.stop()

    def test_limit_beyond_the_files_is_told(self):
        self.start("--max-connections", "5000", wrapper=("prlimit", "--nofile=1024:1024"))
        self.stop()
        self.assertRegex(self.relay.log, "warning: 5000 connections may need more than the 1024 files")

    @outside_gate("it measures what the relay does in a second")
    @needs("undefined" not in SANITIZERS, "sanitizers")  # without descriptors UBSan reports every type as wrong
    def test_out_of_descriptors(self):
        """The relay goes on serving, does not spin, and accepts newcomers again when there are descriptors."""
        self.start("--max-connections", "1000")
        producer = self.producer(session="served")
        viewers = [self.viewer() for _ in range(10)]
        resource.prlimit(self.relay.process.pid, resource.RLIMIT_NOFILE, (self.descriptors(), 8192))
        turned_away = [self.link(self.relay.live) for _ in range(20)]
        for link in turned_away:
            self.assertTrue(link.is_closed())
        before = cpu_seconds_of(self.relay.process.pid)
        time.sleep(1)
        self.assertLess(cpu_seconds_of(self.relay.process.pid) - before, 0.5)
        # The files of a viewer's packets may be open already or not. The relay does what it can.
        for viewer in viewers:
            self.assertIn("served", viewer.list())
        resource.prlimit(self.relay.process.pid, resource.RLIMIT_NOFILE, (8192, 8192))
        self.assertEqual(producer.push(TICKS), peer.OK)
        producer.finish()
        self.assert_serves()
        self.stop()
        self.assertIn("raise the limit of open files", self.relay.log)


class Greedy:
    """A viewer that always has requests outstanding, and reads all replies."""

    def __init__(self, viewer, request):
        self.socket = viewer.socket
        self.socket.setblocking(False)
        self.requests = request * (1 << 12)
        self.at = 0
        self.received = 0

    def step(self):
        try:
            for _ in range(64):
                self.at = (self.at + self.socket.send(self.requests[self.at:])) % len(self.requests)
        except BlockingIOError:
            pass
        try:
            for _ in range(8):
                self.received += len(self.socket.recv(1 << 20))
        except BlockingIOError:
            pass


@outside_gate("it measures how long a newcomer waits, in bytes that others get")
class Turns(CrowdTest):
    def setUp(self):
        super().setUp()
        cpu = min(os.sched_getaffinity(0))
        self.start(wrapper=("taskset", "-c", str(cpu)))  # one thread serves all
        self.producing = self.producer(session="busy")
        self.assertEqual(self.producing.push(TICKS), peer.OK)

    def greedy(self, command, payload):
        """Viewers know streams by other ids than producers do."""
        viewer = self.viewer()
        self.assertEqual(viewer.attach(self.producing.session)[0], 1)
        self.assertEqual(viewer.read_packets(self.producing.streams[0], 1), TICKS)
        return Greedy(viewer, peer.viewer_message(command, payload(viewer.ids)))

    def bytes_until(self, greedy, other, size):
        """The bytes that greedy viewers get before the other's reply is complete."""
        before = sum(viewer.received for viewer in greedy)
        other.setblocking(False)
        reply = b""
        deadline = time.monotonic() + peer.PATIENCE
        while len(reply) < size:
            self.assertLess(time.monotonic(), deadline, "it gets no answer")
            for viewer in greedy:
                viewer.step()
            if select.select([other], [], [], 0)[0]:
                part = other.recv(size - len(reply))
                self.assertTrue(part, "it was turned away")
                reply += part
        return sum(viewer.received for viewer in greedy) - before

    def check(self, command, payload):
        greedy = [self.greedy(command, payload) for _ in range(2)]
        for viewer in greedy:
            while viewer.received < 1 << 20:
                viewer.step()
        most = 0
        for _ in range(10):
            newcomer = self.link(self.relay.live)
            newcomer.send(peer.viewer_message(peer.CONNECT, CONNECT))
            most = max(most, self.bytes_until(greedy, newcomer.socket, 20))
        # The greedy ones may still get what is in the sockets already, and a few turns.
        if os.environ.get("LEAT_FIGURES"):
            print(f"{most} bytes", file=sys.stderr)
        self.assertLess(most, 24 << 20, "a newcomer waits until the greedy ones have had this many bytes")
        return most

    def test_newcomer_beside_viewers_that_pipeline_indexes(self):
        self.check(peer.GET_NEXT_INDEX, lambda ids: struct.pack(">Q", ids[self.producing.streams[0]]))

    def test_newcomer_beside_viewers_that_pipeline_metadata(self):
        self.check(peer.GET_METADATA, lambda ids: struct.pack(">Q", ids[self.producing.metadata]))

    def test_newcomer_beside_viewers_that_pipeline_packets(self):
        self.check(peer.GET_PACKET, lambda ids: struct.pack(">QQI", ids[self.producing.streams[0]], 0, 4096))

    def test_newcomer_beside_viewers_that_list(self):
        self.check(peer.LIST_SESSIONS, lambda ids: b"")

    def test_producer_beside_producers_that_pipeline(self):
        """Requests on control connections take turns, too."""
        class Pipe:
            def __init__(self, producer):
                self.socket = producer.socket
        message = peer.control_message(QUIESCENT_CONTROL,
                                       struct.pack(">Q", self.producing.metadata))
        greedy = [Greedy(Pipe(self.producer(session=f"g{i}")), message) for i in range(2)]
        for viewer in greedy:
            while viewer.received < 1 << 16:
                viewer.step()
        most = 0
        for _ in range(10):
            newcomer = self.link(self.relay.control, VERSION)
            most = max(most, self.bytes_until(greedy, newcomer.socket, 8))
        if os.environ.get("LEAT_FIGURES"):
            print(f"{most} bytes", file=sys.stderr)
        self.assertLess(most, 1 << 20, "a newcomer waits until the greedy ones have had this many bytes")


@outside_gate("it measures how long the relay takes to end")
class Ending(CrowdTest):
    def waiting_viewer(self, request, session=None):
        """A viewer of Leat's: nothing comes for it, and it waits up to 10 s."""
        viewer = Viewer(self.relay, connect=False)
        self.addCleanup(viewer.close)
        reply = viewer.ask(peer.CONNECT, struct.pack(">QIII", ASK_CAPABILITIES | 3, 2, 4, 1), 20)
        self.assertEqual(struct.unpack(">QIII", reply)[3] & 3, 3, "it can wait and get news")
        self.assertEqual(viewer.ask(peer.VIEWER_CREATE_SESSION), b"\0\0\0\1")
        if session is not None:
            self.assertEqual(viewer.attach(session)[0], 1)
        viewer.send(request)
        return viewer

    def check(self, request):
        self.start()
        viewers = [self.waiting_viewer(request) for _ in range(4)]
        viewers.append(self.waiting_viewer(request, self.producer(session="quiet").session))
        # When a later viewer has its answer, the relay has read these requests; this must hold on each of its threads.
        for _ in range(2 * os.cpu_count()):
            self.viewer().close()
        self.assertEqual(select.select([viewer.socket for viewer in viewers[:4]], [], [], 0.5)[0], [], "they wait")
        begin = time.monotonic()
        self.stop()
        self.assertLess(time.monotonic() - begin, 5, "it was 10 s")

    def test_end_with_viewers_that_wait_for_news(self):
        self.check(peer.viewer_message(GET_NEWS, struct.pack(">I", 1 << 16)))

    def test_end_with_viewers_that_wait_for_a_change(self):
        self.check(peer.viewer_message(WAIT, struct.pack(">Q", 0)))


@outside_gate("it takes half a minute")
class ManyProducers(CrowdTest):
    """One process drives all producers and never waits for a single one. Each producer is a script of messages and
    replies."""
    PRODUCERS = 200 if SANITIZERS else 1000
    VIEWERS = 20
    PACKETS = 3
    SIZE = 512

    def setUp(self):
        super().setUp()
        self.start()

    def run_scripts(self, scripts):
        """Each script is a generator. It yields (link, bytes to send, bytes of the reply) and is sent the reply."""
        poll = select.epoll()
        waiting = {}

        def go_on(script, reply):
            try:
                while True:
                    link, request, size = script.send(reply)
                    link.send(request)
                    if size != 0:
                        break
                    reply = b""
            except StopIteration:
                return
            waiting[link.socket.fileno()] = (script, link, size, b"")
            poll.register(link.socket, select.EPOLLIN | select.EPOLLONESHOT)

        for script in scripts:
            go_on(script, None)
        deadline = time.monotonic() + 2 * peer.PATIENCE
        while waiting:
            self.assertLess(time.monotonic(), deadline, f"{len(waiting)} of {len(scripts)} wait for the relay")
            for fd, _ in poll.poll(1):
                script, link, size, reply = waiting[fd]
                part = link.socket.recv(size - len(reply))
                self.assertTrue(part, f"the relay has closed a connection after {len(reply)} bytes of {size}")
                reply += part
                if len(reply) < size:
                    waiting[fd] = (script, link, size, reply)
                    poll.modify(link.socket, select.EPOLLIN | select.EPOLLONESHOT)
                    continue
                del waiting[fd]
                poll.unregister(fd)
                go_on(script, reply)
        poll.close()

    def ticks(self, number, packet):
        return [(1000 * packet + 10 * i + 1, 1000 * number + 10 * packet + i) for i in range(3)]

    def begin(self, number):
        control = self.controls[number]
        yield control, VERSION, 8
        reply = yield control, peer.control_message(peer.CREATE_SESSION, peer.create_session_payload(
            session=f"crowd{number}")), 16
        self.sessions[number], code, length = struct.unpack(">QII", reply)
        self.assertEqual(code, peer.OK)
        yield control, b"", length
        yield control, peer.control_message(peer.CREATE_TRACE_CHUNK, struct.pack(">QQI", 0, 1_600_000_000, 0)), 4
        for name, handles in (("channel_0", self.streams), ("metadata", self.metadata)):
            reply = yield control, peer.control_message(peer.ADD_STREAM, peer.add_stream_payload(name)), 12
            handles[number], code = struct.unpack(">QI", reply)
            self.assertEqual(code, peer.OK)
        reply = yield control, peer.control_message(peer.STREAMS_SENT), 4
        self.assertEqual(reply, struct.pack(">I", peer.OK))
        metadata = peer.control_message(peer.SEND_METADATA,
                                        struct.pack(">QI", self.metadata[number], 0) + peer.METADATA)
        yield control, metadata, 0

    def push(self, number, packet):
        ticks, stream = self.ticks(number, packet), self.streams[number]
        data = peer.data_message(stream, packet, peer.packet_of(ticks, packet, size=self.SIZE), self.SIZE)
        yield self.datas[number], data, 0
        index = peer.control_message(peer.SEND_INDEX, peer.index_payload(stream, packet, ticks, size=self.SIZE))
        reply = yield self.controls[number], index, 4
        self.assertEqual(reply, struct.pack(">I", peer.OK))

    def end(self, number):
        control, stream = self.controls[number], self.streams[number]
        while True:
            reply = yield control, peer.control_message(
                peer.DATA_PENDING, struct.pack(">QQ", stream, self.PACKETS - 1)), 4
            if reply == b"\0\0\0\0":
                break
        for handle, last in ((stream, self.PACKETS - 1), (self.metadata[number], peer.NO_PACKET)):
            yield control, peer.control_message(peer.CLOSE_STREAM, struct.pack(">QQ", handle, last)), 4

    def test_a_crowd_of_producers_and_twenty_viewers(self):
        every = range(self.PRODUCERS)
        self.controls = [self.link(self.relay.control) for _ in every]
        self.sessions, self.streams, self.metadata = {}, {}, {}
        self.run_scripts([self.begin(number) for number in every])
        self.datas = [self.link(self.relay.data) for _ in every]
        viewers = [self.viewer() for _ in range(self.VIEWERS)]
        followed = {}
        for i, viewer in enumerate(viewers):
            number = i * self.PRODUCERS // self.VIEWERS
            status, streams = viewer.attach(self.sessions[number])
            self.assertEqual((status, len(streams)), (1, 2))
            followed[viewer] = number, next(id for id, _, is_metadata in streams if not is_metadata)
        for packet in range(self.PACKETS):
            self.run_scripts([self.push(number, packet) for number in every])
        for viewer, (number, stream) in followed.items():
            expected = [tick for packet in range(self.PACKETS) for tick in self.ticks(number, packet)]
            self.assertEqual(viewer.read_packets(stream, self.PACKETS), expected)
        self.run_scripts([self.end(number) for number in every])
        for link in [*self.controls, *self.datas, *viewers]:
            link.close()
        self.stop()
        self.assertEqual(self.relay.log, "")
        for number in every:
            data, = self.output.glob(f"host/crowd{number}-*/ust/uid/0/64-bit/channel_0")
            content = data.read_bytes()
            self.assertEqual(len(content), self.PACKETS * self.SIZE)
            events = [event for packet in range(self.PACKETS)
                      for event in peer.events_in(content[packet * self.SIZE:(packet + 1) * self.SIZE])]
            self.assertEqual(events, [tick for packet in range(self.PACKETS) for tick in self.ticks(number, packet)])
            index, = self.output.glob(f"host/crowd{number}-*/ust/uid/0/64-bit/index/channel_0.idx")
            self.assertEqual(index.stat().st_size, 16 + self.PACKETS * 72)


if __name__ == "__main__":
    main()
