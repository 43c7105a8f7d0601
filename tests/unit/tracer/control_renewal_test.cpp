// A process that has become another one has control files of its own. This program has tracepoints, so its forks are
// watched.
#include "tracer/control_renewal.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <leat/tracepoint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "support/resource_limit.hpp"
#include "support/runtime_directory.hpp"
#include "support/skip.hpp"
#include "support/two_users.hpp"
#include "tracer/app_directory.hpp"
#include "tracer/control_memory.hpp"
#include "tracer/process_page.hpp"
#include "tracer/trust.hpp"
#include "wire/app/control_file.hpp"

LEAT_TRACEPOINT(renewal, first, LEAT_INFO, LEAT_NO_FIELDS, void);
LEAT_TRACEPOINT(renewal, second, LEAT_INFO, LEAT_NO_FIELDS, void);

namespace leat::tracer {
namespace {

namespace fs = std::filesystem;
using wire::Action;
using wire::Lane;

constexpr uid_t kNobody = 65534;

wire::ControlFile open_file(const fs::path& path, Lane lane) {
    return *wire::ControlFile::open(UniqueFd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)), lane);
}

class ControlRenewal : public testing::Test {
  protected:
    void SetUp() override {
        ::chmod(runtime_.path().c_str(), 0755);  // for other users
        make_process_page();
        make(std::vector<const leat_tracepoint*>{&leat_tracepoint_renewal__first, &leat_tracepoint_renewal__second});
    }
    void TearDown() override { give_back(memory_); }

    void make(const std::vector<const leat_tracepoint*>& tracepoints) {
        give_back(memory_);
        int fd = -1;
        memory_ = make_control_memory(tracepoints.data(), tracepoints.size(), false, fd);
        ASSERT_NE(memory_, nullptr);
        ::close(fd);
    }

    // The first tracepoint has one action, the second one several.
    void switch_on(Lane lane) const {
        wire::ControlFile file = open_file(memory_->path, lane);
        ASSERT_TRUE(file.switch_to(0, std::vector{action(lane, 0)}));
        ASSERT_TRUE(file.switch_to(1, std::vector{action(lane, 1), action(lane, 2), action(lane, 3)}));
    }
    static Action action(Lane lane, std::uint32_t number) {
        return {.event_id = 100 * static_cast<std::uint32_t>(lane) + number,
                .channel = number << 2 | static_cast<std::uint32_t>(lane)};
    }
    [[nodiscard]] std::uint8_t byte(Lane lane, std::uint64_t tracepoint) const {
        return wire::lane_byte(memory_->entry(tracepoint).word, static_cast<std::uint32_t>(lane));
    }
    [[nodiscard]] std::vector<Action> actions(Lane lane, std::uint64_t tracepoint) const {
        const auto number = static_cast<std::uint32_t>(lane);
        const std::uint32_t list = wire::list_of(byte(lane, tracepoint));
        const wire::ControlEntry& entry = memory_->entry(tracepoint);
        std::vector actions{entry.first[number][list]};
        const auto& more = *reinterpret_cast<const wire::MoreActions*>(  // NOLINT(*-reinterpret-cast)
            memory_->file + memory_->layout().more_actions(tracepoint));
        if ((byte(lane, tracepoint) & wire::kManyActions) != 0)
            actions.insert(actions.end(), more.lists[number][list],
                           more.lists[number][list] + entry.more[number][list]);
        return actions;
    }
    [[nodiscard]] bool is_all_there(Lane lane) const {
        return actions(lane, 0) == std::vector{action(lane, 0)} &&
               actions(lane, 1) == std::vector{action(lane, 1), action(lane, 2), action(lane, 3)};
    }

    // What `test` says in a child.
    static void in_child(const std::function<bool()>& test) {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(test() ? 0 : 1);
        int status = 0;
        ::waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    }
    [[nodiscard]] fs::path directory_of(uid_t uid) const {
        return runtime_.path() / "apps" / ("leat-" + std::to_string(uid));
    }

    test::RuntimeDirectory runtime_;
    ControlMemory* memory_ = nullptr;
};

TEST_F(ControlRenewal, ChildHasAFileOfItsOwn) {
    memory_->header().not_attached[0] = 7;
    const std::string of_parent = memory_->path;
    errno = EDOM;
    in_child([&] {
        const bool has_errno = errno == EDOM;
        const wire::ControlFile file = open_file(memory_->path, Lane::kUser);
        return has_errno && memory_->path != of_parent && fs::exists(of_parent) && fs::exists(memory_->path) &&
               file.pid() == static_cast<std::uint32_t>(::getpid()) && memory_->header().pid == file.pid() &&
               memory_->header().not_attached[0] == 0 && file.read_descriptions()->at(1).name == "renewal:second";
    });
}

TEST_F(ControlRenewal, WhatWasOnIsOnInTheChild) {
    for (const Lane lane : {Lane::kSystem, Lane::kUser, Lane::kRecorder}) switch_on(lane);
    const std::uint32_t word = memory_->entry(1).word;
    in_child([&] {
        return word != 0 && memory_->entry(1).word == word && is_all_there(Lane::kSystem) &&
               is_all_there(Lane::kUser) && is_all_there(Lane::kRecorder);
    });
}

TEST_F(ControlRenewal, ParentAndChildAreSwitchedByThemselves) {
    switch_on(Lane::kUser);
    wire::ControlFile parent = open_file(memory_->path, Lane::kUser);
    in_child([&] {
        const bool is_apart = parent.switch_to(0, {}) && byte(Lane::kUser, 0) != 0;
        wire::ControlFile child = open_file(memory_->path, Lane::kUser);
        return is_apart && child.switch_to(0, {}) && byte(Lane::kUser, 0) == 0;
    });
    EXPECT_EQ(byte(Lane::kUser, 0), 0);
    EXPECT_NE(byte(Lane::kUser, 1), 0);
}

// A program that was stopped between its looks at the word must not take the next list for that of before.
TEST_F(ControlRenewal, ChangesAreCountedOn) {
    switch_on(Lane::kUser);
    const std::uint8_t was = byte(Lane::kUser, 0);
    ASSERT_TRUE(open_file(memory_->path, Lane::kUser).switch_to(0, {}));
    in_child([&] {
        wire::ControlFile child = open_file(memory_->path, Lane::kUser);
        return child.switch_to(0, std::vector{action(Lane::kUser, 5)}) && byte(Lane::kUser, 0) != was;
    });
}

TEST_F(ControlRenewal, ChildRemovesItsOwnFileAlone) {
    in_child([&] {
        const std::string own = memory_->path;
        const std::size_t both = runtime_.names().size();
        give_back(memory_);
        return both == 2 && !fs::exists(own);
    });
    EXPECT_EQ(runtime_.names().size(), 1U);
}

// Most children end without a word.
TEST_F(ControlRenewal, FilesOfChildrenDoNotPileUp) {
    for (int i = 0; i < 50; ++i) in_child([] { return true; });
    EXPECT_LE(runtime_.names().size(), 5U);
    EXPECT_TRUE(fs::exists(memory_->path));
}

TEST_F(ControlRenewal, ChildWithoutRoomKeepsItsParents) {
    switch_on(Lane::kUser);
    const std::string of_parent = memory_->path;
    const auto has_its_parents = [&] { return memory_->path == of_parent && is_all_there(Lane::kUser); };
    {
        const test::LowerLimit none(RLIMIT_FSIZE, 0);
        in_child(has_its_parents);
    }
    ::chmod(runtime_.apps().c_str(), 0777);
    in_child(has_its_parents);
    EXPECT_EQ(runtime_.names().size(), 1U);
}

TEST_F(ControlRenewal, ChildSharesALargeFile) {
    make(std::vector<const leat_tracepoint*>(4000, &leat_tracepoint_renewal__first));
    const std::string of_parent = memory_->path;
    in_child([&] { return memory_->path == of_parent; });
}

TEST_F(ControlRenewal, ChildThatCapturesHasALargeFileOfItsOwn) {
    make(std::vector<const leat_tracepoint*>(4000, &leat_tracepoint_renewal__first));
    switch_on(Lane::kSystem);
    const std::string of_parent = memory_->path;
    in_child([&] {
        renew_for_capture();
        const std::string own = memory_->path;
        renew_for_capture();
        return own != of_parent && own == memory_->path && fs::exists(of_parent) && fs::exists(own) &&
               is_all_there(Lane::kSystem);
    });
}

TEST_F(ControlRenewal, MemoryThatIsUnusedIsNotRenewed) {
    give_back(memory_);
    memory_ = nullptr;
    in_child([&] { return runtime_.names().empty(); });
}

// Who may end this process, but for root.
bool become_nobody() { return ::setresuid(kNobody, kNobody, 0) == 0; }

// Nobody could shorten a file that root's process has mapped, and end it.
TEST_F(ControlRenewal, UserForAWhileChangesNothing) {
    LEAT_NEEDS(test::can_be_two_users(), "two-users");
    for (const Lane lane : {Lane::kSystem, Lane::kUser, Lane::kRecorder}) switch_on(lane);
    in_child([&] {
        renew_in_child();
        const std::string before = memory_->path;
        if (::seteuid(kNobody) != 0) return false;
        renew_for_user();
        AppFile file;
        return memory_->path == before && is_all_there(Lane::kSystem) && is_all_there(Lane::kUser) &&
               !is_trusted(kNobody) && is_trusted(0) && !file.create(4096, 4096) && ::seteuid(0) == 0 &&
               is_trusted(0) && file.create(4096, 4096);
    });
}

// There is no place for its file then. When there is, it has one.
TEST_F(ControlRenewal, ChildThatIsForkedMeanwhileHasItsParentsFileForAWhile) {
    LEAT_NEEDS(test::can_be_two_users(), "two-users");
    switch_on(Lane::kSystem);
    in_child([&] {
        if (::seteuid(kNobody) != 0) return false;
        const std::string of_parent = memory_->path;
        const pid_t child = ::fork();
        if (child == 0) {
            const bool has_parents = memory_->path == of_parent && memory_->process != process_number();
            if (!has_parents || ::seteuid(0) != 0) ::_exit(1);
            renew_for_user();
            const bool has_its_own = memory_->path != of_parent && memory_->process == process_number();
            ::_exit(has_its_own && fs::exists(memory_->path) && is_all_there(Lane::kSystem) ? 0 : 2);
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        return status == 0;
    });
}

TEST_F(ControlRenewal, OtherUserHasWhatTheRecorderAsksForAlone) {
    LEAT_NEEDS(test::can_be_two_users(), "two-users");
    for (const Lane lane : {Lane::kSystem, Lane::kUser, Lane::kRecorder}) switch_on(lane);
    in_child([&] {
        const std::uint8_t was = byte(Lane::kSystem, 0);
        const bool is_changed = become_nobody();
        renew_for_user();
        const bool is_there = fs::path(memory_->path).parent_path() == directory_of(kNobody);
        const bool is_off = byte(Lane::kSystem, 0) == 0 && byte(Lane::kUser, 1) == 0;
        wire::ControlFile file = open_file(memory_->path, Lane::kSystem);
        const bool is_on_again = static_cast<bool>(file.switch_to(0, std::vector{action(Lane::kSystem, 9)}));
        return is_changed && is_there && is_off && is_all_there(Lane::kRecorder) && is_on_again &&
               byte(Lane::kSystem, 0) != was;
    });
    EXPECT_TRUE(is_all_there(Lane::kSystem)) << "it is the parent's";
}

TEST_F(ControlRenewal, UserChangesForthAndBack) {
    LEAT_NEEDS(test::can_be_two_users(), "two-users");
    in_child([&] {
        for (int i = 0; i < 20; ++i) {
            if (!become_nobody()) return false;
            renew_for_user();
            if (::setresuid(0, 0, 0) != 0) return false;
            renew_for_user();
        }
        // Not allowed to remove root's files, it has left them; later ones clear them away.
        return fs::path(memory_->path).parent_path() == directory_of(0) && fs::is_empty(directory_of(kNobody));
    });
    EXPECT_LE(runtime_.names().size(), 5U);
}

// As in a chroot() without such a directory.
TEST_F(ControlRenewal, OtherUserWithoutADirectoryKeepsTheRecorder) {
    LEAT_NEEDS(test::can_be_two_users(), "two-users");
    for (const Lane lane : {Lane::kSystem, Lane::kUser, Lane::kRecorder}) switch_on(lane);
    ASSERT_EQ(::mkdir(directory_of(kNobody).c_str(), 0700), 0);  // root's
    in_child([&] {
        const bool is_changed = become_nobody();
        renew_for_user();
        return is_changed && memory_->path[0] == '\0' && byte(Lane::kSystem, 0) == 0 && byte(Lane::kUser, 1) == 0 &&
               is_all_there(Lane::kRecorder);
    });
}

// A handler of the thread that loads a library.
TEST_F(ControlRenewal, HandlerDoesNotWaitForItself) {
    const RegistrationLock lock;
    const std::string before = memory_->path;
    renew_for_user();
    EXPECT_EQ(memory_->path, before);
}

}  // namespace
}  // namespace leat::tracer
