// A consumer that is interrupted at any instruction of a drain. Not in sanitized builds, which have other instructions.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "consumer/consumer.hpp"
#include "support/stepped_child.hpp"
#include "support/test_rings.hpp"

namespace leat::consumer {
namespace {

constexpr std::uint64_t kNow = test::kStartOfTime + 1'000'000;
constexpr std::uint64_t kLater = kNow + 10'000'000'000;

// What a reader was told: the number of events, and the latest time before which nothing more will come.
struct Heard {
    std::uint64_t told;
    std::uint64_t events;
};

class Reader final : public Output {
  public:
    explicit Reader(Heard& heard) : heard_(heard) {}
    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const Packet& packet) override {
        heard_.events += packet.events;
        return {};
    }
    void write_beacon(StreamId, std::uint64_t timestamp) override { hear(timestamp); }
    void cycle_done(std::uint64_t horizon) override { hear(horizon); }

  private:
    void hear(std::uint64_t time) { heard_.told = std::max(heard_.told, time); }
    Heard& heard_;
};

// Between two instructions, an event is stamped and written, and ten seconds pass. If the drain gives this event to
// readers, they may be told of later times. If it does not, they must not.
TEST(DrainSteps, NothingThatIsStillToComeIsOlderThanWhatIsTold) {
    test::TestRings rings(ring::kMinRingSize, 1);
    ring::RingHeader& ring = *rings.map().rings[0];
    const ring::RingHeader empty = ring;
    const test::Shared<ring::ClockPage> clock;
    const auto at = [&](std::uint64_t now) {
        clock->lines[0] = {.tsc_base = 0, .ns_base = now, .multiplier = 0, .unused = 0};
    };
    rings.set().header().thread_rings_used = 0;
    ctf::RecordWalker walker(ring::kCompactHeader, 0);
    walker.add({.id = 1, .name = "test:nothing", .fields = ctf::StructClass{}});
    const test::Shared<Heard> heard;
    const char staged[ring::kCopySlack]{};
    at(kNow);

    std::size_t with_event = 0;
    std::size_t without_event = 0;
    const auto drain_once = [&](auto window) {
        Reader reader(*heard);
        const std::array sources{Consumer::Source{.rings = &rings.set(), .walker = &walker, .wake_after = 100}};
        Consumer consumer(sources, reader, {.trace_uuid = {}, .clock = &*clock, .margin = 1'000});
        window.open();
        const auto drained = consumer.drain();
        window.close();
    };
    const auto write_and_wait = [&] {
        rings.at(kNow);
        rings.write_to(ring, test::TestEvent{ring::HeaderKind::kCompact, 1}, staged, 0);
        at(kLater);
    };
    const auto check = [&] {
        const bool has_event = heard->events != 0;
        EXPECT_TRUE(has_event || heard->told <= kNow) << heard->told;
        ++(has_event ? with_event : without_event);
        ring = empty;
        *heard = {};
        at(kNow);
    };
    test::interrupt_everywhere(drain_once, write_and_wait, check, 4);
    EXPECT_GT(with_event, 5U);
    EXPECT_GT(without_event, 5U);
}

// What is in the files of a stream.
struct Files {
    struct Entry {
        std::uint64_t number;
        std::uint64_t events;
        std::uint64_t discarded;
    };
    std::uint64_t packets;
    std::array<Entry, 16> entries;
};

// The window is open from one call of the output to the next, where the drain ends.
class FilesOutput final : public Output {
  public:
    struct End {};

    explicit FilesOutput(Files& files, test::Window* window = nullptr, std::size_t open_at = 0)
        : files_(files), window_(window), open_at_(open_at) {}
    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const Packet& packet) override {
        count_call();
        files_.entries.at(files_.packets) = {packet.header.packet_seq_num, packet.events,
                                             packet.header.events_discarded};
        ++files_.packets;
        return {};
    }
    [[nodiscard]] std::uint64_t stored(StreamId) const override {
        count_call();
        return ~std::uint64_t{0};
    }
    void cycle_done(std::uint64_t) override { count_call(); }
    // The last call.
    void count_call() const {
        if (window_ != nullptr && calls_ == open_at_) window_->open();
        if (window_ != nullptr && calls_ == open_at_ + 1) {
            window_->close();
            throw End();
        }
        ++calls_;
    }
    [[nodiscard]] std::size_t calls() const { return calls_; }

  private:
    Files& files_;
    test::Window* window_;
    std::size_t open_at_;
    mutable std::size_t calls_ = 0;
};

// Two events and a record that nobody can read are in the ring. A consumer is killed at some instruction after it first
// calls its output, and another one goes on, with the packets that the progress knows.
TEST(DrainSteps, NothingIsLostAndNothingComesTwiceWhereverTheConsumerIsKilled) {
    test::TestRings rings(ring::kMinRingSize, 1);
    rings.at(kNow).set().header().thread_rings_used = 0;
    ring::RingHeader& ring = *rings.map().rings[0];
    ctf::RecordWalker walker(ring::kCompactHeader, 0);
    walker.add({.id = 1, .name = "test:nothing", .fields = ctf::StructClass{}});
    const char staged[ring::kCopySlack]{};
    for (const std::uint32_t id : {1U, 1U, 9U})
        rings.write_to(ring, test::TestEvent{ring::HeaderKind::kCompact, id}, staged, 0);
    const test::Shared<Files> files;
    const std::array<std::uint32_t, 1> counts{rings.set().geometry().ring_count()};
    Progress progress = *Progress::create(counts);
    const auto sources = [&] {
        return std::array{Consumer::Source{.rings = &rings.set(), .walker = &walker, .wake_after = 100}};
    };
    // A record a packet.
    const Consumer::Parameters parameters{.trace_uuid = {},
                                          .clock = &rings.clock(),
                                          .margin = 1'000,
                                          .max_packet_size = ctf::kPacketHeaderSize + 1,
                                          .progress = &progress};

    struct Memory {
        ring::RingHeader ring;
        std::array<std::byte, 512> progress;
        Files files;
    };
    const auto look = [&] {
        Memory memory{.ring = ring, .progress = {}, .files = *files};
        EXPECT_GT(::pread(progress.fd(), memory.progress.data(), memory.progress.size(), 0), 0);
        return memory;
    };
    const auto put_back = [&](const Memory& memory) {
        ring = memory.ring;
        *files = memory.files;
        EXPECT_GT(::pwrite(progress.fd(), memory.progress.data(), memory.progress.size(), 0), 0);
    };
    const Memory before = look();

    const auto drain_once = [&](test::Window* window, std::size_t open_at) {
        FilesOutput output(*files, window, open_at);
        Consumer consumer(sources(), output, parameters);
        EXPECT_TRUE(consumer.drain());
        output.count_call();
        return output.calls();
    };
    std::optional<Memory> killed;
    const auto kill = [&] {
        killed = look();
        EXPECT_LE(ring.tail, progress.find({0, 0}).value_or(StreamProgress{}).position);
    };
    const auto go_on = [&] {
        put_back(*killed);
        const std::uint64_t stored = progress.find({0, 0}).value_or(StreamProgress{}).sequence_number;
        EXPECT_LE(stored, files->packets);
        files->packets = stored;
        FilesOutput output(*files);
        Consumer next(sources(), output, parameters);
        EXPECT_TRUE(next.drain());
        EXPECT_TRUE(next.drain());
        EXPECT_TRUE(next.finish());
        std::uint64_t events = 0;
        for (std::uint64_t i = 0; i < files->packets; ++i) {
            EXPECT_EQ(files->entries.at(i).number, i);
            events += files->entries.at(i).events;
        }
        EXPECT_EQ(events, 2U);
        EXPECT_EQ(next.events(0), 2U);
        EXPECT_EQ(next.unreadable(), 1U);
        EXPECT_EQ(files->entries.at(files->packets - 1).discarded, 1U);
        EXPECT_EQ(ring.tail, ring.head);
        put_back(before);
    };
    const std::size_t calls = drain_once(nullptr, 0);
    EXPECT_GT(calls, 4U);
    const auto interrupt = [&](std::size_t open_at) {
        put_back(before);
        const auto drain_in_window = [&](test::Window window) {
            try {
                (void)drain_once(&window, open_at);
            } catch (const FilesOutput::End&) {  // NOLINT(bugprone-empty-catch)
            }
        };
        test::interrupt_everywhere(drain_in_window, kill, go_on, 7);
    };
    for (std::size_t open_at = 0; open_at + 1 < calls && !HasFailure(); ++open_at) interrupt(open_at);
}

}  // namespace
}  // namespace leat::consumer
