// What holds between any two instructions, when a writer is killed there or a reader is interrupted there. Not in
// sanitized builds, which have other instructions.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "ring/block_reader.hpp"
#include "support/given_writers.hpp"
#include "support/stepped_child.hpp"
#include "support/test_rings.hpp"

namespace leat::ring {
namespace {

using test::interrupt_everywhere;
using test::kStartOfTime;
using test::preempt_everywhere;
using test::Shared;
using test::SteppedChild;
using test::TestRings;
using test::Writer;

constexpr std::uint32_t kId = 1;
constexpr std::string_view kContext = "of a thread";

// A ring and its writer.
class SteppedRing {
  public:
    SteppedRing(Writer writer, const ClockPage& clock, bool overwrites = false)
        : writer_(writer), rings_(kMinRingSize, 1, overwrites), map_(rings_.map()) {
        map_.clock = &clock;
        map_.rseq_offset = test::unknown_area_offset();
        with_ = test::TestWriter(map_, HeaderKind::kCompact, kContext);
    }

    void write(std::string_view payload) {
        const std::string staged = std::string(payload) + std::string(kCopySlack, '~');
        write_staged(staged.data(), payload.size());
    }
    void write_text(const TextPayload& payload) {
        test::leat_rseq_write_text(with_.get(), kId, &word_, &payload, payload.least_size(), 1);
    }
    void write_text_words(const char* text, std::string_view head, std::string_view tail) {
        test::leat_rseq_write_text_words(with_.get(), kId, &word_, text, head.size() + 1 + tail.size(), 1,
                                         test::words_of(head), test::words_of(tail), head.size());
    }
    void write_words(PayloadWords payload, std::size_t size) {
        test::leat_rseq_write_words(with_.get(), kId, &word_, nullptr, size, 1, payload);
    }
    void write_staged(const char* staged, std::size_t size) {
        if (writer_ == Writer::kOfCpu)
            leat_rseq_write(with_.get(), kId, &word_, staged, size, 1);
        else
            thread_write(*with_.get(), header(), kId, staged, size, clock_now(*map_.clock));
    }

    [[nodiscard]] std::uint32_t index() const { return writer_ == Writer::kOfCpu ? 0 : rings_.own_ring_index(); }
    [[nodiscard]] RingHeader& header() const { return *map_.rings[index()]; }
    [[nodiscard]] RingReader reader() const { return rings_.set().reader(index()); }
    [[nodiscard]] BlockReader block_reader() const { return rings_.set().block_reader(index()); }
    void become_copy_of(const SteppedRing& other) {
        std::memcpy(static_cast<void*>(&header()), &other.header(), kPageSize + kMinRingSize);
    }

  private:
    Writer writer_;
    TestRings rings_;
    RingMap map_;
    std::uint32_t word_ = 1;
    test::TestWriter with_{map_, HeaderKind::kCompact};
};

// Everything that a reader learns.
struct Seen {
    std::uint64_t last_timestamp;
    std::uint64_t record_count;
    std::string bytes;
    bool operator==(const Seen&) const = default;
};

Seen seen_by(RingReader reader) {
    const auto published = reader.published();
    EXPECT_TRUE(published) << published.error().message;
    if (!published) return {};
    const auto* const bytes = reinterpret_cast<const char*>(published->records.data());  // NOLINT(*-reinterpret-cast)
    return {published->last_timestamp, published->record_count, {bytes, published->records.size()}};
}

void show(ClockPage& clock, std::uint64_t now) {
    clock.generation += 2;
    clock.lines[0] = {.tsc_base = 0, .ns_base = now, .multiplier = 0, .unused = 0};
}

// A ring with one record, and a clock that stands still.
class OneRing {
  protected:
    explicit OneRing(Writer writer) : ring_(writer, *clock_) {
        at(kStartOfTime + 10);
        ring_.write("first");
        at(kStartOfTime + 20);
    }
    void at(std::uint64_t now) { show(*clock_, now); }

    // Kills a writer of a second record at any instruction. The next writer must be able to continue from there.
    // `written`: what the record has behind its contexts.
    template <class Write>
    void expect_whole_or_not_at_all(Writer writer, const Write& write, const std::string& written) {
        const Seen before = seen_by(ring_.reader());
        const std::string record = std::string(kContext) + written;
        SteppedRing next(writer, *clock_);
        SteppedChild child([&](auto window) {
            window.open();
            write(ring_);
            window.close();
        });
        std::vector<Seen> states{before};
        std::size_t steps = 0;
        for (; !child.is_done() && !testing::Test::HasFailure(); child.step(), ++steps) {
            const Seen seen = seen_by(ring_.reader());
            if (seen != states.back()) states.push_back(seen);
            next.become_copy_of(ring_);
            write(next);
            const Seen after = seen_by(next.reader());
            EXPECT_EQ(after.record_count, seen.record_count + 1) << "killed at step " << steps;
            EXPECT_EQ(after.bytes.substr(0, seen.bytes.size()), seen.bytes) << "killed at step " << steps;
            EXPECT_EQ(after.bytes.substr(seen.bytes.size() + 4), record) << "killed at step " << steps;
        }
        EXPECT_GT(steps, 30U);
        ASSERT_EQ(states.size(), 2U) << "half a commit can be seen";
        EXPECT_EQ(states[1].record_count, 2U);
        EXPECT_EQ(states[1].last_timestamp, kStartOfTime + 20);
        EXPECT_EQ(states[1].bytes.substr(before.bytes.size() + 4), record);
    }

    // Preempts a writer of a second record at any instruction, which then begins again.
    template <class Write>
    void expect_one_record_if_preempted(const Write& write, const std::string& written) {
        const Seen before = seen_by(ring_.reader());
        const std::string record = std::string(kContext) + written;
        SteppedRing start(Writer::kOfCpu, *clock_);
        start.become_copy_of(ring_);
        // Somebody was killed after the announcement.
        SteppedRing announced(Writer::kOfCpu, *clock_);
        announced.become_copy_of(ring_);
        announced.header().next_head += 40;
        ++announced.header().next_records;
        expect_after_preemption_of(write, start, before, record, true);
        expect_after_preemption_of(write, announced, before, record, false);
    }
    // `knows_line`: the writer has kept the clock's line.
    template <class Write>
    void expect_after_preemption_of(const Write& write, const SteppedRing& from, const Seen& before,
                                    const std::string& record, bool knows_line) {
        std::uint64_t now = kStartOfTime + 20;
        at(now);
        ring_.become_copy_of(from);
        preempt_everywhere(
            [&](auto window) {
                window.open();
                write(ring_);
                window.close();
            },
            test::unknown_area.sequence,
            [&] {
                const Seen after = seen_by(ring_.reader());
                EXPECT_EQ(after.record_count, before.record_count + 1);
                EXPECT_EQ(after.last_timestamp, now);
                EXPECT_EQ(after.bytes.substr(0, before.bytes.size()), before.bytes);
                EXPECT_EQ(after.bytes.substr(before.bytes.size() + 4), record);
                ring_.become_copy_of(from);
                if (!knows_line) at(++now);
            });
    }

    Shared<ClockPage> clock_;
    SteppedRing ring_;
};

class RecordSteps : public OneRing, public testing::Test {
  protected:
    RecordSteps() : OneRing(Writer::kOfCpu) {}
};

class RingSteps : public OneRing, public testing::TestWithParam<Writer> {
  protected:
    RingSteps() : OneRing(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Both, RingSteps, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

TEST_P(RingSteps, RecordOfAKilledWriterIsThereWholeOrNotAtAll) {
    // The record is longer than one block of the copy, so the copy takes several.
    const std::string second = "second" + std::string(40, '2');
    const std::string staged = second + std::string(kCopySlack, '~');
    expect_whole_or_not_at_all(
        GetParam(), [&](SteppedRing& ring) { ring.write_staged(staged.data(), second.size()); }, second);
}

TEST_F(RecordSteps, RecordOfAPreemptedWriterIsThereOnce) {
    const std::string second = "second" + std::string(40, '2');
    const std::string staged = second + std::string(kCopySlack, '~');
    expect_one_record_if_preempted([&](SteppedRing& ring) { ring.write_staged(staged.data(), second.size()); }, second);
}

class TextAcrossPages {
  public:
    TextAcrossPages() { std::ranges::copy(kText, chars_); }

  protected:
    static constexpr std::string_view kText = "a text that is longer than two blocks of sixteen";
    alignas(kPageSize) std::array<char, 2 * kPageSize> pages_{};
    char* chars_ = pages_.data() + kPageSize - 20;
};

// What is around it takes several blocks.
class TextAndMuchAround : public TextAcrossPages {
  public:
    void operator()(SteppedRing& ring) const { ring.write_text({chars_, around_.data(), 20, around_.data(), 18}); }
    [[nodiscard]] std::string written() const {
        return around_.substr(0, 20) + std::string(kText) + '\0' + around_.substr(0, 18);
    }

  private:
    std::string around_ = std::string(20, 'h') + std::string(kCopySlack, '~');
};

class TextBetweenWords : public TextAcrossPages {
  public:
    void operator()(SteppedRing& ring) const { ring.write_text_words(chars_, kHead, kTail); }
    [[nodiscard]] static std::string written() {
        return std::string(kHead) + std::string(kText) + '\0' + std::string(kTail);
    }

  private:
    static constexpr std::string_view kHead = "nine byte";
    static constexpr std::string_view kTail = "sixteen bytes..!";
};

template <class Text>
class TextSteps : public OneRing, public testing::Test {
  protected:
    TextSteps() : OneRing(Writer::kOfCpu) {}
    const Text text_;
};

using Texts = testing::Types<TextAndMuchAround, TextBetweenWords>;
TYPED_TEST_SUITE(TextSteps, Texts, );

TYPED_TEST(TextSteps, RecordOfAKilledWriterIsThereWholeOrNotAtAll) {
    this->expect_whole_or_not_at_all(Writer::kOfCpu, this->text_, this->text_.written());
}

TYPED_TEST(TextSteps, RecordOfAPreemptedWriterIsThereOnce) {
    this->expect_one_record_if_preempted(this->text_, this->text_.written());
}

class WordSteps : public OneRing, public testing::Test {
  protected:
    WordSteps() : OneRing(Writer::kOfCpu) {}
};

class TwelveBytes {
  public:
    TwelveBytes() { std::memcpy(&words_, kBytes.data(), kBytes.size()); }
    void operator()(SteppedRing& ring) const { ring.write_words(words_, kBytes.size()); }
    [[nodiscard]] static std::string written() { return std::string(kBytes); }

  private:
    static constexpr std::string_view kBytes = "twelve bytes";
    PayloadWords words_{};
};

TEST_F(WordSteps, RecordOfAKilledWriterIsThereWholeOrNotAtAll) {
    expect_whole_or_not_at_all(Writer::kOfCpu, TwelveBytes(), TwelveBytes::written());
}

TEST_F(WordSteps, RecordOfAPreemptedWriterIsThereOnce) {
    expect_one_record_if_preempted(TwelveBytes(), TwelveBytes::written());
}

// The daemon publishes twice, so it overwrites the line that was in force. A mix of both lines gives a time far away,
// in whichever order a writer reads a line.
TEST_P(RingSteps, TimeIsThatOfOneLineWheneverTheClockChanges) {
    constexpr std::uint64_t kOld = kStartOfTime + 20;
    constexpr std::uint64_t kNew = kStartOfTime + 30;
    constexpr std::uint64_t kSlope = 1ULL << 30U;
    struct Lines {
        ClockLine old_line, new_line;
    };
    const Lines base_comes_first{{.tsc_base = 0, .ns_base = kOld, .multiplier = 0, .unused = 0},
                                 {.tsc_base = ~0ULL, .ns_base = kNew, .multiplier = kSlope, .unused = 0}};
    const Lines slope_comes_first{{.tsc_base = ~0ULL, .ns_base = kOld, .multiplier = kSlope, .unused = 0},
                                  {.tsc_base = 0, .ns_base = kNew, .multiplier = 0, .unused = 0}};
    const SteppedRing fresh(GetParam(), *clock_);
    const std::string staged(kCopySlack + 1, 'x');
    for (const auto& [old_line, new_line] : {base_comes_first, slope_comes_first}) {
        // The child never knows the line already.
        const auto start_again = [&] {
            ring_.become_copy_of(fresh);
            clock_->lines[0] = old_line;
            clock_->generation += 2;
        };
        start_again();
        interrupt_everywhere(
            [&](auto window) {
                window.open();
                ring_.write_staged(staged.data(), 1);
                window.close();
            },
            [&] {
                clock_->lines[0] = new_line;
                clock_->generation += 2;
            },
            [&] {
                const std::uint64_t time = seen_by(ring_.reader()).last_timestamp;
                EXPECT_TRUE(time == kOld || time == kNew) << time;
                start_again();
            });
    }
}

// A reader reads head, time and number of records one after another, and they must match.
class InterruptedReader : public OneRing, public testing::Test {
  protected:
    struct Result {
        std::uint64_t last_timestamp, record_count, size;
    };

    InterruptedReader() : OneRing(Writer::kOfThread) {}

    // Runs `write` between any two instructions of a reader. The reader must see the state before it or after it.
    template <class Write>
    void expect_one_or_the_other(const Write& write) {
        SteppedRing start(Writer::kOfThread, *clock_);
        start.become_copy_of(ring_);
        const Seen before = seen_by(ring_.reader());
        write();
        const Seen after = seen_by(ring_.reader());
        ring_.become_copy_of(start);
        const Shared<Result> result;
        interrupt_everywhere(
            [&](auto window) {
                RingReader reader = ring_.reader();
                window.open();
                const auto published = reader.published();
                if (published)
                    *result = {published->last_timestamp, published->record_count, published->records.size()};
                window.close();
            },
            write,
            [&] {
                const Seen& expected = result->size == before.bytes.size() ? before : after;
                EXPECT_EQ(result->size, expected.bytes.size());
                EXPECT_EQ(result->last_timestamp, expected.last_timestamp);
                EXPECT_EQ(result->record_count, expected.record_count);
                *result = {};
                ring_.become_copy_of(start);
            });
    }
};

TEST_F(InterruptedReader, SeesWhatOneCommitLeft) {
    expect_one_or_the_other([&] { ring_.write("second"); });
}

// The writer has not committed yet.
TEST_F(InterruptedReader, CountsNoRecordThatIsOnlyAnnounced) {
    expect_one_or_the_other([&] {
        ring_.header().next_head = ring_.header().head + 9;
        ++ring_.header().next_records;
    });
}

// Overwrite mode ------------------------------------------------------------------------------------------------------

constexpr std::uint64_t kBlock = block_size(kMinRingSize);

bool is_same(const BlockNote& a, const BlockNote& b) {
    return std::tie(a.position, a.timestamp, a.records, a.discarded) ==
           std::tie(b.position, b.timestamp, b.records, b.discarded);
}

// All blocks that a reader finds.
struct SeenBlocks {
    std::vector<BlockNote> notes;
    std::string bytes;
    bool operator==(const SeenBlocks& other) const {
        return std::ranges::equal(notes, other.notes, is_same) && bytes == other.bytes;
    }
};

SeenBlocks blocks_seen_by(const BlockReader& reader) {
    const auto notes = reader.notes();
    EXPECT_TRUE(notes) << notes.error().message;
    if (!notes) return {};
    std::vector<std::byte> bytes;
    EXPECT_TRUE(reader.copy(notes->front().position, notes->back().position, bytes));
    return {*notes, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};  // NOLINT(*-reinterpret-cast)
}

// A ring that was written over several times, whose next record begins a block, and a clock that stands still.
class RingOfBlocks {
  protected:
    explicit RingOfBlocks(Writer writer) : writer_(writer), ring_(writer, *clock_, true) {
        while (ring_.header().head < 3 * kMinRingSize) write(std::string(100, 'x'));
        for (std::uint64_t limit = ring_.header().limit;;) {
            write(std::string(60, 'y'));
            if (ring_.header().limit == limit) continue;
            // The one before was the last of its block.
            ring_.become_copy_of(before_last_);
            --count_;
            break;
        }
        show(*clock_, kStartOfTime + count_);
    }

    // A ns after the one before it.
    void write(const std::string& payload) {
        before_last_.become_copy_of(ring_);
        show(*clock_, kStartOfTime + ++count_);
        ring_.write(payload);
    }

    // Kills a writer of a record of `size` bytes at any instruction. A reader must see the old state, or the one in
    // which blocks have begun, or the new one; and the next writer must go on from there. `begun` is how many blocks
    // begin.
    template <class Write>
    void expect_next_writer_goes_on(const Write& write_one, std::uint64_t size, std::uint64_t begun) {
        const SeenBlocks before = blocks_seen_by(ring_.block_reader());
        const std::uint64_t limit = ring_.header().limit;
        SteppedRing next(writer_, *clock_, true);
        SteppedChild child([&](auto window) {
            window.open();
            write_one(ring_);
            window.close();
        });
        std::vector<SeenBlocks> states{before};
        std::size_t steps = 0;
        for (; !child.is_done() && !testing::Test::HasFailure(); child.step(), ++steps) {
            SeenBlocks seen = blocks_seen_by(ring_.block_reader());
            next.become_copy_of(ring_);
            next.write("third");
            const SeenBlocks after = blocks_seen_by(next.block_reader());
            if (testing::Test::HasFailure()) FAIL() << "killed at step " << steps;
            EXPECT_EQ(after.notes.back().records, seen.notes.back().records + 1) << "killed at step " << steps;
            const std::string kept = seen.bytes.substr(after.notes.front().position - seen.notes.front().position);
            EXPECT_EQ(after.bytes.substr(0, kept.size()), kept) << "killed at step " << steps;
            if (seen != states.back()) states.push_back(std::move(seen));
        }
        EXPECT_GT(steps, 40U);
        EXPECT_EQ(ring_.header().limit, limit + begun * kBlock);
        // One for each block that is given up, and the record.
        ASSERT_EQ(states.size(), begun + 2);
        for (std::size_t i = 1; i <= begun; ++i) {
            EXPECT_TRUE(is_same(states[i].notes.back(), before.notes.back())) << "half a commit can be seen";
            EXPECT_GT(states[i].notes.front().position, states[i - 1].notes.front().position);
        }
        const SeenBlocks& written = states.back();
        EXPECT_EQ(written.notes.back().records, before.notes.back().records + 1);
        EXPECT_EQ(written.notes.back().position, before.notes.back().position + 4 + kContext.size() + size);
        // The new block begins with it.
        EXPECT_TRUE(is_same(written.notes[written.notes.size() - 2], before.notes.back()));
    }

    Shared<ClockPage> clock_;
    Writer writer_;
    SteppedRing ring_;
    SteppedRing before_last_{writer_, *clock_, true};
    std::uint64_t count_ = 0;
};

class BlockSteps : public RingOfBlocks, public testing::TestWithParam<Writer> {
  protected:
    BlockSteps() : RingOfBlocks(GetParam()) {}

    void expect_next_writer_goes_on_from(std::size_t size, std::uint64_t begun) {
        const std::string staged(size + kCopySlack, 's');
        expect_next_writer_goes_on([&](SteppedRing& ring) { ring.write_staged(staged.data(), size); }, size, begun);
    }
};

INSTANTIATE_TEST_SUITE_P(Both, BlockSteps, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

TEST_P(BlockSteps, NextWriterGoesOnWhereOneWasKilledThatBeganABlock) { expect_next_writer_goes_on_from(60, 1); }

TEST_P(BlockSteps, NextWriterGoesOnWhereOneWasKilledWithARecordOfSeveralBlocks) {
    expect_next_writer_goes_on_from(2 * kBlock + 100, 3);
}

class TextBlockSteps : public RingOfBlocks, public testing::Test {
  protected:
    TextBlockSteps() : RingOfBlocks(Writer::kOfCpu) {}
};

TEST_F(TextBlockSteps, NextWriterGoesOnWhereOneWasKilledThatBeganABlock) {
    const std::string around = std::string(60, 'h') + std::string(kCopySlack, '~');
    const TextPayload payload{"a text", around.data(), 60, around.data(), 5};
    expect_next_writer_goes_on([&](SteppedRing& ring) { ring.write_text(payload); }, 60 + sizeof "a text" + 5, 1);
}

TEST_F(TextBlockSteps, NextWriterGoesOnWhereOneWasKilledThatBeganABlockWithAText) {
    const std::string_view around = "sixteen bytes..!";
    expect_next_writer_goes_on([&](SteppedRing& ring) { ring.write_text_words("a text", around, around); },
                               around.size() + sizeof "a text" + around.size(), 1);
}

// Runs writers between any two instructions of a reader: the blocks that it finds, and those that it can copy, are
// blocks that were written.
class InterruptedBlockReader : public RingOfBlocks, public testing::Test {
  protected:
    static constexpr std::size_t kMostNotes = kBlocks + 1;
    static constexpr std::size_t kStride = 151;  // instructions: a reader runs through thousands
    struct Result {
        std::uint64_t size;
        std::array<BlockNote, kMostNotes> notes;
        bool is_copied;
        std::array<char, 2 * kBlock> bytes;
    };

    InterruptedBlockReader() : RingOfBlocks(Writer::kOfThread) {}

    // In the child: the oldest block alone is copied, which is the next to go.
    void read(auto window) const {
        const BlockReader reader = ring_.block_reader();
        std::vector<std::byte> bytes;
        bytes.reserve(sizeof result_->bytes);
        window.open();
        const auto notes = reader.notes();
        if (notes) result_->is_copied = reader.copy((*notes)[0].position, (*notes)[1].position, bytes);
        if (notes) {
            result_->size = std::min(notes->size(), kMostNotes);
            std::memcpy(result_->notes.data(), notes->data(), result_->size * sizeof(BlockNote));
            std::memcpy(result_->bytes.data(), bytes.data(), std::min(bytes.size(), sizeof result_->bytes));
        }
        window.close();
    }
    // What the ring has after `writes` more records.
    void expect_either(std::size_t writes) {
        SteppedRing start(Writer::kOfThread, *clock_, true);
        start.become_copy_of(ring_);
        const SeenBlocks before = blocks_seen_by(ring_.block_reader());
        const auto write_all = [&] {
            for (std::size_t i = 0; i < writes; ++i) ring_.write(std::string(60, 'z'));
        };
        write_all();
        const SeenBlocks after = blocks_seen_by(ring_.block_reader());
        ring_.become_copy_of(start);
        std::size_t seen_before = 0;
        std::size_t seen_after = 0;
        interrupt_everywhere([&](auto window) { read(window); }, write_all,
                             [&] {
                                 ASSERT_NE(result_->size, 0U);
                                 const bool is_after = is_same(result_->notes[result_->size - 1], after.notes.back());
                                 ++(is_after ? seen_after : seen_before);
                                 expect_result(before, after);
                                 *result_ = {};
                                 ring_.become_copy_of(start);
                             },
                             kStride);
        EXPECT_GT(seen_before, 0U);
        EXPECT_GT(seen_after, 0U);
    }
    void expect_result(const SeenBlocks& before, const SeenBlocks& after) {
        ASSERT_GE(result_->size, kBlocks - 1) << "few blocks";
        for (std::size_t i = 0; i + 1 < result_->size; ++i) {
            const BlockNote& from = result_->notes[i];
            const BlockNote& to = result_->notes[i + 1];
            const SeenBlocks& of = is_of(before, from, to) ? before : after;
            ASSERT_TRUE(is_of(of, from, to)) << "a block that was not there";
            if (i != 0 || !result_->is_copied) continue;
            const std::size_t size = to.position - from.position;
            EXPECT_EQ(std::string_view(result_->bytes.data(), size),
                      of.bytes.substr(from.position - of.notes.front().position, size));
        }
    }
    static bool is_of(const SeenBlocks& seen, const BlockNote& from, const BlockNote& to) {
        const auto is_pair = [&](const BlockNote& a, const BlockNote& b) { return is_same(a, from) && is_same(b, to); };
        return std::ranges::adjacent_find(seen.notes, is_pair) != seen.notes.end();
    }

    const Shared<Result> result_;
};

TEST_F(InterruptedBlockReader, SeesBlocksBeforeOrAfterOneBegins) { expect_either(1); }

TEST_F(InterruptedBlockReader, SeesBlocksBeforeOrAfterAllAreGone) { expect_either(kMinRingSize / 70); }

}  // namespace
}  // namespace leat::ring
