#!/usr/bin/env python3
"""Thousands of short processes, each with buffers of its own, in one live session of leat-relayd. The relay's
descriptors and memory do not grow with their number, and every event is stored.

    LEAT_SHORT_PROCESSES=10000 tests/interop/short_processes.py

One test uses LTTng's own daemons (in namespaces, because they have fixed places and ports). The other sends the
messages by hand, which takes far less time for each process. By default both take a few seconds.
"""
import concurrent.futures
import contextlib
import os
import pathlib
import socket
import struct
import subprocess

import relay_lttng
import relay_peer
from relay_lttng import lttng
from relay_peer import CLOSE_STREAM, METADATA, NO_PACKET, OK, STREAMS_SENT, Producer, events_in
from relays import LeatRelay
from support import BUILD, LEAT, InteropTest, has, main, needs, program, wait_until

ASKED = os.environ.get("LEAT_SHORT_PROCESSES")
HAS_LTTNG = has(*relay_lttng.TOOLS) and pathlib.Path(program("lttng-ticks")).exists()
IS_SANITIZED = BUILD.name in ("asan", "tsan")
AT_ONCE = 8
EVENTS = 3  # of each process
PACKET = 4096
MORE_DESCRIPTORS = 20  # more than after a third of the processes: for processes that have just ended
MORE_MIB = 4


def descriptors(relay):
    return len(os.listdir(f"/proc/{relay.process.pid}/fd"))


class ShortProcesses(InteropTest):
    def check_flat(self, relay, run, count):
        """Runs that many processes. After a third of them, the relay must hold about as much as at the end."""
        third = count // 3
        run(range(third))
        settle(relay)
        after_third = descriptors(relay), relay.memory_mib()
        run(range(third, count))
        settle(relay)
        at_end = descriptors(relay), relay.memory_mib()
        print("{} processes: {} descriptors, {:.1f} MiB; {}: {}, {:.1f} MiB".format(third, *after_third, count, *at_end),
              flush=True)
        self.assertLessEqual(at_end[0], after_third[0] + MORE_DESCRIPTORS, "descriptors grow with processes")
        if not IS_SANITIZED:  # their allocators keep freed memory
            self.assertLessEqual(at_end[1], after_third[1] + MORE_MIB, "memory grows with processes")

    def check_stored(self, found, count):
        self.assertEqual(len(found), count * EVENTS)
        self.assertEqual(sorted(found), list(range(count * EVENTS)))


def end(process):
    if process.poll() is None:
        process.kill()
    process.communicate()


def settle(relay):
    """Waits until the relay has closed what it is about to close: a second without a change, but at most a minute."""
    seen = []

    def is_settled():
        seen.append(descriptors(relay))
        return len(seen) > 50 and len(set(seen[-50:])) == 1  # wait_until looks every 20 ms
    try:
        wait_until(is_settled, "descriptors")
    except TimeoutError:
        pass  # the figures show it


class ByHand(ShortProcesses):
    def setUp(self):
        super().setUp()
        self.relay = LeatRelay(self.directory / "relay")
        self.addCleanup(self.relay.kill)
        self.producer = Producer(self.relay)
        self.addCleanup(self.producer.close)
        self.producer.start(cpus=0, session="short", host=socket.gethostname())

    def run_processes(self, numbers):
        for number in numbers:
            self.run_process(self.producer, number)

    def test_descriptors_and_memory_are_flat(self):
        count = int(ASKED or 2100)
        self.check_flat(self.relay, self.run_processes, count)
        self.producer.finish()
        found = []
        for path in self.directory.glob("relay/*/*/ust/pid/*/channel_*"):
            data = path.read_bytes()
            found += [n for at in range(0, len(data), PACKET) for _, n in events_in(data[at:at + PACKET])]
        self.check_stored(found, count)
        self.assertEqual(self.relay.stop(), 0, self.relay.log)

    def test_also_while_a_viewer_follows_them(self):
        count = int(ASKED or 300)
        viewer = relay_lttng.Viewer(self, LEAT, "view", self.relay.live_url("short"))
        self.addCleanup(end, viewer.process)
        with contextlib.closing(relay_peer.Viewer(self.relay)) as lister:
            wait_until(lambda: lister.clients()["short"] == 1, "the viewer")
        self.check_flat(self.relay, self.run_processes, count)
        self.producer.finish()
        self.check_stored(viewer.finish(), count)
        self.assertEqual(self.relay.stop(), 0, self.relay.log)

    def run_process(self, producer, number):
        """Sends what LTTng sends for a process from its first event to its end: metadata, and a stream for each of two
        CPUs."""
        path = f"ust/pid/short-{number}-20261120-130000"
        streams = [self.add_stream(producer, number, f"channel_{cpu}", path) for cpu in range(2)]
        own_metadata, producer.metadata = producer.metadata, self.add_stream(producer, number, "metadata", path)
        self.assertEqual(producer.code(STREAMS_SENT), OK, f"process {number}")
        producer.send_metadata(METADATA)
        first = number * EVENTS
        producer.streams, producer.numbers = streams, dict.fromkeys(streams, 0)
        for cpu, events in [(0, [first]), (1, [first + 1, first + 2])]:
            self.assertEqual(producer.push([(1000 + n, n) for n in events], cpu, PACKET), OK, f"process {number}")
        for stream, last in [(producer.metadata, NO_PACKET), *((stream, 0) for stream in streams)]:
            self.assertEqual(producer.code(CLOSE_STREAM, struct.pack(">QQ", stream, last)), OK, f"process {number}")
        producer.metadata, producer.streams, producer.numbers = own_metadata, [], {}

    def add_stream(self, producer, number, channel, path):
        handle, code = producer.add_stream(channel, path=path)
        self.assertEqual(code, OK, f"process {number}: {channel} is refused")
        return handle


@needs(HAS_LTTNG, "lttng")
class ByLttng(ShortProcesses):
    def setUp(self):
        super().setUp()
        os.environ["HOME"] = os.environ["LTTNG_HOME"] = str(self.directory)
        os.environ["TZ"] = "UTC"
        self.relay = LeatRelay(self.directory / "relay", ports=(5342, 5343, 5344))  # where LTTng looks for a relay
        self.addCleanup(self.relay.kill)
        daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(relay_lttng.Sessions.end, daemon)
        wait_until(lambda: subprocess.run(["lttng", "--no-sessiond", "list"], capture_output=True).returncode == 0,
                   "lttng-sessiond")

    def test_descriptors_and_memory_are_flat(self):
        count = int(ASKED or 100)
        lttng("create", "short", "--set-url=net://127.0.0.1", "--live=1000000")
        lttng("enable-channel", "--userspace", "--buffers-pid", "--subbuf-size=4096", "--num-subbuf=2", "ch0")
        lttng("enable-event", "--userspace", "--channel=ch0", "test:*")
        lttng("start", "short")
        self.check_flat(self.relay, self.run_processes, count)
        lttng("destroy", "short")
        self.check_stored(self.read_all(), count)
        self.assertEqual(self.relay.stop(), 0, self.relay.log)

    @staticmethod
    def run_processes(numbers):
        # The program waits until it is registered, even if the session daemon is busy.
        environment = dict(os.environ, LTTNG_UST_REGISTER_TIMEOUT="-1")

        def run(number):
            subprocess.run([program("lttng-ticks")], input=f"{number * EVENTS} {EVENTS}\n", text=True,
                           stdout=subprocess.DEVNULL, env=environment, check=True)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(run, numbers):
                pass

    def read_all(self):
        """Prints the trace with babeltrace2, some traces at a time, because it opens all traces that it is given."""
        traces = sorted(str(path.parent) for path in self.directory.glob("relay/**/metadata"))
        found = []
        for at in range(0, len(traces), 100):
            result = subprocess.run(["babeltrace2", *traces[at:at + 100]], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stderr)
            found += [int(line.rpartition("n = ")[2].split()[0]) for line in result.stdout.splitlines()]
        return found


if __name__ == "__main__":
    if not HAS_LTTNG:
        main()
    elif not relay_lttng.IS_INSIDE:
        relay_lttng.enter_namespaces()
    else:
        relay_lttng.hide_the_machine()
        main()
