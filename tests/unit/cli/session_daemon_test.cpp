#include "cli/session_daemon.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "support/patience.hpp"
#include "unit/cli/fake_daemon.hpp"

namespace leat::cli {
namespace {

using namespace std::chrono_literals;

TEST(ControlSockets, EmptyVariableLeadsNowhere) {
    ::setenv("LEAT_RUNTIME_DIR", "", 1);
    EXPECT_FALSE(control_sockets());
    ::unsetenv("LEAT_RUNTIME_DIR");
    const auto sockets = control_sockets();
    ASSERT_TRUE(sockets);
    EXPECT_EQ(sockets->front(), "/run/leat/control.sock");
    EXPECT_EQ(sockets->size(), ::geteuid() == 0 ? 1U : 2U);
}

// What is started is a shell script.
class DaemonStartTest : public testing::Test {
  protected:
    DaemonStart start(const std::string& script) {
        DaemonStart start;
        start.program = directory_.path() / "leat-sessiond";
        start.connect_patience = 20ms;
        std::ofstream(start.program) << "#!/bin/sh\n" << script << "\n";
        std::filesystem::permissions(start.program, std::filesystem::perms::owner_all);
        return start;
    }

    std::string error_of(const DaemonStart& start) {
        const auto client = connect_or_start_daemon(start);
        EXPECT_FALSE(client);
        return client ? "" : client.error().message;
    }

    std::string content_of(const char* name) {
        std::ifstream in(directory_.path() / name);
        return {std::istreambuf_iterator<char>(in), {}};
    }

    RuntimeDirectoryForTests directory_;
};

TEST_F(DaemonStartTest, NothingIsStartedIfOneRuns) {
    FakeDaemon daemon(directory_.socket(), [](const Json&) { return std::vector<std::string>{}; });
    EXPECT_TRUE(connect_or_start_daemon(start("echo started >$LEAT_RUNTIME_DIR/mark")));
    EXPECT_EQ(content_of("mark"), "");
}

TEST_F(DaemonStartTest, GoesToTheBackgroundWithoutOurDescriptors) {
    const UniqueFd inherited(::dup2(STDOUT_FILENO, 77));
    error_of(
        start("echo \"$@\" >$LEAT_RUNTIME_DIR/mark; [ -e /proc/$$/fd/77 ] || echo closed >>$LEAT_RUNTIME_DIR/mark"));
    EXPECT_EQ(content_of("mark"), "--background\nclosed\n");
}

TEST_F(DaemonStartTest, FailureHasTheReasonOfTheDaemon) {
    EXPECT_EQ(error_of(start("echo 'leat-sessiond: no room' >&2; exit 1")),
              "leat-sessiond could not be started: no room");
    EXPECT_EQ(error_of(start("kill -9 $$")), "leat-sessiond could not be started: it ended before it was ready");
    EXPECT_EQ(error_of(start("exit 0")), "leat-sessiond was started, but nobody can connect to it");
}

TEST_F(DaemonStartTest, NoSuchProgram) {
    DaemonStart missing;
    missing.program = "/nowhere/leat-sessiond";
    EXPECT_EQ(error_of(missing),
              "no session daemon is running, and /nowhere/leat-sessiond cannot be started: No such "
              "file or directory");
}

TEST_F(DaemonStartTest, LoserOfARaceFindsTheDaemonOfTheWinner) {
    DaemonStart losing = start("touch $LEAT_RUNTIME_DIR/mark; exit 1");
    losing.connect_patience = test::test_patience();
    std::thread winner([&] {
        while (!std::filesystem::exists(directory_.path() / "mark")) std::this_thread::yield();
        FakeDaemon daemon(directory_.socket(), [](const Json&) { return std::vector<std::string>{}; });
        while (!std::filesystem::exists(directory_.path() / "end")) std::this_thread::yield();
    });
    EXPECT_TRUE(connect_or_start_daemon(losing));
    std::ofstream(directory_.path() / "end") << "";
    winner.join();
}

TEST_F(DaemonStartTest, DaemonThatKeepsTheConsoleKeepsNobodyWaiting) {
    // It ends with the test's directory.
    error_of(start("(while [ -d $LEAT_RUNTIME_DIR ]; do sleep 0.01; done) & exit 0"));
}

}  // namespace
}  // namespace leat::cli
