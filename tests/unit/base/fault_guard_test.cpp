#include "base/fault_guard.hpp"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/blocked_signals.hpp"
#include "base/mapping.hpp"
#include "base/unique_fd.hpp"

namespace leat {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 8;

// A file full of ones, mapped.
class FaultGuardTest : public testing::Test {
  protected:
    void SetUp() override {
        const std::vector<char> ones(kPages * kPage, 1);
        ASSERT_EQ(::write(file_.get(), ones.data(), ones.size()), static_cast<ssize_t>(ones.size()));
        mapping_ = *Mapping::of_file(file_.get(), kPages * kPage, true);
    }
    void shorten(std::size_t pages) const { ASSERT_EQ(::ftruncate(file_.get(), static_cast<off_t>(pages * kPage)), 0); }
    // Of a byte of a page.
    [[nodiscard]] int at(std::size_t page) const {
        return static_cast<int>(*static_cast<volatile std::byte*>(mapping_.data() + page * kPage));
    }

    UniqueFd file_{::memfd_create("test", MFD_CLOEXEC)};
    Mapping mapping_;
};

TEST_F(FaultGuardTest, WhatIsGoneReadsAsZeros) {
    const FaultGuard guard = *FaultGuard::of(mapping_.data(), mapping_.size());
    EXPECT_EQ(at(7), 1);
    EXPECT_FALSE(guard.was_lost());
    shorten(3);
    EXPECT_EQ(at(2), 1);
    EXPECT_FALSE(guard.was_lost());
    EXPECT_EQ(at(5), 0);
    EXPECT_TRUE(guard.was_lost());
    EXPECT_EQ(at(7), 0);
    EXPECT_EQ(at(3), 0);
}

TEST_F(FaultGuardTest, WhatIsGoneCanBeWritten) {
    const FaultGuard guard = *FaultGuard::of(mapping_.data(), mapping_.size());
    shorten(0);
    *static_cast<volatile std::byte*>(mapping_.data()) = std::byte{7};
    EXPECT_TRUE(guard.was_lost());
    EXPECT_EQ(at(0), 7);
}

TEST_F(FaultGuardTest, PartsAreLostOneByOne) {
    const FaultGuard guard = *FaultGuard::of(mapping_.data(), mapping_.size(), 2 * kPage);
    shorten(2);
    EXPECT_EQ(at(4), 0);
    EXPECT_TRUE(guard.was_lost(2));
    for (const std::size_t part : {0, 1, 3}) EXPECT_FALSE(guard.was_lost(part)) << part;
    // What comes back is in the file, and in what was not lost.
    const std::vector<char> twos(kPages * kPage, 2);
    ASSERT_EQ(::pwrite(file_.get(), twos.data(), twos.size(), 0), static_cast<ssize_t>(twos.size()));
    EXPECT_EQ(at(6), 2);
    EXPECT_EQ(at(4), 0);
}

TEST_F(FaultGuardTest, MovedGuardGoesOn) {
    FaultGuard first = *FaultGuard::of(mapping_.data(), mapping_.size());
    const FaultGuard guard = std::move(first);
    shorten(0);
    EXPECT_EQ(at(1), 0);
    EXPECT_TRUE(guard.was_lost());
}

TEST_F(FaultGuardTest, ThreadThatBlocksSignalsIsSafe) {
    const FaultGuard guard = *FaultGuard::of(mapping_.data(), mapping_.size());
    shorten(0);
    const BlockedSignals blocked;
    std::thread([this] { EXPECT_EQ(at(3), 0); }).join();
    EXPECT_TRUE(guard.was_lost());
}

TEST_F(FaultGuardTest, SystemCallsAreToldOfByTouching) {
    const FaultGuard guard = *FaultGuard::of(mapping_.data(), mapping_.size());
    const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
    shorten(1);
    EXPECT_EQ(::write(other.get(), mapping_.data() + kPage, kPage), -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_TRUE(FaultGuard::touch(std::span(mapping_.data() + kPage, kPage)));
    EXPECT_EQ(::write(other.get(), mapping_.data() + kPage, kPage), static_cast<ssize_t>(kPage));
    const std::byte elsewhere{};
    EXPECT_FALSE(FaultGuard::touch(std::span(&elsewhere, 1)));
}

using FaultGuardDeathTest = FaultGuardTest;

TEST_F(FaultGuardDeathTest, FaultElsewhereEndsTheProcess) {
    const FaultGuard guard = *FaultGuard::of(mapping_.data(), kPage);
    shorten(0);
    EXPECT_DEATH((void)at(1), "");
    EXPECT_DEATH(::raise(SIGBUS), "");
}

// As a virtual machine or a database has one.
TEST_F(FaultGuardDeathTest, HandlerOfBeforeHasFaultsElsewhereAndTheGuardGoesOn) {
    static sigjmp_buf back;
    static volatile sig_atomic_t faults = 0;
    const auto body = [this] {
        struct sigaction action {};
        action.sa_sigaction = [](int, siginfo_t* info, void*) {
            faults = faults + 1;
            if (info->si_code > 0) siglongjmp(back, 1);
        };
        action.sa_flags = SA_SIGINFO;
        if (::sigaction(SIGBUS, &action, nullptr) != 0) ::_exit(1);
        const FaultGuard guard = *FaultGuard::of(mapping_.data(), kPage);
        shorten(0);
        for (int turn = 0; turn < 2; ++turn)
            if (sigsetjmp(back, 0) == 0) {
                (void)at(1);
                ::_exit(2);
            } else {
                // The handler has jumped without its mask, as some do.
                sigset_t bus;
                ::sigemptyset(&bus);
                ::sigaddset(&bus, SIGBUS);
                sigset_t blocked;
                ::pthread_sigmask(SIG_UNBLOCK, &bus, &blocked);
                if (::sigismember(&blocked, SIGTERM) != 0) ::_exit(3);
            }
        ::raise(SIGBUS);
        ::_exit(faults == 3 && at(0) == 0 && guard.was_lost() ? 0 : 4);
    };
    EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

// It says what has happened, and expects the process to end when it returns.
TEST_F(FaultGuardDeathTest, HandlerOfBeforeThatIsCalledOnceEndsTheProcess) {
    static volatile sig_atomic_t faults = 0;
    const auto body = [this] {
        struct sigaction action {};
        action.sa_sigaction = [](int, siginfo_t*, void*) {
            faults = faults + 1;
            if (faults != 1) ::_exit(1);
        };
        action.sa_flags = static_cast<int>(SA_SIGINFO | SA_RESETHAND);
        if (::sigaction(SIGBUS, &action, nullptr) != 0) ::_exit(2);
        const FaultGuard guard = *FaultGuard::of(mapping_.data(), kPage);
        shorten(0);
        (void)at(1);
        ::_exit(3);
    };
    EXPECT_EXIT(body(), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(FaultGuardDeathTest, SignalThatWasIgnoredStaysSo) {
    const auto body = [this] {
        ::signal(SIGBUS, SIG_IGN);
        const FaultGuard guard = *FaultGuard::of(mapping_.data(), kPage);
        shorten(0);
        ::raise(SIGBUS);
        ::_exit(at(0) == 0 && guard.was_lost() ? 0 : 1);
    };
    EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(FaultGuardDeathTest, RangeIsGuardedAsLongAsItsGuardLives) {
    { const FaultGuard guard = *FaultGuard::of(mapping_.data(), mapping_.size()); }
    shorten(0);
    EXPECT_DEATH((void)at(1), "");
}

}  // namespace
}  // namespace leat
