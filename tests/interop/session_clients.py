#!/usr/bin/env python3
"""Clients of the session daemon that misbehave, its signals, and programs that are stopped, killed, or many."""
import json
import os
import signal
import socket
import subprocess
import time

from session_daemons import SessionTest
from support import (LEAT, PATIENCE, SANITIZERS, cpu_seconds_of, main, outside_gate, plain_run, program, stop_process,
                     wait_until)


class Clients(SessionTest):
    """What a client does costs nobody else anything."""

    def assert_serves(self, within=2):
        self.assert_takes_less(within, self.json, "list")

    def assert_error(self, answer, kind, *parts):
        answer = json.loads(answer)
        self.assertEqual((answer["ok"], answer["kind"]), (False, kind), answer)
        for part in parts:
            self.assertIn(part, answer["error"])

    def test_half_a_request(self):
        daemon = self.daemon()
        with daemon.connect() as client:
            client.sendall(b'{"version": 1, "ver')
            self.assert_serves()
            client.sendall(b'b": "version"}\n{"version": 1, ')
            self.assertTrue(json.loads(line(client))["ok"])
            client.shutdown(socket.SHUT_WR)
            self.assertEqual(client.recv(100), b"")
        self.assert_serves()

    def test_request_whose_client_sends_no_more_is_answered(self):
        """As of `printf ... | socat - UNIX-CONNECT:control.sock`."""
        daemon = self.daemon()
        self.create("web")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        # The one is answered at once, the other by its session's thread.
        for request in {"verb": "version"}, {"verb": "stop", "session": "web"}:
            with self.subTest(request["verb"]), daemon.connect() as client:
                client.sendall(json.dumps({"version": 1} | request).encode() + b"\n")
                client.shutdown(socket.SHUT_WR)
                self.assertTrue(json.loads(line(client))["ok"])
                self.assertEqual(client.recv(100), b"")

    def test_several_requests_at_once(self):
        with self.daemon().connect() as client:
            client.sendall(b'{"version": 1, "verb": "version"}\n' * 100)
            answers = client.makefile("rb")
            self.assertTrue(all(json.loads(answers.readline())["ok"] for _ in range(100)))

    def test_silent_connections(self):
        daemon = self.daemon()
        clients = [daemon.connect() for _ in range(66)]
        self.assert_serves()
        clients += [daemon.connect() for _ in range(66)]
        self.create("web")
        self.assert_serves()
        self.assertTrue(json.loads(ask(clients[-1], {"version": 1, "verb": "version"}))["ok"])
        for client in clients:
            client.close()

    def test_requests_that_are_none(self):
        daemon = self.daemon()
        for request, kind, parts in (
                (b"\n", "usage", ()), (b"nonsense\n", "usage", ("JSON",)), (b"[]\n", "usage", ()), (b"7\n", "usage", ()),
                (b"\0\xff\xfe\n", "usage", ()), (b'{"verb": "list"}\n', "usage", ("version",)),
                (b'{"version": 2, "verb": "list"}\n', "unsupported", ("2", "1")),
                (b'{"version": 1, "verb": "dance"}\n', "usage", ("dance",)),
                (b'{"version": 1, "verb": 7}\n', "usage", ("verb",)),
                (b'{"version": 1, "verb": "list", "sesion": "web"}\n', "usage", ("sesion",)),
                (b'{"version": 1, "verb": "start", "session": 7}\n', "usage", ("session",)),
                (b'{"version": 1, "verb": "start", "session": "\\ud800"}\n', "usage", ()),
                (b'{"version": 1, "verb": "create", "session": "a", "directory": "relative"}\n', "usage", ()),
                (b'{"version": 1, "verb": "create", "session": "a", "directory": "/tmp/a\\u0000b"}\n', "usage", ()),
                (b'{"version": 1, "verb": "create", "session": "a", "live": "net://a b:-1"}\n', "usage", ()),
                (b"[" * 1000000 + b"\n", "usage", ()), (b'{"a":' * 200000 + b"\n", "usage", ()),
                (b"[" * 500000 + b"]" * 500000 + b"\n", "usage", ()),
                (b'{"version": 1, "verb": "load", "definition": ' + b"[" * 400000 + b"]" * 400000 + b"}\n", None, ()),
                (b'{"version": 1, "verb": "track", "vpid": ' + b"[" * 400000 + b"]" * 400000 + b"}\n", None, ())):
            with daemon.connect() as client:
                client.sendall(request)
                answer = line(client)
                if kind is None:
                    self.assertFalse(json.loads(answer)["ok"])
                else:
                    self.assert_error(answer, kind, *parts)
            self.assert_serves()

    def test_request_of_two_mebibytes(self):
        daemon = self.daemon()
        with daemon.connect() as client:
            try:
                client.sendall(b'{"version": 1, "verb": "' + b"x" * (2 << 20) + b'"}\n')
            except (BrokenPipeError, ConnectionResetError):
                pass
            try:
                answer = line(client)
            except ConnectionResetError:
                answer = None  # unread bytes of ours came after the answer
            if answer:
                self.assert_error(answer, "usage", "bytes")
        self.assert_serves()

    def test_answers_that_nobody_reads(self):
        daemon = self.daemon()
        self.create("web")
        for number in range(4):
            self.leat("enable-event", f"{number}:" + "x" * 200)
        before = daemon.memory_kib()
        clients = [daemon.connect() for _ in range(10)]
        for client in clients:
            client.settimeout(1)
            try:
                client.sendall(b'{"version": 1, "verb": "list"}\n' * 20000)
            except (TimeoutError, BrokenPipeError, ConnectionResetError):
                pass
            self.assert_serves(60 if SANITIZERS else 4)
        if not SANITIZERS:
            self.assertLess(daemon.memory_kib() - before, 10 * (66 << 10))
        for client in clients:
            client.close()

    def test_client_that_leaves_before_its_answer(self):
        daemon = self.daemon()
        for number in range(100):
            client = daemon.connect()
            request = {"version": 1, "verb": "create", "session": f"s{number}",
                       "directory": str(self.directory / f"t{number}")}
            client.sendall(json.dumps(request).encode() + b"\n")
            client.close()
        self.assert_serves()

        def is_at_rest():
            begin = cpu_seconds_of(daemon.process.pid)
            time.sleep(0.5)  # moment: other processes do not count
            return cpu_seconds_of(daemon.process.pid) - begin < 0.2
        wait_until(is_at_rest, "it does not come to rest")


class Signals(SessionTest):
    def test_sigterm_stores_all_sessions(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            daemon = self.daemon()
            directories = [self.create_active(name, "test:*") for name in ("first", "second", "third")]
            self.leat("stop", "third")
            running = subprocess.Popen([program("emit"), "100000", "2", "wait"], stdout=subprocess.PIPE)
            self.addCleanup(running.communicate)
            self.addCleanup(running.kill)
            self.assertEqual(running.stdout.readline(), b"200001\n")
            daemon.send_signal(number)
            self.assertEqual(daemon.process.wait(PATIENCE), 0)
            for directory in directories[:2]:
                trace = self.trace_of(directory)
                self.assertEqual(len(trace.lines) + trace.discarded(), 200001)
            self.assertEqual(list(directories[2].rglob("metadata")), [])
            self.assertFalse((daemon.directory / "active").exists())
            running.kill()
            running.wait()

    def test_program_does_not_wait_for_a_stopped_daemon_without_a_session(self):
        daemon = self.daemon()
        stop_process(daemon.process.pid)
        for _ in range(3):
            # If it waited, it would wait for ever.
            plain_run(program("emit"), "100000", "2", env={**os.environ, "LEAT_REGISTER_TIMEOUT": "-1"})

    def test_program_runs_on_while_the_daemon_is_stopped(self):
        daemon = self.daemon()
        directory = self.create_active("web", "order:tick")
        running = self.program()
        running.do("emit 10")
        stop_process(daemon.process.pid)
        self.assert_takes_less(1, running.do, "emit 10000")
        daemon.send_signal(signal.SIGCONT)
        running.do("emit 10")
        self.assert_numbers(self.complete_trace("web", directory), "order:tick", range(10020))

    def test_stopped_program_delays_no_command(self):
        self.daemon()
        directory = self.create_active("web", "order:tick")
        stopped = [self.program() for _ in range(4)]
        for running in stopped:
            running.do("emit 10")
            stop_process(running.process.pid)
        for verb in (("enable-event", "stock:*"), ("disable-event", "stock:*"), ("list", "--programs"), ("stop",),
                     ("start",), ("track", "--vpid=all"), ("stop",)):
            self.assert_takes_less(2, self.leat, *verb)
        for running in stopped:
            running.process.send_signal(signal.SIGCONT)
            running.do("emit 10")
        self.assert_takes_less(2, self.leat, "destroy")
        self.assert_numbers(self.trace_of(directory), "order:tick", *[range(10)] * 4)

    def test_killed_programs_leave_nothing_and_lose_nothing(self):
        self.daemon()
        directory = self.create_active("web", "test:count")
        apps = self.runtime / "apps" / f"leat-{os.geteuid()}"
        for _ in range(20):
            killed = subprocess.run([program("emit"), "100", "2", "kill"], stdout=subprocess.PIPE)
            self.assertEqual((killed.returncode, killed.stdout), (-signal.SIGKILL, b"201\n"))
        wait_until(lambda: not list(apps.glob("*.app")), "control files stay")
        self.assertEqual(self.json("list", "--programs")["programs"], [])
        self.assertEqual(len(self.complete_trace("web", directory).lines), 4000)

    @outside_gate("nobody knows when the rings are empty again")
    def test_programs_that_are_killed_in_a_hot_loop(self):
        self.daemon()
        directory = self.create("web")
        self.leat("enable-channel", "c", "--ring-size=4M")
        self.leat("enable-event", "test:*")
        self.leat("start")
        for _ in range(10):
            looping = subprocess.Popen([program("emit"), "1000000000", "2"], stdout=subprocess.DEVNULL)
            time.sleep(0.05)
            looping.kill()
            looping.wait()
        self.leat("enable-event", "order:tick")
        running = self.program()
        wait_until(lambda: self.settled("web"), "the rings are never empty")
        running.do("emit 10000")
        counts = self.stopped("web")
        events = subprocess.run([LEAT, "view", directory], capture_output=True, text=True)
        self.assertEqual(events.returncode, 0, events.stderr)
        self.assertEqual(events.stdout.count("\n"), counts["events"])
        self.assertEqual(events.stdout.count(" order:tick: "), 10000)

    def settled(self, name):
        before = self.session(name)["channels"][0]["events"]
        time.sleep(0.3)  # moment: only a test outside the gate calls it
        return self.session(name)["channels"][0]["events"] == before

    def test_many_short_programs_leave_the_daemon_as_it_was(self):
        daemon = self.daemon()
        directory = self.create_active("web", "test:*")

        def run(count, *prefix):
            for _ in range(count):
                self.assertEqual(plain_run(*prefix, program("emit"), "10", "1").stdout, "11\n")
        cpus = sorted(os.sched_getaffinity(0))
        for cpu in cpus:  # the ring of each becomes a stream, which has files
            run(10, "taskset", "-c", str(cpu))
        run(50)
        self.wait_for_program_count(0)
        before = daemon.descriptors(), daemon.memory_kib()
        run(300)
        self.wait_for_program_count(0)
        wait_until(lambda: daemon.descriptors() <= before[0], "descriptors stay open")
        if not SANITIZERS:
            self.assertLess(daemon.memory_kib() - before[1], 2048)
        self.assertEqual(len(self.complete_trace("web", directory).lines), (10 * len(cpus) + 350) * 11)
        self.leat("destroy")
        self.assertLess(daemon.descriptors(), before[0])


def line(client):
    """The answer that the daemon sends, behind lines that say that it is under way; empty if it closes the connection."""
    with client.makefile("rb") as lines:
        return next((line for line in lines if not line.startswith(b'{"progress"')), b"")


def ask(client, request):
    client.sendall(json.dumps(request).encode() + b"\n")
    return line(client)


if __name__ == "__main__":
    main()
