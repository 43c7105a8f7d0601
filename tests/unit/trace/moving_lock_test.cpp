#include "trace/moving_lock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/unique_fd.hpp"
#include "support/scratch_directory.hpp"

namespace leat::trace {
namespace {

class MovingLockTest : public testing::Test {
  protected:
    // Locks of different open file descriptions exclude each other, even in one process.
    [[nodiscard]] int open(int flags) const {
        return ::open((directory_.path() / "stream").c_str(), flags | O_CREAT | O_CLOEXEC, 0600);
    }

    test::ScratchDirectory directory_;
    UniqueFd writer_{open(O_WRONLY)};
    UniqueFd reader_{open(O_RDONLY)};
};

TEST_F(MovingLockTest, WhatIsNotSafeIsLocked) {
    MovingLock lock(writer_.get(), 0);
    EXPECT_TRUE(is_write_locked(reader_.get(), 0, 1));
    lock.move_to(100);
    EXPECT_FALSE(is_write_locked(reader_.get(), 0, 100));
    EXPECT_TRUE(is_write_locked(reader_.get(), 0, 101));
    EXPECT_TRUE(is_write_locked(reader_.get(), std::uint64_t{1} << 60U, 1));
}

TEST_F(MovingLockTest, UnlockedSizeEndsWhereTheLockBegins) {
    EXPECT_EQ(unlocked_size(reader_.get()), UINT64_MAX);
    MovingLock lock(writer_.get(), 0);
    EXPECT_EQ(unlocked_size(reader_.get()), 0U);
    lock.move_to(100);
    EXPECT_EQ(unlocked_size(reader_.get()), 100U);
    writer_.reset();
    EXPECT_EQ(unlocked_size(reader_.get()), UINT64_MAX);
}

TEST_F(MovingLockTest, LockNeverMovesBack) {
    MovingLock lock(writer_.get(), 0);
    lock.move_to(100);
    lock.move_to(50);
    lock.move_to(200);
    EXPECT_FALSE(is_write_locked(reader_.get(), 0, 200));
    EXPECT_TRUE(is_write_locked(reader_.get(), 200, 1));
}

TEST_F(MovingLockTest, LockEndsWithTheDescriptor) {
    MovingLock lock(writer_.get(), 0);
    writer_.reset();
    EXPECT_FALSE(is_write_locked(reader_.get(), 0, 1000));
    EXPECT_EQ(wait_until_unlocked(reader_.get(), 0, 1000).value(), LockWait::kFree);
}

TEST_F(MovingLockTest, WaitingLeavesNoLockBehind) {
    EXPECT_EQ(wait_until_unlocked(reader_.get(), 0, 1000).value(), LockWait::kFree);
    MovingLock lock(writer_.get(), 0);
    const UniqueFd other(open(O_RDONLY));
    EXPECT_TRUE(is_write_locked(other.get(), 0, 1));
}

TEST_F(MovingLockTest, WriterThatCannotLockGoesOnWithoutALock) {
    MovingLock lock(reader_.get(), 0);  // not open for writing
    lock.move_to(100);
    const UniqueFd other(open(O_RDONLY));
    EXPECT_FALSE(is_write_locked(other.get(), 0, 1000));
}

}  // namespace
}  // namespace leat::trace
