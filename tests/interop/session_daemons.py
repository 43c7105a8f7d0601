"""Session daemons for the interop tests, each in a runtime directory of its own, the verbs that steer them, and programs
that do as they are told."""
import collections
import json
import mmap
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

from relays import LeatRelay
from support import BUILD, DISCARDED, HAS_RSEQ, IS_WHOLE, LEAT, PATIENCE, SANITIZERS, InteropTest, plain_run, program, state_of, wait_until

SESSIOND = str(BUILD / "bin" / "leat-sessiond")
DECLARATIONS = 1 if HAS_RSEQ else 2  # of an event in the metadata: once more for the streams of threads' rings
KEEPER_PATIENCE = 5  # s; until a keeper that nobody needs has ended
METADATA_MAGIC = struct.pack("<I", 0x75D11D57)
TICKS = ("order:tick", "order:tock", "stock:tick")  # what test-program-commanded emits
# At the begin of a chunk, babeltrace2 does not know how many were discarded before.
DISCARDED_IN_CHUNK = re.compile(f"{DISCARDED.pattern}|^WARNING: Tracer may have discarded events ")
LOAD_TICK = re.compile(r" load:tick: .* vpid = (\d+), .* n = (\d+) ")


def as_user(uid):
    """How to start a process as this user."""
    return {} if uid is None or uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}


def is_whole(answer):
    return answer.endswith(b"\n") and not answer.splitlines()[-1].startswith(b'{"progress"')


class SessionDaemon:
    """A daemon in the foreground that is ready, or with is_awaited=False, may not be yet. `wrapper` is a command that
    executes what follows."""

    def __init__(self, runtime, *options, uid=None, wrapper=(), is_awaited=True, **arguments):
        self.start_arguments = {"uid": uid, "wrapper": wrapper, **arguments}
        self.options = options
        self.uid = os.geteuid() if uid is None else uid
        self.directory = runtime if self.uid == 0 else runtime / "apps" / f"leat-{self.uid}"
        self.log_file = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen([*wrapper, SESSIOND, "-v", *options], stdin=subprocess.DEVNULL,
                                        stderr=self.log_file, **as_user(uid), **arguments)
        if is_awaited:
            self.wait_for_start()

    def wait_for_start(self):
        wait_until(self.has_begun, "the daemon does not start")
        if not self.is_alive():
            raise AssertionError(f"the daemon does not start: {self.log()}")

    def has_begun(self):
        return not self.is_alive() or " ready in " in self.log()

    def is_alive(self):
        return self.process.poll() is None

    def log(self):
        """So far. We share the file position with the daemon, so reading must not move it."""
        return os.pread(self.log_file.fileno(), os.fstat(self.log_file.fileno()).st_size, 0).decode(errors="replace")

    def stop(self, signal_number=signal.SIGTERM):
        """Returns its exit status."""
        if self.is_alive():
            # In this order: LeakSanitizer stops the process when it ends, and waits for ever if SIGCONT comes in between.
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal_number)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired as error:
            where = self.where_it_is()
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the daemon does not end:\n{where}\n{self.log()}") from error

    def where_it_is(self):
        """What the kernel says of its threads."""
        found = []
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*"):
            for name in ("status", "stack", "syscall", "wchan"):
                try:
                    text = (task / name).read_text(errors="replace")
                except OSError as error:
                    text = str(error)
                wanted = [line for line in text.splitlines() if name != "status" or line.startswith(("Name", "State", "Sig"))]
                found.append(f"{task.name} {name}: {'; '.join(wanted)}")
        return "\n".join(found)

    def send_signal(self, number):
        self.process.send_signal(number)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory_kib(self, kind="VmRSS"):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{kind}:\s+(\d+)", status)[1])

    def connect(self):
        """A client's connection."""
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(PATIENCE)
        try:
            client.connect(str(self.directory / "control.sock"))
        except OSError:
            client.close()
            raise
        return client

    def ask(self, verb, **members):
        """Tells it to do something. Returns the answer as soon as it is there; nothing if the daemon dies of it."""
        answer = b""
        try:
            with self.connect() as client:
                client.sendall(json.dumps({"version": 1, "verb": verb, **members}).encode() + b"\n")
                while not is_whole(answer) and (received := client.recv(1 << 16)):
                    answer += received
        except (ConnectionError, FileNotFoundError):
            return None
        # Lines that say that it is under way may come before.
        return json.loads(answer.splitlines()[-1]) if answer else None


class Commanded:
    """tests/programs/commanded.c."""

    def __init__(self, path, uid=None, **variables):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env={**os.environ, **variables}, **as_user(uid))
        self.pid = self.process.pid

    def say(self, line):
        self.process.stdin.write(line + "\n")

    def answer(self):
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            raise TimeoutError("the program does not answer")
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the program ended with {self.process.wait()}")
        return int(line)

    def do(self, line):
        """Returns how often it has emitted so far."""
        self.say(line)
        return self.answer()

    def end(self):
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    def kill(self):
        self.process.kill()
        self.process.communicate()


class Switched:
    """tests/programs/switched.c. `wrapper` is a command that starts what follows."""

    def __init__(self, path, burst, pause_us, wrapper=(), arguments=None, **variables):
        self.path = path
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.process = subprocess.Popen([*wrapper, program("switched"), path, str(burst), str(pause_us)],
                                        env={**os.environ, **variables}, **(arguments or {}))
        self.pid = self.process.pid

    def begun(self):
        return struct.unpack_from("<Q", self.memory, 8)[0]

    def evaluated(self):
        return struct.unpack_from("<Q", self.memory, 16)[0]

    def end(self):
        struct.pack_into("<Q", self.memory, 0, 1)
        return self.process.wait(PATIENCE)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.memory.close()


class SessionTest(InteropTest):
    """Tests that steer daemons. Programs are told to emit before, while and after a session is active."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.end_keepers)
        # Daemons and programs of other users, too.
        for directory in (self.runtime, self.directory):
            directory.chmod(0o755)
        (self.runtime / "apps").mkdir()
        (self.runtime / "apps").chmod(0o1777)

    def daemon(self, *options, uid=None, **arguments):
        """Starts a daemon. At the end of the test it ends well, whatever was done to it."""
        daemon = SessionDaemon(self.runtime, *options, uid=uid, **arguments)
        self.addCleanup(self.end_daemon, daemon)
        return daemon

    def kill(self, daemon):
        """What happens to it until then, nobody has time to store."""
        status = daemon.stop(signal.SIGKILL)
        self.assertEqual(status, -signal.SIGKILL, daemon.log())

    def assert_takes_less(self, seconds, function, *arguments, **options):
        """In the gate, and with sanitizers, it need only end: a busy machine decides when."""
        took = elapsed(function, *arguments, **options)
        if IS_WHOLE and not SANITIZERS:
            self.assertLess(took, seconds)

    def start_again(self, daemon, **arguments):
        """A daemon in place of one that was killed."""
        return self.daemon(*daemon.options, **{**daemon.start_arguments, **arguments})

    def restart(self, daemon):
        self.kill(daemon)
        return self.start_again(daemon)

    def keepers(self, uid=None):
        """The processes that keep what must survive the daemons of this test, or those of one user."""
        ours = f"LEAT_RUNTIME_DIR={self.runtime}".encode()
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                is_keeper = (process / "comm").read_bytes() == b"leat-keeper\n"  # names of others may be any bytes
                # A dead one that nobody waits for has no environment.
                if is_keeper and ours in (process / "environ").read_bytes().split(b"\0"):
                    if uid is None or process.stat().st_uid == uid:
                        found.append(int(process.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                pass
        return found

    def kept_by(self, keeper):
        """How many descriptors it has, when it has taken all that was sent to it: then it sleeps. Nobody else waits for it."""
        wait_until(lambda: state_of(keeper) == "S", "the keeper has no rest")
        return len(os.listdir(f"/proc/{keeper}/fd"))

    def end_keepers(self):
        """Those of daemons that a test has killed for good."""
        for pid in self.keepers():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def end_daemon(self, daemon):
        was_alive = daemon.is_alive()
        status = daemon.stop()
        log = daemon.log()
        daemon.log_file.close()
        self.assertTrue(was_alive or status in (0, -signal.SIGKILL), f"the daemon has failed with {status}: {log}")
        self.assertNotRegex(log, r"\bruntime error: |[a-z]Sanitizer: ")
        if was_alive:
            self.assertEqual(status, 0, log)

    def begun_with_unlike_channels(self):
        """Two sessions that record the same tracepoints in channels of their own. Returns their directories."""
        directories = {}
        for name, header in (("first", "large"), ("second", "compact")):
            directories[name] = self.create(name)
            self.leat("enable-channel", "plain", f"--header={header}", "--ring-size=4M")
            self.leat("enable-channel", "rich", "--ring-size=2M")
            self.leat("enable-event", "order:*", "-c", "plain")
            self.leat("enable-event", "*:tick", "-c", "rich")
        self.leat("add-context", "ip", "-s", "first", "-c", "rich")
        self.leat("add-context", "ip", "-s", "second", "-c", "plain")
        for name in directories:
            self.leat("start", name)
        return directories

    def leat(self, *arguments, uid=None, status=0, **options):
        """Runs a verb, which ends with this status and is not silent."""
        result = subprocess.run([LEAT, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE,
                                **as_user(uid), **options)
        self.assertEqual(result.returncode, status, (arguments, result.stdout, result.stderr))
        self.assertTrue(result.stdout if status == 0 else result.stderr, f"{arguments} is silent")
        return result

    def json(self, *arguments, **options):
        """The object that a verb prints."""
        return json.loads(self.leat(*arguments, "--format=json", **options).stdout)

    def session(self, name, **options):
        """What `list` says about a session."""
        session, = self.json("list", name, **options)["sessions"]
        return session

    def create(self, name, uid=None):
        """Makes a session, and returns where its trace goes."""
        parent = self.directory / f"of-{uid}"
        if not parent.exists():
            parent.mkdir(mode=0o755)
            if uid is not None:
                os.chown(parent, uid, uid)
        directory = parent / name
        for turn in range(2, 100):
            if not directory.exists():
                break
            directory = parent / f"{name}-{turn}"
        self.leat("create", name, "-o", directory, uid=uid)
        return directory

    def create_active(self, name, *patterns, uid=None, channel=(), options=()):
        """A session that records these events, in a channel with options of its own or in the default one."""
        directory = self.create(name, uid=uid)
        if channel:
            self.leat("enable-channel", "c", "-s", name, *channel, uid=uid)
        self.leat("enable-event", *patterns, "-s", name, *options, uid=uid)
        self.leat("start", name, uid=uid)
        return directory

    def program(self, name="commanded", uid=None, **variables):
        """Starts one. The name is that of a program of the tests, or a path."""
        started = Commanded(name if "/" in str(name) else program(name), uid=uid, **variables)
        self.addCleanup(started.kill)
        return started

    def copy_of_program(self, name):
        """Starts another program of the same source."""
        path = shutil.copy(program("commanded"), self.directory / name)
        return self.program(path, LD_LIBRARY_PATH=str(BUILD / "lib"))

    def wait_for_programs(self, *programs, uid=None):
        """Until the daemon knows them."""
        def are_known():
            known = {entry["pid"] for entry in self.json("list", "--programs", uid=uid)["programs"]}
            return known.issuperset(started.pid for started in programs)
        wait_until(are_known, "a program is not known")

    def wait_for_program_count(self, count):
        """Until the daemon knows as many programs."""
        wait_until(lambda: len(self.json("list", "--programs")["programs"]) == count, f"there are not {count} programs")

    def attach(self, name, running):
        """Lets a program that is older than the session emit until it has the rings: for the first events, it waits 10 ms
        at most, and counts what it cannot write."""
        wait_until(lambda: self.is_attached(name, running), "a program does not get its rings")

    def is_attached(self, name, running):
        """By an event that it is to emit."""
        before = discarded(self.session(name))
        running.do("emit 1")
        return discarded(self.session(name)) == before

    def trace_of(self, directory, counts=None):
        """Reads a trace with all readers. It is as complete as these counts, of `stop` or `destroy`, say. There is no ring
        to tell of what came before its program had one."""
        trace = self.read(directory)
        if counts is not None:
            self.assertEqual(len(trace.lines), counts["events"])
            reasons = by_reason(counts)
            self.assertEqual(trace.discarded(), sum(reasons.values()) - reasons.get("not_attached", 0))
        return trace

    def stopped(self, name, **options):
        """Stops a session. Returns what it counted."""
        counts = self.json("stop", name, **options)
        self.assertEqual(counts["warnings"], [])
        return counts

    def complete_trace(self, name, directory, uid=None):
        """Stops the session. Returns its trace; nothing was discarded."""
        counts = self.stopped(name, uid=uid)
        self.assertEqual(discarded(counts), 0, counts)
        trace = self.trace_of(directory, counts)
        self.assertEqual(trace.stderr, "")
        return trace

    def chunks_of(self, directory):
        """The directories of a trace's chunks in their order, the current one last."""
        name = re.compile(r"\d{8}T\d{6}[+-]\d{4}(?:-\d{8}T\d{6}[+-]\d{4})?-(\d+)")
        chunks = [(int(match[1]), path) for parent in (directory / "archives", directory) if parent.exists()
                  for path in parent.iterdir() if (match := name.fullmatch(path.name))]
        # Not yet in the archives?
        first = [directory / "ust"] if chunks and (directory / "ust").exists() else []
        return [*first, *(path for _, path in sorted(chunks))] if chunks else [directory]

    def numbers_of(self, directory, warnings=DISCARDED_IN_CHUNK):
        """The numbers of the load:tick of each program, in the order of the trace or chunk; all readers agree about them."""
        same = subprocess.run(["bash", "-c", 'set -o pipefail; cmp <(babeltrace2 "$1" 2>"$3") <("$2" view "$1")', "bash",
                               directory, LEAT, self.directory / "warnings"], capture_output=True, text=True)
        self.assertEqual((same.returncode, same.stdout), (0, ""), same.stderr)
        for line in (self.directory / "warnings").read_text().splitlines():
            self.assertRegex(line, warnings)
        numbers = collections.defaultdict(list)
        with subprocess.Popen([LEAT, "view", directory], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL) as view:
            for line in view.stdout:
                if match := LOAD_TICK.search(line):
                    numbers[int(match[1])].append(int(match[2]))
        self.assertEqual(view.returncode, 0)
        return numbers

    def assert_numbers(self, trace, name, *numbers):
        """The events of this name have these numbers, in this order."""
        self.assertEqual([event["n"] for event in trace.events(name)], [n for part in numbers for n in part], name)


class RestartTest(SessionTest):
    """Tests that kill daemons and start them again."""

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("LEAT_SEED", random.randrange(1 << 32)))
        self.random = random.Random(self.seed)

    def assert_no_keeper(self, **options):
        wait_until(lambda: not self.keepers(**options), "keepers are left")

    def control_files(self):
        return sorted((self.runtime / "apps").glob("leat-*/*.app"))

    def begun(self, *patterns, channel_options=(), name="web", uid=None):
        """A session with one channel that records these events."""
        directory = self.create(name, uid=uid)
        self.leat("enable-channel", "c", *channel_options, "-s", name, uid=uid)
        self.leat("enable-event", *patterns, "-s", name, uid=uid)
        self.leat("start", name, uid=uid)
        return directory

    def numbers(self, trace, name, running):
        return [event["n"] for event in trace.events(name) if event["vpid"] == running.pid]

    def switched(self, count, burst, pause_us, **variables):
        """Programs that emit under load."""
        programs = [Switched(self.directory / f"shared-{number}", burst, pause_us, **variables)
                    for number in range(count)]
        for started in programs:
            self.addCleanup(started.close)
        return programs

    def end_all(self, programs):
        """Returns how many events they have evaluated. All of them are in the trace or counted, because nobody switches
        anything off while they emit."""
        for started in programs:
            self.assertEqual(started.end(), 0)
        return sum(started.evaluated() for started in programs)

    def assert_each_once(self, directory, counts, evaluated):
        """All chunks together have each load:tick once, or it was counted."""
        seen = set()
        for chunk in self.chunks_of(directory):
            for pid, found in self.numbers_of(chunk).items():
                self.assertEqual(found, sorted(set(found)), f"order in {chunk}, seed {self.seed}")
                twice = seen.intersection((pid, n) for n in found)
                self.assertEqual(len(twice), 0, f"in two chunks: {sorted(twice)[:5]}, seed {self.seed}")
                seen.update((pid, n) for n in found)
        self.assertEqual(len(seen), counts["events"], f"seed {self.seed}")
        self.assertEqual(len(seen) + discarded(counts), evaluated, f"{counts}, seed {self.seed}")


def by_reason(counts):
    """What was discarded, of an answer of `stop` or `destroy`, or of a session in `list`."""
    channels = counts["discarded"].values() if "discarded" in counts else [c["discarded"] for c in counts["channels"]]
    reasons = collections.Counter()
    for of_channel in channels:
        reasons.update(of_channel)
    return dict(reasons)


def discarded(counts):
    """The sum of that."""
    return sum(by_reason(counts).values())


def metadata_text(data):
    """Without the packets that relays store it in."""
    header = struct.Struct("<I16sIII5x")  # magic number, trace, checksum, bits of content and of the packet
    text = b""
    while data.startswith(METADATA_MAGIC) and len(data) >= header.size:
        _, _, _, content, size = header.unpack_from(data)
        text += data[header.size:content // 8]
        data = data[size // 8:] if size else b""
    return (text + data).decode(errors="replace")


def metadata_of(directory):
    return "".join(metadata_text(path.read_bytes()) for path in sorted(directory.rglob("metadata")))


def ids_of(directory):
    """The ids of each event's name."""
    ids = collections.defaultdict(set)
    for block in re.findall(r"^event \{$(.*?)^\};$", metadata_of(directory), re.MULTILINE | re.DOTALL):
        ids[re.search(r'name = "(.*)";', block)[1]].add(int(re.search(r"\bid = (\d+);", block)[1]))
    return dict(ids)


def elapsed(function, *arguments, **options):
    """Seconds."""
    begin = time.monotonic()  # moment: for what is not in the gate
    function(*arguments, **options)
    return time.monotonic() - begin  # moment: the same


class SmallDiskTest(RestartTest):
    """The trace is on a small disk that only the daemons see."""
    DISK_SIZE = "1M"

    def setUp(self):
        super().setUp()
        self.disk = self.directory / "disk"
        self.disk.mkdir()
        self.world = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size="$2" none "$1" && echo ready && cat', "sh", self.disk,
             self.DISK_SIZE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.world.communicate)
        self.assertEqual(self.world.stdout.readline(), "ready\n")
        self.inside = ("nsenter", "--mount", f"--target={self.world.pid}")

    def on_disk(self, command):
        result = plain_run(*self.inside, "sh", "-c", command, cwd="/", env={**os.environ, "DISK": str(self.disk)})
        self.assertEqual(result.returncode, 0, result.stderr)

    def warns_of_full_disk(self):
        return any("No space left" in warning for warning in self.json("list")["warnings"])


class RelayedTest(RestartTest):
    """With a session that goes to a relay."""

    make_relay = LeatRelay

    def setUp(self):
        super().setUp()
        self.relay = self.make_relay(self.directory / "relay")
        self.addCleanup(self.relay.kill)

    def begun_over_relay(self, kind):
        """Returns a daemon, and a program that has emitted 100 events."""
        daemon = self.daemon()
        self.leat("create", "web", f"--{kind}={self.relay.url}")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        running = self.program()
        running.do("emit 100")
        is_there = self.is_shown if kind == "live" else lambda: self.relay.parts("web")
        wait_until(is_there, "the session at the relay")
        return daemon, running

    def is_shown(self):
        """Whether viewers may follow the session."""
        relay = f"net://{self.relay.address}:{self.relay.live}"
        return "/web" in subprocess.run([LEAT, "view", relay], capture_output=True, text=True, check=False).stdout
