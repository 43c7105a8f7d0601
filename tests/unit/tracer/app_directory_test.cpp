// Control files where daemons look for them: made, locked, named, removed.
#include "tracer/app_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <leat/tracepoint.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <limits>
#include <string>

#include "base/unique_fd.hpp"
#include "support/runtime_directory.hpp"
#include "support/skip.hpp"
#include "support/two_users.hpp"
#include "tracer/control_memory.hpp"
#include "tracer/process_page.hpp"
#include "wire/app/control_file.hpp"

LEAT_TRACEPOINT(directory, event, LEAT_INFO, LEAT_NO_FIELDS, void);

namespace leat::tracer {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
}

// What a daemon, or a program that clears away, finds.
bool is_dead(const fs::path& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(fd.is_open());
    return ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

// One that has no file of its own.
pid_t bare_child() { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)); }

class AppDirectory : public testing::Test {
  protected:
    [[nodiscard]] static bool can_create() { return AppFile().create(4096, 8192); }
    // What a program leaves that was killed.
    void make_dead(const fs::path& path) const {
        fs::create_directories(runtime_.apps());
        ASSERT_TRUE(UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).is_open());
    }
    // As a child does, which looks at two files of each kind: its parent's, and another one.
    static void clear_away() {
        AppFile parents;
        ASSERT_TRUE(parents.create(4096, 8192));
        EXPECT_TRUE(AppFile().create_beside(parents.path(), 4096, 8192));
    }

    test::RuntimeDirectory runtime_;
};

TEST_F(AppDirectory, FileHasItsNameOnlyWhenItIsReady) {
    AppFile file;
    ASSERT_TRUE(file.create(4096, 8192));
    const fs::path as_new = file.path();
    EXPECT_EQ(as_new.parent_path(), runtime_.apps());
    EXPECT_EQ(as_new.extension(), ".new");
    EXPECT_EQ(as_new.stem().string().size(), 16U);
    EXPECT_EQ(fs::file_size(as_new), 8192U);
    EXPECT_FALSE(is_dead(as_new)) << "others must not take it for a dead program's";
    ASSERT_TRUE(file.publish());
    EXPECT_EQ(fs::path(file.path()), fs::path(as_new).replace_extension(".app"));
    EXPECT_EQ(runtime_.names(), std::vector{fs::path(file.path()).filename().string()});
}

TEST_F(AppDirectory, WhatWasNotPublishedGoes) {
    EXPECT_TRUE(can_create());
    EXPECT_TRUE(runtime_.names().empty());
}

// The umask of whoever starts first is nobody's business.
TEST_F(AppDirectory, DirectoriesAndFilesHaveTheirModesWhateverTheUmask) {
    const mode_t before = ::umask(0277);
    AppFile file;
    const bool is_made = file.create(4096, 8192);
    ::umask(before);
    ASSERT_TRUE(is_made);
    EXPECT_EQ(mode_of(runtime_.path() / "apps"), 01777U);
    EXPECT_EQ(mode_of(runtime_.apps()), 0700U);
    EXPECT_EQ(mode_of(file.path()), 0600U);
}

TEST_F(AppDirectory, DirectoryThatOthersMayWriteIsNotUsed) {
    fs::create_directories(runtime_.apps());
    ::chmod(runtime_.apps().c_str(), 0770);
    EXPECT_FALSE(can_create());
    ::chmod(runtime_.apps().c_str(), 0755);
    EXPECT_TRUE(can_create());
}

TEST_F(AppDirectory, DirectoryOfSomebodyElseIsNotUsed) {
    LEAT_NEEDS(test::can_be_two_users(), "two-users");
    fs::create_directories(runtime_.apps());
    ASSERT_EQ(::chown(runtime_.apps().c_str(), 65534, 65534), 0);
    EXPECT_FALSE(can_create());
}

TEST_F(AppDirectory, LinkInPlaceOfTheDirectoryIsNotFollowed) {
    fs::create_directories(runtime_.path() / "apps");
    fs::create_directories(runtime_.path() / "elsewhere");
    fs::create_directory_symlink(runtime_.path() / "elsewhere", runtime_.apps());
    EXPECT_FALSE(can_create());
    fs::remove(runtime_.apps());
    fs::create_directory_symlink(runtime_.path() / "nowhere", runtime_.apps());
    EXPECT_FALSE(can_create());
    EXPECT_FALSE(fs::exists(runtime_.path() / "nowhere"));
}

TEST_F(AppDirectory, OddVariableMeansNoFile) {
    for (const std::string& value : {std::string(), std::string("relative"), "/" + std::string(300, 'x')}) {
        test::set_runtime_directory(value.c_str());
        EXPECT_FALSE(can_create()) << value;
    }
    test::set_runtime_directory("/nonexistent");
    EXPECT_FALSE(can_create());
}

// Whoever prints there would write into the file.
TEST_F(AppDirectory, FileTakesNoStandardDescriptor) {
    const pid_t child = ::fork();
    if (child == 0) {
        for (int fd = 0; fd <= 2; ++fd) ::close(fd);
        AppFile file;
        ::_exit(file.create(4096, 8192) && file.fd() > 2 && ::fcntl(2, F_GETFD) < 0 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

// A thread that loads a library, while another one changes the environment, would read what is freed.
TEST_F(AppDirectory, EnvironmentIsReadOnce) {
    ::setenv("LEAT_RUNTIME_DIR", "/nonexistent", 1);
    AppFile file;
    ASSERT_TRUE(file.create(4096, 8192));
    EXPECT_EQ(fs::path(file.path()).parent_path(), runtime_.apps());
}

TEST_F(AppDirectory, FileThatSomebodyRemovedIsNotPublished) {
    AppFile file;
    ASSERT_TRUE(file.create(4096, 8192));
    fs::remove(file.path());
    EXPECT_FALSE(file.publish());
}

// Between its creation and its lock, it looks like that of a dead program.
TEST_F(AppDirectory, NewFileIsLeftAloneUntilItIsOld) {
    const fs::path other = runtime_.apps() / "0123456789abcdef.new";
    std::time_t begin = 0;
    bool is_there = false;
    do {  // again, if it has become old meanwhile
        fs::remove(other);
        begin = ::time(nullptr);
        make_dead(other);
        clear_away();
        is_there = fs::exists(other);
    } while (!is_there && ::time(nullptr) - begin > 1);
    EXPECT_TRUE(is_there);
    for (const std::time_t written : {std::time_t{0}, std::numeric_limits<std::time_t>::max()}) {
        make_dead(other);
        const std::array<timespec, 2> times{timespec{written, 0}, {written, 0}};
        ASSERT_EQ(::utimensat(AT_FDCWD, other.c_str(), times.data(), 0), 0);
        clear_away();
        EXPECT_FALSE(fs::exists(other));
    }
}

TEST_F(AppDirectory, ThoseThatAreLeftAloneHideNoDeadOnes) {
    for (int i = 0; i < 100; ++i) make_dead(runtime_.apps() / fmt::format("{:016x}.new", i));
    const fs::path one = runtime_.apps() / "fedcba9876543210.app";
    const fs::path other = runtime_.apps() / "0123456789abcdef.app";
    make_dead(one);
    make_dead(other);
    clear_away();
    EXPECT_FALSE(fs::exists(one));
    EXPECT_FALSE(fs::exists(other));
}

// Memory in the directory, as a program makes it.
class ControlMemoryInDirectory : public AppDirectory {
  protected:
    void SetUp() override {
        make_process_page();
        const leat_tracepoint* const list = &leat_tracepoint_directory__event;
        int fd = -1;
        memory_ = make_control_memory(&list, 1, false, fd);
        ASSERT_NE(memory_, nullptr);
        ::close(fd);
    }
    [[nodiscard]] wire::ControlFile open() const {
        UniqueFd fd(::open(memory_->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
        return *wire::ControlFile::open(std::move(fd), wire::Lane::kUser);
    }

    ControlMemory* memory_ = nullptr;
};

TEST_F(ControlMemoryInDirectory, DaemonFindsAndSwitchesIt) {
    wire::ControlFile file = open();
    EXPECT_EQ(file.read_descriptions()->at(0).name, "directory:event");
    const std::vector<wire::Action> action{{.event_id = 5, .channel = 5}};
    ASSERT_TRUE(file.switch_to(0, action));
    EXPECT_NE(memory_->entry(0).word, 0U);
    give_back(memory_);
    EXPECT_TRUE(runtime_.names().empty());
}

TEST_F(ControlMemoryInDirectory, LockStaysWithTheMapping) {
    EXPECT_FALSE(is_dead(memory_->path));
    const std::string path = memory_->path;
    const pid_t child = bare_child();
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    // Its path is no longer known, so the file stays.
    memory_->path[0] = '\0';
    give_back(memory_);
    EXPECT_FALSE(is_dead(path)) << "the child has it mapped";
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(is_dead(path));
}

TEST_F(ControlMemoryInDirectory, ChildLeavesItToItsParent) {
    const pid_t child = bare_child();
    if (child == 0) {
        give_back(memory_);
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    EXPECT_EQ(runtime_.names().size(), 1U);
    give_back(memory_);
    EXPECT_TRUE(runtime_.names().empty());
}

}  // namespace
}  // namespace leat::tracer
