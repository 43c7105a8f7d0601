#include "base/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <span>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace leat {
namespace {

UniqueFd file_of(std::string_view text) {
    UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
    EXPECT_TRUE(write_all(file.get(), std::as_bytes(std::span(text))));
    return file;
}

std::string text_of(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes) text.push_back(static_cast<char>(byte));
    return text;
}

TEST(ReadAt, GivesWhatTheFileHasThere) {
    const UniqueFd file = file_of("0123456789");
    EXPECT_EQ(text_of(*read_at(file.get(), 0, 10)), "0123456789");
    EXPECT_EQ(text_of(*read_at(file.get(), 3, 4)), "3456");
    EXPECT_EQ(text_of(*read_at(file.get(), 3, 0)), "");
}

TEST(ReadAt, GivesLessAtTheEndOfTheFile) {
    const UniqueFd file = file_of("0123456789");
    EXPECT_EQ(text_of(*read_at(file.get(), 8, 4)), "89");
    EXPECT_EQ(text_of(*read_at(file.get(), 10, 4)), "");
    EXPECT_EQ(text_of(*read_at(file.get(), 1000, 4)), "");
}

TEST(ReadAt, LeavesThePositionAlone) {
    const UniqueFd file = file_of("0123456789");
    ASSERT_EQ(::lseek(file.get(), 2, SEEK_SET), 2);
    EXPECT_EQ(text_of(*read_at(file.get(), 5, 2)), "56");
    EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), 2);
}

TEST(ReadAt, TouchesNoMoreThanItSays) {
    const UniqueFd file = file_of("01");
    std::string text = "abcd";
    EXPECT_EQ(*read_at(file.get(), 0, std::as_writable_bytes(std::span(text))), 2U);
    EXPECT_EQ(text, "01cd");
}

TEST(ReadAt, SaysWhyItCannot) {
    constexpr int kNoFile = -1;
    const auto read = read_at(kNoFile, 0, 1);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().kind, ErrorKind::kIo);
    EXPECT_EQ(read.error().message, "cannot read: Bad file descriptor");
}

}  // namespace
}  // namespace leat
