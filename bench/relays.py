"""The common part of the benchmarks of relays: a running relay, and small packets that it gets while viewers read
them."""

import os
import re
import resource
import select
import shutil
import subprocess
import time

import support
from support import Failed

CONTROL, DATA, LIVE = 5342, 5343, 5344  # the network is our own
FILE_MIB = 32  # where files are rolled, each stream has two files of that size
# Programs that only receive and write, and the arguments of bench-relay-floor for them.
FLOORS = {"floor": ["new", "copy"], "splice": ["new", "splice"],
          "floor-in-place": ["in-place", "copy"], "splice-in-place": ["in-place", "splice"]}


def on_cpu(number):
    return [] if number is None else ["taskset", "-c", str(number)]


def available(sides, programs):
    """The relays that are installed."""
    missing = {side for side, program in [("leat", programs / "leat-relayd"), ("peer", "lttng-relayd")]
               if side in sides and shutil.which(program) is None}
    for side in sorted(missing):
        support.say(f"no relay of {side} is here: its column stays empty")
    return [side for side in sides if side not in missing]


def allow_many_descriptors():
    """Raises the soft limit of files for all programs that are started from here: relays of either kind obey it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def relay_command(side, programs, output, file_mib):
    if side in FLOORS:
        return [programs / "bench-relay-floor", DATA, output, file_mib, *FLOORS[side]]
    if side == "leat":
        return [programs / "leat-relayd", "-o", output, "--ports", f"{CONTROL}:{DATA}:{LIVE}"]
    return ["lttng-relayd", f"--output={output}", f"--control-port=tcp://127.0.0.1:{CONTROL}",
            f"--data-port=tcp://127.0.0.1:{DATA}", f"--live-port=tcp://127.0.0.1:{LIVE}"]


class Relay:
    """A relay that runs and accepts connections."""

    def __init__(self, side, programs, work, cpu=None, file_mib=FILE_MIB):
        self.output = work / "output"
        self.output.mkdir()
        command = on_cpu(cpu) + [str(word) for word in relay_command(side, programs, self.output, file_mib)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        for port in [DATA] if side in FLOORS else [DATA, CONTROL, LIVE]:
            wait_for_port(port, self.process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.output)

    def cpu_seconds(self):
        """CPU time of all threads, including those that have ended: the CPU clock of the process, like
        clock_getcpuclockid()."""
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def memory_mib(self, what):
        """VmRSS: what it holds now; VmHWM: the most that it ever held."""
        try:
            with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
                return int(re.search(rf"{what}:\s+(\d+)", status.read())[1]) / 1024
        except TypeError as error:
            raise Failed("the relay has ended") from error

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def wait_for_port(port, process):
    """Waits until somebody listens there. It makes no connection, which a relay might count."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        for family in ["tcp", "tcp6"]:
            with open(f"/proc/net/{family}", encoding="ascii") as table:
                if any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
                       for line in list(table)[1:]):
                    return
        time.sleep(0.01)
    raise Failed(f"{process.args[-1]}: nobody listens on port {port}")


class Helper:
    """A program of the benchmark that reads lines and answers each with a line."""
    PATIENCE = 60  # s

    def __init__(self, *command, cpu=None):
        self.name = command[0].name
        self.process = subprocess.Popen(on_cpu(cpu) + [str(word) for word in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def answer(self):
        if not select.select([self.process.stdout], [], [], self.PATIENCE)[0]:
            raise Failed(f"{self.name} has no answer after {self.PATIENCE} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self.name} did not come to its end: {self.process.communicate()[1].strip()}")
        return line.split()

    def ask(self, line=""):
        try:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # what it said before is in the Failed that answer() raised
        return self.answer()


class Paced:
    """Live sessions whose streams get small packets, and viewers that read them."""
    PACKET_BYTES = 4096

    def __init__(self, sessions, streams, rate, seconds, viewers=0, polls=False):
        self.sessions = sessions
        self.streams = streams  # of each session
        self.rate = rate        # packets a second, for all sessions; 0: as many as the relay takes
        self.seconds = seconds  # may be a fraction
        self.viewers = viewers
        self.polls = polls

    def view(self, side, programs, cpu):
        mode = "poll" if self.polls or side == "peer" else "news"  # the peer does not have the other mode
        return Helper(programs / "bench-relay-view", LIVE, self.sessions, self.viewers, mode, cpu=cpu)

    def expected(self, packets):
        """How many packets the viewers get in total, given the sessions that bench-relay-view chooses for them."""
        chosen = [viewer * self.sessions // self.viewers for viewer in range(self.viewers)]
        return sum((packets + self.sessions - 1 - session) // self.sessions for session in chosen)


class PacedRun:
    """Runs a load and has its figures."""

    def __init__(self, side, load, programs, work, relay_cpu=None, others_cpu=None):
        self.load = load
        with Relay(side, programs, work, relay_cpu) as relay, \
                Helper(programs / "bench-relay-pace", CONTROL, DATA, load.sessions, load.streams, load.PACKET_BYTES,
                       load.rate, round(1000 * load.seconds), cpu=others_cpu) as sender:
            first = int(sender.answer()[1])
            if load.viewers == 0:
                self._push(relay, sender)
            else:
                with load.view(side, programs, others_cpu) as viewers:
                    viewers.answer()
                    self._push_to_viewers(relay, sender, viewers, first)
            self.descriptors = relay.descriptors()
            self.rss_mib = relay.memory_mib("VmRSS")
            self.peak_mib = relay.memory_mib("VmHWM")

    def _push(self, relay, sender):
        before = relay.cpu_seconds()
        self.packets = self.delivered = int(sender.ask()[0])
        self.missing = 0
        self.cpu_seconds = relay.cpu_seconds() - before

    def _push_to_viewers(self, relay, sender, viewers, first):
        had = int(viewers.ask(self.load.expected(first))[0])
        before = relay.cpu_seconds()
        self.packets = int(sender.ask()[0])
        # The first packets went to the sessions in the same order, so the packets now begin with the first session
        # again.
        target = self.load.expected(first) + self.load.expected(self.packets)
        delivered, p50, p99 = viewers.ask(target)
        self.cpu_seconds = relay.cpu_seconds() - before
        self.delivered = int(delivered) - had
        self.p50_ms, self.p99_ms = float(p50) / 1000, float(p99) / 1000
        self.missing = target - int(delivered)

    def cpu_us(self):
        """CPU us per packet: per packet received if nobody reads, otherwise per packet delivered."""
        if self.delivered == 0:
            raise Failed("the viewers have had nothing")
        return 1e6 * self.cpu_seconds / self.delivered
