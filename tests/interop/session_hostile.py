#!/usr/bin/env python3
"""Programs that lie to the session daemon, or do not speak to it. Each costs its own user its events, with a reason in
the log, and nobody else anything."""
import fcntl
import json
import os
import random
import re
import socket
import stat
import struct
import subprocess
import threading
import time

from session_daemons import SessionDaemon, SessionTest, as_user, discarded
from support import SANITIZERS, can_be_two_users, main, needs, stop_process, wait_until

# Seconds. Sanitizers make everything slower.
AT_ONCE = 20 if SANITIZERS else 2

IS_TWO = can_be_two_users()
MALLORY = 1000 if IS_TWO else os.geteuid()
VICTIM = 1001
HEADER, ENTRY, MORE = 4096, 64, 720  # docs/formats/control-memory.md


def text(value):
    return struct.pack("<H", len(value)) + value


def table_of(names):
    tracepoints = b"".join(text(name) + struct.pack("<i", 6) + text(b"mallory.c") + struct.pack("<I", 1) + text(b"") +
                           struct.pack("<I", 0) for name in names)
    return struct.pack("<4sIII", b"LETD", 2, len(names), 16 + len(tracepoints)) + tracepoints


def control_file(names=(b"order:tick",), table=None, version=5, bits=64, count=None, described=None):
    """The bytes of a control file up to the end of its table, and its size."""
    table = table_of(names) if table is None else table
    count = len(names) if count is None else count
    described = len(table) if described is None else described
    header = struct.pack("<4sHHIII20s", b"LEAC", version, bits, count, described, os.getpid(), b"mallory")
    return (header.ljust(HEADER, b"\0") + bytes(ENTRY * min(count, len(names))) + table,
            HEADER + ENTRY * count + (described + 7) // 8 * 8 + MORE * count)


# What a program of the user who runs it does: it makes a control file, registers, and keeps what it gets.
PEER = """
import os, socket, struct, sys, time
class Peer:
    def __init__(self, directory, socket_path):
        self.directory, self.socket_path = directory, socket_path
    def connect(self):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.settimeout(20)
        peer.connect(self.socket_path)
        return peer
    def ask(self, number):
        with self.connect() as peer:
            peer.send(struct.pack("<4sHHII", b"LEAP", 5, 5, number, 0))
            try:
                answer, fds, _, _ = socket.recv_fds(peer, 100, 4)
            except ConnectionResetError:
                return b"", []
            return answer, fds
"""


class HostileTest(SessionTest):
    def setUp(self):
        super().setUp()
        self.apps = self.runtime / "apps" / f"leat-{MALLORY}"
        self.apps.mkdir(mode=0o700)
        if IS_TWO:
            os.chown(self.apps, MALLORY, MALLORY)
        self.files = 0
        self.running = self.daemon()
        self.trace = self.create_active("web", "order:*")
        self.healthy = self.program()
        self.emitted = self.healthy.do("emit 10")
        self.later = 0

    def put(self, make):
        """Lets `make` make a control file, and gives it its name."""
        self.files += 1
        new, path = (self.apps / f"{self.files:016x}.{ending}" for ending in ("new", "app"))
        make(new)
        if IS_TWO and not new.is_symlink() and new.stat().st_uid == 0:
            os.chown(new, MALLORY, MALLORY)
        new.rename(path)
        return path

    def put_bytes(self, content, size):
        """One of a dead program."""
        def make(new):
            new.write_bytes(content)
            os.truncate(new, size)
        return self.put(make)

    def held(self, content, size):
        """One that its program has locked, as living ones have."""
        def make(new):
            new.write_bytes(content)
            os.truncate(new, size)
            file = open(new, "r+b")
            fcntl.flock(file, fcntl.LOCK_SH)
            self.addCleanup(file.close)
        return self.put(make)

    def assert_others_lose_nothing(self):
        """The healthy program goes on, another one starts, and commands are answered."""
        self.emitted = self.healthy.do("emit 10")
        self.assert_takes_less(AT_ONCE, self.json, "list", "--programs")
        program = self.program()
        program.do("emit 10")
        self.later += 10
        program.end()

    def assert_logged(self, pattern):
        wait_until(lambda: re.search(pattern, self.running.log()), f"the log does not say {pattern}: " + self.running.log())

    def assert_complete(self):
        trace = self.complete_trace("web", self.trace)
        ticks = [event for event in trace.events("order:tick")]
        self.assertEqual([event["n"] for event in ticks if event["vpid"] == self.healthy.pid], list(range(self.emitted)))
        self.assertEqual(len(ticks), self.emitted + self.later)

    def peer(self, script, uid=MALLORY):
        """Runs a script as a program of that user. It prints a line when it has done its worst, and waits for us."""
        places = str(self.runtime / "apps" / f"leat-{uid}"), str(self.running.directory / "app.sock")
        source = f"{PEER}\npeer = Peer(*{places})\n{script}\nprint('done', flush=True)\ninput()\n"
        process = subprocess.Popen(["python3", "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   **as_user(uid))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def done(self, process):
        """What it printed."""
        lines = []
        for line in process.stdout:
            if line == "done\n":
                return lines
            lines.append(line)
        raise AssertionError("the peer failed")


class ControlFiles(HostileTest):
    def obstructed(self):
        """A program whose user has put something where its trace is to be. Its events stay in the rings."""
        (self.trace / "ust" / "uid" / str(MALLORY) / "64-bit" / "full").mkdir(parents=True)
        program = self.program(uid=MALLORY)
        self.assert_logged("64-bit exists already: events stay in the rings")
        program.do("emit 10")
        return program

    @needs(IS_TWO, "two-users")
    def test_directory_in_the_way_of_a_trace_keeps_nobody_from_a_rotation(self):
        self.obstructed()
        self.leat("rotate", "web")
        self.emitted = self.healthy.do("emit 10")
        self.later += 10  # of the next chunk
        self.assert_complete()

    @needs(IS_TWO, "two-users")
    def test_directory_in_the_way_of_a_trace_keeps_nobody_from_a_clear(self):
        self.obstructed()
        self.leat("clear", "web")
        before, self.emitted = self.emitted, self.healthy.do("emit 10")
        self.assertIn("64-bit exists already", self.leat("stop", "web").stderr)
        ticks = self.read(self.trace).events("order:tick")
        self.assertEqual([event["n"] for event in ticks], list(range(before, self.emitted)))

    def test_what_is_no_regular_file(self):
        self.put(os.mkfifo)
        self.assert_logged(r"0{15}1\.app.*no regular file")
        self.put(os.mkdir)
        self.assert_logged(r"0{15}2\.app.*directory")
        target = self.directory / "target"
        target.write_bytes(b"untouched")
        self.put(lambda new: new.symlink_to(target))
        self.assert_logged(r"0{15}3\.app")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bound:
            self.put(lambda new: bound.bind(str(new)))
        self.assert_logged(r"0{15}4\.app")
        self.assert_others_lose_nothing()
        self.assert_complete()
        self.assertEqual(target.read_bytes(), b"untouched")

    def test_header_that_lies(self):
        content, size = control_file()
        cases = [(b"", 0), (b"", 1 << 40), (content[:100], 100), (content, size - 1), (content, size + 1),
                 (b"X" + content[1:], size), control_file(version=3), control_file(version=9999), control_file(bits=7),
                 control_file(count=1_000_000), control_file(count=0xffffffff), control_file(described=0xffffffff),
                 control_file(described=16 << 20, count=900_000), control_file(described=3)]
        for number, (content, size) in enumerate(cases, 1):
            before = self.running.log().count("is not traced")
            self.held(content, min(size, 1 << 40))
            wait_until(lambda: self.running.log().count("is not traced") > before, f"case {number} is not in the log")
        self.assert_others_lose_nothing()
        self.assert_complete()

    def test_table_that_lies(self):
        good = table_of([b"order:tick"])
        field = text(b"f") + struct.pack("<BBBBBII", 0, 0, 4, 0, 0, 0, 0)
        for number, table in enumerate((
                b"\0" * len(good), good[:20].ljust(len(good), b"\xff"), good.replace(b"order:tick", b"order\0tick"),
                struct.pack("<4sIII", b"LETD", 2, 50, len(good)) + good[16:],
                struct.pack("<4sIII", b"LETD", 99, 1, len(good)) + good[16:], good[:-4] + struct.pack("<I", 10 ** 6),
                good[:-4] + struct.pack("<I", 10 ** 6) + field * 100_000)):
            content, size = control_file(table=table)
            self.held(content, size)
            if number % 3 == 0:
                self.assert_others_lose_nothing()
        self.assert_others_lose_nothing()
        self.assertIn("is not traced", self.running.log())
        self.assert_complete()

    def test_names_that_are_none(self):
        for name in (b"", b"order:\n", b"order:\x1b[31m", b"order:\"}; event {", b"order:" + b"x" * 65000, b"order:\xff\xfe",
                     b"*", b"order:%s%n{}"):
            content, size = control_file(names=[name])
            self.held(content, size)
        self.assert_others_lose_nothing()
        self.assertNotIn("\x1b", self.running.log())
        self.assert_complete()

    def test_many_tracepoints(self):
        """Each of them matches. What they cost grows with their number: some 10 us of the daemon for each change."""
        for names in ([b"order:a"] * 20_000, [b"order:%d" % n for n in range(20_000)]):
            content, size = control_file(names=names)
            self.held(content, size)
            self.assert_others_lose_nothing()
        self.leat("disable-event", "order:*")
        self.leat("enable-event", "order:*")
        self.assert_others_lose_nothing()
        self.leat("stop")

    def test_file_that_is_truncated_while_it_is_read(self):
        content, size = control_file(names=[b"order:%d" % n for n in range(1000)])
        self.change_while_read(content, size, lambda fd: (os.ftruncate(fd, 100), os.ftruncate(fd, 5000),
                                                          os.pwrite(fd, content, 0), os.ftruncate(fd, size)))

    def test_table_that_changes_while_it_is_read(self):
        content, size = control_file(names=[b"order:%d" % n for n in range(1000)])
        noise = os.urandom(4096)
        self.change_while_read(content, size, lambda fd: (
            os.pwrite(fd, noise, HEADER + ENTRY * 1000 + 16 + random.randrange(8000)), os.pwrite(fd, content, 0),
            os.pwrite(fd, noise, HEADER + random.randrange(60000))))

    def change_while_read(self, content, size, change):
        path = self.held(content, size)
        is_over = threading.Event()

        def change_all_the_time():
            fd = os.open(path, os.O_RDWR)
            while not is_over.is_set():
                change(fd)
            os.close(fd)
        changing = threading.Thread(target=change_all_the_time)
        changing.start()
        away = self.apps / "away"
        try:
            for turn in range(50):
                path.rename(away)
                away.rename(path)
                if turn % 10 == 0:
                    self.assert_others_lose_nothing()
                time.sleep(0.01)  # moment: the file changes all the time
        finally:
            is_over.set()
            changing.join()
        path.unlink()
        self.assert_others_lose_nothing()
        counts = self.stopped("web")
        ticks = [event["n"] for event in self.trace_of(self.trace, counts).events("order:tick")
                 if event["vpid"] == self.healthy.pid]
        self.assertEqual(ticks, list(range(self.emitted)))

    def test_flood_of_warnings(self):
        """Files that come and go."""
        for _ in range(10):
            bad = [self.put(os.mkfifo) for _ in range(30)]
            self.json("list")
            for path in bad:
                path.unlink()
            self.json("list")
        self.assert_others_lose_nothing()
        # 50 a minute.
        told = self.running.log().count("no regular file")
        self.assertGreaterEqual(told, 50)
        self.assertLess(told, 300)
        self.assert_complete()

    def test_flood_of_notifications(self):
        content, size = control_file()
        path = self.held(content, size)
        script = f"""
import itertools
for turn in itertools.count():
    os.rename({str(path)!r}, {str(path)!r} + "x"); os.rename({str(path)!r} + "x", {str(path)!r})
    if turn == 1000: print("done", flush=True)
"""
        self.done(self.peer(script))
        for _ in range(5):
            self.assert_others_lose_nothing()
        self.assert_complete()

    def test_many_files(self):
        """Those of programs that are there cost a descriptor each, and the others nothing."""
        content, size = control_file()
        before = self.running.descriptors()
        for _ in range(200):
            self.held(content, size)
        for _ in range(2800):
            self.put_bytes(content, size)
        self.assert_others_lose_nothing()
        wait_until(lambda: self.running.descriptors() < before + 250, "files of nobody keep descriptors")
        self.assert_complete()

    @needs(IS_TWO, "two-users")
    def test_another_users_file(self):
        """By a hard link, and given away: it is that user's, and stays as it is."""
        victim = self.program(uid=VICTIM)
        victim.do("emit 5")
        theirs, = (self.runtime / "apps" / f"leat-{VICTIM}").glob("*.app")
        before = theirs.read_bytes()
        os.link(theirs, self.apps / "00000000000000aa.new")
        (self.apps / "00000000000000aa.new").rename(self.apps / "00000000000000aa.app")
        self.assert_logged(r"0{14}aa\.app")
        given = self.held(*control_file())
        os.chown(given, VICTIM, VICTIM)
        again = self.apps / "00000000000000bb.app"
        given.rename(again)
        self.assert_logged(r"0{14}bb\.app")
        self.assertEqual(theirs.read_bytes(), before)
        self.emitted = self.healthy.do("emit 10")
        victim.do("emit 5")
        counts = self.stopped("web")
        self.assertEqual((counts["events"], discarded(counts)), (2 * self.emitted + 20, 0))


REGISTERED = """
import fcntl, mmap
content, size = {content!r}, {size}
path = peer.directory + "/00000000000000ee"
with open(path + ".new", "w+b") as file:
    file.write(content); file.flush(); file.truncate(size)
    fcntl.flock(file, fcntl.LOCK_SH)
    os.rename(path + ".new", path + ".app")
    held = os.dup(file.fileno())
with peer.connect() as connection:
    connection.send(struct.pack("<4sHHQ", b"LEAP", 5, 6, 0xee))
    channel, fds, _, _ = socket.recv_fds(connection, 100, 4)
number = struct.unpack_from("<I", channel, 8)[0]
"""


class Places(SessionTest):
    @needs(IS_TWO, "two-users")
    def test_directory_that_another_user_has_made(self):
        """Its user's programs are not traced, and the log says why, once. Root's is there before."""
        apps = self.runtime / "apps"
        apps.chmod(0o1777)
        taken = apps / f"leat-{VICTIM}"
        taken.mkdir(mode=0o700)
        os.chown(taken, MALLORY, MALLORY)
        daemon = self.daemon()
        self.assertTrue((apps / "leat-0").is_dir())
        victim = self.program(uid=VICTIM)
        self.assertEqual(victim.do("emit 10"), 10)
        for _ in range(3):
            self.leat("list", "--programs")
        words = f"leat-{VICTIM} belongs to user {MALLORY}"
        wait_until(lambda: words in daemon.log(), "the log says nothing")
        self.assertEqual(daemon.log().count(words), 1)
        taken.rmdir()
        other = self.program(uid=VICTIM)
        self.wait_for_programs(other)

    def test_link_in_place_of_the_directory_of_all_programs(self):
        """LEAT_RUNTIME_DIR may be somebody else's, who must not make us open a directory of ours to all."""
        ours = self.directory / "ours"
        ours.mkdir(mode=0o700)
        (self.runtime / "apps").rmdir()
        (self.runtime / "apps").symlink_to(ours)
        refused = SessionDaemon(self.runtime, is_awaited=False)
        self.addCleanup(refused.log_file.close)
        self.addCleanup(refused.stop)
        wait_until(refused.has_begun, "the daemon neither starts nor ends")
        self.assertIn(f"cannot use {self.runtime}/apps", refused.log())
        self.assertEqual(refused.stop(), 1)
        self.assertEqual(stat.S_IMODE(ours.stat().st_mode), 0o700)


def mounted_silent(fuse, directory):
    """Executes what follows where this directory is on a file system that answers nothing until the descriptor is closed."""
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other"
    script = f'mount -i -t fuse -o {options} none "{directory}" && exec "$@" {fuse}>&-'
    return ("unshare", "--mount", "bash", "-c", script, "bash")


def has_silent_file_systems():
    if not IS_TWO or not os.path.exists("/dev/fuse"):
        return False
    fuse = os.open("/dev/fuse", os.O_RDWR)
    try:
        return subprocess.run([*mounted_silent(fuse, "/mnt"), "true"], pass_fds=[fuse], stderr=subprocess.DEVNULL,
                              check=False).returncode == 0
    finally:
        os.close(fuse)


class Homes(SessionTest):
    @needs(has_silent_file_systems(), "silent-file-systems")
    def test_home_that_does_not_answer(self):
        """As a network's that is down, or that of a user who means harm. Others are served."""
        home = self.directory / "home"
        home.mkdir()
        fuse = os.open("/dev/fuse", os.O_RDWR)
        daemon = self.daemon(wrapper=mounted_silent(fuse, home), pass_fds=[fuse])
        self.addCleanup(os.close, fuse)  # before the daemon ends
        tasks = f"/proc/{daemon.process.pid}/task"
        threads = len(os.listdir(tasks))
        waiting = daemon.connect()
        self.addCleanup(waiting.close)
        waiting.sendall(json.dumps({"version": 1, "verb": "create", "session": "silent", "home": str(home)}).encode() + b"\n")
        wait_until(lambda: len(os.listdir(tasks)) > threads, "its thread does not begin")
        self.create_active("web", "order:*")
        self.program().do("emit 10")
        self.leat("destroy", "web")


class Rings(HostileTest):
    def registered(self, script, uid=MALLORY):
        content, size = control_file(names=[b"order:mallory"])
        return self.peer(REGISTERED.format(content=content, size=size) + script, uid)

    @needs(IS_TWO, "two-users")
    def test_program_that_scribbles_over_its_rings(self):
        """Its user's events are lost, and those of others are there."""
        scribbling = self.registered("""
memory = mmap.mmap(fds[0], 0)
print(len(memory), len(fds))
for turn in range(20):
    for at in range(0, min(len(memory), 1 << 24), 4096):
        memory[at:at + 256] = os.urandom(256)
    time.sleep(0.05)
""")
        size, count = map(int, self.done(scribbling)[0].split())
        self.assertGreater(size, 1 << 20)
        self.assertEqual(count, 2)
        own = self.program(uid=MALLORY)
        own.do("emit 100")
        self.assert_others_lose_nothing()
        self.assert_logged("a traced program overwrote it")
        counts = self.json("stop")
        self.assert_takes_less(AT_ONCE, self.json, "list")
        trace = self.trace / "ust" / "uid" / "0"
        ticks = [event["n"] for event in self.read(trace).events("order:tick") if event["vpid"] == self.healthy.pid]
        self.assertEqual(ticks, list(range(self.emitted)))
        self.assertIn("events", counts)
        self.assert_takes_less(5, self.leat, "destroy")

    def test_memory_cannot_be_made_smaller(self):
        process = self.registered("""
for fd in fds:
    for do in (lambda: os.ftruncate(fd, 0), lambda: os.ftruncate(fd, 1 << 40), lambda: os.pwrite(fd, b"x", 1 << 40)):
        try:
            do()
            print("did it")
        except OSError:
            print("refused")
""")
        self.assertEqual(self.done(process), ["refused\n"] * 6)
        self.assert_others_lose_nothing()
        self.assert_complete()

    @needs(IS_TWO, "two-users")
    def test_channels_of_another_user_are_not_given_away(self):
        first = self.registered("print(number, len(peer.ask(number)[1]))")
        number, count = map(int, self.done(first)[0].split())
        self.assertEqual(count, 2)
        other = self.peer(f"print([peer.ask(n) for n in ({number}, {number} + 4, 0, 0xffffffff)])", VICTIM)
        self.assertEqual(self.done(other), [f"{[(b'', [])] * 4}\n"])
        self.assert_others_lose_nothing()
        self.assert_complete()


class Peers(HostileTest):
    def test_peer_that_says_garbage(self):
        process = self.peer("""
for said in (b"", b"x", b"LEAP", struct.pack("<4sHH", b"LEAP", 3, 1), struct.pack("<4sHH", b"LEAP", 5, 99),
             struct.pack("<4sHH", b"LEAP", 5, 1), os.urandom(10000), struct.pack("<4sHHII", b"LEAP", 5, 5, 7, 7)[:9]):
    with peer.connect() as connection:
        connection.send(said)
with peer.connect() as connection:
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(200)]
    try:
        socket.send_fds(connection, [struct.pack("<4sHH", b"LEAP", 5, 1)], files)
    except OSError:
        pass
with peer.connect() as connection:
    socket.send_fds(connection, [struct.pack("<4sHH", b"LEAP", 5, 1)], [files[0]])
with peer.connect() as connection:
    socket.send_fds(connection, [struct.pack("<4sHH", b"LEAP", 5, 1)], [os.memfd_create("none")])
""")
        before = self.running.descriptors()
        self.done(process)
        self.assert_others_lose_nothing()
        self.assert_logged("is not traced")
        wait_until(lambda: self.running.descriptors() <= before + 8, "descriptors stay open")
        self.assert_complete()

    def test_peers_that_say_nothing(self):
        peers = self.peer("""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, max(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
silent = []
for _ in range(1000):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setblocking(False)
    for _ in range(100):
        try:
            connection.connect(peer.socket_path)
            break
        except BlockingIOError:
            time.sleep(0.001)
    silent.append(connection)
""")
        self.done(peers)
        for _ in range(3):
            self.assert_takes_less(AT_ONCE, self.assert_others_lose_nothing)
        self.assert_complete()

    def test_program_that_is_stopped_in_the_middle(self):
        process = self.peer("connection = peer.connect()")
        self.done(process)
        stop_process(process.pid)
        self.assert_others_lose_nothing()
        self.assert_complete()


if __name__ == "__main__":
    main()
