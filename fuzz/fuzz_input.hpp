// Takes a fuzzer's bytes apart. Returns 0 when no bytes are left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/byte_cursor.hpp"

// The head of the function that runs one input. libFuzzer knows one such function; fuzz-replay has one of each target.
#ifdef LEAT_FUZZ
#define LEAT_FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#else
#define LEAT_FUZZ_TARGET(name) extern "C" int leat_fuzz_##name(const std::uint8_t* data, std::size_t size)
#endif

namespace leat::fuzz {

class FuzzInput {
  public:
    FuzzInput(const std::uint8_t* data, std::size_t size)
        : left_(reinterpret_cast<const std::byte*>(data), size) {}  // NOLINT(*-reinterpret-cast)

    [[nodiscard]] bool is_empty() const { return left_.empty(); }

    template <class T>
    T take() {
        T value{};
        const UntrustedBytes bytes = take_bytes(sizeof value);
        std::memcpy(&value, bytes.data(), bytes.size());
        return value;
    }
    // Returns fewer bytes if there are not enough.
    UntrustedBytes take_bytes(std::size_t count) {
        const UntrustedBytes bytes = left_.first(std::min(count, left_.size()));
        left_ = left_.subspan(bytes.size());
        return bytes;
    }
    UntrustedBytes take_rest() { return take_bytes(left_.size()); }

  private:
    UntrustedBytes left_;
};

}  // namespace leat::fuzz
