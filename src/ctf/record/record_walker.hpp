#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/byte_cursor.hpp"
#include "ctf/model/trace_class.hpp"
#include "ring/event_header.hpp"

namespace leat::ctf {

// Steps over event records without decoding them: counts them, and tells records from rubbish before either gets into
// a trace. Knows the packed, byte-aligned layouts that our tracer writes, no others.
class RecordWalker {
  public:
    // `context_size`: bytes of the stream's event context, between header and payload.
    RecordWalker(ring::RecordHeaderLayout header, std::size_t context_size)
        : header_(header), context_size_(context_size) {}

    // Records of this class may come from now on. Ids are small and dense.
    void add(const EventClass& event_class);

    struct Walked {
        std::uint64_t records;
        std::size_t bytes;  // of whole, known records; less than there were: what follows is no record
    };
    struct Part : Walked {
        std::uint64_t last_timestamp;  // ns; of the last record
    };
    // When the record before these happened, and the last one that may be among them; ns.
    struct Times {
        std::uint64_t previous = 0;
        std::uint64_t latest = ~std::uint64_t{0};
    };
    // Stops at the end of the record that is the last to fit into `limit` bytes; one fits always. What says that it
    // happened before the record in front of it, or after `times.latest`, is no record.
    [[nodiscard]] Part walk_part(UntrustedBytes records, std::size_t limit, const Times& times) const;

    [[nodiscard]] Walked walk(UntrustedBytes records) const { return walk_part(records, ~std::size_t{0}, {}); }

    [[nodiscard]] const ring::RecordHeaderLayout& header() const { return header_; }

  private:
    // One stretch of a payload.
    struct Step {
        enum class Kind : std::uint8_t { kFixed, kString, kSequence } kind;
        std::uint8_t length_size;  // kSequence: bytes of the length in front
        std::uint64_t size;        // kFixed: bytes; kSequence: bytes of an element
    };
    struct Plan {
        bool is_known = false;
        bool is_fixed = false;
        std::size_t fixed_size = 0;  // of context and payload
        std::vector<Step> steps{};
    };

    void append(Plan& plan, const FieldClass& field_class) const;
    static void append_fixed(Plan& plan, std::uint64_t bytes);
    // walk_part() with a layout that the compiler knows: this runs once for each event there is.
    template <ring::RecordHeaderLayout kHeader>
    [[nodiscard]] Part walk_as(UntrustedBytes records, std::size_t limit, const Times& times) const;
    // The end of context and payload, which begin at `at`; null if they do not end before `end`.
    [[nodiscard]] static const std::byte* payload_end(const Plan& plan, const std::byte* at, const std::byte* end);

    ring::RecordHeaderLayout header_;
    std::size_t context_size_;
    std::vector<Plan> plans_;
};

}  // namespace leat::ctf
