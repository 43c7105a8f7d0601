#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/byte_cursor.hpp"
#include "ctf/metadata/metadata_packets.hpp"
#include "relay/store/declared_streams.hpp"

namespace leat::relay {

// How much text there is in metadata that comes in pieces. It is plain, or in packets ([CTF-1.8], section 7.1):
//
//     bytes    | header | text ............. | zeros | header | text ...
//     text              | text ............. |                | text ...
//
// A producer that sends its metadata again sends the same text, but may pack it anew: only the text says how far a
// viewer has come. What is no packet, where one should begin, is plain from there on.
class MetadataScan {
  public:
    static constexpr std::uint64_t kAll = ~std::uint64_t{0};

    // Takes bytes until it stands in front of the text that follows this position. Returns how many it took. The text
    // goes to `declared`, if there is one.
    std::size_t add(UntrustedBytes bytes, std::uint64_t text = kAll, DeclaredStreams* declared = nullptr);

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t text() const { return text_; }
    [[nodiscard]] bool is_plain() const { return is_plain_; }

    // Up to where all packets are whole. go_back() stands there again.
    [[nodiscard]] std::uint64_t whole_bytes() const { return is_between_packets() ? bytes_ : packet_begin_; }
    void go_back();

    // In a packet, in front of some of its text.
    [[nodiscard]] bool is_at_first_text() const { return text_left_ == packet_text_; }
    [[nodiscard]] std::uint64_t packet_left() const { return text_left_ + padding_left_; }
    // Makes a packet of what is left of this one.
    using Header = std::array<std::byte, ctf::kMetadataPacketHeaderSize>;
    [[nodiscard]] Header header_of_rest() const;

  private:
    [[nodiscard]] bool is_between_packets() const;
    std::size_t take_header(UntrustedBytes bytes);
    [[nodiscard]] bool may_be_header() const;
    bool begin_packet();
    [[nodiscard]] std::uint32_t header_number(std::size_t offset) const;

    bool is_plain_ = false;
    Header header_{};              // of this packet, or as much as is there of the next
    std::size_t header_size_ = 0;  // of the next packet, as far as it is there
    std::uint64_t packet_begin_ = 0;
    std::uint64_t packet_text_ = 0;
    std::uint64_t text_left_ = 0;
    std::uint64_t padding_left_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t text_ = 0;
};

}  // namespace leat::relay
