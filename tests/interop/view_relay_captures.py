#!/usr/bin/env python3
"""Replays to `leat view` what LTTng's relay said to babeltrace2. It prints the same events."""
import collections
import concurrent.futures
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import relay_peer as peer  # noqa: E402
from support import LEAT, PATIENCE, SOURCE, InteropTest, main, wait_until  # noqa: E402

CAPTURES = SOURCE / "tests" / "data" / "captures"
NEW_STREAMS_HANG_UP, INDEX_HANG_UP, METADATA_NOTHING = 4, 3, 2  # statuses
REQUEST = struct.Struct(">QII")


def words(data, at=0):
    return struct.unpack_from(">II", data, at)


class Reply:
    """A captured reply. Its position says how much the relay had said before."""

    def __init__(self, command, position, data):
        self.position = position
        self.data = data
        self.is_hang_up = (command == peer.GET_NEW_STREAMS and words(data)[0] == NEW_STREAMS_HANG_UP
                           or command == peer.GET_NEXT_INDEX and words(data, 56)[0] == INDEX_HANG_UP)
        # "Nothing new yet" is not said any more once it is no longer true.
        self.is_nothing = (command == peer.GET_NEW_STREAMS and words(data) == (1, 0)
                           or command == peer.GET_METADATA and words(data, 4)[1] == METADATA_NOTHING)


def size_of_reply(command, replies, at):
    def counted(head, field, of_one):
        return head + struct.unpack_from(">I", replies, at + field)[0] * of_one

    if command in (peer.ATTACH_SESSION, peer.GET_NEW_STREAMS):
        return counted(8, 4, 4371) if words(replies, at)[0] == 1 else 8
    if command == peer.GET_PACKET:
        return counted(12, 4, 1) if words(replies, at)[0] == 1 else 12
    if command == peer.GET_METADATA:
        length, status = struct.unpack_from(">QI", replies, at)
        return 12 + length if status == 1 else 12
    if command == peer.LIST_SESSIONS:
        return counted(4, 0, 339)
    return {peer.CONNECT: 20, peer.GET_NEXT_INDEX: 64}.get(command, 4)


def subject(command, payload):
    """The subject of a request. The viewer's own id and its reading position are not part of it."""
    if command in (peer.CONNECT, peer.LIST_SESSIONS, peer.VIEWER_CREATE_SESSION):
        return (command,)
    return (command, payload[:8]) if command == peer.ATTACH_SESSION else (command, payload)


class CapturedRelay:
    """Plays the relay of a capture for one viewer, which asks in an order of its own.

    Questions about the same thing get their captured replies, in their order. No order of questions must show what no
    relay would show. So once a viewer has been told of an index or a packet, it is also told of the metadata and the
    streams that were there before; and a session hangs up after its streams.
    """

    def __init__(self, directory, split):
        self.split = split
        self.replies = collections.defaultdict(collections.deque)
        self.read(directory)
        # Whether the session ended while babeltrace2 was watching. Otherwise babeltrace2 was interrupted.
        self.hangs_up = any(reply.is_hang_up for about, replies in self.replies.items()
                            if about[0] == peer.GET_NEW_STREAMS for reply in replies)
        self.position = 0  # of the latest index or packet that was told
        self.said = {}  # last reply to each subject
        self.requests = []  # commands
        self.problems = []
        self.has_told_all = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def read(self, directory):
        requests = (directory / "viewer1.c2s.bin").read_bytes()
        replies = (directory / "viewer1.s2c.bin").read_bytes()
        asked = said = 0
        while asked < len(requests):
            size, command, _ = REQUEST.unpack_from(requests, asked)
            payload = requests[asked + 16:asked + 16 + size]
            asked += 16 + size
            data = replies[said:said + size_of_reply(command, replies, said)]
            self.replies[subject(command, payload)].append(Reply(command, said, data))
            said += len(data)
        assert said == len(replies), f"{said} of {len(replies)} bytes"

    def has_indexes(self):
        return any(replies for about, replies in self.replies.items() if about[0] == peer.GET_NEXT_INDEX)

    def reply_to(self, command, payload):
        about = subject(command, payload)
        replies = self.replies.get(about, ())
        last = self.said.get(about)
        if not replies:
            # A relay repeats itself until something happens, and nothing happened during the capture.
            can_repeat = command in (peer.LIST_SESSIONS, peer.GET_NEW_STREAMS, peer.GET_METADATA, peer.GET_NEXT_INDEX)
            return last if can_repeat and last and not last.is_hang_up else None
        if command == peer.GET_NEW_STREAMS and replies[0].is_hang_up and self.has_indexes():
            return last
        while replies[0].is_nothing and any(
                not reply.is_nothing and reply.position < self.position for reply in replies):
            replies.popleft()
        reply = self.said[about] = replies.popleft()
        if command in (peer.GET_NEXT_INDEX, peer.GET_PACKET):
            self.position = max(self.position, reply.position)
        if not self.has_indexes():
            self.has_told_all.set()
        return reply

    def run(self):
        try:
            with self.listener:
                link, _ = self.listener.accept()
            with link:
                link.settimeout(PATIENCE)
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.serve(link)
        except OSError as error:
            # A viewer that is interrupted may leave without another word.
            if self.hangs_up or not self.has_told_all.is_set():
                self.problems.append(str(error))

    def serve(self, link):
        requests = link.makefile("rb")
        while header := requests.read(REQUEST.size):
            size, command, _ = REQUEST.unpack(header)
            payload = requests.read(size)
            self.requests.append(command)
            reply = self.reply_to(command, payload)
            if reply is None:
                self.problems.append(f"no reply to command {command:#x} {payload.hex()}")
                return
            for piece in self.split(reply.data):
                link.sendall(piece)


def whole(data):
    return [data]


def byte_by_byte(data):
    return [data[at:at + 1] for at in range(len(data))]


def in_random_pieces(data):
    chance = random.Random(data)
    while data:
        size = chance.choice([1, 2, 3, 7, 100, 5000])
        yield data[:size]
        data = data[size:]


class View(InteropTest):
    # The expected text is what babeltrace2 printed from that connection, not the trace on disk. LTTng's relay drops
    # rolled-over packets from disk, and stores packets that no viewer got: the last ones of a process that had ended.
    CAPTURES = {"live-uid-two-apps": "live1", "live-pid-buffers": "p1", "live-new-metadata-dlopen": "dl1",
                "live-tracefile-rotation": "tf1"}
    LEAT_VIEW = [LEAT, "view", "--clock-seconds"]
    BABELTRACE2 = ["stdbuf", "-oL", "babeltrace2", "--clock-seconds", "--input-format=lttng-live"]

    def view(self, capture, command, split):
        relay = CapturedRelay(CAPTURES / capture, split)
        self.addCleanup(relay.thread.join)
        expected = (CAPTURES / capture / "live-viewer-output.txt").read_text()
        printed = self.directory / f"{capture}.txt"
        url = f"net://127.0.0.1:{relay.port}/host/tracer1/{self.CAPTURES[capture]}"
        with open(printed, "w", encoding="utf-8") as output:
            viewer = subprocess.Popen([*command, url], stdout=output, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: viewer.poll() is None and viewer.kill())
        if not relay.hangs_up:
            wait_until(lambda: viewer.poll() is not None or
                       relay.has_told_all.is_set() and printed.stat().st_size >= len(expected), "all events")
            viewer.send_signal(signal.SIGINT)
        _, errors = viewer.communicate(timeout=PATIENCE)
        relay.thread.join(PATIENCE)
        self.assertEqual((relay.problems, errors), ([], ""))
        self.assertEqual(printed.read_text(), expected)
        self.assertTrue(relay.has_told_all.is_set(), "the viewer ended before the streams")
        if relay.hangs_up:
            self.assertEqual(relay.requests[-1], peer.DETACH_SESSION)
        # babeltrace2 reports an interruption by this status.
        self.assertEqual(viewer.returncode, 2 if command == self.BABELTRACE2 and not relay.hangs_up else 0)

    def view_all(self, command, split):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            views = {capture: pool.submit(self.view, capture, command, split) for capture in self.CAPTURES}
            for capture, view in views.items():
                with self.subTest(capture):
                    view.result()

    def test_babeltrace2_is_told_the_same_again(self):
        self.view_all(self.BABELTRACE2, whole)

    def test_prints_what_babeltrace2_printed(self):
        self.view_all(self.LEAT_VIEW, whole)

    def test_replies_byte_by_byte(self):
        self.view_all(self.LEAT_VIEW, byte_by_byte)

    def test_replies_in_random_pieces(self):
        self.view_all(self.LEAT_VIEW, in_random_pieces)


if __name__ == "__main__":
    main()
