#!/usr/bin/env python3
"""`leat view --format=json`: an object for each event, with all that its line of text says."""
import json
import math
import re
import subprocess

import ctf_random
from support import LEAT, SOURCE, InteropTest, main, plain_run, program

CAPTURES = SOURCE / "tests" / "data" / "captures"
RANDOM_TRACES = 100
TEXT = ["--clock-seconds", "--no-delta", "--fields=none", "--names=payload,context,scope"]
SCOPES = {"stream.packet.context": "packet_context", "stream.event.context": "common_context",
          "event.context": "specific_context", "event.fields": "payload"}
ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Variant:
    """What a variant holds, which has no name in text."""

    def __init__(self, value):
        self.value = value


class Enumeration:
    def __init__(self, labels, has_more, number):
        self.labels, self.has_more, self.number = labels, has_more, number


class Number:
    def __init__(self, text):
        self.text = text


class Text:
    """Reads the fields of a line of text."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def take(self, expected):
        if not self.text.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def need(self, expected):
        assert self.take(expected), f"{expected!r} expected: {self.text[self.at:][:80]!r}"

    def match(self, pattern):
        found = re.compile(pattern, re.DOTALL).match(self.text, self.at)
        assert found, f"{pattern} expected: {self.text[self.at:][:80]!r}"
        self.at = found.end()
        return found

    def scopes(self):
        found = {}
        while self.at < len(self.text):
            if found:
                self.need(", ")
            name = self.match(r"([a-z.]+) = ")[1]
            found[SCOPES[name]] = self.value()
        return found

    def value(self):
        if self.take("{ "):
            return self.members()
        if self.take("[ "):
            return self.elements()
        if self.take("( "):
            return self.enumeration()
        if self.text.startswith('"', self.at):
            return self.string()
        return Number(self.match(r"[-+.0-9a-zA-Z]+")[0])

    def members(self):
        fields = {}
        while not self.take("}"):
            if fields:
                self.need(", ")
            if not (named := re.compile(r"([A-Za-z_0-9]*) = ").match(self.text, self.at)):
                value = Variant(self.value())
                self.need(" }")
                return value
            self.at = named.end()
            fields[named[1]] = self.value()
            self.take(" ")
        return fields

    def elements(self):
        found = []
        while not self.take("]"):
            if found:
                self.need(", ")
            self.need(f"[{len(found)}] = ")
            found.append(self.value())
            self.take(" ")
        return found

    def enumeration(self):
        labels = []
        if not self.take("<unknown>"):
            labels.append(self.string())
            while self.take(", "):
                if self.take("..."):
                    break
                labels.append(self.string())
        has_more = self.text.endswith("...", 0, self.at)
        self.need(" : container = ")
        number = Number(self.match(r"[-+.0-9a-zA-Z]+")[0])
        self.need(" )")
        return Enumeration(labels, has_more, number)

    def string(self):
        inner = self.match(r'"((?:[^"\\]|\\.)*)"')[1]
        return re.sub(r"\\(x(..)|.)", lambda m: chr(int(m[2], 16)) if m[2] else ESCAPES.get(m[1], m[1]), inner)


def is_same_number(text, number):
    if isinstance(number, (float, str)):
        number = float(number)
        return (math.isnan(number) and "nan" in text) or f"{number:g}" == text
    for prefix, base in (("0x", 16), ("0b", 2)):
        if text.startswith(prefix):
            return any(int(text, base) == number % (1 << size) for size in range(1, 65))
    if re.fullmatch("0[0-7]+", text) and any(int(text, 8) == number % (1 << size) for size in range(1, 67)):
        return True  # octal
    return text == str(number)


def is_same(text, value):
    """Whether a field of a line of text and one of JSON are the same."""
    if isinstance(text, Variant):
        return is_same(text.value, value)
    if isinstance(text, Number):
        return is_same_number(text.text, value)
    if isinstance(text, Enumeration):
        return (set(value) == {"value", "labels"} and is_same_number(text.number.text, value["value"]) and
                text.labels == value["labels"])
    if isinstance(text, list):
        return isinstance(value, list) and len(text) == len(value) and all(map(is_same, text, value))
    if isinstance(text, dict):
        if not text and value is None:
            return True  # a variant that shows nothing
        return isinstance(value, dict) and list(text) == list(value) and all(map(is_same, text.values(), value.values()))
    return text == value


def decoded(output):
    """As text, with U+FFFD for each byte that is not UTF-8."""
    return re.sub("[\udc80-\udcff]", "\ufffd", output.decode("utf-8", "surrogateescape"))


class Lines(InteropTest):
    def check_line(self, line, text):
        if "time_ns" in line:
            seconds, rest = re.match(r"\[(-?[0-9]+\.[0-9]{9})\] (.*)", text, re.DOTALL).groups()
            sign = "-" if line["time_ns"] < 0 else ""
            self.assertEqual(f"{sign}{abs(line['time_ns']) // 10 ** 9}.{abs(line['time_ns']) % 10 ** 9:09}", seconds)
            self.assertRegex(line["time"], r"^(-?[0-9]+-[0-9]{2}-[0-9]{2}T[0-9:]{8}|-?[0-9]+)\.[0-9]{9}Z$")
            text = rest
        self.assertTrue(text.startswith(line["name"] + ": "), (text, line))
        scopes = Text(text[len(line["name"]) + 2:]).scopes()
        self.assertEqual([name for name in line if name in SCOPES.values()], list(scopes), (text, line))
        for name, fields in scopes.items():
            self.assertTrue(is_same(fields, line[name]), (name, text, line))

    def check(self, trace):
        """Returns how many lines are events, and how many tell of losses."""
        text, lines = (subprocess.run([LEAT, "view", *options, str(trace)], capture_output=True, check=False)
                       for options in (TEXT, ["--format=json"]))
        self.assertEqual(lines.returncode, text.returncode)
        self.assertEqual(lines.stderr.count(b"WARNING: "), text.stderr.count(b"WARNING: "))
        objects = [json.loads(line) for line in lines.stdout.decode().split("\n")[:-1]]
        losses = [line for line in objects if "lost" in line]
        self.assertEqual(len(losses), text.stderr.count(b"WARNING: "))
        events = [line for line in objects if "name" in line]
        self.assertEqual(len(events) + len(losses), len(objects))
        texts = decoded(text.stdout).split("\n")[:-1]
        self.assertEqual(len(events), len(texts), trace)
        for line, of_text in zip(events, texts):
            self.check_line(line, of_text)
        return len(events), len(losses)

    def test_captured_traces(self):
        counts = [self.check(metadata.parent) for metadata in sorted(CAPTURES.rglob("metadata"))]
        self.assertGreater(len(counts), 90)
        events, losses = map(sum, zip(*counts))
        self.assertGreater(events, 1000)
        self.assertGreater(losses, 3)

    def test_traces_made_by_chance(self):
        for seed in range(RANDOM_TRACES):
            with self.subTest(seed=seed):
                ctf_random.write_traces(seed, self.directory / str(seed))
                self.check(self.directory / str(seed))

    def test_line_as_documented(self):
        trace = self.record(program("emit"), "3", name="trace").path
        first, *_ = plain_run(LEAT, "view", "--format=json", trace).stdout.splitlines()
        line = json.loads(first)
        self.assertEqual(list(line)[:4], ["time", "time_ns", "trace", "name"])
        self.assertEqual(line["trace"]["domain"], "ust")
        self.assertIsInstance(line["packet_context"]["cpu_id"], int)
        self.assertIsInstance(line["common_context"]["vpid"], int)


if __name__ == "__main__":
    main()
