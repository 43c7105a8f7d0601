#pragma once

#include <cstddef>
#include <cstdint>

namespace leat::ctf {

// What the reader itself uses a field for. CTF 1.8 says it by the field's name, CTF 2 by its roles.
enum class FieldRole : std::uint8_t {
    kNone,
    kMagic,
    kStreamId,
    kStreamInstanceId,
    kPacketSize,
    kContentSize,
    kTimestamp,  // moves the clock of the stream
    kTimestampEnd,
    kEventsDiscarded,
    kPacketSequenceNumber,
    kEventId,
};
inline constexpr std::size_t kFieldRoles = 11;

// Whether it is a time of the stream's clock.
constexpr bool is_time(FieldRole role) { return role == FieldRole::kTimestamp || role == FieldRole::kTimestampEnd; }

}  // namespace leat::ctf
