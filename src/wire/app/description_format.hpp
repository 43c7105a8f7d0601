// The description table: the names and fields of an application's tracepoints. See docs/formats/app-protocol.md.
//
// Freestanding, because the tracer library includes this.
//
// It lies in the control memory (control_format.hpp): little-endian values without padding.
//
//   header   u32 magic, u32 version, u32 tracepoint count, u32 size of all in bytes
//   tracepoint   string name, i32 log level, string source file, u32 source line, string URI, u32 field count, fields
//   field    string name, u8 shape, u8 element, u8 element size, u8 flags, u8 length size, u32 count,
//            u32 value count, values        (shapes, elements and flags as in <leat/abi.h>, and kHiddenField)
//   value    string label, i64 low, i64 high
//   string   u16 length, bytes (no NUL)
#pragma once

#include <stdint.h>

namespace leat::wire {

inline constexpr uint32_t kDescriptionMagic = 0x4454'454c;  // "LETD"
inline constexpr uint32_t kDescriptionVersion = 2;
inline constexpr uint32_t kDescriptionHeaderSize = 16;
inline constexpr uint32_t kMaxDescriptionSize = 16U << 20;
inline constexpr uint8_t kHiddenField = 1U << 7;  // a flag: no record has it, a filter may
inline constexpr uint32_t kMaxNameLength = 255;   // LTTng's limit for provider:name

}  // namespace leat::wire
