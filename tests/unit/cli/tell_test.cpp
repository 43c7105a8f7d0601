#include "cli/tell.hpp"

#include <gtest/gtest.h>

namespace leat::cli {
namespace {

std::string warning_of(const std::string& text) {
    testing::internal::CaptureStderr();
    print_warning(text);
    return testing::internal::GetCapturedStderr();
}

TEST(ReadableMessage, TerminalIsToldNothingButText) {
    EXPECT_EQ(readable_message("stream \x1b[2J of \xC2\x9B and\n\xC3\xA9"), "stream ?[2J of ?? and?\xC3\xA9");
}

TEST(ReadableMessage, LongTextIsCut) {
    EXPECT_EQ(readable_message(std::string(2000, 'x')), std::string(2000, 'x'));
    EXPECT_EQ(readable_message(std::string(2001, 'x')), std::string(2000, 'x') + "...");
}

TEST(PrintWarning, QuotesAsErrorsDo) {
    EXPECT_EQ(warning_of("a\nb"), "leat: warning: a?b\n");
    EXPECT_EQ(warning_of(std::string(1U << 20U, '\r')), "leat: warning: " + std::string(2000, '?') + "...\n");
}

}  // namespace
}  // namespace leat::cli
