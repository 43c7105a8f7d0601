#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace leat::ctf {

// Bytes of a string with its NUL, which is one of the next `rest` bytes; 0: none of them is. Most strings are short:
// eight bytes at a time need no call.
[[nodiscard]] inline std::uint64_t string_size(const std::byte* begin, std::uint64_t rest) {
    static_assert(std::endian::native == std::endian::little);
    constexpr std::uint64_t kShort = 64;
    constexpr std::uint64_t kOnes = 0x0101010101010101;
    std::uint64_t size = 0;
    for (; size + sizeof(std::uint64_t) <= std::min(rest, kShort); size += sizeof(std::uint64_t)) {
        std::uint64_t bytes = 0;
        std::memcpy(&bytes, begin + size, sizeof bytes);
        // The lowest bit that is set is the highest one of the first NUL.
        const std::uint64_t nuls = (bytes - kOnes) & ~bytes & kOnes << 7U;
        if (nuls != 0) return size + static_cast<std::uint64_t>(std::countr_zero(nuls)) / 8 + 1;
    }
    if (size == rest) return 0;
    const void* const nul = std::memchr(begin + size, '\0', rest - size);
    return nul == nullptr ? 0 : static_cast<std::uint64_t>(static_cast<const std::byte*>(nul) - begin) + 1;
}

}  // namespace leat::ctf
