#!/usr/bin/env python3
"""docs/promises.md names a test for every invariant, and those tests exist, as do those that mutants name; docs/references.md
names what is cited."""
import fnmatch
import pathlib
import re
import shlex
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROMISES = (SOURCE / "docs" / "promises.md").read_text()
TESTS = SOURCE / "tests"
CITING = ("src", "include", "preload", "tests", "fuzz", "bench", "examples", "tools", "docs", "README.md",
          "CHANGELOG.md")
NOT_CITING = re.compile(r"tests/data/|fuzz/corpus/|tests/interop/promises\.py|.*__pycache__/")
# [live-protocol], as in prose: not a subscript, and not the text of a link.
KEY = r"\[([A-Za-z]{2,}(?:-[A-Za-z0-9.]+)+)\](?!\()"
CITATION = re.compile(rf"(?<![\w)\]]){KEY}(?:, (\"[^\"]+\"))?")
NOT_IN_THE_PROJECT = re.compile(r"\bdocument \d{3}\b|\bfacts:", re.IGNORECASE)


def unit_texts(component="."):
    return "\n".join(path.read_text() for path in (TESTS / "unit" / component).rglob("*_test.cpp"))


def unit_tests():
    """All test names as Suite.Name."""
    return {f"{suite}.{name}" for suite, name in re.findall(r"^(?:TEST(?:_F|_P)?|TYPED_TEST)\((\w+),\s*(\w+)\)", unit_texts(),
                                                            re.MULTILINE)}


def runnable_tests(component):
    """Those of a component as GoogleTest runs them, each with one parameter."""
    text = unit_texts(component)
    prefixes = re.findall(r"^INSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)", text, re.MULTILINE)
    for kind, suite, name in re.findall(r"^(TEST(?:_F|_P)?|TYPED_TEST)\((\w+),\s*(\w+)\)", text, re.MULTILINE):
        if kind == "TEST_P":
            yield from (f"{prefix}/{suite}.{name}/0" for prefix, instantiated in prefixes if instantiated == suite)
        else:
            yield f"{suite}/0.{name}" if kind == "TYPED_TEST" else f"{suite}.{name}"


def interop_tests():
    """file, file.Class and file.Class.test. The tests of a base class count for its subclasses."""
    names = set()
    classes = {}
    for path in sorted((TESTS / "interop").glob("*.py")):
        names.add(path.stem)
        for match in re.finditer(r"^class (\w+)(?:\(([\w.]+).*?\))?:\n(.*?)(?=^\S|\Z)", path.read_text(),
                                 re.MULTILINE | re.DOTALL):
            own = set(re.findall(r"^    def (test_\w+)", match[3], re.MULTILINE))
            classes[path.stem, match[1]] = own | classes.get((path.stem, match[2]), set())
    for (stem, name), tests in classes.items():
        if tests:
            names.add(f"{stem}.{name}")
        names |= {f"{stem}.{name}.{test}" for test in tests}
    return names


class Promises(unittest.TestCase):
    def rows(self, heading):
        section = PROMISES.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        return [re.match(r"\| (.*) \| (.*) \|$", line).groups() for line in section.splitlines()
                if line.startswith("| ") and not line.endswith("| tests |")]

    def test_every_invariant_has_its_line(self):
        architecture = (SOURCE / "docs" / "architecture.md").read_text().split("\n## Invariants\n")[1].split("\n## ")[0]
        invariants = [re.sub(r"\s+", " ", name).strip(".:") for name in
                      re.findall(r"^- \*\*(.*?)\*\*", architecture, re.MULTILINE | re.DOTALL)]
        self.assertGreater(len(invariants), 20)
        self.assertEqual([name for name, _ in self.rows("Invariants")], invariants)

    def test_named_tests_exist(self):
        known = unit_tests() | interop_tests()
        known |= {f"fuzz.{path.name}" for path in (SOURCE / "fuzz" / "corpus").iterdir()}
        known |= set(re.findall(r"add_test\(NAME (torture-[\w-]+)", (TESTS / "CMakeLists.txt").read_text()))
        for heading in ("Invariants", "The README and the manual pages"):
            for promise, tests in self.rows(heading):
                if tests.startswith("none: "):
                    continue
                named = re.findall(r"`([^`]+)`", tests)
                self.assertGreater(len(named), 0, promise)
                self.assertEqual([name for name in named if name not in known], [], promise)


class Mutants(unittest.TestCase):
    def test_named_tests_exist(self):
        """A mutant whose test has another name by now notices nothing."""
        runnable, of_interop = {}, interop_tests()
        for path in sorted((TESTS / "mutants").rglob("*.patch")):
            kind, *named = shlex.split(re.search(r"^Test: +(.*)$", path.read_text(), re.MULTILINE)[1])
            if kind == "unit":
                component, filters = named
                known = runnable.setdefault(component, list(runnable_tests(component)))
                # What parameters are called is told by functions.
                wanted = [re.sub(r"(\.\w+)/\w+$", r"\1/*", each) for each in filters.partition("-")[0].split(":")]
                is_there = any(fnmatch.filter(known, each) for each in wanted)
            elif kind == "interop":
                file = TESTS / "interop" / named[0]
                is_there = file.is_file() and ".".join([file.stem, *named[1:]]) in of_interop
            else:
                is_there = kind in ("crash", "build")  # whose tests are programs and targets
            with self.subTest(path.stem):
                self.assertTrue(is_there, named)


def citing_texts():
    """Name and text; comments in one line each."""
    for place in CITING:
        root = SOURCE / place
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            name = str(path.relative_to(SOURCE))
            if not path.is_file() or NOT_CITING.match(name):
                continue
            try:
                text = path.read_text()
            except UnicodeDecodeError:
                continue
            yield name, re.sub(r"\s*\n[ +-]?\s*(?://|#|\*)?\s*", " ", text)


class References(unittest.TestCase):
    def setUp(self):
        text = (SOURCE / "docs" / "references.md").read_text()
        sections = re.split(rf"^### {KEY}\n", text, flags=re.MULTILINE)[1:]
        self.sources = {key: re.sub(r"\s+", " ", section) for key, section in zip(sections[::2], sections[1::2])}
        self.assertEqual(2 * len(self.sources), len(sections), "a key has two headings")

    def test_cited_sources_are_listed(self):
        """Each key has a heading in docs/references.md; and a section that is cited by its name, that name below it."""
        cited = [(name, match[1], match[2] or "") for name, text in citing_texts() for match in CITATION.finditer(text)]
        self.assertEqual([(name, key) for name, key, _ in cited if key not in self.sources], [])
        self.assertEqual([(name, key, title) for name, key, title in cited if title not in self.sources[key]], [])
        elsewhere = {key for name, key, _ in cited if name != "docs/references.md"}
        self.assertEqual(self.sources.keys() - elsewhere, set(), "sources that nothing cites")

    def test_nothing_outside_is_cited(self):
        left = [(name, match[0]) for name, text in citing_texts() for match in NOT_IN_THE_PROJECT.finditer(text)]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main(argv=["promises.py"], verbosity=2)
