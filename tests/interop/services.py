#!/usr/bin/env python3
"""Real servers under root's session daemon, run as their packages run them: redis as its own user, nginx with workers of
another user, PostgreSQL as its own. While they are under load, sessions come and go at random, two at once, and the
daemon is killed. Prints the figures of each.

By hand: services.py [TEST...], as root. LEAT_SERVICES_SECONDS says how long the sessions of each server come and go (3),
LEAT_SEED repeats their choices. Servers that are not installed are skipped: ./dev names the packages."""
import collections
import concurrent.futures
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
import urllib.request

from session_daemons import SessionTest
from support import BUILD, LEAT, PATIENCE, can_be_two_users, has, main, needs, plain_run, wait_until

SECONDS = float(os.environ.get("LEAT_SERVICES_SECONDS", 3))
SEED = int(os.environ.get("LEAT_SEED", random.randrange(1 << 32)))
PRELOAD = ":".join(str(BUILD / "lib" / "leat" / f"libleat-preload-{name}.so") for name in ("libc", "pthread", "dl"))
PATTERNS = ("*", "lttng_ust_libc:*", "lttng_ust_libc:malloc", "*:free", "lttng_ust_libc:*alloc", "lttng_ust_pthread:*",
            "lttng_ust_pthread:pthread_mutex_*lock", "lttng_ust_dl:*")
STEERERS = 2
DISCARDED = re.compile(r"^WARNING: Tracer discarded (\d+) events? ", re.MULTILINE)
# What babeltrace2 says about a stream whose first packet has a count: the events may have been discarded before it, in
# another chunk.
DISCARDED_BEFORE = re.compile(r"^WARNING: Tracer (?:discarded \d+|may have discarded) events? ", re.MULTILINE)
# And what it says where a chunk was cleared: its packets are missing, and what they told.
CLEARED = re.compile(r"^WARNING: Tracer (?:discarded \d+|may have discarded) (?:event|packet)s? ", re.MULTILINE)
POSTGRES = next(iter(sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), pathlib.Path("/nowhere"))


def reasons_of(counts):
    """Why how many events were discarded."""
    return sum((collections.Counter(reasons) for reasons in counts["discarded"].values()), collections.Counter())


def in_trace(counts):
    """How many of them a trace tells: those that were in no ring are in no trace."""
    return sum(count for reason, count in reasons_of(counts).items() if reason != "not_attached")


class Daemon:
    """A daemon that is killed now and then, and the verbs that steer it. Any thread may use it."""

    def __init__(self, start):
        self.start = start
        self.is_up = threading.Event()
        self.kills = 0
        self.creating = threading.Lock()  # `leat create` would start a daemon of its own
        self.begin()

    def begin(self):
        self.current = self.start()
        self.is_up.set()

    def kill(self, pause):
        with self.creating:
            self.is_up.clear()
            self.kills += 1
            self.current.stop(signal.SIGKILL)
            time.sleep(pause)
            self.begin()

    def steer(self, *arguments, harmless=None):
        """Returns the answer. A verb that meets the death of the daemon is given again. It may have been done before that,
        so it may find nothing left to do: this error is harmless, and nothing is returned."""
        is_repeated = False
        while True:
            kills = self.kills
            self.is_up.wait()
            result = subprocess.run([LEAT, *map(str, arguments), "--format=json"], capture_output=True, text=True,
                                    timeout=PATIENCE)
            if result.returncode == 0:
                return json.loads(result.stdout)
            if is_repeated and harmless and harmless in result.stdout:
                return None
            if kills == self.kills:
                raise AssertionError((arguments, result.stdout, result.stderr))
            is_repeated = True


class Finished:
    """What is known of a session that was destroyed."""

    def __init__(self, directory, counts, cleared=None, history=()):
        self.directory = directory
        self.counts = counts    # of `destroy`; none: the daemon was killed before it said them
        self.is_cleared = cleared is not None
        self.cleared = cleared or (0, 0)  # events and discarded ones of chunks that were cleared
        self.history = history

    def __str__(self):
        return "\n".join([str(self.directory), *self.history])

    def events(self):
        return self.counts["events"] - self.cleared[0]

    def discarded(self):
        """What the trace tells: at least this, and at most that. A chunk that was cleared may have told a part of it."""
        most = in_trace(self.counts)
        return most - self.cleared[1], most


class Steerer:
    """Lets sessions come and go."""

    def __init__(self, daemon, directory, number):
        self.daemon = daemon
        self.directory = directory
        self.number = number
        self.random = random.Random(SEED + number)
        self.finished = []
        self.done = collections.Counter()

    def run(self, end):
        while time.monotonic() < end:
            self.finished.append(self.session(f"s{self.number}-{len(self.finished)}"))

    def steer(self, verb, *arguments, **options):
        self.done[verb] += 1
        kills = self.daemon.kills
        answer = self.daemon.steer(verb, *arguments, **options)
        counts = f": {answer['events']}" if answer and "discarded" in answer else ""
        self.history.append(f"{verb} {' '.join(map(str, arguments))}{counts} (kill {kills} to {self.daemon.kills})")
        return answer

    def session(self, name):
        directory = self.directory / name
        self.history = []
        with self.daemon.creating:
            self.steer("create", name, "-o", directory)
        buffers = self.random.choice(("user", "user", "pid"))
        self.steer("enable-channel", "c", "-s", name, f"--buffers={buffers}",
                   f"--header={self.random.choice(('compact', 'large'))}",
                   f"--ring-size={self.random.choice(('64K', '1M', '4M'))}")
        if self.random.random() < 0.3:
            self.steer("add-context", "ip", "-s", name)
        rules = self.random.sample(PATTERNS, self.random.randrange(1, 4))
        for rule in rules:
            self.steer("enable-event", rule, "-s", name)
        self.steer("start", name)
        self.cleared = None
        self.is_rotated = False
        for _ in range(self.random.randrange(1, 7)):
            time.sleep(self.random.random() * 0.5)
            what = self.random.choice(("rotate", "stop", "clear", "rules", "list"))
            if what == "rotate":
                self.steer("rotate", name)
                self.is_rotated = True
            elif what == "stop":
                self.steer("stop", name)
                self.steer("start", name)
            elif what == "clear":
                self.clear(name)
            elif what == "rules":
                self.steer("disable-event", rules[0], "-s", name)
                rules[0] = self.random.choice([other for other in PATTERNS if other not in rules])
                self.steer("enable-event", rules[0], "-s", name)
            else:
                self.steer("list", name)
        counts = self.steer("destroy", name, harmless="no session")
        return Finished(directory, counts, self.cleared, self.history)

    def clear(self, name):
        """So that it is known what is thrown away: all, or what was recorded since a rotation."""
        before = self.steer("stop", name)
        if self.is_rotated:
            self.steer("rotate", name, harmless="nothing new")
            self.steer("start", name)
            time.sleep(self.random.random() * 0.2)
            after = self.steer("stop", name)
            events, discarded = self.cleared or (0, 0)
            self.cleared = (events + after["events"] - before["events"],
                            discarded + in_trace(after) - in_trace(before))
        else:
            self.cleared = before["events"], in_trace(before)
        self.steer("clear", name)
        self.steer("start", name)


def has_metadata(directory):
    """Whether anything was recorded: without that, there is no trace."""
    return next(directory.rglob("metadata"), None) is not None


class Server:
    """One that runs. Subclasses say how, what its load is, and what it must answer."""
    user = None  # who owns what it writes

    def __init__(self, directory):
        self.directory = directory / self.name
        self.directory.mkdir()
        shutil.chown(self.directory, self.user, self.user)
        self.log_path = directory / f"{self.name}.log"

    def start(self, *command, user=None):
        entry = pwd.getpwnam(user) if user else None
        rights = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []} if entry else {}
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory,
                                            env={**os.environ, "LD_PRELOAD": PRELOAD}, **rights)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def ends_with(self, number):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def disturb(self):
        """Does what an administrator may do meanwhile."""

    def check(self):
        """Asks for something and checks the answer."""

    def check_at_end(self):
        """Checks what the load has left."""


def run_load(*command):
    result = plain_run(*map(str, command))
    if result.returncode != 0:
        raise AssertionError(f"{command}: {result.returncode}: {result.stdout}{result.stderr}")
    return result.stdout


class Redis(Server):
    name = "redis"
    user = "redis"
    stop_signal = signal.SIGTERM
    trouble = re.compile(r"REDIS BUG|crashed|# .*[Ee]rror|terminated by signal")
    ROUND = 20000  # requests of each kind

    def begin(self):
        """Its children write the snapshots; a thread of it syncs the append-only file."""
        self.socket = self.directory / "socket"
        self.start("redis-server", "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.directory),
                   "--save", "1 1000", "--appendonly", "yes", user=self.user)
        self.counted = 0
        wait_until(lambda: plain_run("redis-cli", "-s", self.socket, "ping").stdout == "PONG\n", "redis does not answer")

    def load_round(self, number):
        run_load("redis-benchmark", "-s", self.socket, "-n", self.ROUND, "-c", 20, "-r", 1000, "-t", "set,get,lpop", "-q")
        return 3 * self.ROUND

    def ask(self, *words):
        return run_load("redis-cli", "-s", self.socket, *words).rstrip("\n")

    def check(self):
        value = f"{random.randrange(1 << 60)}" * random.randrange(1, 500)
        assert self.ask("set", "checked", value) == "OK"
        assert self.ask("get", "checked") == value
        self.counted += 1
        assert self.ask("incr", "counted") == str(self.counted)

    def disturb(self):
        assert self.ask("bgrewriteaof").startswith("Background append only file rewriting")

    def check_at_end(self):
        assert self.ask("get", "counted") == str(self.counted)


class Nginx(Server):
    name = "nginx"
    user = "www-data"
    stop_signal = signal.SIGQUIT
    trouble = re.compile(r"\[(?:error|crit|alert|emerg)\]|signal 11")
    CONFIGURATION = """
daemon off; user www-data; worker_processes 2; pid {directory}/pid; error_log stderr notice;
events {{ worker_connections 256; }}
http {{
    access_log {directory}/access; gzip on; gzip_types text/plain; default_type text/plain;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
    server {{ listen 127.0.0.1:{port}; root {directory}/www; }}
}}
"""

    def begin(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
        (self.directory / "www").mkdir()
        self.files = {name: f"{name} {size}\n" * size for name, size in (("small", 10), ("large", 20000))}
        for name, text in self.files.items():
            (self.directory / "www" / name).write_text(text)
        configuration = self.directory / "nginx.conf"
        configuration.write_text(self.CONFIGURATION.format(directory=self.directory, port=self.port))
        self.start("nginx", "-e", "stderr", "-c", str(configuration))
        wait_until(self.answers, "nginx does not answer")

    def get(self, name):
        return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{name}", timeout=PATIENCE).read().decode()

    def answers(self):
        try:
            return self.get("small")
        except OSError:
            return False

    def load_round(self, number):
        """A connection for each request: a worker that ends closes idle ones."""
        text = run_load("wrk", "-t1", "-c16", "-d1s", "-H", "Connection: close", "-H", "Accept-Encoding: gzip",
                        f"http://127.0.0.1:{self.port}/small")
        assert "Non-2xx" not in text and "Socket errors" not in text, text
        return int(re.search(r"(\d+) requests in", text)[1])

    def check(self):
        for name, text in self.files.items():
            assert self.get(name) == text, name
        time.sleep(0.01)

    def disturb(self):
        """New workers take the places of the old ones."""
        self.process.send_signal(signal.SIGHUP)


class PostgreSQL(Server):
    name = "postgres"
    user = "postgres"
    stop_signal = signal.SIGINT
    trouble = re.compile(r"PANIC|FATAL(?!:  the database system is starting up|:  terminating connection due to administrator)|ERROR|was terminated by signal|"
                         r"exited with exit code [^01]")

    def begin(self):
        self.data = self.directory / "data"
        run_load("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", POSTGRES / "initdb", "-D", self.data,
                 "-U", "postgres", "--auth=trust", "--no-sync")
        self.start(str(POSTGRES / "postgres"), "-D", str(self.data), "-k", str(self.directory), "-c", "listen_addresses=",
                   "-c", "fsync=off", "-c", "max_parallel_workers_per_gather=2", "-c", "min_parallel_table_scan_size=0",
                   user=self.user)
        wait_until(lambda: plain_run("psql", "-c", "select 1", *self.to()).returncode == 0, "postgres does not answer")
        run_load("pgbench", "-i", "-q", "-s", 2, *self.to())
        self.sum = self.ask("select sum(aid) from pgbench_accounts")

    def to(self):
        return "-h", str(self.directory), "-U", "postgres", "postgres"

    def ask(self, query):
        return run_load("psql", "-At", "-c", query, *self.to()).rstrip("\n")

    def load_round(self, number):
        """Every third round makes a connection, and so a process, for each transaction."""
        text = run_load("pgbench", "-n", "-T", 1, "-c", 4, *["-C"][number % 3 != 2:], *self.to())
        assert re.search(r"^number of failed transactions: 0 ", text, re.MULTILINE), text
        return int(re.search(r"actually processed: (\d+)", text)[1])

    def check(self):
        """Parallel workers, too, compute this sum."""
        assert self.ask("select sum(aid) from pgbench_accounts") == self.sum

    def disturb(self):
        self.process.send_signal(signal.SIGHUP)
        self.ask("vacuum (parallel 2) pgbench_accounts")

    def check_at_end(self):
        sums = {self.ask(f"select sum({column}) from {table}") for column, table in (
            ("abalance", "pgbench_accounts"), ("tbalance", "pgbench_tellers"), ("bbalance", "pgbench_branches"),
            ("delta", "pgbench_history"))}
        assert len(sums) == 1, sums


@needs(can_be_two_users(), "two-users")
class Services(SessionTest):
    def setUp(self):
        super().setUp()
        self.shared_memory = set(os.listdir("/dev/shm"))
        self.traces = self.directory / "traces"
        self.traces.mkdir()

    def throughput(self, server, seconds):
        """Requests a second."""
        begin = time.monotonic()
        requests = 0
        # On a busy machine, a round may end before its first request.
        while requests == 0 or time.monotonic() - begin < seconds:
            requests += server.load_round(0)
        return requests / (time.monotonic() - begin)

    def measure(self, server, daemon):
        """With a session that records everything, and without. Returns the session."""
        directory = self.traces / "measured"
        daemon.steer("create", "measured", "-o", directory)
        daemon.steer("enable-event", "*")
        rates = {"start": [], "stop": []}
        for _ in range(max(1, round(SECONDS / 15))):
            for verb, found in rates.items():
                daemon.steer(verb, "measured")
                found.append(self.throughput(server, max(1.0, SECONDS / 12)))
        active, inactive = (sum(found) / len(found) for found in rates.values())
        print(f"{server.name}: {active:.0f} requests a second with an active session, {inactive:.0f} without: ratio "
              f"{active / inactive:.2f}", flush=True)
        return Finished(directory, daemon.steer("destroy", "measured"))

    def sessions_under_load(self, server, daemon):
        """Returns the finished sessions."""
        steerers = [Steerer(daemon, self.traces, number) for number in range(STEERERS)]
        begin = time.monotonic()
        is_over = threading.Event()

        def repeat(action):
            number = 0
            while not is_over.is_set():
                action(number)
                number += 1
            return number

        def wait(part):
            time.sleep(max(0, begin + part * SECONDS - time.monotonic()))

        with concurrent.futures.ThreadPoolExecutor() as threads:
            running = [threads.submit(repeat, server.load_round), threads.submit(repeat, lambda _: server.check())]
            steering = [threads.submit(steerer.run, begin + SECONDS) for steerer in steerers]
            try:
                for part in (0.2, 0.5, 0.8):
                    wait(part - 0.1)
                    server.disturb()
                    wait(part)
                    daemon.kill(random.choice((0, 0.1, 0.5)))
                for steerer in steering:
                    steerer.result()
            finally:
                daemon.is_up.set()
                is_over.set()
            _, checks = (thread.result() for thread in running)
        done = sum((steerer.done for steerer in steerers), collections.Counter())
        verbs = ", ".join(f"{count} {verb}" for verb, count in sorted(done.items()))
        print(f"{server.name}: {checks} answers checked; {daemon.kills} kills of the daemon; {verbs}", flush=True)
        return [finished for steerer in steerers for finished in steerer.finished]

    def read_with(self, *reader, warnings=DISCARDED):
        """Returns the events of a trace and what it discarded."""
        with open(self.directory / "warnings", "w+") as file:
            with subprocess.Popen(reader, stdout=subprocess.PIPE, stderr=file) as process:
                events = sum(block.count(b"\n") for block in iter(lambda: process.stdout.read(1 << 20), b""))
            file.seek(0)
            text = file.read()
        self.assertEqual((reader, process.returncode), (reader, 0), text)
        for line in text.splitlines():
            self.assertRegex(line, warnings)
        return events, sum(map(int, DISCARDED.findall(text)))

    def read_chunks(self, finished):
        """Each chunk is a trace of its own. Returns the events of all."""
        archives = finished.directory / "archives"
        if not archives.exists():
            return None
        self.assertEqual(list(finished.directory.iterdir()), [archives])
        events = 0
        for chunk in archives.iterdir():
            if has_metadata(chunk):
                events += self.read_with("babeltrace2", chunk, warnings=DISCARDED_BEFORE)[0]
        return events

    def check_trace(self, finished):
        """Returns its events and what it discarded."""
        if not has_metadata(finished.directory):
            return 0, 0
        warnings = CLEARED if finished.is_cleared else DISCARDED
        found = self.read_with("babeltrace2", finished.directory, warnings=warnings)
        self.assertEqual(self.read_with(LEAT, "view", finished.directory, warnings=warnings), found, finished.directory)
        self.assertIn(self.read_chunks(finished), (None, found[0]), finished.directory)
        return found

    def check_owners(self, directory):
        """Returns the users."""
        users = set()
        for part in directory.rglob("ust/uid/*"):
            users.add(int(part.name))
            for path in (part, *part.rglob("*")):
                status = path.stat()
                mode = 0o750 if stat.S_ISDIR(status.st_mode) else 0o640
                self.assertEqual((path, status.st_uid, oct(stat.S_IMODE(status.st_mode))), (path, int(part.name), oct(mode)))
        return users

    def check_traces(self, server, sessions):
        users = set()
        total = collections.Counter()
        for finished in sessions:
            users |= self.check_owners(finished.directory)
            events, discarded = self.check_trace(finished)
            size = sum(path.stat().st_size for path in finished.directory.rglob("*") if path.is_file())
            total.update(events=events, bytes=size)
            if finished.counts is None:
                total.update(uncounted=1)
                continue
            total.update(reasons_of(finished.counts))
            self.assertEqual(finished.counts["warnings"], [])
            self.assertEqual(events, finished.events(), finished)
            least, most = finished.discarded()
            self.assertTrue(least <= discarded <= most, f"{least} <= {discarded} <= {most}: {finished}")
        print(f"{server.name}: {len(sessions)} sessions of users {sorted(users)}: {dict(total)}", flush=True)
        self.assertGreater(total["events"], 0)
        self.assertIn(pwd.getpwnam(server.user).pw_uid, users)

    def processes(self):
        """Those that have our runtime directory in their environment, except us."""
        ours = f"LEAT_RUNTIME_DIR={self.runtime}\0".encode()
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if int(path.name) != os.getpid() and ours in (path / "environ").read_bytes() + b"\0":
                    found[int(path.name)] = (path / "comm").read_text().strip()
            except OSError:
                pass
        return found

    def check_nothing_is_left(self, server):
        wait_until(lambda: not self.processes(), f"processes are left: {self.processes()}")
        left = [str(path) for path in self.runtime.rglob("*") if not path.is_dir() and path.name != "lock"]
        self.assertEqual(left, [])
        user = pwd.getpwnam(server.user).pw_uid
        for name in set(os.listdir("/dev/shm")) - self.shared_memory:
            path = pathlib.Path("/dev/shm") / name
            is_ours = path.exists() and path.stat().st_uid == user and not name.startswith("PostgreSQL.")
            self.assertFalse(is_ours, path)

    def serve(self, kind):
        print(f"\n{kind.name}: seed {SEED}", flush=True)
        daemon = Daemon(self.daemon)
        server = kind(self.directory)
        server.begin()
        self.addCleanup(lambda: server.process.poll() is None and server.ends_with(signal.SIGKILL))
        sessions = [self.measure(server, daemon), *self.sessions_under_load(server, daemon)]
        server.check_at_end()
        # The server ends while it is traced.
        daemon.steer("create", "last", "-o", self.traces / "last")
        daemon.steer("enable-event", "*")
        daemon.steer("start")
        server.check()
        self.assertEqual(server.ends_with(server.stop_signal), 0, server.log())
        sessions.append(Finished(self.traces / "last", daemon.steer("destroy")))
        self.assertNotRegex(server.log(), server.trouble)
        self.assertEqual(daemon.current.stop(), 0)
        self.check_nothing_is_left(server)
        self.check_traces(server, sessions)

    @needs(has("redis-server", "redis-benchmark"), "servers")
    def test_redis(self):
        self.serve(Redis)

    @needs(has("nginx", "wrk"), "servers")
    def test_nginx(self):
        self.serve(Nginx)

    @needs(POSTGRES.exists() and has("pgbench", "psql"), "servers")
    def test_postgresql(self):
        self.serve(PostgreSQL)


if __name__ == "__main__":
    main()
