"""Relays for the interop tests. Each has a directory and ports of its own. It can be killed and started again with the
same ones."""
import os
import re
import signal
import socket
import subprocess
import tempfile

from support import BUILD, PATIENCE, can_be_two_users, lacks, wait_until

RELAYD = str(BUILD / "bin" / "leat-relayd")


HELD = []  # sockets


def free_ports(count):
    """Returns ports that nobody uses, and that the kernel gives to nobody else until we end. Who asks for one of them by its
    number, with SO_REUSEADDR, gets it: we are bound to it too, but do not listen."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    HELD.extend(sockets)
    for holder in sockets:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
    return [holder.getsockname()[1] for holder in sockets]


def host_of(address):
    """The host as URLs have it."""
    return f"[{address}]" if ":" in address else address


class Relay:
    """A relay that is started and serves."""
    address = "127.0.0.1"

    def __init__(self, output):
        self.output = output
        self.log = ""
        self.start()

    def launch(self, command, **options):
        self.is_serving = False
        # A file takes any amount of output; a pipe that nobody reads would block the relay.
        self.log_file = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=self.log_file, text=True, **options)

    def stop(self, signal_number=signal.SIGTERM):
        """Stops the relay and returns its exit status; `log` holds its output. Fails if the relay died by itself, or if
        the log holds a sanitizer's report that is in no file (InteropTest.sanitizer_options)."""
        failed = self.is_serving and not self.is_alive() and self.process.returncode != 0
        self.is_serving = False
        if self.is_alive():
            # In this order: LeakSanitizer stops the process when it ends, and waits for ever if SIGCONT comes in between.
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal_number)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if not self.log_file.closed:
            self.log_file.seek(0)
            self.log = self.log_file.read()
            self.log_file.close()
            failed = failed or re.search(r"\bruntime error: |[a-z]Sanitizer: ", self.log)
        if failed:
            raise AssertionError(f"the relay has failed with {self.process.returncode}: {self.log}")
        return self.process.returncode

    def log_so_far(self):
        """The log of a running relay. We share the file position with the relay, so reading must not move it."""
        return os.pread(self.log_file.fileno(), os.fstat(self.log_file.fileno()).st_size, 0).decode(errors="replace")

    def kill(self):
        return self.stop(signal.SIGKILL)

    def is_alive(self):
        return self.process.poll() is None

    def memory_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) / 1024

    @property
    def url(self):
        return f"net://{self.address}:{self.control}:{self.data}"

    def live_url(self, name):
        return f"net://{self.address}:{self.live}/host/{socket.gethostname()}/{name}"

    def parts(self, name=""):
        """The directories of the sessions, oldest first."""
        return sorted(self.output.glob(f"*/{name}-*" if name else "*/*"))


class LeatRelay(Relay):
    def __init__(self, output, wrapper=(), address=Relay.address, ports=None, options=()):
        self.wrapper = wrapper
        self.options = options
        self.address = address
        self.chooses_ports = ports is None
        self.control, self.data, self.live = ports or (0, 0, 0)
        super().__init__(output)

    def start(self):
        """It also takes datagrams at the data port, and somebody may be there already: then it starts with other ports. A
        relay that has served before gets its old ones."""
        wait_until(self.try_to_start, "ports for leat-relayd")
        self.chooses_ports = False

    def try_to_start(self):
        if self.chooses_ports:
            self.control, self.data, self.live = free_ports(3)
        # The relay serves viewers on its own host only, unless it is told otherwise.
        live = [] if self.address == Relay.address else ["-L", f"tcp://{host_of(self.address)}:{self.live}"]
        self.launch([*self.wrapper, RELAYD, "-o", str(self.output), "--bind", self.address, "--ports",
                     f"{self.control}:{self.data}:{self.live}", *live, *self.options],
                    stdout=subprocess.PIPE, env=dict(os.environ, TZ="UTC"))
        with self.process.stdout as output:
            line = output.readline()
        ports = re.search(r"control (\d+).*, data (\d+).*, live (\d+)", line)
        if not ports:
            self.kill()
            if "Address already in use" in self.log:
                return False
            raise AssertionError(f"leat-relayd does not start: {line}{self.log}")
        self.control, self.data, self.live = (int(port) for port in ports.groups())
        self.is_serving = True
        return True


class LttngRelay(Relay):
    def __init__(self, output):
        self.control, self.data, self.live = free_ports(3)
        super().__init__(output)

    def start(self):
        # As root it keeps files where only root of the whole machine may, whatever its environment says.
        if os.geteuid() == 0 and not can_be_two_users():
            lacks("lttng-relayd")
        home = self.output.with_name(self.output.name + "-home")
        home.mkdir(exist_ok=True)
        urls = [f"tcp://{self.address}:{port}" for port in (self.control, self.data, self.live)]
        self.launch(["lttng-relayd", "-o", str(self.output), "-C", urls[0], "-D", urls[1], "-L", urls[2]],
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, "HOME": str(home), "LTTNG_HOME": str(home), "LTTNG_RUNDIR": str(home / "run")})
        wait_until(self.answers, "lttng-relayd")
        self.is_serving = True

    def answers(self):
        if not self.is_alive():
            raise AssertionError(f"lttng-relayd does not start: {self.log_so_far()}")
        try:
            for port in (self.control, self.data, self.live):
                socket.create_connection((self.address, port), timeout=PATIENCE).close()
            return True
        except OSError:
            return False
