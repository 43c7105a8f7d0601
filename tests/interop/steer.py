#!/usr/bin/env python3
"""The verbs that steer the session daemon, as scripts rely on them."""
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess

from session_daemons import SESSIOND, SessionTest
from support import LEAT, PATIENCE, SANITIZERS, can_be_two_users, main, needs, plain_run, program, wait_until

BAD_NAMES = ("", "x" * 201, "a/b", "/", "a\nb", "a\x1b[31mb", "\x7f", "metadata", ".", "..")
GOOD_NAMES = ("x" * 200, 'say "hello"', "Zoë ☃ 漢字", "it's $HOME; `ls` %s {0}", "a*b\\c", "-dash", "[1,2]")


class SteerTest(SessionTest):
    def assert_refused(self, *arguments, status=1, parts=(), **options):
        """Both forms say the same. The text is one line."""
        result = self.leat(*arguments, status=status, **options)
        self.assert_one_line(result.stderr, *parts)
        self.assertEqual(result.stdout, "")
        answer = json.loads(self.leat(*arguments, "--format=json", status=status, **options).stdout)
        self.assertEqual((answer["ok"], answer["warnings"]), (False, []))
        self.assertEqual(answer["kind"] == "usage", status == 2, answer)
        for part in parts:
            self.assertIn(part, answer["error"])

    def assert_already(self, *arguments):
        self.assertRegex(self.leat(*arguments).stdout, r"\balready\b")
        answer = self.json(*arguments)
        parts = [part for name in ("events", "tracked", "untracked") if isinstance(answer.get(name), list)
                 for part in answer[name]]
        self.assertIn(True, [part.get("already") for part in [answer, *parts]])

    def leat(self, *arguments, **options):
        # As a name may begin with a dash, no test needs "--" in its arguments.
        if len(arguments) > 1 and str(arguments[1]).startswith("-dash"):
            arguments = (arguments[0], *arguments[2:], "--", arguments[1])
        status = options.get("status", 0)
        result = subprocess.run([LEAT, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, status, (arguments, result.stdout, result.stderr))
        self.assertTrue(result.stdout + result.stderr, f"{arguments} is silent")
        return result


class Verbs(SteerTest):
    def test_default_place_is_below_the_home_of_who_asks(self):
        daemon = self.daemon()
        for variables in ({"HOME": str(self.directory)}, {"HOME": f"{self.directory}//"}):
            created = subprocess.run([LEAT, "create", "web", "--format=json"], env={**os.environ, **variables},
                                     capture_output=True, text=True, timeout=PATIENCE)
            output = json.loads(created.stdout)["output"]
            self.assertRegex(output, re.escape(f"{self.directory}/leat-traces/web-") + r"\d{8}-\d{6}(-2)?\Z")
            self.leat("save", "web", "-o", self.directory / "web.json", "--force")
            self.json("destroy", "web")
        definition = json.loads((self.directory / "web.json").read_text(encoding="utf-8"))
        self.assertEqual((definition["directory"], "home" in definition), (output, False))
        for home in ("", "relative"):
            refused = daemon.ask("create", session="web", home=home)
            self.assertEqual((refused["kind"], refused["error"]), ("usage", '"home" is no absolute path'))

    def test_session_from_create_to_destroy(self):
        self.daemon()
        directory = self.directory / "trace"
        created = self.json("create", "web", "-o", directory)
        self.assertEqual(created, {"ok": True, "session": "web", "output": str(directory), "warnings": []})
        enabled = self.json("enable-event", "a:*,b\\,c", "--loglevel=INFO", "--exclude=a:x")
        self.assertEqual([(event["pattern"], event["channel"], event["conflicts"]) for event in enabled["events"]],
                         [("a:*", "channel0", []), ("b,c", "channel0", [])])
        self.assertEqual(self.json("start"), {"ok": True, "session": "web", "warnings": []})
        session = self.session("web")
        channel, = session.pop("channels")
        self.assertGreaterEqual(session.pop("memory"), 0)
        self.assertEqual(session, {
            "name": "web", "state": "active", "output": str(directory), "current": True, "live": False,
            "snapshot": False, "removed_events": 0,
            "started_once": True, "applications": 0, "applications_not_blocking": 0,
            "tracked": {"vpid": "all", "vuid": "all", "vgid": "all"},
            "refused": {"traces": 0, "events": 0, "reason": ""}, "conflicts": []})
        rule = {"loglevel": "INFO", "loglevel_only": None, "exclude": ["a:x"], "enabled": True}
        self.assertEqual(channel["rules"], [{"pattern": pattern, **rule} for pattern in ("a:*", "b,c")])
        self.assertEqual({name: channel[name] for name in ("name", "enabled", "buffers", "mode", "header", "events",
                                                           "discarded")},
                         {"name": "channel0", "enabled": True, "buffers": "user", "mode": "discard",
                          "header": "compact", "events": 0, "discarded": {}})
        status, = self.json("status")["sessions"]
        self.assertEqual(status, self.session("web"))
        counts = {"ok": True, "session": "web", "events": 0, "discarded": {"channel0": {}}, "warnings": []}
        self.assertEqual(self.json("stop"), counts)
        self.assertEqual(self.session("web")["state"], "inactive")
        self.assertEqual(self.json("destroy"), counts)
        self.assertEqual(self.json("list")["sessions"], [])

    def test_as_lttng_takes_it(self):
        """-u means nothing here, and -t is a kind of context."""
        self.daemon()
        self.create("web")
        for verb in (("enable-channel", "-u", "c"), ("enable-event", "-u", "order:*", "-c", "c"), ("track", "-u", "--vpid=5"),
                     ("add-context", "-u", "-t", "vpid", "-t", "ip"), ("disable-event", "-u", "order:*", "-c", "c"),
                     ("disable-channel", "-u", "c"), ("untrack", "--userspace", "--vpid=all")):
            self.leat(*verb)
        channel, = self.session("web")["channels"]
        self.assertEqual((channel["contexts"], channel["enabled"]), (["vpid", "vtid", "procname", "ip"], False))
        self.assertEqual(self.json("list", "-u"), self.json("list", "--programs"))

    def test_doing_a_thing_twice(self):
        self.daemon()
        self.create("web")
        for verb in (("enable-channel", "c"), ("enable-event", "a:*", "-c", "c"), ("add-context", "ip"),
                     ("track", "--vpid=5"), ("start",), ("disable-event", "a:*"), ("disable-channel", "c"),
                     ("untrack", "--vpid=all"), ("stop",), ("set-session", "web")):
            if verb[0] != "set-session":
                self.leat(*verb)
            self.assert_already(*verb)

    def test_unknown_session(self):
        self.daemon()
        for verb in (("start", "web"), ("stop", "web"), ("destroy", "web"), ("set-session", "web"), ("list", "web"),
                     ("status", "-s", "web"), ("enable-channel", "c", "-s", "web"), ("disable-channel", "c", "-s", "web"),
                     ("enable-event", "a", "-s", "web"), ("disable-event", "a", "-s", "web"),
                     ("add-context", "vpid", "-s", "web"), ("track", "--vpid=1", "-s", "web"),
                     ("untrack", "--vpid=1", "-s", "web"), ("save", "web", "-o", self.directory / "web.json")):
            self.assert_refused(*verb, parts=['"web"'])
        self.assertFalse((self.directory / "web.json").exists())

    def test_all_sessions(self):
        self.daemon()
        self.assertEqual(self.leat("destroy", "--all").stdout, "no session\n")
        for name in ("a", "b"):
            self.leat("create", name, "-o", self.directory / name)
            self.leat("enable-channel", "c")
            self.leat("start")
        self.assertEqual(self.leat("clear", "--all").stdout, 'session "a" cleared\nsession "b" cleared\n')
        self.leat("destroy", "--all", "a", status=2)
        destroyed = self.json("destroy", "-a")
        self.assertEqual([answer["session"] for answer in destroyed["sessions"]], ["a", "b"])
        self.assertEqual(self.json("list")["sessions"], [])

    def test_no_current_session(self):
        self.daemon()
        for verb in (("start",), ("stop",), ("destroy",), ("status",), ("enable-event", "a"), ("add-context", "vpid"),
                     ("track", "--vpid=1"), ("enable-channel", "c")):
            self.assert_refused(*verb, parts=["no current session"])

    def test_existing_session_is_left_alone(self):
        self.daemon()
        self.create_active("web", "a:*")
        before = self.session("web")
        self.assert_refused("create", "web", "-o", self.directory / "other", parts=['"web"', "exists"])
        self.assertEqual(self.session("web"), before)
        self.assertFalse((self.directory / "other").exists())

    def test_list_of_events_with_an_empty_name_enables_none(self):
        self.daemon()
        self.leat("create", "web", "-o", self.directory / "trace")
        for arguments in (["a:*,,b:*"], ["a:*", "-x", "b,,c"]):
            self.assert_refused("enable-event", *arguments, status=2, parts=["is empty"])
        self.assertEqual(self.session("web")["channels"], [])

    def test_no_daemon(self):
        for verb in (("start", "web"), ("stop", "web"), ("destroy", "web"), ("list",), ("status",),
                     ("enable-event", "a"), ("track", "--vpid=1")):
            self.assert_refused(*verb, parts=["no session daemon"])

    def test_what_is_not_there(self):
        self.daemon()
        self.create("web")
        self.assert_refused("start", parts=["nothing"])
        self.assert_refused("add-context", "vpid", parts=["no channel"])
        self.leat("enable-event", "a:*")
        self.assert_refused("disable-event", "a", parts=["no rule", '"a"'])
        self.assert_refused("disable-event", "a:*", "-c", "c", parts=["no channel", '"c"'])
        self.assert_refused("enable-event", "a:*", "-c", "c", parts=["no channel", '"c"'])
        self.assert_refused("disable-channel", "c", parts=["no channel", '"c"'])
        self.assert_refused("untrack", "--vpid=5", parts=["vpid"])
        self.assert_refused("track", "--vuid=no-such-user", parts=["no-such-user"])

    def test_usage(self):
        self.daemon()
        self.create("web")
        for verb in (("create",), ("create", "a", "b"), ("start", "--nonsense"), ("enable-event",),
                     ("enable-event", "a", "--all"), ("enable-event", "a", "--loglevel=LOUD"),
                     ("enable-event", "a", "--loglevel=INFO", "--loglevel-only=INFO"),
                     ("enable-event", "a", "--on-conflict=shrug"), ("enable-event", ""),
                     ("add-context",), ("add-context", "weather"), ("track",), ("track", "--vpid=x"),
                     ("enable-channel", "c", "--ring-size=3"), ("enable-channel", "c", "--ring-size=lots"),
                     ("enable-channel", "c", "--header=tall"), ("save",), ("load",), ("frobnicate",),
                     ("create", "other", "-o", "")):
            result = self.leat(*verb, status=2)
            self.assertTrue(result.stderr.startswith("leat"), result.stderr)
        for words, message in ((("frobnicate",), 'there is no command "frobnicate"'),
                               (("enable-channel", "c", "--subbuf-size", "4096"), 'there is no option "--subbuf-size"'),
                               (("enable-channel", "c", "--colour=red", "--size=1"), 'there is no option "--colour"'),
                               (("start", "web", "again"), 'unexpected argument "again"'),
                               (("create", "last", "--snapshot", "--live"), "nobody can follow them live"),
                               (("enable-channel", "c", "--blocking-timeout=72m"), "--blocking-timeout is at most 71 minutes"),
                               (("enable-channel", "c", "--read-period=5"), "--read-period is from 1 ms"),
                               (("enable-channel", "c", "--tracefile-count=3"), "give --tracefile-size, too"),
                               (("enable-channel", "c", "--tracefile-count=-3"), "--tracefile-count")):
            self.assert_one_line(self.leat(*words, status=2).stderr, message)
        session = self.session("web")
        self.assertEqual(([s["name"] for s in self.json("list")["sessions"]], session["channels"]), (["web"], []))

    def test_session_without_a_trace_says_so(self):
        self.daemon()
        self.leat("create", "web", "-o", self.directory / "trace")
        self.leat("enable-event", "nobody:*")
        self.leat("start")
        for words, session in (("view",), "the current session"), (("view", "web"), 'session "web"'), (("stats", "web"), 'session "web"'):
            self.assert_one_line(self.leat(*words, status=1).stderr, f"leat: {session} has no trace yet", "leat list --programs")

    def test_names(self):
        self.daemon()
        for name in BAD_NAMES:
            self.assert_refused("create", name, "-o", self.directory / "bad", status=2)
        self.assertFalse((self.directory / "bad").exists())
        for number, name in enumerate(GOOD_NAMES):
            self.leat("create", name, "-o", self.directory / f"good-{number}")
        self.assertEqual({session["name"] for session in self.json("list")["sessions"]}, set(GOOD_NAMES))
        self.leat("set-session", GOOD_NAMES[1])
        for name in BAD_NAMES[:-2]:
            self.assert_refused("enable-channel", name, status=2)
        self.assert_refused("enable-channel", ".hidden", status=2, parts=["no dot"])
        for name in GOOD_NAMES:
            self.leat("enable-channel", name)
            self.leat("enable-event", "test:*", f"--channel={name}")
            self.leat("disable-event", "test:*", f"--channel={name}")
            self.leat("disable-channel", name)
        self.assertEqual([channel["name"] for channel in self.session(GOOD_NAMES[1])["channels"]], list(GOOD_NAMES))
        for name in GOOD_NAMES:
            self.leat("destroy", name)

    def test_events_of_a_session_and_channel_with_strange_names(self):
        self.daemon()
        name = 'say "hello" ☃'
        self.leat("create", name, "-o", self.directory / "trace")
        self.leat("enable-channel", 'chan "nel" ☃ %s')
        self.leat("enable-event", "test:*")
        self.leat("start")
        self.assertEqual(plain_run(program("emit"), "10", "1").stdout, "11\n")
        self.assertEqual(len(self.complete_trace(name, self.directory / "trace").lines), 11)

    def test_set_session(self):
        self.daemon()
        for name in ("first", "second"):
            self.create(name)
        self.assertEqual([(s["name"], s["current"]) for s in self.json("list")["sessions"]],
                         [("first", False), ("second", True)])
        self.assertEqual(self.json("set-session", "first"), {"ok": True, "session": "first", "warnings": []})
        self.leat("enable-event", "a:*")
        self.assertEqual([len(self.session(name)["channels"]) for name in ("first", "second")], [1, 0])
        self.leat("destroy")
        self.assert_refused("status", parts=["no current session"])
        self.leat("status", "-s", "second")

    def test_channel_is_chosen(self):
        """Without -c: the only one, or channel0, which is made if there are several others or none."""
        self.daemon()
        self.create("web")
        self.leat("enable-channel", "only")
        self.assertEqual(self.json("enable-event", "a")["events"][0]["channel"], "only")
        self.leat("enable-channel", "other")
        self.assertEqual(self.json("enable-event", "a")["events"][0]["channel"], "channel0")
        self.create("without")
        for channel in ("one", "two"):
            self.leat("enable-channel", channel)
        self.leat("start")
        self.assert_refused("enable-event", "a", parts=["has several channels", "-c"])

    def test_event_is_disabled_in_all_channels(self):
        self.daemon()
        self.create("web")
        for channel in ("one", "two", "three"):
            self.leat("enable-channel", channel)
        for channel in ("one", "two"):
            self.leat("enable-event", "a", "-c", channel)
        self.leat("disable-event", "a", "-c", "one")
        self.assertEqual(self.json("disable-event", "a")["events"],
                         [{"pattern": "a", "channels": ["two"], "channel": "two"}])
        again, = self.json("disable-event", "a")["events"]
        self.assertEqual((again["channels"], again["already"]), (["one", "two"], True))

    def test_channel_options(self):
        self.daemon()
        self.create("web")
        self.leat("enable-channel", "c", "--ring-size=2M", "--header=large", "--mode=discard", "--buffers=user")
        channel, = self.session("web")["channels"]
        self.assertEqual((channel["ring_size"], channel["header"]), (2 << 20, "large"))
        self.assert_refused("enable-channel", "c", "--ring-size=4M", parts=["cannot be changed"])
        self.leat("disable-channel", "c")
        self.assertNotIn("already", self.json("enable-channel", "c", "--ring-size=2M", "--header=large"))
        for options in (["--ring-size=2M", "--mode=discard"], ["--blocking-timeout=0"]):
            self.assertTrue(self.json("enable-channel", "c", *options)["already"])
        self.assert_refused("enable-channel", "c", "--mode=blocking", parts=["cannot be changed"])
        for wrong, part in (("--tracefile-size=1K", "--tracefile-size is at least"),
                            ("--blocking-timeout=5ms", "--blocking-timeout is of --mode=blocking")):
            self.assert_refused("enable-channel", "d", "--mode=discard", wrong, status=2, parts=[part])
        self.assert_refused("track", "--vpid=3000000000", status=2, parts=["not the id of a process"])
        self.assert_refused("enable-channel", "d", "--buffers=pid", parts=["buffers in one way"])
        self.leat("enable-event", "a")
        self.leat("start")
        self.assert_refused("enable-channel", "e", parts=["started"])
        self.assert_refused("add-context", "ip", parts=["started"])
        self.assertEqual(len(self.session("web")["channels"]), 1)

    def test_verbs_that_are_not_built_say_so(self):
        answer = self.daemon().ask("enable-rotation")
        self.assertEqual((answer["ok"], answer["kind"]), (False, "unsupported"), answer)
        self.assertIn("not built yet", answer["error"])

    def test_output_that_cannot_be_used(self):
        self.daemon()
        file = self.directory / "file"
        file.write_text("mine\n")
        full = self.directory / "full"
        full.mkdir()
        (full / "mine").write_text("mine\n")
        for place in (file, full, file / "below", "/proc/nowhere"):
            self.assert_refused("create", "web", "-o", place)
        self.assertEqual((file.read_text(), (full / "mine").read_text()), ("mine\n", "mine\n"))
        self.assertEqual(self.json("list")["sessions"], [])

    def test_list_of_programs(self):
        self.daemon()
        running = self.program()
        self.wait_for_programs(running)
        entry, = self.json("list", "--programs")["programs"]
        self.assertEqual(entry, {"pid": running.pid, "uid": os.geteuid(), "name": "test-program-co", "bits": 64,
                                 "events": ["order:tick", "order:tock", "stock:tick"]})
        running.end()
        self.wait_for_program_count(0)

    def test_two_clients_that_start_the_daemon_at_once(self):
        def create(number):
            return subprocess.run([LEAT, "create", f"s{number}", "-o", self.directory / f"t{number}"],
                                  capture_output=True, text=True, timeout=PATIENCE)
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            results = list(clients.map(create, range(8)))
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.own_directory() / "control.sock"))
            client.sendall(b'{"version": 1, "verb": "version"}\n')
            pid = json.loads(client.makefile("rb").readline())["pid"]
        self.addCleanup(kill_and_wait, pid)
        self.assertEqual([(result.returncode, result.stderr) for result in results], [(0, "")] * 8)
        self.assertEqual(len(self.json("list")["sessions"]), 8)
        second = subprocess.run([SESSIOND], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(second.returncode, 1)
        self.assertIn("another session daemon", second.stderr)

    def test_relative_directory_is_refused(self):
        """Programs, which are started anywhere, go by none."""
        for command in ([SESSIOND], [LEAT, "list"], [LEAT, "create", "web"]):
            result = plain_run(*command, cwd=self.directory, env={**os.environ, "LEAT_RUNTIME_DIR": "run"})
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertRegex(result.stderr, r"""\Aleat(-sessiond)?: LEAT_RUNTIME_DIR is "run": give an absolute path.*\n\Z""")
        self.assertFalse((self.directory / "run").exists())

    def own_directory(self):
        return self.runtime if os.geteuid() == 0 else self.runtime / "apps" / f"leat-{os.geteuid()}"

    def test_background(self):
        started = plain_run(SESSIOND, "--background", "--pid-file", str(self.directory / "pid"))
        self.assertEqual((started.returncode, started.stderr), (0, ""))
        pid = int((self.directory / "pid").read_text())
        self.addCleanup(kill_and_wait, pid)
        self.assertEqual(self.json("list")["sessions"], [])
        directory = self.create_active("web", "test:*")
        self.assertEqual(plain_run(program("emit"), "10", "1").stdout, "11\n")
        kill_and_wait(pid)
        self.assertEqual(len(self.trace_of(directory).lines), 11)
        self.assertFalse((self.own_directory() / "control.sock").exists())


class Definitions(SteerTest):
    def make_session(self):
        self.create("web")
        self.leat("enable-channel", "fast", "--ring-size=2M", "--header=large")
        self.leat("enable-channel", "slow")
        self.leat("enable-event", "order:*", "-c", "fast", "--loglevel=INFO", "-x", "order:tock")
        self.leat("enable-event", "*:tick", "-c", "slow", "--loglevel-only=WARNING", "--on-conflict=version")
        self.leat("enable-event", "off:*", "-c", "slow")
        self.leat("disable-event", "off:*")
        self.leat("add-context", "vpid", "procname", "-c", "slow")
        self.leat("track", f"--vuid={os.geteuid()}")

    def test_round_trip(self):
        self.daemon()
        self.make_session()
        file = self.directory / "web.json"
        saved = self.json("save", "web", "-o", file)
        self.assertEqual((saved["file"], saved["definition"]), (str(file), json.loads(file.read_text())))
        self.assertGreater(len(file.read_text().splitlines()), 20)
        before = self.session("web")
        self.assert_refused("save", "web", "-o", file, parts=["exists"])
        self.leat("save", "web", "-o", file, "--force")
        printed = self.leat("save", "web", "-o", "/dev/stdout", "--force").stdout
        self.assertIn(file.read_text(), printed)
        self.assert_refused("load", "-i", file, parts=['"web"', "exists"])
        self.leat("destroy", "web")
        self.leat("load", "-i", file)
        after = self.session("web")
        self.assertEqual({**after, "memory": 0}, {**before, "memory": 0})
        self.leat("start")
        self.program().do("emit 5")
        events = [event.name for event in self.complete_trace("web", before["output"]).events()]
        self.assertEqual(sorted(events), ["order:tick"] * 5 + ["stock:tick"] * 5)

    def test_active_session_goes_on_under_another_name(self):
        self.daemon()
        self.make_session()
        self.leat("start")
        file = self.directory / "web.json"
        self.leat("save", "web", "-o", file)
        definition = json.loads(file.read_text())
        self.assertIs(definition["active"], True)
        definition["directory"] = str(self.directory / "again")
        file.write_text(json.dumps(definition))
        loaded = self.json("load", "-i", file, "again")
        self.assertEqual((loaded["session"], loaded["output"]), ("again", str(self.directory / "again")))
        self.assertEqual(self.session("again")["state"], "active")
        self.assertIs(loaded["active"], True)
        elsewhere = self.directory / "elsewhere"
        self.assertEqual(self.json("load", "-i", file, "third", "-o", elsewhere)["output"], str(elsewhere))
        told = self.leat("load", "-i", file, "fourth", "-o", self.directory / "fourth").stdout
        self.assertEqual(told, f"session \"fourth\" loaded from {file}, and started\n")
        self.leat("load", "-i", file, "a/b", status=2)

    def test_files_that_are_none(self):
        self.daemon()
        self.make_session()
        file = self.directory / "web.json"
        self.leat("save", "web", "-o", file)
        self.leat("destroy", "web")
        text = file.read_text()
        good = json.loads(text)
        for wrong in ("", "[]", "null", text[:len(text) // 2], text + "}", '{"leat_session": 1}', "[" * 100000,
                      json.dumps({**good, "leat_session": 2}), json.dumps({**good, "unknown": 1}),
                      json.dumps({**good, "name": "a/b"}), json.dumps({**good, "channels": [{"name": 5}]}),
                      json.dumps({**good, "channels": good["channels"] * 2}), json.dumps({**good, "tracked": 7}),
                      json.dumps({**good, "directory": "relative"}), "\0" * 100, "x" * (2 << 20)):
            file.write_text(wrong)
            result = subprocess.run([LEAT, "load", "-i", file], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(result.returncode, 1, wrong[:100])
            self.assert_one_line(result.stderr, str(file))
        file.write_text(json.dumps({**good, "tracked": 7}))
        self.assert_refused("load", "-i", file, parts=['"tracked"'])
        self.assert_refused("load", "-i", self.directory / "nothing", parts=["nothing"])
        self.assertEqual(self.json("list")["sessions"], [])
        file.write_text(json.dumps({**good, "leat_session": 2}))
        self.assert_refused("load", "-i", file, parts=["version 1"])


class Tracking(SteerTest):
    def test_by_process(self):
        self.daemon()
        directory = self.create("web")
        self.leat("enable-event", "order:tick")
        self.leat("track", "--vpid=1")
        self.leat("start")
        tracked, other = self.program(), self.program()
        tracked.do("emit 10")
        self.assertEqual(self.json("track", f"--vpid={tracked.pid}")["tracked"], [{"vpid": tracked.pid}])
        self.attach("web", tracked)
        begin = tracked.do("emit 0")
        tracked.do("emit 10")
        other.do("emit 10")
        self.assertEqual(self.session("web")["tracked"]["vpid"], [1, tracked.pid])
        self.leat("untrack", f"--vpid={tracked.pid}")
        tracked.do("emit 10")
        self.leat("track", "--vpid=all")
        self.attach("web", other)
        tracked.do("emit 10")
        counts = self.stopped("web")
        numbers = [event["n"] for event in self.trace_of(directory, counts).events()]
        self.assertTrue(set(range(begin, begin + 10)) <= set(numbers))
        self.assertTrue(set(range(begin + 20, begin + 30)) <= set(numbers))
        self.assertFalse(set(range(10)) & set(numbers[:1]))
        self.assertFalse(set(range(begin + 10, begin + 20)) & set(numbers))

    def test_greatest_numbers(self):
        """The one after those of users and groups means nobody."""
        self.daemon()
        self.create("web")
        self.leat("track", f"--vpid={2**31 - 1}")
        self.leat("track", f"--vpid={2**31}", status=2)
        for kind in ("vuid", "vgid"):
            self.leat("track", f"--{kind}={2**32 - 2}")
            self.leat("track", f"--{kind}={2**32 - 1}", status=2)
        file = self.directory / "web.json"
        self.leat("save", "web", "-o", file)
        self.leat("load", "-i", file, "second", "-o", self.directory / "second")
        self.assertEqual(self.session("second")["tracked"], {"vpid": [2**31 - 1], "vuid": [2**32 - 2], "vgid": [2**32 - 2]})

    @needs(can_be_two_users(), "two-users")
    def test_by_user_and_group(self):
        self.daemon()
        for name, option in (("users", "--vuid=1000"), ("groups", "--vgid=1001")):
            directory = self.create(name)
            self.leat("enable-event", "order:tick")
            self.leat("track", option)
            self.leat("start")
            for uid in (None, 1000, 1001):
                self.program(uid=uid).do("emit 10")
            trace = self.complete_trace(name, directory)
            self.assert_numbers(trace, "order:tick", range(10))
            self.assertEqual([path.name for path in (directory / "ust" / "uid").iterdir()], [option[-4:]])


class Switching(SteerTest):
    def test_events_and_channels_while_programs_run(self):
        self.daemon()
        directory = self.create("web")
        for channel in ("a", "b"):
            self.leat("enable-channel", channel)
            self.leat("enable-event", "order:tick", "-c", channel)
        self.leat("start")
        running = self.program()
        expected = []
        for verbs, copies in (((), 2), ((("disable-event", "order:tick", "-c", "a"),), 1),
                              ((("disable-channel", "b"),), 0), ((("enable-event", "order:tick", "-c", "a"),), 1),
                              ((("enable-channel", "b"),), 2), ((("disable-event", "order:tick"),), 0),
                              ((("enable-event", "order:*", "-c", "b"),), 1)):
            for verb in verbs:
                self.leat(*verb)
            end = running.do("emit 10")
            expected += [n for n in range(end - 10, end) for _ in range(copies)]
        trace = self.complete_trace("web", directory)
        self.assertEqual(sorted(event["n"] for event in trace.events("order:tick")), expected)
        self.assertEqual(len(trace.events("order:tock")), 10)


class MaxMemory(SteerTest):
    # Of one trace.
    RINGS = (64 << 10) * (int(pathlib.Path("/sys/devices/system/cpu/possible").read_text().split("-")[-1]) + 1)

    def test_what_exceeds_it_is_refused_and_told(self):
        """Root's daemon gives a user half of it, any other one all of it to its own user."""
        most = 3
        daemon = self.limited_daemon(most)
        directory = self.create_limited("web")
        programs = []
        for _ in range(most + 4):
            programs.append(self.program())
            programs[-1].do("emit 10")
        session = self.session("web")
        self.assertEqual(session["refused"]["traces"], 4)
        self.assertIn("--max-memory", session["refused"]["reason"])
        self.assertEqual(daemon.log().count("no memory for"), 1, daemon.log())
        self.assertIn("refused    4 traces: no memory for", self.leat("status").stdout)
        self.assertGreater(session["memory"], most * 5 * 4096)  # clock, registry, metadata, progress, rings
        counts = self.stopped("web")
        self.assertEqual(counts["events"], most * 10)
        self.assertEqual(counts["discarded"], {"c": {"not_attached": 4 * 10}})
        self.assertEqual(len(self.read(directory).lines), counts["events"])

    def test_who_waits_is_recorded_when_another_ends(self):
        """A program, or a session; what comes meanwhile is counted, also by a daemon that is killed."""
        daemon = self.limited_daemon(2)
        directory = self.create_limited("web")
        programs = []
        for _ in range(4):  # the first two get traces
            programs.append(self.program())
            programs[-1].do("emit 10")
        first, second, third, fourth = programs
        self.assertEqual(self.not_attached("web"), 20)
        first.end()
        wait_until(lambda: self.session("web")["refused"]["traces"] == 1, "nobody gets the room")
        self.assertEqual(self.session("web")["applications"], 2)
        wait_until(lambda: any([self.is_attached("web", third), self.is_attached("web", fourth)]), "nobody has its rings")
        before = self.not_attached("web")
        for running in second, third, fourth:
            running.do("emit 100")
        self.assertEqual(self.not_attached("web") - before, 100)
        daemon.stop(signal.SIGKILL)
        fourth.do("emit 3"), third.do("emit 3")
        daemon = self.limited_daemon(2)
        emitted = 10 + sum(running.do("emit 1000") for running in (second, third, fourth))
        counts = self.stopped("web")
        lost = counts["discarded"]["c"]["not_attached"]
        self.assertEqual(counts["events"] + lost, emitted)
        self.assertEqual(len(self.read(directory).lines), counts["events"])
        # One session waits for another's memory.
        self.create_limited("next")
        self.assertEqual(self.session("next")["refused"]["traces"], 3)
        fourth.do("emit 5")
        self.assertEqual(self.not_attached("next"), 5)
        self.leat("destroy", "web")
        wait_until(lambda: self.session("next")["applications"] == 2, "nobody gets the room")
        for running in second, third, fourth:
            running.do("emit 7")
        counts = self.stopped("next")
        # On a busy machine, a program may not get its rings in time.
        self.assertEqual(counts["events"] + counts["discarded"]["c"]["not_attached"], 5 + 3 * 7)
        self.assertGreater(counts["events"], 0)

    def limited_daemon(self, traces):
        return self.daemon(f"--max-memory={traces * self.RINGS * (2 if os.geteuid() == 0 else 1)}")

    def create_limited(self, name):
        directory = self.create(name)
        self.leat("enable-channel", "c", "--buffers=pid", "--ring-size=64K")
        self.leat("enable-event", "order:tick")
        self.leat("start")
        return directory

    def not_attached(self, session):
        return self.session(session)["channels"][0]["discarded"].get("not_attached", 0)


class Descriptors(SteerTest):
    def test_shortage_is_told_once_and_passes(self):
        """Who has none waits, and is counted; clients are served."""
        daemon = self.daemon(wrapper=("prlimit", "--nofile=100:4096"))
        self.create_active("web", "order:tick", channel=("--buffers=pid", "--ring-size=64K",))
        self.assertEqual(self.json("status")["descriptors"]["limit"], 4096)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (daemon.descriptors() + 30, 4096))
        programs = [self.program() for _ in range(30)]
        for running in programs:
            running.do("emit 10")
        status = self.status_when_served()
        self.assertLess(status["sessions"][0]["applications"], 30)
        self.assertLessEqual(status["descriptors"]["open"], status["descriptors"]["limit"])
        self.assertEqual(daemon.log().count("raise the limit of"), 1, daemon.log())
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (4096, 4096))
        wait_until(lambda: self.session("web")["applications"] == 30, "nobody gets descriptors")
        for running in programs:
            running.do("emit 100")
        # Who was not seen meanwhile was not switched on, either.
        counts = self.stopped("web")
        self.assertGreaterEqual(counts["events"] + counts["discarded"]["c"].get("not_attached", 0), 30 * 100)
        self.assertEqual(daemon.log().count("raise the limit of"), 1, daemon.log())
        self.assertRegex(self.leat("status").stdout, r"files +\d+ open of \d+\n")

    def status_when_served(self):
        """The reserve may be used up for a moment, while files of traces are opened."""
        answers = []

        def is_served():
            answers.append(plain_run(LEAT, "status", "--format=json"))
            return answers[-1].returncode == 0
        wait_until(is_served, "clients are not served")
        return json.loads(answers[-1].stdout)


class ProcessesThatEnd(SteerTest):
    def test_their_events_are_counted_all_the_time(self):
        """While a trace is stored, and when it is."""
        self.daemon()
        self.create_active("web", "order:tick", channel=("--buffers=pid", "--ring-size=64K",))
        counts = [0]
        for _ in range(5):
            running = [self.program() for _ in range(10)]
            for each in running:
                each.do("emit 100")
            wait_until(lambda: self.events() == counts[0] + 1000, "events are not stored")
            with concurrent.futures.ThreadPoolExecutor() as threads:
                ended = threads.submit(lambda: [each.end() for each in running])
                counts = [counts[0] + 1000]
                while not ended.done():
                    counts.append(self.events())
            self.assertEqual(counts, [counts[0]] * len(counts))
        self.assertEqual(self.stopped("web")["events"], counts[0])

    def events(self):
        return self.session("web")["channels"][0]["events"]


class Clear(SteerTest):
    def test_traces_of_processes_that_have_ended(self):
        """In the files of the session, in a chunk, and after the daemon was killed."""
        daemon = self.daemon()
        directory = self.create_active("web", "order:tick", channel=("--buffers=pid",))
        running = self.program()
        evaluated = running.do("emit 10")
        for turn in "first", "again", "killed", "rotated":
            with self.subTest(turn):
                ended = self.program()
                ended.do("emit 5")
                ended.end()
                if turn == "killed":
                    daemon.stop(signal.SIGKILL)
                    daemon = self.daemon()
                if turn == "rotated":
                    self.leat("rotate")
                    self.program().end()
                self.leat("clear")
                chunk = self.chunks_of(directory)[-1]
                traces = [path.name for path in (chunk / "ust/pid").iterdir()]
                self.assertEqual(len(traces), 1, traces)
                self.assertIn(f"-{running.pid}-", traces[0])
        running.do("emit 7")
        counts = self.stopped("web")
        self.assertEqual(counts["events"], evaluated + 4 * 5 + 7)
        trace = self.read(self.chunks_of(directory)[-1])
        self.assertEqual(trace.stderr, "")
        self.assert_numbers(trace, "order:tick", range(evaluated, evaluated + 7))
        self.assertEqual(len(self.read(directory / "archives").lines), 5)


def kill_and_wait(pid):
    """For a daemon that is not our child."""
    try:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the daemon does not end")
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    main()
