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
    // Bytes of a packet that was about to be stored after all of this: it may be. Who cannot know cuts the same one,
    // which readers then know. 0: there is none.
    std::uint64_t next_packet = 0;

    bool operator==(const StreamProgress&) const = default;
};

// The progress of all streams of a trace, in shared memory that outlives its process as long as somebody keeps the
// descriptor. One thread writes.
class Progress {
  public:
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

  private:
    // `latest` names the slot that counts: 0 is none, 1 the first, 2 the second. The other one may be half written.
    struct Entry {
        std::uint64_t latest;
        std::array<StreamProgress, 2> slots;
    };
    static_assert(sizeof(Entry) == 232);

    [[nodiscard]] static std::size_t size_of(std::span<const std::uint32_t> rings);
    [[nodiscard]] static Result<void> check_size(int fd, std::span<const std::uint32_t> rings);
    static Result<Progress> map(UniqueFd fd, std::span<const std::uint32_t> rings);
    [[nodiscard]] Entry& entry(StreamId stream) const;

    UniqueFd fd_;
    Mapping mapping_;
    FaultGuard guard_;                // of a file
    std::vector<std::size_t> first_;  // of each channel: the number of the entry of its first ring; at last, of all
};

}  // namespace leat::consumer
