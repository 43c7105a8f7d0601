#include "base/page_fill.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "support/scratch_directory.hpp"

namespace leat {
namespace {

constexpr std::byte kValue{0xa5};

// A copy of a file of zeros.
class PageFillTest : public testing::Test {
  protected:
    void copy(std::size_t size) {
        const auto path = scratch_.path() / "zeros";
        std::ofstream(path).close();
        std::filesystem::resize_file(path, size);
        const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        copy_ = Mapping::copy_of_file(file.get(), size).value();
    }
    [[nodiscard]] std::span<std::byte> bytes() const { return {copy_.data(), copy_.size()}; }

    test::ScratchDirectory scratch_;
    Mapping copy_;
};

// Of this process, that no file has.
std::uint64_t memory_of_its_own() {
    std::ifstream status("/proc/self/status");
    std::string word;
    while (status >> word)
        if (std::uint64_t kib = 0; word == "RssAnon:" && status >> kib) return kib << 10;
    return 0;
}

// By libc, which is fast also where this is not.
bool is_all(std::span<const std::byte> bytes, std::byte value) {
    return bytes.empty() ||
           (bytes.front() == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

TEST_F(PageFillTest, FillsWhatItIsGivenAndNothingElse) {
    constexpr std::size_t kSize = 20U << 20;
    for (const std::size_t begin : {0, 1, 4095, 4096, 5000})
        for (const std::size_t count :
             {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{3U << 20}, kSize - 5000}) {
            copy(kSize);
            PageFill(kValue).fill(bytes().subspan(begin, count));
            EXPECT_TRUE(is_all(bytes().first(begin), {})) << begin;
            EXPECT_TRUE(is_all(bytes().subspan(begin, count), kValue)) << begin;
            EXPECT_TRUE(is_all(bytes().subspan(begin + count), {})) << begin;
        }
}

TEST_F(PageFillTest, TakesLittleMemory) {
    copy(64U << 20);
    PageFill fill(kValue);
    const std::uint64_t before = memory_of_its_own();
    fill.fill(bytes().subspan(1));
    EXPECT_EQ(bytes().back(), kValue);
    EXPECT_LT(memory_of_its_own(), before + (8U << 20));
}

TEST_F(PageFillTest, WhatIsWrittenThereLaterIsNowhereElse) {
    copy(36U << 20);
    PageFill fill(kValue);
    fill.fill(bytes());
    bytes()[0] = std::byte{1};
    EXPECT_TRUE(is_all(bytes().subspan(1), kValue));
}

}  // namespace
}  // namespace leat
