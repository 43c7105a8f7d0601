#include "relay/store/file_guard.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "support/scratch_directory.hpp"

namespace leat::relay {
namespace {

class FileGuardTest : public testing::Test {
  protected:
    UniqueFd file(const std::string& name, off_t size) {
        UniqueFd fd(::open((scratch.path() / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        EXPECT_EQ(::ftruncate(fd.get(), size), 0);
        return fd;
    }
    off_t size_of(const std::string& name) {
        struct stat status {};
        ::stat((scratch.path() / name).c_str(), &status);
        return status.st_size;
    }
    // Runs `work` in another process, which `work` kills at its end. Then waits until that process's guard is gone,
    // too.
    template <class Work>
    void run_and_kill(Work work) {
        std::array<int, 2> ends{};
        ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
        const pid_t child = ::fork();
        if (child == 0) work();
        ::close(ends[1]);
        ::waitpid(child, nullptr, 0);
        char byte = 0;
        EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "the end of the last one that holds the pipe";
        ::close(ends[0]);
    }

    test::ScratchDirectory scratch;
};

TEST_F(FileGuardTest, FileOfAKilledProcessIsCut) {
    run_and_kill([&] {
        const auto guard = *FileGuard::start();
        auto guarded = *guard->guard(file("a", 1000).get(), file("a.idx", 100).get());
        auto other = *guard->guard(file("b", 1000).get(), file("b.idx", 100).get(), {0, 16});
        guarded.set_sizes({200, 18});
        guarded.set_sizes({300, 20});
        ::raise(SIGKILL);
    });
    EXPECT_EQ(size_of("a"), 300);
    EXPECT_EQ(size_of("a.idx"), 20);
    EXPECT_EQ(size_of("b"), 0);
    EXPECT_EQ(size_of("b.idx"), 16);
}

TEST_F(FileGuardTest, FileThatWasGivenUpIsLeftAlone) {
    run_and_kill([&] {
        const auto guard = *FileGuard::start();
        const UniqueFd fd = file("a", 1000);
        { const auto guarded = guard->guard(fd.get()); }
        auto other = *guard->guard(file("b", 1000).get());
        other.set_sizes({10, 0});
        ::raise(SIGKILL);
    });
    EXPECT_EQ(size_of("a"), 1000);
    EXPECT_EQ(size_of("b"), 10);
}

TEST_F(FileGuardTest, NoMoreFilesThanThereIsRoomFor) {
    const auto guard = *FileGuard::start();
    const UniqueFd fd = file("a", 1);
    std::vector<FileGuard::Guarded> all;
    while (auto guarded = guard->guard(fd.get())) {
        guarded->set_sizes({1, 0});
        all.push_back(*std::move(guarded));
    }
    EXPECT_EQ(all.size(), FileGuard::kMaxFiles);
    all.pop_back();
    EXPECT_TRUE(guard->guard(fd.get()));
}

}  // namespace
}  // namespace leat::relay
