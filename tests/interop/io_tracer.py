#!/usr/bin/env python3
"""examples/io_tracer: the program that captures its own IO requests, and the report on any trace with such events."""
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys

from support import (BUILD, LEAT, PATIENCE, SOURCE, InteropTest, compiled, has, main, needs, outside_gate, wait_until,
                     without_sanitizers)

TRACER = str(BUILD / "bin" / "example-io-tracer")
REPORT = str(SOURCE / "examples" / "io_tracer" / "report")

sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "examples" / "io_tracer"))
from io_report import readable_message  # noqa: E402
from io_report.analysis import SLOTS, Timeline  # noqa: E402
from io_report.events import Events  # noqa: E402
from io_report.forms import losses  # noqa: E402
from io_report.histogram import Histogram  # noqa: E402

UINT = "integer {{ size = {}; align = 8; signed = false; }}".format
METADATA = """/* CTF 1.8 */
trace {{ major = 1; minor = 8; uuid = "c1b85a30-f99b-47af-b10a-545d7f207a2a"; byte_order = le;
  packet.header := struct {{ integer {{ size = 32; align = 8; signed = false; }} magic; {u32} stream_id; }}; }};
env {{ hostname = "db"; procname = "made by hand"; {environment}
}};
clock {{ name = "monotonic"; freq = 1000000000; offset_s = {begin}; }};
stream {{ id = 0;
  packet.context := struct {{ {u32} cpu_id; {u64} events_discarded; {u64} content_size; {u64} packet_size;
    integer {{ size = 64; align = 8; signed = false; map = clock.monotonic.value; }} timestamp_begin;
    integer {{ size = 64; align = 8; signed = false; map = clock.monotonic.value; }} timestamp_end; }};
  event.header := struct {{ {u32} id; integer {{ size = 64; align = 8; signed = false; map = clock.monotonic.value; }} timestamp; }};
}};
"""
BEGIN = 1_700_000_000  # s
SIZES = {8: "B", 16: "H", 32: "I", 64: "Q"}
US = 1000


class MadeTrace:
    """A trace whose events are given one by one."""

    def __init__(self, path, environment='classes = "0:main,1:exit,2:lr";'):
        self.path = path
        self.classes = {}
        self.declarations = METADATA.format(begin=BEGIN, environment=environment, u32=UINT(32),
                                            u64=UINT(64))
        self.rings = {}

    def declare(self, name, *fields):
        """Fields are (name, bits), or (name, bits, {label: number})."""
        number = len(self.classes)
        self.classes[name] = (number, "<IQ" + "".join(SIZES[field[1]] for field in fields))
        text = ""
        for field, bits, *labels in fields:
            kind = UINT(bits)
            if labels:
                kind = f"enum : {kind} {{ {', '.join(f'{json.dumps(label)} = {value}' for label, value in labels[0].items())} }}"
            text += f"{kind} {field}; "
        self.declarations += f"event {{ id = {number}; stream_id = 0; name = \"{name}\"; fields := struct {{ {text}}}; }};\n"
        return self

    def add(self, name, at, *values, cpu=0):
        number, form = self.classes[name]
        self.rings.setdefault(cpu, []).append((at, struct.pack(form, number, at, *values)))
        return self

    def write(self, discarded=0):
        self.path.mkdir()
        (self.path / "metadata").write_text(self.declarations)
        for cpu, records in self.rings.items():
            data = b"".join(record for _, record in records)
            size = 8 * (4 + 4 + 4 + 5 * 8 + len(data))
            head = struct.pack("<IIIQQQQQ", 0xc1fc1fc1, 0, cpu, discarded, size, size, records[0][0], records[-1][0])
            (self.path / f"channel0_{cpu}").write_bytes(head + data)
        return self


def of_io_tracer(path):
    labels = {"main": 0, "exit": 1, "lr": 2}
    trace = MadeTrace(path)
    for name in "io:read_queued", "io:write_queued":
        trace.declare(name, ("request", 32), ("class", 8, labels), ("blocks", 16))
    return trace.declare("io:dispatched", ("request", 32)).declare("io:completed", ("request", 32)).declare("io:wait")


def golden(path):
    """On CPU 0, a read of main, one of lr that waits for capacity, and a write that is in the device at the end; on CPU 1, a
    request of the same id, and one that is never dispatched."""
    trace = of_io_tracer(path)
    trace.add("io:read_queued", 1000 * US, 0xa, 0, 8)
    trace.add("io:dispatched", 1002 * US, 0xa)
    trace.add("io:read_queued", 1010 * US, 0xb, 2, 256)
    trace.add("io:wait", 1011 * US)
    trace.add("io:read_queued", 1020 * US, 0xa, 1, 1, cpu=1)
    trace.add("io:completed", 1102 * US, 0xa)
    trace.add("io:dispatched", 1102 * US, 0xb)
    trace.add("io:dispatched", 1120 * US, 0xa, cpu=1)
    trace.add("io:completed", 1220 * US, 0xa, cpu=1)
    trace.add("io:completed", 3102 * US, 0xb)
    trace.add("io:write_queued", 3200 * US, 0xc, 0, 16)
    trace.add("io:dispatched", 3200 * US, 0xc)
    trace.add("io:write_queued", 3300 * US, 0xd, 1, 2, cpu=1)
    return trace.write()


class ReportTest(InteropTest):
    def report(self, *options, status=0):
        result = subprocess.run([REPORT, "--leat", LEAT, *map(str, options)], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def json_of(self, *options):
        return json.loads(self.report("--format=json", *options).stdout)

    def assert_refused(self, *options, because, status=1):
        result = self.report(*options, status=status)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertRegex(result.stderr, "^report: ")
        self.assertIn(because, result.stderr)


class GoldenTrace(ReportTest):
    def setUp(self):
        super().setUp()
        self.trace = golden(self.directory / "golden").path

    def test_both_readers_read_it(self):
        self.assertEqual(len(self.read(self.trace).lines), 13)

    def test_json(self):
        report = self.json_of(self.trace)
        self.assertEqual((report["begin"], report["duration"], report["events"]), (BEGIN * 10**9 + 1000 * US, 2300 * US, 13))
        self.assertEqual(report["requests"], {
            "queued": 5, "dispatched": 4, "completed": 3, "cancelled": 0, "waiting_at_end": 1, "in_device_at_end": 1, "without_queued": 0,
            "completed_without_queued": 0, "without_completed": 0})
        classes = {(row["class"], row["direction"]): row for row in report["classes"]}
        self.assertEqual({key: (row["queued"], row["completed"], row["bytes"]) for key, row in classes.items()}, {
            ("main", "read"): (1, 1, 4096), ("main", "write"): (1, 0, 0), ("exit", "read"): (1, 1, 512),
            ("exit", "write"): (1, 0, 0), ("lr", "read"): (1, 1, 131072)})
        self.assertEqual({key: (row["queue_time"]["max"], row["device_time"]["max"]) for key, row in classes.items()}, {
            ("main", "read"): (2 * US, 100 * US), ("main", "write"): (0, None), ("exit", "read"): (100 * US, 100 * US),
            ("exit", "write"): (None, None), ("lr", "read"): (92 * US, 2000 * US)})
        self.assertEqual((report["waits"]["begun"], report["waits"]["time"]["max"]), (1, 91 * US))
        self.assertEqual([(row["request"], row["cpu"], row["is_dispatched"]) for row in report["in_flight"]],
                         [(0xc, 0, True), (0xd, 1, False)])
        self.assertEqual([(row["request"], row["cpu"], row["queue"], row["device"], row["total"]) for row in report["slowest"]],
                         [(0xb, 0, 92 * US, 2000 * US, 2092 * US), (0xa, 1, 100 * US, 100 * US, 200 * US),
                          (0xa, 0, 2 * US, 100 * US, 102 * US)])
        size = sum(file.stat().st_size for file in self.trace.iterdir())
        self.assertEqual((report["bytes_on_disk"], report["bytes_a_request"]), (size, size / 5))

    def test_timeline(self):
        timeline = self.json_of(self.trace)["timeline"]
        self.assertEqual(max(slot["most"] for slot in timeline["in_device"]), 2)
        self.assertEqual(max(slot["most"] for slot in timeline["waiting"]), 2)
        # The requests' times in the device, and in the queue: what completed, and what did not until the end.
        for what, us in ("in_device", 100 + 2000 + 100 + 100), ("waiting", 2 + 92 + 100 + 0 + 0):
            slots = timeline[what]
            last = 2300 * US - (len(slots) - 1) * timeline["width"]
            area = sum(slot["mean"] for slot in slots[:-1]) * timeline["width"] + slots[-1]["mean"] * last
            self.assertAlmostEqual(area / US, us, delta=2)

    def test_text(self):
        text = self.report(self.trace).stdout
        self.assertIn("5 requests queued = 3 completed + 1 in the device + 1 waiting at the end; 4 dispatched\n", text)
        self.assertRegex(text, r"(?m)^lr +read +1 +128 KiB .* 92 us +92 us$")
        self.assertRegex(text, r"(?m)^lr +read +1 +128 KiB .* 2 ms +2 ms$")
        self.assertIn("1 wait for capacity: p50 91 us", text)
        self.assertRegex(text, r"(?m)^b +lr read +0\.000010 +0 +131072 +92 us +2 ms +2\.09 ms$")
        self.assertIn("in flight at the end: c (main write 8192), d (exit write 1024) waiting\n", text)

    def test_lines(self):
        self.assertEqual(self.report("--format=lines", self.trace).stdout, """\
00000000:000.000000 --- buffer (skipped 0) ---
00000000:- OPENING: shard=0 text=0:main,1:exit,2:lr
00000001:000.000000 IO Q a r class 0 4096
00000002:000.000002 IO D a
00000003:000.000010 IO Q b r class 2 131072
00000004:000.000011 IO W
00000005:000.000102 IO C a
00000006:000.000102 IO D b
00000007:000.002102 IO C b
00000008:000.002200 IO Q c w class 0 8192
00000009:000.002200 IO D c
00000000:000.000000 --- buffer (skipped 0) ---
00000000:- OPENING: shard=1 text=0:main,1:exit,2:lr
00000001:000.000020 IO Q a r class 1 512
00000002:000.000120 IO D a
00000003:000.000220 IO C a
00000004:000.002300 IO Q d w class 1 1024
""")

    def test_html(self):
        page = self.directory / "page.html"
        self.report("--format=html", "-o", page, self.trace)
        text = page.read_text()
        data = re.search(r"(?m)^const report = (.*);$", text)[1]
        report = self.json_of(self.trace)
        for row in report["slowest"] + report["in_flight"]:
            row["request"] = f"{row['request']:x}"
        self.assertEqual(json.loads(data), report)
        # It is all there is: no other file, no network.
        self.assertEqual(re.findall(r'(?:src|href)=|@import|url\(|https?://(?!www\.w3\.org/2000/svg")', text), [])

    @outside_gate("a browser shows the page when it will")
    @needs(has("chromium"), "chromium")
    def test_page_in_a_browser(self):
        page = self.directory / "page.html"
        self.report("--format=html", "-o", page, self.trace)
        # A pointer in the middle of the first plot.
        page.write_text(page.read_text().replace("</body>", """<script>
            const place = document.querySelector(".plot svg").getBoundingClientRect();
            document.querySelector(".plot svg").dispatchEvent(new PointerEvent("pointermove",
                { clientX: place.left + place.width / 2, clientY: place.top + 50 }));
            </script></body>"""))
        shown = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
                                f"--user-data-dir={self.directory / 'browser'}", "--dump-dom", page.as_uri()],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=PATIENCE).stdout
        # Two of what is in flight, one for each flow that has been completed, and two for those with times.
        self.assertEqual(shown.count("<polyline"), 2 + 5 + 4 + 3)
        self.assertIn("5 queued = 3 completed + 1 in the device + 1 waiting at the end.", shown)
        self.assertEqual(shown.count("<tbody><tr"), 4)
        self.assertRegex(shown, r'<div class="tip" style="left: [\d.]+px;"><b>at [\d.]+ ms</b><table><tr><td>in the device</td><td>1, at most 1</td></tr>')


class OtherTraces(ReportTest):
    def test_fields_of_other_names(self):
        trace = MadeTrace(self.directory / "other")
        trace.declare("dev:queued", ("direction", 8), ("class_number", 8), ("length", 32), ("id", 64))
        trace.declare("dev:dispatched", ("id", 64), ("length", 32)).declare("dev:completed", ("length", 32), ("id", 64))
        trace.declare("dev:queue", ("id", 64))
        trace.add("dev:queued", 0, 1, 2, 700, 1 << 60).add("dev:queue", 1, 1).add("dev:dispatched", 2, 1 << 60, 5)
        trace.add("dev:completed", 3, 7, 1 << 60).write()
        report = self.json_of("--provider", "dev", trace.path)
        [row] = report["classes"]
        self.assertEqual((row["class"], row["direction"], row["bytes"]), ("lr", "write", 700))
        self.assertEqual((report["other_events"], report["bytes_a_request"]), (1, None))
        self.assertEqual(report["slowest"][0]["request"], 1 << 60)

    def test_numbers_in_all_bases(self):
        """As the metadata wants them shown: 0b11, 017, 15, 0xF."""
        for base in 2, 8, 10, 16:
            with self.subTest(base=base):
                trace = MadeTrace(self.directory / str(base))
                trace.declare("io:queued", ("request", 64), ("class", 8), ("length", 32), ("direction", 8, {"write": 8}))
                trace.declare("io:dispatched", ("request", 64)).declare("io:completed", ("request", 64))
                trace.declarations = trace.declarations.replace("signed = false; }", f"signed = false; base = {base}; }}")
                trace.declarations = trace.declarations.replace(f"base = {base}; }} cpu_id", "} cpu_id")
                for number, request in enumerate((0, 8, 0x7F10, (1 << 64) - 1)):
                    trace.add("io:queued", 10 * number, request, 10, 0x7F10, 8).add("io:dispatched", 10 * number + 1, request)
                    trace.add("io:completed", 10 * number + 2 + number, request)
                report = self.json_of(trace.write().path)
                self.assertEqual([row["request"] for row in report["slowest"]], [(1 << 64) - 1, 0x7F10, 8, 0])
                [row] = report["classes"]
                self.assertEqual((row["number"], row["direction"], row["bytes"]), (10, "write", 4 * 0x7F10))
                self.assertEqual(report["requests"]["without_queued"], 0)

    def test_ids_of_64_bits_on_the_page(self):
        """A browser would round numbers above 2^53."""
        trace = MadeTrace(self.directory / "large").declare("io:queued", ("request", 64)).declare("io:completed", ("request", 64))
        trace.add("io:queued", 0, (1 << 60) + 1).add("io:queued", 1, (1 << 60) + 2).add("io:completed", 2, (1 << 60) + 2).write()
        data = re.search(r"(?m)^const report = (.*);$", self.report("--format=html", trace.path).stdout)[1]
        report = json.loads(data)
        self.assertEqual((report["in_flight"][0]["request"], report["slowest"][0]["request"]), ("1000000000000001", "1000000000000002"))

    def test_losses_of_each_kind_are_told(self):
        """As leat view warns of them; stderr has other lines, too."""
        at = 'between [1.000000000] and [2.000000000] in trace "t" (no UUID) within stream "channel0_3" (stream class ID: 0, stream ID: 3)'
        found = Events("leat", [], "io")
        found.take_messages([
            "leat: warning: WARNING: Tracer discarded 1000 events in stream (stream class ID: 0, stream ID: 3)\n",
            f"WARNING: Tracer discarded 5 events {at}.\n", f"WARNING: Tracer discarded 1 event {at}.\n",
            f"WARNING: Tracer discarded 2 packets {at}.\n", f"WARNING: Network lost 1 packet {at.partition(' in ')[2]}.\n",
            f"WARNING: Missed 4 packets {at}: their files were replaced before they were read.\n",
            f"WARNING: Tracer may have discarded events {at}.\n"], 0)
        self.assertEqual((found.discarded, found.lost_packets, found.unknown_losses), ({3: 6}, 7, 1))
        self.assertEqual(losses({"lost_packets": 7, "unknown_losses": 1}),
                         ["7 packets lost, and what was in them; 1 time events may have been skipped, and nobody counted them"])
        self.assertEqual(losses({"lost_packets": 0, "unknown_losses": 0}), [])

    def test_packets_that_the_tracer_discarded(self):
        trace = of_io_tracer(self.directory / "packets")
        trace.declarations = trace.declarations.replace("events_discarded;", f"events_discarded; {UINT(64)} packet_seq_num;")
        trace.add("io:read_queued", 0, 1, 0, 1).write()
        stream = trace.path / "channel0_0"
        data = stream.read_bytes()
        packets = []
        for number, discarded in (0, 0), (3, 7):
            size = struct.pack("<QQ", 8 * (len(data) + 8), 8 * (len(data) + 8))
            packets.append(data[:12] + struct.pack("<QQ", discarded, number) + size + data[36:])
        stream.write_bytes(b"".join(packets))
        report = self.json_of(trace.path)
        self.assertEqual((report["skipped"], report["lost_packets"], report["unknown_losses"]), (7, 2, 0))
        self.assertIn("; 7 skipped\n2 packets lost, and what was in them\n", self.report(trace.path).stdout)
        page = self.report("--format=html", trace.path).stdout
        self.assertIn('"lost_packets": 2, "unknown_losses": 0', page)
        self.assertIn("tile(count(report.lost_packets)", page)

    def test_rings_of_threads_are_not_cpus(self):
        """A request of the same id on CPU 0, and on the first ring of threads."""
        trace = of_io_tracer(self.directory / "threads")
        declared = trace.declarations
        stream = declared[declared.index("stream { id = 0"):declared.index("event {")]
        trace.declarations = (declared + stream.replace("id = 0", "id = 1").replace("cpu_id", "thread_ring")
                              + declared[declared.index("event {"):].replace("stream_id = 0", "stream_id = 1"))
        trace.add("io:read_queued", 0, 1, 0, 1).add("io:dispatched", 5, 1).write()
        data = (trace.path / "channel0_0").read_bytes()
        (trace.path / "channel0_1").write_bytes(data[:4] + struct.pack("<I", 1) + data[8:])
        report = self.json_of(trace.path)
        self.assertEqual((report["requests"]["without_completed"], report["requests"]["in_device_at_end"]), (0, 2))
        self.assertEqual({row["cpu"] for row in report["in_flight"]}, {0, "thread-0"})

    def test_other_events_may_be_any(self):
        """Names with spaces or without a colon, and streams without CPUs: they are counted."""
        trace = of_io_tracer(self.directory / "any").declare("sold").declare("shop:sold out").declare("a b", ("request", 32))
        declared = trace.declarations
        stream = declared[declared.index("stream { id = 0"):declared.index("event {")]
        trace.declarations += (stream.replace("id = 0", "id = 1").replace(f"{UINT(32)} cpu_id; ", "")
                               + f'event {{ id = 0; stream_id = 1; name = "io:other"; fields := struct {{ {UINT(32)} n; }}; }};')
        trace.add("io:read_queued", 0, 1, 0, 1).add("sold", 1).add("shop:sold out", 2).add("a b", 3, 7).add("io:dispatched", 5, 1)
        trace.write()
        record = struct.pack("<IQI", 0, 4, 9)
        size = 8 * (2 * 4 + 5 * 8 + len(record))
        (trace.path / "bare_0").write_bytes(struct.pack("<IIQQQQQ", 0xc1fc1fc1, 1, 0, size, size, 4, 4) + record)
        report = self.json_of(trace.path)
        self.assertEqual((report["events"], report["other_events"]), (2, 4))

    def test_numbers_without_names(self):
        trace = MadeTrace(self.directory / "numbers", environment="")
        trace.declare("io:queued", ("request", 32), ("class_", 8)).declare("io:completed", ("request", 32))
        trace.add("io:queued", 0, 1, 7).add("io:completed", 5, 1).write()
        [row] = self.json_of(trace.path)["classes"]
        self.assertEqual((row["class"], row["direction"], row["completed"], row["device_time"]["count"]), ("class 7", "any", 1, 0))

    def test_events_that_are_missing(self):
        """Those of requests that were queued before the trace, and those that were skipped."""
        trace = of_io_tracer(self.directory / "gaps")
        trace.add("io:dispatched", 0, 1).add("io:completed", 1, 1).add("io:completed", 2, 2)
        trace.add("io:read_queued", 3, 3, 0, 1).add("io:read_queued", 4, 3, 0, 1).add("io:dispatched", 5, 3)
        trace.add("io:dispatched", 6, 3).add("io:completed", 7, 3).write()
        report = self.json_of(trace.path)
        self.assertEqual(report["requests"], {
            "queued": 2, "dispatched": 3, "completed": 3, "cancelled": 0, "waiting_at_end": 0, "in_device_at_end": 0, "without_queued": 2,
            "completed_without_queued": 2, "without_completed": 1})
        text = self.report(trace.path).stdout
        self.assertIn("2 requests queued = 1 completed + 0 in the device + 0 waiting at the end + 1 that ended unseen", text)
        self.assertIn("2 that were dispatched, 2 that were completed. If they are many: see --ids", text)

    def test_context_of_the_same_name(self):
        trace = of_io_tracer(self.directory / "contexts")
        trace.declarations = trace.declarations.replace(
            "stream { id = 0;", f"stream {{ id = 0; event.context := struct {{ {UINT(32)} request; }};")
        for name, (number, form) in trace.classes.items():
            trace.classes[name] = (number, form[:3] + "I" + form[3:])
        trace.add("io:read_queued", 0, 77, 1, 0, 1).add("io:dispatched", 1, 88, 1).add("io:completed", 2, 99, 1)
        self.assertEqual(self.json_of(trace.write().path)["slowest"][0]["request"], 1)

    def test_cancelled(self):
        trace = of_io_tracer(self.directory / "cancelled").declare("io:cancelled", ("request", 32))
        trace.add("io:read_queued", 0, 1, 0, 1).add("io:cancelled", 10, 1).add("io:cancelled", 11, 1).add("io:dispatched", 20, 1)
        report = self.json_of(trace.write().path)
        requests = report["requests"]
        self.assertEqual((requests["cancelled"], requests["waiting_at_end"], requests["without_queued"]), (1, 0, 1))
        self.assertIn("1 request queued = 0 completed + 1 cancelled + 0 in", self.report(trace.path).stdout)

    def test_requests_that_move_between_cpus(self):
        trace = of_io_tracer(self.directory / "moving")
        trace.add("io:read_queued", 0, 1, 0, 1).add("io:dispatched", 10, 1, cpu=1).add("io:completed", 30, 1, cpu=2).write()
        self.assertEqual(self.json_of(trace.path)["requests"]["without_queued"], 1)
        report = self.json_of("--ids=trace", trace.path)
        self.assertEqual(report["requests"]["without_queued"], 0)
        self.assertEqual((report["slowest"][0]["queue"], report["slowest"][0]["device"]), (10, 20))

    def test_skipped_events_are_told(self):
        capture = [str(BUILD / "tests/programs/test-program-capture"), str(self.directory / "skipping"), "requests=20000",
                   "burst=5000", "blocks=4", "block_size=16384"]
        figures = dict(line.split() for line in subprocess.run(capture, capture_output=True, text=True, check=True).stdout.splitlines())
        self.assertGreater(int(figures["skipped"]), 0)
        report = self.json_of(self.directory / "skipping")
        self.assertEqual((report["events"], report["skipped"]), (int(figures["events"]), int(figures["skipped"])))
        lines = self.report("--format=lines", self.directory / "skipping").stdout
        self.assertEqual(sum(map(int, re.findall(r"\(skipped (\d+)\)", lines))), int(figures["skipped"]))


class BadTraces(ReportTest):
    def test_nothing_there(self):
        self.assert_refused(self.directory / "nowhere", because="does not exist")
        (self.directory / "empty").mkdir()
        self.assert_refused(self.directory / "empty", because="holds no trace")

    def test_other_events_only(self):
        trace = MadeTrace(self.directory / "others").declare("shop:sold", ("id", 32)).add("shop:sold", 1, 2).write()
        for form in "text", "json", "html", "lines":
            self.assert_refused(f"--format={form}", trace.path, because="there are shop:sold; see --provider")

    def test_messages_are_one_line_of_text(self):
        trace = MadeTrace(self.directory / "escape").declare("shop:\x1b[31m" + "x" * 5000).add("shop:\x1b[31m" + "x" * 5000, 1).write()
        result = self.report(trace.path, status=1)
        self.assertRegex(result.stderr, r"there are shop:\S?\?\[31mx+\.\.\.; see --provider\n$")
        self.assertLess(len(result.stderr), 300)
        self.assertEqual(readable_message("a\nb\x9bc"), "a?b?c")
        self.assertEqual(readable_message("x" * 3000), "x" * 2000 + "...")

    def test_classes_of_nonsense(self):
        trace = MadeTrace(self.directory / "digits", environment=f'classes = "{"1" * 5000}:x,2:lr";')
        trace.declare("io:queued", ("request", 32), ("class", 8)).add("io:queued", 0, 1, 2).write()
        self.assertEqual([row["class"] for row in self.json_of(trace.path)["classes"]], ["lr"])

    def test_event_without_id(self):
        trace = MadeTrace(self.directory / "fields").declare("io:queued", ("x", 32)).add("io:queued", 1, 2).write()
        self.assert_refused(trace.path, because="io:queued has no field that is called request or id")

    def test_events_without_cpu(self):
        trace = golden(self.directory / "bare").path
        for file in trace.glob("channel0_*"):
            data = file.read_bytes()
            file.write_bytes(data[:8] + data[12:])
        metadata = trace / "metadata"
        metadata.write_text(metadata.read_text().replace(f"{UINT(32)} cpu_id; ", ""))
        for file in trace.glob("channel0_*"):
            data = file.read_bytes()
            size = struct.pack("<QQ", 8 * len(data), 8 * len(data))
            file.write_bytes(data[:16] + size + data[32:])
        self.assert_refused(trace, because="not an event of a CPU")

    def test_damaged_trace(self):
        trace = golden(self.directory / "damaged").path
        stream = trace / "channel0_0"
        stream.write_bytes(stream.read_bytes()[:-5])
        result = self.report("-o", self.directory / "out", trace, status=1)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertEqual(list(self.directory.glob("out*")), [])

    def test_too_many_classes(self):
        trace = MadeTrace(self.directory / "classes").declare("io:queued", ("request", 32), ("class", 64))
        for number in range(200):
            trace.add("io:queued", number, number, number << 40)
        self.assert_refused(trace.write().path, because="more than 128 scheduling classes")

    def test_names_are_text(self):
        """What a trace calls its classes is shown, and nothing more."""
        name = '</script><script>alert(1)</script>'
        trace = MadeTrace(self.directory / "names", environment=f'classes = "0:{name}";')
        trace.declare("io:queued", ("request", 32), ("class", 8)).add("io:queued", 0, 1, 0).write()
        self.assertEqual(self.json_of(trace.path)["classes"][0]["class"], name)
        self.assertEqual(self.report("--format=html", trace.path).stdout.count("<script>"), 1)
        trace = MadeTrace(self.directory / "escape", environment='classes = "0:a\x1b[31mb";')
        trace.declare("io:queued", ("request", 32), ("class", 8)).add("io:queued", 0, 1, 0).write()
        self.assertIn("a?[31mb", self.report(trace.path).stdout)
        self.assertIn("a?[31mb", self.report("--format=lines", trace.path).stdout)

    def test_times_far_apart(self):
        """An event an hour: the timeline has no more slots for it."""
        trace = of_io_tracer(self.directory / "slow")
        for hour in range(100):
            trace.add("io:read_queued", hour * 3600 * 10**9, hour, 0, 1)
        report = self.json_of(trace.write().path)
        self.assertLessEqual(len(report["timeline"]["waiting"]), SLOTS)
        self.assertEqual(report["timeline"]["waiting"][-1]["most"], 100)

    def test_usage(self):
        for options in ["--format=xml", "x"], ["--ids=none", "x"], []:
            self.assertIn("usage: report", self.report(*options, status=2).stderr)
        result = subprocess.run([REPORT, "--leat", "/nowhere", "x"], capture_output=True, text=True)
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result.stderr)
        self.assertIn("--leat", result.stderr)

    def test_output_that_cannot_be_written(self):
        trace = golden(self.directory / "golden").path
        self.assert_refused("-o", self.directory / "no" / "file", trace, because="No such file")
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run([REPORT, "--leat", LEAT, trace], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((result.returncode, result.stderr), (1, "report: output: No space left on device\n"))
        ended = subprocess.run(f"{REPORT} --leat {LEAT} --format=lines {trace} | head -1", shell=True, capture_output=True, text=True)
        self.assertEqual(ended.stderr, "")


class Figures(ReportTest):
    def test_percentiles_are_within_a_128th(self):
        chosen = random.Random(7)
        for most in 10, 100_000, 10**12:
            values = sorted(chosen.randrange(most) for _ in range(5000))
            histogram = Histogram()
            for value in values:
                histogram.record(value)
            parts = (0.001, 0.5, 0.9, 0.99, 0.999, 1)
            for part, found in zip(parts, histogram.percentiles(parts)):
                exact = values[max(0, -int(-part * len(values) // 1) - 1)]
                self.assertLessEqual(exact, found)
                self.assertLessEqual(found, exact * (1 + 1 / 128), f"{part} of numbers below {most}")
            summary = histogram.summary()
            self.assertEqual((summary["count"], summary["min"], summary["max"], histogram.sum),
                             (5000, values[0], values[-1], sum(values)))
            self.assertLess(len(histogram.buckets), 4500)

    def test_no_values(self):
        self.assertEqual(set(Histogram().summary().values()), {0, None})
        self.assertEqual(Histogram().curve(), [])

    def test_timeline_keeps_the_sum(self):
        chosen = random.Random(3)
        for step in 100, 10**6, 10**11:
            timeline = Timeline()
            timeline.start(0)
            area = time = 0
            for _ in range(2000):
                pause = chosen.randrange(step)
                area += pause * timeline.waiting
                time += pause
                timeline.move_to(time)
                timeline.waiting = chosen.randrange(50)
                timeline.count()
            self.assertEqual(sum(slot[2] for slot in timeline.slots), area)
            self.assertLessEqual(len(timeline.slots), SLOTS)
            self.assertLess(time, len(timeline.slots) * timeline.width)


class RealRequests(ReportTest):
    def capture(self, *options, status=0, **arguments):
        self.trace = self.directory / "trace"
        result = subprocess.run([TRACER, "--capture", self.trace, "--directory", self.directory, "--file-size=8M", *options],
                                capture_output=True, text=True, timeout=PATIENCE, **arguments)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout

    def check(self, printed):
        """The program, babeltrace2, leat view and the report agree."""
        events, size, skipped = map(int, re.search(r"(\d+) events in (\d+) bytes, (\d+) skipped", printed).groups())
        report = self.json_of(self.trace)
        self.assertEqual(len(self.read(self.trace).lines), events)
        self.assertEqual((report["events"], report["bytes_on_disk"], report["skipped"]), (events, size, skipped))
        self.assertEqual(skipped, 0)
        requests = report["requests"]
        self.assertEqual(requests["queued"], requests["completed"] + requests["in_device_at_end"] + requests["waiting_at_end"])
        self.assertEqual(requests["dispatched"], requests["completed"] + requests["in_device_at_end"])
        self.assertEqual(len(report["in_flight"]), requests["in_device_at_end"] + requests["waiting_at_end"])
        self.assertEqual(events, sum(requests[kind] for kind in ("queued", "dispatched", "completed")) + report["waits"]["begun"])
        self.assertEqual({row["class"] for row in report["classes"]}, {"main", "exit", "lr"})
        return report

    @outside_gate("skips nothing only if its shards are never kept waiting")
    def test_a_second_of_requests(self):
        """At 8 x 128 KiB, packets and all."""
        for engine in "auto", "calls":
            with self.subTest(engine=engine):
                report = self.check(self.capture("--duration=1s", "--engine", engine, "--shards=2"))
                # The metadata is worth a byte a request only where the disk is slow.
                metadata = (self.trace / "metadata").stat().st_size
                self.assertLessEqual((report["bytes_on_disk"] - metadata) / report["requests"]["queued"], 25)
                self.assertEqual(report["environment"]["shards"], 2)
                shutil.rmtree(self.trace)

    @outside_gate("counts on requests that come within 300 ms")
    def test_capacity(self):
        """No more at a time than a shard may: requests, or bytes; and who finds no room waits."""
        report = self.check(self.capture("--duration=300ms", "--shards=1", "--max-requests=3"))
        self.assertEqual(max(slot["most"] for slot in report["timeline"]["in_device"]), 3)
        self.assertGreater(report["waits"]["begun"], 0)
        self.assertGreater(report["waits"]["time"]["max"], 0)
        shutil.rmtree(self.trace)
        # Less than any request: one at a time.
        report = self.check(self.capture("--duration=300ms", "--shards=1", "--max-bytes=1"))
        self.assertEqual(max(slot["most"] for slot in report["timeline"]["in_device"]), 1)

    @outside_gate("skips nothing only if its shards are never kept waiting")
    def test_ends_by_size(self):
        printed = self.capture("--duration=600s", "--max-size=256K")
        self.assertIn("ended by its size", printed)
        self.check(printed)
        self.assertLessEqual(sum(file.stat().st_size for file in self.trace.iterdir()), 256 << 10)

    @outside_gate("skips nothing only if its shards are never kept waiting")
    def test_ends_by_a_signal(self):
        self.trace = self.directory / "trace"
        with subprocess.Popen([TRACER, "--capture", self.trace, "--directory", self.directory, "--file-size=8M", "--duration=600s"],
                              stdout=subprocess.PIPE, text=True) as tracer:
            wait_until(lambda: list(self.trace.glob("channel0_*")), "the capture has begun")
            tracer.send_signal(signal.SIGINT)
            printed = tracer.communicate(timeout=PATIENCE)[0]
        self.assertEqual(tracer.returncode, 0)
        self.assertIn("ended by a signal", printed)
        self.assertIn("0 skipped, 0 lost", printed)

    @outside_gate("asserts how long a capture takes")
    def test_goes_on_after_the_capture(self):
        printed = self.capture("--duration=100ms", "--run=600ms")
        self.assertGreaterEqual(float(re.search(r"in ([\d.]+) s$", printed, re.MULTILINE)[1]), 0.6)
        self.assertLess(self.check(printed)["duration"], 0.4 * 10**9)

    def test_without_capture(self):
        result = subprocess.run([TRACER, "--run=100ms", "--directory", self.directory, "--file-size=8M"], capture_output=True,
                                text=True, timeout=PATIENCE)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertNotIn("capture", result.stdout)

    @without_sanitizers
    def test_cpus_that_cannot_be_told(self):
        """As where there are more than the C library's set of CPUs has room for."""
        compiled(["gcc", "-shared", "-fPIC"], self.directory / "no-cpus.so",
                 "#include <errno.h>\nint sched_getaffinity(int pid, unsigned long size, void* set) { (void)pid, (void)size, (void)set; "
                 "errno = EINVAL; return -1; }")
        result = subprocess.run([TRACER, "--run=10ms", "--shards=2", "--directory", self.directory, "--file-size=1M"], capture_output=True,
                                text=True, timeout=PATIENCE, env={**os.environ, "LD_PRELOAD": str(self.directory / "no-cpus.so")})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("load: 2 shards", result.stdout)

    def test_bad_words(self):
        for words in (["--duration=0s"], ["--duration=5"], ["--max-size=-1"], ["--max-size=99999999999G"], ["--shards=0"],
                      ["--engine=tape"], ["more"]):
            result = subprocess.run([TRACER, *words], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
        (self.directory / "full").mkdir()
        (self.directory / "full" / "file").touch()
        result = subprocess.run([TRACER, "--capture", self.directory / "full", "--directory", self.directory, "--file-size=1M"],
                                capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result.stderr)
        self.assertIn("give a new directory", result.stderr)

    @outside_gate("measures requests for a second, and may start a browser")
    def test_demo(self):
        """The same that ./dev demo io runs, for a second."""
        result = subprocess.run([SOURCE / "tools" / "demo-io", BUILD / "bin", self.directory / "demo", "1"], capture_output=True,
                                text=True, timeout=PATIENCE, env={**os.environ, "HOME": str(self.directory)})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    main()
