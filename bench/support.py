"""What the benchmarks share: isolation, figures, the table and its JSON.

Everything happens in namespaces of its own (mount, network, process IDs), with /run and /dev/shm empty: no daemon of
this machine takes part, what is left behind vanishes with them, and several benchmarks may run at a time.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
WANTED = ""  # rows with that in their name


class Failed(Exception):
    """The benchmark cannot go on; the text says why."""


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run(command, **options):
    """Runs a program to its end; what it prints is returned, a failure is ours."""
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{command[0]} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def enter_namespaces():
    """Starts this program again, as process 1 of its own namespaces. Ends with it."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        command.append("--map-root-user")
    environment = dict(os.environ, LEAT_BENCH_INSIDE="1")
    os.execvpe("unshare", command + [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]], environment)


def hide_the_machine():
    for directory in ["/run", "/dev/shm"]:
        run(["mount", "-t", "tmpfs", "tmpfs", directory])
    for name in [name for name in os.environ if name.startswith(("LEAT_", "LTTNG_", "LD_PRELOAD"))]:
        del os.environ[name]
    run(["ip", "link", "set", "lo", "up"])
    # As process 1 we would ignore it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def is_alive(pid):
    """Process 1 inherits daemons: one that has ended is ours to bury."""
    try:
        ended, _ = os.waitpid(pid, os.WNOHANG)
        return ended == 0
    except ChildProcessError:
        return os.path.exists(f"/proc/{pid}")


class Daemons:
    """Programs that run until the end of a `with`."""

    def __init__(self):
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, *command, **options):
        process = subprocess.Popen([str(word) for word in command],
                                   **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
                                      "stderr": subprocess.DEVNULL, **options})
        self.processes.append(process)
        return process


def wait_for(condition, what):
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(what)
        time.sleep(0.02)


def cpu_seconds(pids):
    """Of all their threads; to the nanosecond, where /proc/PID/stat counts ticks of 10 ms."""
    total = 0
    for pid in pids:
        for schedstat in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            total += int(schedstat.read_text(encoding="ascii").split()[0])
    return total / 1e9


class LttngDaemons:
    """The three of LTTng, as long as a `with` lasts."""

    def __init__(self, programs, work):
        self.programs = programs
        self.home = work / "lttng"
        self.daemons = Daemons()

    def __enter__(self):
        self.home.mkdir()
        os.environ["LTTNG_HOME"] = os.environ["HOME"] = str(self.home)
        self.relay = self.daemons.start("lttng-relayd", f"--output={self.home / 'traces'}")
        self.session_daemon = self.daemons.start("lttng-sessiond", "--no-kernel")
        wait_for(lambda: subprocess.run(["lttng", "--no-sessiond", "list"], capture_output=True,
                                        check=False).returncode == 0, "lttng-sessiond does not start")
        return self

    def __exit__(self, *_):
        self.daemons.__exit__()

    @staticmethod
    def lttng(*words):
        return run(["lttng", "--no-sessiond", *words])

    def pids(self):
        """Of all daemons, while there is a session."""
        consumer = run(["pgrep", "-x", "lttng-consumerd"]).split()
        return [self.relay.pid, self.session_daemon.pid, *consumer]


class Samples:
    """Figures of one row for each side, as the rounds bring them."""

    def __init__(self):
        self.of = {"leat": [], "peer": [], "floor": [], "copy": []}

    def add(self, side, figures):
        self.of[side].extend(figures)

    def median(self, side):
        return statistics.median(self.of[side]) if self.of[side] else None


def print_table(rows, peer):
    def cell(figure, suffix=""):
        return "-" if figure is None else f"{figure:.2f}{suffix}"

    def ratio(above, below):
        return "-" if above is None or not below or below <= 0 else f"{above / below:.2f}x"

    lines = [["name", "unit", "leat", peer, "floor", f"{peer}/leat", "leat/floor"]]
    lines += [[row["name"], row["unit"], cell(row["leat"]), cell(row["peer"]), cell(row["floor"]),
               ratio(row["peer"], row["leat"]), ratio(row["leat"], row["floor"])] for row in rows]
    if any("copy" in row for row in rows):  # a second floor
        lines[0] += ["copy", "leat/copy"]
        for line, row in zip(lines[1:], rows):
            line += [cell(row.get("copy")), ratio(row["leat"], row.get("copy"))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for name, unit, *figures in lines:
        print(f"{name:<{widths[0]}}  {unit:<{widths[1]}}  " +
              "  ".join(f"{figure:>{width}}" for figure, width in zip(figures, widths[2:])))


def arguments(description, rounds):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build/release", metavar="DIR",
                        help="build directory (default: build/release)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the rows there")
    parser.add_argument("--rounds", type=int, default=rounds, metavar="N",
                        help=f"interleaved rounds (default: {rounds})")
    parser.add_argument("--rows", default="", metavar="TEXT",
                        help="only rows with that in their name, where they are measured apart (relay, crowd)")
    return parser.parse_args()


def is_wanted(row):
    """Whether it was asked for; known from the beginning of `measure`."""
    return WANTED in row


def bench(description, needs, rounds, measure, peer):
    global WANTED
    options = arguments(description, rounds)
    WANTED = options.rows
    programs = (options.build / "bin").resolve()
    if not (programs / needs).exists():
        raise Failed(f"no {needs} in {programs}: build first (./dev build)")
    if "LEAT_BENCH_INSIDE" not in os.environ:
        enter_namespaces()
    hide_the_machine()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as work:
        rows = measure(programs, options.rounds, pathlib.Path(work))
    print_table(rows, peer)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


def main(description, needs, rounds, measure, peer):
    """`measure(programs, rounds, work)` gives the rows; `needs` is a program that a build brings."""
    try:
        bench(description, needs, rounds, measure, peer)
    except Failed as failure:
        print(f"bench: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
