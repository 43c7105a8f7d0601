#!/usr/bin/env python3
"""The Debian packages, as users have them: installed into a clean root that has nothing of this tree, where an ordinary
user builds the examples and records them, and systemd runs the relay and the session daemon. Not among the tests of `./dev test`, as it
fetches a Debian: `./dev package --check`.
"""
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import unittest

from support import PATIENCE, SOURCE, wait_until

PACKAGES = SOURCE / "build" / "packages"
NAMES = ("leat", "libleat0", "libleat-capture0", "libleat-ctf0", "libleat-dev", "python3-leat", "leat-sessiond", "leat-relayd")
TOOLS = "gcc,g++,make,cmake,pkg-config,file"
EXAMPLES = "/usr/share/doc/libleat-dev/examples"
UNIT = "lib/systemd/system/leat-relayd.service"
DAEMON_UNIT = "lib/systemd/system/leat-sessiond.service"
USER_UNIT = "usr/lib/systemd/user/leat-sessiond.service"
# Namespaces of its own, with /proc, /dev/shm and a loopback, and another root.
ENTER = ('mount -t proc proc "$0/proc" && mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm" && ip link set lo up && '
         'exec chroot "$0" "$@"')
# As much of a machine as systemd wants.
BOOT = """
set -e
mount --make-rprivate /
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs tmpfs sys/fs/cgroup
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd systemd sys/fs/cgroup/systemd
fi
mount -t tmpfs -o mode=755 dev dev
for node in null zero full random urandom tty; do
    touch dev/$node
    mount --bind /dev/$node dev/$node
done
mkdir dev/pts dev/shm dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for directory in run tmp dev/shm; do mount -t tmpfs tmpfs $directory; done
ip link set lo up
mkdir host
pivot_root . host
umount -l /host
rmdir /host
exec env container=other /lib/systemd/systemd --system multi-user.target
"""
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def entering(root, command, network="--net"):
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", *([network] if network else []), "sh", "-c", ENTER,
            str(root), *command]


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="leat-packages-")
        cls.addClassCleanup(scratch.cleanup)
        cls.root = pathlib.Path(scratch.name) / "root"
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={TOOLS}", "bookworm", cls.root], check=True)
        shutil.copy("/etc/resolv.conf", cls.root / "etc/resolv.conf")
        # Our debug symbols would do no harm; they are not needed.
        files = [file for name in NAMES for file in PACKAGES.glob(f"{name}_*.deb")]
        assert len(files) == len(NAMES), f"make the packages first: ./dev package ({files})"
        for file in files:
            shutil.copy(file, cls.root / "tmp")
        cls.run_as_root("useradd", "--create-home", "somebody")
        cls.run_as_root("apt-get", "update", "-qq", network=None)
        cls.run_as_root("sh", "-c", "apt-get install -qq --no-install-recommends /tmp/*.deb", network=None)

    @classmethod
    def run_as_root(cls, *command, network="--net"):
        result = subprocess.run(entering(cls.root, command, network), capture_output=True, text=True, timeout=300,  # moment: fetches
                                env=ENVIRONMENT)
        if result.returncode != 0:
            raise AssertionError(f"{shlex.join(command)}:\n{result.stdout}{result.stderr}")
        return result.stdout

    def run_as_user(self, script):
        """In the user's home."""
        return self.run_as_root("su", "--login", "somebody", "--shell", "/bin/bash", "-c", f"set -e\n{script}")

    def events_of(self, trace):
        return self.run_as_user(f"leat view {trace}").splitlines()

    def assert_example(self, name, hello, io_queue):
        """Both examples, already built, are recorded and viewed with what is installed."""
        self.run_as_user(f"leat record -o {name}-hello -- {hello} Ada Grace")
        lines = self.events_of(f"{name}-hello")
        self.assertEqual(len(lines), 6, lines)
        self.assertIn('hello:greeted: ', lines[0])
        self.assertIn('name = "Ada"', lines[0])
        self.assertIn("hello:finished", lines[-1])
        self.run_as_user(f"leat record -o {name}-io -- {io_queue}")
        counts = [sum(f" {event}: " in line for line in self.events_of(f"{name}-io"))
                  for event in ("io:queued", "io:dispatched", "io:completed")]
        self.assertGreater(counts[0], 100)
        self.assertEqual(len(set(counts)), 1, counts)

    def test_1_nothing_of_the_tree_is_needed(self):
        for file in self.run_as_root("sh", "-c", "dpkg -L leat libleat0 libleat-capture0 libleat-ctf0 python3-leat leat-sessiond leat-relayd | xargs file -F '' | grep ELF").splitlines():
            path = file.split()[0]
            dynamic = self.run_as_root("readelf", "--dynamic", path)
            self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\)", path)
        for program in "leat", "leat-sessiond", "leat-relayd":
            self.assertRegex(self.run_as_user(f"{program} --version"), rf"^{program} \d+\.\d+\.\d+$")
            self.assertNotIn("not found", self.run_as_root("ldd", f"/usr/bin/{program}"))

    def test_1_traces_are_read_by_programs_and_scripts(self):
        self.run_as_user(f"""
            gcc {EXAMPLES}/hello.c -o hello-to-read $(pkg-config --cflags --libs leat)
            leat record -o hello-trace -- ./hello-to-read Ada
            gcc {EXAMPLES}/read_trace.c -o read-trace $(pkg-config --cflags --libs leat-ctf)
            ./read-trace hello-trace | grep -q 'hello:greeted .*name="Ada"'
            python3 -c 'import leat; assert any(event.get("name") == "Ada" for event in leat.open("hello-trace"))'
        """)

    def test_2_shared_library_by_pkg_config(self):
        self.run_as_user(f"""
            gcc {EXAMPLES}/hello.c -o hello $(pkg-config --cflags --libs leat)
            g++ -std=c++17 {EXAMPLES}/io_queue.cpp -o io-queue $(pkg-config --cflags --libs leat) -pthread
            ldd hello | grep -q 'libleat.so.0 => /lib/x86_64-linux-gnu/libleat.so.0'
        """)
        self.assert_example("shared", "./hello", "./io-queue")

    def test_3_archive_by_pkg_config(self):
        self.run_as_user(f"""
            gcc -static {EXAMPLES}/hello.c -o hello-static $(pkg-config --cflags --static --libs leat)
            g++ -std=c++17 -static {EXAMPLES}/io_queue.cpp -o io-queue-static $(pkg-config --cflags --static --libs leat) -pthread
            file hello-static | grep -q 'statically linked'
        """)
        self.assert_example("static", "./hello-static", "./io-queue-static")

    def test_4_cmake_package(self):
        self.run_as_user(f"cmake -S {EXAMPLES} -B built && cmake --build built")
        self.assert_example("cmake", "built/example-hello", "built/example-io-queue")

    def test_4_program_that_captures_itself(self):
        self.run_as_user(f"""
            gcc {EXAMPLES}/capture.c -o captures $(pkg-config --cflags --libs leat-capture)
            ldd captures | grep -q 'libleat-capture.so.0 => /lib/x86_64-linux-gnu/libleat-capture.so.0'
        """)
        for program in "./captures", "built/example-capture":
            trace = f"by-{program.split('/')[-1]}"
            self.run_as_user(f"{program} {trace} 0.5")
            self.assertIn("io:queued: ", self.events_of(trace)[0])

    def test_5_program_that_nobody_recompiled(self):
        self.run_as_user("leat record -o preloaded --preload libc,pthread,dl -- sh -c 'ls / | sort'")
        self.assertTrue(any(" lttng_ust_libc:malloc: " in line for line in self.events_of("preloaded")))

    def boot(self):
        """systemd in the root, in namespaces of its own; gives what runs a command there."""
        boot = subprocess.Popen(["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child",
                                 "sh", "-c", BOOT, str(self.root)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                env=ENVIRONMENT)
        self.addCleanup(boot.wait)
        self.addCleanup(boot.kill)  # its parent, and so all of it: it heeds no SIGTERM

        def run(*command):
            child = pathlib.Path(f"/proc/{boot.pid}/task/{boot.pid}/children").read_text().strip()
            enter = ["nsenter", "--target", child, "--all", "--root", "--wdns=/"]
            return subprocess.run([*enter, *command], capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT)
        wait_until(lambda: run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"), "systemd is up")
        return run

    def test_6_relay_as_a_service(self):
        self.run_as_root("systemd-analyze", "verify", "--man=no", f"/{UNIT}")
        # 0 is locked away, 10 can do everything: times ten.
        self.run_as_root("systemd-analyze", "security", "--offline=true", "--threshold=20", f"/{UNIT}")
        self.run_as_user(f"gcc {EXAMPLES}/hello.c -o live -lleat")
        run = self.boot()

        def is_listening():
            return "listening on 127.0.0.1" in run("journalctl", "--unit=leat-relayd", "--output=cat", "_PID=" + main_pid()).stdout

        def main_pid():
            return run("systemctl", "show", "--property=MainPID", "--value", "leat-relayd").stdout.strip()
        wait_until(is_listening, "the relay listens")
        for live in "net://127.0.0.1", "net+udp://127.0.0.1":
            recorded = run("su", "--login", "somebody", "-c", f"leat record --live={live} -- ./live Ada")
            self.assertIn("4 events", recorded.stderr)
        self.assertEqual(len(run("leat", "view", "/var/lib/leat").stdout.splitlines()), 8)
        journal = run("journalctl", "--unit=leat-relayd", "--output=cat").stdout
        self.assertNotRegex(journal, r"(warning|error): ")

        # It has a user of its own, whose traces are for the members of its group alone.
        user = int(run("id", "--user", "leat-relayd").stdout)
        self.assertEqual({path.lstat().st_uid for path in (self.root / "var/lib/leat").rglob("*")}, {user})
        self.assertNotEqual(run("su", "somebody", "-c", "ls /var/lib/leat").returncode, 0)
        run("usermod", "--append", "--groups=leat-relayd", "somebody")
        self.assertEqual(len(run("su", "somebody", "-c", "leat view /var/lib/leat").stdout.splitlines()), 8)

        killed = main_pid()
        run("kill", "-KILL", killed)
        wait_until(lambda: main_pid() not in ("0", killed) and is_listening(), "a killed relay is back")
        run("systemctl", "stop", "leat-relayd")
        self.assertEqual(run("systemctl", "show", "--property=Result", "--value", "leat-relayd").stdout, "success\n")

    def test_7_session_daemon_as_a_service(self):
        self.run_as_root("systemd-analyze", "verify", "--man=no", f"/{DAEMON_UNIT}")
        self.run_as_root("env", "XDG_RUNTIME_DIR=/tmp", "systemd-analyze", "verify", "--user", "--man=no", f"/{USER_UNIT}")
        self.run_as_root("systemd-analyze", "security", "--offline=true", "--threshold=40", f"/{DAEMON_UNIT}")
        self.run_as_root("useradd", "--create-home", "other")
        self.run_as_user(f"gcc {EXAMPLES}/hello.c -o traced -lleat")
        run = self.boot()

        def checked(*command):
            result = run(*command)
            self.assertEqual(result.returncode, 0, f"{command}:\n{result.stdout}{result.stderr}")
            return result.stdout

        def as_user(user, command):
            return checked("su", "--login", user, "-c", command)

        def record(steering, running, directory):
            """Gives the owners of the files."""
            as_user(steering, f"leat create s -o {directory} && leat enable-event --all && leat start")
            as_user(running, "traced Ada")
            self.assertIn(": 4 events, 0 discarded", as_user(steering, "leat destroy"))
            self.assertEqual(len(as_user(steering, f"leat view {directory}").splitlines()), 4)
            return set(checked("find", directory, "-type", "f", "-printf", "%u\\n").split())

        wait_until(lambda: run("systemctl", "is-active", "leat-sessiond").stdout == "active\n", "the daemon is ready")
        checked("install", "--mode=755", "/home/somebody/traced", "/usr/local/bin/traced")
        self.assertEqual(checked("stat", "--format=%A %U %G", "/run/leat/control.sock"), "srw-rw---- root tracing\n")

        # Root steers the daemon of the system, and each user has the part of their own programs.
        self.assertEqual(record("root", "somebody", "/tmp/by-root"), {"somebody"})
        # So do members of the group. What they make is theirs.
        checked("usermod", "--append", "--groups=tracing", "somebody")
        self.assertEqual(record("somebody", "other", "/tmp/by-member"), {"somebody"})
        # All others get a daemon of their own, for their own programs.
        self.assertEqual(record("other", "other", "/tmp/by-other"), {"other"})
        own = f"/dev/shm/leat-{checked('id', '--user', 'other').strip()}/control.sock"
        self.assertEqual(checked("stat", "--format=%A %U", own), "srw------- other\n")

        # A daemon that is killed loses nothing.
        def main_pid():
            return checked("systemctl", "show", "--property=MainPID", "--value", "leat-sessiond").strip()
        as_user("root", "leat create killed -o /tmp/killed && leat enable-event --all && leat start")
        as_user("somebody", "traced Ada")
        killed = main_pid()
        checked("kill", "-KILL", killed)
        wait_until(lambda: main_pid() not in ("0", killed) and run("leat", "list").returncode == 0, "a killed daemon is back")
        as_user("somebody", "traced Ada")
        self.assertIn(": 8 events, 0 discarded", as_user("root", "leat destroy"))
        # Nor does one that is reloaded.
        as_user("root", "leat create reloaded -o /tmp/reloaded && leat enable-event --all && leat start")
        checked("systemctl", "reload", "leat-sessiond")
        wait_until(lambda: "starting again" in checked("journalctl", "--unit=leat-sessiond", "--output=cat"), "it is not reloaded")
        as_user("somebody", "traced Ada")
        self.assertIn(": 4 events, 0 discarded", as_user("root", "leat destroy"))

        # At SIGTERM it stores what there is.
        as_user("root", "leat create last -o /tmp/last && leat enable-event --all && leat start")
        as_user("somebody", "traced Ada")
        checked("systemctl", "stop", "leat-sessiond")
        self.assertEqual(checked("systemctl", "show", "--property=Result", "--value", "leat-sessiond"), "success\n")
        self.assertEqual(len(as_user("root", "leat view /tmp/last").splitlines()), 4)
        self.assertNotRegex(checked("journalctl", "--unit=leat-sessiond", "--output=cat"), r"(warning|error): ")

        # Where a daemon runs already, the service cannot start, and does that one no harm.
        as_user("root", "leat create by-hand -o /tmp/by-hand")
        self.assertNotEqual(run("systemctl", "start", "leat-sessiond").returncode, 0)
        run("systemctl", "stop", "leat-sessiond")
        self.assertIn('"by-hand"', as_user("root", "leat list"))

    def test_8_completion(self):
        programs = "leat leat-relayd leat-sessiond"
        self.run_as_user(f"for file in /usr/share/bash-completion/completions/leat*; do source $file; done; complete -p {programs}")

    def test_9_removed_without_a_trace(self):
        self.run_as_root("apt-get", "purge", "-qq", *NAMES)
        left = [path for top in ("etc", "lib", "usr", "bin", "sbin") for path in (self.root / top).rglob("*leat*")]
        self.assertEqual([str(path) for path in left if "doc/" not in str(path)], [])


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
