#include "ctf/record/string_size.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

namespace leat::ctf {
namespace {

// Of any size, with any number of bytes behind it; the allocation ends where they do, for sanitizers to see.
TEST(StringSizeTest, CountsUpToTheFirstNul) {
    for (std::size_t size = 1; size < 90; ++size) {
        for (std::size_t rest = size; rest < 100; ++rest) {
            std::vector<std::byte> bytes(rest);
            // The neighbours of NUL, and those with the highest bit, are none.
            const auto others = std::to_array<unsigned char>({0x01, 0x80, 0xff, 0x81, 0x7f});
            for (std::size_t i = 0; i < rest; ++i) bytes[i] = std::byte{others[i % others.size()]};
            bytes.back() = bytes[size - 1] = std::byte{0};
            ASSERT_EQ(string_size(bytes.data(), rest), size) << rest;
            for (std::size_t i = size; i < rest; i += 1 + i % 3) bytes[i] = std::byte{0};
            ASSERT_EQ(string_size(bytes.data(), rest), size) << rest;
        }
    }
}

TEST(StringSizeTest, StringThatDoesNotEndHasNone) {
    for (std::size_t rest = 0; rest < 100; ++rest) {
        std::vector<std::byte> bytes(rest, std::byte{0x80});
        ASSERT_EQ(string_size(bytes.data(), rest), 0U) << rest;
    }
}

}  // namespace
}  // namespace leat::ctf
