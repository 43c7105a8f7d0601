#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/result.hpp"

namespace leat {

// Bytes from a file, a socket or shared memory. Only a parse_... function turns them into values that we believe.
using UntrustedBytes = std::span<const std::byte>;

// Reads fixed-width little-endian values one after the other and never past the end.
class ByteCursor {
  public:
    explicit ByteCursor(UntrustedBytes bytes) : bytes_(bytes) {}

    [[nodiscard]] std::size_t offset() const { return offset_; }
    [[nodiscard]] std::size_t remaining() const { return bytes_.size() - offset_; }

    template <class T>
    Result<T> read() {
        static_assert(std::is_trivially_copyable_v<T> && std::endian::native == std::endian::little);
        const UntrustedBytes bytes = LEAT_TRY(take(sizeof(T)));
        T value;
        std::memcpy(&value, bytes.data(), sizeof(T));
        return value;
    }

    // The next `count` bytes, still untrusted; they live as long as the bytes that the cursor reads.
    Result<UntrustedBytes> take(std::size_t count) {
        if (count > remaining()) return corrupt("{} bytes needed at offset {}, {} left", count, offset_, remaining());
        const UntrustedBytes bytes = bytes_.subspan(offset_, count);
        offset_ += count;
        return bytes;
    }

  private:
    UntrustedBytes bytes_;
    std::size_t offset_ = 0;
};

}  // namespace leat
