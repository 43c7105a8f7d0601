#!/usr/bin/env python3
"""A program that captures itself: what it emitted is in the trace, or counted, whatever happens meanwhile."""
import collections
import ctypes
import os
import random
import re
import shutil
import struct
import subprocess
import time

from support import (BUILD, DISCARDED, HAS_RSEQ, IS_WHOLE, LEAT, ON_ONE_CPU, PATIENCE, SOURCE, InteropTest, Trace,
                     can_be_two_users, compiled, has, has_namespaces, library, main, needs, outside_gate, plain_run,
                     program, wait_until, without_sanitizers)

SMALL = ("blocks=4", "block_size=16384")
EVENTS = ("io:queued", "io:dispatched", "io:completed")
# magic, UUID, stream class; then ring, begin, end, content and packet size in bits, number, discarded; cpu or thread
PACKET = struct.Struct("<I16sI7QI")
MAGIC = 0xC1FC1FC1
END = {"duration": 1, "size": 2, "stop": 3, "error": 4}
FOR_EVER = 3_600_000  # ms; no machine stands still for so long
IO_URING_SETUP = 425  # the number of the system call

Packet = collections.namedtuple("Packet", "number begin end size discarded")


def packets_of(path):
    """The headers of the packets in a stream's file, which must follow each other without a gap."""
    data = path.read_bytes()
    packets = []
    at = 0
    while at < len(data):
        magic, _, _, _, begin, end, content, size, number, discarded, _ = PACKET.unpack_from(data, at)
        assert magic == MAGIC and content == size, f"{path}: no packet at {at}"
        packets.append(Packet(number, begin, end, size // 8, discarded))
        at += size // 8
    assert at == len(data), f"{path} ends in a packet"
    return packets


def whole_packets(path):
    """The bytes of those at the file's beginning."""
    data = path.read_bytes()
    at = 0
    while at + PACKET.size <= len(data):
        size = PACKET.unpack_from(data, at)[7] // 8
        if at + size > len(data):
            break
        at += size
    return at


def has_io_uring():
    """Whether the kernel gives us one: many containers may have none."""
    parameters = ctypes.create_string_buffer(120)
    descriptor = ctypes.CDLL(None).syscall(IO_URING_SETUP, 1, parameters)
    if descriptor >= 0:
        os.close(descriptor)
    return descriptor >= 0


class CaptureTest(InteropTest):
    def capture(self, *options, name="trace", prefix=(), status=0, **arguments):
        """Runs the program to its end. Gives its numbers, for each capture. No capture ends by its duration, unless the
        test gives one."""
        command = [*prefix, program("capture"), str(self.directory / name), f"duration_ms={FOR_EVER}", *options]
        result = subprocess.run(command, text=True, capture_output=True, **{"timeout": PATIENCE, **arguments})
        self.assertEqual(result.returncode, status, result.stderr)
        self.stderr = result.stderr
        numbers = [line.split() for line in result.stdout.splitlines() if " " in line]
        self.assertNotIn("child_failed", [key for key, _ in numbers], result.stdout)
        return {key: int(value) for key, value in numbers}

    def compiled_with_capture(self, name, source):
        return compiled(["gcc", f"-I{SOURCE / 'include'}", f"-L{BUILD / 'lib'}", f"-Wl,-rpath,{BUILD / 'lib'}",
                         "-Wl,--no-as-needed", "-lleat-capture", "-lleat"], self.directory / name, source)

    def files_of(self, name="trace"):
        return sorted((self.directory / name).iterdir())

    def read_capture(self, found, name="trace"):
        """What the program says of its capture, the files say, too."""
        trace = self.read(self.directory / name)
        self.assertEqual(len(trace.lines), found["events"])
        self.assertEqual(sum(path.stat().st_size for path in self.files_of(name)), found["bytes"])
        self.assertEqual(found["is_over"], 1)
        if found["end"] != END["error"]:
            self.assertEqual(trace.discarded(), found["skipped"])
            told = sum(packets_of(path)[-1].discarded for path in self.files_of(name) if path.name != "metadata")
            self.assertEqual(told, found["skipped"])
        return trace

    def assert_balance(self, found):
        self.assert_accounted(found["emitted"], found["events"], found["skipped"] + found["lost"], found)
        self.assertEqual(found["enabled"], 0)

    def capture_and_read(self, *options, **arguments):
        found = self.capture(*options, **arguments)
        self.assert_balance(found)
        return found, self.read_capture(found, arguments.get("name", "trace"))


def order_of(name, request):
    """Of one thread's events, counted from 0."""
    return 3 * request + EVENTS.index(name)


class Blocks(CaptureTest):
    def packets_and_gaps(self, path):
        """For each packet: how many events of a single thread are missing up to its last one, and the count in it."""
        text = subprocess.run(["babeltrace2", str(path), "-c", "sink.text.details"], capture_output=True, text=True,
                              check=True).stdout
        [file] = [file for file in path.iterdir() if file.name != "metadata" and file.stat().st_size != 0]
        counts = [packet.discarded for packet in packets_of(file)]
        events = [[]]
        name = None
        for line in text.splitlines():
            if line == "Packet end":
                events.append([])
            elif line.startswith("Event `"):
                name = line.split("`")[1]
            elif line.startswith("    request: "):
                events[-1].append(order_of(name, int(line.split()[1].replace(",", ""))))
        self.assertEqual(len(events) - 1, len(counts))
        last = -1
        for number, (of_packet, count) in enumerate(zip(events, counts)):
            told = count - (counts[number - 1] if number != 0 else 0)
            self.assertEqual(of_packet, sorted(of_packet))
            end = of_packet[-1] if of_packet else last + told
            yield end - last - len(of_packet), told
            last = end

    @needs(has("taskset"), "taskset")
    def test_each_block_tells_what_was_skipped_before_its_last_event(self):
        """Exactly: the writer stalls again and again."""
        for options in ("by_library=1",), ("backwards=1", "part=3000"), ("flush_ms=60000", "by_library=1"):
            with self.subTest(options=options):
                shutil.rmtree(self.directory / "trace", ignore_errors=True)
                found, _ = self.capture_and_read("requests=100000", "burst=100", "lazy=60", *SMALL, *options,
                                                 prefix=ON_ONE_CPU)
                self.assertGreater(found["skipped"], 1000)
                self.assertGreater(found["events"], 10000)
                gaps = list(self.packets_and_gaps(self.directory / "trace"))
                self.assertGreater(sum(gap != 0 for gap, _ in gaps), 2)
                for number, (gap, told) in enumerate(gaps):
                    self.assertEqual(gap, told, f"packet {number} of {gaps}")

    def test_room_comes_back_when_blocks_are_written(self):
        """Long before a flush: a ring whose blocks were all out is used again."""
        found, _ = self.capture_and_read("requests=200000", "burst=10000", *SMALL, "flush_ms=60000", "by_library=1")
        self.assertGreater(found["events"], 20 * 7000)

    def test_full_size(self):
        """Of a block: the default, or less if the capture may be small."""
        for options, largest in ((), 128 << 10), (("size=262144",), 32 << 10):
            with self.subTest(options=options):
                shutil.rmtree(self.directory / "trace", ignore_errors=True)
                self.capture_and_read("requests=100000", "burst=100", "flush_ms=60000", *options)
                sizes = [packet.size for path in self.files_of() if path.name != "metadata" for packet in packets_of(path)]
                self.assertLessEqual(max(sizes), largest)
                self.assertGreater(max(sizes), largest - 64)


class Counts(CaptureTest):
    def test_all_is_there_when_the_writer_keeps_up(self):
        for options in (("by_library=1",), ("by_kernel=1",), ("by_library=1", "submits=1"), ("by_library=1", "submits=7"),
                        ("backwards=1",), ("part=777", "errors=2"), ("free_early=1", "pause_us=10")):
            with self.subTest(options=options):
                shutil.rmtree(self.directory / "trace", ignore_errors=True)
                found = self.capture("requests=20000", "burst=20", "blocks=64", *options)
                self.assertEqual(found["skipped"] + found["lost"], 0)
                trace = self.read(self.directory / "trace")
                orders = [order_of(event.name, event["request"]) for event in trace.events()]
                self.assertEqual(orders, list(range(60000)))

    @needs(has("taskset"), "taskset")
    def test_headers_and_contexts(self):
        """Each capture is one packet: on one CPU, and no block is written before it is full."""
        sizes = {}
        for header in "tiny", "compact", "large":
            for contexts in 0, 1:
                with self.subTest(header=header, contexts=contexts):
                    name = f"{header}-{contexts}"
                    number = ("tiny", "compact", "large").index(header)
                    found, trace = self.capture_and_read("requests=3000", "burst=10", f"header={number}",
                                                         f"contexts={contexts}", f"flush_ms={FOR_EVER}", name=name,
                                                         prefix=ON_ONE_CPU)
                    self.assertEqual((found["events"], found["skipped"]), (9000, 0))
                    self.assertEqual("procname = " in trace.lines[0], contexts == 1)
                    sizes[name] = sum(path.stat().st_size for path in self.files_of(name) if path.name != "metadata")
        self.assertLess(sizes["tiny-0"], sizes["compact-0"])
        self.assertLess(sizes["compact-0"], sizes["large-0"])
        # An IO request: its three events, packets included.
        self.assertLess(sizes["tiny-0"] / 3000, 25)

    def test_environment(self):
        self.capture_and_read("requests=1", "burst=1")
        metadata = (self.directory / "trace/metadata").read_text()
        self.assertIn("\tshard = 7;\n", metadata)
        self.assertIn('\tclasses = "0:main,1:exit,2:lr";\n', metadata)
        self.assertIn('\tprocname = "test-program-capture";\n', metadata)

    def test_sticky_events(self):
        """Each capture begins with their values."""
        self.capture("requests=10", "burst=1", "sticky=3", "again=1")
        for name in "trace", "trace-again":
            trace = self.read(self.directory / name)
            self.assertEqual([event["class_"] for event in trace.events("io:class_named")], [0, 1, 2])
            self.assertEqual({event["name"] for event in trace.events("io:class_named")}, {"main"})
            self.assertEqual(len(trace.lines), 33)

    def test_many_threads_at_full_speed(self):
        found, _ = self.capture_and_read("threads=16", "requests=50000")
        self.assertEqual(found["emitted"], 16 * 50000 * 3)
        found, _ = self.capture_and_read("threads=2", "requests=200000", "by_library=1", name="two")
        self.assertEqual(found["emitted"], 2 * 200000 * 3)

    def test_nobody_captures(self):
        """Before, between and after captures, tracepoints are off."""
        found = self.capture("requests=100", "burst=1", "again=1")
        self.assertEqual((found["events"], found["enabled"]), (300, 0))
        for name in "trace", "trace-again":
            self.assertEqual(len(self.read(self.directory / name).lines), 300)
        uuids = {(self.directory / name / "metadata").read_text().split('uuid = "')[1][:36] for name in ("trace", "trace-again")}
        self.assertEqual(len(uuids), 2)


class Ends(CaptureTest):
    @outside_gate("asserts how long a capture takes")
    def test_by_duration(self):
        begin = time.monotonic()
        found = self.capture("requests=0", "burst=1", "pause_us=100", "duration_ms=700")
        self.assertGreater(time.monotonic() - begin, 0.7)
        self.assertEqual((found["end"], found["lost"]), (END["duration"], 0))
        trace = self.read_capture(found)
        times = [float(line[1:].split("]")[0].split(":")[-1]) for line in trace.lines]
        self.assertLess((times[-1] - times[0]) % 60, 0.75)

    def test_by_size(self):
        """Never more, and nearly as much."""
        for size in (65536, 100000, 1000003, 5 << 20) if IS_WHOLE else (65536, 100000, 1000003):
            for options in ("burst=50",), ("threads=3",), ("burst=500", "backwards=1", "part=5000"):
                with self.subTest(size=size, options=options):
                    shutil.rmtree(self.directory / "trace", ignore_errors=True)
                    found = self.capture("requests=0", f"size={size}", *options)
                    self.assertEqual(found["end"], END["size"])
                    self.read_capture(found)
                    self.assertLessEqual(found["bytes"], size)
                    self.assertGreater(found["bytes"], size // 2)
                    if options[0] == "burst=50":
                        self.assert_balance(found)

    def test_counts_are_final(self):
        """Of an event that was on before the end, and finds no room behind it, the trace cannot tell."""
        late = self.compiled_with_capture("late", LATE)
        result = plain_run(late, str(self.directory / "trace"))
        self.assertEqual((result.returncode, result.stdout), (0, 2 * "1 0 1 0\n"), result.stderr)
        self.assertEqual(self.read(self.directory / "trace").discarded(), 1)

    def test_whichever_comes_first(self):
        found = self.capture("requests=0", "burst=1", "pause_us=1000", "duration_ms=200", "size=65536", name="by-duration")
        self.assertEqual(found["end"], END["duration"])
        found = self.capture("requests=0", "burst=100", "size=65536", name="by-size")
        self.assertEqual(found["end"], END["size"])

    def test_without_an_event(self):
        for blocks in (), SMALL:
            found, trace = self.capture_and_read("requests=0", "threads=0", "pause_us=1000", "duration_ms=300", *blocks,
                                                 name=f"trace{len(blocks)}")
            self.assertEqual((found["end"], trace.lines), (END["duration"], []))

    def test_rare_events_are_written_once_a_period(self):
        """A block that is not full waits for the flush, and no longer."""
        process = subprocess.Popen([program("capture"), str(self.directory / "trace"), "requests=0", "burst=1",
                                    "pause_us=200000", "flush_ms=300"], stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def is_stored():
            files = (self.directory / "trace").glob("channel0_*")
            return any(path.stat().st_size != 0 for path in files)
        wait_until(is_stored, "the first event is stored")

    def test_freed_with_buffers_out(self):
        """Of an earlier state: those that nobody has written."""
        for name, options in ("held", ("held=3",)), ("by_kernel", ("by_kernel=1",)):
            self.capture("requests=20000", "burst=10", "free_early=1", *SMALL, *options, name=name)
            trace = self.read(self.directory / name)
            self.assertEqual(len(trace.lines) + trace.discarded(), 60000)


class BadInput(CaptureTest):
    def assert_refused(self, *options, says, name="trace", **arguments):
        self.capture("requests=1", "burst=1", *options, status=1, name=name, **arguments)
        self.assertEqual(len(self.stderr.splitlines()), 1, self.stderr)
        self.assertIn(says, self.stderr)

    def test_zero_and_absurd_limits(self):
        for options, says in (
                (("duration_ms=0",), "needs a duration"),
                (("size=0",), "needs a size: 65536 bytes or more, not 0"),
                (("size=65535",), "65536 bytes or more"),
                (("blocks=3",), "powers of two"),
                (("blocks=2",), "4 blocks or more"),
                (("blocks=5000",), "powers of two"),
                (("block_size=1000",), "4096 bytes or more, not 1000"),
                (("blocks=16384", "block_size=4",), "4096 bytes or more, not 4"),
                (("block_size=10000",), "powers of two"),
                (("blocks=4", "block_size=8192"), "64 KiB to 1 GiB"),
                (("blocks=2147483648", "block_size=2147483648"), "64 KiB to 1 GiB")):
            with self.subTest(options=options):
                self.assert_refused(*options, says=says)
                self.assertFalse((self.directory / "trace").exists(), "it leaves nothing behind")
        found, _ = self.capture_and_read("requests=10", "burst=1", f"size={2**64 - 1}", f"duration_ms={2**63 // 10**6}",
                                         f"flush_ms={2**63 // 10**6}")
        self.assertEqual(found["events"], 30)

    def test_directories(self):
        self.assert_refused(says="cannot make", name="there/is/none")
        (self.directory / "full").mkdir()
        (self.directory / "full/file").touch()
        self.assert_refused(says="not empty: give a new directory", name="full")
        (self.directory / "file").touch()
        self.assert_refused(says="not empty: give a new directory", name="file")
        (self.directory / "empty").mkdir()
        self.capture_and_read("requests=1", "burst=1", name="empty")
        self.assert_refused(says="not empty: give a new directory", name="empty")

    def test_one_at_a_time(self):
        found, _ = self.capture_and_read("requests=10", "burst=1", "twice=1")
        self.assertEqual(found["events"], 30)
        self.assertIn("another capture of this program runs", self.stderr)

    def test_lines_of_the_environment(self):
        """Those that every trace has, that are given twice, or that metadata cannot name are refused; any text is read as it was."""
        trying = self.compiled_with_capture("trying", ENVIRONMENT)
        directory = self.directory / "lines"
        self.assertEqual(plain_run(trying, str(directory), "shard_7").stdout, "\n")
        metadata = (directory / "metadata").read_text()
        lines = re.findall(r"^\t(\w+) = ", metadata.split("env {")[1].split("};")[0], re.MULTILINE)
        self.assertEqual(lines[-2:], ["shard_7", "other"])
        details = subprocess.run(["babeltrace2", str(directory), "-c", "sink.text.details"], capture_output=True, text=True)
        self.assertEqual((details.returncode, details.stderr), (0, ""))
        bad = ["", "9x", "a b", "a-b", "\u00e9", "x" * 256, "struct", "typealias", "event", "_Bool"]
        errors = plain_run(trying, str(self.directory / "bad"), *lines[:-2], "other", *bad).stdout.splitlines()
        own = len(lines) - 1
        self.assertTrue(all("has a line" in error for error in errors[:own]), errors)
        self.assertTrue(all("is no name for a line" in error for error in errors[own:]), errors)
        self.assertEqual(len(errors), own + len(bad))

    def test_not_under_leat_record(self):
        recording = self.record(program("capture"), str(self.directory / "own"), "requests=1", "burst=1", name="recording")
        self.assertEqual(recording.status, 1)
        self.assertIn("`leat record` traces it", recording.stderr)
        self.assertFalse((self.directory / "own").exists())

    def test_no_place_for_control_files(self):
        self.assert_refused(says="is /dev/shm full", env={**os.environ, "LEAT_RUNTIME_DIR": ""})

    def test_refused_capture_switches_nothing_on(self):
        """Not even for a moment: each change counts on in the control file."""
        refused = self.compiled_with_capture("refused", REFUSED)
        (self.directory / "full").mkdir()
        (self.directory / "full/file").touch()
        result = plain_run(refused, str(self.directory / "full"), str(self.runtime / "apps/leat-*/*.app"))
        self.assertRegex(result.stdout, "^.* is there and not empty: give a new directory\nsame\n$")

    def test_control_file_that_somebody_has_removed(self):
        """As systemd does at a logout. Those of other libraries are captured."""
        unnamed = self.compiled_with_capture("unnamed", UNNAMED)
        apps = str(self.runtime / "apps/leat-*/*.app")
        error = plain_run(unnamed, str(self.directory / "none"), apps).stdout
        self.assertRegex(error, r"^no tracepoint can be captured, .* has somebody removed it.*\n$")
        self.assertFalse((self.directory / "none").exists(), "it leaves nothing behind")
        warning = plain_run(unnamed, str(self.directory / "others"), apps, library("plugin")).stdout
        self.assertRegex(warning, r"^tracepoints are not captured: somebody has removed .*\.app\n$")
        self.assertEqual({event.name for event in self.read(self.directory / "others").events()}, {"plugin:work"})


# Before main(), a value that is too large to be kept.
TOO_LARGE = r"""
#include <leat/sticky.h>
#define LARGE_FIELDS(FIELD) FIELD(text, bytes, bytes, 1024)
LEAT_STICKY_EVENT(io, large, LEAT_INFO, LARGE_FIELDS, const char* bytes);
static char bytes[1024];
static __attribute__((constructor)) void set(void) { leat_sticky(io, large, 1, bytes); }
"""


class Example(CaptureTest):
    """examples/capture.c"""

    def setUp(self):
        super().setUp()
        self.source = (SOURCE / "examples/capture.c").read_text()

    def test_warnings_are_told(self):
        result = plain_run(self.compiled_with_capture("warned", self.source + TOO_LARGE), str(self.directory / "trace"), "0.01")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"^.* has not kept 1 sticky values\n$")

    @needs(has_namespaces(), "namespaces")
    def test_fails_where_the_capture_fails(self):
        """On a disk of 32 KiB, which the first block fills."""
        example = self.compiled_with_capture("example", self.source)
        script = ('mkdir "$1/disk" && mount -t tmpfs -o size=32k none "$1/disk" && "$2" "$1/disk/trace" 3600; status=$?; '
                  'umount "$1/disk"; exit $status')
        result = plain_run("unshare", "--mount", "sh", "-c", script, "sh", str(self.directory), example)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("No space left on device", result.stderr)


# Removes its control file, loads a library, if one is named, and says what the capture finds wrong.
UNNAMED = r"""
#include <dlfcn.h>
#include <glob.h>
#include <leat/capture.h>
#include <leat/tracepoint.h>
#include <stdio.h>
#include <unistd.h>
LEAT_TRACEPOINT(unnamed, tick, LEAT_INFO, LEAT_NO_FIELDS, void);
int main(int argc, char** argv) {
    struct leat_capture_options options = LEAT_CAPTURE_OPTIONS;
    char error[LEAT_CAPTURE_ERROR_SIZE] = "";
    glob_t found;
    if (glob(argv[2], 0, NULL, &found) != 0 || found.gl_pathc != 1 || unlink(found.gl_pathv[0]) != 0) return 1;
    void* const library = argc > 3 ? dlopen(argv[3], RTLD_NOW) : NULL;
    options.directory = argv[1];
    options.duration_ns = 3600000000000;
    options.max_size = 1 << 20;
    struct leat_capture* capture = leat_capture_start(&options, error);
    if (capture == NULL) return puts(error), 1;
    leat_tracepoint(unnamed, tick);
    if (library != NULL) ((void (*)(uint32_t))dlsym(library, "plugin_work"))(1);
    leat_capture_stop(capture);
    while (leat_capture_write(capture)) {}
    struct leat_capture_result result;
    leat_capture_get_result(capture, &result);
    if (result.warnings != NULL) puts(result.warnings);
    leat_capture_free(capture);
    return 0;
}
"""
# Says why the capture is refused, and whether its control file is as it was before.
REFUSED = r"""
#include <glob.h>
#include <leat/capture.h>
#include <leat/tracepoint.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
LEAT_TRACEPOINT(refused, tick, LEAT_INFO, LEAT_NO_FIELDS, void);
static char before[1 << 16], after[1 << 16];
static size_t read_file(const char* path, char* bytes) {
    FILE* const file = fopen(path, "r");
    const size_t size = file == NULL ? 0 : fread(bytes, 1, sizeof before, file);
    if (file != NULL) fclose(file);
    return size;
}
int main(int argc, char** argv) {
    struct leat_capture_options options = LEAT_CAPTURE_OPTIONS;
    char error[LEAT_CAPTURE_ERROR_SIZE] = "";
    glob_t found;
    if (argc != 3 || glob(argv[2], 0, NULL, &found) != 0 || found.gl_pathc != 1) return 1;
    const size_t size = read_file(found.gl_pathv[0], before);
    options.directory = argv[1];
    options.duration_ns = 3600000000000;
    options.max_size = 1 << 20;
    if (size == 0 || leat_capture_start(&options, error) != NULL) return 1;
    puts(error);
    const bool is_same = read_file(found.gl_pathv[0], after) == size && memcmp(before, after, size) == 0;
    puts(is_same ? "same" : "changed");
    leat_tracepoint(refused, tick);
    return 0;
}
"""
# Its capture ends between the question whether an event is on and the event, which is too large for any block.
LATE = r"""
#include <leat/capture.h>
#include <leat/tracepoint.h>
#include <stdio.h>
#include <string.h>
#define TEXT_FIELDS(FIELD) FIELD(string, text, text)
LEAT_TRACEPOINT(late, large, LEAT_INFO, TEXT_FIELDS, const char* text);
static struct leat_capture* capture;
static char text[1 << 20];
static void print_counts(void) {
    struct leat_capture_result result;
    leat_capture_get_result(capture, &result);
    printf("%d %d %d %d\n", result.is_over, (int)result.events, (int)result.skipped, (int)result.lost);
}
static const char* text_at_the_end(void) {
    leat_capture_stop(capture);
    while (leat_capture_write(capture) != 0) continue;
    print_counts();
    return text;
}
int main(int argc, char** argv) {
    struct leat_capture_options options = LEAT_CAPTURE_OPTIONS;
    char error[LEAT_CAPTURE_ERROR_SIZE] = "";
    if (argc != 2) return 1;
    memset(text, 'x', sizeof text - 1);
    options.directory = argv[1];
    options.duration_ns = 3600000000000;
    options.max_size = 1 << 20;
    capture = leat_capture_start(&options, error);
    if (capture == NULL) return puts(error), 1;
    leat_tracepoint(late, large, text);
    leat_tracepoint(late, large, text_at_the_end());
    print_counts();
    leat_capture_free(capture);
    return 0;
}
"""
# Tries each line of its environment that is named, and gives the errors.
ENVIRONMENT = r"""
#include <leat/capture.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
    for (int i = 2; i < argc; ++i) {
        struct leat_capture_environment lines[2] = {{argv[i], "a \"b\"\n;", 0}, {"other", NULL, -7}};
        struct leat_capture_options options = LEAT_CAPTURE_OPTIONS;
        char error[LEAT_CAPTURE_ERROR_SIZE] = "";
        options.directory = argv[1];
        options.duration_ns = 1000000;
        options.max_size = 1 << 20;
        options.environment = lines;
        options.environment_count = 2;
        leat_capture_free(leat_capture_start(&options, error));
        puts(error);
    }
    return 0;
}
"""
# The allocation of that number fails, from the start of the capture on.
SHORT_OF_MEMORY = r"""
#include <leat/capture.h>
#include <leat/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
LEAT_TRACEPOINT(short_of, memory, LEAT_INFO, LEAT_NO_FIELDS, void);
static int allocations_left;
static int has_failed, emitted;
void* __libc_malloc(size_t size);
void* malloc(size_t size) {
    if (allocations_left == 0 || --allocations_left != 0) return __libc_malloc(size);
    has_failed = 1;
    return NULL;
}
static int step(struct leat_capture* capture, const char* way) {
    struct leat_capture_buffer buffers[2];
    if (way[0] == 'w') return leat_capture_write(capture) != 0;
    if (way[0] == 's') return leat_capture_submit(capture) >= 0;
    const int count = leat_capture_poll(capture, buffers, 2);
    for (int i = 0; i < count; ++i)
        leat_capture_written(capture, &buffers[i], pwritev(buffers[i].fd, buffers[i].parts, buffers[i].part_count,
                                                           (off_t)buffers[i].offset));
    return count >= 0;
}
int main(int argc, char** argv) {
    struct leat_capture_options options = LEAT_CAPTURE_OPTIONS;
    char error[LEAT_CAPTURE_ERROR_SIZE] = "";
    if (argc != 4) return 1;
    options.directory = argv[1];
    options.duration_ns = 3600000000000;
    options.max_size = 1 << 20;
    options.flush_period_ns = 1;
    struct leat_capture* capture = leat_capture_start(&options, error);
    if (capture == NULL) return puts(error), 1;
    allocations_left = atoi(argv[3]);
    for (int i = 0; i < 3; ++i) {
        for (int event = 0; event < 2000; ++event) {
            if (leat_enabled(short_of, memory)) ++emitted;
            leat_tracepoint(short_of, memory);
        }
        step(capture, argv[2]);
    }
    leat_capture_stop(capture);
    while (step(capture, argv[2])) {}
    struct leat_capture_result result;
    leat_capture_get_result(capture, &result);
    allocations_left = 0;
    printf("%d %d %d %d %d %s\n", has_failed, result.end, emitted, (int)result.events,
           (int)(result.skipped + result.lost), result.error == NULL ? "none" : result.error);
    leat_capture_free(capture);
    return 0;
}
"""
# Emits, becomes another user, and emits before and after it polls.
USER = r"""
#include <leat/capture.h>
#include <leat/tracepoint.h>
#include <stdio.h>
#include <unistd.h>
LEAT_TRACEPOINT(user, tick, LEAT_INFO, LEAT_NO_FIELDS, void);
static void emit(void) {
    for (int i = 0; i < 10; ++i) leat_tracepoint(user, tick);
}
int main(int argc, char** argv) {
    struct leat_capture_options options = LEAT_CAPTURE_OPTIONS;
    char error[LEAT_CAPTURE_ERROR_SIZE] = "";
    options.directory = argv[1];
    options.duration_ns = 3600000000000;
    options.max_size = 1 << 20;
    struct leat_capture* capture = leat_capture_start(&options, error);
    if (capture == NULL) return puts(error), 1;
    emit();
    if (setuid(12345) != 0) return 1;
    emit();
    if (argc == 2) leat_capture_write(capture);
    emit();
    leat_capture_stop(capture);
    while (leat_capture_write(capture)) {}
    printf("%d\n", leat_enabled(user, tick) ? 1 : 0);
    leat_capture_free(capture);
    return 0;
}
"""

# Prints why, if it cannot start.
START_CAPTURE = r"""
#include <leat/capture.h>
#include <stdio.h>
static struct leat_capture* start_capture(const char* directory, uint64_t duration_ns, uint64_t max_size) {
    struct leat_capture_options options = LEAT_CAPTURE_OPTIONS;
    char error[LEAT_CAPTURE_ERROR_SIZE] = "";
    options.directory = directory;
    options.duration_ns = duration_ns;
    options.max_size = max_size;
    struct leat_capture* const capture = leat_capture_start(&options, error);
    if (capture == NULL) puts(error);
    return capture;
}
"""

# Its clock page says that the TSC has been far ahead. Prints whether the capture ended by its duration, and without a loss.
FROZEN_CLOCK = START_CAPTURE + r"""#include <inttypes.h>
#include <leat/tracepoint.h>
#include <string.h>
#define NUMBER(FIELD) FIELD(integer, uint32_t, x, x)
LEAT_TRACEPOINT(frozen, event, LEAT_INFO, NUMBER, uint32_t x);
static volatile uint64_t* clock_lines(void) {
    char line[4096], access[8];
    uint64_t begin = 0, found = 0;
    FILE* const maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "leat-clock") != NULL && sscanf(line, "%" SCNx64 "-%*x %7s", &begin, access) == 2 && access[1] == 'w')
            found = begin;
    fclose(maps);
    return found == 0 ? NULL : (volatile uint64_t*)(found + 128);
}
int main(int argc, char** argv) {
    struct leat_capture* const capture = start_capture(argv[argc - 1], 300000000, 1 << 30);
    if (capture == NULL) return 1;
    for (int i = 0; i < 10; ++i) leat_capture_write(capture);
    volatile uint64_t* const lines = clock_lines();
    if (lines == NULL) return puts("there is no clock page"), 1;
    lines[0] += UINT64_C(1) << 50;  /* tsc_base */
    lines[4] += UINT64_C(1) << 50;
    for (int i = 0; leat_capture_write(capture) != 0; ++i) leat_tracepoint(frozen, event, 1);
    struct leat_capture_result result;
    leat_capture_get_result(capture, &result);
    printf("%d %d\n", result.end == LEAT_CAPTURE_ENDED_BY_DURATION, result.lost == 0);
    leat_capture_free(capture);
    return 0;
}
"""

# Its trace is removed while it captures.
REMOVED = START_CAPTURE + r"""#include <leat/tracepoint.h>
#include <stdlib.h>
#define NUMBER(FIELD) FIELD(integer, uint32_t, x, x)
LEAT_TRACEPOINT(removed, event, LEAT_INFO, NUMBER, uint32_t x);
int main(int argc, char** argv) {
    char command[5000];
    struct leat_capture* const capture = start_capture(argv[argc - 1], 3600000000000, 1 << 30);
    if (capture == NULL) return 1;
    for (uint32_t i = 0; i < 100; ++i) leat_tracepoint(removed, event, i);
    leat_capture_write(capture);
    snprintf(command, sizeof command, "rm -r %s", argv[argc - 1]);
    if (system(command) != 0) return 1;
    for (uint32_t i = 0; i < 100; ++i) leat_tracepoint(removed, event, i);
    leat_capture_stop(capture);
    while (leat_capture_write(capture) != 0) {}
    struct leat_capture_result result;
    leat_capture_get_result(capture, &result);
    printf("%d %d %s\n", (int)result.events, (int)result.lost, result.warnings);
    leat_capture_free(capture);
    return 0;
}
"""

# With many events. Captures up to so many bytes.
WORDY = START_CAPTURE + r"""#include <leat/tracepoint.h>
#include <stdlib.h>
#define WORDY(FIELD) FIELD(integer, int, x, x)
%s
int main(int argc, char** argv) {
    struct leat_capture* const capture = start_capture(argv[argc - 2], 3600000000000, strtoull(argv[argc - 1], NULL, 10));
    if (capture == NULL) return 0;
    leat_capture_stop(capture);
    while (leat_capture_write(capture) != 0) {}
    leat_capture_free(capture);
    return 0;
}
"""

# Emits; then a child emits that nothing but the kernel has told that it is one: small, large, and too large an event.
BARE_CHILD = r"""
#include <leat/capture.h>
#include <leat/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define TEXT_FIELDS(FIELD) FIELD(string, text, text)
LEAT_TRACEPOINT(bare, text, LEAT_INFO, TEXT_FIELDS, const char* text);
static char text[16 << 20];
static void emit(const char* small) {
    leat_tracepoint(bare, text, small);
    memset(text, 'x', 5000);
    leat_tracepoint(bare, text, text);
    memset(text, 'x', sizeof text - 1);
    leat_tracepoint(bare, text, text);
    memset(text, 0, sizeof text);
}
int main(int argc, char** argv) {
    struct leat_capture_options options = LEAT_CAPTURE_OPTIONS;
    char error[LEAT_CAPTURE_ERROR_SIZE] = "";
    options.directory = argv[argc - 1];
    options.duration_ns = 3600000000000;
    options.max_size = 1 << 20;
    struct leat_capture* capture = leat_capture_start(&options, error);
    if (capture == NULL) return puts(error), 1;
    emit("parent");
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        for (int i = 0; i < 10; ++i) emit("child");
        char directory[4096];
        snprintf(directory, sizeof directory, "%s-of-child", argv[argc - 1]);
        options.directory = directory;
        struct leat_capture* own = leat_capture_start(&options, error);
        if (own == NULL) return puts(error), 1;
        leat_tracepoint(bare, text, "own");
        leat_capture_stop(own);
        while (leat_capture_write(own)) {}
        leat_tracepoint(bare, text, "child again");
        _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return puts("the child has failed"), 1;
    leat_tracepoint(bare, text, "parent again");
    leat_capture_stop(capture);
    while (leat_capture_write(capture)) {}
    struct leat_capture_result result;
    leat_capture_get_result(capture, &result);
    printf("%d %d %d\n", (int)result.events, (int)result.skipped, (int)result.lost);
    leat_capture_free(capture);
    return 0;
}
"""


class BadDays(CaptureTest):
    # Files of threads' rings are made when they have events: the new user may not.
    @needs(HAS_RSEQ, "rings-of-cpus")
    @needs(can_be_two_users(), "two-users")
    def test_user_changes(self):
        os.chmod(self.runtime, 0o777)
        changing = self.compiled_with_capture("changing", USER)
        for name, options in ("polls", ()), ("stops", ("at once",)):
            directory = self.directory / name
            self.assertEqual(plain_run(changing, str(directory), *options).stdout, "0\n")
            self.assertEqual(len(self.read(directory).lines), 30)
        os.chmod(self.runtime, 0o700)  # no place for the new user's files
        self.assertEqual(plain_run(changing, str(self.directory / "without")).stdout, "0\n")
        self.assertEqual(len(self.read(self.directory / "without").lines), 10)

    def test_forks(self):
        """Children capture nothing, and harm nothing."""
        for options in ("by_library=1",), ("backwards=1", *SMALL):
            found, trace = self.capture_and_read("requests=3000", "forks=20", *options, name=f"trace{len(options)}")
            self.assertEqual(found["emitted"], 9000)
            self.assertFalse("request = 4711" in trace.text)

    def test_clock_that_stands_still(self):
        """The TSC begins anew while the machine sleeps: time goes on all the same, and so does what waits for it."""
        frozen = self.compiled_with_capture("frozen", FROZEN_CLOCK)
        self.assertEqual(plain_run(frozen, str(self.directory / "trace")).stdout, "1 1\n")
        self.read(self.directory / "trace")

    def test_removed_files_are_lost(self):
        remover = self.compiled_with_capture("remover", REMOVED)
        found = plain_run(remover, str(self.directory / "trace")).stdout
        self.assertEqual(found, "0 200 somebody has removed files of the trace: their events are lost\n")

    def test_no_room_to_describe_the_events(self):
        """The directory is as it was."""
        source = WORDY % "\n".join(f'LEAT_TRACEPOINT(wordy, event{i}, LEAT_INFO, WORDY, int x);' for i in range(400))
        wordy = self.compiled_with_capture("wordy", source)
        found = plain_run(wordy, str(self.directory / "trace"), "65536").stdout
        self.assertEqual(found, "there is no room to describe the events that are wanted: raise max_size (and `ulimit -f`), or capture fewer of them\n")
        self.assertFalse((self.directory / "trace").exists())
        self.assertEqual(plain_run(wordy, str(self.directory / "trace"), "1000000").stdout, "")

    def test_child_with_its_parents_control_file(self):
        """The kernel made it, or its control file could not be made: its events are not its parent's. When it captures, it
        has a file of its own."""
        parent = self.compiled_with_capture("parent", BARE_CHILD)
        self.assertEqual(plain_run(parent, str(self.directory / "trace")).stdout, "3 1 0\n")
        trace = self.read(self.directory / "trace")
        self.assertEqual([event["text"][:12] for event in trace.events()], ["parent", "x" * 12, "parent again"])
        self.assertEqual(trace.discarded(), 1)
        self.assertEqual([event["text"] for event in self.read(self.directory / "trace-of-child").events()], ["own"])

    def test_killed(self):
        """What was written by then reads clean, and lacks nothing up to its end."""
        for attempt in range(5 if IS_WHOLE else 1):
            name = f"trace{attempt}"
            process = subprocess.Popen([program("capture"), str(self.directory / name), f"duration_ms={FOR_EVER}",
                                        "requests=0", "burst=100", "by_library=1", *SMALL], stdout=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)

            def has_packets():
                files = (self.directory / name).glob("channel0_*")
                return sum(path.stat().st_size for path in files) > 300000
            wait_until(has_packets, "there are packets")
            process.kill()
            process.wait()
            self.cut_last_packet(name)
            trace = self.read(self.directory / name)
            orders = [order_of(event.name, event["request"]) for event in trace.events()]
            self.assertEqual(orders, sorted(orders))
            self.assertGreater(len(orders), 10000)

    def cut_last_packet(self, name):
        """If it is not whole: leat view shows all before it, and says so."""
        for path in self.files_of(name):
            if path.name == "metadata":
                continue
            whole = whole_packets(path)
            if whole == path.stat().st_size:
                continue
            view = subprocess.run([LEAT, "view", str(self.directory / name)], capture_output=True, text=True)
            *warnings, error = view.stderr.splitlines(keepends=True)
            for warning in warnings:
                self.assertRegex(warning, DISCARDED)
            self.assert_one_line(error, str(path), f"packet at offset {whole} is cut short")
            os.truncate(path, whole)
            self.assertEqual(view.stdout, Trace(self.directory / name).text)

    def test_writes_fail(self):
        """After the first error nothing more is stored; what is stored is whole."""
        for after in 1, 2, 3, 20:
            for options in (), ("backwards=1",), ("part=5000",):
                with self.subTest(after=after, options=options):
                    shutil.rmtree(self.directory / "trace", ignore_errors=True)
                    found = self.capture("requests=30000", "burst=10", f"broken_after={after}", *SMALL, *options)
                    self.assertEqual(found["end"], END["error"], found)
                    self.assertRegex(self.stderr, "^cannot write .*: Input/output error\n$")
                    self.assert_balance(found)
                    if (self.directory / "trace/metadata").exists():
                        self.read_capture(found)
                    else:
                        self.assertEqual((found["events"], found["bytes"], self.files_of()), (0, 0, []))

    @without_sanitizers
    def test_no_memory(self):
        """Whichever allocation of the library fails, once: the capture ends, says so, and what is written reads clean."""
        short = self.compiled_with_capture("short", SHORT_OF_MEMORY)
        for way in "write", "poll", "submit":
            failures = exact = 0
            for number in range(1, 1000):
                directory = self.directory / f"{way}{number}"
                result = plain_run(short, str(directory), way, str(number))
                self.assertEqual((result.returncode, result.stderr), (0, ""), (way, number))
                *words, text = result.stdout.split(maxsplit=5)
                has_failed, end, emitted, events, others = map(int, words)
                if not has_failed:
                    break
                if end == END["error"]:
                    failures += 1
                    self.assertEqual(text, "out of memory\n", (way, number))
                if (directory / "metadata").exists():
                    trace = self.read(directory)
                    self.assertEqual(len(trace.lines), events, (way, number))
                else:
                    self.assertEqual(events, 0)
                # Events of a class that could not be described cannot be told apart.
                self.assertLessEqual(events + others, emitted, (way, number))
                exact += events + others == emitted
            self.assertGreater(failures, 3)
            self.assertGreater(exact, 3)
            self.assertEqual((end, emitted, events, others), (END["stop"], 6000, 6000, 0))

    @needs(has_namespaces(), "namespaces")
    def test_full_disk(self):
        """Of 512 KiB: the capture ends, says so, and what is written reads clean."""
        for options in ("by_library=1",), ("by_kernel=1",), ("backwards=1",):
            with self.subTest(options=options):
                shutil.rmtree(self.directory / "trace", ignore_errors=True)
                script = ('mkdir "$1/disk" && mount -t tmpfs -o size=512k none "$1/disk" && "$2" "$1/disk/trace" $3; '
                          'cp -r "$1/disk/trace" "$1"; umount "$1/disk"; rmdir "$1/disk"')
                result = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", str(self.directory), program("capture"),
                                         f"requests=100000 burst=10 {' '.join(options)}"], capture_output=True, text=True, timeout=PATIENCE)
                found = {key: int(value) for key, value in map(str.split, result.stdout.splitlines())}
                self.assertEqual(found["end"], END["error"], result.stderr)
                self.assertIn("No space left on device", result.stderr)
                self.read_capture(found)
                self.assertGreater(found["events"], 10000)

    @without_sanitizers
    def test_time_of_day_is_set(self):
        """The trace's clock goes on."""
        shift = self.directory / "shift"
        shift.write_bytes(struct.pack("<q", 0))
        process = subprocess.Popen([program("capture"), str(self.directory / "trace"), "requests=3000", "burst=1", "pause_us=200"],
                                   stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "LD_PRELOAD": library("shifted-clock"), "LEAT_TEST_SHIFT": str(shift)})
        for seconds in 3600, -3600, 10**6:
            time.sleep(0.1)  # moment: the time of day may be set at any time
            with open(shift, "r+b") as file:
                file.write(struct.pack("<q", seconds))
        output = process.communicate(timeout=PATIENCE)[0]
        self.assertIn("events 9000\n", output)
        trace = self.read(self.directory / "trace")
        orders = [order_of(event.name, event["request"]) for event in trace.events()]
        self.assertEqual(orders, list(range(9000)))
        # No time between two events is as long as the shortest shift, and none is negative.
        deltas = [re.search(r"\(\+(\d+)\.\d+\)", line) for line in trace.lines[1:]]
        self.assertFalse([match for match in deltas if match is None or int(match[1]) >= 3600])

    def test_session_daemon_traces_it_too(self):
        daemon = subprocess.Popen([str(BUILD / "bin/leat-sessiond")], stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        wait_until(lambda: list(self.runtime.glob("**/control.sock")), "the daemon is ready")

        def leat(*words):
            return subprocess.run([LEAT, *words], check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
        leat("create", "both", "-o", str(self.directory / "session"))
        leat("enable-event", "io:*")
        leat("start")
        # The program has the session's rings before its first event, and they hold all its events.
        found = self.capture("requests=5000", "burst=10", "pause_us=10", env={**os.environ, "LEAT_REGISTER_TIMEOUT": "-1"})
        self.assertEqual((found["events"], found["enabled"]), (15000, 1))
        trace = self.read_capture(found)
        leat("destroy")
        session = self.read(self.directory / "session")
        self.assertEqual(len(session.lines) + session.discarded(), 15000)
        self.assertEqual([event["request"] for event in trace.events()], [event["request"] for event in session.events()])


@without_sanitizers
class Reactor(CaptureTest):
    @needs(has("strace", "taskset"), "strace")
    def test_no_thread_and_no_system_call_but_writes(self):
        log = self.directory / "calls"
        self.capture_and_read("requests=300000", "burst=100", "marks=1", "flush_ms=20",
                              prefix=(*ON_ONE_CPU, "strace", "-f", "-o", str(log)))
        lines = [line.split(maxsplit=1)[1] for line in log.read_text().splitlines()]
        calls = [re.match(r"\w+", line)[0] for line in lines if re.match(r"\w+\(", line)]
        self.assertFalse({"clone", "clone3", "fork", "vfork", "socket", "connect"} & set(calls))
        begun, over = (next(i for i, line in enumerate(lines) if f'"{mark}\\n"' in line) for mark in ("begun", "over"))
        within = [re.match(r"\w+", line)[0] for line in lines[begun + 1:over]]
        # At first, memory is set up for the first events and packets; at the end, tracepoints are switched off.
        end = within.index("pwrite64")
        steady = within[within.index("pwritev") + 5:end]
        self.assertEqual(set(steady), {"pwritev"})
        self.assertGreater(len(steady), 20)

    @needs(has("strace"), "strace")
    @needs(has_io_uring(), "io_uring")
    def test_kernel_writes_where_it_may(self):
        for name, options, expected, other in (
                ("by-io_uring", (), "io_uring_enter", "pwritev"),
                ("without", ("-e", "inject=io_uring_setup:error=EPERM"), "pwritev", "io_uring_enter")):
            log = self.directory / f"calls-{name}"
            found, _ = self.capture_and_read("requests=50000", "burst=100", "by_kernel=1", "free_early=0", name=name,
                                             prefix=("strace", "-f", "-o", str(log), *options))
            self.assertEqual(found["emitted"], 150000)
            calls = log.read_text()
            self.assertIn(f" {expected}(", calls)
            self.assertNotIn(f" {other}(", calls)
            self.assertFalse(re.search(r" clone3?\(", calls))


    @needs(has("strace"), "strace")
    @needs(has_io_uring(), "io_uring")
    def test_what_the_kernel_does_not_take_is_written(self):
        """By the program's calls of leat_capture_write(), with which it ends."""
        busy = ("-e", "inject=io_uring_enter:error=EAGAIN:when=1+")
        found, _ = self.capture_and_read("requests=5000", "burst=100", "by_library=1", "submits=20",
                                         prefix=("strace", "-f", "-o", str(self.directory / "calls"), *busy))
        self.assertEqual((found["emitted"], found["lost"]), (15000, 0))
        self.assertIn("io_uring_enter", (self.directory / "calls").read_text())


class Sequences(CaptureTest):
    """Captures of random kinds, with random faults. A failure names its seed: LEAT_MODEL_SEED=N runs that one alone."""

    def options_of(self, random):
        choices = {"requests": (1, 1000, 20000), "pause_us": (0, 0, 50), "blocks": (0, 4, 64), "block_size": (0, 16384, 65536),
                   "size": (65536, 400000, 1 << 30), "flush_ms": (0, 5, 60000), "contexts": (0, 1), "header": (0, 1, 2),
                   "stall_ms": (0, 0, 30), "backwards": (0, 1), "part": (0, 0, 500, 7000), "errors": (0, 0, 2),
                   "broken_after": (0, 0, 0, 1, 7, 40), "by_library": (0, 0, 1), "by_kernel": (0, 0, 1), "submits": (0, 0, 3), "forks": (0, 0, 3), "again": (0, 1),
                   "twice": (0, 0, 1), "lazy": (0, 0, 20), "duration_ms": (FOR_EVER, FOR_EVER, 40)}
        options = {name: random.choice(values) for name, values in choices.items()}
        options["threads" if random.random() < 0.5 else "burst"] = random.choice((1, 3, 8))
        return [f"{name}={value}" for name, value in options.items()]

    def check(self, options):
        found = self.capture(*options)
        # Threads go on while the capture ends by itself, and cannot tell which events it switches off first.
        if found["end"] == END["stop"] or any(option.startswith("burst") for option in options):
            self.assert_balance(found)
        for name in ("trace-again",) if "again=1" in options else ("trace",):
            if (self.directory / name / "metadata").exists():
                self.read_capture(found, name)
            else:
                self.assertEqual((found["events"], found["end"]), (0, END["error"]))

    def test_any(self):
        one = os.environ.get("LEAT_MODEL_SEED")
        for seed in range(25 if IS_WHOLE else 8) if one is None else [int(one)]:
            options = self.options_of(random.Random(seed))
            with self.subTest(seed=seed, options=" ".join(options)):
                for name in "trace", "trace-again":
                    shutil.rmtree(self.directory / name, ignore_errors=True)
                self.check(options)


if __name__ == "__main__":
    main()
