#include "viewer/sink/decimal_text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

namespace leat::viewer {
namespace {

template <class Number>
std::string text_of(Number number) {
    std::array<char, kMaxDecimalSize> text{};
    return {text.data(), write_decimal(text.data(), number)};
}

TEST(DecimalText, IsThatOfAllNumbers) {
    for (std::uint64_t number = 0; number < 20'000; ++number) ASSERT_EQ(text_of(number), std::to_string(number));
    for (std::uint64_t power = 1; power < UINT64_MAX / 10; power *= 10)
        for (const std::uint64_t number : {power - 1, power, power + 1, 2 * power, 5 * power - 1})
            ASSERT_EQ(text_of(number), std::to_string(number));
    std::mt19937_64 random(1);  // NOLINT(bugprone-random-generator-seed): the same each time
    for (int i = 0; i < 20'000; ++i) {
        const std::uint64_t number = random() >> random() % 64;
        ASSERT_EQ(text_of(number), std::to_string(number));
        const auto negative = static_cast<std::int64_t>(0 - number);
        ASSERT_EQ(text_of(negative), std::to_string(negative));
    }
    for (const std::int64_t number :
         {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()})
        ASSERT_EQ(text_of(number), std::to_string(number));
    EXPECT_EQ(text_of(UINT64_MAX), "18446744073709551615");
}

}  // namespace
}  // namespace leat::viewer
