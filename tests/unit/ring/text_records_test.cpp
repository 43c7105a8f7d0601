// Records with a text that the sequence itself copies.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "ring/block_reader.hpp"
#include "support/given_writers.hpp"
#include "support/skip.hpp"
#include "support/test_rings.hpp"

namespace leat::ring {
namespace {

using test::kStartOfTime;
using test::OnOneCpu;
using test::TestRings;
using test::TestWriter;

// A page in front of one that nobody may read.
class LastPage {
  public:
    LastPage()
        : pages_(static_cast<char*>(
              ::mmap(nullptr, 2 * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        ::mprotect(pages_ + kPageSize, kPageSize, PROT_NONE);
    }
    ~LastPage() { ::munmap(pages_, 2 * kPageSize); }
    LastPage(const LastPage&) = delete;
    LastPage& operator=(const LastPage&) = delete;

    // The text, with its NUL `room` bytes before the end.
    const char* put(std::string_view text, std::size_t room) const {
        std::fill_n(pages_, kPageSize, '!');
        char* const at = pages_ + kPageSize - room - text.size() - 1;
        *std::ranges::copy(text, at).out = '\0';
        return at;
    }

  private:
    char* pages_;
};

std::string numbered(std::size_t size, char first) {
    std::string bytes(size, '\0');
    std::iota(bytes.begin(), bytes.end(), first);
    return bytes;
}

std::string letters(std::size_t size) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 26);
    return text;
}

// In front of the text, and behind it: where it is read from, and what.
enum class Place : std::uint8_t { kMemory, kRegisters };
struct Around {
    std::string head, tail;
};

class TextRecords : public testing::TestWithParam<Place> {
  protected:
    void SetUp() override { LEAT_NEEDS(test::has_rseq(), "rseq"); }

    WriteOutcome write(const char* chars, const Around& around = {}, std::string_view contexts = {},
                       std::uint32_t id = 1) {
        TestWriter with(rings_.map(), HeaderKind::kCompact, contexts);
        return write(*with.get(), chars, around, id);
    }
    WriteOutcome write(RecordWriter& with, const char* chars, const Around& around = {}, std::uint32_t id = 1) {
        if (GetParam() == Place::kRegisters)
            return test::leat_rseq_write_text_words(
                &with, id, &word_, chars, around.head.size() + 1 + around.tail.size(), 1, test::words_of(around.head),
                test::words_of(around.tail), around.head.size());
        const std::string slack(kCopySlack, '~');
        const std::string head = around.head + slack;
        const std::string tail = around.tail + slack;
        const TextPayload payload{chars, head.data(), around.head.size(), tail.data(), around.tail.size()};
        return test::leat_rseq_write_text(&with, id, &word_, &payload, payload.least_size(), 1);
    }

    [[nodiscard]] RingHeader& header() const { return *rings_.map().rings[on_one_cpu_.cpu()]; }

    // Of the only record, without its header. It is consumed.
    std::string drain(std::size_t header_size = kCompactHeader.short_size) {
        const auto now = *reader_.published();
        EXPECT_EQ(now.record_count, ++records_);
        const auto* const bytes = reinterpret_cast<const char*>(now.records.data());  // NOLINT(*-reinterpret-cast)
        std::string record(bytes, now.records.size());
        reader_.release(now.head, kMinRingSize);
        return record.substr(std::min(header_size, record.size()));
    }

    // Of a record with this id, whose header is that long.
    void expect_room_is_known(std::uint32_t id, std::size_t header_size) {
        const LastPage page;
        for (const std::size_t length : {0, 1, 7, 15, 16, 17, 31, 32, 33, 100}) {
            for (const std::size_t before_end : {0, 5, 20}) {
                const std::string text = letters(length);
                const char* const chars = page.put(text, before_end);
                const Around around{numbered(9, 'h'), numbered(GetParam() == Place::kMemory ? 17 : 16, 't')};
                const std::uint64_t size = header_size + around.head.size() + length + 1 + around.tail.size();
                const std::uint64_t begin = header().head;
                auto* const records = reinterpret_cast<char*>(&header()) + kPageSize;  // NOLINT(*-reinterpret-cast)
                char* const limit = records + (begin + size - 1 + kCopySlack) % kMinRingSize;
                header().limit = begin + size - 1 + kCopySlack;
                std::fill_n(limit, 64, '?');
                ASSERT_EQ(write(chars, around, {}, id), WriteOutcome::kNoRoom) << length;
                EXPECT_EQ(header().head, begin);
                EXPECT_EQ(std::string(limit, 64), std::string(64, '?'));
                ++header().limit;
                ASSERT_EQ(write(chars, around, {}, id), WriteOutcome::kWritten) << length;
                EXPECT_EQ(std::string(limit + 1, 63), std::string(63, '?'));
                EXPECT_EQ(drain(header_size), around.head + text + '\0' + around.tail);
            }
        }
    }

    OnOneCpu on_one_cpu_;
    TestRings rings_;
    std::uint32_t word_ = 1;
    RingReader reader_ = rings_.set().reader(on_one_cpu_.cpu());
    std::uint64_t records_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Around, TextRecords, testing::Values(Place::kMemory, Place::kRegisters),
                         [](const auto& place) { return place.param == Place::kMemory ? "Memory" : "Registers"; });

// Those of them that a place has room for
bool fits(Place place, std::size_t size) { return place == Place::kMemory || size <= sizeof(PayloadWords); }

TEST_P(TextRecords, TextOfAnyLengthAnywhereInItsPage) {
    const LastPage page;
    for (std::size_t length = 0; length <= 70; ++length) {
        for (std::size_t room = 0; room <= 40; ++room) {
            const std::string text = letters(length);
            ASSERT_EQ(write(page.put(text, room)), WriteOutcome::kWritten);
            ASSERT_EQ(drain(), text + '\0') << length << " bytes, " << room << " before the end of a page";
        }
    }
}

TEST_P(TextRecords, WhatIsAroundTheTextIsCopiedWhole) {
    for (const std::size_t contexts : {0, 1, 16, 25, 32, 33, 60, 100}) {
        for (const std::size_t head : {0, 1, 8, 15, 16, 17, 32, 40, 200}) {
            for (const std::size_t tail : {0, 1, 8, 15, 16, 17, 32, 40, 200}) {
                if (!fits(GetParam(), std::max(head, tail))) continue;
                const std::string context = numbered(contexts, 'C');
                const Around around{numbered(head, 'h'), numbered(tail, 't')};
                const std::string text = letters((head + tail) % 37);
                ASSERT_EQ(write(text.c_str(), around, context), WriteOutcome::kWritten);
                ASSERT_EQ(drain(), context + around.head + text + '\0' + around.tail)
                    << contexts << ' ' << head << ' ' << tail;
            }
        }
    }
}

TEST_P(TextRecords, HeaderMayBeExtended) {
    constexpr std::uint32_t kId = 1'000'000;
    ASSERT_EQ(write("text", {"h", "t"}, "contexts", kId), WriteOutcome::kWritten);
    // As that of a record without a text, which the readers' tests look into.
    TestRings others;
    ASSERT_EQ(others.write(test::Writer::kOfCpu, {HeaderKind::kCompact, kId}, "", "contexts"), WriteOutcome::kWritten);
    const auto* const header = reinterpret_cast<const char*>(others.map().rings[on_one_cpu_.cpu()]) +  // NOLINT
                               kPageSize;
    EXPECT_EQ(drain(0), std::string(header, kCompactHeader.extended_size()) + std::string("contextshtext\0t", 15));
}

// Ways to the time that few records take leave the payload where it is.
TEST_P(TextRecords, TimeMayComeFromElsewhere) {
    const Around around{numbered(9, 'h'), numbered(16, 't')};
    const std::string written = around.head + "text" + '\0' + around.tail;
    rings_.at(kStartOfTime + 100);
    ASSERT_EQ(write("text", around), WriteOutcome::kWritten);
    EXPECT_EQ(drain(), written);
    rings_.at(kStartOfTime + 50);
    ASSERT_EQ(write("text", around), WriteOutcome::kWritten);
    EXPECT_EQ(drain(), written);
    EXPECT_EQ(header().last_timestamp, kStartOfTime + 100);

    ClockPage of_system{};
    of_system.source = ClockSource::kSystem;
    RingMap map = rings_.map();
    map.clock = &of_system;
    TestWriter with(map, HeaderKind::kCompact);
    with.get()->system_time = kStartOfTime + 200;
    ASSERT_EQ(write(*with.get(), "text", around), WriteOutcome::kWritten);
    EXPECT_EQ(drain(), written);
    EXPECT_EQ(header().last_timestamp, kStartOfTime + 200);
}

TEST_P(TextRecords, LongestText) {
    const std::string longest = letters(kMaxText);
    ASSERT_EQ(write(longest.c_str()), WriteOutcome::kWritten);
    EXPECT_EQ(drain(), longest + '\0');
    EXPECT_EQ(write(letters(kMaxText + 1).c_str()), WriteOutcome::kNoRoom);
    EXPECT_EQ(reader_.published()->record_count, records_);
}

// With the last byte of the room, and with one less: nothing beyond the limit is touched.
TEST_P(TextRecords, RoomIsKnownBeforeItIsUsed) { expect_room_is_known(1, kCompactHeader.short_size); }

TEST_P(TextRecords, RoomIsKnownBehindAnExtendedHeader) {
    expect_room_is_known(1'000'000, kCompactHeader.extended_size());
}
TEST_P(TextRecords, LimitBehindTheHeadIsNoRoom) {
    ASSERT_EQ(write("first"), WriteOutcome::kWritten);
    header().limit = header().head;
    EXPECT_EQ(write("second"), WriteOutcome::kNoRoom);
    header().limit = 0;
    EXPECT_EQ(write("second"), WriteOutcome::kNoRoom);
}

TEST_P(TextRecords, SwitchedOffIsNotWritten) {
    word_ = 2;
    EXPECT_EQ(write("text"), WriteOutcome::kChanged);
    EXPECT_EQ(header().head, 0U);
}

// Overwrite mode: a text is not looked at before it is copied. One that is longer than what is left of the block goes
// another way, as a record whose size is known.
TEST_P(TextRecords, TextIsInItsBlockOrFindsNoRoom) {
    TestRings rings(kMinRingSize, possible_cpus(), true);
    TestWriter with(rings.map(), HeaderKind::kCompact);
    RingHeader& ring = *rings.map().rings[on_one_cpu_.cpu()];
    const auto header = static_cast<std::uint32_t>(kStartOfTime << kCompactHeader.id_bits | 1);
    std::string written;
    std::mt19937 random(1);  // NOLINT(cert-msc51-cpp)
    std::uint64_t without_room = 0;
    for (int i = 0; i < 3'000; ++i) {
        const std::string text = letters(random() % 8 == 0 ? random() % 3'000 : random() % 100);
        const std::size_t most = GetParam() == Place::kMemory ? 39 : sizeof(PayloadWords);
        const Around around{numbered(random() % (most + 1), 'h'), numbered(random() % (most + 1), 't')};
        const std::uint64_t least =
            ring.head + kCompactHeader.short_size + around.head.size() + 1 + around.tail.size() + kCopySlack;
        const std::uint64_t limit = ring.limit + (least > ring.limit ? block_size(kMinRingSize) : 0);
        const bool has_room = least + text.size() <= limit;
        without_room += has_room ? 0 : 1;
        const std::uint64_t head = ring.head;
        ASSERT_EQ(write(*with.get(), text.c_str(), around), has_room ? WriteOutcome::kWritten : WriteOutcome::kNoRoom);
        ASSERT_EQ(ring.limit, limit);
        const std::string payload = around.head + text + '\0' + around.tail;
        if (!has_room) {
            ASSERT_EQ(ring.head, head);
            ASSERT_EQ(rings.write(test::Writer::kOfCpu, {HeaderKind::kCompact, 1}, payload), WriteOutcome::kWritten);
        }
        written += std::string(reinterpret_cast<const char*>(&header), sizeof header) + payload;  // NOLINT
        ASSERT_EQ(ring.head, written.size());
        const BlockReader reader = rings.set().block_reader(on_one_cpu_.cpu());
        const auto notes = reader.notes();
        ASSERT_TRUE(notes) << notes.error().message;
        std::vector<std::byte> bytes;
        ASSERT_TRUE(reader.copy(notes->front().position, notes->back().position, bytes));
        const std::string_view seen(reinterpret_cast<const char*>(bytes.data()), bytes.size());  // NOLINT
        ASSERT_EQ(seen, std::string_view(written).substr(notes->front().position)) << i;
    }
    EXPECT_GT(without_room, 200U);
}

}  // namespace
}  // namespace leat::ring
