#!/usr/bin/env python3
"""The public headers: each compiles alone in C and C++, and the errors for a wrong tracepoint are plain."""
import subprocess

from support import SOURCE, InteropTest, main

INCLUDE = SOURCE / "include"
C_HEADERS = sorted(path.name for path in (INCLUDE / "leat").glob("*.h"))
CPP_HEADERS = sorted(path.name for path in (INCLUDE / "leat").glob("*.hpp"))
C_COMPILERS = ["gcc", "clang-16"]
CPP_COMPILERS = ["g++", "clang++-16"]


class CompilerTest(InteropTest):
    def compile(self, compiler, standard, text, suffix, *options):
        source = self.directory / f"source{suffix}"
        source.write_text(text)
        return subprocess.run([compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", *(options or ["-O2"]), f"-I{INCLUDE}",
                               "-c", "-o", str(self.directory / "object"), str(source)], capture_output=True, text=True)

    def assert_compiles(self, *arguments):
        result = self.compile(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class Headers(CompilerTest):
    def test_each_alone_in_c(self):
        self.assertIn("tracepoint.h", C_HEADERS)
        for compiler in C_COMPILERS:
            for header in C_HEADERS:
                with self.subTest(compiler=compiler, header=header):
                    self.assert_compiles(compiler, "c11", f"#include <leat/{header}>\n", ".c")

    def test_each_alone_in_cpp(self):
        self.assertIn("event.hpp", CPP_HEADERS)
        for compiler in CPP_COMPILERS:
            for standard in ("c++17", "c++20"):
                for header in C_HEADERS + CPP_HEADERS:
                    with self.subTest(compiler=compiler, standard=standard, header=header):
                        self.assert_compiles(compiler, standard, f"#include <leat/{header}>\n", ".cpp")

    def test_declared_and_never_used(self):
        declared = DECLARED % ("a", "b", "LEAT_DEBUG") + "LEAT_TRACEPOINT(a, c, LEAT_INFO, LEAT_NO_FIELDS, void);\n"
        for optimisation in ("-O0", "-O2", "-flto"):
            for compiler in C_COMPILERS:
                with self.subTest(compiler=compiler, optimisation=optimisation):
                    self.assert_compiles(compiler, "c11", declared, ".c", optimisation)
            for compiler in CPP_COMPILERS:
                with self.subTest(compiler=compiler, optimisation=optimisation):
                    self.assert_compiles(compiler, "c++17", declared + f"namespace n {{ namespace {{\n{declared}}} }}\n",
                                         ".cpp", optimisation)

    def test_in_use(self):
        examples = SOURCE / "examples"
        for compiler in C_COMPILERS:
            for optimisation in ("-O0", "-O3"):
                with self.subTest(compiler=compiler, optimisation=optimisation):
                    self.assert_compiles(compiler, "c11", (examples / "hello.c").read_text(), ".c", optimisation)
        for compiler in CPP_COMPILERS:
            for standard in ("c++17", "c++20"):
                for optimisation in ("-O0", "-O3"):
                    with self.subTest(compiler=compiler, standard=standard, optimisation=optimisation):
                        self.assert_compiles(compiler, standard, (examples / "io_queue.cpp").read_text(), ".cpp",
                                             optimisation)

    def test_examples_are_pedantic(self):
        for name, compilers, standard in ("hello.c", C_COMPILERS, "c11"), ("io_queue.cpp", CPP_COMPILERS, "c++17"):
            for compiler in compilers:
                with self.subTest(compiler=compiler, name=name):
                    text = (SOURCE / "examples" / name).read_text()
                    self.assert_compiles(compiler, standard, text, name[name.index("."):], "-O2", "-pedantic")

    def test_every_kind_of_field(self):
        for compiler in CPP_COMPILERS:
            with self.subTest(compiler=compiler):
                self.assert_compiles(compiler, "c++17", (SOURCE / "tests/programs/fields_cpp.cpp").read_text(), ".cpp", "-O0")


DECLARED = """#include <leat/tracepoint.h>
#define FIELDS(FIELD) FIELD(integer, int, n, n)
LEAT_TRACEPOINT(%s, %s, %s, FIELDS, int n);
"""
IN_FUNCTION = "#include <leat/event.hpp>\nstruct Opaque { int* a; };\nvoid f(int a, int b, Opaque o) { %s; (void)a, (void)b, (void)o; }\n"


class MustNotCompile(CompilerTest):
    def assert_refused(self, compilers, standard, text, suffix, message):
        for compiler in compilers:
            with self.subTest(compiler=compiler):
                result = self.compile(compiler, standard, text, suffix)
                self.assertNotEqual(result.returncode, 0, "it compiles")
                self.assertIn(message, result.stderr)

    def refused_statement(self, statement, message):
        self.assert_refused(CPP_COMPILERS, "c++17", IN_FUNCTION % statement, ".cpp", message)

    def test_statements_that_are_right(self):
        for compiler in CPP_COMPILERS:
            self.assert_compiles(compiler, "c++17", IN_FUNCTION % 'LEAT_EVENT("a:b", a, LEAT_FIELD(sum, a + b))', ".cpp")
        for compiler in C_COMPILERS:
            self.assert_compiles(compiler, "c11", DECLARED % ("a", "b", "LEAT_DEBUG"), ".c")

    def test_expression_without_a_name(self):
        for wrong in ('LEAT_EVENT("a:b", a + b)', 'LEAT_EVENT("a:b", a, o.a)', 'LEAT_EVENT("a:b", LEAT_FIELD(a + b))',
                      'LEAT_EVENT("a:b", *o.a)'):
            self.refused_statement(wrong, "leat: a field is a variable or LEAT_FIELD(name, expression)")

    def test_type_that_cannot_be_recorded(self):
        self.refused_statement('LEAT_EVENT("a:b", o)', "leat: this type cannot be recorded")
        self.refused_statement('LEAT_EVENT("a:b", LEAT_FIELD(l, 1.0L))', "leat: this type cannot be recorded")
        self.refused_statement('LEAT_EVENT("a:b", LEAT_FIELD(h, leat::hex(1.5)))', "leat::hex takes an integer")

    def test_log_level_out_of_range(self):
        self.refused_statement('LEAT_EVENT_AT(15, "a:b", a)', "leat: a log level is 0 to 14")
        self.refused_statement('LEAT_EVENT_AT(-1, "a:b", a)', "leat: a log level is 0 to 14")
        self.assert_refused(C_COMPILERS, "c11", DECLARED % ("a", "b", "15"), ".c", "a log level is 0 to 14")
        self.assert_refused(CPP_COMPILERS, "c++20", DECLARED % ("a", "b", "15"), ".cpp", "a log level is 0 to 14")

    def test_name_that_is_too_long(self):
        self.refused_statement(f'LEAT_EVENT("a:{"b" * 254}", a)', "leat: an event name has at most 255 characters")
        self.assert_refused(C_COMPILERS, "c11", DECLARED % ("a", "b" * 254, "0"), ".c",
                            "provider:name is longer than 255 characters")


if __name__ == "__main__":
    main()
