#!/usr/bin/env python3
"""Compilers, linkers and options: whatever a program is built with, each of its events arrives once."""
import concurrent.futures
import re
import subprocess

from support import BUILD, LEAT, PATIENCE, SOURCE, InteropTest, has, main, note_skip

LIBRARIES = BUILD / "lib"
COMPILERS = {"gcc": ("gcc", "g++"), "clang": ("clang-16", "clang++-16")}
LINKERS = {"bfd": ("-fuse-ld=bfd",), "gold": ("-fuse-ld=gold",), "lld": ("-fuse-ld=lld", "-B/usr/lib/llvm-16/bin")}
DROP_UNUSED = "-Wl,--gc-sections"
MODES = {  # options of the compiler and of the linker
    "-O0": (("-O0",), ()),
    "-O2": (("-O2",), ()),
    "-O3": (("-O3",), ()),
    "sections": (("-O2", "-ffunction-sections", "-fdata-sections"), (DROP_UNUSED,)),
    "lto": (("-O2", "-flto"), ("-O2", "-flto", DROP_UNUSED)),
}
WAYS = {  # how libleat gets into the program
    "shared": (f"-L{LIBRARIES}", f"-Wl,-rpath,{LIBRARIES}", "-lleat"),
    "archive": (str(LIBRARIES / "libleat.a"),),
    "static": ("-static", str(LIBRARIES / "libleat.a")),
    "static-pie": ("-static-pie", str(LIBRARIES / "libleat.a")),
}
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")

C_PROGRAM = {"main.c": """
#include <leat/log.h>
#include <leat/printf.h>
#include <leat/tracepoint.h>
#define NUMBER_FIELDS(FIELD) FIELD(integer, int, n, n)
LEAT_TRACEPOINT(c, number, LEAT_INFO, NUMBER_FIELDS, int n);
#define TEXT_FIELDS(FIELD) FIELD(string, text, text) FIELD(sequence, short, list, list, unsigned, 2)
LEAT_TRACEPOINT(c, text, LEAT_INFO, TEXT_FIELDS, const char* text, const short* list);
LEAT_TRACEPOINT(c, never, LEAT_INFO, LEAT_NO_FIELDS, void);
int main(void) {
    const short list[] = {1, 2};
    leat_tracepoint(c, number, 1);
    leat_tracepoint(c, text, "text", list);
    if (list[0] == 2) leat_tracepoint(c, never);
    leat_printf("%d", 3);
    return 0;
}
"""}
C_EVENTS = """
c:number: { n = 1 }
c:text: { text = "text", _list_length = 2, list = [ [0] = 1, [1] = 2 ] }
leat:printf: { msg = "3" }
"""

# For inline functions and templates, the linker keeps one of two copies, with its tracepoints.
CPP_PROGRAM = {"shared.hpp": """
#include <leat/event.hpp>
#include <leat/log.h>
#define SHARED_FIELDS(FIELD) FIELD(string, from, from)
LEAT_TRACEPOINT(cpp, shared, LEAT_INFO, SHARED_FIELDS, const char* from);
LEAT_TRACEPOINT(cpp, never, LEAT_INFO, LEAT_NO_FIELDS, void);
inline void in_header(const char* from) { LEAT_EVENT("cpp:in_header", from); }
inline void never_called(int n) { LEAT_EVENT("cpp:never_called", n); }
template <class T>
void in_template(T value) { LEAT_EVENT("cpp:in_template", LEAT_FIELD(size, static_cast<int>(sizeof value))); }
struct InClass {
    void method(const char* from) const { LEAT_EVENT("cpp:in_class", from); }
};
void other();
""", "main.cpp": """
#include "shared.hpp"
static void local() { LEAT_EVENT("cpp:local_in_main", LEAT_FIELD(n, 1)); }
int main() {
    leat_tracepoint(cpp, shared, "main");
    in_header("main");
    in_template(static_cast<short>(1));
    InClass().method("main");
    local();
    other();
    return 0;
}
""", "other.cpp": """
#include "shared.hpp"
static void local() { LEAT_EVENT("cpp:local_in_other", LEAT_FIELD(text, "other"), LEAT_FIELD(n, 2)); }
void other() {
    leat_tracepoint(cpp, shared, "other");
    in_header("other");
    in_template(1);
    InClass().method("other");
    local();
}
"""}
CPP_EVENTS = """
cpp:shared: { from = "main" }
cpp:in_header: { from = "main" }
cpp:in_template: { size = 2 }
cpp:in_class: { from = "main" }
cpp:local_in_main: { n = 1 }
cpp:shared: { from = "other" }
cpp:in_header: { from = "other" }
cpp:in_template: { size = 4 }
cpp:in_class: { from = "other" }
cpp:local_in_other: { text = "other", n = 2 }
"""
LANGUAGES = {"c": (0, "-std=c11", C_PROGRAM, C_EVENTS), "cpp": (1, "-std=c++17", CPP_PROGRAM, CPP_EVENTS)}
LINE = re.compile(r"^\[[^]]*\] \([^)]*\) \S+ (\S+: )\{ cpu_id = \d+ \}, (.*)$")
# What programs define before they include anything: names of attributes, of Qt, of <complex.h>, log levels, and constants
# of their own. In C++, the standard library needs `noreturn` as it is.
HOSTS_MACROS = ("always_inline aligned cold constructor destructor emit hot noinline noplt packed retain section unused used "
                "vector_size visibility weak I N debug info warning err notice")
HEADERS = {  # standards, the program's macros, and what it includes
    "c": [("-std=c11",), HOSTS_MACROS + " noreturn", "capture.h context.h ctf.h log.h printf.h snapshot.h sticky.h tracepoint.h"],
    "cpp": [("-std=c++17", "-std=c++20"), HOSTS_MACROS,
            "printf.h log.h capture.hpp context.h ctf.hpp event.hpp snapshot.h sticky.h tracepoint.h"],
}
LINES = """
void lines(void) {
    leat_log(LEAT_DEBUG, "%d", 1);
    leat_printf("%d", 1);
}
"""
IN_HOST = {"c": C_PROGRAM["main.c"] + LINES, "cpp": CPP_PROGRAM["shared.hpp"] + LINES + """
#include <string>
void one_of_each(const char (&text)[4], const int (&list)[3], const std::string& name) {
    LEAT_EVENT("cpp:many", LEAT_FIELD(a, 1), text, list, name);
    LEAT_STICKY(1, "cpp:sticky", LEAT_FIELD(a, 1));
}
"""}
EMPTY_PROGRAM = {"c": "int main(void) { return 0; }\n", "cpp": "int main() { return 0; }\n"}



class Toolchain:
    """One compiler with one linker, one set of options, and one way to link libleat."""

    def __init__(self, language, compiler, mode, linker, way):
        self.language, self.mode, self.linker, self.way = language, mode, linker, way
        self.index, self.standard, self.sources, self.events = LANGUAGES[language]
        self.compiler = COMPILERS[compiler][self.index]
        self.name = " ".join((self.compiler, mode, linker, way))

    def compile_command(self, source, object_file):
        return (self.compiler, self.standard, *WARNINGS, *MODES[self.mode][0], "-fPIE", f"-I{SOURCE / 'include'}", "-c",
                "-o", object_file, source)

    def link_command(self, objects, program, way):
        return (self.compiler, *MODES[self.mode][1], *LINKERS[self.linker], "-o", program, *objects, *way)

    def cannot(self, directory):
        """What the linker says if it cannot build even a program that does nothing; else None."""
        source = directory / f"empty.{self.language}"
        source.write_text(EMPTY_PROGRAM[self.language])
        run(*self.compile_command(source, directory / "empty.o"))
        bare = [option for option in WAYS[self.way] if option.startswith("-static")]
        result = run(*self.link_command([directory / "empty.o"], directory / "empty", bare))
        return None if result.returncode == 0 else result.stderr.strip().splitlines()[0]


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE)


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, items))


def every_toolchain(compilers):
    """Each compiler with each linker in each mode. The ways to link libleat take turns, so that each of them is used
    with each compiler, each linker and each mode."""
    ways = list(WAYS)
    for i, compiler in enumerate(compilers):
        for j, linker in enumerate(LINKERS):
            for k, mode in enumerate(MODES):
                for language in LANGUAGES:
                    yield Toolchain(language, compiler, mode, linker, ways[(2 * i + j + k) % len(ways)])


class Toolchains(InteropTest):
    def compile(self, toolchain):
        """Compiles the objects, which do not depend on the linker."""
        directory = self.directory / f"{toolchain.compiler}{toolchain.mode}"
        directory.mkdir()
        for name, text in toolchain.sources.items():
            (directory / name).write_text(text)
        for name in toolchain.sources:
            if name.endswith(".hpp"):
                continue
            result = run(*toolchain.compile_command(directory / name, directory / f"{name}.o"))
            self.assertEqual((result.returncode, result.stderr), (0, ""), toolchain.name)

    def check(self, toolchain):
        """Returns what is wrong with the program that this toolchain makes, if anything is."""
        directory = self.directory / toolchain.name.replace(" ", "_")
        directory.mkdir()
        objects = sorted((self.directory / f"{toolchain.compiler}{toolchain.mode}").glob("*.o"))
        linked = run(*toolchain.link_command(objects, directory / "program", WAYS[toolchain.way]))
        if linked.returncode != 0 or linked.stderr:
            reason = toolchain.cannot(directory)
            if reason is None:
                return f"{toolchain.name}: {linked.stderr}"
            print(reason, flush=True)
            lto = " lto" if toolchain.mode == "lto" else ""
            return None if note_skip(f"linker {toolchain.linker} {toolchain.way}{lto}") else f"{toolchain.name}: {reason}"
        recording = self.record(str(directory / "program"), options=("--context", "none"), name=f"{directory.name}/trace")
        view = run(LEAT, "view", recording.path)
        found = ["".join(LINE.match(line).groups()) for line in view.stdout.splitlines()]
        if recording.status == 0 and found == toolchain.events.strip().splitlines():
            return None
        return f"{toolchain.name}: status {recording.status}, {found}: {recording.stderr}{view.stderr}"

    def test_macros_of_the_program_do_no_harm(self):
        """Whatever a program has defined, our headers compile, and so do its events."""
        for language, (standards, names, headers) in HEADERS.items():
            source = self.directory / f"host.{language}"
            macros = "".join(f"#define {name} the program has defined {name}\n" for name in names.split())
            macros += "#include <stdio.h>\n#define printf its_own_printf\n"  # as gnulib does
            includes = "".join(f"#include <leat/{header}>\n" for header in headers.split())
            source.write_text(macros + includes + IN_HOST[language])
            for compiler in (commands[LANGUAGES[language][0]] for commands in COMPILERS.values() if has(*commands)):
                for standard in standards:
                    with self.subTest(compiler=compiler, standard=standard):
                        result = run(compiler, standard, *WARNINGS, f"-I{SOURCE / 'include'}", "-fsyntax-only", source)
                        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_each_event_arrives_once(self):
        compilers = [name for name, commands in COMPILERS.items() if has(*commands)]
        for name in COMPILERS:
            self.assertTrue(name in compilers or note_skip(name), f"this machine lacks {name}")
        toolchains = list(every_toolchain(compilers))
        self.assertGreaterEqual(len(toolchains), 30)
        in_parallel(self.compile, {(one.compiler, one.mode): one for one in toolchains}.values())
        problems = [problem for problem in in_parallel(self.check, toolchains) if problem]
        self.assertEqual(problems, [], "\n".join(problems))


if __name__ == "__main__":
    main()
