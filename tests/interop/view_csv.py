#!/usr/bin/env python3
"""`leat view --format=csv`: a table, with what the lines of JSON have."""
import csv
import io
import json

import ctf_random
from support import LEAT, SOURCE, InteropTest, main, plain_run, program

CAPTURES = SOURCE / "tests" / "data" / "captures"
CONTEXTS = ("packet_context", "common_context", "specific_context")


def cell_of(value):
    """As the table has it."""
    if value is None:
        return ""
    if isinstance(value, dict) and set(value) == {"value", "labels"}:
        return value["labels"][0] if len(value["labels"]) == 1 else str(value["value"])
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Tables(InteropTest):
    def rows(self, *arguments):
        result = plain_run(LEAT, "view", "--format=csv", *arguments, encoding="utf-8", errors="replace")
        return list(csv.DictReader(io.StringIO(result.stdout, newline="")))

    def check(self, trace):
        lines = plain_run(LEAT, "view", "--format=json", trace).stdout.split("\n")[:-1]
        events = [event for event in map(json.loads, lines) if "name" in event]
        rows = self.rows(trace)
        self.assertEqual(len(rows), len(events), trace)
        for row, event in zip(rows, events):
            self.assertEqual((row["name"], row["time"], row["time_ns"]),
                             (event["name"], event.get("time", ""), str(event.get("time_ns", ""))))
            payload = event.get("payload", {})
            for column, cell in row.items():
                if column in ("name", "time", "time_ns"):
                    continue
                name = column.removeprefix("payload.").removeprefix("$ctx.")
                values = [event[scope][name] for scope in CONTEXTS if name in event.get(scope, {})]
                if f"$ctx.{name}" in row and not column.startswith("$ctx."):
                    values = [payload[name]] if name in payload else [None]
                elif name in payload and not column.startswith("$ctx."):
                    values = [payload[name]]
                if values and not isinstance(values[0], (dict, list, float)) and "\ufffd" not in cell:
                    self.assertEqual(cell, cell_of(values[0]), (trace, column))
        return len(rows)

    def test_captured_traces(self):
        counts = [self.check(metadata.parent) for metadata in sorted(CAPTURES.rglob("metadata"))]
        self.assertGreater(sum(counts), 1000)

    def test_traces_made_by_chance(self):
        for seed in range(60):
            with self.subTest(seed=seed):
                ctf_random.write_traces(seed, self.directory / str(seed))
                self.check(self.directory / str(seed))

    def test_columns(self):
        trace = self.record(program("emit"), "3", name="trace").path
        result = plain_run(LEAT, "view", "--format=csv", "--columns", "name,n,$ctx.vpid,hostname,log_level", trace)
        header, *rows = csv.reader(io.StringIO(result.stdout))
        self.assertEqual(header, ["name", "n", "$ctx.vpid", "hostname", "log_level"])
        self.assertEqual([row[:2] for row in rows], [["test:count", "0"], ["test:count", "1"], ["test:count", "2"], ["test:done", ""]])
        self.assertTrue(all(row[2].isdigit() and row[3] and row[4].isdigit() for row in rows))

    def test_refused(self):
        trace = self.record(program("emit"), "1", name="trace").path
        for options, status, word in ((["--format=csv", "--columns", "nosuch"], 1, "nosuch"), (["--columns", "n"], 2, "csv"),
                                      (["--format=csv", "--columns", "n,,n"], 2, "--columns: a name is empty"),
                                      (["--format=csv", "--follow"], 2, "finished")):
            result = plain_run(LEAT, "view", *options, trace)
            self.assertEqual((result.returncode, result.stdout), (status, ""), options)
            self.assert_one_line(result.stderr, word)


if __name__ == "__main__":
    main()
