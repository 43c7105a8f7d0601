#!/usr/bin/env python3
"""Traces made by chance, printed by the real babeltrace2 and by `leat view`: the same text, the same warnings, the same
exit status. docs/differences-from-babeltrace2.md says where we differ on purpose.

usage: random_traces.py [TEST...]     LEAT_TRACES=10000: so many of them
       random_traces.py SEED...       what is different in these; the traces stay in /tmp/leat-trace-SEED
"""
import concurrent.futures
import os
import pathlib
import random as random_module
import re
import resource
import shutil
import subprocess
import sys
import tempfile

import ctf_random
import support

COUNT = int(os.environ.get("LEAT_TRACES", "250"))
FIRST = int(os.environ.get("LEAT_FIRST_TRACE", "0"))
# Traces that we printed otherwise than babeltrace2 once.
TOLD_APART_ONCE = [22151]
MEMORY = 512 << 20  # bytes; what a trace of some KiB may take at the very most

OPTIONS = [["--clock-gmt"], ["--clock-seconds"], ["--clock-date"], ["--clock-cycles"], ["--no-delta"], ["--names=all"],
           ["--names=none"], ["--names=payload,header"], ["--names=scope,context"], ["--fields=all"],
           ["--fields=trace:hostname,trace:vpid,loglevel"], ["--fields=trace:procname,emf"], ["--fields=trace:domain"]]


def options_of(seed, is_timed):
    random = random_module.Random(-1 - seed)
    chosen = {options[0].split("=")[0]: options for options in random.sample(OPTIONS, random.choice([0, 0, 1, 2]))}
    if not is_timed and chosen.get("--names") in (["--names=all"], ["--names=payload,header"]):
        del chosen["--names"]  # without times, babeltrace2 forgets the commas between names
    return sum(chosen.values(), [])


def run(command):
    return subprocess.run(command, capture_output=True, check=False, timeout=support.PATIENCE)


def warnings(result):
    return [line for line in result.stderr.splitlines() if line.startswith(b"WARNING")]


def errors(result):
    return [line for line in result.stderr.splitlines() if not line.startswith(b"WARNING")]


def is_same_line(our, their):
    """Where a text of characters is empty, babeltrace2 shows the text that its memory held before."""
    if our == their or b'""' not in our:
        return our == their
    any_text = rb'"(?:[^"\\]|\\.)*"'
    return re.fullmatch(re.escape(our).replace(b'""', any_text), their) is not None


def is_same_text(our, their):
    ours, theirs = our.split(b"\n"), their.split(b"\n")
    return len(ours) == len(theirs) and all(map(is_same_line, ours, theirs))


def first_difference(ours, theirs):
    for number, (our, their) in enumerate(zip(ours, theirs), 1):
        if not is_same_line(our, their):
            return f"line {number}:\n    babeltrace2: {their[:600]}\n    leat view:   {our[:600]}"
    return f"{len(theirs)} lines of babeltrace2, {len(ours)} of leat view"


def difference(trace, options):
    """What is different; None if nothing is."""
    theirs = run(["babeltrace2", *options, str(trace)])
    ours = run([support.LEAT, "view", *options, str(trace)])
    if theirs.returncode < 0:  # a failed assertion: there is nothing to compare with
        return None if ours.returncode == 0 else f"babeltrace2 crashes, leat view fails: {errors(ours)[:1]}"
    if theirs.returncode != ours.returncode:
        failure = [line for line in errors(theirs) if b" E " in line][:1] or errors(theirs)[-1:]
        return f"status {ours.returncode} {errors(ours)[:1]}, babeltrace2 {theirs.returncode} {failure}"
    if errors(ours):
        return f"words on stderr without a failure: {errors(ours)[:1]}"
    if not is_same_text(ours.stdout, theirs.stdout):
        return "text: " + first_difference(ours.stdout.splitlines(), theirs.stdout.splitlines())
    if warnings(ours) != warnings(theirs):
        return "warnings: " + first_difference(warnings(ours), warnings(theirs))
    return None


def compare(seed, directory):
    trace = pathlib.Path(directory) / str(seed)
    options = options_of(seed, ctf_random.write_traces(seed, trace))
    found = difference(trace, options)
    shutil.rmtree(trace)
    return found


def compare_all(seeds, directory):
    os.nice(10)
    return [(seed, found) for seed in seeds if (found := compare(seed, directory))]


def damage(trace, random):
    """Flips bytes of a file or two, or cuts it, or lets it repeat a part."""
    files = sorted(path for path in trace.rglob("*") if path.is_file())
    for path in random.sample(files, min(len(files), random.choice([1, 1, 2]))):
        data = bytearray(path.read_bytes())
        kind = random.choice(["flip", "flip", "cut", "repeat"])
        if kind == "flip" and data:
            for _ in range(random.choice([1, 1, 3, 20])):
                data[random.randrange(len(data))] = random.choice([0, 255, random.randrange(256)])
        elif kind == "cut":
            del data[random.randint(0, len(data)):]
        else:
            begin = random.randint(0, len(data))
            data[begin:begin] = data[random.randint(0, len(data)):][:random.choice([1, 8, 4096])]
        path.write_bytes(data)


def damaged_problem(trace):
    try:
        ours = run([support.LEAT, "view", str(trace)])
    except subprocess.TimeoutExpired:
        return f"takes more than {support.PATIENCE:g} s"
    if ours.returncode not in (0, 1):
        return f"status {ours.returncode}: {ours.stderr[-300:]}"
    if len(errors(ours)) != ours.returncode or not all(line.startswith(b"leat: ") for line in errors(ours)):
        return f"status {ours.returncode}, not one line of error: {errors(ours)[:3]}"
    return None


def most_memory():
    return 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def damage_all(seeds, directory):
    os.nice(10)
    findings = []
    for seed in seeds:
        trace = pathlib.Path(directory) / str(seed)
        ctf_random.write_traces(seed, trace)
        damage(trace, random_module.Random(-1 - seed))
        before = most_memory()
        problem = damaged_problem(trace)
        if not problem and before < MEMORY < most_memory() and not support.SANITIZERS:
            problem = f"takes {most_memory() >> 20} MiB"
        if problem:
            findings.append((seed, problem))
        shutil.rmtree(trace)
    return findings


def in_parallel(task, seeds, directory):
    """The findings of all seeds, from as many processes as there are CPUs."""
    count = min(2, os.cpu_count() or 1)
    with concurrent.futures.ProcessPoolExecutor(count) as pool:
        parts = [pool.submit(task, seeds[part::count], directory) for part in range(count)]
        return sorted(finding for part in parts for finding in part.result())


def tell(test, findings, count):
    lines = [f"seed {seed}: {finding}" for seed, finding in findings[:20]]
    advice = f"to see one: tests/interop/{pathlib.Path(sys.argv[0]).name} SEED"
    test.assertFalse(bool(findings), "\n".join([f"{len(findings)} of {count} traces differ", *lines, advice]))


def show_or_test(show_one):
    """What a file of tests with seeds does by itself: it shows those of its command line, or runs its tests."""
    if len(sys.argv) > 1 and all(argument.isdigit() for argument in sys.argv[1:]):
        for number in sys.argv[1:]:
            show_one(int(number))
    else:
        support.main()


class RandomTraces(support.InteropTest):
    def test_leat_view_prints_what_babeltrace2_prints(self):
        seeds = [*range(FIRST, FIRST + COUNT), *TOLD_APART_ONCE]
        tell(self, in_parallel(compare_all, seeds, self.directory), len(seeds))

    def test_damaged_traces_end_in_one_error_at_most(self):
        tell(self, in_parallel(damage_all, range(FIRST, FIRST + COUNT), self.directory), COUNT)


def show(seed):
    trace = pathlib.Path(tempfile.gettempdir()) / f"leat-trace-{seed}"
    shutil.rmtree(trace, ignore_errors=True)
    options = options_of(seed, ctf_random.write_traces(seed, trace))
    print(f"{trace} {' '.join(options)}\n{difference(trace, options) or 'no difference'}")


if __name__ == "__main__":
    show_or_test(show)
