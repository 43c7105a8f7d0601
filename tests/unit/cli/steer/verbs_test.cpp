#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>

#include "cli/command.hpp"
#include "unit/cli/fake_daemon.hpp"

namespace leat::cli {
namespace {

constexpr int kNotParsed = -1;

struct Finished {
    int status;
    std::string out;
    std::string err;
};

Finished run(std::vector<std::string> arguments) {
    CLI::App app;
    app.require_subcommand(1);
    int status = kExitOk;
    for (const AddCommand add : {add_create_verb, add_snapshot_verb, add_session_verbs, add_channel_verbs,
                                 add_event_verbs, add_tracking_verbs, add_listing_verbs, add_definition_verbs})
        add(app, status);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    try {
        std::reverse(arguments.begin(), arguments.end());
        app.parse(arguments);
    } catch (const CLI::ParseError&) {
        status = kNotParsed;
    }
    std::string out = testing::internal::GetCapturedStdout();
    return {status, std::move(out), testing::internal::GetCapturedStderr()};
}

// A daemon for which all is well.
Json agree(const Json& request) {
    Json answer{{"ok", true}, {"session", request.value("session", "current")}, {"warnings", Json::array()}};
    const std::string verb = request.at("verb").get<std::string>();
    if (verb == "create") answer["output"] = request.value("directory", request.value("live", "somewhere"));
    if (verb == "enable-event" || verb == "disable-event") {
        answer["channel"] = request.value("channel", "channel0");
        if (verb == "disable-event") answer["channels"] = {answer["channel"]};
        answer["conflicts"] = Json::array();
    }
    if (verb == "add-context") answer["channels"] = {"a", "b"};
    if (verb == "rotate") answer["chunk"] = "/chunk";
    return answer;
}

Json failure(const char* kind, const char* text) {
    return {{"ok", false}, {"kind", kind}, {"error", text}, {"warnings", Json::array()}};
}

class Verbs : public testing::Test {
  protected:
    // Who has another home than the list of users says is told apart: place_options.cpp.
    void SetUp() override { ::unsetenv("HOME"); }

    // Answers the next runs like this.
    void answer_with(std::function<Json(const Json&)> answer) {
        daemon_.reset();
        std::filesystem::remove(directory_.socket());
        daemon_ = std::make_unique<FakeDaemon>(directory_.socket(), [answer](const Json& request) {
            return std::vector<std::string>{answer(request).dump() + "\n"};
        });
    }
    void answer_with(const Json& answer) {
        answer_with([answer](const Json&) { return answer; });
    }

    // The only request of this command line, without its version.
    Json request_of(const std::vector<std::string>& arguments) {
        answer_with(agree);
        const Finished result = run(arguments);
        EXPECT_EQ(result.status, 0) << result.err;
        EXPECT_EQ(result.err, "");
        EXPECT_FALSE(result.out.empty());
        const auto requests = daemon_->requests();
        EXPECT_EQ(requests.size(), 1U);
        if (requests.size() != 1) return {};
        Json request = requests.front();
        request.erase("version");
        return request;
    }

    RuntimeDirectoryForTests directory_;
    std::unique_ptr<FakeDaemon> daemon_;
};

TEST_F(Verbs, RequestsOfSessionVerbs) {
    EXPECT_EQ(request_of({"create", "web", "-o", "/tmp/x y"}),
              Json({{"verb", "create"}, {"session", "web"}, {"directory", "/tmp/x y"}}));
    EXPECT_EQ(request_of({"create", "web", "--output=net://relay"}),
              Json({{"verb", "create"}, {"session", "web"}, {"output", "net://relay"}}));
    EXPECT_EQ(request_of({"create", "web", "--live=net://relay"}),
              Json({{"verb", "create"}, {"session", "web"}, {"live", "net://relay"}}));
    EXPECT_EQ(request_of({"create", "web", "--live"}),
              Json({{"verb", "create"}, {"session", "web"}, {"live", "net://127.0.0.1"}}));
    EXPECT_EQ(request_of({"start"}), Json({{"verb", "start"}}));
    EXPECT_EQ(request_of({"start", "web"}), Json({{"verb", "start"}, {"session", "web"}}));
    EXPECT_EQ(request_of({"stop", ""}), Json({{"verb", "stop"}, {"session", ""}}));
    EXPECT_EQ(request_of({"set-session", "a b"}), Json({{"verb", "set-session"}, {"session", "a b"}}));
    EXPECT_EQ(request_of({"rotate"}), Json({{"verb", "rotate"}}));
    EXPECT_EQ(request_of({"clear"}), Json({{"verb", "clear"}}));
    EXPECT_EQ(request_of({"destroy", "web"}), Json({{"verb", "destroy"}, {"session", "web"}}));
    EXPECT_EQ(request_of({"regenerate", "metadata"}), Json({{"verb", "regenerate"}, {"what", "metadata"}}));
    EXPECT_EQ(request_of({"regenerate", "statedump", "web"}),
              Json({{"verb", "regenerate"}, {"session", "web"}, {"what", "statedump"}}));
}

TEST_F(Verbs, OneOfAllSessionsThatFailsKeepsNoneOfTheOthers) {
    answer_with([](const Json& request) -> Json {
        if (request.at("verb") == "list")
            return {{"ok", true}, {"sessions", {{{"name", "a"}}, {{"name", "b"}}, {{"name", "c"}}, {{"name", "d"}}}}};
        if (request.at("session") == "a") return failure("refused", "a stays");
        if (request.at("session") == "b") return failure("not-found", "b is gone");
        if (request.at("session") == "c") return failure("io", "c stays");
        return agree(request);
    });
    const Finished result = run({"destroy", "--all"});
    EXPECT_EQ(result.status, kExitFailed);
    EXPECT_EQ(result.out, "session \"d\" destroyed\n");
    EXPECT_EQ(result.err, "leat: warning: c stays\nleat: a stays\n");
}

TEST_F(Verbs, SessionMayBeCalledLikeAVerb) {
    EXPECT_EQ(request_of({"create", "start"}), Json({{"verb", "create"}, {"session", "start"}}));
    EXPECT_EQ(request_of({"start", "stop"}), Json({{"verb", "start"}, {"session", "stop"}}));
    EXPECT_EQ(request_of({"destroy", "--", "-x"}), Json({{"verb", "destroy"}, {"session", "-x"}}));
}

TEST_F(Verbs, RelativeDirectoryBecomesAbsolute) {
    const Json request = request_of({"create", "web", "-o", "trace"});
    EXPECT_EQ(request.at("directory"), (std::filesystem::current_path() / "trace").string());
}

TEST_F(Verbs, RequestsOfChannelVerbs) {
    EXPECT_EQ(request_of({"enable-channel", "c"}), Json({{"verb", "enable-channel"}, {"channel", "c"}}));
    EXPECT_EQ(request_of({"enable-channel", "c", "-s", "web", "--ring-size=64K", "--buffers=pid", "--mode=blocking",
                          "--blocking-timeout=inf", "--header=large", "--read-period=1ms", "--switch-period=2s",
                          "--tracefile-size=1M", "--tracefile-count=3"}),
              Json({{"verb", "enable-channel"},
                    {"session", "web"},
                    {"channel", "c"},
                    {"ring_size", 65536},
                    {"buffers", "pid"},
                    {"mode", "blocking"},
                    {"blocking_timeout_us", -1},
                    {"header", "large"},
                    {"read_period_us", 1000},
                    {"switch_period_us", 2'000'000},
                    {"tracefile_size", 1 << 20},
                    {"tracefile_count", 3}}));
    EXPECT_EQ(request_of({"disable-channel", "c", "--session=web"}),
              Json({{"verb", "disable-channel"}, {"session", "web"}, {"channel", "c"}}));
    EXPECT_EQ(request_of({"add-context", "vpid,vtid", "$app.p:t", "-c", "c"}),
              Json({{"verb", "add-context"}, {"channel", "c"}, {"contexts", {"vpid", "vtid", "$app.p:t"}}}));
}

TEST_F(Verbs, RequestsOfEventVerbs) {
    EXPECT_EQ(request_of({"enable-event", "a:*"}), Json({{"verb", "enable-event"}, {"pattern", "a:*"}}));
    EXPECT_EQ(request_of({"enable-event", "--all"}), Json({{"verb", "enable-event"}, {"pattern", "*"}}));
    EXPECT_EQ(request_of({"enable-event", "[a]*", "-c", "c", "--loglevel=INFO", "-x", "b,[c]", "--exclude=d",
                          "--on-conflict=version"}),
              Json({{"verb", "enable-event"},
                    {"channel", "c"},
                    {"loglevel", "INFO"},
                    {"exclude", {"b", "[c]", "d"}},
                    {"on_conflict", "version"},
                    {"pattern", "[a]*"}}));
    EXPECT_EQ(request_of({"enable-event", "a", "--loglevel-only=ERR"}),
              Json({{"verb", "enable-event"}, {"loglevel_only", "ERR"}, {"pattern", "a"}}));
    EXPECT_EQ(request_of({"disable-event", R"(a\,b\*)"}), Json({{"verb", "disable-event"}, {"pattern", R"(a,b\*)"}}));
}

TEST_F(Verbs, OneRequestForEachPattern) {
    answer_with(agree);
    const Finished result = run({"enable-event", "a:*,b:*", "c", "--format=json"});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(daemon_->requests().size(), 3U);
    const Json object = Json::parse(result.out);
    EXPECT_EQ(object.at("ok"), true);
    EXPECT_EQ(object.at("session"), "current");
    ASSERT_EQ(object.at("events").size(), 3U);
    EXPECT_EQ(object.at("events")[2].at("pattern"), "c");
    EXPECT_EQ(object.at("events")[2].at("channel"), "channel0");
}

TEST_F(Verbs, FirstFailureEndsAListOfPatterns) {
    answer_with([](const Json& request) {
        return request.at("pattern") == "bad" ? failure("usage", "no such pattern") : agree(request);
    });
    const Finished result = run({"enable-event", "a,bad,c", "--format=json"});
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.err, "leat: no such pattern\n");
    EXPECT_EQ(daemon_->requests().size(), 2U);
    const Json object = Json::parse(result.out);
    EXPECT_EQ(object.at("ok"), false);
    EXPECT_EQ(object.at("error"), "no such pattern");
    EXPECT_EQ(object.at("events").size(), 1U);
    const Finished text = run({"enable-event", "a,bad,c"});
    EXPECT_EQ(text.out, "\"a\" enabled in channel \"channel0\" of session \"current\"\n");
}

TEST_F(Verbs, RequestsOfTracking) {
    EXPECT_EQ(request_of({"track", "--vpid=12", "-s", "web"}),
              Json({{"verb", "track"}, {"session", "web"}, {"vpid", 12}}));
    EXPECT_EQ(request_of({"track", "--vuid=root"}), Json({{"verb", "track"}, {"vuid", 0}}));
    EXPECT_EQ(request_of({"untrack", "--vgid=all"}), Json({{"verb", "untrack"}, {"vgid", "all"}}));
    answer_with(agree);
    const Finished result = run({"track", "--vpid=1,2", "--vpid=3", "--vuid=0", "--format=json"});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(Json::parse(result.out).at("tracked"),
              Json::array({{{"vpid", 1}}, {{"vpid", 2}}, {{"vpid", 3}}, {{"vuid", 0}}}));
}

TEST_F(Verbs, UsageIsTwoAndAsksNobody) {
    answer_with(agree);
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"enable-event"},
             {"enable-event", "a", "--all"},
             {"create", "web", "-o", ""},
             {"create", "web", "-o", "/a", "-o", "/b"},
             {"enable-channel", "c", "--switch-period=soon"},
             {"enable-channel", "c", "--ring-size=-1"},
             {"track"},
             {"track", "--vpid=one"},
             {"track", "--vpid=-1"},
             {"list", "web", "--programs"},
             {"create", "\xff"},
             {"enable-event", "a\xc3"},
         }) {
        const Finished result = run(arguments);
        EXPECT_EQ(result.status, 2) << arguments.front() << ": " << result.err;
        EXPECT_TRUE(result.err.starts_with("leat: ")) << result.err;
        EXPECT_EQ(result.out, "");
    }
    EXPECT_TRUE(daemon_->requests().empty());
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"create"},
             {"set-session"},
             {"enable-event", "a", "--loglevel=INFO", "--loglevel-only=ERR"},
             {"enable-channel", "c", "--tracefile-count=-1"},
             {"enable-channel", "c", "--mode=sometimes"},
             {"start", "a", "b"},
             {"regenerate", "all"},
             {"list", "--format=xml"},
             {"save", "web"},
             {"load"},
         })
        EXPECT_EQ(run(arguments).status, kNotParsed) << arguments.front();
}

TEST_F(Verbs, FailureOfTheDaemonIsOneLineAndOneObject) {
    answer_with(failure("refused", "session \"web\" exists: choose another name\n\x1b[31m"));
    const Finished text = run({"start", "web"});
    EXPECT_EQ(text.status, 1);
    EXPECT_EQ(text.out, "");
    EXPECT_EQ(text.err, "leat: session \"web\" exists: choose another name??[31m\n");
    const Finished json = run({"start", "web", "--format=json"});
    EXPECT_EQ(json.status, 1);
    EXPECT_EQ(Json::parse(json.out).at("kind"), "refused");
    answer_with(failure("usage", "bad name"));
    EXPECT_EQ(run({"start", "web"}).status, 2);
}

TEST_F(Verbs, WithoutADaemon) {
    const Finished text = run({"stop"});
    EXPECT_EQ(text.status, 1);
    EXPECT_EQ(text.err,
              "leat: no session daemon is running: leat create NAME starts one, and leat-sessiond --background one "
              "that goes on "
              "with the sessions of one that was killed\n");
    const Finished json = run({"list", "--format=json"});
    EXPECT_EQ(json.status, 1);
    EXPECT_EQ(Json::parse(json.out).at("ok"), false);
    EXPECT_EQ(Json::parse(json.out).at("kind"), "not-found");
}

TEST_F(Verbs, DoneAlreadyIsSuccessAndSaysSo) {
    answer_with([](const Json& request) {
        Json answer = agree(request);
        answer["already"] = true;
        return answer;
    });
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{{"start"},
                                                                                           {"stop"},
                                                                                           {"enable-event", "a"},
                                                                                           {"enable-channel", "c"},
                                                                                           {"disable-channel", "c"},
                                                                                           {"add-context", "vpid"},
                                                                                           {"track", "--vpid=1"},
                                                                                           {"set-session", "a"}}) {
        const Finished result = run(arguments);
        EXPECT_EQ(result.status, 0);
        EXPECT_NE(result.out.find("already"), std::string::npos) << result.out;
    }
    EXPECT_EQ(Json::parse(run({"start", "--format=json"}).out).at("already"), true);
}

TEST_F(Verbs, WarningsAndConflictsArePrintedOnce) {
    answer_with([](const Json& request) {
        Json answer = agree(request);
        answer["warnings"] = {"careful", "careful"};
        answer["conflicts"] = Json::array({{{"text", "a:b differs"}}});
        return answer;
    });
    const Finished result = run({"enable-event", "a,b", "--format=json"});
    EXPECT_EQ(result.err, "leat: warning: careful\nleat: warning: a:b differs\n");
    EXPECT_EQ(Json::parse(result.out).at("warnings"), Json({"careful", "a:b differs"}));
}

TEST_F(Verbs, CountsOfStop) {
    answer_with([](const Json& request) {
        Json answer = agree(request);
        answer["events"] = 100;
        answer["discarded"] = {{"c0", {{"ring_full", 3}, {"no_ring", 4}}}, {"c1", Json::object()}};
        return answer;
    });
    EXPECT_EQ(run({"stop"}).out,
              "session \"current\" stopped: 100 events, 7 discarded\n"
              "  channel \"c0\": 7 discarded: ring_full 3, no_ring 4\n");
}

Json whole_session() {
    return Json::parse(R"({
        "name": "w\u001b", "state": "active", "output": "/traces/web", "current": true, "started_once": true,
        "memory": 3145728, "refused": {"traces": 2, "reason": "no memory"}, "applications": 2, "tracked": {"vpid": [1, 2], "vuid": "all", "vgid": []},
        "channels": [{"name": "c0", "enabled": true, "ring_size": 1048576, "buffers": "user", "mode": "discard",
            "tracefile_size": 65536, "tracefile_count": 2,
                      "header": "compact", "contexts": ["vpid", "procname"],
                      "rules": [{"pattern": "a:*", "loglevel": "INFO", "loglevel_only": null,
                                 "exclude": ["a:b*", "a:c"], "enabled": true},
                                {"pattern": "b", "loglevel": null, "loglevel_only": "ERR", "exclude": [],
                                 "enabled": false}],
                      "events": 12, "discarded": {"ring_full": 3}}],
        "conflicts": [{"event": "a:b", "channel": "c0", "difference": "the field x is an integer, not a string",
                       "programs": [{"name": "one", "pid": 1}, {"name": "two", "pid": 2}], "text": "-"}]})");
}

TEST_F(Verbs, StatusShowsEveryAttribute) {
    answer_with({{"ok", true}, {"sessions", {whole_session()}}, {"warnings", Json::array()}});
    EXPECT_EQ(run({"status"}).out,
              "session \"w?\" (active, current)\n"
              "  output     /traces/web\n"
              "  programs   2\n"
              "  memory     3.0 MiB\n"
              "  refused    2 traces: no memory\n"
              "  only vpid  1, 2\n"
              "  only vgid  none\n"
              "  channel \"c0\"\n"
              "    rings      1.0 MiB for each CPU, buffers user, mode discard, header compact\n"
              "    files      of 64.0 KiB at most, the newest 2 of each stream\n"
              "    contexts   vpid, procname\n"
              "    events     \"a:*\", INFO or more severe, but not \"a:b*\", \"a:c\"\n"
              "    events     \"b\", only ERR (disabled)\n"
              "    recorded   12, 3 discarded: ring_full 3\n"
              "  conflict   a:b in channel c0: the field x is an integer, not a string\n"
              "    program  one (1)\n"
              "    program  two (2)\n");
    EXPECT_EQ(run({"list"}).out, "\"w?\" (active, current): /traces/web\n");
    EXPECT_EQ(run({"list", "w"}).out, run({"status"}).out);
    EXPECT_EQ(Json::parse(run({"list", "--format=json"}).out).at("sessions")[0], whole_session());
}

TEST_F(Verbs, AnswersWithWrongTypesAreErrors) {
    const Json whole = whole_session();
    for (const auto& [key, value] : whole.items()) {
        if (key == "started_once") continue;  // not shown
        Json session = whole;
        session[key] = Json::array({Json::array()});
        answer_with({{"ok", true}, {"sessions", {session}}});
        const Finished result = run({"status"});
        EXPECT_EQ(result.status, 1) << key;
        EXPECT_EQ(result.out, "") << key;
        EXPECT_EQ(result.err, "leat: the session daemon's answer has an unexpected form\n") << key;
    }
    for (const char* answer :
         {R"({"ok": true})", R"({"ok": true, "warnings": 7})", R"({"ok": true, "sessions": {"a": 1}})",
          R"({"ok": false})", R"({"ok": false, "kind": 1, "error": []})"}) {
        answer_with(Json::parse(answer));
        EXPECT_EQ(run({"status"}).status, 1) << answer;
        EXPECT_EQ(run({"start", "--format=json"}).status, 1) << answer;
    }
}

TEST_F(Verbs, Programs) {
    answer_with(Json::parse(R"({"ok": true, "programs": [{"pid": 7, "uid": 33, "name": "nginx\n", "bits": 64,
                                "events": ["nginx:a", "nginx:b"]}]})"));
    EXPECT_EQ(run({"list", "--programs"}).out, "7 nginx? (user 33, 64 bits)\n  nginx:a\n  nginx:b\n");
}

TEST_F(Verbs, SavedSessionIsLoadedAgain) {
    const std::string file = directory_.path() / "web.json";
    const Json definition{{"name", "web"}, {"channels", Json::array()}};
    answer_with({{"ok", true}, {"session", "web"}, {"definition", definition}, {"warnings", Json::array()}});
    EXPECT_EQ(run({"save", "web", "-o", file}).status, 0);
    const Finished second = run({"save", "web", "-o", file});
    EXPECT_EQ(second.status, 1);
    EXPECT_NE(second.err.find("--force"), std::string::npos);
    EXPECT_EQ(run({"save", "web", "-o", file, "--force"}).status, 0);
    EXPECT_EQ(request_of({"load", "-i", file, "web2"}),
              Json({{"verb", "load"}, {"session", "web2"}, {"definition", definition}}));
}

TEST_F(Verbs, LoadedSessionGoesWhereTheOptionsSay) {
    const std::string file = directory_.path() / "web.json";
    std::ofstream(file) << R"({"name": "web", "directory": "/a", "live": "net://b"})";
    answer_with(agree);
    EXPECT_EQ(request_of({"load", "-i", file, "-o", "/c"}).at("definition"),
              Json({{"name", "web"}, {"directory", "/c"}}));
    EXPECT_EQ(request_of({"load", "-i", file, "--live=net://d"}).at("definition"),
              Json({{"name", "web"}, {"live", "net://d"}}));
    EXPECT_EQ(run({"load", "-i", file, "-o", "/c", "-o", "/d"}).status, 2);
}

TEST_F(Verbs, FilesThatCannotBeLoaded) {
    const std::string file = directory_.path() / "bad.json";
    answer_with(agree);
    const auto error_of = [&](const std::string& text) {
        std::ofstream(file) << text;
        const Finished result = run({"load", "-i", file});
        EXPECT_EQ(result.status, 1);
        return result.err;
    };
    EXPECT_NE(error_of("{\"a\": ").find("bad.json: not JSON: parse error at line 1"), std::string::npos);
    EXPECT_NE(error_of("[]").find("no JSON object"), std::string::npos);
    EXPECT_NE(error_of(std::string(1000, '[')).find("bad.json: "), std::string::npos);
    EXPECT_NE(error_of(std::string((8U << 20U) + 1, ' ')).find("more than the"), std::string::npos);
    EXPECT_EQ(run({"load", "-i", "/nowhere/at/all"}).status, 1);
    EXPECT_TRUE(daemon_->requests().empty());
}

}  // namespace
}  // namespace leat::cli
