#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ctf/decode/field_value.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

// One decoded event. The span of a scope that the event does not have is empty. A scope without fields has one value,
// an empty struct. All spans are valid until their decoder decodes the next event.
struct EventRecord {
    const EventClass* event_class = nullptr;
    std::optional<std::uint64_t> cycles{};  // value of the stream's clock; none if it has no clock
    std::optional<std::int64_t> time_ns{};  // since the clock's origin
    std::span<const FieldValue> packet_context{};
    std::span<const FieldValue> event_context{};  // declared by the stream
    std::span<const FieldValue> context{};        // declared by the event
    std::span<const FieldValue> fields{};
};

}  // namespace leat::ctf
