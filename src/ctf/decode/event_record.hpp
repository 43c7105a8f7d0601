#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ctf/decode/field_value.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

// One event, decoded. A scope that the event does not have is an empty span; one without fields has one value, an empty
// struct. Everything lives until the decoder that made it goes on.
struct EventRecord {
    const EventClass* event_class = nullptr;
    std::optional<std::uint64_t> cycles{};  // the stream's clock; none if it has no clock
    std::optional<std::int64_t> time_ns{};  // since the clock's origin
    std::span<const FieldValue> packet_context{};
    std::span<const FieldValue> event_context{};  // of the stream
    std::span<const FieldValue> context{};        // of the event
    std::span<const FieldValue> fields{};
};

}  // namespace leat::ctf
