#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"
#include "ring/event_header.hpp"

namespace leat::ctf {

// Steps over event records without decoding them. It counts them, and it stops at bytes that are not a record, so that
// these never get into a trace. It knows only the packed, byte-aligned layouts that our tracer writes.
class RecordWalker {
  public:
    // `context_size`: bytes of the stream's event context, which lies between header and payload. So many contexts of
    // the application follow, whose sizes their tags tell.
    RecordWalker(ring::RecordHeaderLayout header, std::size_t context_size, std::size_t app_contexts = 0)
        : header_(header), context_size_(context_size), app_contexts_(app_contexts) {}

    // Fails for a class that no record of our tracer is of, which cannot be added.
    static Result<void> check(const EventClass& event_class);
    // Records of this class may come from now on. Ids are small and dense.
    void add(const EventClass& event_class);

    struct Walked {
        std::uint64_t records;
        std::size_t bytes;  // of these records
    };
    struct Part : Walked {
        std::uint64_t last_timestamp;  // ns, whole cycles; of the last record
    };
    struct Times {
        std::uint64_t previous = 0;                // ns; of the record before these
        std::uint64_t latest = ~std::uint64_t{0};  // ns; records are not later
    };
    // Takes as many records as fit into `limit` bytes, but at least one. Stops before that at bytes that are not a
    // whole record of a known class, or whose time is before that of the record before them or after `times.latest`.
    [[nodiscard]] Part walk_part(UntrustedBytes records, std::size_t limit, const Times& times) const;

    // The same without limits. Fewer bytes than were given: the rest does not begin with a record.
    [[nodiscard]] Walked walk(UntrustedBytes records) const { return walk_part(records, ~std::size_t{0}, {}); }

    [[nodiscard]] const ring::RecordHeaderLayout& header() const { return header_; }

  private:
    // A part of a payload.
    struct Step {
        enum class Kind : std::uint8_t { kFixed, kString, kSequence, kAppContext } kind;
        std::uint8_t length_size;  // kSequence: bytes of the length, which comes first
        std::uint64_t size;        // kFixed: bytes; kSequence: bytes of an element
    };
    // Of an event's context and payload.
    struct Plan {
        enum class Form : std::uint8_t {
            kUnknown,  // no such event
            kFixed,    // `before` bytes
            kText,     // `before` bytes, a text, `after` bytes
            kSteps     // anything else
        };

        Form form = Form::kUnknown;
        std::size_t before = 0;
        std::size_t after = 0;
        std::vector<Step> steps{};
    };

    void append(Plan& plan, const FieldClass& field_class) const;
    static void append_fixed(Plan& plan, std::uint64_t bytes);
    static void find_form(Plan& plan);
    // Where a walk is.
    struct Walk {
        const std::byte* begin;
        const std::byte* end;
        const std::byte* at;
        std::size_t limit;
        std::uint64_t latest;
        std::uint64_t last_timestamp;
        std::uint64_t records = 0;
        std::uint64_t changes = 0;  // of class, in the last stretch
    };
    // Their loop runs once for every event, so it is made for each layout.
    template <ring::RecordHeaderLayout kHeader, bool kGuesses>
    [[nodiscard]] bool walk_stretch(Walk& walk) const;
    template <ring::RecordHeaderLayout kHeader>
    [[nodiscard]] Part walk_as(UntrustedBytes records, std::size_t limit, const Times& times) const;
    // The end of the context and payload that begin at `at`; null if they reach beyond `end`.
    [[nodiscard]] static const std::byte* payload_end(const Plan& plan, const std::byte* at, const std::byte* end);
    [[nodiscard]] static const std::byte* end_of_steps(const Plan& plan, const std::byte* at, const std::byte* end);

    ring::RecordHeaderLayout header_;
    std::size_t context_size_;
    std::size_t app_contexts_;
    std::vector<Plan> plans_;
};

}  // namespace leat::ctf
