// A ring in which every byte is hostile and changes between drains. Reader, walker and consumer must not crash and must
// not read outside the ring. The packets that they let through must keep the format.
//
// Input: a list of steps. A step is something that the owner of the ring does, or a look of the consumer.
#include <array>
#include <cstdlib>
#include <vector>

#include "base/check.hpp"
#include "consumer/consumer.hpp"
#include "fuzz_input.hpp"
#include "support/ring_memory.hpp"

namespace leat::fuzz::ring_reader {
namespace {

constexpr std::uint64_t kSize = ring::kMinRingSize;
constexpr std::size_t kContextSize = 4;

ctf::RecordWalker make_walker(ring::RecordHeaderLayout layout, std::size_t app_contexts) {
    const auto integer = [](unsigned bits) { return ctf::IntegerClass{.size = bits}; };
    const auto event = [](std::uint64_t id, std::vector<ctf::StructMember> fields) {
        ctf::EventClass event_class{.id = id, .name = "fuzz:event"};
        event_class.fields = ctf::StructClass{std::move(fields)};
        return event_class;
    };
    ctf::RecordWalker walker(layout, kContextSize, app_contexts);
    walker.add(event(0, {}));
    walker.add(event(1, {{"_a", integer(32)}, {"_b", integer(64)}}));
    walker.add(event(2, {{"_s", ctf::StringClass{}}, {"_a", integer(8)}}));
    walker.add(event(3, {{"_n", integer(8)}, {"_v", ctf::SequenceClass{ctf::FieldClass(integer(32)), {"_n"}}}}));
    walker.add(event(4, {{"_n", integer(16)}, {"_v", ctf::SequenceClass{ctf::FieldClass(integer(64)), {"_n"}}}}));
    walker.add(event(5, {{"_n", integer(32)}, {"_v", ctf::SequenceClass{ctf::FieldClass(integer(8)), {"_n"}}}}));
    walker.add(event(6, {{"_n", integer(64)}, {"_v", ctf::SequenceClass{ctf::FieldClass(integer(64)), {"_n"}}}}));
    walker.add(event(7, {{"_v", ctf::ArrayClass{ctf::FieldClass(integer(64)), 0xffff'ffff}}}));
    walker.add(event(40, {{"_s", ctf::StringClass{}}, {"_t", ctf::StringClass{}}}));
    return walker;
}

// Checks everything that a consumer promises.
class CheckingOutput final : public consumer::Output {
  public:
    explicit CheckingOutput(const ctf::RecordWalker& walker) : walker_(&walker) {}

    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const consumer::Packet& packet) override {
        if (fails_next) {
            fails_next = false;
            return fail(ErrorKind::kIo, "no space left on device");
        }
        const ctf::PacketHeader& header = packet.header;
        LEAT_CHECK(packet.records.size() <= kSize);
        LEAT_CHECK(header.content_size == (ctf::kPacketHeaderSize + packet.records.size()) * 8);
        // Time may have passed during records that nobody can read.
        LEAT_CHECK(header.timestamp_begin >= timestamp_ && header.timestamp_end >= header.timestamp_begin);
        LEAT_CHECK(header.packet_seq_num == sequence_number_++);
        LEAT_CHECK(header.events_discarded >= discarded_);
        timestamp_ = header.timestamp_end;
        discarded_ = header.events_discarded;
        // A copy in memory of its own, so that a step beyond its end is noticed.
        const std::vector<std::byte> records(packet.records.begin(), packet.records.end());
        LEAT_CHECK(walker_->walk(records).bytes == records.size());
        return {};
    }

    bool fails_next = false;

  private:
    const ctf::RecordWalker* walker_;
    std::uint64_t timestamp_ = 0;
    std::uint64_t sequence_number_ = 0;
    std::uint64_t discarded_ = 0;
};

// Made once. Runs change only its contents.
class HostileRing {
  public:
    HostileRing() : set_(*ring::RingSet::create({.ring_size = kSize, .cpu_rings = 1, .thread_rings = 0}, 0)) {}

    void reset() {
        header() = {};
        header().limit = kSize;
    }

    void do_step(FuzzInput& input, CheckingOutput& output, consumer::Consumer& consumer) {
        switch (input.take<std::uint8_t>() % 9) {
            case 0:
                header().head = input.take<std::uint64_t>();
                break;
            case 1:
                header().head += input.take<std::uint16_t>();
                break;
            case 2:
                header().last_timestamp = input.take<std::uint64_t>();
                break;
            case 3:
                header().discarded[input.take<std::uint8_t>() % ring::kDiscardReasons] = input.take<std::uint64_t>();
                break;
            case 4:
                header().tail = input.take<std::uint64_t>();
                header().limit = input.take<std::uint64_t>();
                break;
            case 5:  // any position
                put(input.take<std::uint16_t>(), input.take_bytes(input.take<std::uint8_t>()));
                break;
            case 6: {  // as a writer would do it
                const UntrustedBytes bytes = input.take_bytes(input.take<std::uint8_t>());
                put(header().head, bytes);
                header().head += bytes.size();
                ++header().last_timestamp;
                break;
            }
            case 7:
                output.fails_next = true;
                break;
            default:
                (void)consumer.drain();
        }
    }

    [[nodiscard]] const ring::RingSet& set() const { return set_; }

  private:
    [[nodiscard]] ring::RingHeader& header() const { return set_.ring(0); }
    void put(std::uint64_t position, UntrustedBytes bytes) const {
        if (!bytes.empty())
            std::memcpy(test::records_of(set_, 0) + (position & (kSize - 1)), bytes.data(), bytes.size());
    }

    ring::RingSet set_;
};

}  // namespace

LEAT_FUZZ_TARGET(ring_reader) {
    static HostileRing hostile;
    static const std::array walkers{make_walker(ring::kCompactHeader, 0), make_walker(ring::kLargeHeader, 0),
                                    make_walker(ring::kCompactHeader, 2), make_walker(ring::kLargeHeader, 2),
                                    make_walker(ring::kTinyHeader, 0),    make_walker(ring::kTinyHeader, 2)};
    FuzzInput input(data, size);
    const ctf::RecordWalker& walker = walkers.at(input.take<std::uint8_t>() % walkers.size());
    hostile.reset();
    CheckingOutput output(walker);
    const std::array sources{
        consumer::Consumer::Source{.rings = &hostile.set(), .walker = &walker, .wake_after = kSize / 2}};
    consumer::Consumer consumer(sources, output, {.trace_uuid = {}});
    while (!input.is_empty()) hostile.do_step(input, output, consumer);
    (void)consumer.drain();
    (void)consumer.finish();
    LEAT_CHECK(consumer.quarantined().size() <= 1);
    return 0;
}

}  // namespace leat::fuzz::ring_reader
