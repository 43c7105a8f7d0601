#!/usr/bin/env python3
"""Contexts: in each record stands what the program sees of the thread that emits it, and nothing older."""
import itertools
import json
import os
import re
import shutil
import subprocess
import sys

from session_daemons import SessionTest, discarded
from support import (LEAT, LIBRARIES, InteropTest, can_be_two_users, enter_user_namespace, has_namespaces, lacks, main, needs,
                     plain_run, program, wait_until)

DEFAULT = ("vpid", "vtid", "procname")
IDS = ("vuid", "veuid", "vsuid", "vgid", "vegid", "vsgid")
NAMESPACES = tuple(f"{name}_ns" for name in ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"))
# In the order of records.
OF_THREADS = (*DEFAULT, "pthread_id", *IDS, *NAMESPACES)
ALL = (*OF_THREADS, "ip")


class ContextsTest(InteropTest):
    def assert_as_seen(self, trace, printed, contexts=OF_THREADS):
        """Each event has these contexts alone, with the values that the program has printed. Returns those."""
        seen = [json.loads(line) for line in printed.splitlines()]
        events = trace.events("seen:step")
        self.assertEqual(len(events), len(seen))
        for event, values in zip(events, seen):
            names = re.findall(r"(\w+) = ", event.rest[:event.rest.index("}")])
            self.assertEqual(tuple(names), tuple(contexts))
            self.assertEqual({name: event[name] for name in contexts if name != "ip"},
                             {name: values[name] for name in contexts if name != "ip"}, event.rest)
        return seen

    def record_steps(self, *lines, contexts=OF_THREADS, name="trace", within=()):
        recording = self.record(*within, program("contexts"), options=("--context", ",".join(contexts)), name=name,
                                input="".join(f"{line}\n" for line in lines))
        self.assertEqual(recording.status, 0, recording.stderr)
        seen = self.assert_as_seen(self.read_complete(recording), recording.stdout,
                                   [kind for kind in ALL if kind in contexts])
        self.assertGreater(len(seen), 0)
        return seen


class Values(ContextsTest):
    def test_all_at_once(self):
        seen, = self.record_steps("emit", contexts=ALL)
        self.assertEqual({name for name in NAMESPACES if seen[name] != os.stat(f"/proc/self/ns/{name[:-3]}").st_ino}, set())

    def test_each_alone(self):
        for kind in ALL:
            self.record_steps("emit", "emit", contexts=[kind], name=kind)

    def test_more_and_more(self):
        """Records whose contexts end anywhere."""
        for count in range(len(ALL)):
            self.record_steps("emit", "emit", contexts=ALL[count:], name=f"without-{count}")
            self.record_steps("emit", "emit", contexts=ALL[:count + 1], name=f"first-{count}")

    def test_types_are_those_of_lttng(self):
        recording = self.record(program("contexts"), options=("--context", ",".join(ALL)), input="emit\n")
        metadata = next(recording.path.rglob("metadata")).read_text()
        context = metadata[metadata.index("event.context"):]
        for kind in OF_THREADS:
            if kind != "procname":
                size = 64 if kind == "pthread_id" or kind in NAMESPACES else 32
                signed = "signed = (true|1); " if kind in ("vpid", "vtid") else ""
                self.assertRegex(context, rf"integer {{ size = {size}; align = 8; {signed}[^}}]*}} _{kind};")

    def test_unknown_one_is_refused_by_one_line_that_names_all(self):
        result = subprocess.run([LEAT, "record", "--context", "vpid,weather", "--", "true"], capture_output=True,
                                text=True)
        self.assertEqual(result.returncode, 2)
        self.assert_one_line(result.stderr, '"weather"', ", ".join(ALL))


class Changes(ContextsTest):
    """Where the functions that change them come to us, the next event has the new values."""

    def assert_changed(self, before, after, *kinds):
        self.assertEqual({kind for kind in OF_THREADS if before[kind] != after[kind]}, set(kinds))

    def test_thread(self):
        of_main, of_thread, at_the_end = self.record_steps("emit", "thread", "emit")[0:3]
        self.assert_changed(of_main, of_thread, "vtid", "pthread_id")
        self.assertEqual(at_the_end, of_main)

    def test_name(self):
        before, after = self.record_steps("emit", "name other")
        self.assert_changed(before, after, "procname")

    def test_child(self):
        of_parent, of_child, at_the_end = self.record_steps("emit", "fork", "emit")
        self.assert_changed(of_parent, of_child, "vpid", "vtid")
        self.assertEqual(at_the_end, of_parent)

    def test_ids(self):
        if not can_be_two_users():
            lacks("two-users")
        steps = self.record_steps("emit", "group 100", "user 200", "emit")
        self.assert_changed(steps[0], steps[1], "vgid", "vegid")
        self.assert_changed(steps[1], steps[2], "vuid", "veuid")
        self.assertEqual(steps[3], steps[2])

    def test_ids_in_another_thread_and_a_child(self):
        if not can_be_two_users():
            lacks("two-users")
        steps = self.record_steps("emit", "thread", "emit", "group 100", "fork", "user 200", "emit")
        self.assertEqual([(step["vuid"], step["vegid"]) for step in steps],
                         [(0, 0), (0, 0), (0, 101), (200, 101), (200, 101), (0, 101), (0, 101)])

    @needs(has_namespaces(), "namespaces")
    def test_namespaces(self):
        # "home" is a namespace that it may come back to: an ordinary user may enter those of his own alone.
        kinds = ("uts", "ipc", "net", "mnt", "cgroup")
        steps = self.record_steps("emit", *(f"unshare {kind}" for kind in kinds), "home", within=("unshare", "--uts"))
        for (before, after), kind in zip(itertools.pairwise(steps), (*kinds, "uts")):
            self.assert_changed(before, after, f"{kind}_ns")
        self.assertEqual(steps[-1]["uts_ns"], steps[0]["uts_ns"])

    @needs(has_namespaces(), "namespaces")
    def test_namespace_of_one_thread(self):
        of_main, of_thread, unshared, at_the_end = self.record_steps("emit", "thread", "emit", "unshare uts")
        self.assert_changed(of_thread, unshared, "uts_ns")
        self.assertEqual(at_the_end, of_main)

    @needs(has_namespaces(), "namespaces")
    def test_namespaces_of_a_child(self):
        of_parent, of_child, unshared, at_the_end = self.record_steps("emit", "fork", "emit", "unshare net")
        self.assert_changed(of_child, unshared, "net_ns")
        self.assertEqual(at_the_end, of_parent)

    @needs(has_namespaces(), "namespaces")
    def test_pid_namespace_without_its_proc(self):
        """It has the /proc of outside, which nevertheless knows the thread."""
        recording = self.record("unshare", "--pid", "--fork", program("contexts"), input="emit\n",
                                options=("--context", ",".join(OF_THREADS)))
        seen, = self.assert_as_seen(self.read_complete(recording), recording.stdout)
        self.assertEqual(seen["vpid"], 1)
        self.assertNotEqual(seen["pid_ns"], os.stat("/proc/self/ns/pid").st_ino)

    @needs(has_namespaces(), "namespaces")
    def test_without_proc_namespaces_are_zero(self):
        # The loader looks at /proc for "$ORIGIN".
        script = 'mount -t tmpfs none /proc && LD_LIBRARY_PATH="$1" exec "$0"'
        recording = self.record("unshare", "--mount", "sh", "-c", script, program("contexts"), LIBRARIES,
                                input="emit\n", options=("--context", ",".join(OF_THREADS)))
        seen, = self.assert_as_seen(self.read_complete(recording), recording.stdout)
        self.assertEqual({seen[name] for name in NAMESPACES}, {0})

    def test_program_that_is_not_instrumented(self):
        """Its calls come to a preload library."""
        if not can_be_two_users():
            lacks("two-users")
        script = "import os; os.setresgid(7, 8, 9); bytes(100000); os.setresuid(4, 5, 6); bytes(100000)"
        recording = self.record(sys.executable, "-c", script,
                                options=("--preload", "libc,dl", "--ring-size=16M", "--context", ",".join(IDS)))
        self.assertEqual(recording.status, 0, recording.stderr)
        found = [tuple(event[kind] for kind in IDS) for event in self.read_recording(recording).events()]
        self.assertEqual([ids for ids, _ in itertools.groupby(found)], [(0,) * 6, (0, 0, 0, 7, 8, 9), (4, 5, 6, 7, 8, 9)])


OF_SHOP = tuple(f"$app.shop:{name}" for name in ("request", "balance", "user", "load"))
NONE = (None,) * 4


class OfApplications(SessionTest):
    """What programs provide. In each event stands what they say by then, or that they do not."""

    def values(self, event, names=OF_SHOP):
        """None: nobody provides it."""
        found = []
        for name in names:
            field = name.removeprefix("$app.").replace(":", "_")
            tag, text = re.search(rf'app_{field}_tag = \( "(\w+)" : container = \d \), app_{field} = {{ (.*?) }}',
                                  event.rest).groups()
            found.append({"_none": lambda text: None, "_int64": int, "_uint64": int, "_double": float,
                          "_string": json.loads}[tag](text))
        return tuple(found)

    def record_steps(self, *lines, contexts=OF_SHOP, name="app-contexts"):
        recording = self.record(program(name), options=("--context", ",".join(contexts)),
                                input="".join(f"{line}\n" for line in lines))
        self.assertEqual(recording.status, 0, recording.stderr)
        return self.read_complete(recording)

    def steps(self, *lines):
        return [self.values(event) for event in self.record_steps(*lines).events("seen:step")]

    def test_each_kind_and_the_values_by_then(self):
        text = "J\u00fcrgen \"quoted\""
        self.assertEqual(self.steps("emit", "number 7", f"user {text}", f"number {(1 << 64) - 1}", "none"),
                         [(0, 0, None, 0.0), (7, -7, None, 1.75), (7, -7, text, 1.75),
                          ((1 << 64) - 1, 1, text, 4.61169e+18), ((1 << 64) - 1, 1, None, 4.61169e+18)])

    def test_long_text_is_cut_between_characters(self):
        self.assertEqual([step[2] for step in self.steps("user " + "x" * 62 + "\u00fc" + "y" * 50, "user " + "\u20ac" * 30)],
                         ["x" * 62, "\u20ac" * 21])

    def test_thread_has_its_own(self):
        self.assertEqual(self.steps("number 4", "thread", "number 8"),
                         [(4, -4, None, 1.0), (8, -8, None, 2.0), (4, -4, None, 1.0)])

    def test_child_has_its_own(self):
        self.assertEqual(self.steps("number 4", "fork", "number 8"),
                         [(4, -4, None, 1.0), (8, -8, None, 2.0), (4, -4, None, 1.0)])

    def test_withdrawn_and_provided_again(self):
        self.assertEqual([step[0] for step in self.steps("number 4", "withdraw", "provide")], [4, None, 4])

    def test_signal_handler(self):
        self.assertEqual(self.steps("number 4", "handler"), [(4, -4, None, 1.0)] * 2)

    def test_events_of_the_function_itself_have_none(self):
        trace = self.record_steps("number 4", "nested")
        self.assertEqual([self.values(event) for event in trace.events("seen:nested")], [NONE])
        self.assertEqual([self.values(event) for event in trace.events("seen:step")], [(4, -4, None, 1.0)] * 2)

    def test_program_that_provides_none(self):
        trace = self.record_steps("emit", "emit", name="contexts", contexts=("ip", *OF_SHOP, "vtid"))
        self.assertEqual([self.values(event) for event in trace.events()], [NONE] * 2)

    def test_beside_others_and_in_the_order_asked_for(self):
        contexts = ("$app.shop:user", "vpid", "$app.nobody:x", "ip", "$app.shop:request")
        event, = self.record_steps("number 3", contexts=contexts).events()
        names = re.findall(r"(?<=[ {,])(\w+) = ", event.rest[:event.rest.index("command")])
        self.assertEqual([name for name in names if not name.endswith("_tag") and name != "container"],
                         ["vpid", "ip", "app_shop_user", "app_nobody_x", "app_shop_request"])
        self.assertEqual(self.values(event, ("$app.shop:request", "$app.nobody:x")), (3, None))

    def test_chosen_by_a_filter(self):
        """By the names that they are asked for by."""
        trace = self.record_steps("emit", "number 7", "user me", "none")
        for text, steps in ("$app.shop:request == 7", 3), ('$app.shop:user == "m*"', 1), ("$app.shop:load > 1", 3):
            shown = plain_run(LEAT, "view", "--filter", text, trace.path)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertEqual(len(shown.stdout.splitlines()), steps, text)
        table = plain_run(LEAT, "view", "--format=csv", "--columns", "$app.shop:request,$ctx.app_shop_request", trace.path).stdout
        self.assertEqual(set(table.splitlines()[1:]) - {","}, {"0,0", "7,7"})
        missing = plain_run(LEAT, "view", "--filter", "$app.shop:nothing == 7", trace.path)
        self.assertEqual(missing.returncode, 1)
        self.assert_one_line(missing.stderr, "$app.shop:nothing")

    def test_trace_without_events_can_be_read(self):
        self.assertEqual(self.record_steps(contexts=("$app.shop:user",)).lines, [])

    def test_session_that_is_restarted_and_loaded(self):
        """The next daemon, and the one that loads the definition, know the contexts and their order."""
        daemon = self.daemon()
        directory = self.create("web")
        self.leat("enable-event", "seen:*")
        for kind in OF_SHOP:
            self.leat("add-context", kind)
        self.assertTrue(self.json("add-context", *OF_SHOP)["already"])
        self.leat("start")
        contexts = self.session("web")["channels"][0]["contexts"]
        self.assertEqual(contexts, [*DEFAULT, *OF_SHOP])
        with subprocess.Popen([program("app-contexts")], stdin=subprocess.PIPE, bufsize=0) as running:
            running.stdin.write(b"number 1\nnumber 2\n")
            wait_until(lambda: self.session("web")["channels"][0]["events"] == 2, "the events do not come")
            self.kill(daemon)
            running.stdin.write(b"number 3\n")
            self.start_again(daemon)
            running.stdin.write(b"number 4\n")
            running.stdin.close()
            self.assertEqual(running.wait(60), 0)
        trace = self.complete_trace("web", directory)
        self.assertEqual([self.values(event)[0] for event in trace.events()], [1, 2, 3, 4])
        self.assertEqual(self.session("web")["channels"][0]["contexts"], contexts)
        file = self.directory / "web.json"
        self.leat("save", "web", "-o", file)
        self.leat("destroy", "web")
        shutil.rmtree(directory)
        self.leat("load", "-i", file)
        self.assertEqual(self.session("web")["channels"][0]["contexts"], contexts)

    def test_wrong_ones(self):
        self.daemon()
        self.create("web")
        self.leat("enable-event", "*")
        for names in ["$app.shop"], ["$app.shop:a b"], ["$app.a:b_c", "$app.a_b:c"], [f"$app.a:{n}" for n in range(9)]:
            self.assert_one_line(self.leat("add-context", *names, status=2).stderr)
        self.leat("add-context", *(f"$app.a:n{n}" for n in range(8)))
        self.assert_one_line(self.leat("add-context", "$app.a:more", status=1).stderr, "at most 8")


class Sessions(SessionTest, ContextsTest):
    """leat add-context, also for programs that run already."""

    def test_added_to_one_channel(self):
        self.daemon()
        with subprocess.Popen([program("contexts")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
            directory = self.create("web")
            self.leat("enable-channel", "other")
            self.leat("enable-channel", "all")
            self.leat("enable-event", "seen:*", "-c", "all")
            answer = self.json("add-context", ",".join(ALL[4:]), "pthread_id", "-c", "all")
            self.assertEqual(answer["channels"], ["all"])
            self.assertEqual([channel["contexts"] for channel in self.session("web")["channels"]],
                             [list(DEFAULT), list(ALL)])
            self.leat("start")
            first = ""

            def is_attached():
                nonlocal first
                before = discarded(self.session("web"))
                running.stdin.write("emit\n")
                running.stdin.flush()
                first = running.stdout.readline()
                return discarded(self.session("web")) == before

            wait_until(is_attached, "it does not get its rings")
            lines = ["emit", *(["group 100"] if can_be_two_users() else []), *(["unshare uts"] if has_namespaces() else [])]
            printed, _ = running.communicate("".join(f"{line}\n" for line in lines))
        self.assert_as_seen(self.trace_of(directory, self.stopped("web")), first + printed, ALL)

    def test_saved_and_loaded(self):
        self.daemon()
        self.create("web")
        self.leat("enable-event", "seen:*")
        self.leat("add-context", *ALL)
        file = self.directory / "web.json"
        self.leat("save", "web", "-o", file)
        self.leat("destroy", "web")
        self.leat("load", "-i", file)
        self.assertEqual(self.session("web")["channels"][0]["contexts"], list(ALL))

    def test_unknown_one(self):
        self.daemon()
        self.create("web")
        self.leat("enable-event", "seen:*")
        result = self.leat("add-context", "weather", status=2)
        self.assert_one_line(result.stderr, '"weather"', ", ".join(ALL))


if __name__ == "__main__":
    enter_user_namespace()
    main()
