// Reads description tables that applications sent: every byte is hostile. Format: description_format.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"

namespace leat::wire {

// The values are those of <leat/abi.h>; a parsed description has no others.
enum class FieldShape : std::uint8_t { kScalar, kArray, kSequence, kString, kTextArray, kTextSequence };
enum class FieldElement : std::uint8_t { kInteger, kFloat, kEnum };

struct ValueDescription {
    std::string label;
    std::int64_t low = 0;
    std::int64_t high = 0;
};

struct FieldDescription {
    std::string name;  // not empty; a C identifier
    FieldShape shape = FieldShape::kScalar;
    FieldElement element = FieldElement::kInteger;
    unsigned element_size = 1;  // bytes: 1, 2, 4, 8; floats 4 or 8
    bool is_signed = false;
    bool is_hex = false;
    bool is_network = false;
    bool is_hidden = false;    // no record has it
    unsigned length_size = 0;  // bytes: 1, 2, 4, 8; sequences only
    std::uint32_t count = 0;   // arrays only
    std::vector<ValueDescription> values{};
};

struct TracepointDescription {
    std::string name;            // 1 to 255 bytes, printable
    std::int32_t log_level = 0;  // 0 to 14
    std::string file{};          // printable
    std::uint32_t line = 0;
    std::string model_uri{};                 // printable; empty: none
    std::vector<FieldDescription> fields{};  // names are unique
    // The reason why it cannot be recorded; empty if it can. With a refusal, there are no fields, the name may be
    // empty, and the log level may be any number.
    std::string refusal{};
};

// Fails if the table cannot be split into tracepoints. A tracepoint that makes no sense (two fields of one name, a log
// level of 99) gets a refusal and does not affect the others.
Result<std::vector<TracepointDescription>> parse_descriptions(UntrustedBytes table);

}  // namespace leat::wire
