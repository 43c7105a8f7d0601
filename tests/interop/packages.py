#!/usr/bin/env python3
"""The Debian packages, as users have them: installed into a clean root that has nothing of this tree, where an ordinary
user builds the examples and records them, and the relay runs as its unit says. Not among the tests of `./dev test`, as it
fetches a Debian: `./dev package --check`.
"""
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from support import SOURCE

PACKAGES = SOURCE / "build" / "packages"
NAMES = ("leat", "libleat0", "libleat-dev", "leat-relayd")
TOOLS = "gcc,g++,make,cmake,pkg-config,file"
EXAMPLES = "/usr/share/doc/libleat-dev/examples"
UNIT = "lib/systemd/system/leat-relayd.service"
# Namespaces of its own, with /proc and a loopback, and another root.
ENTER = 'mount -t proc proc "$0/proc" && ip link set lo up && exec chroot "$0" "$@"'
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
        result = subprocess.run(entering(cls.root, command, network), capture_output=True, text=True, timeout=300,
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
        for file in self.run_as_root("sh", "-c", "dpkg -L leat libleat0 leat-relayd | xargs file -F '' | grep ELF").splitlines():
            path = file.split()[0]
            dynamic = self.run_as_root("readelf", "--dynamic", path)
            self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\)", path)
        for program in "leat", "leat-relayd":
            self.assertRegex(self.run_as_user(f"{program} --version"), rf"^{program} \d+\.\d+\.\d+$")
            self.assertNotIn("not found", self.run_as_root("ldd", f"/usr/bin/{program}"))

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

    def test_5_program_that_nobody_recompiled(self):
        self.run_as_user("leat record -o preloaded --preload libc,pthread,dl -- sh -c 'ls / | sort'")
        self.assertIn("lttng_ust_libc:malloc", self.events_of("preloaded")[0])

    def test_6_relay_as_its_unit_says(self):
        unit = (self.root / UNIT).read_text()
        self.run_as_root("systemd-analyze", "verify", "--man=no", f"/{UNIT}")
        # 0 is locked away, 10 can do everything: times ten.
        self.run_as_root("systemd-analyze", "security", "--offline=true", "--threshold=20", f"/{UNIT}")
        user = re.search(r"^User=(.*)$", unit, re.MULTILINE)[1]
        state = "/var/lib/" + re.search(r"^StateDirectory=(.*)$", unit, re.MULTILINE)[1]
        start = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1]
        # What systemd does, as far as it can be done without it. One network for all three.
        script = f"""
            set -e
            install --directory --owner={user} --group={user} --mode=0750 {state}
            umask 0027
            STATE_DIRECTORY={state} LEAT_RELAYD_OPTIONS= setpriv --reuid={user} --regid={user} --init-groups \
                --no-new-privs --bounding-set=-all sh -c 'exec {start}' >/tmp/relay.log 2>&1 &
            relay=$!
            until grep -q listening /tmp/relay.log; do kill -0 $relay; sleep 0.1; done
            su somebody -c "leat record --live --session packaged -- /home/somebody/live Ada"
            su somebody -c "leat view net://127.0.0.1"
            kill $relay
            wait $relay
        """
        self.run_as_user(f"gcc {EXAMPLES}/hello.c -o live -lleat")
        self.run_as_root("bash", "-c", script)
        log = (self.root / "tmp/relay.log").read_text()
        self.assertIn(f"traces in {state}", log)
        self.assertIn("packaged", log)
        self.assertIn("hello:greeted", self.run_as_root("leat", "view", state))
        self.assertEqual({path.lstat().st_uid for path in (self.root / state[1:]).rglob("*")},
                         {int(self.run_as_root("id", "--user", user))})
        result = subprocess.run(entering(self.root, ["su", "somebody", "-c", f"ls {state}"]), capture_output=True, env=ENVIRONMENT)
        self.assertNotEqual(result.returncode, 0, "traces are for the relay's group alone")

    def test_7_completion(self):
        self.run_as_user("for file in /usr/share/bash-completion/completions/leat*; do source $file; done; complete -p leat leat-relayd")

    def test_9_removed_without_a_trace(self):
        self.run_as_root("apt-get", "purge", "-qq", *NAMES)
        left = [path for top in ("etc", "lib", "usr", "bin", "sbin") for path in (self.root / top).rglob("*leat*")]
        self.assertEqual([str(path) for path in left if "doc/" not in str(path)], [])


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
