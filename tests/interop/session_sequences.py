#!/usr/bin/env python3
"""Random sequences of events, verbs and faults in sessions with random options, against a model of what the trace must
hold then: what was emitted is in its chunk, once and in order, or it was counted, cleared, or made room for newer files.
Programs are also killed or stand still in the middle of writing, fork, become others and open libraries; a follower reads the
directory. And two clients that steer at once.

LEAT_SEED repeats a sequence, LEAT_SEQUENCES_SECONDS says for how long new ones begin (default: 7)."""
import collections
import itertools
import json
import os
import random
import re
import signal
import struct
import subprocess
import threading
import time

from relays import LeatRelay
from session_daemons import DISCARDED_IN_CHUNK, RestartTest, by_reason
from support import LEAT, PATIENCE, library, main, program, stop_process, wait_until

SECONDS = float(os.environ.get("LEAT_SEQUENCES_SECONDS", 7))
SEED = os.environ.get("LEAT_SEED")
STEPS = 40  # of a sequence
WAITING = 200  # events that certainly find room in an empty ring that nobody reads
STOPPED_PATIENCE = 2  # s; a verb takes no longer because a program stands still
TICK = re.compile(r" steps(?:_library)?:tick: .* vpid = (\d+), .* n = (\d+) ")
KEPT = re.compile(r" steps:kept: .* vpid = (\d+), .* id = (\d+), value = (\d+) ")
NUMBER = re.compile(r" app_steps_number = \{ (\d+) \}")
MISSED = re.compile(r"^WARNING: Missed \d+ packets? between .*: their files were replaced before they were read|"
                    r"^leat: warning: .*: the files of its stream before this one were replaced before they were read")
# What the manual page says of traces that begin or end meanwhile.
TOLD_BY_FOLLOWER = re.compile(r"^WARNING: Tracer discarded \d+ packets? |^leat: warning: (traces that are finished are not shown: |events came too late to be shown )")
# Of a relay that was killed before it had the first bytes of a new index on disk: readers go by the packets then.
EMPTY_INDEX = re.compile(r"Invalid LTTng trace index file: file size \(0 bytes\)")
CPUS = sorted(os.sched_getaffinity(0))
CONTEXTS = ("$app.steps:number", "$app.nobody:there", "ip", "vuid", "pthread_id", "net_ns")


class Options:
    """What a session is like."""

    def __init__(self, source):
        self.has_directory, self.relay = source.choice(((True, None), (True, None), (True, "live"), (True, "output"),
                                                        (False, "live"), (False, "output")))
        self.contexts = source.sample(CONTEXTS, source.randrange(len(CONTEXTS) + 1))
        self.mode = source.choice(((), ("--mode=blocking",), ("--blocking-timeout=20ms",)))
        self.files = source.choice(((), (), ("--tracefile-size=8K",), ("--tracefile-size=8K", "--tracefile-count=2")))
        self.channel = [f"--ring-size={source.choice(('64K', '64K', '1M'))}", *self.mode, *self.files,
                        f"--header={source.choice(('compact', 'large'))}",
                        *source.choice(((), (), ("--read-period=5ms",), ("--read-period=2s", "--switch-period=1s")))]
        self.buffers = f"--buffers={source.choice(('user', 'pid'))}"
        self.drops_files = len(self.files) == 2
        # Never reached: what is counted for them must be right whatever happens.
        self.limits = source.choice(((), ("--max-size=1G", "--duration=10h")))

    def __str__(self):
        return (f"directory {self.has_directory}, relay {self.relay}, {self.buffers} {self.channel} {self.contexts} "
                f"{self.limits}")


class Chunk:
    """What was emitted in it, and what of that the daemon has stored."""

    def __init__(self):
        self.emitted = collections.defaultdict(list)  # by program
        self.may_be_cleared = False
        self.stored = None  # unknown


class Traced:
    """A program, and what it has emitted and keeps."""

    def __init__(self, running, cpu, counts):
        self.running = running
        self.counts = counts  # steps_library.h
        self.pid = running.pid
        os.sched_setaffinity(self.pid, {cpu})  # so its events are in one stream
        self.is_known = True  # to a daemon
        self.is_stopped = False
        self.emitted = 0
        self.evaluated = 0
        self.last_value = 0
        self.values = {}

    def count(self):
        """How many it has emitted and evaluated so far, and the last child that it made."""
        return struct.unpack("<3Q", self.counts.read_bytes())


class Follower:
    """leat view --follow."""

    def __init__(self, directory, printed, chunk):
        self.printed = printed
        self.chunk = chunk  # the number of the one that was current when it began
        with open(printed, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen([LEAT, "view", "--follow", directory], stdout=output,
                                            stderr=subprocess.PIPE, text=True)

    def end(self):
        """All that it said, when what it follows has ended."""
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors, self.printed.read_text(encoding="utf-8").splitlines()

    def ends_soon(self):
        try:
            return self.process.wait(1) is not None
        except subprocess.TimeoutExpired:
            return False

    def kill(self):
        self.process.kill()
        self.process.communicate()


class Sequences(RestartTest):
    def setUp(self):
        super().setUp()
        self.relay = LeatRelay(self.directory / "relay")
        self.addCleanup(self.relay.kill)

    # The sequence.

    def begin(self, seed, number):
        self.source = random.Random(seed)
        self.options = Options(self.source)
        self.name = f"s{number}"
        self.log = [str(self.options)]
        self.server_state = self.relay_state = "alive"
        self.is_active = self.is_enabled = False
        self.was_killed = self.was_cut = False  # the daemon, the relay
        self.was_cleared = False
        self.chunks = [Chunk()]
        self.cleared = collections.defaultdict(set)
        self.events_before = 0  # this chunk
        self.cleared_events = 0  # that were stored
        self.programs = []
        self.unplaced = 0  # events that were evaluated while something changed: they are in any chunk
        self.unplaced_numbers = collections.defaultdict(set)
        self.may_miss = 0  # that were being written then
        self.follower = None
        self.unread = 0  # events that may still lie in the rings, where only a reader makes room
        self.trace_directory = self.directory / f"trace-{number}"
        places = ["-o", self.trace_directory] if self.options.has_directory else []
        if self.options.relay:
            places.append(f"--{self.options.relay}={self.relay.url}")
        self.leat("create", self.name, *places, *self.options.limits)
        self.leat("enable-channel", "c", *self.options.channel, self.options.buffers)
        self.leat("enable-channel", "s", "--ring-size=64K", self.options.buffers)
        if self.options.contexts:
            self.leat("add-context", *self.options.contexts)
        self.leat("enable-event", "steps:kept", "-c", "s")
        self.switch_events()
        self.start_program()
        self.switch_session()

    def steps(self):
        """Those that are possible now, and their weights."""
        is_alive = self.server_state == "alive"
        # Verbs of a session that only goes to a relay wait for that.
        can_steer = is_alive and (self.options.has_directory or self.relay_state == "alive")
        known = any(traced.is_known and not traced.is_stopped for traced in self.programs)
        stopped = any(traced.is_stopped for traced in self.programs)
        may_write = known and self.is_read()
        return [(step, weight) for step, weight, is_possible in (
            (self.emit, 20, known and (self.is_read() or self.unread < WAITING)),
            (self.fork, 2, known and (self.is_read() or self.unread < WAITING)),
            (self.execute, 1, known and self.server_state != "stopped"),
            (self.open_libraries, 1, known and is_alive),
            (self.open_libraries_while_rules_change, 1, may_write and can_steer),
            (self.keep, 6, known),
            (self.kill_writing_program, 1, may_write),
            (self.stop_writing_program, 2, may_write and not stopped),
            (self.continue_program, 4, stopped),
            (self.start_program, 3, len(self.programs) < 3 and self.server_state != "stopped"),
            (self.end_program, 1, self.programs),
            (self.switch_session, 2, can_steer),
            (self.switch_events, 1, can_steer),
            (self.rotate, 2, can_steer),
            (self.clear, 1, can_steer),
            (self.be_refused, 1, can_steer and self.chunks[0].emitted),
            (self.kill_daemon, 2, True),
            (self.kill_daemon_in_a_verb, 1, can_steer),
            (self.replace_daemon, 1, is_alive),
            (self.start_daemon, 6, self.server_state == "dead"),
            (self.stop_daemon, 1, is_alive),
            (self.continue_daemon, 6, self.server_state == "stopped"),
            (self.kill_relay, 1, self.options.relay and self.relay_state != "dead"),
            (self.stop_relay, 1, self.options.relay and self.relay_state == "alive"),
            (self.bring_relay_back, 4, self.relay_state != "alive"),
            (self.follow, 2, self.can_follow()),
        ) if is_possible]

    def take_steps(self):
        for _ in range(STEPS):
            steps, weights = zip(*self.steps())
            step, = self.source.choices(steps, weights)
            self.log.append(step.__name__)
            step()
            if self.server_state == "alive":
                self.check_counts()

    def note(self, what):
        self.log[-1] += f" {what}"

    # Programs.

    def some_program(self):
        return self.source.choice([traced for traced in self.programs if traced.is_known and not traced.is_stopped])

    def some_count(self, counts):
        """Of events that find room."""
        count = self.source.choice(counts)
        if not self.is_read():
            count = min(count, WAITING - self.unread)
        self.unread += count
        return count

    def emit(self):
        traced = self.some_program()
        count = self.some_count([1, 1, 20, 100, 2000])
        self.note(f"{count} of {traced.pid}")
        traced.running.do(f"emit {count}")
        self.count_emitted(traced, traced.pid)

    def count_emitted(self, traced, pid):
        """What it has emitted since the last time, under this process id, while nothing changed."""
        emitted, evaluated, _ = traced.count()
        numbers = range(traced.emitted, emitted)
        is_recorded = self.is_active and self.is_enabled
        if is_recorded:
            self.chunks[-1].emitted[pid] += numbers
        traced.emitted, traced.evaluated = emitted, evaluated
        return numbers

    def count_unplaced(self, traced, emitted, evaluated, most_missed):
        """What it has emitted while something changed. Of those, one may be missing each time."""
        self.unplaced_numbers[traced.pid].update(range(traced.emitted, emitted))
        self.unplaced += evaluated - traced.evaluated
        self.may_miss += min(most_missed, evaluated - traced.evaluated)
        traced.emitted, traced.evaluated = emitted, evaluated

    def fork(self):
        """A child emits, which no daemon has seen before."""
        traced = self.some_program()
        count = self.some_count([1, 20, 100])
        traced.running.do(f"fork {count}")
        child = traced.count()[2]
        self.note(f"{count} of {child}, a child of {traced.pid}")
        self.count_emitted(traced, child)

    def execute(self):
        """Another program in the same process."""
        traced = self.some_program()
        name = self.directory / f"other-steps-{self.source.randrange(2)}"
        if not name.exists():
            name.symlink_to(program("steps"))
        self.note(f"{name.name} in {traced.pid}")
        traced.running.do(f"exec {name}")
        traced.last_value = 0
        traced.values = {}
        traced.is_known = self.server_state == "alive"
        if traced.is_known:
            self.wait_for_programs(traced)

    def open_libraries(self):
        """Each is there for one event."""
        traced = self.some_program()
        count = self.source.choice([1, 10])
        self.note(f"{count} in {traced.pid}")
        traced.running.do(f"load {library('steps-library')}")
        traced.running.do(f"work {count}")
        self.count_emitted(traced, traced.pid)

    def open_libraries_while_rules_change(self):
        traced = self.some_program()
        self.note(f"in {traced.pid}")
        traced.running.do(f"load {library('steps-library')}")
        traced.running.say(f"work {self.source.choice([20, 50])}")
        changes = self.source.choice([1, 2, 4])
        for _ in range(changes):
            self.switch_events()
        traced.running.answer()
        self.count_unplaced(traced, *traced.count()[:2], changes)

    def write_meanwhile(self, signal_number):
        """A program gets this signal in the middle of many events. All up to the one that it then wrote are what they
        would be otherwise."""
        traced = self.some_program()
        traced.running.say(f"emit {self.source.choice([100, 20000])}")
        time.sleep(self.source.random() * 0.002)
        os.kill(traced.pid, signal_number)
        wait_until(lambda: os.waitid(os.P_PID, traced.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT | os.WNOHANG),
                   "the program does not end or stop")
        emitted, evaluated, _ = traced.count()
        self.note(f"{traced.pid} at {emitted}")
        self.unread += emitted - traced.emitted
        is_recorded = self.is_active and self.is_enabled
        if is_recorded:
            self.chunks[-1].emitted[traced.pid] += range(traced.emitted, emitted)
        traced.evaluated += emitted - traced.emitted if is_recorded else 0
        traced.emitted = emitted
        return traced, evaluated

    def kill_writing_program(self):
        traced, evaluated = self.write_meanwhile(signal.SIGKILL)
        self.count_unplaced(traced, traced.emitted + 1, evaluated, 1)
        self.programs.remove(traced)
        traced.running.kill()

    def stop_writing_program(self):
        traced, _ = self.write_meanwhile(signal.SIGSTOP)
        traced.is_stopped = True
        self.unplaced_numbers[traced.pid].add(traced.emitted)

    def continue_program(self):
        traced = next(traced for traced in self.programs if traced.is_stopped)
        self.note(traced.pid)
        is_recorded = self.is_active and self.is_enabled
        if not self.is_read():
            return self.note("later")
        os.kill(traced.pid, signal.SIGCONT)
        traced.is_stopped = False
        end = traced.running.answer()
        # The one that it wrote when it was stopped may have been switched off since.
        rest = range(min(traced.emitted + 1, end), end)
        before = traced.count()[1] - (len(rest) if is_recorded else 0)
        self.unread += len(rest)
        self.count_unplaced(traced, rest.start, before, 1)
        self.count_emitted(traced, traced.pid)
        return None

    def is_read(self):
        """Otherwise a program that waits for room would wait for longer than the test has time."""
        has_reader = self.server_state == "alive" and (self.options.has_directory or self.relay_state == "alive")
        return has_reader or self.options.mode != ("--mode=blocking",)

    def keep(self):
        traced = self.some_program()
        key = self.source.randrange(3)
        if self.source.random() < 0.2:
            traced.running.do(f"forget {key}")
            traced.values.pop(key, None)
            return
        traced.running.do(f"set {key}")
        traced.last_value += 1
        traced.values[key] = traced.last_value

    def start_program(self):
        counts = self.directory / f"counts-{self.started}"
        self.started += 1
        counts.write_bytes(bytes(24))
        running = self.program("steps", LEAT_ALLOW_BLOCKING="1", LEAT_TEST_STEPS=str(counts))
        traced = Traced(running, self.source.choice(CPUS), counts)
        self.programs.append(traced)
        traced.is_known = self.server_state == "alive"
        if traced.is_known:
            self.wait_for_programs(traced)

    def end_program(self):
        traced = self.programs.pop(self.source.randrange(len(self.programs)))
        if traced.is_stopped:
            traced.running.kill()
            self.count_unplaced(traced, traced.emitted + 1, traced.count()[1], 1)
        elif self.source.random() < 0.5:
            traced.running.kill()
        else:
            self.assertEqual(traced.running.end(), 0)

    # Verbs.

    def leat(self, *arguments, **options):
        """No program that stands still holds up a verb."""
        is_prompt = any(traced.is_stopped for traced in self.programs) and self.relay_state == "alive"
        begin = time.monotonic()
        result = super().leat(*arguments, **options)
        if is_prompt:
            self.assertLess(time.monotonic() - begin, STOPPED_PATIENCE, arguments)
        return result

    def switch_session(self):
        self.leat("stop" if self.is_active else "start", self.name)
        self.note("off" if self.is_active else "on")
        self.is_active = not self.is_active

    def switch_events(self):
        self.leat("disable-event" if self.is_enabled else "enable-event", "steps:tick", "steps_library:tick", "-s",
                  self.name, "-c", "c")
        self.is_enabled = not self.is_enabled

    def stored(self):
        """How many steps:tick, so far."""
        return next(channel["events"] for channel in self.session(self.name)["channels"] if channel["name"] == "c")

    def begin_chunk(self):
        """The one before is complete."""
        stored = self.stored()
        self.chunks[-1].stored = stored - self.events_before - self.cleared_events
        self.events_before = stored
        self.cleared_events = 0
        self.chunks.append(Chunk())

    def forget_chunk(self):
        for pid, numbers in self.chunks[-1].emitted.items():
            self.cleared[pid].update(numbers)
        self.chunks[-1] = Chunk()
        self.cleared_events = self.stored() - self.events_before

    def asked(self, verb):
        begin = time.monotonic()
        result = subprocess.run([LEAT, verb, self.name], capture_output=True, text=True, timeout=PATIENCE)
        if self.relay_state == "alive":
            self.assertLess(time.monotonic() - begin, STOPPED_PATIENCE, verb)
        return result

    def rotate(self):
        result = self.asked("rotate")
        if result.returncode == 0:
            return self.begin_chunk()
        self.note(result.stderr.strip())
        self.assertRegex(result.stderr, "nothing" if self.relay_is_whole() else "relay|nothing")
        return None

    def relay_is_whole(self):
        return not self.options.relay or not (self.was_cut or self.was_killed)

    def clear(self):
        result = self.asked("clear")
        self.was_cleared = True
        if result.returncode == 0:
            return self.forget_chunk()
        self.note(result.stderr.strip())
        self.assertFalse(self.options.has_directory, result.stderr)
        self.chunks[-1].may_be_cleared = True
        return None

    def be_refused(self):
        """What is fixed by the first start."""
        self.leat("add-context", "vgid", "-s", self.name, status=1)
        self.leat("enable-channel", "late", "-s", self.name, status=1)

    # Faults.

    def kill_daemon(self):
        self.kill(self.server)
        self.server_state = "dead"
        self.was_killed = True
        self.end_follower()

    def start_daemon(self):
        self.server = self.start_again(self.server)
        self.server_state = "alive"
        self.wait_for_programs(*self.programs)
        for traced in self.programs:
            traced.is_known = True

    def kill_daemon_in_a_verb(self):
        verb = self.source.choice(("rotate", "clear", "stop", "start"))
        self.note(verb)
        archived = self.archived()
        client = subprocess.Popen([LEAT, verb, self.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.source.random() * 0.02)
        self.kill_daemon()
        client.communicate(timeout=PATIENCE)
        self.start_daemon()
        self.is_active = self.session(self.name)["state"] == "active"
        # The thread of the session finishes what it has begun before it obeys.
        self.leat("stop", self.name)
        if self.is_active:
            self.leat("start", self.name)
        if verb == "rotate" and self.archived() > archived:
            self.note("done")
            self.begin_chunk()
        if verb == "clear":
            self.was_cleared = True
            self.chunks[-1].may_be_cleared = True

    def replace_daemon(self):
        count = self.server.log().count(" ready in ")
        self.server.send_signal(signal.SIGUSR2)
        wait_until(lambda: self.server.log().count(" ready in ") > count, "the daemon does not come back")
        # It may have found the trace of a process by now that goes on, before it saw that the others have ended.
        if self.follower and (self.options.buffers == "--buffers=user" or self.follower.ends_soon()):
            self.end_follower()
        self.was_killed = True

    def stop_daemon(self):
        stop_process(self.server.process.pid)
        self.server_state = "stopped"

    def continue_daemon(self):
        self.server.send_signal(signal.SIGCONT)
        self.server_state = "alive"

    def kill_relay(self):
        self.relay.kill()
        self.relay_state = "dead"
        self.was_cut = True

    def stop_relay(self):
        stop_process(self.relay.process.pid)
        self.relay_state = "stopped"

    def bring_relay_back(self):
        if self.relay_state == "dead":
            self.relay.start()
        else:
            self.relay.process.send_signal(signal.SIGCONT)
        self.relay_state = "alive"

    # Followers.

    def can_follow(self):
        return self.follower is None and self.server_state == "alive" and self.options.has_directory and \
            any(path.stat().st_size for path in self.trace_directory.rglob("metadata"))

    def follow(self):
        self.follower = Follower(self.trace_directory, self.directory / f"followed-{self.started}",
                                 len(self.chunks) - 1)
        self.started += 1
        self.addCleanup(self.follower.kill)

    def end_follower(self):
        """It has printed no more than was emitted, in order, whatever was cleared or removed meanwhile. Returns the
        numbers of each program."""
        if self.follower is None:
            return None
        follower, self.follower = self.follower, None
        status, errors, lines = follower.end()
        self.note(f"follower: {len(lines)} lines")
        self.assertEqual(status, 0, errors)
        for line in errors.splitlines():
            if not any(known.search(line) for known in (DISCARDED_IN_CHUNK, MISSED, TOLD_BY_FOLLOWER)):
                self.fail(f"the follower says {line}")
        numbers = collections.defaultdict(list)
        for line in lines:
            if match := TICK.search(line):
                numbers[int(match[1])].append(int(match[2]))
        for pid, found in numbers.items():
            at = next((i for i in range(1, len(found)) if found[i] <= found[i - 1]), None)
            self.assertIsNone(at, at and f"the follower prints of {pid}: {found[at - 2:at + 2]} at {at} of {len(found)}")
            strangers = set(found) - self.numbers_emitted(pid)
            self.assertFalse(strangers, f"the follower prints of {pid}: {sorted(strangers)[:5]}")
        return numbers

    def numbers_emitted(self, pid):
        return self.unplaced_numbers[pid].union(self.cleared[pid], *(chunk.emitted[pid] for chunk in self.chunks))

    def check_last_follower(self):
        """The session has ended well, so it has printed all that is in the chunks that it has seen growing."""
        follower = self.follower
        followed = self.end_follower()
        if followed is None or self.options.drops_files or self.options.buffers == "--buffers=pid":
            return
        for directory in self.chunks_of(self.trace_directory)[follower.chunk:]:
            for pid, numbers in self.read_chunk(directory)[0].items():
                missing = sorted(set(numbers).difference(followed[pid]))
                self.assertEqual(missing[:5], [], f"the follower lacks events of {pid} in {directory}")

    # What must hold.

    def emitted(self):
        return self.unplaced + sum(len(numbers) for chunk in self.chunks for numbers in chunk.emitted.values()) + \
            sum(map(len, self.cleared.values()))

    def check_counts(self):
        """No more than there were."""
        being_written = sum(traced.is_stopped for traced in self.programs)
        stored = self.stored()
        self.assertLessEqual(stored, self.emitted() + being_written)
        # A relay's word that it has stored them may still be under way.
        if stored == self.emitted() and self.options.has_directory:
            self.unread = 0

    def check_all_counted(self, counts):
        events = counts["events"] - self.kept_events
        reasons = by_reason({"discarded": {"c": counts["discarded"].get("c", {})}})
        not_attached = by_reason(counts).get("not_attached", 0)
        counted = sum(reasons.values()) - reasons.get("not_attached", 0)
        self.lost = counted + not_attached
        self.all_kept = not by_reason({"discarded": {"s": counts["discarded"].get("s", {})}}) and not not_attached
        self.assertLessEqual(events + counted, self.emitted())
        self.assertGreaterEqual(events + counted + not_attached, self.emitted() - self.may_miss)

    def archived(self):
        """How many chunks are complete."""
        return len(list(self.trace_directory.glob("archives/*")))

    def read_chunk(self, directory):
        """The numbers of each program's events. The contexts say the same."""
        numbers = collections.defaultdict(list)
        values = {}
        # One that was killed before it wrote any metadata leaves no trace.
        if not any(path.stat().st_size for path in directory.rglob("metadata")):
            return numbers, values
        known = re.compile(f"{DISCARDED_IN_CHUNK.pattern}|{EMPTY_INDEX.pattern}") if self.was_cut else DISCARDED_IN_CHUNK
        for line in self.read(directory, warnings=known).lines:
            if match := TICK.search(line):
                numbers[int(match[1])].append(int(match[2]))
                if "$app.steps:number" in self.options.contexts:
                    self.assertEqual((NUMBER.search(line) or ["", line])[1], match[2])
            elif match := KEPT.search(line):
                values[int(match[1]), int(match[2])] = int(match[3])
        return numbers, values

    def check_bytes(self):
        """The limit of a session counts what is stored, whoever stored it. Idle streams of live sessions get an empty packet
        now and then."""
        if not self.options.limits or not self.options.has_directory or self.options.drops_files or self.was_cleared:
            return

        def are_counted():
            counted = self.session(self.name)["bytes"]
            files = [path for path in self.trace_directory.rglob("*_*") if path.is_file() and path.suffix != ".idx"]
            return counted == sum(path.stat().st_size for path in files)
        wait_until(are_counted, "other bytes are counted than there are in files")

    def check_directory(self, last_values):
        """Each chunk has what was emitted in it. Returns what all have."""
        all_numbers = collections.defaultdict(list)
        there = self.chunks_of(self.trace_directory)
        self.assertEqual(len(there), len(self.chunks))
        for directory, chunk in zip(there, self.chunks):
            numbers, values = self.read_chunk(directory)
            self.check_chunk(chunk, numbers)
            for pid, found in numbers.items():
                all_numbers[pid] += found
        # A value that a program sets is an event as any other. If that is lost, it is counted.
        for key, value in last_values.items() if self.all_kept else ():
            self.assertEqual(values.get(key), value, f"the last chunk has another value of {key}: {values}")
        return all_numbers

    def check_chunk(self, chunk, numbers):
        for pid, found in numbers.items():
            self.assertEqual(found, sorted(set(found)), "order")
            strangers = set(found).difference(chunk.emitted[pid], self.unplaced_numbers[pid])
            self.assertFalse(strangers, f"of {pid}: {sorted(strangers)[:5]} are of another chunk, or cleared")
        if chunk.may_be_cleared:
            return
        count = sum(map(len, numbers.values()))
        if self.options.drops_files:
            for pid, found in numbers.items():
                if self.lost == 0 and pid not in self.unplaced_numbers:
                    self.assertEqual(found, chunk.emitted[pid][-len(found):])
        elif chunk.stored is not None:
            self.assertEqual(count, chunk.stored)
        missing = sum(len(set(emitted).difference(numbers[pid])) for pid, emitted in chunk.emitted.items())
        if not self.options.drops_files:
            self.assertLessEqual(missing, self.lost)

    def check_relay(self, in_directory):
        found = collections.defaultdict(list)
        for part in self.relay.parts(self.name):
            for pid, numbers in self.numbers_of_part(part).items():
                found[pid] += numbers
        every = {pid: set(numbers) for pid, numbers in found.items()}
        if self.options.has_directory:
            self.check_second(found, in_directory)
            return
        expected = collections.defaultdict(set)
        maybe = False
        for chunk in self.chunks:
            maybe |= chunk.may_be_cleared
            for pid, numbers in chunk.emitted.items():
                expected[pid].update(numbers)
        missing = sum(len(numbers - every.get(pid, set())) for pid, numbers in expected.items())
        if not maybe and not self.options.drops_files:
            self.assertLessEqual(missing, self.lost, "the relay has less")
        for pid, numbers in every.items():
            self.assertLessEqual(numbers, expected[pid] | self.cleared[pid] | self.unplaced_numbers[pid])
        if self.relay_is_whole():
            self.assertEqual({pid: len(numbers) for pid, numbers in found.items()},
                             {pid: len(numbers) for pid, numbers in every.items()}, "twice at the relay")

    def numbers_of_part(self, part):
        part_numbers = collections.defaultdict(list)
        for chunk in self.chunks_of(part):
            for pid, numbers in self.read_chunk(chunk)[0].items():
                part_numbers[pid] += numbers
        for pid, numbers in part_numbers.items():
            self.assertEqual(numbers, sorted(set(numbers)), f"order in {part}")
        return part_numbers

    def check_second(self, found, in_directory):
        """The relay beside a directory has nothing twice, unless it was killed before it could confirm that; and all, if
        nothing has befallen it."""
        for numbers in found.values() if not self.was_cut else ():
            self.assertEqual(len(numbers), len(set(numbers)), "twice at the relay")
        if self.relay_is_whole() and not self.missed and not self.options.drops_files and not self.cleared:
            self.assertEqual({pid: sorted(numbers) for pid, numbers in found.items()},
                             {pid: sorted(numbers) for pid, numbers in in_directory.items() if numbers})

    def end(self):
        if self.server_state == "dead":
            self.start_daemon()
        if self.server_state == "stopped":
            self.continue_daemon()
        if self.relay_state != "alive":
            self.bring_relay_back()
        if any(traced.is_stopped for traced in self.programs):
            self.continue_program()
        last_values = {}
        if self.is_active:
            last_values = {(traced.pid, key): value for traced in self.programs for key, value in traced.values.items()}
        self.json("stop", self.name)
        shown = self.session(self.name)
        self.check_bytes()
        self.missed = shown.get("relay_missed_packets", 0)
        self.kept_events = next(channel["events"] for channel in shown["channels"] if channel["name"] == "s")
        counts = self.json("destroy", self.name)
        for traced in self.programs:
            self.assertEqual(traced.running.end(), 0)
        self.check_all_counted(counts)
        stored = counts["events"] - self.kept_events
        self.chunks[-1].stored = stored - self.events_before - self.cleared_events
        in_directory = self.check_directory(last_values) if self.options.has_directory else None
        self.check_last_follower()
        if self.options.relay:
            self.check_relay(in_directory)

    def test_model(self):
        seeds = random.Random(SEED)
        self.server = self.daemon()
        self.started = 0
        end = time.monotonic() + 0.75 * SECONDS
        number = 0
        while number == 0 or time.monotonic() < end and SEED is None:
            seed = int(SEED) if SEED else seeds.randrange(1 << 32)
            try:
                self.begin(seed, number)
                self.take_steps()
                self.end()
            except Exception as error:
                steps = "\n".join(self.log)
                raise AssertionError(f"LEAT_SEED={seed}: {error}\n{steps}\n{self.server.log()[-3000:]}") from error
            number += 1
        print(f"{number} sequences", flush=True)


class TwoClients(RestartTest):
    """They steer the same sessions at once, while programs emit."""

    VERBS = (("create", 3), ("destroy", 2), ("start", 4), ("stop", 3), ("rotate", 2), ("clear", 1), ("enable-event", 2),
             ("disable-event", 2), ("enable-channel", 1), ("list", 1), ("status", 1))

    def setUp(self):
        super().setUp()
        self.troubles = []

    def ask(self, source, client, number):
        name = f"web-{source.randrange(2)}"
        verb, = source.choices([verb for verb, _ in self.VERBS], [weight for _, weight in self.VERBS])
        arguments = [verb, "-s", name]
        if verb in ("create", "destroy", "start", "stop", "rotate", "clear", "list"):
            arguments = [verb, name]
        if verb == "create":
            arguments += ["-o", self.directory / f"trace-{client}-{number}"]
        if verb.endswith("-event"):
            arguments += ["load:*", *(["-c", "c"] if source.random() < 0.5 else [])]
        if verb == "enable-channel":
            arguments += ["c", "--ring-size=4M"]
        if source.random() < 0.5:
            arguments.append("--format=json")
        begin = time.monotonic()
        result = subprocess.run([LEAT, *arguments], capture_output=True, text=True, timeout=PATIENCE)
        self.assertLess(time.monotonic() - begin, STOPPED_PATIENCE, arguments)
        self.check_answer(arguments, result)

    def check_answer(self, arguments, result):
        """It was done, or there is one line that says why it was not."""
        self.assertIn(result.returncode, (0, 1), (arguments, result))
        if arguments[-1] == "--format=json":
            answer = json.loads(result.stdout)
            self.assertEqual(answer["ok"], result.returncode == 0, (arguments, answer))
            reason = answer.get("error", "")
        else:
            self.assertTrue(result.returncode == 1 or result.stdout, arguments)
            reason = result.stderr
        if result.returncode == 1:
            self.assertEqual(len(reason.splitlines()), 1, (arguments, result))

    def steer(self, seed, client):
        source = random.Random(seed)
        try:
            for number in itertools.count():
                if time.monotonic() > self.end:
                    return
                self.ask(source, client, number)
        except Exception as error:
            self.troubles.append(f"LEAT_SEED={self.seed}: {error!r}")

    def test_each_is_answered_and_the_end_is_what_the_list_says(self):
        self.daemon()
        self.switched(2, 20, 2000)
        self.end = time.monotonic() + 0.25 * SECONDS
        clients = [threading.Thread(target=self.steer, args=(self.random.random(), client)) for client in range(2)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        self.assertEqual(self.troubles, [])
        sessions = self.json("list")["sessions"]
        for session in sessions:
            self.check_end(session)
        self.assertEqual(self.json("list")["sessions"], [])

    def check_end(self, session):
        """It obeys from where the list says that it is."""
        name = session["name"]
        is_active = session["state"] == "active"
        stopped = self.json("stop", name)
        self.assertEqual(stopped.get("already", False), not is_active, stopped)
        self.assertEqual(self.session(name)["state"], "inactive")
        events = sum(channel["events"] for channel in self.session(name)["channels"])
        destroyed = self.json("destroy", name)
        self.assertEqual((destroyed["events"], stopped["events"]), (events, events))
        self.leat("stop", name, status=1)


if __name__ == "__main__":
    main()
