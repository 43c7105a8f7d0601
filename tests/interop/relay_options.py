#!/usr/bin/env python3
"""Every option of leat-relayd, in real use."""
import ctypes
import errno
import json
import os
import pathlib
import pwd
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import relay_peer as peer  # noqa: E402
from relay_peer import Closed, Link, Producer, Viewer  # noqa: E402
from relays import RELAYD, LeatRelay, free_ports  # noqa: E402
from support import (PATIENCE, PROGRAMS, InteropTest, has, has_namespaces, lacks, main, needs, state_of,  # noqa: E402
                     wait_until)

TICKS = [(10, 1), (20, 2), (30, 3)]
LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d{4} leat-relayd\[(\d+)\] (error|warning|info|debug): (.*)$")
PORTS = re.compile(r"control (\d+).*, data (\d+).*, live (\d+)")


OPENAT2 = 437  # everywhere


def fail_system_call(number, error):
    """From here on this call fails with this error, in our process and those that it starts."""
    load, jump_if_equal, give = 0x20, 0x15, 0x06
    allow, fail = 0x7fff0000, 0x00050000 | error
    steps = b"".join(struct.pack("=HBBI", *step) for step in (
        (load, 0, 0, 0), (jump_if_equal, 0, 1, number), (give, 0, 0, fail), (give, 0, 0, allow)))
    buffer = ctypes.create_string_buffer(steps)
    program = struct.pack("@HP", 4, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0 or libc.prctl(set_seccomp, filter_mode, program) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        return True
    except OSError:
        return False


# In a network of its own with few ports, it takes datagrams on all that the system gives but one, and then executes the rest.
CROWDED = """
import os, pathlib, socket, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40007")
taken = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(7)]
for number, holder in enumerate(taken):
    holder.bind(("127.0.0.1", 40000 + number))
    holder.set_inheritable(True)
os.execv(sys.argv[1], sys.argv[1:])
"""


class OptionsTest(InteropTest):
    def setUp(self):
        super().setUp()
        self.output = self.directory / "output"

    def start(self, *options, **arguments):
        self.relay = LeatRelay(self.output, options=options, **arguments)
        self.addCleanup(self.relay.kill)
        return self.relay

    def producer(self, **arguments):
        producer = Producer(self.relay)
        self.addCleanup(producer.close)
        return producer.start(**arguments)

    def viewer(self):
        viewer = Viewer(self.relay)
        self.addCleanup(viewer.close)
        return viewer

    def stop(self):
        self.assertTrue(self.relay.is_alive(), "the relay is dead")
        self.assertEqual(self.relay.stop(), 0, self.relay.log)
        return [self.line(text) for text in self.relay.log.splitlines()]

    def line(self, text):
        """(level, message)"""
        match = LINE.match(text)
        self.assertIsNotNone(match, text)
        return match[2], match[3]

    def run_relayd(self, *options, **arguments):
        return subprocess.run([RELAYD, "-o", str(self.output), *options], capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, **arguments)

    def assert_fails(self, status, message, *options, **arguments):
        result = self.run_relayd(*options, **arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("leat-relayd: "), result.stderr)
        self.assertIn(message, result.stderr)
        self.assertEqual(result.stdout, "")

    def use(self, session="used"):
        """A producer and a viewer."""
        producer = self.producer(session=session)
        self.assertEqual(producer.push(TICKS), peer.OK)
        viewer = self.viewer()
        self.assertEqual(viewer.attach(producer.session)[0], 1)
        producer.finish()
        viewer.close()
        return producer.path


class Background(OptionsTest):
    def setUp(self):
        super().setUp()
        self.pid = 0
        self.pid_file = self.directory / "relay.pid"
        self.addCleanup(self.end)

    def start_background(self, *options):
        """Starts a relay that is not our child, and returns what its parent said. Tests use it as `relay`."""
        result = self.run_relayd("--ports", "0:0:0", "--pid-file", str(self.pid_file), *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.pid = int(self.pid_file.read_text())
        self.relay = type("Relay", (), {"address": "127.0.0.1"})
        self.relay.control, self.relay.data, self.relay.live = map(int, PORTS.search(result.stdout).groups())
        return result

    def is_alive(self):
        if self.pid == 0 and self.pid_file.exists():  # the test failed before it learnt the pid
            self.pid = int(self.pid_file.read_text())
        return state_of(self.pid) not in "ZX"

    def end(self):
        if self.is_alive():
            os.kill(self.pid, signal.SIGTERM)
            wait_until(lambda: not self.is_alive(), "the relay's end")

    def test_daemonize(self):
        """The parent exits when the ports are open. The console is closed."""
        for option in ("-d", "--daemonize"):
            result = self.start_background(option)
            self.assertRegex(result.stdout, "^listening on 127.0.0.1: control ")
            self.use(f"daemon{option}")
            for fd in (0, 1, 2):
                self.assertEqual(os.readlink(f"/proc/{self.pid}/fd/{fd}"), "/dev/null")
            self.assertEqual(os.readlink(f"/proc/{self.pid}/cwd"), "/")
            self.assertEqual(os.getsid(self.pid), self.pid)
            self.end()
            self.assertFalse(self.pid_file.exists(), "it takes its pid file along")

    def test_background_keeps_the_console(self):
        log = self.directory / "console"
        for option in ("-b", "--background"):
            with open(log, "w", encoding="ascii") as console:
                status = subprocess.run([RELAYD, "-o", str(self.output), "--ports", "0:0:0", option, "--pid-file",
                                         str(self.pid_file)], stdout=console, stderr=console, timeout=PATIENCE).returncode
            self.assertEqual(status, 0)
            self.pid = int(self.pid_file.read_text())
            self.assertEqual(os.readlink(f"/proc/{self.pid}/fd/2"), str(log))
            self.relay = type("Relay", (), {"address": "127.0.0.1"})
            self.relay.control, self.relay.data, self.relay.live = map(
                int, PORTS.search(log.read_text()).groups())
            link = Link(self.relay.control)
            link.send(peer.control_message(99))
            link.receive(4)
            self.assertTrue(link.is_closed())
            link.close()
            self.end()
            self.assertEqual(self.line(log.read_text().splitlines()[1])[0], "warning")

    def test_parent_reports_what_went_wrong(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        for option in ("-d", "-b"):
            self.assert_fails(1, f"cannot listen on 127.0.0.1 port {port}: Address already in use", option, "--ports",
                              f"{port}:0:0")
            self.assert_fails(1, "cannot write the pid file /nowhere/pid: No such file", option, "--ports", "0:0:0",
                              "--pid-file", "/nowhere/pid")

    def test_what_is_no_file_stays(self):
        os.mkfifo(self.pid_file)
        self.assert_fails(1, f"the pid file {self.pid_file} exists and is no file", "-d", "--ports", "0:0:0", "--pid-file",
                          str(self.pid_file))
        self.assertTrue(self.pid_file.is_fifo())
        self.pid_file.unlink()

    def test_paths_are_those_of_the_caller(self):
        result = subprocess.run([RELAYD, "-o", "traces", "--ports", "0:0:0", "-d", "--pid-file", "relay.pid", "--log-file",
                                 "relay.log"], cwd=self.directory, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.pid = int(self.pid_file.read_text())
        self.assertTrue((self.directory / "traces").is_dir())
        self.assertIn("listening on", (self.directory / "relay.log").read_text())
        self.end()

    def test_both_at_once(self):
        self.assert_fails(2, "exclude", "-d", "-b")


class Metrics(OptionsTest):
    def page(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE) as answer:
            return answer.read().decode("utf-8")

    def values(self, page):
        """{name and labels: value}; without the id, which counts connections."""
        lines = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
        return {re.sub(r'id="\d+",', "", name): float(value) for name, _, value in lines}

    def test_figures(self):
        self.port, = free_ports(1)
        self.start("--metrics", f":{self.port}")
        begin = time.monotonic()  # moment: the relay must not count more seconds than we do
        producer = self.producer(cpus=2)
        for _ in range(3):
            self.assertEqual(producer.push(TICKS, size=4096), peer.OK)
        producer.numbers[producer.streams[0]] += 1  # this one is lost
        self.assertEqual(producer.push(TICKS, size=4096), peer.OK)
        producer.wait_until_stored()
        viewer = self.viewer()
        self.assertEqual(viewer.attach(viewer.list()["night"])[0], 1)
        page = self.page()
        values = self.values(page)
        labels = '{host="host",session="night"}'
        expected = {"leat_relay_received_bytes_total": 4 * 4096, "leat_relay_received_packets_total": 4,
                    "leat_relay_received_indexes_total": 4, "leat_relay_received_beacons_total": 0,
                    "leat_relay_received_metadata_bytes_total": len(peer.METADATA),
                    "leat_relay_lost_packets_total": 1, "leat_relay_removed_packets_total": 0, "leat_relay_sessions_total": 1,
                    "leat_relay_refused_connections_total": 0, "leat_relay_disk_stalls_total": 0,
                    'leat_relay_connections{port="control"}': 1, 'leat_relay_connections{port="data"}': 1,
                    'leat_relay_connections{port="live"}': 1, "leat_relay_sessions": 1,
                    f"leat_relay_session_streams{labels}": 2, f"leat_relay_session_viewers{labels}": 1}
        self.assertEqual({name: values.get(name) for name in expected}, expected)
        most = time.monotonic() - begin + 1  # moment: the same
        self.assertLess(values[f"leat_relay_session_silence_seconds{labels}"], most)
        for name in {re.match(r"\w+", line)[0] for line in page.splitlines() if not line.startswith("#")}:
            self.assertRegex(page, f"# HELP {name} [A-Z].*\n# TYPE {name} (counter|gauge)\n")
        producer.close()
        wait_until(lambda: self.values(self.page())["leat_relay_sessions"] == 0, "the session's end")
        self.assertNotIn(labels, self.page())
        viewer.close()
        self.stop()

    def test_names_are_those_of_strangers(self):
        self.port, = free_ports(1)
        self.start("--metrics", f":{self.port}")
        self.producer(session='a"} 1\\é')
        self.assertIn(r'session="a\"} 1\\??"', self.page())
        self.stop()

    def test_listed_sessions_are_bounded(self):
        self.port, = free_ports(1)
        self.start("--metrics", f":{self.port}")
        for number in range(260):
            producer = Producer(self.relay)
            self.addCleanup(producer.close)
            producer.greet()
            self.assertEqual(producer.create(session=f"session-{number}")[1], peer.OK)
        page = self.page()
        self.assertEqual(self.values(page)["leat_relay_sessions"], 260)
        self.assertEqual(page.count("leat_relay_session_viewers{"), 256)
        self.stop()

    def test_address_that_is_taken(self):
        self.start()
        outcome = subprocess.run([RELAYD, "-o", str(self.output), "--ports", "0:0:0", "--metrics",
                                  f"127.0.0.1:{self.relay.control}"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(outcome.returncode, 1)
        self.assertRegex(outcome.stderr, r"^leat-relayd: cannot serve metrics on 127\.0\.0\.1:\d+: .*\n$")
        self.stop()


class Network(OptionsTest):
    def run_in_crowded_network(self, data_port):
        command = ["unshare", "--net", sys.executable, "-c", CROWDED, RELAYD, "-o", str(self.output), "--ports",
                   f"5342:{data_port}:5344"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    @needs(has_namespaces() and has("ip"), "namespaces")
    def test_port_on_which_others_take_datagrams_is_not_chosen(self):
        process = self.run_in_crowded_network(0)
        self.assertEqual(PORTS.search(process.stdout.readline()).groups(), ("5342", "40007", "5344"))
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 0)

    @needs(has_namespaces() and has("ip"), "namespaces")
    def test_port_on_which_others_take_datagrams_is_refused(self):
        process = self.run_in_crowded_network(40003)
        self.assertEqual(process.wait(PATIENCE), 1)
        self.assertRegex(process.stderr.read(), r"^leat-relayd: cannot listen for datagrams on 127\.0\.0\.1 port 40003: "
                                                r"Address already in use: choose others with --ports\n$")

    def test_addresses_of_their_own(self):
        control, data, live = free_ports(3)
        for names in (("-C", "-D", "-L"), ("--control-port", "--data-port", "--live-port")):
            urls = (f"tcp://127.0.0.1:{control}", f"tcp://127.0.0.2:{data}", f"tcp://localhost:{live}")
            self.start(*[argument for pair in zip(names, urls) for argument in pair])
            self.assertEqual((self.relay.control, self.relay.data, self.relay.live), (control, data, live))
            producer = Producer(self.relay)
            self.addCleanup(producer.close)
            with self.assertRaises(ConnectionRefusedError):
                Link(data, "127.0.0.1")
            data_link = Link(data, "127.0.0.2")
            data_link.close()
            self.viewer().close()
            self.stop()

    def test_viewers_are_local_unless_they_are_let_in(self):
        self.start("--bind", "0.0.0.0")
        own = socket.gethostbyname("localhost")
        self.assertEqual(own, "127.0.0.1")
        # 127.0.0.2 is this host, too. A relay that listens on 127.0.0.1 only cannot be reached there.
        Link(self.relay.control, "127.0.0.2").close()
        Link(self.relay.data, "127.0.0.2").close()
        with self.assertRaises(ConnectionRefusedError):
            Link(self.relay.live, "127.0.0.2")
        self.use()
        self.stop()
        self.start("--bind", "0.0.0.0", "-L", "tcp://0.0.0.0:0")
        Link(self.relay.live, "127.0.0.2").close()
        self.stop()

    def test_ipv6(self):
        if not has_ipv6():
            lacks("ipv6")
        self.start("-C", "tcp://[::1]:0", "-D", "tcp://[::1]:0", "-L", "tcp://[::1]:0")
        self.relay.address = "::1"
        self.use()
        self.stop()

    def test_wrong_urls(self):
        for url in ("127.0.0.1:5342", "tcp://127.0.0.1", "udp://127.0.0.1:1", "tcp://:1", "tcp://127.0.0.1:x",
                    "tcp://127.0.0.1:65536", "tcp://[::1:5342"):
            self.assert_fails(2, url, "-C", url)
        self.assert_fails(1, "give an IP address of this host", "-L", "tcp://no.such.host.invalid:5344")
        self.assert_fails(2, "is no IP address", "--bind", "localhost")
        self.assert_fails(2, "is not of the form ADDRESS:PORT", "--metrics", "9464")
        self.assert_fails(2, "is no IP address of this host", "--metrics", "localhost:9464")
        self.assert_fails(2, "three ports are needed", "--ports", "1:2")

    def test_max_connections(self):
        self.start("--max-connections", "8")  # 3 control, 3 data, 2 viewer connections
        links = [self.viewer(), self.viewer()]
        link = Link(self.relay.live)
        self.addCleanup(link.close)
        self.assertTrue(link.is_closed())
        links[0].close()
        self.stop()
        self.assert_fails(2, "--max-connections", "--max-connections", "7")
        self.assert_fails(2, "--max-connections", "--max-connections", "many")

    def test_handshake_timeout(self):
        self.start("--handshake-timeout", "1")
        link = Link(self.relay.live)
        self.addCleanup(link.close)
        self.assertTrue(link.is_closed())
        self.stop()
        self.assert_fails(2, "--handshake-timeout", "--handshake-timeout", "0")


class Output(OptionsTest):
    def test_by_host(self):
        for option in ("-p", "--group-output-by-host"):
            self.start(option)
            self.assertRegex(self.use("night"), r"^host/night-20200913-122640(-2)?$")
            self.stop()

    def test_by_session(self):
        for i, option in enumerate(("-s", "--group-output-by-session")):
            self.start(option)
            self.assertRegex(self.use("night"), r"^night/host-20200913-122640(-2)?$")
            base = self.producer(session=f"named{i}", base_path="some/base")
            self.assertEqual(base.path, f"named{i}/host-20200913-122640/some/base")
            base.finish()
            self.stop()
        self.assertTrue((self.output / "night/host-20200913-122640/ust/uid/0/64-bit/channel_0").exists())
        self.assert_fails(2, "excludes", "-p", "-s")

    def test_by_session_of_producers_before_2_11(self):
        """The directory is named as lttng-relayd 2.13 names it."""
        self.start("-s")
        for session, path, expected in [
                ("night", "/host/night-20200101-101010/ust/uid/0/64-bit", "night/host-20200101-101010/ust/uid/0/64-bit"),
                ("auto-20200101-101012", "/host/auto-20200101-101012/ust/uid/0/64-bit",
                 "auto-20200101-101012/host-20200101-101012/ust/uid/0/64-bit"),
                ("based", "/host/my/base/ust/uid/0/64-bit", "based/host-*/my/base/ust/uid/0/64-bit")]:
            producer = Producer(self.relay)
            self.addCleanup(producer.close)
            producer.greet(10)
            reply = producer.ask(peer.CREATE_SESSION, session.encode().ljust(255, b"\0") + b"host".ljust(64, b"\0") +
                                 struct.pack(">II", 0, 0), 12)
            self.assertEqual(struct.unpack(">QI", reply)[1], peer.OK)
            reply = producer.ask(peer.ADD_STREAM, b"channel_0".ljust(264, b"\0") + path.encode().ljust(4096, b"\0") +
                                 struct.pack(">QQ", 0, 0), 12)
            stream, code = struct.unpack(">QI", reply)
            self.assertEqual(code, peer.OK)
            data = Link(self.relay.data)
            self.addCleanup(data.close)
            data.send(peer.data_message(stream, 0, peer.packet_of(TICKS, 0)))
            wait_until(lambda pattern=f"{expected}/channel_0": list(self.output.glob(pattern)), expected)
        self.stop()
        self.assertEqual(sorted(path.name for path in self.output.iterdir()), ["auto-20200101-101012", "based", "night"])

    def test_disallow_clear(self):
        for option in ("", "-x", "--disallow-clear"):
            self.start(*[option] if option else [])
            producer = self.producer(session=f"kept{option}")
            asker = Producer(self.relay)
            self.addCleanup(asker.close)
            asker.greet()
            _, flags = struct.unpack(">IQ", asker.ask(peer.GET_CONFIGURATION, struct.pack(">Q", 0), 12))
            self.assertEqual(flags & 1, 0 if option else 1)
            self.assertEqual(producer.push(TICKS), peer.OK)
            producer.wait_until_stored()
            file = self.output / producer.path / "ust/uid/0/64-bit/channel_0"
            self.assertTrue(file.exists())
            close = struct.pack(">QQBI", 0, 1_600_000_001, 1, 2)
            if option:
                producer.send(peer.control_message(peer.CLOSE_TRACE_CHUNK, close))
                self.assertEqual(struct.unpack(">I", producer.receive(4))[0], 97)
                producer.receive(4)
                with self.assertRaises(Closed):
                    producer.receive(2)  # more than an empty path
                producer.close()
            else:
                code, length = struct.unpack(">II", producer.ask(peer.CLOSE_TRACE_CHUNK, close, 8))
                self.assertEqual(code, peer.OK)
                producer.receive(length)
                producer.close()
            lines = self.stop()
            self.assertEqual(file.exists(), bool(option))
            if option:
                self.assertIn("does not allow to clear", lines[0][1])

    def test_sync(self):
        for option in ([], ["--sync"]):
            with self.subTest(option=option):
                log = self.directory / f"synced{len(option)}"
                log.touch()
                self.start(*option, wrapper=["env", f"LEAT_SYNC_LOG={log}",
                                             f"LD_PRELOAD={PROGRAMS / 'libtest-sync-log.so'}"])
                producer = self.producer(file_size=8192)

                def synced():
                    return {os.path.basename(name) for name in log.read_text().splitlines()}

                def push(count, expected):
                    log.write_text("")
                    for _ in range(count):
                        self.assertEqual(producer.push(TICKS), peer.OK)
                    producer.wait_until_stored()
                    self.assertEqual(synced(), expected if option else set())

                files = {"channel_0_0", "channel_0_0.idx"}
                everything = {"*"}  # names have come, or gone
                push(1, everything)
                push(1, files)
                producer.send_metadata(b"/* more */")
                push(0, {*files, "metadata"})
                push(2, everything)  # into the next file
                producer.rotate(1)
                producer.send_metadata(peer.METADATA)
                push(0, everything)
                producer.finish()
                self.stop()
                self.assertLessEqual({"channel_0_0", "channel_0_0.idx", "metadata"}, synced(), "at the end in any case")

    def test_output_and_working_directory(self):
        for option in ("-w", "--working-directory"):
            self.start(option, str(self.directory))
            self.assertEqual(os.readlink(f"/proc/{self.relay.process.pid}/cwd"), str(self.directory.resolve()))
            self.stop()
        self.assert_fails(1, "cannot go to /nowhere, as --working-directory says: No such file", "-w", "/nowhere")
        self.assert_fails(1, "/dev/null/traces", "--output", "/dev/null/traces", "--ports", "0:0:0")

    def test_without_openat2(self):
        """As on an old kernel, or in a sandbox that does not know the call: the relay does not start."""
        for error in (errno.ENOSYS, errno.EPERM):
            self.assert_fails(1, f"openat2() does not work here ({os.strerror(error)})", "--ports", "0:0:0",
                              preexec_fn=lambda error=error: fail_system_call(OPENAT2, error))
        self.start()
        self.use()


class Logging(OptionsTest):
    def rubbish(self):
        link = Link(self.relay.control)
        link.send(peer.control_message(99))
        self.assertEqual(link.receive(4), struct.pack(">I", 11))
        self.assertTrue(link.is_closed())
        link.close()

    def test_verbosity(self):
        for options, levels in [([], {"warning"}), (["-v"], {"warning", "info"}), (["--verbose"], {"warning", "info"}),
                                (["-vv"], {"warning", "info", "debug"})]:
            self.start(*options)
            self.use(f"said{len(options)}{options[0] if options else ''}")
            hasty = Viewer(self.relay, connect=False)
            self.addCleanup(hasty.close)
            hasty.ask(peer.CONNECT, struct.pack(">QIII", peer.NO_PACKET, 2, 4, 1), 20)
            self.assertEqual(hasty.attach(4711), (6, []))
            self.rubbish()
            lines = self.stop()
            self.assertEqual({level for level, _ in lines}, levels)
            text = "\n".join(message for _, message in lines)
            if "info" in levels:
                self.assertRegex(text, r"producer 127\.0\.0\.1:\d+: session 1 begins: said\S* of host, protocol 2\.13, live")
                self.assertRegex(text, r"viewer 127\.0\.0\.1:\d+: attaches to session 1: status 1, 2 streams")
                self.assertRegex(text, r"producer 127\.0\.0\.1:\d+: session 1 ends")
                found = re.findall(r"^viewer 127\.0\.0\.1:\d+: does not attach to session 4711: (.*)$", text, re.MULTILINE)
                self.assertEqual(found, ["it has not created a viewer session"])
            if "debug" in levels:
                self.assertIn(": SEND_INDEX, 80 bytes", text)
                self.assertIn(": ATTACH_SESSION", text)

    def test_names_of_peers_make_no_lines(self):
        self.start("-v")
        evil = "a\u009b2Jb"  # clears the screen on some terminals
        producer = Producer(self.relay)
        self.addCleanup(producer.close)
        producer.greet()
        producer.create(session=evil)
        producer.close()
        lines = self.stop()
        self.assertIn(r"a\xC2\x9B2Jb", "\n".join(message for _, message in lines))

    def test_json(self):
        self.start("--log-format", "json")
        self.rubbish()
        pid = self.relay.process.pid
        self.assertEqual(self.relay.stop(), 0)
        line, = map(json.loads, self.relay.log.splitlines())
        self.assertEqual(list(line), ["time", "program", "pid", "level", "message"])
        self.assertEqual((line["program"], line["pid"], line["level"]), ("leat-relayd", pid, "warning"))
        self.start("--log-format=text")
        self.rubbish()
        self.assertEqual([level for level, _ in self.stop()], ["warning"])
        self.assert_fails(2, "--log-format: xml not in {text,json}", "--log-format", "xml")

    def test_file_is_opened_anew_at_sighup(self):
        log = self.directory / "relay.log"
        self.start("--log-file", str(log))
        self.rubbish()
        moved = self.directory / "relay.log.1"
        log.rename(moved)
        self.relay.process.send_signal(signal.SIGHUP)
        opened = pathlib.Path(f"/proc/{self.relay.process.pid}/fd")
        wait_until(lambda: log.exists() and moved.resolve() not in map(pathlib.Path.resolve, opened.iterdir()),
                   "a new file, and the old one is closed")
        self.rubbish()
        self.assertEqual(self.stop(), [], "nothing goes to standard error")
        self.assertEqual([self.line(text)[0] for text in moved.read_text().splitlines()], ["info", "warning"])
        self.assertIn("listening on", moved.read_text())
        self.assertEqual([self.line(text)[0] for text in log.read_text().splitlines()], ["warning"])
        self.assert_fails(1, "cannot write the log /nowhere/log: No such file", "--log-file", "/nowhere/log")

    def test_sighup_without_a_file_is_the_end(self):
        self.start()
        self.assertEqual(self.relay.stop(signal.SIGHUP), 0)

    def test_log_that_nobody_reads_stops_nobody(self):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        process = subprocess.Popen([RELAYD, "-o", str(self.output), "--ports", "0:0:0", "-vv"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=write_end, text=True)
        os.close(write_end)

        def end():
            process.terminate()
            process.wait(PATIENCE)
            process.stdout.close()
        self.addCleanup(end)
        self.relay = type("Relay", (), {"address": "127.0.0.1"})
        self.relay.control, self.relay.data, self.relay.live = map(
            int, PORTS.search(process.stdout.readline()).groups())
        viewer = self.viewer()
        for _ in range(3000):  # a line each; a pipe takes 64 KiB
            viewer.list()
        self.use()

    def test_log_on_a_full_disk_stops_nobody(self):
        self.start("--log-file", "/dev/full", "-vv")
        self.use()
        self.stop()


class Information(OptionsTest):
    def test_version(self):
        for option in ("-V", "--version"):
            result = self.run_relayd(option)
            self.assertEqual(result.returncode, 0)
            self.assertRegex(result.stdout, r"^leat-relayd \d+\.\d+\.\d+\n$")

    def test_help(self):
        text = self.run_relayd("--help").stdout
        self.assertEqual(self.run_relayd("-h").stdout, text)
        self.assertIn("Examples:", text)
        self.assertIn("Viewers are served on this host only", re.sub(r"\s+", " ", text))

    @needs(os.geteuid() in {user.pw_uid for user in pwd.getpwall()}, "known-user")
    def test_default_output_is_below_the_home_of_the_user(self):
        """By the list of users, if HOME is no absolute path."""
        for home in ({}, {"HOME": ""}, {"HOME": "rel"}):
            environment = {name: value for name, value in os.environ.items() if name != "HOME"}
            text = self.run_relayd("--help", env={**environment, **home}).stdout
            self.assertIn(f"DIR={pwd.getpwuid(os.geteuid()).pw_dir}/leat-traces", text)
        self.assertIn("DIR=/elsewhere/leat-traces", self.run_relayd("--help", env={**os.environ, "HOME": "/elsewhere"}).stdout)

    def test_unknown_option(self):
        self.assert_fails(2, "--nothing", "--nothing")
        self.assert_fails(2, "--log-file is empty", "--log-file", "")
        self.assert_fails(2, "--log-file is empty", "--log-file=", "--daemonize")

    def test_every_option_is_used_here(self):
        with open(__file__, encoding="utf-8") as source:
            own = source.read()
        for option in re.findall(r"(?:^  |,)(--?[a-zA-Z][a-z-]*)", self.run_relayd("--help").stdout.split("Examples:")[0],
                                 re.MULTILINE):
            self.assertIn(f'"{option}', own, f"{option} is used by no test")


if __name__ == "__main__":
    main()
