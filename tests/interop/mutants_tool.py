#!/usr/bin/env python3
"""Tests `./dev mutants` on a project of one file: what it calls killed, surviving, and an error."""
import json
import shutil
import subprocess
import sys

import support

CMAKE = """cmake_minimum_required(VERSION 3.25)
project(fake LANGUAGES C)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_executable(test-fake src/fake.c)
"""
PRESETS = {"version": 6,
           "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"}],
           "buildPresets": [{"name": "release", "configurePreset": "release"}]}
# Behaves like a GoogleTest program of one test.
SOURCE = """#include <stdio.h>
#include <string.h>

static int sum(int a, int b)
{
    return a + b;
}

int main(int argc, char **argv)
{
    int count = argc == 2 && !strcmp(argv[1], "--gtest_filter=Sum.*");
    printf("[==========] %d tests from %d test suites ran. (0 ms total)\\n", count, count);
    return count && sum(1, 2) != 3;
}
"""
PATCH = """Breaks: a promise.
Test: {test}

diff --git a/src/fake.c b/src/fake.c
--- a/src/fake.c
+++ b/src/fake.c
@@ -5,3 +5,3 @@
 {{
-    return {before};
+    return {after};
 }}
"""


class MutantsToolTest(support.InteropTest):
    def setUp(self):
        super().setUp()
        for path, text in {"CMakeLists.txt": CMAKE, "CMakePresets.json": json.dumps(PRESETS), "src/fake.c": SOURCE,
                           ".gitignore": "/build/\n"}.items():
            (self.directory / path).parent.mkdir(exist_ok=True)
            (self.directory / path).write_text(text)
        (self.directory / "tools").mkdir()
        shutil.copy(support.SOURCE / "tools" / "mutants", self.directory / "tools")
        subprocess.run(["git", "init", "-q"], cwd=self.directory, check=True)

    def add(self, name, after, before="a + b", test="unit fake Sum.*"):
        path = self.directory / "tests" / "mutants" / (name + ".patch")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PATCH.format(test=test, before=before, after=after))

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, "tools/mutants", *arguments], cwd=self.directory, capture_output=True,
                              text=True, timeout=support.PATIENCE)

    def outcomes(self, result):
        return {verdict["name"]: verdict["outcome"] for verdict in json.loads(result.stdout)}

    def test_all_that_can_become_of_a_mutant(self):
        self.add("a/crashing", "*(volatile int *)0 + a + b")
        self.add("a/noticed", "a - b")
        self.add("a/same", "b + a")
        self.add("b/does-not-apply", "a", before="a * b")
        self.add("b/does-not-build", "c")
        self.add("b/empty-filter", "a - b", test="unit fake Product.*")
        self.add("b/no-such-kind", "a - b", test="hope fake")
        self.add("b/refused-by-the-compiler", "c", test="build test-fake")
        result = self.run_tool("--format=json")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(self.outcomes(result), {
            "a/crashing": "killed", "a/noticed": "killed", "a/same": "SURVIVED", "b/does-not-apply": "error",
            "b/does-not-build": "error", "b/empty-filter": "error", "b/no-such-kind": "error",
            "b/refused-by-the-compiler": "killed"})

        only_killed = self.run_tool("a/noticed", "a/cr*")
        self.assertEqual(only_killed.returncode, 0, only_killed.stdout + only_killed.stderr)
        self.assertIn("2 mutants: 2 killed, 0 survived, 0 in error", only_killed.stdout)

        # The tool sees leftovers of an earlier round in the scratch tree, and changes of the working tree.
        (self.directory / "src" / "fake.c").write_text(SOURCE.replace("a + b", "a - b"))
        broken = self.run_tool("a/same", "--format=json")
        self.assertEqual(self.outcomes(broken), {"a/same": "error"})
        self.assertIn("fails without the mutant, too", broken.stderr)


if __name__ == "__main__":
    support.main()
