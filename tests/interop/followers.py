#!/usr/bin/env python3
"""A follower of a session's directory prints each event once and in order, whatever is rotated and cleared meanwhile."""
import os
import random
import re
import resource
import shutil
import signal
import subprocess

from relay_peer import DELETE_CHUNK, METADATA, MOVE_CHUNK, Producer
from session_daemons import RelayedTest, as_user
from support import (IS_WHOLE, LEAT, PATIENCE, Held, can_be_two_users, has, is_described, main, needs,
                     open_files_of, outside_gate, sleeps_of, state_of, stop_process, wait_until)

LIMITS = ("--tracefile-size=8K", "--tracefile-count=2")
OTHER = 1000  # who is not root
CPU = min(os.sched_getaffinity(0))
NUMBER = re.compile(r"\bn = (\d+)")
MISSED = re.compile("^(WARNING: Missed .*: their files|leat: warning: .*: the files of its stream before this one) "
                    "were replaced before they were read")


class FollowerTest(RelayedTest):
    def follow(self, *directories, uid=None):
        self.printed = self.directory / "printed"
        with open(self.printed, "w", encoding="utf-8") as output:
            self.follower = subprocess.Popen([LEAT, "view", "--follow", *directories], stdout=output,
                                             stderr=subprocess.PIPE, text=True, **as_user(uid))
        self.addCleanup(self.follower.communicate)
        self.addCleanup(self.follower.kill)

    def numbers(self):
        return [int(n) for n in NUMBER.findall(self.printed.read_text(encoding="utf-8"))]

    def wait_for_number(self, number):
        wait_until(lambda: number in self.numbers(), f"event {number} is not printed")

    def end(self, status=0):
        """What it says."""
        _, errors = self.follower.communicate(timeout=PATIENCE)
        self.assertEqual(self.follower.returncode, status, errors)
        return errors


class Followers(FollowerTest):
    def followed(self, *options, places=()):
        """A session, and a follower that has printed the first events of a program."""
        directory = self.directory / "trace"
        self.leat("create", "web", "-o", directory, *places)
        self.leat("enable-channel", "c", *options)
        self.leat("enable-event", "order:tick")
        self.leat("start")
        running = self.program()
        os.sched_setaffinity(running.pid, {CPU})  # all events are in one stream
        running.do("emit 10")
        wait_until(lambda: is_described(directory), "there is no trace")
        self.follow(directory)
        self.wait_for_number(9)
        return directory, running

    def test_stopped_while_the_session_is_rotated(self):
        """It finds the directory of the chunk elsewhere, with events that it has not read."""
        self.daemon()
        _, running = self.followed("--tracefile-size=8K")
        stop_process(self.follower.pid)
        running.do("emit 1000")
        self.leat("rotate")
        emitted = running.do("emit 1000")
        self.follower.send_signal(signal.SIGCONT)
        self.wait_for_number(emitted - 1)
        self.leat("destroy")
        self.assertEqual(self.end(), "")
        self.assertEqual(self.numbers(), list(range(emitted)))

    def test_chunks_that_begin_and_end_while_it_is_busy(self):
        """They are shown, and those that it knows already are not shown again."""
        self.daemon()
        _, running = self.followed()
        stop_process(self.follower.pid)
        for _ in range(3):
            running.do("emit 100")
            self.leat("rotate")
        emitted = running.do("emit 100")
        self.leat("destroy")
        self.follower.send_signal(signal.SIGCONT)
        self.assertEqual(self.end(), "")
        self.assertEqual(self.numbers(), list(range(emitted)))

    def test_programs_that_begin_and_end_while_it_is_busy(self):
        """Each has a trace of its own."""
        self.daemon()
        _, running = self.followed("--buffers=pid")
        stop_process(self.follower.pid)
        other = self.program()
        other.do("emit 50")
        other.end()
        self.leat("destroy")
        running.end()
        self.follower.send_signal(signal.SIGCONT)
        self.assertEqual(self.end(), "")
        self.assertEqual(sorted(self.numbers()), sorted([*range(10), *range(50)]))

    def test_trace_beside_it_that_cannot_be_followed(self):
        """It is told of, and ends nothing else."""
        self.daemon()
        directory, running = self.followed()
        bad = directory / "ust" / "bad"
        bad.mkdir()
        (bad / ".leat-sync").touch()
        (bad / "metadata").write_bytes(next(directory.rglob("metadata")).read_bytes())
        self.assertIn(str(bad), self.follower.stderr.readline())
        emitted = running.do("emit 10")
        self.wait_for_number(emitted - 1)
        self.leat("destroy")
        self.end(1)
        self.assertEqual(self.numbers(), list(range(emitted)))

    def test_signals_that_are_ignored(self):
        """As by nohup."""
        self.daemon()
        _, running = self.followed()
        self.follower.kill()
        self.follower.communicate(timeout=PATIENCE)
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.follow(self.directory / "trace")
        signal.signal(signal.SIGHUP, before)
        self.wait_for_number(9)
        self.follower.send_signal(signal.SIGHUP)
        emitted = running.do("emit 10")
        self.wait_for_number(emitted - 1)
        self.leat("destroy")
        self.assertEqual(self.end(), "")

    def test_chunk_that_is_removed_after_its_rotation(self):
        self.daemon()
        directory, running = self.followed()
        stop_process(self.follower.pid)
        begin = running.do("emit 100")
        self.leat("rotate")
        shutil.rmtree(directory / "archives")
        emitted = running.do("emit 100")
        self.follower.send_signal(signal.SIGCONT)
        self.wait_for_number(emitted - 1)
        self.leat("destroy")
        self.end()
        numbers = self.numbers()
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertLessEqual(set(range(begin, emitted)), set(numbers))

    def test_traces_of_processes_that_are_cleared(self):
        """The directory of the one that it follows goes away."""
        self.daemon()
        _, running = self.followed("--buffers=pid")
        other = self.program()
        other.do("emit 50")
        self.wait_for_number(49)
        stop_process(self.follower.pid)
        running.end()
        self.leat("clear")
        emitted = other.do("emit 10")
        self.follower.send_signal(signal.SIGCONT)
        self.wait_for_number(emitted - 1)
        self.leat("destroy")
        self.end()
        self.assertEqual(self.numbers()[-10:], list(range(emitted - 10, emitted)))

    @needs(can_be_two_users(), "two-users")
    def test_trace_that_is_removed_beside_a_directory_that_may_not_be_read(self):
        self.daemon()
        top = self.directory / "top"
        (top / "hidden").mkdir(parents=True)
        self.leat("create", "web", "-o", top / "trace")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        running = self.program()
        os.sched_setaffinity(running.pid, {CPU})  # all events are in one stream
        running.do("emit 10")
        # By then it has all its files.
        wait_until(lambda: self.session("web")["channels"][0]["events"] == 10 and any((top / "trace").rglob("*_*.idx")),
                   "nothing is stored")
        for path in (self.directory, top, *top.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (top / "hidden").chmod(0o700)
        self.follow(top, uid=OTHER)
        self.wait_for_number(9)
        shutil.rmtree(top / "trace")
        self.leat("destroy")
        self.assertEqual(self.end(1), f"leat: warning: cannot read directory {top / 'hidden'}: Permission denied\n"
                         "leat: what is in 1 directory that cannot be read is missing\n")

    @outside_gate("the session waits 10 s for the relay")
    def test_trace_that_is_moved_while_it_waits_for_a_relay(self):
        """It is the same trace as before."""
        self.daemon()
        _, running = self.followed("--buffers=pid", places=(f"--live={self.relay.url}",))
        other = self.program()
        stop_process(self.relay.process.pid)
        emitted = running.do("emit 100")
        self.wait_for_number(emitted - 1)
        running.end()
        self.leat("rotate")
        other.do("emit 200")
        self.wait_for_number(199)
        self.relay.process.send_signal(signal.SIGCONT)
        self.leat("destroy")
        self.end()
        lines = self.printed.read_text(encoding="utf-8").splitlines()
        for program, count in ((running, emitted), (other, 200)):
            of_program = [int(NUMBER.search(line)[1]) for line in lines if f" vpid = {program.pid}," in line]
            self.assertEqual(of_program, list(range(count)))

    def test_clears_and_rotations_of_limited_files(self):
        self.daemon()
        _, running = self.followed(*LIMITS)
        for turn in range(12):
            running.do("emit 300")
            self.leat("rotate" if turn % 4 == 3 else "clear")
            emitted = running.do("emit 20")
        self.leat("destroy")
        for line in self.end().splitlines():
            self.assertRegex(line, MISSED)
        numbers = self.numbers()
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(numbers[-20:], list(range(emitted - 20, emitted)))


class OfARelay(FollowerTest):
    """A follower of what a relay writes, whose metadata comes when its producer likes."""

    def setUp(self):
        super().setUp()
        self.producer = Producer(self.relay)
        self.addCleanup(self.producer.close)

    def wait_for_numbers(self, numbers):
        wait_until(lambda: self.numbers() == numbers, f"not {numbers} are printed")

    def open_files(self):
        """Those of traces that the follower has open."""
        return [path for path in open_files_of(self.follower.pid) if path.startswith(str(self.relay.output))]

    def assert_ends(self):
        self.producer.finish()
        self.assertEqual(self.end(), "")

    def followed(self, session):
        """The producer's session begins, and a follower has printed its first events."""
        self.producer.start(session=session)
        self.producer.push([(10, 1), (20, 2)])
        self.producer.wait_until_stored()
        self.follow(*self.relay.parts(session))
        self.wait_for_numbers([1, 2])

    def test_metadata_of_the_next_chunk_comes_late(self):
        self.followed("late")
        self.producer.rotate(1)
        wait_until(lambda: not self.open_files(), "it does not leave the old chunk")
        self.producer.send_metadata(METADATA)
        self.producer.push([(30, 3)])
        self.wait_for_numbers([1, 2, 3])
        self.assert_ends()

    def test_next_chunk_takes_the_place_of_one_that_is_cleared(self):
        for is_late in (False, True):
            with self.subTest(is_late=is_late):
                self.producer = Producer(self.relay)
                self.addCleanup(self.producer.close)
                self.followed(f"late-{is_late}")
                self.producer.rotate(1)
                if not is_late:
                    self.producer.send_metadata(METADATA)
                self.producer.close_chunk(0, DELETE_CHUNK)
                if is_late:
                    wait_until(lambda: not self.open_files(), "it does not leave the old chunk")
                    self.producer.send_metadata(METADATA)
                self.producer.push([(30, 3)])
                self.wait_for_numbers([1, 2, 3])
                self.assert_ends()

    @needs(has("strace"), "strace")
    def test_chunk_that_it_looks_at_gives_way_to_the_next(self):
        """Which has all its names, and no metadata yet: more will come."""
        self.followed("way")
        self.producer.rotate(1)
        wait_until(lambda: not self.open_files(), "it does not leave the old chunk")
        wait_until(lambda: state_of(self.follower.pid) == "S", "it does not wait")
        stop_process(self.follower.pid)
        self.producer.close_chunk(0, DELETE_CHUNK)
        self.producer.send_metadata(METADATA)
        part, = self.relay.parts("way")
        wait_until(lambda: is_described(part), "there is no metadata")
        metadata = next(part.rglob("metadata"))
        held = Held(self, self.follower.pid, "newfstatat", "-P", str(metadata))
        self.follower.send_signal(signal.SIGCONT)
        held.wait()
        self.producer.rotate(2)
        self.producer.close_chunk(1, DELETE_CHUNK)
        self.assertTrue(metadata.parent.exists())
        begin = sleeps_of(self.follower.pid)
        held.let_go()
        wait_until(lambda: state_of(self.follower.pid) == "Z" or sleeps_of(self.follower.pid) > begin, "it is still looking")
        self.producer.send_metadata(METADATA)
        self.producer.push([(30, 3)])
        self.wait_for_numbers([1, 2, 3])
        self.assert_ends()

    def test_old_chunk_gets_packets_when_the_next_has_begun(self):
        """Those of before the rotation, which come by another connection."""
        self.followed("ahead")
        wait_until(lambda: state_of(self.follower.pid) == "S", "it does not wait")
        stop_process(self.follower.pid)
        self.producer.rotate(1, ahead=2)
        self.producer.send_metadata(METADATA)
        self.follower.send_signal(signal.SIGCONT)
        wait_until(lambda: any("-1/" in path for path in self.open_files()), "it does not find the next chunk")
        for n in 3, 4, 5:
            wait_until(lambda: state_of(self.follower.pid) == "S", "it does not wait")
            self.producer.push([(10 * n, n)])
        self.wait_for_numbers([1, 2, 3, 4, 5])
        self.assert_ends()

    def test_next_chunk_for_which_there_is_no_descriptor_comes_later(self):
        """What is open is followed meanwhile."""
        self.followed("scarce")
        pid = self.follower.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (2 + max(map(int, os.listdir(f"/proc/{pid}/fd"))), limits[1]))
        self.producer.rotate(1, ahead=1)
        self.producer.send_metadata(METADATA)
        self.producer.push([(30, 3)])
        self.wait_for_numbers([1, 2, 3])
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        self.producer.push([(40, 4)])
        self.wait_for_numbers([1, 2, 3, 4])
        self.assert_ends()

    def test_session_is_cleared(self):
        _, running = self.begun_over_relay("live")
        part, = self.relay.parts("web")
        wait_until(lambda: is_described(part), "there is no trace")
        self.follow(part)
        self.wait_for_numbers(list(range(100)))
        for count in range(150, 300, 50):
            self.leat("clear")
            running.do("emit 50")
            self.wait_for_numbers(list(range(count)))
        self.leat("destroy", "web")
        self.assertEqual(self.end(), "")
        self.assertEqual(self.numbers(), list(range(250)))

    def test_one_of_several_ends_without_metadata(self):
        other = Producer(self.relay)
        self.addCleanup(other.close)
        other.start(session="other", metadata=b"")
        self.producer.start(session="this", metadata=b"")
        wait_until(lambda: len(self.relay.parts()) == 2, "there are no directories")
        self.follow(*self.relay.parts())
        wait_until(lambda: state_of(self.follower.pid) == "S", "it does not wait")
        other.finish()
        self.producer.send_metadata(METADATA)
        self.producer.push([(10, 1)])
        self.wait_for_numbers([1])
        self.assert_ends()

    def test_first_metadata_comes_late(self):
        self.producer.start(metadata=b"")
        wait_until(self.relay.parts, "there is no directory")
        self.follow(self.relay.parts()[0])
        wait_until(lambda: state_of(self.follower.pid) == "S", "it does not wait")
        self.producer.send_metadata(METADATA)
        self.producer.push([(10, 1)])
        self.wait_for_numbers([1])
        self.assert_ends()

    def test_relay_is_killed_before_metadata_comes(self):
        self.producer.start()
        self.producer.push([(10, 1)])
        self.producer.wait_until_stored()
        self.follow(self.relay.parts()[0])
        self.wait_for_numbers([1])
        self.producer.rotate(1)
        self.relay.kill()
        self.assertEqual(self.end(), "")
        self.assertEqual(self.numbers(), [1])
        trace = self.read(self.relay.parts()[0])
        self.assertEqual((trace.stderr, NUMBER.findall("\n".join(trace.lines))), ("", ["1"]))


class Sequence:
    """What a producer at a relay, of one stream, and a follower of its directory may do, in an order drawn at random. The
    follower prints each event once and in order; only what was cleared before it was printed may be missing."""

    def __init__(self, test, seed):
        self.test = test
        self.random = random.Random(seed)
        self.done = []  # for whoever must find out what went wrong
        self.producer = Producer(test.relay)
        test.addCleanup(self.producer.close)
        self.producer.start(session=f"sequence-{seed}")
        directory, = test.relay.parts(f"sequence-{seed}")
        self.next = 0
        self.chunk, self.is_old_open, self.is_old_cleared = 0, False, False
        self.ahead = 0  # packets that the old chunk still gets
        self.has_metadata, self.has_events = True, False
        self.is_stopped = False
        self.expected, self.may_be_missing = [], set()
        self.push()
        self.producer.wait_until_stored()
        test.follow(directory)
        self.catch_up()

    def push(self):
        numbers = range(self.next, self.next + self.random.randrange(1, 5))
        self.producer.push([(n + 1, n) for n in numbers])
        self.next = numbers.stop
        self.expected += numbers
        if self.ahead == 0:
            self.has_events = True
            return
        self.ahead -= 1
        if self.is_old_cleared:
            self.may_be_missing |= set(numbers)

    def may_rotate(self):
        """What has no metadata when its chunk ends, nobody can read."""
        return not self.is_old_open and self.ahead == 0 and (self.has_metadata or not self.has_events)

    def rotate(self):
        self.producer.wait_until_stored()
        self.chunk += 1
        self.ahead = self.random.randrange(3) if self.has_metadata else 0
        self.producer.rotate(self.chunk, self.ahead)
        self.is_old_open, self.is_old_cleared = True, False
        self.has_metadata = self.has_events = False

    def send_metadata(self):
        self.producer.send_metadata(METADATA)
        self.has_metadata = True

    def clear(self):
        self.may_be_missing |= set(self.expected) - set(self.test.numbers())
        self.producer.close_chunk(self.chunk - 1, DELETE_CHUNK)
        self.is_old_open, self.is_old_cleared = False, True

    def archive(self):
        self.producer.close_chunk(self.chunk - 1, MOVE_CHUNK)
        self.is_old_open = False

    def stop(self):
        stop_process(self.test.follower.pid)
        self.is_stopped = True

    def go_on(self):
        self.test.follower.send_signal(signal.SIGCONT)
        self.is_stopped = False

    def missing(self):
        return set(self.expected) - self.may_be_missing - set(self.test.numbers())

    def catch_up(self):
        self.producer.wait_until_stored()
        wait_until(lambda: not self.missing(), "events are not printed")

    def steps(self):
        """Those that are legal now."""
        found = [self.push]
        if self.may_rotate():
            found.append(self.rotate)
        if not self.has_metadata:
            found.append(self.send_metadata)
        if self.is_old_open:
            found += [self.clear, self.archive]
        found.append(self.go_on if self.is_stopped else self.stop)
        if self.has_metadata and self.ahead == 0 and not self.is_stopped:
            found.append(self.catch_up)
        return found

    def run(self, count):
        for _ in range(count):
            step = self.random.choice(self.steps())
            self.done.append(step.__name__)
            step()
        if not self.has_metadata:
            self.send_metadata()
        if self.is_stopped:
            self.go_on()
        while self.ahead > 0:
            self.push()
        self.catch_up()
        self.producer.finish()
        errors = self.test.end()
        numbers = self.test.numbers()
        self.test.assertEqual(errors, "")
        self.test.assertEqual(numbers, sorted(set(numbers)))
        self.test.assertEqual(self.missing(), set())


class RandomSequences(FollowerTest):
    def test_sequences(self):
        for seed in range(300 if IS_WHOLE else 10):
            with self.subTest(seed=seed):
                sequence = Sequence(self, seed)
                try:
                    sequence.run(25)
                except (AssertionError, TimeoutError) as error:
                    self.follower.kill()
                    said = self.follower.communicate()[1]
                    raise AssertionError(f"after {', '.join(sequence.done)}: {error}; printed: {self.numbers()}, expected: "
                                         f"{sequence.expected}; the follower: {said!r}") from error


if __name__ == "__main__":
    main()
