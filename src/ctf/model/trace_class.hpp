// Everything that the metadata of a trace says ([CTF-1.8], section 7; [CTF-2]): a trace class has stream classes, a
// stream class has event classes, and their scopes (packet header, packet context, event header, contexts, payload) are
// structs of fields.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ctf/model/field_class.hpp"

namespace leat::ctf {

using Uuid = std::array<std::uint8_t, 16>;

// Time since the origin = offset_s + (offset + value) / frequency.
struct ClockClass {
    std::string name{};  // by which fields and stream classes know it; in CTF 2 its id
    std::optional<Uuid> uuid{};
    std::string description{};
    std::uint64_t frequency = 1'000'000'000;  // Hz
    std::uint64_t precision = 0;              // cycles
    std::int64_t offset_s = 0;
    std::uint64_t offset = 0;  // cycles
    bool is_absolute = false;  // the origin is the Unix epoch

    bool operator==(const ClockClass&) const = default;
};

struct EventClass {
    std::uint64_t id = 0;
    std::string name{};
    std::optional<std::int64_t> log_level{};  // 0 TRACE_EMERG to 14 TRACE_DEBUG
    std::string model_uri{};                  // `model.emf.uri`; empty: none
    std::optional<StructClass> context{};
    std::optional<StructClass> fields{};  // the payload

    bool operator==(const EventClass&) const = default;
};

struct StreamClass {
    std::uint64_t id = 0;
    std::optional<StructClass> packet_context{};
    std::optional<StructClass> event_header{};
    std::optional<StructClass> event_context{};  // precedes every event of the stream
    std::deque<EventClass> events{};             // ids are unique
    std::string clock{};  // name of the clock of fields that have the role of a timestamp; empty: none

    bool operator==(const StreamClass&) const = default;
};

// A line of the `env` block.
struct EnvironmentEntry {
    std::string name{};
    std::variant<std::int64_t, std::string> value;

    bool operator==(const EnvironmentEntry&) const = default;
};

// A trace with more of them is refused.
inline constexpr std::size_t kMaxEnvironmentEntries = 4096;

// Metadata may grow while the trace is read. New streams, events and clocks do not move the others.
struct TraceClass {
    std::optional<Uuid> uuid{};
    ByteOrder byte_order = ByteOrder::kLittleEndian;  // of fields that do not state one
    std::optional<StructClass> packet_header{};
    std::vector<EnvironmentEntry> environment{};
    std::deque<ClockClass> clocks{};
    std::deque<StreamClass> streams{};
    bool has_roles = false;  // of CTF 2: its fields say what they are for, and their names do not

    bool operator==(const TraceClass&) const = default;
};

// Returns null if there is no text of that name.
[[nodiscard]] const std::string* environment_text(const TraceClass& trace_class, std::string_view name);
[[nodiscard]] const std::int64_t* environment_number(const TraceClass& trace_class, std::string_view name);

// Finds the streams and clocks of a trace class, including those that are added later.
class TraceIndex {
  public:
    // The trace class must outlive the index and keep its address.
    explicit TraceIndex(const TraceClass& trace_class) : trace_class_(&trace_class) {}

    // Returns null if there is none.
    [[nodiscard]] const StreamClass* stream(std::uint64_t id);
    [[nodiscard]] const ClockClass* clock(std::string_view name);

  private:
    const TraceClass* trace_class_;
    std::size_t streams_seen_ = 0;
    std::size_t clocks_seen_ = 0;
    // Ordered, not hashed: the author of the metadata chooses the keys.
    std::map<std::uint64_t, const StreamClass*> streams_;
    std::map<std::string_view, const ClockClass*> clocks_;
};

// "00112233-4455-6677-8899-aabbccddeeff"
[[nodiscard]] std::string to_string(const Uuid& uuid);
[[nodiscard]] std::optional<Uuid> parse_uuid(std::string_view text);

}  // namespace leat::ctf
