#!/usr/bin/env python3
"""The preload libraries: LTTng's events, and programs that do not notice."""
import os
import re
import shutil
import subprocess

from support import (BUILD, LEAT, MUSL_GCC, PROGRAMS, InteropTest, compiled, lacks, main, needs, plain_run, program,
                     runs_32_bit_programs, without_daemon)

LARGE_RINGS = ("--ring-size", "16M")

# As LTTng's helpers describe them ([LTTng-2.13], "Helpers"): each field's type, then its name.
SIZE, ADDRESS, STATUS = "u64/10", "u64/16", "i32/10"
LTTNG_EVENTS = {
    "lttng_ust_libc:malloc": [(SIZE, "size"), (ADDRESS, "ptr")],
    "lttng_ust_libc:free": [(ADDRESS, "ptr")],
    "lttng_ust_libc:calloc": [(SIZE, "nmemb"), (SIZE, "size"), (ADDRESS, "ptr")],
    "lttng_ust_libc:realloc": [(ADDRESS, "in_ptr"), (SIZE, "size"), (ADDRESS, "ptr")],
    "lttng_ust_libc:memalign": [(SIZE, "alignment"), (SIZE, "size"), (ADDRESS, "ptr")],
    "lttng_ust_libc:posix_memalign": [(ADDRESS, "out_ptr"), (SIZE, "alignment"), (SIZE, "size"), (STATUS, "result")],
    "lttng_ust_pthread:pthread_mutex_lock_req": [(ADDRESS, "mutex")],
    "lttng_ust_pthread:pthread_mutex_lock_acq": [(ADDRESS, "mutex"), (STATUS, "status")],
    "lttng_ust_pthread:pthread_mutex_trylock": [(ADDRESS, "mutex"), (STATUS, "status")],
    "lttng_ust_pthread:pthread_mutex_unlock": [(ADDRESS, "mutex"), (STATUS, "status")],
    "lttng_ust_dl:dlopen": [(ADDRESS, "baddr"), (SIZE, "memsz"), ("i32/16", "flags"), ("string", "path"),
                            ("u8/10", "has_build_id"), ("u8/10", "has_debug_link")],
    "lttng_ust_dl:dlmopen": [(ADDRESS, "baddr"), (SIZE, "memsz"), ("i64/10", "nsid"), ("i32/16", "flags"),
                             ("string", "path"), ("u8/10", "has_build_id"), ("u8/10", "has_debug_link")],
    "lttng_ust_dl:build_id": [(ADDRESS, "baddr"), (SIZE, "_build_id_length"), ("u8/16", "build_id")],
    "lttng_ust_dl:debug_link": [(ADDRESS, "baddr"), ("u32/10", "crc"), ("string", "filename")],
    "lttng_ust_dl:dlclose": [(ADDRESS, "baddr")],
}
# The same of events that LTTng calls lttng_ust_statedump.
STATEDUMP = {
    "leat_statedump:bin_info": [(ADDRESS, "baddr"), (SIZE, "memsz"), ("string", "path"), ("u8/10", "is_pic"),
                                ("u8/10", "has_build_id"), ("u8/10", "has_debug_link")],
    "leat_statedump:build_id": [(ADDRESS, "baddr"), (SIZE, "_build_id_length"), ("u8/16", "build_id")],
    "leat_statedump:debug_link": [(ADDRESS, "baddr"), ("u32/10", "crc"), ("string", "filename")],
}

EVENT = re.compile(r'event \{\s*name = "([^"]+)";.*?loglevel = (\d+);\s*fields := struct \{(.*?)\n\t\};', re.S)
INTEGER = re.compile(r"integer \{ size = (\d+);.* signed = (\w+);.* base = (\d+);.*\} _(\w+)(?:\[ \w+ \])?;")


def described_field(line):
    match = INTEGER.match(line)
    if match is None:
        return "string", line.removeprefix("string _").removesuffix(";")
    size, is_signed, base, name = match.groups()
    return f"{'i' if is_signed in ('true', '1') else 'u'}{size}/{base}", name


def described_events(trace):
    """{name: fields} as the metadata has them. All of these events have log level 13."""
    metadata = next(trace.rglob("metadata")).read_text()
    events = {}
    for name, log_level, fields in EVENT.findall(metadata):
        assert log_level == "13", name
        events[name] = [described_field(line.strip()) for line in fields.strip().splitlines()]
    return events


class Events(InteropTest):
    def test_names_fields_and_types_are_those_of_lttng(self):
        recording = self.record("true", options=("--preload", "libc,pthread,dl"))
        self.assertEqual(described_events(recording.path), LTTNG_EVENTS | STATEDUMP)

    def test_malloc_family(self):
        recording = self.record(program("allocate"), options=("--preload", "libc", *LARGE_RINGS))
        self.assertEqual((recording.status, recording.stdout), (0, "allocated\n"), recording.stderr)
        trace = self.read_complete(recording)

        def one(name, **fields):
            found = [event for event in trace.events(f"lttng_ust_libc:{name}")
                     if all(event[field] == value for field, value in fields.items())]
            self.assertEqual(len(found), 1, f"{name} {fields}")
            return found[0]

        block = one("malloc", size=1001)["ptr"]
        moved = one("realloc", size=100001)
        self.assertEqual(moved["in_ptr"], block)
        aligned = [one("memalign", alignment=256, size=1004)["ptr"],
                   one("posix_memalign", alignment=512, size=1005, result=0)["out_ptr"]]
        zeroed = one("calloc", nmemb=11, size=1003)["ptr"]
        freed = {event["ptr"] for event in trace.events("lttng_ust_libc:free")}
        self.assertTrue({moved["ptr"], zeroed, *aligned, 0} <= freed)
        self.assertEqual(one("posix_memalign", alignment=3)["result"], 22)
        self.assertEqual(one("malloc", size=2**63 - 1)["ptr"], 0)
        self.assertEqual([event for event in trace.events() if event.name.endswith("aligned_alloc")], [])

    def test_mutexes(self):
        recording = self.record(program("mutexes"), options=("--preload", "pthread"))
        self.assertEqual(recording.status, 0, recording.stderr)
        mutex = int(recording.stdout, 16)
        events = [(event.name.removeprefix("lttng_ust_pthread:pthread_mutex_"), event.rest.split("status = ")[-1][0])
                  for event in self.read_complete(recording).events() if event["mutex"] == mutex]
        self.assertEqual([name for name, _ in events], ["lock_req", "lock_acq", "trylock", "unlock", "trylock", "unlock"])
        self.assertEqual([status for name, status in events if name == "trylock"], ["1", "0"])  # EBUSY is 16

    def test_libraries(self):
        zlib = "libz.so.1"
        recording = self.record(program("open-library"), zlib, "/nonexistent.so", str(PROGRAMS / "libtest-plugin.so"),
                                options=("--preload", "dl"))
        self.assertEqual(recording.status, 0, recording.stderr)
        trace = self.read_complete(recording)
        plugin = trace.events("lttng_ust_dl:dlopen")[-1]
        self.assertEqual(plugin["path"], os.path.realpath(PROGRAMS / "libtest-plugin.so"))
        self.assertEqual((plugin["flags"], plugin["has_build_id"] in (0, 1)), (2, True))
        self.assertEqual(plugin["memsz"], self.end_of_last_segment(plugin["path"]))
        self.assertIn(plugin["baddr"], {event["baddr"] for event in trace.events("lttng_ust_dl:dlclose")})

    def test_build_id_and_debug_link(self):
        library = self.directory / "libsmall.so"
        source = self.directory / "small.c"
        source.write_text("int small(void) { return 1; }\n")
        subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-Wl,--build-id=0x0123456789abcdef", "-o", library, source],
                       check=True)
        subprocess.run(["objcopy", "--only-keep-debug", library, self.directory / "small.debug"], check=True)
        subprocess.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={self.directory}/small.debug", library],
                       check=True)
        trace = self.read_complete(self.record(program("open-library"), str(library), options=("--preload", "dl")))
        opened, = trace.events("lttng_ust_dl:dlopen")
        self.assertEqual((opened["has_build_id"], opened["has_debug_link"]), (1, 1))
        build_id, = trace.events("lttng_ust_dl:build_id")
        self.assertIn("build_id = [ [0] = 0x1, [1] = 0x23, [2] = 0x45, [3] = 0x67, [4] = 0x89, [5] = 0xAB, [6] = 0xCD, "
                      "[7] = 0xEF ]", build_id.rest)
        link, = trace.events("lttng_ust_dl:debug_link")
        self.assertEqual(link["filename"], "small.debug")
        self.assertEqual(link["crc"], __import__("zlib").crc32((self.directory / "small.debug").read_bytes()))

    def end_of_last_segment(self, path):
        headers = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
        loads = [line.split() for line in headers.splitlines() if line.strip().startswith("LOAD")]
        return int(loads[-1][2], 16) + int(loads[-1][5], 16)


class Unnoticed(InteropTest):
    ALL = ("--preload", "libc,pthread,dl", *LARGE_RINGS)

    def libraries(self):
        return ":".join(str(BUILD / "lib" / f"libleat-preload-{name}.so") for name in ("libc", "pthread", "dl"))

    def test_threads_and_forks_that_allocate(self):
        recording = self.record(program("allocate"), "threads", options=self.ALL)
        self.assertEqual((recording.status, recording.stdout), (0, "allocated\n"), recording.stderr)
        self.assertGreater(len({event["vpid"] for event in self.read_recording(recording).events()}), 20)

    def test_without_any_daemon(self):
        result = plain_run(program("allocate"), "threads", env={**without_daemon(), "LD_PRELOAD": self.libraries()})
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "allocated\n", ""))

    def test_dlsym_that_allocates(self):
        """Memory is available before malloc is found, and it can be given back later."""
        preload = f"{PROGRAMS}/libtest-allocating-dlsym.so:{self.libraries()}"
        for command in ([program("allocate"), "threads"], ["sort", "/etc/passwd"]):
            result = plain_run(*command, env={**without_daemon(), "LD_PRELOAD": preload})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr, "")

    def test_library_that_only_its_caller_finds(self):
        """dlopen() searches the RUNPATH of its caller, which must not become our library."""
        command = [program("open-library"), "libtest-private.so", "$ORIGIN/private/libtest-private.so"]
        self.assertEqual(plain_run(*command).stdout, "opened\nopened\n")
        recording = self.record(*command, options=self.ALL)
        self.assertEqual(recording.stdout, "opened\nopened\n")

    def test_library_that_the_search_path_of_another_one_finds(self):
        """The DT_RPATH of an object is for those that it has loaded, too."""
        private = self.directory / "private"
        private.mkdir()
        build = ["gcc", "-x", "c", "-", "-x", "none", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o"]
        opens = ("#include <dlfcn.h>\n#include <stdio.h>\n"
                 "void opens(void) { puts(dlopen(\"libhidden.so\", RTLD_NOW) ? \"opened\" : dlerror()); }\n")
        subprocess.run([*build, private / "libhidden.so"], input="", text=True, check=True)
        subprocess.run([*build, private / "libopens.so"], input=opens, text=True, check=True)
        between = self.directory / "libbetween.so"
        subprocess.run([*build, between, f"-L{private}", "-lopens", f"-Wl,-rpath,{private},--disable-new-dtags"],
                       input="void opens(void);\nvoid between(void) { opens(); }\n", text=True, check=True)
        opener = compiled(["gcc", "-Wl,--no-as-needed", between], self.directory / "opener",
                          "void between(void); int main(void) { between(); return 0; }\n")
        self.assertEqual(plain_run(opener).stdout, "opened\n")
        self.assertEqual(self.record(opener, options=self.ALL).stdout, "opened\n")

    def test_program_with_an_allocator_of_its_own(self):
        allocator = self.directory / "bump.c"
        allocator.write_text("#include <stddef.h>\n#include <string.h>\n"
                             "static char memory[1 << 24]; static size_t used;\n"
                             "void* malloc(size_t n) { size_t* at = (size_t*)(memory + used); *at = n;\n"
                             "    used += (n + 31) / 16 * 16; return at + 2; }\n"
                             "void free(void* p) { if (p && ((char*)p < memory || (char*)p > memory + used))"
                             " __builtin_trap(); }\n"
                             "void* calloc(size_t n, size_t m) { return malloc(n * m); }\n"
                             "void* realloc(void* p, size_t n) { void* q = malloc(n);\n"
                             "    if (p) memcpy(q, p, ((size_t*)p)[-2] < n ? ((size_t*)p)[-2] : n); return q; }\n")
        user = self.directory / "user.c"
        user.write_text("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
                        "int main(void) { char* s = strdup(\"own\"); s = realloc(s, 100); puts(s); free(s);\n"
                        "    char* line = NULL; size_t n = 0; FILE* f = fopen(\"/etc/passwd\", \"r\");\n"
                        "    while (getline(&line, &n, f) > 0) {} fclose(f); free(line); return 0; }\n")
        inside, beside, library = (self.directory / name for name in ("inside", "beside", "libbump.so"))
        build = ["gcc", "-O1", "-fno-builtin", "-w", "-o"]
        subprocess.run([*build, inside, user, allocator], check=True)
        subprocess.run([*build, library, "-shared", "-fPIC", allocator], check=True)
        subprocess.run([*build, beside, user, library, f"-Wl,-rpath,{self.directory}"], check=True)
        for name, user_program in (("a", inside), ("b", beside)):
            recording = self.record(str(user_program), options=self.ALL, name=name)
            self.assertEqual((recording.status, recording.stdout), (0, "own\n"), recording.stderr)
        # An allocator in a library comes after ours, so its blocks are traced.
        self.assertTrue(self.read_complete(recording).events("lttng_ust_libc:realloc"))

    def test_setuid_programs_and_closed_descriptors(self):
        script = "exec 0<&- 1>&- 2>&-; /bin/true; exit 5"
        self.assertEqual(self.record("sh", "-c", script, options=self.ALL).status, 5)

    def test_handlers_that_allocate(self):
        """Signals arrive at a high rate while the program allocates and locks. The counts add up and nothing hangs."""
        script = ("import signal, threading, json\n"
                  "signal.signal(signal.SIGALRM, lambda *_: json.dumps([1, 2, {'a': 3}]))\n"
                  "signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\n"
                  "for i in range(3000): json.loads(json.dumps(list(range(i % 50))))\n"
                  "signal.setitimer(signal.ITIMER_REAL, 0)\n"
                  "print('done')\n")
        recording = self.record("python3", "-c", script, options=self.ALL)
        self.assertEqual((recording.status, recording.stdout), (0, "done\n"), recording.stderr)
        self.read_recording(recording)


SPEAKING = """
#include <stdio.h>
int main(void) { puts("out"); fputs("err\\n", stderr); return 7; }
"""
EXITING_32_BIT = 'void _start(void) { __asm__("mov $1, %eax; mov $7, %ebx; int $0x80"); }'
LOADER_32_BIT = "/lib/ld-linux.so.2"


class OtherLoaders(InteropTest):
    """Programs that cannot load our libraries start as they do without us."""
    ALL = ("--preload", "libc,pthread,dl")

    def record_like_plain(self, *command):
        recording = self.record(*command, options=self.ALL)
        self.assert_like_plain(recording, plain_run(*command))
        return recording

    def of_musl(self):
        if MUSL_GCC is None:
            lacks("musl-gcc")
        return compiled([MUSL_GCC], self.directory / "of-musl", SPEAKING)

    def test_program_of_musl(self):
        self.record_like_plain(self.of_musl())

    def test_program_of_musl_below_a_shell(self):
        recording = self.record_like_plain("sh", "-c", '"$0"; echo $?; exec "$0"', self.of_musl())
        self.assertGreater(recording.summary["events"], 0)

    def test_scripts_that_extend_the_variable(self):
        """The user gives a library of their own, or has the shell expand the variable once more."""
        own = compiled(["gcc", "-shared", "-nostdlib"], self.directory / "libown.so", "")
        script = 'export LD_PRELOAD="$1${LD_PRELOAD:+:$LD_PRELOAD}"; cat /dev/null; '
        recording = self.record("sh", "-c", script + 'exec "$0"', self.of_musl(), own, options=self.ALL)
        self.assert_like_plain(recording, plain_run("sh", "-c", script + 'exec "$0"', self.of_musl(), own))
        shutil.rmtree(recording.path)
        recording = self.record_like_plain("sh", "-c", 'eval "LD_PRELOAD=$LD_PRELOAD exec sort"')
        self.assertIn("sort", self.procnames(recording))

    def test_makefile_that_expands_the_variable(self):
        makefile = self.directory / "Makefile"
        makefile.write_text("export LD_PRELOAD := $(LD_PRELOAD)\nall:\n\t@sort /etc/passwd\n")
        self.assertIn("sort", self.procnames(self.record_like_plain("make", "-s", "-f", str(makefile))))

    def procnames(self, recording):
        return {event["procname"] for event in self.read_recording(recording).events()}

    def test_static_program(self):
        self.record_like_plain(compiled(["gcc", "-static"], self.directory / "static", SPEAKING))

    @needs(os.path.exists(LOADER_32_BIT), "32-bit-libc")
    @needs(runs_32_bit_programs(), "32-bit-kernel")
    def test_32_bit_program(self):
        compiler = ["gcc", "-m32", "-nostdlib", "-pie", f"-Wl,-I{LOADER_32_BIT}"]
        self.record_like_plain(compiled(compiler, self.directory / "of-32-bit", EXITING_32_BIT))

    def installed(self):
        """leat, laid out as a package would install it."""
        for directory in ("bin", "lib/leat"):
            (self.directory / directory).mkdir(parents=True)
        shutil.copy(LEAT, self.directory / "bin")
        shutil.copy(BUILD / "lib" / "libleat.so.0", self.directory / "lib")
        for library in (BUILD / "lib" / "leat").glob("libleat-*.so"):
            shutil.copy(library, self.directory / "lib" / "leat")
        return str(self.directory / "bin" / "leat")

    def record_installed(self, leat):
        return plain_run(leat, "record", "-o", str(self.directory / "trace"), *self.ALL, "--", program("allocate"))

    def test_installed(self):
        leat = self.installed()
        for link in ("lib", "lib64", "usr", "x86_64-linux-gnu"):
            (self.directory / "lib" / "leat" / link).symlink_to(".")
        self.assert_one_line(self.record_installed(leat).stderr, " events")
        recording = plain_run(leat, "record", "-o", str(self.directory / "musl"), *self.ALL, "--", self.of_musl())
        self.assertEqual((recording.returncode, recording.stdout), (7, "out\n"))

    def test_c_library_whose_directory_has_an_unknown_name(self):
        self.assert_one_line(self.record_installed(self.installed()).stderr, " events")


if __name__ == "__main__":
    main()
