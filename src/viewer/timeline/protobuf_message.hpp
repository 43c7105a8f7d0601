#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/varint.hpp"

namespace leat::viewer {

// Writes the fields of a message of Protocol Buffers, which is all that an exporter needs of them
// ([protobuf-encoding]).
class ProtobufMessage {
  public:
    void number(unsigned field, std::uint64_t value) {
        key(field, 0);
        varint(value);
    }
    void number(unsigned field, std::int64_t value) { number(field, static_cast<std::uint64_t>(value)); }
    void real(unsigned field, double value) {
        key(field, 1);
        const auto bits = std::bit_cast<std::uint64_t>(value);
        for (unsigned shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(bits >> shift);
    }
    void text(unsigned field, std::string_view value) {
        key(field, 2);
        varint(value.size());
        bytes_ += value;
    }
    void message(unsigned field, const ProtobufMessage& value) { text(field, value.bytes_); }

    [[nodiscard]] const std::string& bytes() const { return bytes_; }

  private:
    void key(unsigned field, unsigned type) { varint(std::uint64_t{field} << 3 | type); }
    void varint(std::uint64_t value) {
        write_varint(value, [this](char byte) { bytes_ += byte; });
    }

    std::string bytes_{};
};

}  // namespace leat::viewer
