#include "session/memory_directory.hpp"

#include <gtest/gtest.h>
#include <sys/file.h>

#include <fstream>

#include "base/file.hpp"
#include "support/scratch_directory.hpp"

namespace leat::session {
namespace {

namespace fs = std::filesystem;

constexpr char kTrace[] = "ust/uid/1000/64-bit";

class MemoryDirectoryTest : public testing::Test {
  protected:
    [[nodiscard]] MemoryDirectory made() const {
        auto directory = MemoryDirectory::create(of_session_, kTrace);
        EXPECT_TRUE(directory) << directory.error().message;
        EXPECT_TRUE(directory->place().make("registry"));
        EXPECT_TRUE(directory->place().make("channel0.rings"));
        return *std::move(directory);
    }

    test::ScratchDirectory scratch_;
    fs::path of_session_ = *MemoryDirectory::make_for_session(scratch_.path() / "a" / "b", "web");
};

TEST_F(MemoryDirectoryTest, EachSessionHasItsOwn) {
    const auto other = MemoryDirectory::make_for_session(scratch_.path() / "a" / "b", "web");
    ASSERT_TRUE(other);
    EXPECT_NE(*other, of_session_);
    EXPECT_EQ(fs::status(*other).permissions(), fs::perms::owner_all);
    MemoryDirectory::remove_of_session(*other);
    EXPECT_FALSE(fs::exists(*other));
}

TEST_F(MemoryDirectoryTest, TraceThatDidNotComeAboutLeavesNothing) {
    { const MemoryDirectory directory = made(); }
    EXPECT_TRUE(fs::is_empty(of_session_));
}

TEST_F(MemoryDirectoryTest, DescribedOneStaysUntilItIsRemoved) {
    {
        MemoryDirectory directory = made();
        ASSERT_TRUE(directory.describe("text"));
    }
    EXPECT_EQ(read_file(of_session_ / kTrace / "trace.json", 100), "text");
    EXPECT_FALSE(MemoryDirectory::create(of_session_, kTrace));
    const UniqueFd lock = *open_for_reading(of_session_ / kTrace / "trace.json");
    MemoryDirectory adopted = *MemoryDirectory::adopt(of_session_, kTrace, UniqueFd());
    adopted.remove();
    EXPECT_TRUE(fs::is_empty(of_session_));
}

TEST_F(MemoryDirectoryTest, DescriptionIsLockedFromTheStart) {
    MemoryDirectory directory = made();
    ASSERT_TRUE(directory.describe("text"));
    const UniqueFd other = *open_for_reading(of_session_ / kTrace / "trace.json");
    EXPECT_NE(::flock(other.get(), LOCK_SH | LOCK_NB), 0);
    directory.remove();
}

TEST_F(MemoryDirectoryTest, WhatOthersPutThereStays) {
    MemoryDirectory directory = made();
    std::ofstream(of_session_ / kTrace / "notes") << "mine";
    directory.remove();
    EXPECT_EQ(read_file(of_session_ / kTrace / "notes", 100), "mine");
    EXPECT_FALSE(fs::exists(of_session_ / kTrace / "channel0.rings"));
}

TEST_F(MemoryDirectoryTest, LinksAreNotFollowed) {
    fs::create_directory(scratch_.path() / "elsewhere");
    fs::create_directory_symlink(scratch_.path() / "elsewhere", of_session_ / "ust");
    EXPECT_FALSE(MemoryDirectory::create(of_session_, kTrace));
    EXPECT_TRUE(fs::is_empty(scratch_.path() / "elsewhere"));
}

}  // namespace
}  // namespace leat::session
