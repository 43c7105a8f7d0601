#!/usr/bin/env python3
"""LTTng's application, session daemon and consumer send to leat-relayd: sessions of every kind at the same time.

All sessions trace two programs. Between the batches that the programs emit, each session does what it is there to show.
Everything runs in namespaces of its own, because LTTng's daemons have fixed places and ports.
"""
import concurrent.futures
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

import relay_peer
from relays import LeatRelay
from support import LEAT, PATIENCE, InteropTest, can_be_two_users, main, outside_gate, program, wait_until

IS_INSIDE = "LEAT_TEST_INSIDE" in os.environ
BATCHES = [(1, 1000), (1001, 2000), (3001, 300)]
TOOLS = ["lttng", "lttng-sessiond", "babeltrace2", "unshare"]


def numbers(*batches):
    """The numbers of the events of these batches."""
    return [n for batch in batches for n in range(BATCHES[batch][0], sum(BATCHES[batch]))]


def enter_namespaces():
    """Starts this script again as process 1 of its own namespaces, and exits with its status."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        command.append("--map-root-user")
    os.environ["LEAT_TEST_INSIDE"] = "1"
    os.execvp("unshare", command + [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]])


def hide_the_machine():
    for directory in ["/run", "/dev/shm"]:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory], check=True)
    os.mkdir("/run/lttng")
    if not can_be_two_users():
        # The session daemon gives its files to this group, which has no number in our user namespace.
        groups = [line for line in pathlib.Path("/etc/group").read_text().splitlines() if not line.startswith("tracing:")]
        pathlib.Path("/run/group").write_text("\n".join([*groups, ""]))
        subprocess.run(["mount", "--bind", "/run/group", "/etc/group"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Process 1 ignores this signal unless it has a handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def lttng(*words):
    done = subprocess.run(["lttng", "--no-sessiond", *words], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"lttng {' '.join(words)}: {done.stdout}{done.stderr}"


def concurrently(*functions):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for future in [pool.submit(function) for function in functions]:
            future.result()


class Application:
    """A program that LTTng traces. All of its events are from one CPU, so their order is that of their numbers."""

    def __init__(self, test):
        self.process = subprocess.Popen(["taskset", "-c", "0", program("lttng-ticks")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.end)
        assert self.process.stdout.readline() == "ready\n"

    def emit(self, batch):
        self.emit_numbers(*BATCHES[batch])

    def emit_numbers(self, first, count):
        self.process.stdin.write(f"{first} {count}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
            self.process.stdout.close()
        self.process.wait(PATIENCE)


class Viewer:
    """A viewer that follows a live session to its end."""

    def __init__(self, test, *command):
        self.output = test.directory / f"viewer-{len(list(test.directory.glob('viewer-?')))}"
        self.errors = test.directory / f"{self.output.name}.errors"  # its warnings may be more than a pipe holds
        with open(self.output, "w", encoding="utf-8") as output, open(self.errors, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(command, stdout=output, stderr=errors, text=True)
        test.addCleanup(lambda: self.process.poll() is None and self.process.kill())

    def numbers(self):
        text = self.output.read_text(encoding="utf-8")
        return [int(line.rpartition("n = ")[2].split()[0]) for line in text[:text.rfind("\n") + 1].splitlines()]

    def wait_for(self, count):
        def are_there():
            self.assert_runs()
            return len(self.numbers()) >= count
        wait_until(are_there, f"{count} events from {self.process.args}")

    def assert_runs(self):
        self.assert_status(self.process.poll() in (None, 0))

    def finish(self):
        self.process.wait(PATIENCE)
        self.assert_status(self.process.returncode == 0)
        return self.numbers()

    def assert_status(self, is_good):
        assert is_good, f"{self.process.args} after {len(self.numbers())} events: {self.errors.read_text(encoding='utf-8')}"


def babeltrace2(test, session):
    return Viewer(test, "stdbuf", "-oL", "babeltrace2", "--input-format=lttng-live",
                  f"net://127.0.0.1/host/{socket.gethostname()}/{session}")


def leat_view(test, session):
    return Viewer(test, LEAT, "view", f"net://127.0.0.1/host/{socket.gethostname()}/{session}")


class Session:
    """A session of LTTng that streams to leat-relayd. Subclasses override what happens between the batches."""
    CREATE = []
    CHANNEL = ["--subbuf-size=65536", "--num-subbuf=16"]

    def __init__(self, test):
        self.test = test
        self.name = type(self).__name__.lower()

    def create(self):
        lttng("create", self.name, "--set-url=net://127.0.0.1", *self.CREATE)
        lttng("enable-channel", f"--session={self.name}", "--userspace", "ch0", *self.CHANNEL)
        lttng("enable-event", f"--session={self.name}", "--userspace", "--channel=ch0", "test:*")
        self.before_start()
        lttng("start", self.name)

    def before_start(self):
        pass

    def after(self, batch):
        pass

    def destroy(self):
        lttng("destroy", self.name)

    def check(self):
        raise NotImplementedError

    def directory(self):
        found = list((self.test.output / socket.gethostname()).glob(f"{self.name}-*"))
        self.test.assertEqual(len(found), 1, found)
        return found[0]

    def read(self, path):
        return [event["n"] for event in self.test.read(path).events("test:tick")]

    def check_events(self, path, *batches):
        self.test.assertEqual(self.read(path), numbers(*batches), f"{self.name}: {path}")


class Streamed(Session):
    """A session that is rotated twice, so it has three chunks."""

    def after(self, batch):
        if batch < 2:
            lttng("rotate", self.name)

    def check(self):
        chunks = sorted((self.directory() / "archives").iterdir(), key=lambda path: path.name.rpartition("-")[2])
        self.test.assertEqual([path.name.rpartition("-")[2] for path in chunks], ["0", "1", "2"])
        for batch, chunk in enumerate(chunks):
            self.check_events(chunk, batch)
        self.check_events(self.directory(), 0, 1, 2)


class Cleared(Session):
    def after(self, batch):
        if batch == 0:
            lttng("clear", self.name)

    def check(self):
        self.check_events(self.directory(), 1, 2)


class StoppedAndCleared(Session):
    def after(self, batch):
        if batch == 1:
            lttng("stop", self.name)
            lttng("clear", self.name)
            lttng("start", self.name)

    def check(self):
        self.check_events(self.directory(), 2)


class StoppedAndRotated(Session):
    def after(self, batch):
        if batch == 0:
            lttng("stop", self.name)
            lttng("rotate", self.name)

    def check(self):
        self.test.assertEqual([path.name for path in self.directory().iterdir()], ["archives"])
        self.check_events(self.directory(), 0)


class Snapshots(Session):
    CREATE = ["--snapshot"]

    def after(self, batch):
        if batch < 2:
            lttng("snapshot", "record", f"--session={self.name}")

    def check(self):
        directories = sorted((self.test.output / socket.gethostname()).glob(f"{self.name}-*/*"),
                             key=lambda path: path.name.rpartition("-")[2])
        self.test.assertEqual(len(directories), 2, directories)
        self.check_events(directories[0], 0)
        self.check_events(directories[1], 0, 1)


class OfProcesses(Session):
    """Per-process buffers, stored in files that are rolled over: the newest events of each process are kept."""
    CHANNEL = ["--buffers-pid", "--subbuf-size=4096", "--num-subbuf=64", "--tracefile-size=4096",
               "--tracefile-count=3"]

    def check(self):
        traces = sorted(path.parent for path in self.directory().rglob("metadata"))
        self.test.assertEqual(len(traces), 2, traces)
        found = sorted((self.read(trace) for trace in traces), key=lambda events: events[-1])
        self.check_newest(found[0], 1)
        self.check_newest(found[1], 2)

    def check_newest(self, found, batch):
        emitted = numbers(0, 2) if batch == 2 else numbers(1)
        self.test.assertEqual(found, emitted[-len(found):])
        self.test.assertGreater(len(found), 100)
        self.test.assertLess(len(found), len(emitted))


class Live(Session):
    CREATE = ["--live=50000"]

    def before_start(self):
        self.viewers = [babeltrace2(self.test, self.name), leat_view(self.test, self.name)]
        # babeltrace2 continues from where it attached.
        with contextlib.closing(relay_peer.Viewer(self.test.relay)) as lister:
            wait_until(lambda: lister.clients()[self.name] == len(self.viewers), "the viewers")

    def check(self):
        for viewer in self.viewers:
            self.test.assertEqual(viewer.finish(), numbers(0, 1, 2), viewer.process.args)
        self.check_events(self.directory(), 0, 1, 2)


class LiveAndCleared(Live):
    def after(self, batch):
        if batch == 0:
            for viewer in self.viewers:
                viewer.wait_for(len(numbers(0)))
            lttng("clear", self.name)

    def check(self):
        for viewer in self.viewers:
            self.test.assertEqual(viewer.finish(), numbers(0, 1, 2), viewer.process.args)
        self.check_events(self.directory(), 1, 2)


class TurnedOften(Session):
    """A session that is cleared and rotated in turn, as often as the test says."""

    def __init__(self, test):
        super().__init__(test)
        self.archived, self.current = [], []

    def turn(self, number, batch):
        self.current += batch
        if number % 2 == 0:
            lttng("clear", self.name)
        else:
            lttng("rotate", self.name)
            self.archived += self.current
        self.current = []

    def check(self):
        # What was cleared leaves gaps in the numbers of packets.
        events = self.test.read(self.directory(), warnings=r"^WARNING: Tracer discarded \d+ packets? ").events("test:tick")
        self.test.assertEqual([event["n"] for event in events], self.archived)


class LiveAndClearedOften(Live):
    """LTTng does not rotate live sessions."""

    def turn(self, count):
        for viewer in self.viewers:
            viewer.wait_for(count)
        lttng("clear", self.name)

    def check(self, emitted):
        for viewer in self.viewers:
            self.test.assertEqual(viewer.finish(), emitted, viewer.process.args)


SESSIONS = [Streamed, Cleared, StoppedAndCleared, StoppedAndRotated, Snapshots, OfProcesses, Live, LiveAndCleared]


@outside_gate("it needs all of LTTng's daemons")
class Sessions(InteropTest):
    def setUp(self):
        super().setUp()
        self.output = self.directory / "relay"
        os.environ["HOME"] = os.environ["LTTNG_HOME"] = str(self.directory)
        os.environ["TZ"] = "UTC"
        self.relay = LeatRelay(self.output, ports=(5342, 5343, 5344))  # where LTTng looks for a relay
        self.addCleanup(self.relay.kill)
        self.start("lttng-sessiond", "--no-kernel", stderr=subprocess.DEVNULL)
        wait_until(lambda: subprocess.run(["lttng", "--no-sessiond", "list"], capture_output=True).returncode == 0,
                   "lttng-sessiond")

    def start(self, *command, **options):
        process = subprocess.Popen(command, text=True, **{"stdout": subprocess.DEVNULL, **options})
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.terminate()
        process.wait(PATIENCE)

    def test_whatever_its_sessions_can_do(self):
        applications = [Application(self), Application(self)]
        sessions = [session(self) for session in SESSIONS]
        concurrently(*(session.create for session in sessions))
        for batch in range(len(BATCHES)):
            applications[batch % 2].emit(batch)
            concurrently(*(lambda session=session: session.after(batch) for session in sessions))
        for application in applications:
            application.end()
        concurrently(*(session.destroy for session in sessions))
        for session in sessions:
            with self.subTest(session.name):
                session.check()
        self.assertTrue(self.relay.is_alive(), "the relay is dead")

    def test_cleared_and_rotated_in_turn(self):
        """LEAT_TURNS=200: so often. Beside it, all CPUs are busy."""
        turns, of_turn = int(os.environ.get("LEAT_TURNS", "20")), 50
        for _ in range(2 * os.cpu_count()):
            self.start(sys.executable, "-c", "while True: pass")
        application = Application(self)
        turned, live = TurnedOften(self), LiveAndClearedOften(self)
        concurrently(turned.create, live.create)
        for turn in range(turns):
            batch = list(range(turn * of_turn, (turn + 1) * of_turn))
            application.emit_numbers(batch[0], of_turn)
            concurrently(lambda turn=turn, batch=batch: turned.turn(turn, batch),
                         lambda count=batch[-1] + 1: live.turn(count))
        application.end()
        concurrently(turned.destroy, live.destroy)
        turned.check()
        live.check(list(range(turns * of_turn)))
        self.assertTrue(self.relay.is_alive(), "the relay is dead")


if __name__ == "__main__":
    if not all(map(shutil.which, TOOLS)) or not pathlib.Path(program("lttng-ticks")).exists():
        print("LTTng is not here")
    elif not IS_INSIDE:
        enter_namespaces()
    else:
        hide_the_machine()
        main()
