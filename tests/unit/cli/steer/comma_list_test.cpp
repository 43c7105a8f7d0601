#include "cli/steer/comma_list.hpp"

#include <gtest/gtest.h>

namespace leat::cli {
namespace {

using Parts = std::vector<std::string>;

TEST(CommaList, SplitsAtCommas) {
    EXPECT_EQ(split_at_commas("a:*,b:*"), (Parts{"a:*", "b:*"}));
    EXPECT_EQ(split_at_commas("a"), (Parts{"a"}));
    EXPECT_EQ(split_at_commas(Parts{"a,b", "c"}), (Parts{"a", "b", "c"}));
}

TEST(CommaList, EmptyPartsStay) { EXPECT_EQ(split_at_commas(",a,"), (Parts{"", "a", ""})); }

TEST(CommaList, BackslashKeepsACommaAndOthersKeepTheirBackslash) {
    EXPECT_EQ(split_at_commas(R"(a\,b)"), (Parts{"a,b"}));
    EXPECT_EQ(split_at_commas(R"(a\*,b)"), (Parts{R"(a\*)", "b"}));
    EXPECT_EQ(split_at_commas(R"(a\\,b)"), (Parts{R"(a\\)", "b"}));
    EXPECT_EQ(split_at_commas(R"(a\)"), (Parts{R"(a\)"}));
}

}  // namespace
}  // namespace leat::cli
