#!/usr/bin/env python3
"""Tests the functions that compute and show the benchmarks' figures."""

import io
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

import support


def samples_of(**figures):
    samples = support.Samples()
    for side, of_side in figures.items():
        samples.add(side, of_side)
    return samples


class Rows(unittest.TestCase):
    def test_medians_and_spread_of_those_who_took_part(self):
        row = support.row("x", "ns", samples_of(leat=[3, 1, 10], floor=[2]))
        self.assertEqual((row["leat"], row["peer"], row["floor"]), (3, None, 2))
        self.assertEqual(row["spread"], {"leat": [1, 10], "floor": [2, 2]})
        self.assertEqual(row["samples"], {"leat": 3, "floor": 1})
        self.assertNotIn("splice", row)

    def test_side_without_figures_has_none(self):
        row = support.row("x", "ns", samples_of(leat=[1], peer=[]))
        self.assertIsNone(row["peer"])
        self.assertEqual(row["spread"], {"leat": [1, 1]})

    def test_second_floor_is_a_column_of_its_own(self):
        row = support.row("x", "ns", samples_of(leat=[4], splice=[2]), "splice")
        self.assertEqual(row["splice"], 2)
        self.assertEqual(support.row("x", "ns", samples_of(leat=[4]), "splice")["splice"], None)


class Table(unittest.TestCase):
    def table(self, *rows):
        with redirect_stdout(io.StringIO()) as out:
            support.print_table(list(rows), "peer")
        return [line.split() for line in out.getvalue().splitlines()]

    def test_spread_stands_beside_the_median(self):
        lines = self.table(support.row("x", "ns", samples_of(leat=[1, 2, 4], peer=[6], floor=[1])))
        self.assertEqual(lines[1], ["x", "ns", "2.00", "(1.00..4.00)", "6.00", "1.00", "3.00x", "2.00x"])

    def test_figures_nobody_has(self):
        lines = self.table(support.row("x", "ns", samples_of(floor=[100], splice=[250]), "splice"))
        self.assertEqual(lines[0][-2:], ["splice", "leat/splice"])
        self.assertEqual(lines[1], ["x", "ns", "-", "-", "100", "-", "-", "250", "-"])


class Turns(unittest.TestCase):
    def test_there_and_back(self):
        self.assertEqual([support.in_turn("abc", number) for number in range(3)],
                         [["a", "b", "c"], ["c", "b", "a"], ["a", "b", "c"]])

    def test_names_of_a_dict(self):
        self.assertEqual(support.in_turn({"leat": 1, "peer": 2}, 1), ["peer", "leat"])


class FileSystem(unittest.TestCase):
    def test_innermost_mount_counts(self):
        self.assertEqual(support.file_system_of(pathlib.Path("/proc/self")), "proc")
        self.assertNotEqual(support.file_system_of(pathlib.Path("/")), "unknown")

    def test_neighbour_with_a_longer_name_does_not(self):
        mounts = "1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / /a rw - tmpfs t rw\n3 1 0:3 / /a/b rw - xfs x rw\n"
        with tempfile.NamedTemporaryFile("w") as table:
            table.write(mounts)
            table.flush()
            types = [support.file_system_of(pathlib.Path(path), pathlib.Path(table.name))
                     for path in ["/a", "/ab", "/a/c", "/a/b/c"]]
        self.assertEqual(types, ["tmpfs", "ext4", "tmpfs", "xfs"])

    def test_later_mount_hides_the_earlier_one(self):
        mounts = "1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / /a rw - tmpfs t rw\n3 2 0:3 / /a rw shared:1 - xfs x rw\n"
        with tempfile.NamedTemporaryFile("w") as table:
            table.write(mounts)
            table.flush()
            self.assertEqual(support.file_system_of(pathlib.Path("/a/b"), pathlib.Path(table.name)), "xfs")


class Documents(unittest.TestCase):
    """README.md and docs/benchmarks.md show commands that take too long to be run; check.py runs their quick rounds."""

    README, PAGE = ((support.HERE.parent / name).read_text(encoding="utf-8") for name in ["README.md", "docs/benchmarks.md"])

    def test_benchmarks_exist(self):
        names = re.findall(r"\./dev bench ([a-z]+)", self.README + self.PAGE)
        self.assertGreater(len(names), 5)
        for name in names:
            self.assertTrue((support.HERE / f"{name}.py").is_file(), name)

    def test_options_exist(self):
        program = [sys.executable, support.HERE / "relay.py", "--help"]
        help_text = subprocess.run(program, capture_output=True, text=True, check=True).stdout
        options = re.findall(r"^\| `(--[a-z]+)", self.PAGE, re.MULTILINE)
        self.assertGreater(len(options), 3)
        for option in options:
            self.assertIn(f"\n  {option} ", help_text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
