#include "base/journal.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>

namespace leat {
namespace {

UniqueFd other_fd(const Journal& journal) { return UniqueFd(::dup(journal.fd())); }

UniqueFd memory_with(std::string_view bytes) {
    UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
    EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return fd;
}

// What an append leaves that did not get to its size.
void append_half(const Journal& journal, std::string_view text, std::uint64_t at) {
    ASSERT_EQ(::pwrite(journal.fd(), text.data(), text.size(), static_cast<off_t>(2 * sizeof(std::uint64_t) + at)),
              static_cast<ssize_t>(text.size()));
}

TEST(Journal, BeginsEmpty) {
    const auto journal = Journal::create("test");
    ASSERT_TRUE(journal);
    EXPECT_TRUE(journal->empty());
    EXPECT_EQ(journal->read(), "");
}

TEST(Journal, HasAllThatWasAppended) {
    auto journal = Journal::create("test");
    ASSERT_TRUE(journal->append("one\n"));
    ASSERT_TRUE(journal->append(""));
    ASSERT_TRUE(journal->append(std::string(100'000, 'x')));
    EXPECT_FALSE(journal->empty());
    EXPECT_EQ(journal->read(), "one\n" + std::string(100'000, 'x'));
}

TEST(Journal, AdoptedOneGoesOn) {
    auto before = Journal::create("test");
    ASSERT_TRUE(before->append("one\n"));
    auto journal = Journal::adopt(other_fd(*before));
    ASSERT_TRUE(journal);
    EXPECT_FALSE(journal->empty());
    ASSERT_TRUE(journal->append("two\n"));
    EXPECT_EQ(journal->read(), "one\ntwo\n");
    EXPECT_EQ(Journal::adopt(other_fd(*journal))->read(), "one\ntwo\n");
}

TEST(Journal, AdoptedEmptyOneIsEmpty) {
    const auto before = Journal::create("test");
    const auto journal = Journal::adopt(other_fd(*before));
    ASSERT_TRUE(journal);
    EXPECT_TRUE(journal->empty());
}

TEST(Journal, AppendThatWasKilledInTheMiddleIsNotThere) {
    auto before = Journal::create("test");
    ASSERT_TRUE(before->append("one\n"));
    append_half(*before, "longer than what comes", 4);
    auto journal = Journal::adopt(other_fd(*before));
    ASSERT_TRUE(journal);
    EXPECT_EQ(journal->read(), "one\n");
    ASSERT_TRUE(journal->append("two\n"));
    EXPECT_EQ(Journal::adopt(other_fd(*journal))->read(), "one\ntwo\n");
}

TEST(Journal, ReplacedOneGoesOn) {
    auto before = Journal::create("test");
    ASSERT_TRUE(before->append("one\n"));
    ASSERT_TRUE(before->replace("another\n"));
    ASSERT_TRUE(before->append("two\n"));
    auto journal = Journal::adopt(other_fd(*before));
    EXPECT_EQ(journal->read(), "another\ntwo\n");
    ASSERT_TRUE(journal->append("three\n"));
    EXPECT_EQ(Journal::adopt(other_fd(*journal))->read(), "another\ntwo\nthree\n");
    ASSERT_TRUE(journal->replace(""));
    EXPECT_TRUE(Journal::adopt(other_fd(*journal))->empty());
}

TEST(Journal, ReplacedAgainAndAgainItDoesNotGrow) {
    auto journal = Journal::create("test");
    ASSERT_TRUE(journal->append(std::string(100, 'a')));
    for (int i = 0; i < 1000; ++i) {
        const std::string text(100 + i % 3, static_cast<char>('a' + i % 26));
        ASSERT_TRUE(journal->replace(text));
        ASSERT_EQ(journal->read(), text);
    }
    EXPECT_LT(::lseek(journal->fd(), 0, SEEK_END), 500);
}

// Wherever the new text goes, that of before stays until the end.
TEST(Journal, ReplacementThatWasKilledInTheMiddleIsNotThere) {
    auto before = Journal::create("test");
    ASSERT_TRUE(before->append("one\n"));
    append_half(*before, "two", 4);
    EXPECT_EQ(Journal::adopt(other_fd(*before))->read(), "one\n");
    ASSERT_TRUE(before->replace("three\n"));
    append_half(*before, "fou", 0);
    EXPECT_EQ(Journal::adopt(other_fd(*before))->read(), "three\n");
}

TEST(Journal, TextBeyondItsMemoryIsRefused) {
    using Extent = std::array<std::uint64_t, 2>;
    constexpr std::uint64_t kLarge = std::uint64_t{1} << 40;
    constexpr std::uint64_t kLargest = ~std::uint64_t{0};
    for (const Extent extent : {Extent{0, 5}, Extent{0, kLarge}, Extent{0, kLargest}, Extent{1, 4}, Extent{5, 0},
                                Extent{kLargest, 5}, Extent{4, kLargest - 3}}) {
        const std::string header(reinterpret_cast<const char*>(&extent), sizeof extent);  // NOLINT(*-reinterpret-cast)
        const auto journal = Journal::adopt(memory_with(header + "four"));
        ASSERT_FALSE(journal) << extent[0] << ", " << extent[1];
        EXPECT_EQ(journal.error().kind, ErrorKind::kCorrupt);
    }
}

// Memory that takes no room is read all the same.
TEST(Journal, TextThatIsTooLargeIsRefused) {
    auto journal = Journal::create("test");
    const std::array<std::uint64_t, 2> extent{0, Journal::kMaxSize + 1};
    ASSERT_EQ(::pwrite(journal->fd(), extent.data(), sizeof extent, 0), static_cast<ssize_t>(sizeof extent));
    ASSERT_EQ(::ftruncate(journal->fd(), sizeof extent + Journal::kMaxSize + 1), 0);
    const auto adopted = Journal::adopt(other_fd(*journal));
    ASSERT_FALSE(adopted);
    EXPECT_EQ(adopted.error().message, "a journal has 536870913 bytes; the limit is 536870912");
}

TEST(Journal, MemoryThatEndsAfterItsTextIsOne) {
    const std::array<std::uint64_t, 2> extent{1, 3};
    const std::string header(reinterpret_cast<const char*>(&extent), sizeof extent);  // NOLINT(*-reinterpret-cast)
    const auto journal = Journal::adopt(memory_with(header + "four"));
    ASSERT_TRUE(journal);
    EXPECT_EQ(journal->read(), "our");
}

TEST(Journal, ShorterThanAHeaderIsNone) {
    for (const std::string_view bytes : {"", "1234567", "123456789abcdef"}) {
        const auto journal = Journal::adopt(memory_with(bytes));
        ASSERT_FALSE(journal);
        EXPECT_EQ(journal.error().kind, ErrorKind::kCorrupt);
    }
}

TEST(Journal, PipeIsNone) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const UniqueFd writing(ends[1]);
    EXPECT_FALSE(Journal::adopt(UniqueFd(ends[0])));
}

TEST(Journal, BecomingShorterIsAnError) {
    auto journal = Journal::create("test");
    ASSERT_TRUE(journal->append("one\n"));
    ASSERT_EQ(::ftruncate(journal->fd(), 17), 0);
    EXPECT_FALSE(journal->read());
}

}  // namespace
}  // namespace leat
