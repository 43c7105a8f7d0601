"""A line between two network namespaces that delays, loses and reorders packets and has a limited rate. It works on
kernels without netem, too."""
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time

from support import lacks

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
LIBC = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class End:
    """A network namespace with a tun device. Everything that is opened or started within `with end:` is on this end."""

    def __init__(self, address, other, mtu):
        self.address = address
        self.outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        check(LIBC.unshare(CLONE_NEWNET))
        try:
            self.inside = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            self.tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(self.tun, TUNSETIFF, struct.pack("16sH22x", b"line", IFF_TUN | IFF_NO_PI))
            for words in (["link", "set", "lo", "up"], ["link", "set", "line", "addrgenmode", "none", "mtu", str(mtu),
                           "txqueuelen", "10000", "up"],
                          ["address", "add", address, "peer", other, "dev", "line"]):
                subprocess.run(["ip", *words], check=True)
        finally:
            self.__exit__()

    def __enter__(self):
        check(LIBC.setns(self.inside, CLONE_NEWNET))
        return self

    def __exit__(self, *_):
        check(LIBC.setns(self.outside, CLONE_NEWNET))

    def close(self):
        for descriptor in (self.tun, self.inside, self.outside):
            os.close(descriptor)


class Direction:
    """Moves packets from the end where they are read to the other end."""

    def __init__(self, source, sink, seed):
        self.source, self.sink = source, sink
        self.random = random.Random(seed)
        self.is_free_at = 0.0
        self.carried = self.lost = self.reordered = 0


class BadLine:
    """A thread runs the line. `delay` is in s each way; `loss` and `reordering` are chances for each packet; `rate`
    is in bytes/s each way.

    Which packets are lost depends on the seed and on the number of packets: with the default, at 1 %, three of the
    first 50."""
    OVERTAKEN_BY = 0.003  # s; how much later a reordered packet arrives

    def __init__(self, delay=0.0, loss=0.0, reordering=0.0, rate=None, mtu=1500, seed=5):
        self.delay, self.loss, self.reordering, self.rate = delay, loss, reordering, rate
        try:
            self.near = End("10.0.0.1", "10.0.0.2", mtu)
            self.far = End("10.0.0.2", "10.0.0.1", mtu)
        except OSError as error:
            print(error, flush=True)
            lacks("tun-devices")
        self.there = Direction(self.near.tun, self.far.tun, seed)
        self.back = Direction(self.far.tun, self.near.tun, seed + 1)
        self.under_way = []  # (time of arrival, destination end, packet)
        self.number = 0
        self.ending, self.end = os.pipe()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    @property
    def lost(self):
        return self.there.lost + self.back.lost

    def run(self):
        directions = {direction.source: direction for direction in (self.there, self.back)}
        while True:
            wait = max(self.under_way[0][0] - time.monotonic(), 0) if self.under_way else None  # moment: a line has delays
            ready, _, _ = select.select([*directions, self.ending], [], [], wait)
            if self.ending in ready:
                return
            for source in ready:
                self.take(directions[source], os.read(source, 65536))
            while self.under_way and self.under_way[0][0] <= time.monotonic():  # moment: the same
                _, _, sink, packet = heapq.heappop(self.under_way)
                os.write(sink, packet)

    def take(self, direction, packet):
        leaves = time.monotonic()  # moment: the same
        if self.rate:
            leaves = direction.is_free_at = max(leaves, direction.is_free_at) + len(packet) / self.rate
        is_lost, is_late = (direction.random.random() < chance for chance in (self.loss, self.reordering))
        direction.carried += 1
        direction.lost += is_lost
        direction.reordered += is_late and not is_lost
        if is_lost:
            return
        self.number += 1
        arrives = leaves + self.delay + (self.OVERTAKEN_BY if is_late else 0)
        heapq.heappush(self.under_way, (arrives, self.number, direction.sink, packet))

    def close(self):
        os.close(self.end)
        self.thread.join()
        os.close(self.ending)
        self.near.close()
        self.far.close()
