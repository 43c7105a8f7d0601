#!/usr/bin/env python3
"""`leat stats`: its numbers are those of the trace."""
import collections
import json
import os

from support import LEAT, InteropTest, main, plain_run, program

COUNT, THREADS = 200, 3


class Stats(InteropTest):
    def setUp(self):
        super().setUp()
        self.trace = self.record(program("emit"), str(COUNT), str(THREADS), name="trace", options=("--ring-size", "1M")).path

    def stats(self, *arguments):
        result = plain_run(LEAT, "stats", "--format=json", *arguments, self.trace)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        stats = json.loads(result.stdout)
        self.assertTrue(stats["ok"])
        self.assertNotIn("error", stats)
        return stats

    def lines(self, *arguments):
        return list(map(json.loads, plain_run(LEAT, "view", "--format=json", *arguments, self.trace).stdout.splitlines()))

    def test_each_event_is_counted(self):
        stats, lines = self.stats(), self.lines()
        self.assertEqual(stats["events"], len(lines))
        self.assertEqual((stats["begin_ns"], stats["end_ns"]), (lines[0]["time_ns"], lines[-1]["time_ns"]))
        self.assertAlmostEqual(stats["events_per_second"], len(lines) / (stats["end_ns"] - stats["begin_ns"]) * 1e9, places=3)
        self.assertEqual(stats["lost"], {"events": 0, "packets": 0, "unknown": 0})
        names = collections.Counter(line["name"] for line in lines)
        self.assertEqual({row["name"]: row["events"] for row in stats["by_event"]}, names)
        processes = collections.Counter((line["common_context"]["vpid"], line["common_context"]["procname"]) for line in lines)
        self.assertEqual({(row["vpid"], row["procname"]): row["events"] for row in stats["by_process"]}, processes)
        cpus = collections.Counter(line["packet_context"]["cpu_id"] for line in lines)
        self.assertEqual({row["cpu_id"]: row["events"] for row in stats["by_cpu"]}, cpus)
        for table in ("by_event", "by_process", "by_cpu"):
            self.assertEqual(sum(row["bytes"] for row in stats[table]), stats["bytes"])
            counts = [row["events"] for row in stats[table]]
            self.assertEqual(counts, sorted(counts, reverse=True))

    def test_bytes_are_those_of_the_packets(self):
        content = 0
        for path in self.trace.rglob("index/*.idx"):
            data = path.read_bytes()
            for at in range(16, len(data), 72):
                content += int.from_bytes(data[at + 16:at + 24], "big") // 8
        self.assertLess(self.stats()["bytes"], content)
        self.assertGreater(self.stats()["bytes"], content * 0.8)

    def test_scripts_learn_what_could_not_be_read(self):
        whole = self.stats()["events"]
        stream = max(self.trace.rglob("channel0_*"), key=lambda path: path.stat().st_size)
        os.truncate(stream, stream.stat().st_size - 100)
        result = plain_run(LEAT, "stats", "--format=json", self.trace)
        stats = json.loads(result.stdout)
        self.assertEqual((result.returncode, stats["ok"], f"leat: {stats['error']}\n"), (1, False, result.stderr))
        self.assertIn(stream.name, stats["error"])
        self.assertLess(stats["events"], whole)

    def test_selection(self):
        self.assertEqual(self.stats("--filter", "n < 50")["events"], 50 * THREADS)
        self.assertEqual(self.stats("--filter", 'thread == 1', "--top", "1")["by_event"][0]["events"], COUNT)

    def test_intervals_of_a_key(self):
        """From each event of a thread to its next."""
        times = collections.defaultdict(list)
        for line in self.lines("--filter", '$name == "test:count"'):
            times[line["payload"]["thread"]].append(line["time_ns"])
        intervals = sorted(b - a for of_thread in times.values() for a, b in zip(of_thread, of_thread[1:]))
        found = self.stats("--interval", "test:count,test:count", "--key", "thread")["interval"]
        self.assertEqual((found["count"], found["without_end"], found["without_begin"]), (len(intervals), THREADS, 0))
        self.assertEqual((found["least_ns"], found["most_ns"]), (intervals[0], intervals[-1]))
        self.assertAlmostEqual(found["mean_ns"], sum(intervals) / len(intervals), places=3)
        for name, share in (("median_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99)):
            exact = intervals[max(0, -int(-share * len(intervals) // 1) - 1)]
            self.assertLessEqual(exact, found[name])
            self.assertLessEqual(found[name], exact * 1.04 + 1)
        self.assertEqual(sum(octave["count"] for octave in found["histogram"]), len(intervals))

    def test_intervals_of_several_keys(self):
        of_thread = self.stats("--interval", "test:count,test:count", "--key", "thread")["interval"]
        twice = self.stats("--interval", "test:count,test:count", "--key", "thread", "--key=thread")["interval"]
        self.assertEqual(twice, of_thread)
        of_both = self.stats("--interval", "test:count,test:count", "--key", "thread", "--key", "n")["interval"]
        self.assertEqual((of_both["count"], of_both["without_end"]), (0, COUNT * THREADS))

    def test_intervals_that_do_not_end_or_begin(self):
        found = self.stats("--interval", "test:count,test:done")["interval"]
        self.assertEqual((found["count"], found["without_end"], found["without_begin"]), (1, COUNT * THREADS - 1, 0))
        found = self.stats("--interval", "test:done,test:count", "--key", "thread")["interval"]
        self.assertEqual((found["count"], found["without_end"], found["without_begin"]), (0, 0, COUNT * THREADS))
        for figure in ("least", "mean", "median", "p90", "p99", "p999", "most"):
            self.assertIsNone(found[f"{figure}_ns"])

    def test_processes_by_contexts_of_one_event(self):
        directory = self.directory / "made"
        directory.mkdir()
        (directory / "metadata").write_text("""/* CTF 1.8 */
            typealias integer { size = 8; } := u8;
            trace { major = 1; minor = 8; byte_order = le; };
            stream { event.header := struct { u8 id; }; };
            event { name = with; id = 0; context := struct { u8 _vpid; string _procname; }; fields := struct { u8 n; }; };
            event { name = without; id = 1; fields := struct { u8 n; }; };""")
        (directory / "s").write_bytes(b"\0\x2abash\0\1" + b"\1\2" + b"\0\x2abash\0\3")
        self.trace = directory
        self.assertEqual({(row["vpid"], row["procname"], row["events"]) for row in self.stats()["by_process"]},
                         {(42, "bash", 2), (None, None, 1)})

    def test_for_people(self):
        result = plain_run(LEAT, "stats", "--top", "1", "--interval", "test:count,test:count", self.trace)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, rf"^{COUNT * THREADS + 1} events, .* a second\nlost: nothing\n")
        self.assertRegex(result.stdout, rf"\ntest:count +{COUNT * THREADS} +99\.8% +\d+ ")
        self.assertIn("\nand 1 more: --top 0 shows all\n", result.stdout)
        self.assertRegex(result.stdout, r"\nCPU \d+ ")
        self.assertRegex(result.stdout, r"\nleast .*, mean .*, median .*, most .*\n")

    def test_refused(self):
        for arguments, status, word in ((["--interval", "test:count"], 2, "FROM,TO"), (["--key", "thread"], 2, "--interval"),
                                        (["--interval", "nosuch:*,test:count"], 1, "nosuch:*"),
                                        (["--filter", "n ="], 2, "character 3"), (["--top", "-1"], 2, "--top"),
                                        (["--top", "99999999999999999999"], 2, "--top"),
                                        (["--interval", "test:count,test:done", "--key", "nosuch"], 1, "--key: no event has a field \"nosuch\"")):
            result = plain_run(LEAT, "stats", *arguments, self.trace)
            self.assertEqual((result.returncode, result.stdout), (status, ""), arguments)
            self.assert_one_line(result.stderr, word)


if __name__ == "__main__":
    main()
