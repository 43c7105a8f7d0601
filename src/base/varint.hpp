#pragma once

#include <cstdint>

namespace leat {

// A number of seven bits a byte, the lowest first; the highest bit says that another byte follows. `append(char)` takes
// the bytes.
template <class Append>
void write_varint(std::uint64_t value, const Append& append) {
    for (; value >= 0x80; value >>= 7U) append(static_cast<char>(value | 0x80U));
    append(static_cast<char>(value));
}

}  // namespace leat
