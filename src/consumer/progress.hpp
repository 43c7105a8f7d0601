#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/fault_guard.hpp"
#include "base/mapping.hpp"
#include "base/memory_place.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "consumer/output.hpp"

namespace leat::consumer {

// How far a stream is: what a consumer must know of it to go on where another one has ended. All but the position is of
// packets that are stored.
struct StreamProgress {
    std::uint64_t position = 0;         // in the ring: all below is stored, or given up
    std::uint64_t sequence_number = 0;  // of the next packet
    std::uint64_t timestamp = 0;        // ns: nothing older comes
    std::uint64_t last_record = 0;      // ns: the next record's short header counts from there
    std::uint64_t record_count = 0;     // of the ring: records in packets, or given up
    std::uint64_t counted_up_to = 0;    // position in the ring where record_count was its own count
    std::uint64_t unreadable = 0;       // records given up
    std::uint64_t beyond_limit = 0;     // likewise, because the recording has ended by then
    std::uint64_t discarded = 0;        // for the next packet
    std::uint64_t discarded_told = 0;   // in a packet
    std::uint64_t events = 0;           // in packets
    std::uint64_t bytes = 0;            // of packets
    std::uint64_t is_quarantined = 0;   // 0 or 1

    bool operator==(const StreamProgress&) const = default;
};

// A packet that was about to be stored: it may be, or not.
//
// Aligned, so that none is in two pages: after a crash of everything, these may be of different times.
struct alignas(128) PlannedPacket {
    StreamProgress before;             // what its stream was at; its position is where the packet's records begin
    std::uint64_t size = 0;            // bytes, with its header
    std::uint64_t last_timestamp = 0;  // ns: of its last record

    bool operator==(const PlannedPacket&) const = default;
};
static_assert(sizeof(PlannedPacket) == 128);

// The progress of all streams of a trace, in shared memory that outlives its process as long as somebody keeps the
// descriptor. One thread writes.
//
// Behind what is saved are the packets that are under way. Who goes on cannot know which of them are stored, and cuts
// the same ones again, with their numbers: readers drop those that they know.
//
//     packets    ... 6   7  |  8     9    10  |
//                     saved   planned           numbers_used(): 11
class Progress {
  public:
    // So many packets of a stream are planned at most.
    static constexpr std::size_t kMaxPlanned = 64;

    // `rings`: how many rings each channel has.
    static Result<Progress> create(std::span<const std::uint32_t> rings, const MemoryPlace& place = {});
    // What create() made for the same rings, in this process or in another.
    static Result<Progress> adopt(UniqueFd fd, std::span<const std::uint32_t> rings);

    // The same, but what is saved goes nowhere.
    static Result<Progress> copy_of(int fd, std::span<const std::uint32_t> rings);

    [[nodiscard]] int fd() const { return fd_.get(); }

    // Nothing: it was never saved.
    [[nodiscard]] std::optional<StreamProgress> find(StreamId stream) const;
    // Of all streams that have had packets.
    [[nodiscard]] std::map<StreamId, StreamProgress> begun() const;
    // All or nothing, wherever the process is killed.
    void save(StreamId stream, const StreamProgress& progress);

    // Before the packet goes to the output. Of more than kMaxPlanned packets the last ones are not kept, only that
    // their numbers are used.
    void plan(StreamId stream, const PlannedPacket& packet);
    // The output has nothing of the packet that was planned last, which has this number.
    void take_back(StreamId stream, std::uint64_t number);
    // It was given up; its number stays used.
    void forget_planned(StreamId stream, std::uint64_t number);
    // Behind what is saved, oldest first. Numbers may be missing.
    [[nodiscard]] std::vector<PlannedPacket> planned(StreamId stream) const;
    // Packets of smaller numbers may be stored.
    [[nodiscard]] std::uint64_t numbers_used(StreamId stream) const;
    // Of all packets that are stored, or may be.
    [[nodiscard]] std::uint64_t bytes() const;

    // Of a ring that overwrites, nothing is planned. In that place is where its snapshots have ended: of the last
    // kMaxPlanned.
    struct End {
        std::uint64_t ordinal;  // of the snapshot, counted from 1
        StreamProgress at;
    };
    // The snapshot before has the ordinal before. All or nothing, wherever the process is killed.
    void add_end(StreamId stream, const End& end);
    // In the order of their ordinals.
    [[nodiscard]] std::vector<End> ends(StreamId stream) const;
    // Of no snapshot before, or of none from this ordinal on.
    void drop_ends(StreamId stream, std::uint64_t from_ordinal = 1);

  private:
    // `latest` names the slot that counts: 0 is none, 1 the first, 2 the second. The other one may be half written.
    // Aligned as these are.
    struct alignas(256) Entry {
        std::uint64_t latest;
        std::uint64_t numbers_used;
        std::array<StreamProgress, 2> slots;
    };
    static_assert(sizeof(Entry) == 256);
    // By number, modulo their count. Behind all entries, those of one stream after those of another. In a file, they
    // take room as they are used; where there is none, what is planned is lost if everything crashes.
    using Plans = std::array<PlannedPacket, kMaxPlanned>;

    [[nodiscard]] static std::size_t size_of(std::span<const std::uint32_t> rings);
    [[nodiscard]] static std::size_t size_of_entries(std::span<const std::uint32_t> rings);
    [[nodiscard]] static Result<void> check_size(int fd, std::span<const std::uint32_t> rings);
    static Result<Progress> map(UniqueFd fd, std::span<const std::uint32_t> rings);
    [[nodiscard]] std::vector<StreamId> streams() const;
    [[nodiscard]] std::size_t index(StreamId stream) const { return first_[stream.channel] + stream.ring; }
    [[nodiscard]] Entry& entry(StreamId stream) const;
    [[nodiscard]] Plans& plans(StreamId stream) const;

    UniqueFd fd_;
    Mapping mapping_;
    // Of a file: all entries, and all plans.
    FaultGuard guard_;
    FaultGuard guard_of_plans_;
    std::vector<std::size_t> first_;  // of each channel: the number of the entry of its first ring; at last, of all
};

}  // namespace leat::consumer
