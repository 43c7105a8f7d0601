// Numbers in decimal. Digits come from a table, three at a time:
//
//     1234567    "1" "234" "567"
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace leat::viewer {

// No number has more characters, with those that may be written behind it.
inline constexpr std::size_t kMaxDecimalSize = 24;

// "000 " to "999 ": with the blank, each can be copied as a word.
inline constexpr auto kThreeDigits = [] {
    std::array<char, 4000> digits{};
    for (std::size_t i = 0; i < 1000; ++i) {
        digits[4 * i] = static_cast<char>('0' + i / 100);
        digits[4 * i + 1] = static_cast<char>('0' + i / 10 % 10);
        digits[4 * i + 2] = static_cast<char>('0' + i % 10);
        digits[4 * i + 3] = ' ';
    }
    return digits;
}();

// All three digits of a number below 1,000. Returns their end, and needs a byte more.
inline char* write_three_digits(char* at, std::uint32_t number) {
    std::memcpy(at, &kThreeDigits[4 * std::size_t{number}], 4);
    return at + 3;
}

// Without zeros in front of it; the same.
inline char* write_below_thousand(char* at, std::uint32_t number) {
    const std::size_t zeros = (number < 10 ? 1U : 0U) + (number < 100 ? 1U : 0U);
    std::memcpy(at, &kThreeDigits[4 * std::size_t{number} + zeros], 4);
    return at + 3 - zeros;
}

// All nine digits of a number below 1,000,000,000; the same.
inline char* write_nine_digits(char* at, std::uint32_t number) {
    at = write_three_digits(at, number / 1'000'000);
    at = write_three_digits(at, number / 1'000 % 1'000);
    return write_three_digits(at, number % 1'000);
}

// Any number. Returns its end, and needs kMaxDecimalSize bytes.
inline char* write_decimal(char* at, std::uint64_t number) {
    constexpr std::uint32_t kThousand = 1'000;
    constexpr std::uint32_t kMillion = 1'000'000;
    constexpr std::uint32_t kBillion = 1'000'000'000;
    if (number >= kBillion)
        return write_nine_digits(write_decimal(at, number / kBillion), static_cast<std::uint32_t>(number % kBillion));
    const auto small = static_cast<std::uint32_t>(number);
    if (small < kThousand) return write_below_thousand(at, small);
    if (small < kMillion) {
        at = write_below_thousand(at, small / kThousand);
    } else {
        at = write_below_thousand(at, small / kMillion);
        at = write_three_digits(at, small / kThousand % kThousand);
    }
    return write_three_digits(at, small % kThousand);
}

inline char* write_decimal(char* at, std::int64_t number) {
    const auto bits = static_cast<std::uint64_t>(number);
    if (number >= 0) return write_decimal(at, bits);
    *at = '-';
    return write_decimal(at + 1, 0 - bits);
}

}  // namespace leat::viewer
