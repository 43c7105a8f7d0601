#include "base/printable_text.hpp"

#include <gtest/gtest.h>

namespace leat {
namespace {

// Terminals obey those of UTF-8, too: U+009B begins a command as ESC [ does.
TEST(PrintableText, HasNoControlCharacters) {
    EXPECT_EQ(printable("a\x1B[1m\n\x7F"), "a?[1m??");
    EXPECT_EQ(printable("a\xC2\x9B\x31m\xC2\x80\xC2"), "a??1m??\xC2");
    EXPECT_EQ(printable("\xC2\xA0\xC3\x9B \xE2\x82\xAC"), "\xC2\xA0\xC3\x9B \xE2\x82\xAC");
    EXPECT_EQ(printable(""), "");
}

}  // namespace
}  // namespace leat
