#include "cli/progress_bar.hpp"

#include <gtest/gtest.h>

namespace leat::cli {
namespace {

TEST(ProgressBar, SaysHowFarAndHowLong) {
    EXPECT_EQ(ProgressBar::text(0, 4096, 2), "[                              ]   0 % of 4.0 KiB");
    EXPECT_EQ(ProgressBar::text(1024, 4096, 2), "[#######                       ]  25 % of 4.0 KiB, 6 s left");
    EXPECT_EQ(ProgressBar::text(4096, 4096, 9), "[##############################] 100 % of 4.0 KiB");
    EXPECT_EQ(ProgressBar::text(9999, 4096, 9), "[##############################] 100 % of 4.0 KiB");
    EXPECT_EQ(ProgressBar::text(0, 0, 9), "[##############################] 100 % of 0 B");
}

}  // namespace
}  // namespace leat::cli
