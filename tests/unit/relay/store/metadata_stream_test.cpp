#include "relay/store/metadata_stream.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "support/scratch_directory.hpp"

namespace leat::relay {
namespace {

namespace fs = std::filesystem;

class MetadataStreamTest : public testing::Test {
  protected:
    void write(const std::string& text) {
        ASSERT_EQ(*stream->write(std::as_bytes(std::span(text))), text.size());
        ASSERT_TRUE(stream->end_message());
    }

    [[nodiscard]] std::string text_on_disk() const {
        std::ifstream file(scratch.path() / "ust/metadata");
        return {std::istreambuf_iterator<char>(file), {}};
    }

    test::ScratchDirectory scratch;
    std::shared_ptr<SessionDirectory> directory =
        std::make_shared<SessionDirectory>(*ConfinedDirectory::open_root(scratch.path().string()), "session");
    std::shared_ptr<TraceChunk> chunk = *directory->create_chunk({.chunk_id = 0});
    std::unique_ptr<MetadataStream> stream = *MetadataStream::create(1, "ust", directory, chunk);
};

TEST_F(MetadataStreamTest, FileStaysWhenItsProducerEnds) {
    write("/* CTF 1.8 */");
    stream->finish();
    EXPECT_EQ(fs::file_size(scratch.path() / "ust/metadata"), 13U);
}

// A relay that is killed before that leaves nothing that readers would take for a trace.
TEST_F(MetadataStreamTest, FileIsThereWhenAMessageIsWhole) {
    const fs::path file = scratch.path() / "ust/metadata";
    EXPECT_FALSE(fs::exists(file));
    const std::string half = "/* CTF";
    ASSERT_EQ(*stream->write(std::as_bytes(std::span(half))), half.size());
    EXPECT_FALSE(fs::exists(file));
    write(" 1.8 */");
    EXPECT_EQ(text_on_disk(), "/* CTF 1.8 */");
}

// Its producer was killed in the middle of a rotation: the same for the new chunk.
TEST_F(MetadataStreamTest, HalfAFirstMessageGoesWhenItsProducerEnds) {
    write("/* CTF 1.8 */");
    const auto next = *directory->create_chunk({.chunk_id = 1, .creation_time = 1});
    ASSERT_TRUE(stream->rotate(next));
    const std::string half = "/* CTF";
    ASSERT_EQ(*stream->write(std::as_bytes(std::span(half))), half.size());
    stream->finish();
    EXPECT_TRUE(fs::is_empty(scratch.path() / next->path / "ust"));
    EXPECT_EQ(text_on_disk(), "/* CTF 1.8 */");
}

// Its text of before stays until then.
TEST_F(MetadataStreamTest, ReopenedTextGivesWayToAWholeMessage) {
    write("/* CTF 1.8 */");
    stream->finish();
    ASSERT_TRUE(stream->reopen(chunk));
    EXPECT_EQ(text_on_disk(), "/* CTF 1.8 */");
    write("/* CTF 1.8 */ new");
    EXPECT_EQ(text_on_disk(), "/* CTF 1.8 */ new");
}

TEST_F(MetadataStreamTest, ResetTextGivesWayToAWholeMessage) {
    write("/* CTF 1.8 */ old, and longer than what comes");
    ASSERT_TRUE(stream->reset());
    const std::string half = "/* CTF 1.8 */";
    ASSERT_EQ(*stream->write(std::as_bytes(std::span(half))), half.size());
    EXPECT_EQ(text_on_disk(), "/* CTF 1.8 */ old, and longer than what comes");
    write(" new");
    EXPECT_EQ(text_on_disk(), "/* CTF 1.8 */ new");
    write(" more");
    stream->finish();
    EXPECT_EQ(text_on_disk(), "/* CTF 1.8 */ new more");
}

// A viewer cannot have what it would need, although a text of before is on disk.
TEST_F(MetadataStreamTest, ReopenedStreamThatEndsWithoutTextIsCleared) {
    write("/* CTF 1.8 */");
    stream->finish();
    EXPECT_FALSE(stream->is_cleared());
    ASSERT_TRUE(stream->reopen(chunk));
    EXPECT_FALSE(stream->is_cleared()) << "it may come";
    stream->finish();
    EXPECT_TRUE(stream->is_cleared());
    EXPECT_EQ(text_on_disk(), "/* CTF 1.8 */");
}

// The same text has the same positions in whatever file, and each file has a version of its own.
TEST_F(MetadataStreamTest, PositionsBeginAgainWithTheTextAfterAReset) {
    const auto version = [&] { return stream->text()->version; };
    write("/* CTF 1.8 */");
    EXPECT_EQ(stream->end(), 13U);
    const std::uint64_t first = version();
    ASSERT_TRUE(stream->reset());
    EXPECT_EQ(stream->end(), 0U);
    EXPECT_EQ(stream->text()->size, 0U);
    write("/* CTF 1.8 */ new");
    EXPECT_EQ(stream->end(), 17U);
    const std::uint64_t second = version();
    EXPECT_NE(second, first);
    // Nothing comes after the second one: what is on disk is not what its positions speak of.
    ASSERT_TRUE(stream->reset());
    const std::uint64_t third = version();
    EXPECT_NE(third, second);
    ASSERT_TRUE(stream->rotate(nullptr));
    EXPECT_EQ(version(), third);
    EXPECT_EQ(stream->text()->size, 0U);
    ASSERT_TRUE(stream->rotate(*directory->create_chunk({.chunk_id = 1, .creation_time = 1})));
    write("/* CTF 1.8 */");
    EXPECT_NE(version(), third);
    EXPECT_EQ(stream->end(), 13U);
    stream->finish();
    const std::uint64_t last = version();
    ASSERT_TRUE(directory->close_chunk({.chunk_id = 0}));  // two may be open
    ASSERT_TRUE(stream->reopen(*directory->create_chunk({.chunk_id = 2, .creation_time = 2})));
    EXPECT_NE(version(), last);
    EXPECT_EQ(stream->end(), 17U) << "behind all that any viewer can have";
    EXPECT_EQ(stream->text()->begin, 17U);
}

// Its producer was killed after RESET_METADATA: without its metadata, all that is stored would be lost.
TEST_F(MetadataStreamTest, OldTextStaysWhereNoneComesAfterAReset) {
    write("/* CTF 1.8 */");
    const std::string half = "/* C";
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(stream->reset());
        ASSERT_EQ(*stream->write(std::as_bytes(std::span(half))), half.size());
    }
    stream->finish();
    EXPECT_EQ(text_on_disk(), "/* CTF 1.8 */");
    EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path() / "ust"), {}), 1) << "nothing is left beside it";
}

}  // namespace
}  // namespace leat::relay
