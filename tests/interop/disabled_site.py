#!/usr/bin/env python3
"""The cost of a tracepoint in instructions. Disabled: loads, a test, and one jump that is not taken; no call. To be a probe
(<leat/sdt.h>), too, costs a load of the same line in place of the test. Enabled, with numeric fields only: the compiler knows
the size, so nothing is compared; the probe is a nop."""
import re
import subprocess

from support import SOURCE, InteropTest, has, lacks, main

C_SITE = """#include <leat/tracepoint.h>
#define FIELDS(FIELD) FIELD(integer, int, n, n) FIELD(string, text, text)
LEAT_TRACEPOINT(test, site, LEAT_INFO, FIELDS, int n, const char* text);
int with_site(int n) { leat_tracepoint(test, site, n, "text"); return 3 * n; }
int without_site(int n) { return 3 * n; }
"""
CPP_SITE = """#include <leat/event.hpp>
extern "C" int with_site(int n) { LEAT_EVENT("test:site", n, LEAT_FIELD(text, "text")); return 3 * n; }
extern "C" int without_site(int n) { return 3 * n; }
"""

NUMBERS = """#include <leat/tracepoint.h>
#define FIELDS(FIELD) FIELD(integer, int, a, a) FIELD(integer, long, b, b) FIELD(floating, double, c, c)
LEAT_TRACEPOINT(test, numbers, LEAT_INFO, FIELDS, int a, long b, double c);
void site(int a, long b, double c) { leat_tracepoint(test, numbers, a, b, c); }
"""
CPP_NUMBERS = """#include <leat/event.hpp>
void site(int a, long b, double c) { LEAT_EVENT("test:numbers", a, b, c); }
"""

INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(\S+)\s*(.*)$")
LOADS_AND_TEST = (["mov", "mov", "or"],)
WITHOUT_PROBES = "-DLEAT_NO_SDT"
LOADS_AND_TEST_WITHOUT_PROBES = (["mov", "mov", "test"], ["mov", "cmpl"])  # gcc's way, clang's way


class SiteTest(InteropTest):
    def compile(self, compiler, source, suffix, options=()):
        if not has(compiler):
            lacks(compiler)
        file = self.directory / f"site{suffix}"
        file.write_text(source)
        object_file = str(self.directory / "site.o")
        subprocess.run([compiler, "-O2", *options, f"-I{SOURCE / 'include'}", "-c", "-o", object_file, str(file)],
                       check=True)
        return object_file

    def disassemble(self, object_file, function):
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", object_file],
                              capture_output=True, text=True, check=True).stdout
        return [match.groups() for match in map(INSTRUCTION.match, text.splitlines()) if match]


class DisabledSite(SiteTest):
    def straight_path(self, object_file, function):
        """The instructions that run as long as no conditional jump is taken."""
        path = []
        for address, name, operands in self.disassemble(object_file, function):
            if name.startswith("endbr") or name.startswith("nop"):
                continue
            path.append((name, operands))
            if name == "ret":
                return path
            self.assertNotEqual(name, "jmp", "the straight path is not straight")
        self.fail(f"{function} does not return")

    def check(self, compiler, source, suffix, options=()):
        object_file = self.compile(compiler, source, suffix, options)
        path = self.straight_path(object_file, "with_site")
        names = [name for name, _ in path]
        jumps = [name for name in names if name.startswith("j")]
        self.assertEqual(jumps, ["jne"], path)
        self.assertEqual([name for name in names if name.startswith("call")], [], path)
        before_jump = [(name, operands) for name, operands in path[:names.index("jne")] if name in ("test", "cmpl")
                       or name in ("mov", "or") and "(" in operands]
        has_probe = WITHOUT_PROBES not in options
        self.assertIn([name for name, _ in before_jump], LOADS_AND_TEST if has_probe else LOADS_AND_TEST_WITHOUT_PROBES, path)
        self.assertEqual(sum("(%rip)" in operands for _, operands in path), 2 if has_probe else 1, path)
        if compiler.startswith("g"):
            # There is nothing else: no frame, no saved register. (clang saves one for the other path.)
            plain = self.straight_path(object_file, "without_site")
            self.assertEqual(len(path), len(plain) + 4, path)

    def test_c(self):
        self.check("gcc", C_SITE, ".c")

    def test_cpp(self):
        self.check("g++", CPP_SITE, ".cpp")

    def test_c_in_a_shared_library(self):
        self.check("gcc", C_SITE, ".c", ("-fPIC",))

    def test_cpp_in_a_shared_library(self):
        self.check("g++", CPP_SITE, ".cpp", ("-fPIC",))

    def test_without_probes(self):
        for compiler, source, suffix in (("gcc", C_SITE, ".c"), ("g++", CPP_SITE, ".cpp"), ("clang-16", C_SITE, ".c")):
            with self.subTest(compiler=compiler):
                self.check(compiler, source, suffix, (WITHOUT_PROBES,))

    def test_c_with_clang(self):
        self.check("clang-16", C_SITE, ".c")

    def test_cpp_with_clang(self):
        self.check("clang++-16", CPP_SITE, ".cpp")


class EnabledSite(SiteTest):
    def check(self, compiler, source, suffix):
        object_file = self.compile(compiler, source, suffix)
        symbols = subprocess.run(["nm", object_file], capture_output=True, text=True, check=True).stdout
        emit, = (line.split()[2] for line in symbols.splitlines() if "emit" in line and line.split()[1] in "tTW")
        names = [name for _, name, _ in self.disassemble(object_file, emit)]
        self.assertGreater(len(names), 3)
        self.assertEqual([name for name in names if name.startswith(("j", "cmp", "test", "cmov"))], [], names)
        before_call = names[:next(i for i, name in enumerate(names) if name.startswith("call"))]
        self.assertEqual(before_call.count("nop"), 1, "the probe")

    def test_c(self):
        self.check("gcc", NUMBERS, ".c")

    def test_cpp(self):
        self.check("g++", CPP_NUMBERS, ".cpp")

    def test_c_with_clang(self):
        self.check("clang-16", NUMBERS, ".c")

    def test_cpp_with_clang(self):
        self.check("clang++-16", CPP_NUMBERS, ".cpp")


if __name__ == "__main__":
    main()
