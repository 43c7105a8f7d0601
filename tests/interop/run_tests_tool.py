#!/usr/bin/env python3
"""Tests tools/run-tests on a project of a few tests: which failures get a second look, and what it says of them."""
import json
import shutil
import subprocess

import support

CMAKE = """cmake_minimum_required(VERSION 3.25)
project(fake LANGUAGES NONE)
enable_testing()
function(fake_test name label)
  add_test(NAME ${{name}} COMMAND sh ${{CMAKE_SOURCE_DIR}}/${{name}}.sh)
  set_tests_properties(${{name}} PROPERTIES LABELS ${{label}})
endfunction()
{tests}
"""
PRESETS = {"version": 6,
           "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"}],
           "testPresets": [{"name": "release", "configurePreset": "release"}]}
SOUND = "echo all is well"
# Fails the first time that it runs.
UNSTEADY = "mkdir came-by && echo the first time && exit 1; exit 0"
# Fails the first and the third time.
SHAKY = "echo x >>runs; n=$(wc -l <runs); test $n != 1 -a $n != 3"
BROKEN = "echo always; exit 1"
LOSING = "mkdir came-by-losing && echo 'leat-defect: of 5 events, 3 are there and 1 are counted' && exit 1; exit 0"
REPORTED = "mkdir came-by-reported && echo '==1==ERROR: AddressSanitizer: heap-use-after-free' && exit 1; exit 0"
CRASHING = "mkdir came-by-crashing && kill -SEGV $$; exit 0"


class RunTestsTool(support.InteropTest):
    def project(self, unsteady_before="", **tests):
        """Each test is named LABEL_NAME, and is a script."""
        directory = self.directory / "project"
        (directory / "tools").mkdir(parents=True)
        (directory / "tests").mkdir()
        for name in "run-tests", "running.py":
            shutil.copy(support.SOURCE / "tools" / name, directory / "tools")
        lines = [f"fake_test({name} {name.split('_')[0]})" for name in tests]
        (directory / "CMakeLists.txt").write_text(CMAKE.format(tests="\n".join(lines)))
        (directory / "CMakePresets.json").write_text(json.dumps(PRESETS))
        (directory / "tests" / "unsteady").write_text(unsteady_before)
        for name, script in tests.items():
            (directory / f"{name}.sh").write_text(f"{script}\n")
        subprocess.run(["cmake", "--preset", "release"], cwd=directory, check=True, capture_output=True)
        return directory

    def result(self, status, *options, **tests):
        directory = self.project(**tests)
        result = subprocess.run([directory / "tools" / "run-tests", "release", *options], cwd=directory,
                                capture_output=True, text=True, timeout=support.PATIENCE)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout

    def test_sound_tests_pass(self):
        output = self.result(0, unit_one=SOUND, interop_two=SOUND)
        self.assertIn("100% tests passed", output)
        self.assertNotIn("second look", output)
        self.assertIn("interop_two", output.split("the slowest (release), s: ")[1])

    def test_unsteady_test_is_retried_and_reported(self):
        output = self.result(0, interop_flaky=UNSTEADY, interop_sound=SOUND)
        self.assertEqual(output.count("second look at interop_flaky"), 3)
        self.assertIn("unsteady: interop_flaky (first output: build/unsteady/release-interop_flaky.txt)", output)
        kept = self.directory / "project" / "build" / "unsteady" / "release-interop_flaky.txt"
        self.assertIn("the first time", kept.read_text())

    def test_name_is_added_to_a_list(self):
        names = self.directory / "names"
        self.result(0, "--unsteady", str(names), interop_flaky=UNSTEADY)
        self.assertTrue(names.read_text().startswith("unsteady: interop_flaky "))

    def test_one_of_three_looks_is_not_enough(self):
        self.assertIn("broken: interop_shaky (it failed again, alone)", self.result(1, interop_shaky=SHAKY))

    def test_broken_product_is_red(self):
        output = self.result(1, interop_broken=BROKEN, interop_flaky=UNSTEADY)
        self.assertIn("broken: interop_broken (it failed again, alone)", output)
        self.assertIn("unsteady: interop_flaky", output)

    def test_log_of_the_whole_run_is_left(self):
        """Who looks for what tests say in it, finds that also if one of them has failed."""
        self.result(0, interop_flaky=UNSTEADY, interop_sound="echo leat-skip: no moon")
        logs = self.directory / "project" / "build" / "release" / "Testing" / "Temporary"
        self.assertIn("leat-skip: no moon", (logs / "WholeRun.log").read_text())
        self.assertNotIn("leat-skip: no moon", (logs / "LastTest.log").read_text())

    def test_no_second_look(self):
        """At unit tests, lost events, reports of sanitizers, crashes, and what is known to be unsteady."""
        output = self.result(1, unit_flaky=UNSTEADY, interop_losing=LOSING, interop_reported=REPORTED,
                             interop_crashing=CRASHING, unsteady_before="# NAME DATE: what is known\n")
        self.assertNotIn("second look", output)
        for name in ("unit_flaky", "interop_losing", "interop_reported", "interop_crashing"):
            self.assertIn(f"broken: {name} (", output)

    def test_second_unsteadiness_is_red(self):
        output = self.result(1, interop_flaky=UNSTEADY, unsteady_before="interop_flaky 2026-11-24: not understood\n")
        self.assertIn("broken: interop_flaky (tests/unsteady names it already)", output)

    def test_second_look_can_be_refused(self):
        self.assertNotIn("second look at", self.result(1, "--no-second-look", interop_flaky=UNSTEADY))


if __name__ == "__main__":
    support.main()
