#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ctf/model/field_class.hpp"

namespace leat::ctf {

// One decoded field of an event record. The values of a scope lie in a flat array, and each compound precedes its
// parts:
//
//   struct (2)   x   array (2)   [0]   [1]
//
// A reader walks them from front to back and needs no heap to hold them.
struct FieldValue {
    const FieldClass* field_class = nullptr;
    std::string_view name{};  // as shown; empty for the elements of arrays and the options of variants
    union {
        std::uint64_t number = 0;  // of integers and enums; the bits of an int64 if the class is signed
        double real;
        const char* text;  // of strings and of arrays and sequences of characters; lives as long as the packet's bytes;
                           // if wide, until the next event
    };
    std::uint32_t size = 0;  // bytes of text without the NUL; of a compound, how many parts follow directly below it
    bool is_text = false;
};

// One event may have millions of values, and each stream has a decoder: what decoders keep between two events is less.
inline void give_back_large(std::vector<FieldValue>& values) {
    constexpr std::size_t kKept = 1U << 10U;
    if (values.capacity() > kKept) values = {};
}

}  // namespace leat::ctf
