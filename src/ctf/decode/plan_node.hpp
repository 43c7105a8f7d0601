// The fields of a decode plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ctf/model/field_class.hpp"
#include "ctf/model/field_role.hpp"

namespace leat::ctf {

struct PlanNode {
    enum class Op : std::uint8_t {
        kInteger,
        kOddInteger,  // of variable length, with bits in an odd order, or a boolean: FieldDecoder alone reads it
        kFloat,
        kString,
        kArray,
        kText,
        kWideString,  // of characters of 16 or 32 bits: likewise
        kWideText,
        kStruct,
        kVariant,
    };

    Op op = Op::kStruct;
    FieldRole role = FieldRole::kNone;
    bool is_signed = false;
    bool is_big_endian = false;
    bool is_timestamp = false;  // moves the clock of the packet
    bool is_shown = true;       // people see it as part of the event record
    bool is_optional = false;   // a variant that may hold nothing
    bool has_sorted_choices = false;
    std::uint8_t size = 0;  // bits of integers and floats
    std::uint32_t alignment = 1;
    std::uint32_t slot = 0;         // where its value is kept for lengths and tags; 0: it is not kept
    std::uint32_t length_slot = 0;  // of sequences and variants; 0: the length is fixed
    std::uint32_t tag_labels = 0;   // of a variant, into DecodePlan::tag_labels; 0: the tag's enum has no index
    std::uint64_t length = 0;       // of arrays
    std::uint32_t first_child = 0;  // index of the first member or option, or of the only element
    std::uint32_t child_count = 0;
    // For a variant: index into DecodePlan::choices, or into label_choices if the enum of its tag has an index.
    std::uint32_t first_choice = 0;
    std::uint32_t choice_count = 0;
    const FieldClass* field_class = nullptr;
    std::string_view name{};
};

// A label of a variant's tag that chooses one of its options.
struct PlanLabelChoice {
    std::uint32_t label = 0;  // the number that EnumLabels gives it
    std::uint32_t option = 0;
};

// Index of a scope's struct in DecodePlan::nodes.
using PlanRoot = std::optional<std::uint32_t>;

}  // namespace leat::ctf
