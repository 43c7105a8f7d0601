#!/usr/bin/env python3
"""Traces whose metadata is that of CTF 2, in JSON. babeltrace2 of Debian 12 reads none of them, so traces made by chance
have metadata of both versions, and what `leat view` makes of one is what it makes of the other: random_traces.py
compares that with babeltrace2.

usage: ctf2_traces.py [TEST...]     LEAT_TRACES=10000: so many of those made by chance
       ctf2_traces.py SEED...       what is different in these; the traces stay in /tmp/leat-ctf2-SEED
"""
import json
import os
import pathlib
import random as random_module
import re
import shutil
import struct
import tempfile

import ctf2
import ctf_random
import support
from random_traces import first_difference, in_parallel, options_of, run, show_or_test, tell

COUNT = int(os.environ.get("LEAT_TRACES", "150"))
FIRST = int(os.environ.get("LEAT_FIRST_TRACE", "0"))

QUOTED = rb'"(?:[^"\\]|\\.)*"'
LABELS = re.compile(rb"\( (%b(?:, %b)+) : container" % (QUOTED, QUOTED))


def with_sorted_labels(text):
    """The mappings of CTF 2 have no order."""
    def sort(match):
        return b"( " + b", ".join(sorted(re.findall(QUOTED, match[1]))) + b" : container"
    return LABELS.sub(sort, text)


def write_both(seed, directory):
    """Returns the options to view the traces with."""
    traces, is_timed = ctf_random.make_traces(seed)
    random = random_module.Random(-2 - seed)
    for trace, path in zip(traces, ctf_random.directories_of(traces, directory / "1.8")):
        trace.write(path)
        copy = directory / "2.0" / path.relative_to(directory / "1.8")
        shutil.copytree(path, copy)
        text = ctf2.metadata(trace)
        form = random.choice(["plain", "plain", "packets", "packets of CTF2-PMETA"])
        if form != "plain":
            text = ctf2.packetized(text, is_full=form.endswith("PMETA"), size=random.choice([100, 4096 - 37, len(text)]))
        for file in copy.rglob("metadata"):
            file.write_bytes(text)
    return random.choice([options_of(seed, is_timed), ["--format=json"]])


def difference(directory, options):
    old, new = (run([support.LEAT, "view", *options, str(directory / version)]) for version in ("1.8", "2.0"))
    for result in (old, new):
        result.stdout, result.stderr = (text.replace(b"/2.0/", b"/1.8/") for text in (result.stdout, result.stderr))
    if old.returncode != new.returncode:
        return f"status {old.returncode} {old.stderr[-300:]}, of CTF 2 {new.returncode} {new.stderr[-300:]}"
    if options == ["--format=json"]:
        ours, theirs = ([json.loads(line) for line in result.stdout.splitlines()] for result in (new, old))
        sort_labels(ours + theirs)
        pairs = [(our, their) for our, their in zip(ours, theirs, strict=True) if our != their]
        return f"JSON: {pairs[0][0]}, of CTF 1.8: {pairs[0][1]}" if pairs else None
    ours, theirs = (with_sorted_labels(result.stdout).splitlines() for result in (new, old))
    if ours != theirs:
        return "text: " + first_difference(ours, theirs)
    if new.stderr != old.stderr:
        return f"warnings: {new.stderr[-300:]}, of CTF 1.8: {old.stderr[-300:]}"
    return None


def sort_labels(value):
    if isinstance(value, dict) and isinstance(value.get("labels"), list):
        value["labels"].sort(key=str)
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        sort_labels(part)


def compare_all(seeds, directory):
    os.nice(10)
    findings = []
    for seed in seeds:
        path = pathlib.Path(directory) / str(seed)
        if found := difference(path, write_both(seed, path)):
            findings.append((seed, found))
        shutil.rmtree(path)
    return findings


class RandomTraces(support.InteropTest):
    def test_both_versions_of_the_metadata_show_the_same(self):
        tell(self, in_parallel(compare_all, range(FIRST, FIRST + COUNT), self.directory), COUNT)


def blob(length):
    return {"type": "static-length-blob", "length": length}


def number(length, kind="unsigned-integer", **properties):
    return {"type": f"fixed-length-{kind}", "length": length, "byte-order": "little-endian", **properties}


BYTE = number(8)
VARIABLE = "variable-length-unsigned-integer"
AT_N = {"path": ["n"]}
FLAGS = {"SALUT": [[1, 1]], "MEOW": [[4, 4]], "MIX": [[0, 0], [2, 3], [5, 7]]}


# What babeltrace2 2.1 shows: field class, bytes, text, JSON. A field before it is called n.
FIELDS = [
    (number(8, "boolean"), b"\1", "true", True),
    (number(3, "boolean"), b"\4", "true", True),
    (number(8, "boolean"), b"\0", "false", False),
    (number(8, "boolean"), b"\2", "true", True),
    (number(13, "bit-array"), b"\x2a\xf0", "0x102A", 0x102A),
    (number(8, "bit-array"), b"\0", "0x0", 0),
    (number(8, "bit-map", flags=FLAGS), b"\0", "0x0", {"value": 0, "labels": []}),
    (number(8, "bit-map", flags=FLAGS), b"\x12", '0x12 { "MEOW", "SALUT" }', {"value": 18, "labels": ["MEOW", "SALUT"]}),
    (number(8, "bit-map", flags=FLAGS), b"\xff", '0xFF { "MEOW", "MIX", "SALUT" }',
     {"value": 255, "labels": ["MEOW", "MIX", "SALUT"]}),
    ({**BYTE, "bit-order": "last-to-first"}, b"\1", "128", 128),
    ({**BYTE, "byte-order": "big-endian", "bit-order": "first-to-last"}, b"\1", "128", 128),
    ({**BYTE, "byte-order": "big-endian", "bit-order": "last-to-first"}, b"\1", "1", 1),
    ({**number(8, "signed-integer"), "bit-order": "last-to-first"}, b"\1", "-128", -128),
    (number(12, **{"bit-order": "last-to-first"}), b"\x01\x00", "2048", 2048),
    ({"type": VARIABLE}, b"\xac\x02", "300", 300),
    ({"type": VARIABLE}, b"\x80\x00", "0", 0),
    ({"type": VARIABLE}, b"\xff" * 9 + b"\1", str(2 ** 64 - 1), 2 ** 64 - 1),
    ({"type": "variable-length-signed-integer"}, b"\x7f", "-1", -1),
    ({"type": "variable-length-signed-integer"}, b"\x80\x7f", "-128", -128),
    ({"type": "variable-length-signed-integer"}, b"\x80" * 9 + b"\x7f", str(-2 ** 63), -2 ** 63),
    ({"type": "variable-length-signed-integer", "preferred-display-base": 16}, b"\x7f", "0xFFFFFFFFFFFFFFFF", -1),
    ({"type": VARIABLE, "mappings": {"few": [[0, 300]]}}, b"\xac\x02", '( "few" : container = 300 )',
     {"value": 300, "labels": ["few"]}),
    ({"type": "null-terminated-string", "encoding": "utf-16le"}, "hé😀".encode("utf-16le") + b"\0\0", '"hé😀"', "hé😀"),
    ({"type": "null-terminated-string", "encoding": "utf-16be"}, "Ā".encode("utf-16be") + b"\0\0", '"Ā"', "Ā"),
    ({"type": "null-terminated-string", "encoding": "utf-32le"}, "a😀".encode("utf-32le") + bytes(4), '"a😀"', "a😀"),
    ({"type": "null-terminated-string", "encoding": "utf-16le"}, b"\x00\xd8a\0\0\0", '"\ufffda"', "\ufffda"),
    ({"type": "static-length-string", "length": 4}, b"ab\0c", '"ab"', "ab"),
    ({"type": "static-length-string", "length": 9, "encoding": "utf-32be"}, "ab".encode("utf-32be") + b"x", '"ab"', "ab"),
    ({"type": "dynamic-length-string", "length-field-location": AT_N}, b"xyz", '"xyz"', "xyz"),
    ({"type": "dynamic-length-string", "length-field-location": AT_N, "encoding": "utf-8"}, "né".encode(), '"né"', "né"),
    (blob(4), b"\xde\xad\xbe\xef", "{ de ad be ef }", [0xde, 0xad, 0xbe, 0xef]),
    (blob(0), b"", "{ }", []),
    ({"type": "dynamic-length-blob", "length-field-location": AT_N, "media-type": "image/png"}, b"\1\2\3", "{ 01 02 03 }",
     [1, 2, 3]),
    ({"type": "static-length-array", "length": 3, "element-field-class": number(1, "boolean")}, b"\5",
     "[ [0] = true, [1] = false, [2] = true ]", [True, False, True]),
    ({"type": "static-length-array", "length": 2, "element-field-class": {"type": VARIABLE}}, b"\x81\1\2",
     "[ [0] = 129, [1] = 2 ]", [129, 2]),
    ({"type": "static-length-array", "length": 1, "minimum-alignment": 32, "element-field-class": BYTE}, bytes(2) + b"\7",
     "[ [0] = 7 ]", [7]),
    ({"type": "optional", "selector-field-location": AT_N, "selector-field-ranges": [[2, 3]], "field-class": BYTE}, b"\7",
     "{ 7 }", 7),
    ({"type": "optional", "selector-field-location": AT_N, "selector-field-ranges": [[9, 12]], "field-class": BYTE}, b"",
     "<none>", None),
    ({"type": "optional", "selector-field-location": {"path": ["is_on"]},
      "field-class": ctf2.structure(("a", BYTE))}, b"\7", "{ { a = 7 } }", {"a": 7}),
    ({"type": "variant", "selector-field-location": AT_N, "options": [
        {"selector-field-ranges": [[0, 1], [4, 9]], "field-class": {"type": "null-terminated-string"}},
        {"name": "x", "selector-field-ranges": [[3, 3]], "field-class": BYTE}]}, b"\7", "{ 7 }", 7),
]


class FieldClasses(support.InteropTest):
    """What only CTF 2 has."""

    def trace_of(self, field, data, count=1):
        """Events with an n of 3, a boolean, the field, and a 9 at the next byte."""
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        payload = ctf2.structure(("n", {**BYTE, "alignment": 8}), ("is_on", number(8, "boolean")), ("f", field),
                                 ("end", number(8, alignment=8)))
        (directory / "metadata").write_bytes(ctf2.fragments(
            {"type": "preamble", "version": 2}, {"type": "data-stream-class"},
            {"type": "event-record-class", "name": "e", "payload-field-class": payload}))
        (directory / "stream").write_bytes((b"\3\1" + data + b"\x09") * count)
        return directory

    def view(self, trace, *options):
        shown = support.plain_run(support.LEAT, "view", *options, str(trace))
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        return shown.stdout

    def test_each_is_shown_in_text_and_in_json(self):
        for field, data, text, value in FIELDS:
            with self.subTest(field=field, data=data):
                trace = self.trace_of(field, data)
                self.assertEqual(self.view(trace), f"e: {{ n = 3, is_on = true, f = {text}, end = 9 }}\n")
                event = json.loads(self.view(trace, "--format=json"))
                self.assertEqual(event["payload"], {"n": 3, "is_on": True, "f": value, "end": 9})
                self.assertEqual(run([support.LEAT, "check", str(trace)]).returncode, 0)

    def test_an_integer_that_is_too_long_is_an_error(self):
        for kind, data in (("unsigned", b"\xff" * 9 + b"\2"), ("unsigned", b"\x80" * 10 + b"\0"),
                           ("signed", b"\x80" * 9 + b"\1")):
            trace = self.trace_of({"type": f"variable-length-{kind}-integer"}, data)
            shown = run([support.LEAT, "view", str(trace)])
            self.assertEqual(shown.returncode, 1)
            self.assertIn(b"an integer of variable length has more than 64 bits", shown.stderr)

    def test_other_outputs_and_filters_know_them(self):
        trace = self.trace_of(number(8, "bit-map", flags=FLAGS), b"\x12")
        self.assertEqual(self.view(trace, "--format=csv", "--columns=n,is_on,f"), "n,is_on,f\n3,true,18\n")
        self.assertIn("is_on = true", self.view(trace, "--filter", "is_on == 1 && f & 2"))
        self.assertEqual(self.view(trace, "--filter", "is_on == 0"), "")
        self.assertIn("f = true", self.view(self.trace_of(number(8, "boolean"), b"\2"), "--filter", "f == 1"))
        wide = self.trace_of({"type": "null-terminated-string", "encoding": "utf-16le"}, "hé".encode("utf-16le") + bytes(2), 3)
        self.assertEqual(self.view(wide, "--filter", 'f == "hé"').count("\n"), 3)
        self.assertEqual(self.view(wide, "--format=csv", "--columns=f"), "f\nhé\nhé\nhé\n")

    def test_many_labels_of_a_bit_map(self):
        flags = {f"flag{i:03}": [[0, 0]] for i in range(100)}
        trace = self.trace_of(number(8, "bit-map", flags=flags), b"\1")
        self.assertIn('"flag063", ... }', self.view(trace))
        self.assertTrue(json.loads(self.view(trace, "--format=json"))["payload"]["f"]["has_more_labels"])

    def test_names_mean_nothing(self):
        trace = self.trace_of(BYTE, b"\5")
        names = ("packet_size", "content_size", "timestamp_begin", "events_discarded")
        context = ctf2.structure(*((name, {**BYTE, "alignment": 8}) for name in names),
                                 ("seq", {**BYTE, "roles": ["packet-sequence-number"]}))
        (trace / "metadata").write_bytes(ctf2.fragments(
            {"type": "preamble", "version": 2}, {"type": "data-stream-class", "packet-context-field-class": context},
            {"type": "event-record-class", "name": "e", "payload-field-class": ctf2.structure(("f", BYTE))}))
        (trace / "stream").write_bytes(bytes(range(6)))
        self.assertIn("{ packet_size = 0, content_size = 1, timestamp_begin = 2, events_discarded = 3 }", self.view(trace))
        self.assertEqual(self.view(trace, "--format=csv"), "time,time_ns,name,packet_size,content_size,timestamp_begin,"
                                                          "events_discarded,f\n,,e,0,1,2,3,5\n")
        self.assertNotEqual(self.view(trace, "--filter", "$ctx.packet_size == 0"), "")

    def test_one_length_for_packet_and_content(self):
        trace = self.trace_of(BYTE, b"")
        length = number(32, alignment=8, roles=["packet-content-length", "packet-total-length"])
        (trace / "metadata").write_bytes(ctf2.fragments(
            {"type": "preamble", "version": 2},
            {"type": "data-stream-class", "packet-context-field-class": ctf2.structure(("length", length))},
            {"type": "event-record-class", "name": "e", "payload-field-class": ctf2.structure(("f", BYTE))}))
        (trace / "stream").write_bytes(struct.pack("<I", 48) + b"\7\x08" + struct.pack("<I", 40) + b"\x09")
        self.assertEqual(self.view(trace), "".join(f"e: {{ f = {i} }}\n" for i in (7, 8, 9)))

    def test_ids_that_nobody_states_are_0(self):
        trace = self.trace_of(BYTE, b"")
        events = [{"type": "event-record-class", "id": i, "data-stream-class-id": j, "name": f"e{i}{j}",
                   "payload-field-class": ctf2.structure(("f", BYTE))} for i in (1, 0) for j in (1, 0)]
        (trace / "metadata").write_bytes(ctf2.fragments(
            {"type": "preamble", "version": 2}, {"type": "data-stream-class", "id": 1}, {"type": "data-stream-class"},
            *events))
        (trace / "stream").write_bytes(b"\7")
        self.assertEqual(self.view(trace), "e00: { f = 7 }\n")

    def test_a_clock_without_timestamps_stands_still(self):
        trace = self.trace_of(BYTE, b"")
        (trace / "metadata").write_bytes(ctf2.fragments(
            {"type": "preamble", "version": 2},
            {"type": "clock-class", "id": "c", "frequency": 1, "offset-from-origin": {"seconds": 5}},
            {"type": "data-stream-class", "default-clock-class-id": "c"},
            {"type": "event-record-class", "name": "e", "payload-field-class": ctf2.structure(("f", BYTE))}))
        (trace / "stream").write_bytes(b"\7")
        self.assertEqual(self.view(trace, "--clock-seconds"), "[5.000000000] (+?.?????????) e: { f = 7 }\n")

    def test_a_trace_is_repaired_in_its_own_language(self):
        trace = self.trace_of({"type": VARIABLE}, b"\xac\x02", count=5)
        repaired = trace.with_name(trace.name + "-repaired")
        self.assertEqual(support.plain_run(support.LEAT, "repair", str(trace), "-o", str(repaired)).returncode, 0)
        self.assertEqual((repaired / "metadata").read_bytes(), (trace / "metadata").read_bytes())
        self.assertEqual(self.view(repaired), self.view(trace))


def show(seed):
    path = pathlib.Path(tempfile.gettempdir()) / f"leat-ctf2-{seed}"
    shutil.rmtree(path, ignore_errors=True)
    options = write_both(seed, path)
    print(f"{path} {' '.join(options)}\n{difference(path, options) or 'no difference'}")


if __name__ == "__main__":
    show_or_test(show)
