#pragma once

#include <cstdint>
#include <vector>

#include "base/mapping.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "ring/ring_format.hpp"
#include "ring/ring_reader.hpp"

namespace leat::ring {

struct RingSetGeometry {
    std::uint64_t ring_size;  // bytes of records; see is_valid_ring_size
    std::uint32_t cpu_rings;
    std::uint32_t thread_rings;

    [[nodiscard]] std::uint32_t ring_count() const { return cpu_rings + thread_rings; }
};

// The number of CPUs that this machine can ever have.
std::uint32_t possible_cpus();

// The daemon's end of the rings of one channel and one user: makes them, hands them out, reads them.
// Their memory is a fixed sum; a page of it comes into being when a writer first touches it.
class RingSet {
  public:
    // `now`: ns of the trace clock; nothing in the rings is older.
    static Result<RingSet> create(const RingSetGeometry& geometry, std::uint64_t now);

    // Sealed against shrinking and growing: handing it to a program cannot make us fault.
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] const RingSetGeometry& geometry() const { return geometry_; }
    [[nodiscard]] RingReader reader(std::uint32_t index) const;
    // For writers in this process: tests, and applications that host their own consumer.
    [[nodiscard]] char* rings() const;
    [[nodiscard]] RingSetHeader& header() const;

    // Thread-owned rings that were ever claimed: the first ones. The others hold nothing, and were never looked at.
    [[nodiscard]] std::uint32_t thread_rings_used() const;

    // The futex that writers count up; see DoorbellWaiter.
    [[nodiscard]] std::uint32_t& doorbell() const { return header().doorbell; }

  private:
    [[nodiscard]] RingHeader& ring(std::uint32_t index) const;

    UniqueFd fd_;
    Mapping set_page_;
    Mapping rings_;
    RingSetGeometry geometry_{};
};

}  // namespace leat::ring
