#include "base/descriptors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/resource_limit.hpp"

namespace leat {
namespace {

// A process with so many descriptors that are free.
class Descriptors : public testing::Test {
  protected:
    void SetUp() override {
        do opened_.push_back(open_one());
        while (opened_.back().is_open());
        opened_.pop_back();
    }

    static UniqueFd open_one() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
    void close_last(std::size_t count) { opened_.resize(opened_.size() - count); }

    static constexpr std::size_t kReserve = 10;
    const test::LowerLimit limit_{RLIMIT_NOFILE, 80};
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
