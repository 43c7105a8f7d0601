// A ring in overwrite mode in which every byte is hostile and changes between snapshots, and while one is taken. Reader
// and snapshots must not crash, must not read outside the ring, and must keep the format in what they let through.
//
// Input: a list of steps. A step is something that the owner of the ring does, or a snapshot.
#include "ring/block_reader.hpp"

#include <array>
#include <cstdlib>
#include <vector>

#include "base/check.hpp"
#include "consumer/snapshots.hpp"
#include "fuzz_input.hpp"
#include "support/ring_memory.hpp"

namespace leat::fuzz::block_reader {
namespace {

constexpr std::uint64_t kSize = ring::kMinRingSize;

ctf::RecordWalker make_walker(ring::RecordHeaderLayout layout) {
    ctf::RecordWalker walker(layout, 0);
    for (const std::uint64_t id : {0, 1, 40}) {
        ctf::EventClass event_class{.id = id, .name = "fuzz:event"};
        event_class.fields = ctf::StructClass{{{"_n", ctf::IntegerClass{.size = 8}}, {"_s", ctf::StringClass{}}}};
        walker.add(event_class);
    }
    return walker;
}

// Checks everything that snapshots promise of any ring.
class CheckingOutput final : public consumer::Output {
  public:
    explicit CheckingOutput(const ctf::RecordWalker& walker) : walker_(&walker) {}

    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const consumer::Packet& packet) override {
        const ctf::PacketHeader& header = packet.header;
        LEAT_CHECK(packet.records.size() <= kSize && packet.events != 0);
        LEAT_CHECK(header.content_size == (ctf::kPacketHeaderSize + packet.records.size()) * 8);
        // Those of one snapshot follow each other.
        LEAT_CHECK(header.timestamp_end >= header.timestamp_begin && header.timestamp_begin >= timestamp_);
        LEAT_CHECK(header.packet_seq_num >= sequence_number_);
        timestamp_ = header.timestamp_end;
        sequence_number_ = header.packet_seq_num + 1;
        // A copy in memory of its own, so that a step beyond its end is noticed.
        const std::vector<std::byte> records(packet.records.begin(), packet.records.end());
        LEAT_CHECK(walker_->walk(records).bytes == records.size());
        bytes_ += ctf::kPacketHeaderSize + records.size();
        return {};
    }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  private:
    const ctf::RecordWalker* walker_;
    std::uint64_t timestamp_ = 0;
    std::uint64_t sequence_number_ = 0;
    std::uint64_t bytes_ = 0;
};

// Made once. Runs change only its contents.
class HostileRing {
  public:
    HostileRing()
        : set_(*ring::RingSet::create({.ring_size = kSize, .cpu_rings = 1, .thread_rings = 0, .overwrites = true}, 0)) {
    }

    void reset() {
        header() = {};
        header().limit = ring::block_size(kSize);
    }

    void write(FuzzInput& input) {
        switch (input.take<std::uint8_t>() % 8) {
            case 0:
                header().head = input.take<std::uint64_t>();
                break;
            case 1:
                header().limit = input.take<std::uint64_t>();
                break;
            case 2:
                header().last_timestamp = input.take<std::uint64_t>();
                break;
            case 3: {
                ring::BlockNote& note = header().blocks[input.take<std::uint8_t>() % ring::kBlockNotes];
                const std::array words{&note.position, &note.timestamp, &note.records, &note.discarded};
                *words[input.take<std::uint8_t>() % words.size()] = input.take<std::uint64_t>();
                break;
            }
            case 4:
                header().next_head = input.take<std::uint64_t>();
                header().next_records = input.take<std::uint64_t>();
                break;
            case 5:  // any position
                put(input.take<std::uint16_t>(), input.take_bytes(input.take<std::uint8_t>()));
                break;
            default:
                write_record(input);
        }
    }

    [[nodiscard]] const ring::RingSet& set() const { return set_; }

  private:
    [[nodiscard]] ring::RingHeader& header() const { return set_.ring(0); }
    void put(std::uint64_t position, UntrustedBytes bytes) const {
        if (!bytes.empty())
            std::memcpy(test::records_of(set_, 0) + (position & (kSize - 1)), bytes.data(), bytes.size());
    }
    // As a writer would do it.
    void write_record(FuzzInput& input) {
        const UntrustedBytes bytes = input.take_bytes(input.take<std::uint8_t>());
        if (header().head + bytes.size() + ring::kCopySlack > header().limit) {
            const std::uint64_t number = header().limit / ring::block_size(kSize);
            header().blocks[number % ring::kBlockNotes] = {header().head, header().last_timestamp,
                                                           header().next_records, 0};
            header().limit += ring::block_size(kSize);
        }
        put(header().head, bytes);
        header().head += bytes.size();
        header().next_head = header().head;
        ++header().next_records;
        ++header().last_timestamp;
    }

    ring::RingSet set_;
};

void take(consumer::Snapshots& snapshots, const ctf::RecordWalker& walker, HostileRing& hostile, FuzzInput& input) {
    CheckingOutput output(walker);
    const std::uint64_t max_size = input.take<std::uint16_t>();
    const auto taken = snapshots.take(output, max_size,
                                      {.before_cut = [&]() -> Result<void> {
                                           hostile.write(input);
                                           return {};
                                       },
                                       .after_write = []() -> Result<void> { return {}; }});
    if (taken) LEAT_CHECK(taken->bytes == output.bytes() && taken->quarantined.size() <= 1);
    if (max_size != 0) LEAT_CHECK(output.bytes() <= max_size);
}

}  // namespace

LEAT_FUZZ_TARGET(block_reader) {
    static HostileRing hostile;
    static const std::array walkers{make_walker(ring::kCompactHeader), make_walker(ring::kLargeHeader),
                                    make_walker(ring::kTinyHeader)};
    FuzzInput input(data, size);
    const ctf::RecordWalker& walker = walkers.at(input.take<std::uint8_t>() % walkers.size());
    hostile.reset();
    const std::array sources{
        consumer::Snapshots::Source{.rings = &hostile.set(), .walker = &walker, .wake_after = kSize / 2}};
    consumer::Snapshots snapshots(sources, {});
    while (!input.is_empty()) {
        const auto what = input.take<std::uint8_t>();
        if (what % 8 == 0)
            take(snapshots, walker, hostile, input);
        else if (what == 1)
            snapshots.forget();
        else
            hostile.write(input);
    }
    take(snapshots, walker, hostile, input);
    return 0;
}

}  // namespace leat::fuzz::block_reader
