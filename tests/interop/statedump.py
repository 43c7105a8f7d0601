#!/usr/bin/env python3
"""Where the libraries of a program lie: leat_statedump:* by libleat-preload-dl, for sessions that begin later."""
import pathlib
import re
import shutil
import subprocess

from session_daemons import SessionTest
from support import BUILD, PATIENCE, PROGRAMS, has, main, needs

PRELOAD = BUILD / "lib" / "libleat-preload-dl.so"
SLOTS = 128  # the values that libleat keeps for it
PLUGIN = PROGRAMS / "libtest-plugin.so"


def mapped(pid):
    """The libraries and the program itself: where each begins."""
    begins = {}
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and pathlib.Path(words[5]).is_file():
            begins.setdefault(words[5], int(words[0].split("-")[0], 16))
    return {path: begin for path, begin in begins.items() if pathlib.Path(path).read_bytes()[:4] == b"\x7fELF"}


def notes(path):
    return subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True).stdout


class Statedump(SessionTest):
    def setUp(self):
        super().setUp()
        self.daemon()
        self.running = self.program(LD_PRELOAD=str(PRELOAD))
        self.running.do("emit 0")
        self.wait_for_programs(self.running)

    def bin_infos(self, trace):
        return {event["path"]: event for event in trace.events("leat_statedump:bin_info") if "/" in event["path"]}

    def test_program_that_sleeps_is_described_at_the_start(self):
        trace = self.complete_trace("web", self.create_active("web", "leat_statedump:*"))
        infos = self.bin_infos(trace)
        self.assertEqual({path: event["baddr"] for path, event in infos.items()}, mapped(self.running.pid))
        self.assertEqual({event["vpid"] for event in trace.events()}, {self.running.pid})
        with_id = {event["baddr"]: event.rest for event in trace.events("leat_statedump:build_id")}
        links = {event["baddr"] for event in trace.events("leat_statedump:debug_link")}
        for path, event in infos.items():
            known = re.search(r"Build ID: ([0-9a-f]+)", notes(path))
            self.assertEqual(event["has_build_id"], int(known is not None), path)
            self.assertEqual(event["has_debug_link"], int(event["baddr"] in links), path)
            self.assertEqual(event["is_pic"], 1)
            if known is not None:
                bytes_of = bytes(int(value, 16) for value in re.findall(r"\] = 0x([0-9A-F]+)", with_id[event["baddr"]]))
                self.assertEqual(bytes_of.hex(), known[1], path)
        self.assertEqual(len(with_id), sum(event["has_build_id"] for event in infos.values()))

    def test_each_chunk_has_the_libraries_that_are_loaded_when_it_begins(self):
        directory = self.create_active("web", "leat_statedump:*")
        self.running.do(f"load {PLUGIN}")
        self.leat("rotate")
        infos = self.bin_infos(self.read(self.json("rotate")["chunk"]))
        self.assertEqual({path: event["baddr"] for path, event in infos.items()}, mapped(self.running.pid))
        self.assertIn(str(PLUGIN.resolve()), infos)
        self.running.do("unload")
        self.leat("rotate")
        self.stopped("web")
        infos = self.bin_infos(self.read(self.chunks_of(directory)[-1]))
        self.assertEqual({path: event["baddr"] for path, event in infos.items()}, mapped(self.running.pid))
        self.assertNotIn(str(PLUGIN.resolve()), infos)

    def test_libraries_that_a_constructor_loads_are_described(self):
        """It runs before that of the preloaded library."""
        sources = {"loads.c": f'#include <dlfcn.h>\n__attribute__((constructor)) static void load(void) '
                              f'{{ dlopen("{PLUGIN}", RTLD_NOW); }}\n',
                   "main.c": "#include <stdio.h>\nint main(void) { return puts(\"0\") < 0 || fflush(stdout) || getchar() != EOF; }\n"}
        for name, text in sources.items():
            (self.directory / name).write_text(text)
        library = self.directory / "libloads.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, self.directory / "loads.c"], check=True)
        subprocess.run(["gcc", "-o", self.directory / "main", self.directory / "main.c", "-Wl,--no-as-needed", library], check=True)
        running = self.program(self.directory / "main", LD_PRELOAD=str(PRELOAD))
        self.assertEqual(running.answer(), 0)
        self.wait_for_programs(running)
        trace = self.complete_trace("web", self.create_active("web", "leat_statedump:*"))
        infos = {event["path"]: event["baddr"] for event in trace.events("leat_statedump:bin_info")
                 if "/" in event["path"] and event["vpid"] == running.pid}
        self.assertEqual(infos, mapped(running.pid))

    def many_libraries(self, count):
        """Makes them, and a program that opens and closes them."""
        directory = self.directory / "many"
        directory.mkdir()
        (directory / "main.c").write_text(OPENS_MANY)
        subprocess.run(["gcc", f'-DDIRECTORY="{directory}"', "-o", directory / "main", directory / "main.c"], check=True)
        subprocess.run(["gcc", "-shared", "-nostdlib", "-Wl,--build-id", "-o", directory / "0.so", "-x", "c", "-"], input="", text=True,
                       check=True)
        for number in range(1, count):
            shutil.copy(directory / "0.so", directory / f"{number}.so")
        return directory / "main"

    def values_of(self, running, session="web"):
        """Of the program: where its libraries lie, and the number of all values."""
        trace = self.complete_trace(session, self.create_active(session, "leat_statedump:*"))
        events = [event for event in trace.events() if event["vpid"] == running.pid]
        infos = {event["path"]: event["baddr"] for event in events if event.name.endswith(":bin_info") and "/" in event["path"]}
        return infos, len(events)

    def test_more_libraries_than_have_room_for_all_their_values(self):
        running = self.program(self.many_libraries(110), LD_PRELOAD=str(PRELOAD))
        for first in 0, 50, 100:  # those that come last find all room taken by build ids
            running.do(f"open {first} {min(first + 50, 110)}")
        self.wait_for_programs(running)
        self.assertEqual(self.values_of(running), (mapped(running.pid), SLOTS))

    def test_libraries_without_room_come_when_others_go(self):
        running = self.program(self.many_libraries(140), LD_PRELOAD=str(PRELOAD))
        running.do("open 0 140")
        self.wait_for_programs(running)
        infos, values = self.values_of(running)
        self.assertEqual((values, len(infos) in (SLOTS, SLOTS - 1)), (SLOTS, True))
        running.do("close 0 40")
        infos, values = self.values_of(running, "later")
        self.assertEqual(infos, mapped(running.pid))
        # Their files may be others by now: build ids of those that were there before do not come.
        self.assertLessEqual(values, SLOTS)

    @needs(has("strace"), "strace")
    def test_libraries_without_room_are_not_read_again(self):
        log = self.directory / "calls"
        subprocess.run(["strace", "-f", "-e", "trace=open,openat", "-E", f"LD_PRELOAD={PRELOAD}", "-o", log, self.many_libraries(140)],
                       check=True, input="open 0 140\n", stdout=subprocess.DEVNULL, text=True, timeout=PATIENCE)
        calls = log.read_text()
        for number in 0, 70, 128:
            with self.subTest(number=number):
                self.assertIn(calls.count(f"/{number}.so"), (1, 2, 3))


# Opens and closes libraries by their numbers, as it is told.
OPENS_MANY = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    static void* libraries[200];
    char word[8], path[4096];
    int first, end;
    while (scanf("%7s %d %d", word, &first, &end) == 3) {
        for (int i = first; i < end; ++i) {
            snprintf(path, sizeof path, DIRECTORY "/%d.so", i);
            if (word[0] == 'c') dlclose(libraries[i]);
            else if ((libraries[i] = dlopen(path, RTLD_NOW)) == NULL) return 1;
        }
        puts("0");
        fflush(stdout);
    }
    return 0;
}
"""


if __name__ == "__main__":
    main()
