"""Runs the tests of one build by ctest: what tools/run-tests and tools/steady have in common."""
import dataclasses
import json
import pathlib
import re
import subprocess
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
HIDDEN = re.compile(r"^ +Start|Passed +[0-9.]+ sec$|^$|^The following tests did not run|\((?:Skipped|Disabled)\)$")
# Of ctest's list at the end.
FAILED = re.compile(r"^\s*\d+ - (.+) \(([^()]+)\)$")


@dataclasses.dataclass
class Outcome:
    name: str
    status: str  # as JUnit has it: run, fail, notrun, disabled
    seconds: float
    reason: str  # why it failed, in ctest's words
    output: str


def ctest(preset, *words):
    return ["ctest", "--preset", preset, "--no-tests=error", *words]


def labels_of(preset):
    listing = subprocess.run(ctest(preset, "--show-only=json-v1"), cwd=ROOT, check=True, capture_output=True, text=True)
    return {test["name"]: {label for entry in test.get("properties", []) if entry["name"] == "LABELS"
                           for label in entry["value"]}
            for test in json.loads(listing.stdout)["tests"]}


def run(preset, *words, prefix=()):
    """Runs tests, by ctest behind the command `prefix`, and shows what it says of failures. Returns its status, and the
    outcome of each test."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [*prefix, *ctest(preset, "--output-on-failure", "--output-junit", report.name, *words)]
        reasons = {}
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace") as process:
            for line in process.stdout:
                if listed := FAILED.match(line):
                    reasons[listed[1]] = listed[2]
                if not HIDDEN.search(line):
                    print(line, end="", flush=True)
        text = pathlib.Path(report.name).read_text(errors="replace")
    # Output of a test may hold what XML does not.
    suite = xml.etree.ElementTree.fromstring(re.sub(r"[^\t\n\r -\U0010ffff]", "?", text)) if text else []
    # A program that is not there, or cannot be started, has not passed; one that was skipped has another reason.
    outcomes = [Outcome(case.get("name"), "fail" if reasons.get(case.get("name")) == "Not Run" else case.get("status"),
                        float(case.get("time") or 0), reasons.get(case.get("name"), ""),
                        case.findtext("system-out") or "") for case in suite]
    return process.returncode, outcomes


def name_pattern(name):
    """For ctest's -R: this test and no other."""
    return "^" + re.sub(r"([^\w-])", r"\\\1", name) + "$"
