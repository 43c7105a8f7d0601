#include "session/memory_directory.hpp"

#include <gtest/gtest.h>
#include <sys/file.h>

#include <fstream>
#include <optional>

#include "base/file.hpp"
#include "ring/ring_set.hpp"
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

    [[nodiscard]] MemoryDirectory made_with_rings(std::optional<ring::RingSet>* rings = nullptr) const {
        auto directory = MemoryDirectory::create(of_session_, kTrace);
        EXPECT_TRUE(directory) << directory.error().message;
        EXPECT_TRUE(directory->place().make("registry"));
        auto set = ring::RingSet::create({.ring_size = ring::kMinRingSize, .cpu_rings = 2, .thread_rings = 1}, 1'000,
                                         directory->place(), "channel0");
        EXPECT_TRUE(set) << set.error().message;
        if (rings != nullptr) rings->emplace(*std::move(set));
        return *std::move(directory);
    }
    // Nobody records it any more. Returns its rings.
    [[nodiscard]] ring::RingSet described() const {
        std::optional<ring::RingSet> rings;
        MemoryDirectory directory = made_with_rings(&rings);
        EXPECT_TRUE(directory.describe("text"));
        return *std::move(rings);
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

// Its recorder was killed before any program had the rings.
TEST_F(MemoryDirectoryTest, TraceThatNobodyGotToKnowMakesRoom) {
    (void)described();
    {
        const auto next = MemoryDirectory::create(of_session_, kTrace);
        ASSERT_TRUE(next);
        EXPECT_TRUE(next->place().make("registry"));
    }
    EXPECT_TRUE(fs::is_empty(of_session_));
    (void)described();
    MemoryDirectory::remove_of_session(of_session_);
    EXPECT_FALSE(fs::exists(of_session_));
}

TEST_F(MemoryDirectoryTest, TraceThatIsRecordedMakesNoRoom) {
    MemoryDirectory directory = made_with_rings();
    ASSERT_TRUE(directory.describe("text"));
    EXPECT_FALSE(MemoryDirectory::create(of_session_, kTrace));
    MemoryDirectory::remove_of_session(of_session_);
    EXPECT_TRUE(fs::exists(of_session_ / kTrace / "trace.json"));
}

// Whoever wrote it, it may be recovered.
TEST_F(MemoryDirectoryTest, TraceThatWasUsedMakesNoRoom) {
    using Use = void (*)(ring::RingSet&);
    for (const Use use : {Use([](ring::RingSet& rings) { rings.ring(1).head = 16; }),
                          Use([](ring::RingSet& rings) { rings.ring(0).next_head = 16; }),
                          Use([](ring::RingSet& rings) { rings.ring(1).discarded[3] = 1; }),
                          Use([](ring::RingSet& rings) { rings.header().thread_rings_used = 1; }),
                          Use([](ring::RingSet& rings) { rings.header().magic = 0; })}) {
        ring::RingSet rings = described();
        use(rings);
        EXPECT_FALSE(MemoryDirectory::create(of_session_, kTrace));
        MemoryDirectory::remove_of_session(of_session_);
        EXPECT_TRUE(fs::exists(of_session_ / kTrace / "channel0.rings"));
        MemoryDirectory::adopt(of_session_, kTrace, UniqueFd())->remove();
    }
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
