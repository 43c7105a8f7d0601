#include "base/descriptors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

namespace leat {
namespace {

// A process with so many descriptors that are free.
class Descriptors : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
        rlimit few = before_;
        few.rlim_cur = kLimit;
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
        do opened_.push_back(open_one());
        while (opened_.back().is_open());
        opened_.pop_back();
    }
    void TearDown() override { (void)::setrlimit(RLIMIT_NOFILE, &before_); }

    static UniqueFd open_one() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
    void close_last(std::size_t count) { opened_.resize(opened_.size() - count); }

    static constexpr rlim_t kLimit = 80;
    static constexpr std::size_t kReserve = 10;
    rlimit before_{};
    std::vector<UniqueFd> opened_;
};

TEST_F(Descriptors, AnEighthIsLeft) {
    EXPECT_TRUE(are_descriptors_scarce());
    close_last(kReserve);
    EXPECT_TRUE(are_descriptors_scarce());
    close_last(1);
    EXPECT_FALSE(are_descriptors_scarce());
}

TEST_F(Descriptors, SeveralAreWanted) {
    close_last(kReserve + 5);
    EXPECT_FALSE(are_descriptors_scarce(5));
    EXPECT_TRUE(are_descriptors_scarce(6));
}

TEST_F(Descriptors, GapsAreCounted) {
    close_last(kReserve);
    opened_.erase(opened_.begin() + 1);
    opened_.erase(opened_.begin() + 2);
    EXPECT_FALSE(are_descriptors_scarce(2));
    EXPECT_TRUE(are_descriptors_scarce(3));
}

}  // namespace
}  // namespace leat
