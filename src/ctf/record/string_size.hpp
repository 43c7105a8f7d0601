#pragma once

#include <emmintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace leat::ctf {

// Of the next 16 bytes, those that are NUL: the first is the lowest bit.
[[nodiscard]] inline std::uint32_t nuls_in_16(const std::byte* at) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));  // NOLINT(*-reinterpret-cast)
    return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128())));
}

constexpr std::uint64_t kShortString = 64;  // bytes

[[nodiscard, gnu::always_inline]] inline std::uint32_t nuls_in_32(const std::byte* at) {
    return nuls_in_16(at) | nuls_in_16(at + 16) << 16U;
}

// Bytes of a string with its NUL, if that is one of the next kShortString bytes, which must be there; else 0.
[[nodiscard, gnu::always_inline]] inline std::uint64_t short_string_size(const std::byte* begin) {
    std::uint64_t size = 0;
    std::uint32_t nuls = nuls_in_32(begin);
    if (nuls == 0) {
        size = 32;
        nuls = nuls_in_32(begin + size);
        if (nuls == 0) return 0;
    }
    return size + static_cast<std::uint64_t>(std::countr_zero(nuls)) + 1;
}

// Bytes of a string with its NUL, which is one of the next `rest` bytes; 0: none of them is. Most strings are so short
// that a call would take longer than the search.
[[nodiscard, gnu::always_inline]] inline std::uint64_t string_size(const std::byte* begin, std::uint64_t rest) {
    constexpr std::uint64_t kAtOnce = 32;
    std::uint64_t size = 0;
    for (; size < kShortString && rest - size >= kAtOnce; size += kAtOnce) {
        const std::uint32_t nuls = nuls_in_32(begin + size);
        if (nuls != 0) return size + static_cast<std::uint64_t>(std::countr_zero(nuls)) + 1;
    }
    if (size == rest) return 0;
    const void* const nul = std::memchr(begin + size, '\0', rest - size);
    return nul == nullptr ? 0 : static_cast<std::uint64_t>(static_cast<const std::byte*>(nul) - begin) + 1;
}

}  // namespace leat::ctf
