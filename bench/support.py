"""The common part of the benchmarks: isolation, figures, the table and its JSON.

Everything runs in namespaces of its own (mount, network, process IDs), with /run and /dev/shm empty. So no daemon of
this machine takes part, nothing is left afterwards, and several benchmarks may run at the same time.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIDES = ["leat", "peer", "floor"]
MORE_FLOORS = ["copy", "splice"]  # columns of their own, in some benchmarks
CONTEXTS = ["vpid", "vtid", "procname"]  # what `leat record` adds by default
WANTED = ""  # rows with that in their names are measured
IS_QUICK = False
EVENTS = None  # of each trace, where a benchmark lets people choose; none: as it sees fit


class Failed(Exception):
    """The benchmark cannot go on; the text is the reason."""


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run(command, **options):
    """Runs a program to its end and returns its output. If it fails, Failed is raised."""
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{command[0]} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def enter_namespaces():
    """Starts this program again as process 1 of its own namespaces, and exits with its status."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        # Not as root of a namespace: LTTng's daemons would then require groups that do not exist there.
        command += ["--map-current-user", "--keep-caps"]
    environment = dict(os.environ, LEAT_BENCH_INSIDE="1")
    os.execvpe("unshare", command + [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]], environment)


def hide_the_machine():
    for directory in ["/run", "/dev/shm"]:
        run(["mount", "-t", "tmpfs", "tmpfs", directory])
    for name in [name for name in os.environ if name.startswith(("LEAT_", "LTTNG_", "LD_PRELOAD"))]:
        del os.environ[name]
    run(["ip", "link", "set", "lo", "up"])
    # Process 1 ignores this signal unless it has a handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def is_alive(pid):
    """Process 1 becomes the parent of daemons, so it must reap those that have ended."""
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


def context_words(are_wanted):
    """The arguments of `leat record`: its defaults, or no contexts."""
    return [] if are_wanted else ["--context", "none"]


def wait_for(condition, what):
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(what)
        time.sleep(0.02)


def cpu_seconds(pids):
    """CPU time of all their threads, in nanoseconds; /proc/PID/stat counts ticks of 10 ms."""
    total = 0
    for pid in pids:
        for schedstat in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            total += int(schedstat.read_text(encoding="ascii").split()[0])
    return total / 1e9


class LttngDaemons:
    """LTTng's three daemons. They run as long as a `with` lasts."""

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

    def add_contexts(self):
        self.lttng("add-context", "--userspace", "--channel=channel", *[f"--type={context}" for context in CONTEXTS])

    def pids(self):
        """The processes of all daemons, while there is a session."""
        consumer = run(["pgrep", "-x", "lttng-consumerd"]).split()
        return [self.relay.pid, self.session_daemon.pid, *consumer]


class Samples:
    """The figures of one row, for each side and from all rounds."""

    def __init__(self):
        self.of = {}

    def add(self, side, figures):
        self.of.setdefault(side, []).extend(figures)

    def median(self, side):
        return statistics.median(self.of[side]) if self.of.get(side) else None

    def spread(self, side):
        """The smallest and the largest figure."""
        return [min(self.of[side]), max(self.of[side])] if self.of.get(side) else None


def in_turn(sides, round_number):
    """The contenders in the order of this round, which is reversed in every other round. The machine changes its load
    and temperature while a benchmark runs, so a contender that was always second would always get the better or the
    worse part of a round."""
    return list(sides) if round_number % 2 == 0 else list(sides)[::-1]


def row(name, unit, samples, *more_floors):
    """One row of the table and the JSON: medians, and the spread and number of their samples."""
    sides = [*SIDES, *more_floors]
    present = [side for side in sides if samples.of.get(side)]
    return {"name": name, "unit": unit, **{side: samples.median(side) for side in sides},
            "spread": {side: samples.spread(side) for side in present},
            "samples": {side: len(samples.of[side]) for side in present}}


def content_bytes(directory):
    """What the packets of a trace hold, headers included, without what fills them up. Their contexts have content and
    packet size in bits behind two times, in traces of LTTng and of ours."""
    total = 0
    for stream in pathlib.Path(directory).rglob("*_[0-9]*"):
        if stream.suffix == ".idx":
            continue
        data = stream.read_bytes()
        at = 0
        while at < len(data):
            content, packet = struct.unpack_from("<QQ", data, at + 48)
            total += content // 8
            at += packet // 8
    return total


def file_system_of(directory, mounts=pathlib.Path("/proc/self/mountinfo")):
    """The type of the file system that the directory is on. The cost of writing depends on it."""
    directory = str(directory.resolve())
    best = ("", "unknown")
    for line in mounts.read_text(encoding="utf-8").splitlines():
        fields, _, rest = line.partition(" - ")
        mount = fields.split()[4].replace("\\040", " ")
        is_above = mount == "/" or directory == mount or directory.startswith(mount + "/")
        # If two are on one mount point, the later one hides the earlier one.
        if is_above and len(mount) >= len(best[0]):
            best = (mount, rest.split()[0])
    return best[1]


def shown(figure):
    return f"{figure:.2f}" if abs(figure) < 100 else f"{figure:.0f}"


def cell(row, side):
    """The median, and the spread in brackets."""
    if row.get(side) is None:
        return "-"
    least, greatest = row["spread"][side]
    spread = f" ({shown(least)}..{shown(greatest)})" if row["samples"][side] > 1 else ""
    return shown(row[side]) + spread


def print_table(rows, peer):
    def ratio(above, below):
        return "-" if above is None or not below or below <= 0 else f"{above / below:.2f}x"

    lines = [["name", "unit", "leat", peer, "floor", f"{peer}/leat", "leat/floor"]]
    lines += [[row["name"], row["unit"], *(cell(row, side) for side in SIDES),
               ratio(row["peer"], row["leat"]), ratio(row["leat"], row["floor"])] for row in rows]
    for floor in MORE_FLOORS:
        if any(floor in row for row in rows):
            lines[0] += [floor, f"leat/{floor}"]
            for line, row in zip(lines[1:], rows):
                line += [cell(row, floor), ratio(row["leat"], row.get(floor))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for name, unit, *figures in lines:
        print(f"{name:<{widths[0]}}  {unit:<{widths[1]}}  " +
              "  ".join(f"{figure:>{width}}" for figure, width in zip(figures, widths[2:])))


def describe(file_system, rounds):
    """What the figures depend on besides the programs."""
    quick = "; quick: THE FIGURES MEAN NOTHING" if IS_QUICK else ""
    return (f"output on {file_system}; {rounds} round{'s' if rounds > 1 else ''}: medians (least..greatest); "
            f"{os.cpu_count()} CPUs, Linux {os.uname().release}{quick}")


def arguments(description, rounds):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build/release", metavar="DIR",
                        help="build directory (default: build/release)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the rows there")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help=f"rounds, in each of which every contender runs (default: {rounds}; with --quick: 1)")
    parser.add_argument("--quick", action="store_true",
                        help="short runs, and fewer of them: shows that the benchmark works, and measures nothing")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("/dev/shm"), metavar="DIR",
                        help="traces are written below this directory (default: /dev/shm, a tmpfs of the benchmark's own)")
    parser.add_argument("--rows", default="", metavar="TEXT",
                        help="only rows with that in their name, where they are measured apart (daemon, relay, crowd)")
    parser.add_argument("--events", type=int, metavar="N", help="events of each trace that is read (decode; default: 2,000,000)")
    options = parser.parse_args()
    if options.rounds is None:
        options.rounds = 1 if options.quick else rounds
    if options.rounds < 1:
        parser.error("at least one round")
    return options


def is_wanted(row):
    """Whether the row was asked for. This is known when `measure` begins."""
    return WANTED in row


def bench(description, needs, rounds, measure, peer):
    global WANTED, IS_QUICK, EVENTS
    options = arguments(description, rounds)
    WANTED, IS_QUICK, EVENTS = options.rows, options.quick, options.events
    programs = (options.build / "bin").resolve()
    if not (programs / needs).exists():
        raise Failed(f"no {needs} in {programs}: build first (./dev build)")
    if "LEAT_BENCH_INSIDE" not in os.environ:
        enter_namespaces()
    # Afterwards, the places of others are hidden.
    json_file = options.json.open("a", encoding="utf-8") if options.json else None
    hide_the_machine()
    with tempfile.TemporaryDirectory(dir=options.output) as work:
        file_system = file_system_of(pathlib.Path(work))
        rows = measure(programs, options.rounds, pathlib.Path(work))
    print(describe(file_system, options.rounds))
    print_table(rows, peer)
    if json_file:
        about = {"file_system": file_system, "rounds": options.rounds, "quick": options.quick}
        with json_file:
            json_file.truncate(0)
            json_file.write(json.dumps([row | about for row in rows], indent=2) + "\n")


def main(description, needs, rounds, measure, peer):
    """`measure(programs, rounds, work)` returns the rows; `needs` is a program that must have been built."""
    try:
        bench(description, needs, rounds, measure, peer)
    except Failed as failure:
        print(f"bench: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
