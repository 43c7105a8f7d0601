#!/usr/bin/env python3
"""A program of another version than the recorder: it runs untraced, and the recorder says which, and what to do."""
import sys

from support import InteropTest, main, plain_run, program

# Registers as a libleat of that version would; and goes on when the recorder hangs up.
REGISTER = """
import os, socket, struct, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as recorder:
    recorder.connect(os.environ["LEAT_RECORDER_DIR"] + "/app.sock")
    recorder.send(struct.pack("<IHH", 0x5041454c, int(sys.argv[1]), 1) + bytes(int(sys.argv[2])))
    print(len(recorder.recv(100)))
"""


class OtherVersion(InteropTest):
    def assert_said(self, recording, output, *parts):
        """In one warning; the closing line refers to it."""
        self.assertEqual((recording.status, recording.stdout), (0, output), recording.stderr)
        lines = recording.stderr.splitlines()
        self.assertEqual(len(lines), 2, recording.stderr)
        for part in ("leat: warning: ", *parts):
            self.assertIn(part, lines[0])
        self.assertEqual(lines[1], "leat: nothing was recorded: the versions of program and recorder do not match: see the warning")
        self.assertEqual(recording.summary["events"], 0)

    def test_protocol_of_another_version(self):
        for version, size, remedy in (6, 4, "record it with a newer leat"), (9, 200, "record it with a newer leat"), \
                (2, 32, "upgrade its libleat; if it is linked statically, link it again"):
            with self.subTest(version=version, size=size):
                recording = self.record(sys.executable, "-c", REGISTER, str(version), str(size), name=f"trace-{version}")
                self.assert_said(recording, "0\n", "python", "is not traced: its libleat speaks version "
                                 f"{version} of the protocol, this recorder version 5: {remedy}")

    def test_headers_of_another_version(self):
        for version, remedy in (4, "upgrade that libleat"), (2, "compile it again"):
            with self.subTest(version=version):
                recording = self.record(program("other-abi"), str(version), name=f"trace-{version}")
                self.assert_said(recording, "0\n", "test-program-ot is not traced: its headers are of ABI version "
                                 f"{version}, the libleat that it runs with is of version 3: {remedy}")

    def test_many_of_one_name_are_said_once(self):
        command = f"for i in 1 2 3; do {program('other-abi')} 2; done"
        self.assert_said(self.record("sh", "-c", command), "0\n" * 3, "test-program-ot")

    def test_others_are_recorded_all_the_same(self):
        recording = self.record("sh", "-c", f"{program('other-abi')} 2; {program('other-abi')}")
        self.assertEqual(recording.stdout.split("\n")[0], "0")
        self.assertNotEqual(recording.stdout.split("\n")[1], "0")
        self.assertEqual(len([line for line in recording.stderr.splitlines() if "is not traced" in line]), 1)

    def test_without_a_recorder_nobody_is_told(self):
        plain = plain_run(program("other-abi"), "2")
        self.assertEqual((plain.returncode, plain.stdout, plain.stderr), (0, "0\n", ""))


if __name__ == "__main__":
    main()
