#!/usr/bin/env python3
"""`leat record --live` and `-o net://...`, watched by babeltrace2 and `leat view`, over lttng-relayd and leat-relayd."""
import json
import pathlib
import re
import signal
import subprocess

import relay_peer
from relays import LeatRelay, LttngRelay, free_ports
from support import (DISCARDED, LEAT, ON_ONE_CPU, PATIENCE, InteropTest, is_described, lines_of, main, outside_gate,
                     program, stop_process, wait_until)


class Producer(InteropTest):
    relay_class = LttngRelay

    def setUp(self):
        super().setUp()
        self.relay = self.relay_class(self.directory / "relay")
        self.addCleanup(self.relay.kill)
        self.summary_file = self.directory / "summary.json"

    def start(self, *command, options=None):
        """Starts leat record and does not wait for its end."""
        options = (f"--live={self.relay.url}",) if options is None else options
        self.errors = self.directory / "errors"
        with open(self.errors, "wb") as errors:
            process = subprocess.Popen([LEAT, "record", *options, "--summary", str(self.summary_file), "--", *command],
                                       stdin=subprocess.PIPE, stderr=errors, text=True)
        self.addCleanup(self.end, process)
        return process

    def start_paced(self, *arguments, options=None):
        """Starts a recording of `paced`. The program begins at the first line that it is sent, and its shell ends at
        the second."""
        options = (f"--live={self.relay.url}", "--session", "paced") if options is None else options
        self.emitted = self.directory / "emitted"
        script = f'"$@" && touch {self.emitted} && read line'
        return self.start("sh", "-c", script, "sh", program("paced"), *arguments, options=options)

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def finish(self, process):
        """Returns what the recording says on stderr, after a normal end."""
        process.communicate(timeout=PATIENCE)
        errors = self.errors.read_text()
        self.assertEqual(process.returncode, 0, errors)
        return errors

    def wait_for_session(self):
        """Waits until the relay has taken the session: metadata come when all else is answered."""
        wait_until(lambda: is_described(self.relay.output), "the session")

    def wait_for_stored(self):
        """Waits until the relay has some events, but not all."""
        wait_until(lambda: any(path.stat().st_size > 0 for path in self.relay.output.rglob("channel0_*")), "stored events")

    @property
    def summary(self):
        return json.loads(self.summary_file.read_text())

    def begin(self, process):
        process.stdin.write("\n")
        process.stdin.flush()

    BABELTRACE2 = ["babeltrace2", "-i", "lttng-live"]
    LEAT_VIEW = [LEAT, "view"]

    def watch(self, command, name):
        """Starts a viewer. Returns it and the file that it prints into."""
        text = self.directory / f"{pathlib.Path(command[0]).name}.txt"
        output = open(text, "wb")
        self.addCleanup(output.close)
        viewer = subprocess.Popen([*command, self.relay.live_url(name)], stdout=output, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, viewer)
        return viewer, text

    def numbers(self, text, event="test:paced"):
        """(thread, n) of each event, in order."""
        return [(int(match[1]), int(match[2]))
                for match in re.finditer(rf"{event}: .*thread = (\d+), n = (\d+)", text)]

    def read_parts(self, warnings=DISCARDED):
        """The events of all parts. Every reader reads each part."""
        return [pair for part in self.relay.parts() for pair in self.numbers(self.read(part, warnings).text)]

    def assert_all_once(self, numbers, count, threads=1):
        self.assertEqual(sorted(numbers), [(thread, n) for thread in range(threads) for n in range(count)])

    def check_newest_files_are_kept(self):
        limits = ("--tracefile-size", "1M", "--tracefile-count", "2")
        recording = self.start(*ON_ONE_CPU, program("emit"), "400000", "1",
                               options=("-o", self.relay.url, "--ring-size", "16M", *limits))
        closing_line = self.finish(recording).splitlines()[-1]
        self.assertEqual(self.summary["discarded"], 0)
        [part] = self.relay.parts()
        place = re.search("the relay has them in (.*)-DATE below its --output directory$", closing_line)[1]
        self.assertTrue(str(part).startswith(f"{self.relay.output}/{place}-"), (part, closing_line))
        files = {}
        for path in part.rglob("channel0_*_*"):
            if path.parent.name != "index":
                files.setdefault(path.name.rpartition("_")[0], []).append(path.stat().st_size)
        self.assertIn(2, map(len, files.values()))
        self.assertLessEqual(max(map(len, files.values())), 2)
        self.assertLessEqual(max(max(sizes) for sizes in files.values()), 1 << 20)
        kept = [n for _, n in self.numbers(self.read(part).text, "test:count")]
        self.assertLess(len(kept), 400000, "no file was written over")
        self.assertGreater(len(kept), 10000, "two files hold more")
        self.assertEqual(kept, list(range(400000 - len(kept), 400000)))

    def check_watched(self, *commands):
        """All viewers print every event while the program runs, and the same events as are in the directory."""
        process = self.start_paced("200", "1000", "2")
        self.wait_for_session()
        viewers = [self.watch(command, "paced") for command in commands]
        lister = relay_peer.Viewer(self.relay)
        self.addCleanup(lister.close)
        wait_until(lambda: lister.clients()["paced"] == len(viewers), "the viewers to attach")
        self.begin(process)
        for viewer, text in viewers:
            wait_until(lambda: len(self.numbers(text.read_text())) == 2 * 200, "all events while the program runs")
        self.assertIsNone(process.poll())
        self.begin(process)
        self.finish(process)
        self.assert_all_once(self.read_parts(), 200, threads=2)
        stored = self.read(self.relay.parts()[0]).text
        for viewer, text in viewers:
            self.assertEqual(viewer.wait(PATIENCE), 0, viewer.stderr.read())
            self.assert_all_once(self.numbers(text.read_text()), 200, threads=2)
            self.assertEqual(lines_of(text.read_text()), lines_of(stored))
        self.assertEqual(self.summary["relay"]["packets_lost"], 0)
        self.assertEqual(self.summary["relay"]["packets_stored"], self.summary["packets"])


class OverOurRelay(Producer):
    relay_class = LeatRelay

    def test_several_watch(self):
        self.check_watched(self.BABELTRACE2, self.LEAT_VIEW)

    @outside_gate("its ring overflows if nobody drains it for a while")
    def test_newest_files_are_kept(self):
        self.check_newest_files_are_kept()

    def test_streaming_with_a_follower(self):
        recording = self.start_paced("100", "1000", options=("-o", self.relay.url))
        wait_until(lambda: is_described(self.relay.output), "the session")
        text = self.directory / "followed"
        with open(text, "wb") as output:
            follower = subprocess.Popen([*self.LEAT_VIEW, "--follow", str(self.relay.parts()[0])], stdout=output,
                                        stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, follower)
        self.begin(recording)
        # Only some of them: without a live timer, nobody says that a quiet stream will bring nothing older.
        wait_until(lambda: self.numbers(text.read_text()), "events while the program runs")
        self.assertIsNone(recording.poll())
        self.begin(recording)
        self.finish(recording)
        _, errors = follower.communicate(timeout=PATIENCE)
        self.assertEqual((follower.returncode, errors), (0, ""))
        self.assert_all_once(self.numbers(text.read_text()), 100)


@outside_gate("it needs LTTng's relay")
class LiveProducer(Producer):
    def test_babeltrace2_watches(self):
        self.check_watched(self.BABELTRACE2)

    def test_leat_view_watches(self):
        self.check_watched(self.LEAT_VIEW)

    def test_streaming(self):
        recording = self.start(program("emit"), "200000", "2", options=("-o", self.relay.url, "--ring-size", "16M"))
        self.finish(recording)
        self.assertEqual(self.summary["discarded"], 0)
        [part] = self.relay.parts()
        self.assert_all_once(self.numbers(self.read(part).text, "test:count"), 200000, threads=2)

    def test_newest_files_are_kept(self):
        self.check_newest_files_are_kept()

    def test_killed_relay_comes_back(self):
        process = self.start_paced("400", "1000", "2")
        self.wait_for_session()
        self.begin(process)
        self.wait_for_stored()
        self.relay.kill()
        wait_until(self.emitted.exists, "all events, while there is no relay")
        self.relay.start()
        wait_until(lambda: len(self.relay.parts()) == 2, "the recorder to find it again")
        self.begin(process)
        errors = self.finish(process)
        self.assertRegex(errors, r"warning: relay 127\.0\.0\.1:\d+: .*events stay in the rings until it is back")
        self.assertEqual(self.summary["relay"]["parts"], 2)
        self.assertEqual(self.summary["relay"]["events_lost"], 0)
        self.assertEqual(len(self.relay.parts()), 2)
        # Packets that were stored but not yet acknowledged are there twice. A relay that is killed between a packet and
        # its index entry leaves data that its index does not list, and an index that is empty at the very beginning.
        unlisted = re.compile(rf"{DISCARDED.pattern}|.* indexed size != stream file size: "
                              "|.* Invalid LTTng trace index file: file size .0 bytes.")
        self.assert_all_once(set(self.read_parts(unlisted)), 400, threads=2)

    def test_stopped_relay_costs_no_event(self):
        process = self.start_paced("10000", "100", "2")
        self.wait_for_session()
        self.begin(process)
        self.wait_for_stored()
        stop_process(self.relay.process.pid)
        wait_until(self.emitted.exists, "all events, while the relay stands still")
        self.relay.process.send_signal(signal.SIGCONT)
        self.begin(process)
        self.finish(process)
        self.assertEqual(self.summary["discarded"], 0)
        self.assertEqual(self.summary["relay"]["parts"], 1)
        self.assert_all_once(self.read_parts(), 10000, threads=2)

    def test_relay_that_stays_away(self):
        process = self.start(program("paced"), "50", "1000")
        self.wait_for_session()
        self.relay.kill()
        self.begin(process)
        errors = self.finish(process)
        self.assertRegex(errors, r"leat: relay \S+ does not take packets? .* of stream channel0_\d+.*: 50 events: "
                                 r"the trace lacks 50 events")
        self.assertEqual(self.summary["relay"]["events_lost"], 50)


class NoRelay(InteropTest):
    def refused(self, *options):
        marker = self.directory / "started"
        result = subprocess.run([LEAT, "record", *options, "--", "touch", str(marker)], capture_output=True, text=True,
                                timeout=PATIENCE)
        self.assertNotEqual(result.returncode, 0)
        self.assertFalse(marker.exists(), "the program was started")
        return result.stderr

    def test_nobody_listens(self):
        [port] = free_ports(1)
        self.assert_one_line(self.refused(f"--live=net://127.0.0.1:{port}"), f"cannot reach relay 127.0.0.1:{port}: ",
                             "start leat-relayd there, or check the address")

    def test_bad_addresses(self):
        for url in ("tcp://x", "net://", "net://h:0", "net://h:70000", "net://h:1:2:3", "net://[::1", "net://h:x"):
            self.assert_one_line(self.refused(f"--live={url}"), "write net://HOST[:CONTROL[:DATA]]")
        self.assert_one_line(self.refused("--live=net://no-such-host.invalid"), "cannot find the host")

    def test_names_that_are_none(self):
        for name in ("n" * 255, "a/b", ".hidden", ".."):
            self.assert_one_line(self.refused("--live", "--session", name), "cannot name a session",
                                 "choose another with --session")

    def test_limits_of_files_that_cannot_be(self):
        self.assert_one_line(self.refused("--tracefile-size", "1"), "--tracefile-size is at least 4096 bytes")
        self.assert_one_line(self.refused("--live", "--tracefile-count", "2"), "give both")

    def test_live_and_directory(self):
        self.assert_one_line(self.refused("--live", "-o", "net://127.0.0.1"), "a session goes to one relay")


@outside_gate("it needs LTTng's relay")
class OtherRelay(InteropTest):
    def test_lttng_relayd_takes_no_datagrams(self):
        relay = LttngRelay(self.directory / "relay")
        self.addCleanup(relay.kill)
        result = subprocess.run([LEAT, "record", f"--live=net+udp://127.0.0.1:{relay.control}", "--", "false"],
                                capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, 1)
        self.assert_one_line(result.stderr, f"relay 127.0.0.1:{relay.control}: it does not take datagrams: use net://")


if __name__ == "__main__":
    main()
