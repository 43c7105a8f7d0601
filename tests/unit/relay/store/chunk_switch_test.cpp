#include "relay/store/chunk_switch.hpp"

#include <gtest/gtest.h>

#include <array>

#include "support/scratch_directory.hpp"

namespace leat::relay {
namespace {

class ChunkSwitchTest : public testing::Test {
  protected:
    ChunkSwitchTest() {
        directory =
            std::make_shared<SessionDirectory>(*ConfinedDirectory::open_root(scratch.path().string()), "session");
        from.emplace(naming("old"), directory, *directory->create_chunk({.chunk_id = 0}), 0);
        to.emplace(naming("new"), directory, *directory->create_chunk({.chunk_id = 1}), 1);
    }

    static FileNaming naming(const std::string& name) { return {.trace_id = 1, .path = "ust", .channel_name = name}; }

    StoredData store(const std::string& text) {
        StreamFile& file = **from->for_packet(text.size());
        const std::uint64_t offset = file.size();
        EXPECT_EQ(file.write(offset, std::as_bytes(std::span(text))).value(), text.size());
        return {.file_number = file.number(), .offset = offset, .size = text.size(), .came = text.size()};
    }
    std::string text_at(const StoredData& data, std::uint64_t size) {
        std::string text(size, '\0');
        EXPECT_TRUE(to->find(data.file_number)->read(data.offset, std::as_writable_bytes(std::span(text))));
        return text;
    }

    test::ScratchDirectory scratch;
    std::shared_ptr<SessionDirectory> directory;
    std::optional<FileSequence> from;
    std::optional<FileSequence> to;
};

TEST(ChunkSwitch, PositionsAreComparedAsTheyWrap) {
    const ChunkSwitch early(nullptr, 3);
    EXPECT_FALSE(early.is_due(2));
    EXPECT_TRUE(early.is_due(3));
    EXPECT_TRUE(early.is_due(4));
    const ChunkSwitch late(nullptr, ~std::uint64_t{0});
    EXPECT_FALSE(late.is_due(~std::uint64_t{0} - 1));
    EXPECT_TRUE(late.is_due(0));
}

TEST_F(ChunkSwitchTest, DataGoesAlongAsFarAsItIsThere) {
    store("stays");
    StoredData whole = store("whole");
    StoredData half = store("half");
    half.size = 10;
    std::vector moves{ChunkSwitch::move_of(whole, 5), ChunkSwitch::move_of(half, 4)};
    ASSERT_TRUE(ChunkSwitch::copy(moves, &*from, *to, 1));
    EXPECT_EQ(whole.file_number, 0U) << "nothing changes before finish()";
    ChunkSwitch::finish(moves);
    EXPECT_EQ(text_at(whole, 5), "whole");
    EXPECT_EQ(text_at(half, 4), "half");
    EXPECT_EQ(half.size, 10U);
    EXPECT_EQ(half.offset, 5U);
}

TEST_F(ChunkSwitchTest, DataOfAClosedFileIsNowhere) {
    StoredData gone{.file_number = 7, .offset = 0, .size = 5, .came = 5};
    StoredData here = store("here");
    std::vector moves{ChunkSwitch::move_of(gone, 5), ChunkSwitch::move_of(here, 4)};
    ASSERT_TRUE(ChunkSwitch::copy(moves, &*from, *to, 1));
    ChunkSwitch::finish(moves);
    EXPECT_EQ(gone.file_number, StoredData::kNoFile);
    EXPECT_EQ(text_at(here, 4), "here");
}

}  // namespace
}  // namespace leat::relay
