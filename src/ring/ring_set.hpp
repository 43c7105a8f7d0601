#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/fault_guard.hpp"
#include "base/mapping.hpp"
#include "base/memory_place.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "ring/block_reader.hpp"
#include "ring/map_share.hpp"
#include "ring/ring_format.hpp"
#include "ring/ring_reader.hpp"

namespace leat::ring {

struct RingSetGeometry {
    std::uint64_t ring_size;  // bytes of records; see is_valid_ring_size
    std::uint32_t cpu_rings;
    std::uint32_t thread_rings;
    bool overwrites = false;  // nobody drains them: writers go on over the oldest records

    [[nodiscard]] std::uint32_t ring_count() const { return cpu_rings + thread_rings; }
    [[nodiscard]] bool is_valid() const {
        return is_valid_ring_size(ring_size) && cpu_rings <= kMaxRings && thread_rings <= kMaxRings - cpu_rings;
    }
};

// The number of CPUs that this machine can ever have.
std::uint32_t possible_cpus();

// The daemon's end of the rings of one channel and one user: makes them, hands them out, reads them.
// Their memory is a fixed sum; a page of it comes into being when a writer first touches it.
class RingSet {
  public:
    // What holds its memory.
    enum class Memory : std::uint8_t {
        kSealed,  // handing it to a program cannot make us fault
        kFile,    // of a directory: who has it may shorten it, and then its rings cannot be read
        kCopy,    // a file that does not get what is written
    };

    // `now`: ns of the trace clock; nothing in the rings is older. `channel` names the file, if it is one. Of that, and
    // of memory that is promised, the rings of CPUs are there for good; those of threads when their writers have
    // populated them.
    static Result<RingSet> create(const RingSetGeometry& geometry, std::uint64_t now, const MemoryPlace& place = {},
                                  const std::string& channel = {});
    // Takes over what create() made in a process that has ended. What the file says of itself does not count, because
    // programs write there: `geometry` and `created` are as that process knew them.
    static Result<RingSet> adopt(UniqueFd fd, const RingSetGeometry& geometry, std::uint64_t created,
                                 Memory memory = Memory::kSealed);
    // Whether anybody may have written into what create() made, as far as the open file says; true if it is no ring
    // set.
    static bool may_be_used(int fd);
    // Gives the memory of what create() made back to the system, whoever still has it mapped: writers find rings
    // without room. For sealed memory that nobody is to read any more. Where memory is limited, it goes with its last
    // writer instead.
    static void give_back(int fd);
    // The name of the file.
    static std::string file_name(const std::string& channel) { return channel + ".rings"; }

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] const RingSetGeometry& geometry() const { return geometry_; }
    // Nothing in the rings is older, ns.
    [[nodiscard]] std::uint64_t created() const { return created_; }
    [[nodiscard]] RingReader reader(std::uint32_t index) const;
    // Of rings that overwrite.
    [[nodiscard]] BlockReader block_reader(std::uint32_t index) const;
    // For a writer in this process that owns this ring of a thread; counted after those of CPUs.
    [[nodiscard]] RingHeader& thread_ring(std::uint32_t index) const { return ring(geometry_.cpu_rings + index); }
    // For writers in this process: mapped as they need it.
    [[nodiscard]] RingHeader& ring(std::uint32_t index) const;
    [[nodiscard]] RingSetHeader& header() const;

    // From now on, rings of threads are mapped as long as the share has some left. Before anybody maps one.
    void share_maps(std::shared_ptr<MapShare> share) { maps_ = std::make_unique<MapsOfShare>(std::move(share)); }
    // Maps a ring, if it is not mapped yet. Then ring() cannot fail.
    Result<void> map(std::uint32_t index) const;
    // How many rings are in use: those of CPUs, and all of threads behind them that are, or could be, mapped by now.
    [[nodiscard]] std::uint32_t mapped_in_use() const;
    // What the ring has by now, mapped or not: committed records, since the start. As untrusted as they are.
    [[nodiscard]] std::uint64_t records_in_file(std::uint32_t index) const;
    // For who is about to write into a ring of a thread in this process: sees to it that there is room for it.
    Result<void> populate_thread_ring(std::uint32_t index) const;
    // Of a copy: its header is from now on what it is now, wherever its writers are.
    Result<void> hold_still(std::uint32_t index) const;

    // Thread-owned rings that were ever claimed: the first ones. The others hold nothing, and were never looked at.
    [[nodiscard]] std::uint32_t thread_rings_used() const;

    // How often programs have asked for a snapshot; as untrusted as the rest.
    [[nodiscard]] std::uint32_t snapshots_wanted() const;

    // Tells writers who wait for room that somebody reads. `now`: ns of the trace clock. Consumer thread only.
    void show_life(std::uint64_t now) const;

    // Bytes that wait in the fullest ring. What programs write there, it may be: good for showing alone.
    [[nodiscard]] std::uint64_t fullest() const;

    // The futex that writers count up; see DoorbellWaiter.
    [[nodiscard]] std::uint32_t& doorbell() const { return header().doorbell; }

  private:
    Result<void> map();
    Result<void> promise() const;
    Result<void> populate(std::uint64_t offset, std::uint64_t size) const;
    // Programs that do not populate what they claim, as they should, cannot make us fault either.
    [[nodiscard]] bool is_guarded() const { return memory_ != Memory::kSealed || is_promised_; }
    [[nodiscard]] std::byte* place_of(std::uint32_t index) const;

    UniqueFd fd_;
    Memory memory_ = Memory::kSealed;
    bool is_promised_ = false;  // see MemoryPlace
    Mapping set_page_;
    Mapping rings_;
    FaultGuard set_guard_;
    FaultGuard ring_guard_;  // a part for each ring
    // Rings of threads are mapped when they are used: hosts have many ring sets, and a process may have 65,530
    // mappings.
    std::unique_ptr<std::atomic<bool>[]> is_mapped_;  // NOLINT(*-avoid-c-arrays): of atomics there is no vector
    std::unique_ptr<MapsOfShare> maps_;               // null: all that there are
    RingSetGeometry geometry_{};
    std::uint64_t created_ = 0;
};

}  // namespace leat::ring
