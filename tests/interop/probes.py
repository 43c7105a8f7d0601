#!/usr/bin/env python3
"""Tracepoints as USDT probes (<leat/sdt.h>): which ones a file has, what it says of them, and that the kernel finds them
there: with their arguments, whether or not Leat records."""
import os
import re
import subprocess

from support import BUILD, SOURCE, InteropTest, has, lacks, main, needs, plain_run, program

C_COMPILERS, CPP_COMPILERS = ("gcc", "clang-16"), ("g++", "clang++-16")
NOTE = re.compile(r"Provider: (.*)\n\s+Name: (.*)\n\s+Location: (\S+), Base: (\S+), Semaphore: (\S+)\n\s+Arguments: ?(.*)\n")
REGISTER = re.compile(r"%[re]?([a-d]x|[sd]i|[sb]p|r\d+)|%([a-d])l|%([sd]i|[sb]p)l")
LIBLEAT = (f"-L{BUILD / 'lib'}", f"-Wl,-rpath,{BUILD / 'lib'}", "-lleat")


class Probe:
    def __init__(self, fields):
        self.provider, self.name, location, base, semaphore, arguments = fields
        self.location, self.base, self.semaphore = int(location, 16), int(base, 16), int(semaphore, 16)
        self.arguments = [argument.split("@") for argument in arguments.split()]

    @property
    def full_name(self):
        return f"{self.provider}:{self.name}"

    @property
    def sizes(self):
        """Negative: signed."""
        return [int(size) for size, _ in self.arguments]


def probes_of(path):
    text = subprocess.run(["readelf", "-nW", str(path)], capture_output=True, text=True, check=True).stdout
    found = [Probe(fields) for fields in NOTE.findall(text)]
    assert len(found) == text.count("NT_STAPSDT"), text
    return found


class Offsets:
    """Where addresses of a file lie in it."""

    def __init__(self, path):
        text = subprocess.run(["readelf", "-lW", str(path)], capture_output=True, text=True, check=True).stdout
        self.segments = [(int(offset, 16), int(address, 16), int(size, 16)) for offset, address, size in
                         re.findall(r"^\s+LOAD\s+(\S+) (\S+) \S+ (\S+)", text, re.MULTILINE)]

    def of(self, address):
        offset, = (address - begin + offset for offset, begin, size in self.segments if begin <= address < begin + size)
        return offset


class ProbeTest(InteropTest):
    def build(self, compiler, source, *options, name="program"):
        if not has(compiler):
            lacks(compiler)
        is_cpp = "++" in compiler
        file = self.directory / f"{name}.{'cpp' if is_cpp else 'c'}"
        file.write_text(source)
        output = self.directory / name
        result = subprocess.run([compiler, "-std=c++17" if is_cpp else "-std=c11", "-Wall", "-Wextra", "-Werror",
                                 f"-I{SOURCE / 'include'}", "-o", str(output), str(file), *options, *LIBLEAT],
                                capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""), (compiler, options))
        return output

    def each_way(self, compilers):
        for compiler in compilers:
            for options in ("-O0",), ("-O2",), ("-O3", "-flto"), ("-O2", "-fno-pie", "-no-pie"):
                yield compiler, options


FIELDS_IN_C = """
#include <leat/log.h>
#include <leat/sticky.h>
LEAT_ENUM(kind, LEAT_VALUE("a", 0))
enum kind { KIND = 3 };
#define ALL_FIELDS(FIELD)                              \\
    FIELD(integer, int8_t, a, n)                       \\
    FIELD(integer_hex, uint16_t, b, n)                 \\
    FIELD(integer_network, int32_t, c, n)              \\
    FIELD(integer, int64_t, d, n)                      \\
    FIELD(boolean, e, n)                               \\
    FIELD(floating, double, f, n)                      \\
    FIELD(enumeration, kind, uint8_t, g, n)            \\
    FIELD(string, h, text)                             \\
    FIELD(array, short, i, list, 2)                    \\
    FIELD(sequence, short, j, list, uint8_t, 2)        \\
    FIELD(hidden, integer, uint32_t, k, n)             \\
    FIELD(text, l, text, 2)                            \\
    FIELD(integer, int, m, n)
LEAT_TRACEPOINT(c, all, LEAT_INFO, ALL_FIELDS, int n, const char* text, const short* list);
LEAT_TRACEPOINT(c, none, LEAT_INFO, LEAT_NO_FIELDS, void);
struct pair { int a, b; };
#define CLASS_FIELDS(FIELD)                                                          \\
    FIELD(integer, int, n, n) FIELD(string, text, text) FIELD(integer, int, kind, kind) \\
    FIELD(integer, int, a, pair.a) FIELD(floating, double, d, d)
#define NUMBER_FIELDS(FIELD) FIELD(integer, int, n, n)
LEAT_EVENT_CLASS(c, class_, CLASS_FIELDS, int n, const char* text, enum kind kind, struct pair pair, double d);
LEAT_EVENT_INSTANCE(c, class_, instance, LEAT_INFO, (int n, const char* text, enum kind kind, struct pair pair, double d),
                    (n, text, kind, pair, d));
LEAT_STICKY_EVENT(c, sticky, LEAT_INFO, NUMBER_FIELDS, int n);
int main(int argc, char** argv) {
    const short list[] = {1, 2};
    struct pair pair = {argc, argc};
    leat_tracepoint(c, all, argc, argv[0], list);
    leat_tracepoint(c, none);
    leat_tracepoint(c, instance, argc, argv[0], KIND, pair, 1.5);
    leat_sticky(c, sticky, 1, argc);
    leat_log(LEAT_WARNING, "%d", argc);
    return 0;
}
"""
# Of the first 12 fields, the last of 13 is not there.
SIZES_IN_C = {"c:all": [-1, 2, -4, -8, 1, 8, 1, 8, 8, 8, 4, 8], "c:none": [], "c:instance": [-4, 8, 4, 8, 8], "c:sticky": [-4],
              "leat_log:warning": [-4, 8, 8, 8]}

FIELDS_IN_CPP = """
#include <leat/event.hpp>
#include <array>
#include <string>
#include <string_view>
#include <vector>
enum class Kind : unsigned short { kOne = 1 };
int main(int argc, char** argv) {
    const std::string text = argv[0];
    const std::string_view view = text;
    const std::vector<int> list{1, 2};
    const std::array<int, 2> array{1, 2};
    const char chars[4] = "abc";
    const Kind kind = Kind::kOne;
    const bool is_on = argc > 1;
    LEAT_EVENT("cpp:numbers", argc, kind, is_on, LEAT_FIELD(c, 'c'), LEAT_FIELD(l, 1L), LEAT_FIELD(h, leat::hex(2U)),
               LEAT_FIELD(n, leat::network(std::uint16_t(3))), LEAT_FIELD(f, 1.5F), LEAT_FIELD(d, leat::hidden(2.5)));
    LEAT_EVENT("cpp:places", text, view, list, array, chars, argv, LEAT_FIELD(c, text.c_str()));
    LEAT_EVENT("cpp:more", argc, LEAT_FIELD(b, 2), LEAT_FIELD(c, 3), LEAT_FIELD(d, 4), LEAT_FIELD(e, 5), LEAT_FIELD(f, 6),
               LEAT_FIELD(g, 7), LEAT_FIELD(h, 8), LEAT_FIELD(i, 9), LEAT_FIELD(j, 10), LEAT_FIELD(k, 11L), LEAT_FIELD(l, 12L),
               LEAT_FIELD(m, text));
    LEAT_STICKY(1, "cpp:sticky", argc);
    return 0;
}
"""
SIZES_IN_CPP = {"cpp:numbers": [-4, 2, 1, -1, -8, 4, 2, 8, 8], "cpp:places": [8] * 7, "cpp:more": [-4] * 10 + [-8] * 2,
                "cpp:sticky": [-4]}

TWO_FILES = """
#include <leat/event.hpp>
inline void in_header(int n) { LEAT_EVENT("twice:inline", n); }
template <class T> void in_template(T n) { LEAT_EVENT("twice:template", n); }
"""


class Notes(ProbeTest):
    def names(self, path):
        return sorted(probe.full_name for probe in probes_of(path))

    def test_programs_have_a_probe_for_each_event_that_they_can_emit(self):
        for name in "fields", "fields-cpp", "classes":
            with self.subTest(program=name):
                recording = self.record(program(name), name=name)
                recorded = {event.name for event in self.read(recording.path).events()}
                self.assertGreater(len(recorded), 3)
                self.assertLessEqual(recorded, set(self.names(program(name))))
                metadata, = recording.path.rglob("metadata")
                declared = set(re.findall(r'^event \{\s+name = "([^"]+)"', metadata.read_text(errors="replace"), re.MULTILINE))
                self.assertLessEqual(set(self.names(program(name))), declared)

    def assert_sizes(self, path, sizes):
        self.assertEqual({probe.full_name: probe.sizes for probe in probes_of(path)}, sizes)

    def test_fields_in_c(self):
        for compiler, options in self.each_way(C_COMPILERS):
            self.assert_sizes(self.build(compiler, FIELDS_IN_C, *options), SIZES_IN_C)

    def test_declared_fields_in_cpp(self):
        for compiler, options in self.each_way(CPP_COMPILERS):
            self.assert_sizes(self.build(compiler, FIELDS_IN_C, *options), SIZES_IN_C)

    def test_one_line_fields(self):
        for compiler, options in self.each_way(CPP_COMPILERS):
            self.assert_sizes(self.build(compiler, FIELDS_IN_CPP, *options), SIZES_IN_CPP)

    def test_names_of_all_lengths(self):
        names = ["p:" + "n" * length for length in range(1, 20)] + ["p" * 60 + ":" + "n" * 58]
        events = "".join(f'LEAT_EVENT("{name}", n);\n' for name in [*names, "p" * 60 + ":" + "n" * 59])
        for compiler in CPP_COMPILERS:
            path = self.build(compiler, f"#include <leat/event.hpp>\nint main(int n, char**) {{\n{events}}}\n")
            self.assertEqual(self.names(path), sorted(names), "the last one is too long")

    def test_names_that_are_no_identifiers(self):
        events = r'LEAT_EVENT("a::b \"%d\" c.d", n); LEAT_EVENT("plain", n); LEAT_EVENT("e:", n);'
        for compiler in CPP_COMPILERS:
            path = self.build(compiler, f"#include <leat/event.hpp>\nint main(int n, char**) {{ {events} }}\n")
            self.assertEqual(self.names(path), ["a:_b___d__c_d", "e:_", "leat:plain"])

    def test_functions_that_the_linker_merges_have_one_probe(self):
        for compiler in CPP_COMPILERS:
            (self.directory / "two.hpp").write_text(TWO_FILES)
            (self.directory / "other.cpp").write_text('#include "two.hpp"\nvoid other() { in_header(1); in_template(1L); }\n')
            path = self.build(compiler, '#include "two.hpp"\nvoid other();\nint main() { in_header(2); in_template(2L); other(); }\n',
                              str(self.directory / "other.cpp"), "-O2")
            self.assertEqual(self.names(path), ["twice:inline", "twice:template"])

    def test_shared_libraries(self):
        for compilers, source in (C_COMPILERS, FIELDS_IN_C), (("g++",), FIELDS_IN_CPP):
            for compiler in compilers:
                path = self.build(compiler, source.replace("int main(", "int not_main("), "-fPIC", "-shared", "-O2")
                self.assertGreater(len(probes_of(path)), 3)

    def test_counter_lies_beside_the_word(self):
        path = self.build("gcc", FIELDS_IN_C, "-O2")
        symbols = {}
        for line in subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout.splitlines():
            if len(line.split()) == 3:
                symbols[line.split()[2]] = int(line.split()[0], 16)
        offsets = Offsets(path)
        for probe in probes_of(path):
            self.assertEqual(probe.semaphore, symbols[f"leat_tracepoint_{probe.provider}__{probe.name}"] + 12)
            # Tools work out its place in the file by that of this section.
            address, offset = (int(number, 16) for number in re.search(r"\.probes +PROGBITS +(\S+) (\S+)", subprocess.run(
                ["readelf", "-SW", str(path)], capture_output=True, text=True, check=True).stdout).groups())
            self.assertEqual(offsets.of(probe.semaphore) - probe.semaphore, offset - address)

    def test_none_if_they_are_not_wanted(self):
        for compiler, source in ("gcc", FIELDS_IN_C), ("g++", FIELDS_IN_CPP):
            self.assertEqual(probes_of(self.build(compiler, source, "-DLEAT_NO_SDT")), [])

    def test_beside_those_of_sys_sdt(self):
        theirs = "#include <sys/sdt.h>\n"
        if subprocess.run(["gcc", "-E", "-"], input=theirs, text=True, capture_output=True).returncode != 0:
            lacks("sys/sdt.h")
        for compiler in C_COMPILERS:
            source = theirs + FIELDS_IN_C.replace("leat_tracepoint(c, none);", "leat_tracepoint(c, none); DTRACE_PROBE1(theirs, one, argc);")
            probes = probes_of(self.build(compiler, source, "-O2"))
            self.assertEqual({probe.full_name for probe in probes}, {*SIZES_IN_C, "theirs:one"})
            self.assertEqual(len({probe.base for probe in probes}), 1)

    @needs(has("bpftrace"), "bpftrace")
    def test_bpftrace_lists_them(self):
        path = self.build("gcc", FIELDS_IN_C)
        listed = subprocess.run(["bpftrace", "-l", f"usdt:{path}:*"], capture_output=True, text=True).stdout.split()
        self.assertEqual({line.removeprefix(f"usdt:{path}:") for line in listed}, set(SIZES_IN_C))


# Says how often its arguments were evaluated, for each line that it reads.
STEPS = """
#include <leat/tracepoint.h>
#include <stdio.h>
#define STEP_FIELDS(FIELD) FIELD(integer, int32_t, n, n) FIELD(string, text, text) FIELD(integer, uint64_t, large, 1ull << 40)
LEAT_TRACEPOINT(step, taken, LEAT_INFO, STEP_FIELDS, int n, const char* text);
int evaluated = 0;
int take(void);
int take(void) {
    leat_tracepoint(step, taken, -++evaluated, "text");
    return evaluated;
}
#ifndef LIBRARY
int main(void) {
    while (getchar() == '\\n') {
        printf("%d\\n", take());
        fflush(stdout);
    }
    return 0;
}
#endif
"""
IN_TRACEFS = """set -e
mount -t tracefs none /sys/kernel/tracing
cd /sys/kernel/tracing
"""


def in_tracefs(script):
    return subprocess.run(["unshare", "--mount", "sh", "-c", IN_TRACEFS + script], capture_output=True, text=True)


def has_uprobes():
    return in_tracefs("test -w uprobe_events").returncode == 0


class KernelProbe:
    """A probe that the kernel has put there, as perf and bpftrace do: it counts, and notes the arguments. An instance of
    its own, as somebody else may trace, too."""

    def __init__(self, path, probe):
        self.group = f"leat_test_{os.getpid()}"
        offsets = Offsets(path)
        arguments = " ".join(f"a{i}={self.place(place)}:{'s' if size < 0 else 'u'}{abs(size) * 8}"
                             for i, (size, (_, place)) in enumerate(zip(probe.sizes, probe.arguments)))
        self.event = (f"p:{self.group}/{probe.name} {path}:{offsets.of(probe.location):#x}"
                      f"({offsets.of(probe.semaphore):#x}) {arguments}")
        self.name = probe.name

    @staticmethod
    def place(text):
        """As the kernel writes it."""
        if text.startswith("$"):
            return "\\" + text[1:]
        outside, parenthesis, register = text.partition("(")
        if not parenthesis:
            return KernelProbe.register(text)
        return f"{outside if outside.startswith('-') else f'+{outside or 0}'}({KernelProbe.register(register)})"

    @staticmethod
    def register(text):
        match = re.match(REGISTER, text)
        return "%" + (match[1] or (match[2] and match[2] + "x") or match[3])

    def __enter__(self):
        self.run(f"printf '%s\\n' '{self.event}' >> uprobe_events\nmkdir instances/{self.group}\n"
                 f"echo 1 > instances/{self.group}/events/{self.group}/{self.name}/enable")
        return self

    def run(self, script):
        result = in_tracefs(script)
        assert result.returncode == 0, (self.event, result.stderr)
        return result.stdout

    def hits(self):
        text = self.run(f"cat instances/{self.group}/trace")
        return [[int(value) for value in re.findall(r" a\d+=(-?\d+)", line)] for line in text.splitlines()
                if f" {self.name}: (" in line]

    def __exit__(self, *_):
        self.run(f"echo 0 > instances/{self.group}/events/{self.group}/{self.name}/enable\nrmdir instances/{self.group}\n"
                 f"echo '-:{self.group}/{self.name}' >> uprobe_events")


@needs(has_uprobes(), "uprobes")
class Kernel(ProbeTest):
    def start(self, *command):
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        return process

    def step(self, process):
        process.stdin.write("\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    def attach(self, path):
        probe, = [probe for probe in probes_of(path) if probe.full_name == "step:taken"]
        return KernelProbe(path, probe)

    def check(self, path, process, evaluated_before):
        """Steps without, with and without somebody who looks."""
        start = self.step(process)
        with self.attach(path) as probe:
            steps = [self.step(process) for _ in range(3)]
            hits = probe.hits()
        self.assertEqual(steps, [start + 1, start + 2, start + 3], "arguments are evaluated once")
        self.assertEqual([hit[0] for hit in hits], [-step for step in steps])
        self.assertTrue(all(hit[1] != 0 and hit[2] == 1 << 40 for hit in hits), hits)
        self.assertEqual([start, self.step(process) - steps[-1]], evaluated_before)

    def test_off_in_leat(self):
        for compiler, optimisation in (("gcc", "-O0"), ("gcc", "-O2"), ("clang-16", "-O2"), ("g++", "-O2"), ("clang++-16", "-O0")):
            with self.subTest(compiler=compiler, optimisation=optimisation):
                path = self.build(compiler, STEPS, optimisation)
                self.check(path, self.start(path), [0, 0])

    def test_without_libleat_tracing_at_all(self):
        path = self.build("gcc", STEPS)
        os.environ["LEAT_RUNTIME_DIR"] = ""
        self.check(path, self.start(path), [0, 0])

    def test_in_a_shared_library(self):
        library = self.build("gcc", STEPS, "-DLIBRARY", "-fPIC", "-shared", "-O2", name="libsteps.so")
        source = "#include <stdio.h>\nint take(void);\n" + STEPS.split("#ifndef LIBRARY\n")[1].split("#endif")[0]
        path = self.build("gcc", source, str(library), f"-Wl,-rpath,{self.directory}")
        self.check(library, self.start(path), [0, 0])

    def test_while_leat_records(self):
        path = self.build("gcc", STEPS, "-O2")
        process = self.start(*self.record_command([str(path)]))
        self.check(path, process, [1, 1])
        process.stdin.close()
        self.assertEqual(process.wait(), 0)
        self.assertEqual([event["n"] for event in self.read(self.directory / "trace").events()], [-1, -2, -3, -4, -5])

    @needs(has("bpftrace"), "bpftrace")
    def test_bpftrace(self):
        path = self.build("gcc", STEPS, "-O2")
        script = f'usdt:{path}:step:taken {{ printf("%d %s\\n", arg0, str(arg1)); }} interval:ms:100 {{ printf("ready\\n"); }}'
        tool = subprocess.Popen(["unshare", "--mount", "sh", "-c", IN_TRACEFS + 'exec "$@"', "sh", "bpftrace", "-B", "line", "-e", script],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(tool.stdout.close)
        self.addCleanup(tool.wait)
        self.addCleanup(tool.terminate)
        self.assertIn("ready\n", tool.stdout)
        plain_run(str(path), input="\n\n")
        self.assertIn("-1 text\n", tool.stdout)
        self.assertIn("-2 text\n", tool.stdout)

    def test_programs_that_begin_later(self):
        path = self.build("gcc", STEPS, "-O2")
        with self.attach(path) as probe:
            self.assertEqual(plain_run(str(path), input="\n\n").stdout, "1\n2\n")
            self.assertEqual([hit[0] for hit in probe.hits()], [-1, -2])


if __name__ == "__main__":
    main()
