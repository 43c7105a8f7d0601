#!/usr/bin/env python3
"""Real loads at default settings: a shell script of 1,000 commands, `make -j2`, redis and nginx. Each behaves as it
does without us, and a recording gives a reason for every event that it discards. Prints the figures of each.

By hand: real_loads.py [TEST...]. Servers that are not installed are skipped: apt-get install redis-server nginx wrk.
LEAT_MAKE_DIRECTORY names the configured sources of a package, which are then made instead of generated ones."""
import os
import socket
import subprocess
import sys
import urllib.request

from support import LEAT, PATIENCE, InteropTest, can_be_two_users, has, main, needs, plain_run, wait_until

LIBC = ("--preload", "libc")
SCRIPT = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done; echo $i"
SOURCES = 60


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class RealLoad(InteropTest):
    def check(self, recording, what):
        """All recorded events are in the trace, and all others have a reason."""
        summary = recording.summary
        self.assertIsNotNone(summary, recording.stderr)
        reasons = {reason: count for reason, count in summary["discarded_by_reason"].items() if count}
        self.assertEqual(sum(reasons.values()), summary["discarded"])
        self.assertGreater(summary["events"], 0)
        view = subprocess.run(f'"{LEAT}" view "{recording.path}" | wc -l', shell=True, capture_output=True, text=True)
        self.assertEqual(int(view.stdout), summary["events"], view.stderr)
        print(f"{what}: {summary['events']} events, {summary['bytes']} bytes, {summary['discarded']} discarded "
              f"{reasons}, {summary['registrations']} registrations", file=sys.stderr)

    def serve(self, *command, is_ready):
        """Starts a server under `leat record`. It runs until stop() sends SIGTERM."""
        process = subprocess.Popen(self.record_command(command, LIBC), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        wait_until(is_ready, f"{command} does not answer")
        return process

    def stop(self, process):
        process.terminate()
        stdout, stderr = process.communicate(timeout=PATIENCE)
        return self.recording_of(subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr), "trace")


class Commands(RealLoad):
    def test_shell_script_of_a_thousand_commands(self):
        recording = self.record("sh", "-c", SCRIPT, options=LIBC)
        self.assert_like_plain(recording, plain_run("sh", "-c", SCRIPT))
        self.check(recording, "1,000 commands")

    def generated_sources(self):
        tree = self.directory / "sources"
        tree.mkdir()
        for i in range(SOURCES):
            (tree / f"unit{i}.c").write_text("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + "".join(
                f"int unit{i}_{j}(const char* s) {{ char* copy = strdup(s); int n = copy ? atoi(copy) + {j} : 0;\n"
                f"    printf(\"%d\\n\", n); free(copy); return n; }}\n" for j in range(20)))
        units = " ".join(f"unit{i}.o" for i in range(SOURCES))
        (tree / "Makefile").write_text(f"libunits.a: {units}\n\tar rcs $@ $^\n%.o: %.c\n\tgcc -O2 -c -o $@ $<\n")
        return tree

    def test_make_with_two_jobs(self):
        tree = os.environ.get("LEAT_MAKE_DIRECTORY") or self.generated_sources()
        recording = self.record("make", "-s", "-j2", options=LIBC, cwd=tree)
        self.assertEqual(recording.status, 0, recording.stderr)
        self.check(recording, "make -j2")


class Servers(RealLoad):
    @needs(has("redis-server", "redis-benchmark"), "load-generators")
    def test_redis(self):
        port = str(free_port())
        client = ["redis-cli", "-p", port, "ping"]
        server = self.serve("redis-server", "--port", port, "--save", "", "--dir", str(self.directory),
                            is_ready=lambda: plain_run(*client).stdout == "PONG\n")
        load = plain_run("redis-benchmark", "-p", port, "-n", "100000", "-c", "50", "-t", "set,get,lpush", "-q")
        self.assertEqual(load.returncode, 0, load.stderr)
        recording = self.stop(server)
        self.assertEqual(recording.status, 0, recording.stderr)
        self.check(recording, "redis")

    NGINX = """
daemon off; worker_processes 2; pid {directory}/pid; error_log {directory}/errors; {user}
events {{ worker_connections 256; }}
http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {directory}/www; }} }}
"""

    @needs(has("nginx", "wrk"), "load-generators")
    @needs(os.getuid() != 0 or can_be_two_users(), "two-users")
    def test_nginx(self):
        port = free_port()
        (self.directory / "www").mkdir()
        (self.directory / "www" / "index.html").write_text("hello\n" * 100)
        configuration = self.directory / "nginx.conf"
        user = "user root;" if os.getuid() == 0 else ""
        configuration.write_text(self.NGINX.format(directory=self.directory, port=port, user=user))
        url = f"http://127.0.0.1:{port}/"

        def answers():
            try:
                return urllib.request.urlopen(url, timeout=PATIENCE).status == 200
            except OSError:
                return False

        server = self.serve("nginx", "-c", str(configuration), is_ready=answers)
        load = plain_run("wrk", "-t2", "-c32", "-d5s", url)
        self.assertEqual(load.returncode, 0, load.stderr)
        self.assertNotIn("Non-2xx", load.stdout)
        recording = self.stop(server)
        self.assertEqual(recording.status, 0, recording.stderr)
        self.check(recording, "nginx")


if __name__ == "__main__":
    main()
