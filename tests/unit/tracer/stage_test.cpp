#include <gtest/gtest.h>
#include <leat/stage.h>

#include <cstdint>
#include <string>

namespace {

using namespace std::string_literals;

// The bytes that `store` packs into memory with the slack that stages have.
template <class Store>
std::string packed(Store store) {
    std::string out(256, '~');
    leat_packer to{out.data(), 0, 0};
    store(to);
    out.resize(static_cast<std::size_t>(leat_pack_rest(&to) - out.data()));
    return out;
}

std::string store_string(const std::string& memory, std::size_t measured) {
    return packed([&](leat_packer& to) { leat_store_string(&to, memory.data(), measured); });
}

TEST(Stage, StringIsStoredWithItsNul) { EXPECT_EQ(store_string("text", 4), "text\0"s); }

TEST(Stage, EmptyStringIsANul) { EXPECT_EQ(store_string("", 0), "\0"s); }

// Another thread wrote the NUL after the length was taken.
TEST(Stage, StringMadeShorterMeanwhileIsFilledUp) {
    EXPECT_EQ(store_string("te\0xt"s, 5), "te###\0"s);
    EXPECT_EQ(store_string("\0ext"s, 4), "####\0"s);
    EXPECT_EQ(store_string("tex\0"s, 4), "tex#\0"s);
    EXPECT_EQ(store_string("a\0b\0"s, 4), "a###\0"s);
}

TEST(Stage, NullStringIsNamed) { EXPECT_STREQ(leat_no_null(nullptr), "(null)"); }

TEST(Stage, StringsOfAllLengthsAreWhole) {
    for (std::size_t length = 0; length < 70; ++length) {
        const std::string text(length, 'x');
        EXPECT_EQ(store_string(text, length), text + '\0') << length;
    }
}

TEST(Stage, NumbersArePackedWhateverTheirOrder) {
    const std::uint8_t one = 1;
    const std::uint64_t eight = 0x0908070605040302;
    const std::uint16_t two = 0x0b0a;
    const auto store = [&](leat_packer& to) {
        leat_store_scalar(&to, &one, sizeof one);
        leat_store_scalar(&to, &eight, sizeof eight);
        leat_store_scalar(&to, &two, sizeof two);
        leat_store_string(&to, "c", 1);
        leat_store_scalar(&to, &one, sizeof one);
    };
    EXPECT_EQ(packed(store),
              "\1\2\3\4\5\6\7\x8\x9\xa\xb"
              "c\0\1"s);
}

TEST(Stage, MissingArrayIsZeros) {
    EXPECT_EQ(packed([](leat_packer& to) { leat_store_bytes(&to, nullptr, 3); }), "\0\0\0"s);
}

TEST(Stage, SequenceIsLengthAndElements) { EXPECT_EQ(leat_add_sequence(10, 4, 3, 8), 10U + 4 + 24); }

TEST(Stage, SequenceThatCannotBeSaturates) {
    EXPECT_EQ(leat_add_sequence(0, 8, SIZE_MAX, 8), SIZE_MAX);
    EXPECT_EQ(leat_add_sequence(0, 8, SIZE_MAX / 8, 8), SIZE_MAX);
    EXPECT_EQ(leat_add_sequence(0, 8, SIZE_MAX / 8 + 2, 8), SIZE_MAX) << "8 bytes, in 64 bits";
    EXPECT_EQ(leat_add_sequence(SIZE_MAX, 1, 0, 1), SIZE_MAX);
    EXPECT_EQ(leat_add_sequence(16, 1, SIZE_MAX - 8, 1), SIZE_MAX);
    // The size stays SIZE_MAX, whatever else is added.
    EXPECT_EQ(leat_add_sequence(SIZE_MAX, 8, 100, 8), SIZE_MAX);
    EXPECT_EQ(leat_add_size(SIZE_MAX, 8), SIZE_MAX);
    EXPECT_EQ(leat_add_size(8, SIZE_MAX), SIZE_MAX);
    EXPECT_EQ(leat_add_size(3, 4), 7U);
}

}  // namespace
