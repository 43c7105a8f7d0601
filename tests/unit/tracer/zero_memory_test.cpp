#include "tracer/zero_memory.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>

#include "support/skip.hpp"

namespace leat::tracer {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 300;  // more than one piece; and anybody can lock three times that, and a piece (8 MiB)
constexpr std::size_t kFew = 16;     // that the kernel may bring in together
constexpr int kCannotLock = 77;

std::span<char> mapping() {
    void* const memory = ::mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    std::span<char> bytes(static_cast<char*>(memory), kPages * kPage);
    std::ranges::fill(bytes, 'x');
    return bytes;
}

// Its exit status.
int in_child(const std::function<int()>& run) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(run());
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::size_t resident(std::span<char> bytes) {
    std::array<unsigned char, kPages> is_there{};
    if (::mincore(bytes.data(), bytes.size(), is_there.data()) != 0) return kPages + 1;
    return static_cast<std::size_t>(std::ranges::count_if(is_there, [](unsigned char byte) { return byte != 0; }));
}

TEST(ZeroMemory, IsThereInPlaceOfWhatWas) {
    const std::span<char> bytes = mapping();
    ASSERT_TRUE(ZeroMemory().replace(bytes.data(), bytes.size() / 2, true));
    EXPECT_EQ(std::ranges::count(bytes, '\0'), bytes.size() / 2);
    bytes[0] = 'y';
    EXPECT_EQ(bytes[bytes.size() / 2], 'x');
    ::munmap(bytes.data(), bytes.size());
}

TEST(ZeroMemory, IsThereToBeReadAlone) {
    const std::span<char> bytes = mapping();
    ASSERT_TRUE(ZeroMemory().replace(bytes.data(), bytes.size(), false));
    EXPECT_EQ(std::ranges::count(bytes, '\0'), bytes.size());
    const auto die = [&bytes] {
        ::signal(SIGSEGV, [](int) { ::_exit(3); });
        bytes[0] = 'y';
        return 0;
    };
    EXPECT_EQ(in_child(die), 3);
    ::munmap(bytes.data(), bytes.size());
}

TEST(ZeroMemory, WhereThereIsNoneTheMappingStays) {
    const std::span<char> bytes = mapping();
    const auto replace = [&bytes] {
        const struct rlimit nothing_more {
            1, 1
        };
        if (::setrlimit(RLIMIT_AS, &nothing_more) != 0) return 1;
        if (ZeroMemory().replace(bytes.data(), bytes.size(), true)) return 2;
        return std::ranges::count(bytes, 'x') == static_cast<std::ptrdiff_t>(bytes.size()) ? 0 : 3;
    };
    EXPECT_EQ(in_child(replace), 0);
    ::munmap(bytes.data(), bytes.size());
}

// As real-time programs are.
TEST(ZeroMemory, TakesNoneInAProgramThatLocksAllItHas) {
    const std::span<char> bytes = mapping();
    const int status = in_child([&bytes] {
        for (const std::span<char> more : {mapping(), mapping()})
            if (::mlock(more.data(), more.size()) != 0) return kCannotLock;
        if (::mlock(bytes.data(), bytes.size()) != 0 || ::mlockall(MCL_FUTURE) != 0) return kCannotLock;
        if (!ZeroMemory().replace(bytes.data(), bytes.size(), true)) return 1;
        bytes[0] = 'y';
        return resident(bytes) <= kFew ? 0 : 2;
    });
    LEAT_NEEDS(status != kCannotLock, "locked-memory");
    EXPECT_EQ(status, 0);
    ::munmap(bytes.data(), bytes.size());
}

}  // namespace
}  // namespace leat::tracer
