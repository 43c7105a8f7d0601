// Rings in overwrite mode: what their writers note, and what a reader finds.
#include "ring/block_reader.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "support/skip.hpp"
#include "support/test_rings.hpp"

namespace leat::ring {
namespace {

using test::kStartOfTime;
using test::OnOneCpu;
using test::TestRings;
using test::Writer;

constexpr std::uint64_t kBlock = block_size(kMinRingSize);

class Overwriting : public testing::TestWithParam<Writer> {
  protected:
    void SetUp() override { LEAT_NEEDS(GetParam() == Writer::kOfThread || test::has_rseq(), "rseq"); }

    // A record of `size` bytes with its number in it; they are a ns apart.
    void write(std::uint64_t size) {
        std::string payload(std::max<std::uint64_t>(size, 8), static_cast<char>('a' + count_ % 26));
        std::memcpy(payload.data(), &count_, sizeof count_);
        rings_.at(kStartOfTime + count_ + 1);
        ASSERT_EQ(rings_.write(GetParam(), {HeaderKind::kCompact, 1}, payload), WriteOutcome::kWritten);
        begins_.push_back(position_);
        position_ += kCompactHeader.short_size + payload.size();
        ++count_;
    }
    [[nodiscard]] std::uint32_t ring() const {
        return GetParam() == Writer::kOfCpu ? on_one_cpu_.cpu() : rings_.own_ring_index();
    }
    [[nodiscard]] RingHeader& header() const { return *rings_.map().rings[ring()]; }

    // What must hold whatever was written.
    void check() const {
        const auto notes = reader_.notes();
        ASSERT_TRUE(notes) << notes.error().message;
        if (count_ == 0) {
            EXPECT_TRUE(notes->empty());
            return;
        }
        ASSERT_GE(notes->size(), 2U);
        EXPECT_EQ(notes->back().position, position_);
        EXPECT_EQ(notes->back().records, count_);
        for (const BlockNote& note : *notes) {
            const bool is_end = note.records == count_;
            ASSERT_LE(note.records, count_);
            EXPECT_EQ(note.position, is_end ? position_ : begins_[note.records]);
            EXPECT_EQ(note.timestamp, kStartOfTime + note.records);
        }
        // What was written over is a block and a record at most.
        const std::uint64_t kept = notes->back().position - notes->front().position;
        EXPECT_GE(kept + 2 * kBlock + longest_, std::min(position_, kMinRingSize));
        for (std::size_t i = 0; i + 1 < notes->size(); ++i) check_block((*notes)[i], (*notes)[i + 1]);
    }
    void check_block(const BlockNote& from, const BlockNote& to) const {
        std::vector<std::byte> bytes;
        ASSERT_TRUE(reader_.copy(from.position, to.position, bytes));
        for (std::uint64_t number = from.records; number < to.records; ++number) {
            const std::uint64_t at = begins_[number] - from.position + kCompactHeader.short_size;
            std::uint64_t found = 0;
            std::memcpy(&found, &bytes[at], sizeof found);
            ASSERT_EQ(found, number);
        }
    }

    OnOneCpu on_one_cpu_;
    TestRings rings_{kMinRingSize, possible_cpus(), true};
    BlockReader reader_ = rings_.set().block_reader(ring());
    std::uint64_t position_ = 0;
    std::uint64_t count_ = 0;
    std::uint64_t longest_ = 0;
    std::vector<std::uint64_t> begins_;  // positions of records
};

INSTANTIATE_TEST_SUITE_P(Both, Overwriting, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

TEST_P(Overwriting, RingThatWasNeverWrittenToHasNoBlocks) { check(); }

TEST_P(Overwriting, OldestRecordsGoWholeBlocksAtATime) {
    for (int i = 0; i < 20'000; ++i) {
        write(20);
        if (i % 97 == 0) check();
    }
}

TEST_P(Overwriting, RecordsMayBeLongerThanABlock) {
    longest_ = max_record_size(kMinRingSize) - 32;
    std::mt19937 random(1);  // NOLINT(cert-msc51-cpp)
    for (int i = 0; i < 2'000; ++i) {
        write(random() % 4 == 0 ? random() % longest_ : random() % 100);
        check();
    }
}

TEST_P(Overwriting, BlockThatIsWrittenOverMeanwhileIsNotCopied) {
    for (int i = 0; i < 5'000; ++i) write(20);
    const auto notes = reader_.notes();
    ASSERT_TRUE(notes);
    for (int i = 0; i < 200; ++i) write(20);
    std::vector<std::byte> bytes;
    EXPECT_FALSE(reader_.copy((*notes)[0].position, (*notes)[1].position, bytes));
    EXPECT_TRUE(bytes.empty());
    EXPECT_TRUE(reader_.copy((*notes)[20].position, (*notes)[21].position, bytes));
}

TEST_P(Overwriting, DiscardedEventsAreNotedWithTheBlock) {
    for (int i = 0; i < 1'000; ++i) write(20);
    header().discarded[static_cast<std::uint32_t>(DiscardReason::kTooLarge)] = 3;
    header().discarded[static_cast<std::uint32_t>(DiscardReason::kInterrupted)] = 4;
    for (int i = 0; i < 1'000; ++i) write(20);
    const auto notes = reader_.notes();
    ASSERT_TRUE(notes);
    EXPECT_EQ(notes->front().discarded, 0U);
    EXPECT_EQ((*notes)[notes->size() - 2].discarded, 7U);
}

TEST_P(Overwriting, RingOfAChannelThatIsNoMoreTakesNothing) {
    header().limit = 0;
    EXPECT_EQ(rings_.write(GetParam(), {HeaderKind::kCompact, 1}, "x"), WriteOutcome::kNoRoom);
    EXPECT_EQ(header().limit, 0U);
}

// Whatever another program has written over the header: writers go on, and readers do not believe it.
TEST_P(Overwriting, HeaderThatLiesHangsNobody) {
    std::mt19937_64 random(2);  // NOLINT(cert-msc51-cpp)
    const std::array<std::uint64_t, 8> values = {0,
                                                 1,
                                                 kBlock - 1,
                                                 kMinRingSize,
                                                 std::uint64_t{1} << 40,
                                                 ~std::uint64_t{0} - kBlock,
                                                 ~std::uint64_t{0} / 2,
                                                 ~std::uint64_t{0}};
    for (int i = 0; i < 3'000; ++i) {
        const std::uint64_t value = random() % 2 == 0 ? values[random() % values.size()] : random();
        switch (random() % 5) {
            case 0:
                header().limit = value;
                break;
            case 1:
                header().head = value;
                break;
            case 2:
                header().last_timestamp = value;
                break;
            case 3:
                header().next_records = value;
                break;
            default:
                header().blocks[random() % kBlockNotes].position = value;
        }
        for (int j = 0; j < 3; ++j) (void)rings_.write(GetParam(), {HeaderKind::kCompact, 1}, std::string(700, 'x'));
        const auto notes = reader_.notes();
        std::vector<std::byte> bytes;
        for (std::size_t k = 0; notes && k + 1 < notes->size(); ++k) {
            ASSERT_LE((*notes)[k].position, (*notes)[k + 1].position);
            (void)reader_.copy((*notes)[k].position, (*notes)[k + 1].position, bytes);
        }
        ASSERT_LE(bytes.size(), 2 * kMinRingSize);
    }
}

// Numbered records of one thread after the other, while another copies.
TEST(BlockReader, CopiesWholeBlocksDuringTheHeaviestWriting) {
    TestRings rings(kMinRingSize, 1, true);
    std::atomic<bool> is_over = false;
    std::thread writer([&] {
        for (std::uint64_t number = 0; !is_over; ++number) {
            const std::array<std::uint64_t, 8> payload{number, number, number, number};
            (void)rings.write_to(rings.own_ring(), {HeaderKind::kCompact, 1}, payload.data(), 32);
        }
    });
    const BlockReader reader = rings.set().block_reader(rings.own_ring_index());
    std::uint64_t blocks = 0;
    while (blocks < 20'000) {
        const auto notes = reader.notes();
        ASSERT_TRUE(notes) << notes.error().message;
        for (std::size_t i = 0; i + 1 < notes->size(); ++i) {
            std::vector<std::byte> bytes;
            if (!reader.copy((*notes)[i].position, (*notes)[i + 1].position, bytes)) continue;
            ++blocks;
            std::uint64_t number = (*notes)[i].records;
            for (std::size_t at = 4; at < bytes.size(); at += 36, ++number) {
                std::array<std::uint64_t, 4> found{};
                std::memcpy(found.data(), &bytes[at], sizeof found);
                ASSERT_EQ(found, (std::array<std::uint64_t, 4>{number, number, number, number}));
            }
            ASSERT_EQ(number, (*notes)[i + 1].records);
        }
    }
    is_over = true;
    writer.join();
}

}  // namespace
}  // namespace leat::ring
