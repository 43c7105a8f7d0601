// The bytes that real LTTng programs sent to one another: tests/data/captures/SESSION/CONNECTION.bin.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/file.hpp"
#include "wire/layout.hpp"

namespace leat::test {

// One direction of one connection. Messages are taken off its front.
class Capture {
  public:
    Capture(const std::string& session, const std::string& connection) {
        auto bytes =
            read_file(std::string(LEAT_TEST_DATA "/captures/") + session + "/" + connection + ".bin", 1U << 20);
        LEAT_CHECK(bytes.has_value());
        bytes_ = *std::move(bytes);
    }

    [[nodiscard]] bool is_empty() const { return offset_ == bytes_.size(); }
    [[nodiscard]] std::size_t offset() const { return offset_; }
    [[nodiscard]] UntrustedBytes peek(std::size_t count) const {
        LEAT_CHECK(count <= bytes_.size() - offset_);
        return std::as_bytes(std::span(bytes_)).subspan(offset_, count);
    }
    UntrustedBytes take(std::size_t count) {
        const UntrustedBytes bytes = peek(count);
        offset_ += count;
        return bytes;
    }
    // The big-endian number that begins `at` bytes further on.
    [[nodiscard]] std::uint32_t peek_u32(std::size_t at) const {
        std::uint32_t value = 0;
        for (const std::byte byte : peek(at + 4).subspan(at)) value = value << 8 | std::to_integer<std::uint32_t>(byte);
        return value;
    }

  private:
    std::string bytes_;
    std::size_t offset_ = 0;
};

inline wire::Bytes copy_of(UntrustedBytes bytes) { return {bytes.begin(), bytes.end()}; }

// Parses a message. Encoded again, it must give the same bytes.
template <class Message>
Message parse_and_encode(UntrustedBytes bytes, std::uint32_t minor = wire::kProtocolMinor) {
    auto message = wire::parse<Message>(bytes, minor);
    EXPECT_TRUE(message) << message.error().message;
    if (!message) return Message{};
    EXPECT_EQ(wire::encode(*message, minor), copy_of(bytes)) << Message::kName;
    return *message;
}

// Checks how many bytes readers take from a socket for a message.
template <class Message>
void expect_size(std::size_t size) {
    EXPECT_EQ(wire::kSizeOf<Message>, size) << Message::kName;
    EXPECT_EQ(wire::encode(Message{}).size(), size) << Message::kName;
}

// Checks that the bytes are a message at their full length only: not shorter, and not with one more byte.
template <class Message>
void expect_no_other_length(const wire::Bytes& bytes, std::uint32_t minor = wire::kProtocolMinor) {
    ASSERT_TRUE(wire::parse<Message>(bytes, minor)) << Message::kName;
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        const auto message = wire::parse<Message>(UntrustedBytes(bytes).first(length), minor);
        EXPECT_FALSE(message) << Message::kName << " cut at byte " << length;
    }
    wire::Bytes longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(wire::parse<Message>(longer, minor)) << Message::kName << " and one byte more";
}

}  // namespace leat::test
