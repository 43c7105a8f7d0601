#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/byte_cursor.hpp"

namespace leat::ctf {

// The first position from this one on that has this alignment, a power of two.
constexpr std::uint64_t aligned(std::uint64_t position, std::uint32_t alignment) {
    return (position + alignment - 1) & ~std::uint64_t{alignment - 1};
}

// Reads integers of 1 to 64 bits that begin at any bit of a packet. It never reads past the end of the packet.
//
// In little-endian fields the first bit is the lowest of its byte, in big-endian ones the highest.
class BitReader {
  public:
    BitReader() = default;
    BitReader(UntrustedBytes bytes, std::uint64_t end_bits) : bytes_(bytes.data()), end_(end_bits) {}

    [[nodiscard]] std::uint64_t position() const { return position_; }
    [[nodiscard]] std::uint64_t remaining() const { return end_ - position_; }

    // Moves the end, which must not lie outside the bytes. A position beyond it stays there with nothing remaining.
    void set_end(std::uint64_t end_bits) { end_ = end_bits < position_ ? position_ : end_bits; }

    [[nodiscard]] std::uint64_t end() const { return end_; }

    // Whether the position could be aligned. Alignments are powers of two.
    bool align(std::uint32_t alignment) {
        const std::uint64_t padding = -position_ & (alignment - 1);
        if (padding > remaining()) return false;
        position_ += padding;
        return true;
    }

    // The bytes from the position on, which must be at a whole byte.
    [[nodiscard]] const std::byte* here() const { return at(position_); }
    // Those from another position on.
    [[nodiscard]] const std::byte* at(std::uint64_t position) const { return bytes_ + position / 8; }
    void skip(std::uint64_t bits) { position_ += bits; }
    void seek(std::uint64_t position) { position_ = position; }

    // The next 64 bits, of which the first is the lowest. The caller checks that so many remain, from a whole byte on.
    [[nodiscard]] std::uint64_t peek_64() const { return peek_64_at(position_); }
    [[nodiscard]] std::uint64_t peek_64_at(std::uint64_t position) const {
        std::uint64_t bits = 0;
        std::memcpy(&bits, at(position), sizeof bits);
        return bits;
    }

    // Has bytes further on fetched: by itself, the processor does not read across pages.
    [[gnu::always_inline]] void read_ahead(std::uint64_t position) const {
        constexpr std::size_t kDistance = 2048;
        __builtin_prefetch(at(position) + kDistance);
    }

    // Reads 1 to 64 bits. The caller checks that so many remain.
    std::uint64_t read(unsigned size, bool is_big_endian) {
        if (position_ % 8 == 0 && size % 8 == 0 && (size & (size - 1)) == 0) return read_whole(size, is_big_endian);
        return read_bits(size, is_big_endian);
    }

  private:
    std::uint64_t read_whole(unsigned size, bool is_big_endian) {
        static_assert(std::endian::native == std::endian::little);
        std::uint64_t value = 0;
        switch (size) {  // constant sizes become single loads
            case 8:
                std::memcpy(&value, here(), 1);
                break;
            case 16:
                std::memcpy(&value, here(), 2);
                break;
            case 32:
                std::memcpy(&value, here(), 4);
                break;
            default:
                std::memcpy(&value, here(), 8);
                break;
        }
        position_ += size;
        return is_big_endian ? __builtin_bswap64(value) >> (64 - size) : value;
    }

    std::uint64_t read_bits(unsigned size, bool is_big_endian) {
        const auto offset = static_cast<unsigned>(position_ % 8);
        const unsigned byte_count = (offset + size + 7) / 8;  // up to 9
        unsigned __int128 bits = 0;
        for (unsigned i = 0; i < byte_count; ++i) {
            const auto byte = static_cast<unsigned __int128>(here()[i]);
            bits = is_big_endian ? bits << 8U | byte : bits | byte << (8 * i);
        }
        bits >>= is_big_endian ? byte_count * 8 - offset - size : offset;
        position_ += size;
        const std::uint64_t mask = ~std::uint64_t{0} >> (64 - size);
        return static_cast<std::uint64_t>(bits) & mask;
    }

    const std::byte* bytes_ = nullptr;
    std::uint64_t position_ = 0;  // bits, as the end is
    std::uint64_t end_ = 0;
};

}  // namespace leat::ctf
