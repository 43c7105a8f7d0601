#include "sessiond/handover.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "base/local_socket.hpp"
#include "support/scratch_directory.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::sessiond {
namespace {

class HandoverTest : public testing::Test {
  protected:
    UniqueFd locked(const char* name) const {
        UniqueFd file(::open((directory_.path() / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        EXPECT_EQ(::flock(file.get(), LOCK_EX | LOCK_NB), 0);
        return file;
    }
    UniqueFd listening(const char* name, int type) const {
        return *listen_at(directory_.path() / name, {.type = type});
    }

    // As after exec: the numbers of these descriptors.
    [[nodiscard]] Handover found(const std::string& text) const { return Handover::find(text, directory_.path()); }
    [[nodiscard]] bool is_found(const std::string& text) const { return found(text).lock.is_open(); }
    [[nodiscard]] std::string copied(const std::vector<int>& descriptors) const {
        std::string text;
        for (const int descriptor : descriptors)
            text += fmt::format("{}{}", text.empty() ? "" : ",", descriptor < 0 ? -1 : ::dup(descriptor));
        return text;
    }

    test::ScratchDirectory directory_;
    Handover before_{.lock = locked(wire::kLockName),
                     .active = locked(wire::kActiveName),
                     .programs = listening(wire::kAppSocketName, SOCK_SEQPACKET),
                     .clients = listening(wire::kControlSocketName, SOCK_STREAM)};
    const int lock_ = before_.lock.get();
    const int active_ = before_.active.get();
    const int programs_ = before_.programs.get();
    const int clients_ = before_.clients.get();
};

TEST_F(HandoverTest, DescriptorsSurviveExecAndAreClosedAtTheNext) {
    const std::string text = before_.keep_over_exec();
    EXPECT_EQ(text, fmt::format("{},{},{},{}", lock_, active_, programs_, clients_));
    for (const int descriptor : {lock_, active_, programs_, clients_}) EXPECT_EQ(::fcntl(descriptor, F_GETFD), 0);
    const Handover next = found(copied({lock_, active_, programs_, clients_}));
    for (const UniqueFd* const descriptor : {&next.lock, &next.active, &next.programs, &next.clients}) {
        ASSERT_TRUE(descriptor->is_open());
        EXPECT_EQ(::fcntl(descriptor->get(), F_GETFD), FD_CLOEXEC);
    }
}

TEST_F(HandoverTest, SessionNeedNotBeActive) {
    const Handover next = found(copied({lock_, -1, programs_, clients_}));
    EXPECT_TRUE(next.lock.is_open());
    EXPECT_FALSE(next.active.is_open());
}

TEST_F(HandoverTest, WhatIsNotThatIsNotTaken) {
    for (const char* const text : {"", "1", "x", "1,", "-1,-1,-1,-1", "1,2,1,2", "99999,99998,99997,99996"})
        EXPECT_FALSE(is_found(text)) << text;
    EXPECT_FALSE(is_found(copied({lock_, active_, programs_})));
    EXPECT_FALSE(is_found(copied({lock_, active_, programs_, clients_, clients_})));
    EXPECT_FALSE(is_found(copied({-1, active_, programs_, clients_})));
    EXPECT_FALSE(is_found(copied({active_, lock_, programs_, clients_})));
    EXPECT_FALSE(is_found(copied({lock_, active_, programs_, lock_})));
    const UniqueFd deaf(::socket(AF_UNIX, SOCK_STREAM, 0));
    EXPECT_FALSE(is_found(copied({lock_, active_, programs_, deaf.get()})));
}

// Somebody has put others there, or the daemon lives elsewhere.
TEST_F(HandoverTest, FilesMustHaveTheirNames) {
    const std::filesystem::path lock = directory_.path() / wire::kLockName;
    std::filesystem::rename(lock, directory_.path() / "old");
    EXPECT_FALSE(is_found(copied({lock_, active_, programs_, clients_})));
    const UniqueFd another = locked(wire::kLockName);
    EXPECT_FALSE(is_found(copied({lock_, active_, programs_, clients_})));
    EXPECT_TRUE(is_found(copied({another.get(), active_, programs_, clients_})));
    std::filesystem::remove(directory_.path() / wire::kControlSocketName);
    EXPECT_FALSE(is_found(copied({another.get(), active_, programs_, clients_})));
}

}  // namespace
}  // namespace leat::sessiond
