#include "relay/store/grouping.hpp"

#include <gtest/gtest.h>

namespace leat::relay {
namespace {

std::string grouped(const std::string& path, const std::string& session) {
    return grouped_by_session(path, "host", session, "20301231-235959");
}

TEST(Grouping, DateOfTheProducerGoesWithTheHost) {
    EXPECT_EQ(grouped("host/night-20200101-101010/ust/uid/0/64-bit", "night"),
              "night/host-20200101-101010/ust/uid/0/64-bit");
}

TEST(Grouping, NameThatContainsItsDateKeepsIt) {
    EXPECT_EQ(grouped("host/auto-20200101-101010/ust", "auto-20200101-101010"),
              "auto-20200101-101010/host-20200101-101010/ust");
}

TEST(Grouping, BasePathComesAfterOurDate) {
    EXPECT_EQ(grouped("host/my/base/ust", "night"), "night/host-20301231-235959/my/base/ust");
    EXPECT_EQ(grouped("host/nightly-20200101-101010/ust", "night"),
              "night/host-20301231-235959/nightly-20200101-101010/ust");
}

TEST(Grouping, PathOfNoHostStaysAsItIs) { EXPECT_EQ(grouped("elsewhere/night", "night"), "elsewhere/night"); }

}  // namespace
}  // namespace leat::relay
