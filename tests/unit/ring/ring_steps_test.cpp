// What holds between any two instructions, when a writer is killed there or a reader is interrupted there. Not in
// sanitized builds, which have other instructions.
#include <gtest/gtest.h>

#include "support/stepped_child.hpp"
#include "support/test_rings.hpp"

namespace leat::ring {
namespace {

using test::interrupt_everywhere;
using test::kStartOfTime;
using test::Shared;
using test::SteppedChild;
using test::TestRings;
using test::Writer;

// A debugger's step makes the kernel restart a sequence that is registered. The kernel does not know this area.
struct alignas(32) UnknownArea {
    std::uint32_t cpu_id_start = 0;
    std::uint32_t cpu_id = 0;
    std::uint64_t sequence = 0;
};
thread_local UnknownArea unknown_area;

std::int64_t unknown_area_offset() {
    return reinterpret_cast<char*>(&unknown_area) - static_cast<char*>(__builtin_thread_pointer());  // NOLINT
}

constexpr std::uint32_t kId = 1;
constexpr std::string_view kContext = "of a thread";

// A ring and its writer.
class SteppedRing {
  public:
    SteppedRing(Writer writer, const ClockPage& clock) : writer_(writer), map_(rings_.map()) {
        map_.clock = &clock;
        map_.rseq_offset = unknown_area_offset();
        with_ = test::TestWriter(map_, HeaderKind::kCompact, kContext);
    }

    void write(std::string_view payload) {
        const std::string staged = std::string(payload) + std::string(kCopySlack, '~');
        write_staged(staged.data(), payload.size());
    }
    void write_staged(const char* staged, std::size_t size) {
        if (writer_ == Writer::kOfCpu)
            leat_rseq_write(with_.get(), kId, &word_, staged, size, 1);
        else
            thread_write(*with_.get(), header(), kId, staged, size, clock_now(*map_.clock));
    }

    [[nodiscard]] std::uint32_t index() const { return writer_ == Writer::kOfCpu ? 0 : rings_.own_ring_index(); }
    [[nodiscard]] RingHeader& header() const { return *map_.ring(index()); }
    [[nodiscard]] RingReader reader() const { return rings_.set().reader(index()); }
    void become_copy_of(const SteppedRing& other) {
        std::memcpy(static_cast<void*>(&header()), &other.header(), kPageSize + kMinRingSize);
    }

  private:
    Writer writer_;
    TestRings rings_{kMinRingSize, 1};
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

// A ring with one record, and a clock that stands still.
class OneRing {
  protected:
    explicit OneRing(Writer writer) : ring_(writer, *clock_) {
        at(kStartOfTime + 10);
        ring_.write("first");
        at(kStartOfTime + 20);
    }
    void at(std::uint64_t now) { clock_->lines[0] = {.tsc_base = 0, .ns_base = now, .multiplier = 0, .unused = 0}; }

    Shared<ClockPage> clock_;
    SteppedRing ring_;
};

class RingSteps : public OneRing, public testing::TestWithParam<Writer> {
  protected:
    RingSteps() : OneRing(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Both, RingSteps, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

// The next writer must be able to continue from there.
TEST_P(RingSteps, RecordOfAKilledWriterIsThereWholeOrNotAtAll) {
    // The record is longer than one block of the copy, so the copy takes several.
    const std::string second = "second" + std::string(40, '2') + std::string(kCopySlack, '~');
    const Seen before = seen_by(ring_.reader());
    SteppedRing next(GetParam(), *clock_);
    SteppedChild child([&](auto window) {
        window.open();
        ring_.write_staged(second.data(), second.size() - kCopySlack);
        window.close();
    });
    std::vector<Seen> states{before};
    std::size_t steps = 0;
    for (; !child.is_done() && !HasFailure(); child.step(), ++steps) {
        const Seen seen = seen_by(ring_.reader());
        if (seen != states.back()) states.push_back(seen);
        next.become_copy_of(ring_);
        next.write("third");
        const Seen after = seen_by(next.reader());
        EXPECT_EQ(after.record_count, seen.record_count + 1) << "killed at step " << steps;
        EXPECT_EQ(after.bytes.substr(0, seen.bytes.size()), seen.bytes) << "killed at step " << steps;
    }
    EXPECT_GT(steps, 30U);
    ASSERT_EQ(states.size(), 2U) << "half a commit can be seen";
    EXPECT_EQ(states[1].record_count, 2U);
    EXPECT_EQ(states[1].last_timestamp, kStartOfTime + 20);
    EXPECT_EQ(states[1].bytes.substr(before.bytes.size() + 4),
              std::string(kContext) + second.substr(0, second.size() - kCopySlack));
}

TEST_P(RingSteps, TimeIsThatOfOneLineWheneverTheClockChanges) {
    // The daemon publishes twice, so it overwrites the line that was in force. A mix of both lines gives a time far
    // away.
    const ClockLine old_line{.tsc_base = 0, .ns_base = kStartOfTime + 20, .multiplier = 0, .unused = 0};
    const ClockLine new_line{.tsc_base = ~0ULL, .ns_base = kStartOfTime + 30, .multiplier = 1ULL << 32, .unused = 0};
    const SteppedRing fresh(GetParam(), *clock_);
    const auto start_again = [&] {
        ring_.become_copy_of(fresh);
        clock_->lines[0] = old_line;
        clock_->generation = 0;
    };
    const std::string staged(kCopySlack + 1, 'x');
    start_again();
    interrupt_everywhere(
        [&](auto window) {
            window.open();
            ring_.write_staged(staged.data(), 1);
            window.close();
        },
        [&] {
            clock_->lines[0] = new_line;
            clock_->generation = 2;
        },
        [&] {
            const std::uint64_t time = seen_by(ring_.reader()).last_timestamp;
            EXPECT_TRUE(time == kStartOfTime + 20 || time == kStartOfTime + 30) << time;
            start_again();
        });
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

}  // namespace
}  // namespace leat::ring
