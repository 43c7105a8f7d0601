#include "cli/session_trace.hpp"

#include <gtest/gtest.h>

#include "session/trace_description.hpp"
#include "unit/cli/fake_daemon.hpp"

namespace leat::cli {
namespace {

std::string text_of(const Result<std::optional<std::string>>& found) {
    return found ? found->value_or("none") : "error";
}

class SessionTrace : public testing::Test {
  protected:
    // What is found if the daemon answers like this.
    std::string find(const std::string& answer) {
        FakeDaemon daemon(directory_.socket(), [&](const Json&) { return std::vector<std::string>{answer + "\n"}; });
        return text_of(find_session_trace("web"));
    }

    RuntimeDirectoryForTests directory_;
};

TEST_F(SessionTrace, NoneWithoutADaemon) { EXPECT_EQ(text_of(find_session_trace({})), "none"); }

TEST_F(SessionTrace, NoneIfThereIsNoSuchSession) {
    EXPECT_EQ(find(R"({"ok": false, "kind": "not-found", "error": "there is no session"})"), "none");
}

TEST_F(SessionTrace, DirectoryOfTheSession) {
    EXPECT_EQ(find(R"({"ok": true, "sessions": [{"name": "web", "output": "/traces/web"}]})"), "/traces/web");
}

TEST_F(SessionTrace, UrlUnderWhichARelayHasTheSession) {
    EXPECT_EQ(find(R"({"ok": true, "sessions": [{"name": "web", "output": "net://relay:1:2", "live": true}]})"),
              "net://relay/host/" + session::host_name() + "/web");
}

TEST_F(SessionTrace, NoneAtARelayThatHasNoViewersForIt) {
    EXPECT_EQ(find(R"({"ok": true, "sessions": [{"name": "web", "output": "net://relay:1:2", "live": false}]})"),
              "error");
}

TEST_F(SessionTrace, OtherFailuresAreErrors) {
    for (const char* answer : {R"({"ok": false, "kind": "refused", "error": "not yours"})", R"({"ok": false})",
                               R"({"ok": true, "sessions": []})", R"({"ok": true, "sessions": [{"output": 1}]})", "no"})
        EXPECT_EQ(find(answer), "error") << answer;
}

}  // namespace
}  // namespace leat::cli
