#include <gtest/gtest.h>
#include <leat/stage.h>

#include <cstdint>
#include <string>

namespace {

using namespace std::string_literals;

std::string store_string(const std::string& memory, std::size_t measured) {
    std::string out(measured + 1, '~');
    EXPECT_EQ(leat_store_string(out.data(), memory.data(), measured), out.data() + out.size());
    return out;
}

TEST(Stage, StringIsStoredWithItsNul) { EXPECT_EQ(store_string("text", 4), "text\0"s); }

TEST(Stage, EmptyStringIsANul) { EXPECT_EQ(store_string("", 0), "\0"s); }

// Another thread put the NUL there after the length was taken.
TEST(Stage, StringMadeShorterMeanwhileIsFilledUp) {
    EXPECT_EQ(store_string("te\0xt"s, 5), "te###\0"s);
    EXPECT_EQ(store_string("\0ext"s, 4), "####\0"s);
    EXPECT_EQ(store_string("tex\0"s, 4), "tex#\0"s);
    EXPECT_EQ(store_string("a\0b\0"s, 4), "a###\0"s);
}

TEST(Stage, NullStringIsNamed) { EXPECT_STREQ(leat_no_null(nullptr), "(null)"); }

TEST(Stage, MissingArrayIsZeros) {
    char out[4] = {'~', '~', '~', '~'};
    EXPECT_EQ(leat_store(out, nullptr, 3), out + 3);
    EXPECT_EQ(std::string(out, 4), "\0\0\0~"s);
}

TEST(Stage, SequenceIsLengthAndElements) { EXPECT_EQ(leat_add_sequence(10, 4, 3, 8), 10U + 4 + 24); }

TEST(Stage, SequenceThatCannotBeSaturates) {
    EXPECT_EQ(leat_add_sequence(0, 8, SIZE_MAX, 8), SIZE_MAX);
    EXPECT_EQ(leat_add_sequence(0, 8, SIZE_MAX / 8, 8), SIZE_MAX);
    EXPECT_EQ(leat_add_sequence(SIZE_MAX, 1, 0, 1), SIZE_MAX);
    EXPECT_EQ(leat_add_sequence(16, 1, SIZE_MAX - 8, 1), SIZE_MAX);
    // ... for good, whatever else is added.
    EXPECT_EQ(leat_add_sequence(SIZE_MAX, 8, 100, 8), SIZE_MAX);
}

}  // namespace
