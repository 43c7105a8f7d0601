#!/usr/bin/env python3
"""Every captured trace, printed by the real babeltrace2 and by `leat view`: the same bytes and the same kind of exit
status.

usage: view_captures.py SOURCE_DIRECTORY BUILD_DIRECTORY
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def environment_of(tracer, version):
    names = ("tracer_major", "tracer_minor", "tracer_patch")
    numbers = (f"{name} = {number};" for name, number in zip(names, version.split(", ")))
    return f'env {{ tracer_name = "{tracer}"; {" ".join(numbers)} }};'


# Where leat view differs on purpose: {capture: (reason, how it differs)}. A case that no longer differs fails, too.
PRINTS_MORE = "prints more"  # babeltrace2's text is the beginning of ours
PRINTS_LESS = "prints less"  # our text is the beginning of babeltrace2's
SAME_TEXT = "same text"  # only the exit status differs
DIFFERENCES = {
    "content-mid-event": (PRINTS_LESS, "an event cut by the end of its packet's content is not made up from what follows"),
    "file-trailing-zero": (PRINTS_MORE, "whole packets before the damage are printed; babeltrace2 refuses the trace"),
    "stray-file": (PRINTS_MORE, "the streams beside the stray file are printed; babeltrace2 refuses the trace"),
    "trailing-2-bytes": (SAME_TEXT, "bytes that are no event are damage: the status says so"),
}

TRACERS = (("lttng-ust", "2, 10, 3"), ("lttng-ust", "2, 11, 0"), ("lttng-ust", "1, 9"), ("lttng-modules", "2, 9, 12"),
           ("lttng-modules", "2, 9, 13"), ("lttng-modules", "2, 10, 9"), ("lttng-modules", "2, 10, 10"),
           ("lttng-modules", "2, 12, 0"), ("barectf", "2, 3, 0"), ("barectf", "2, 3, 1"), ("lttng-other", "2, 9, 0"))

# Captures with other metadata: (name, capture, what is replaced, by what).
EDITED = [(f"{capture} of {tracer} {version}", capture, r"env \{.*?\};", environment_of(tracer, version))
          for capture in ("ts-end-too-early", "ts-end-zero", "ts-begin-after-end") for tracer, version in TRACERS]
EDITED += [
    ("timestamps of the header without map", "header-compact", r"ts(27|64)_t timestamp;", r"uint\1_t timestamp;"),
    ("words without quotes", "header-compact", r'name = "p:a";', "name = sched.switch;"),
    ("environment of words", "header-compact", r'domain = "ust";', "domain = a.b;"),
    ("name of two lines", "header-compact", r"p:a", "p\na"),
    ("log level without a name", "header-compact", r"loglevel = 13;", "loglevel = 99;"),
    ("length in the environment", "header-compact", r"uint32_t _v;", "uint8_t _v[env.tracer_major]; uint8_t _w[3];"),
    ("alias of an array", "header-compact", r"event \{(.*)uint32_t _v;", r"typealias uint8_t [4] := four; event {\1four _v;"),
    ("length among special fields", "header-compact", r"uint64_t events_discarded;(.*?)uint32_t cpu_id;",
     r"uint64_t events_discarded;\1struct { uint8_t a[events_discarded]; } b; uint32_t cpu_id;"),
]


def options_of(capture):
    """The options that the capture's README used; none if it used another sink than text, as we have no other."""
    for line in (capture / "README").read_text().splitlines():
        if line.startswith("command: babeltrace2 "):
            options = line.split("   ")[0].split()[2:-1]
            return [] if "sink.text.details" in options else options
    raise SystemExit(f"{capture}: no command in its README")


def cases(captures):
    for trace in sorted(captures.glob("ctf-examples/*/trace")):
        yield trace.parent.name, trace, options_of(trace.parent)
    for pattern in ("*/trace", "local-disk/trace/*", "ust-metadata/*-trace"):
        for trace in sorted(captures.glob(pattern)):
            yield str(trace.relative_to(captures)), trace, ["--clock-date"]
    # Each clock format once, over the streams of several hosts.
    for options in ([], ["--clock-seconds"], ["--clock-gmt", "--no-delta"], ["--names=none"], ["--names=scope"]):
        yield f"local-disk {options}", captures / "local-disk/trace", options


def edited_cases(captures, scratch):
    for number, (name, capture, old, new) in enumerate(EDITED):
        trace = scratch / str(number) / "trace"
        shutil.copytree(captures / "ctf-examples" / capture / "trace", trace)
        metadata = trace / "metadata"
        text, count = re.subn(old, new, metadata.read_text(), flags=re.DOTALL)
        if count == 0:
            raise SystemExit(f"{name}: nothing to replace")
        metadata.write_text(text)
        yield name, trace, options_of(captures / "ctf-examples" / capture)


def run(command):
    return subprocess.run(command, capture_output=True, check=False)


def warnings(result):
    return [line for line in result.stderr.splitlines() if line.startswith(b"WARNING: Tracer")]


def text_problem(ours, theirs, difference):
    if difference is None or difference == SAME_TEXT:
        return None if ours == theirs else "text differs"
    more, less = (ours, theirs) if difference == PRINTS_MORE else (theirs, ours)
    if more == less or not more.startswith(less):
        return f"not as expected: {difference}"
    return None


def status_problem(ours, theirs, difference):
    if ours.returncode not in (0, 1):
        return f"status {ours.returncode}"
    if difference == SAME_TEXT:
        return "the status does not differ" if ours.returncode == theirs.returncode else None
    if (ours.returncode == 0) != (theirs.returncode == 0):
        return f"status {ours.returncode}, babeltrace2 {theirs.returncode}"
    return None


def error_problem(ours):
    lines = [line for line in ours.stderr.splitlines() if not line.startswith(b"WARNING: ")]
    if ours.returncode == 0:
        return None if not lines else "words on stderr without a failure"
    return None if len(lines) == 1 and lines[0].startswith(b"leat: ") else f"not one line of error: {lines[:3]}"


def problems_of(leat, name, trace, options):
    theirs = run(["babeltrace2", *options, str(trace)])
    ours = run([leat, "view", *options, str(trace)])
    difference, _ = DIFFERENCES.get(name, (None, None))
    problems = [
        text_problem(ours.stdout, theirs.stdout, difference),
        status_problem(ours, theirs, difference),
        error_problem(ours),
        None if warnings(ours) == warnings(theirs) else "warnings differ",
    ]
    return [problem for problem in problems if problem]


def main():
    leat = str(pathlib.Path(sys.argv[2]) / "bin" / "leat")
    captures = pathlib.Path(sys.argv[1]) / "tests" / "data" / "captures"
    failures = count = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, trace, options in (*cases(captures), *edited_cases(captures, pathlib.Path(scratch))):
            count += 1
            for problem in problems_of(leat, name, trace, options):
                failures += 1
                print(f"{name}: {problem}")
    print(f"{count} traces, {failures} problems, {len(DIFFERENCES)} deliberate differences")
    return 1 if failures or count < 90 else 0


if __name__ == "__main__":
    sys.exit(main())
