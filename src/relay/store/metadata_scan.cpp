#include "relay/store/metadata_scan.hpp"

#include <algorithm>

namespace leat::relay {
namespace {

// In the header, u32 each, in the byte order that the magic shows. Sizes are in bits.
constexpr std::size_t kContentSize = 24;
constexpr std::size_t kPacketSize = 28;

std::byte byte_of(std::uint32_t value, std::size_t index) { return static_cast<std::byte>(value >> (8 * index)); }

}  // namespace

std::size_t MetadataScan::add(UntrustedBytes bytes, std::uint64_t text, DeclaredStreams* declared) {
    std::size_t taken = 0;
    while (taken < bytes.size()) {
        const UntrustedBytes rest = bytes.subspan(taken);
        std::uint64_t count = rest.size();
        if (is_plain_ || text_left_ != 0) {
            if (text_ >= text) break;
            count = std::min({count, text - text_, is_plain_ ? kAll : text_left_});
            text_ += count;
            if (!is_plain_) text_left_ -= count;
            if (declared != nullptr) declared->add(rest.first(static_cast<std::size_t>(count)));
        } else if (padding_left_ != 0) {
            count = std::min(count, padding_left_);
            padding_left_ -= count;
        } else {
            count = take_header(rest);
        }
        taken += static_cast<std::size_t>(count);
        bytes_ += count;
    }
    return taken;
}

// What turns out to be no header is left where it is, to be taken as text; but for what came in an earlier piece.
std::size_t MetadataScan::take_header(UntrustedBytes bytes) {
    const std::size_t before = header_size_;
    const std::size_t count = std::min(bytes.size(), header_.size() - before);
    if (before == 0) packet_begin_ = bytes_;
    std::ranges::copy(bytes.first(count), header_.begin() + static_cast<std::ptrdiff_t>(before));
    header_size_ += count;
    is_plain_ = !may_be_header() || (header_size_ == header_.size() && !begin_packet());
    if (!is_plain_) return count;
    text_ += before;
    return 0;
}

// Plain text can be cut anywhere.
bool MetadataScan::is_between_packets() const {
    return is_plain_ || (header_size_ == 0 && text_left_ == 0 && padding_left_ == 0);
}

void MetadataScan::go_back() {
    if (is_between_packets()) return;
    if (header_size_ == 0) text_ -= packet_text_ - text_left_;
    header_size_ = 0;
    text_left_ = 0;
    padding_left_ = 0;
    bytes_ = packet_begin_;
}

bool MetadataScan::may_be_header() const {
    const std::size_t count = std::min(header_size_, sizeof ctf::kMetadataMagic);
    bool is_little = true;
    bool is_big = true;
    for (std::size_t i = 0; i < count; ++i) {
        is_little = is_little && header_[i] == byte_of(ctf::kMetadataMagic, i);
        is_big = is_big && header_[i] == byte_of(ctf::kMetadataMagic, 3 - i);
    }
    return is_little || is_big;
}

bool MetadataScan::begin_packet() {
    const std::uint64_t content = header_number(kContentSize);
    const std::uint64_t packet = header_number(kPacketSize);
    if (content % 8 != 0 || packet % 8 != 0 || content < 8 * header_.size() || packet < content) return false;
    packet_text_ = text_left_ = content / 8 - header_.size();
    padding_left_ = (packet - content) / 8;
    header_size_ = 0;
    return true;
}

std::uint32_t MetadataScan::header_number(std::size_t offset) const {
    const bool is_little = header_[0] == byte_of(ctf::kMetadataMagic, 0);
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < sizeof value; ++i)
        value = value << 8 | std::to_integer<std::uint32_t>(header_[offset + (is_little ? 3 - i : i)]);
    return value;
}

MetadataScan::Header MetadataScan::header_of_rest() const {
    Header header = header_;
    const bool is_little = header_[0] == byte_of(ctf::kMetadataMagic, 0);
    const auto put = [&](std::size_t offset, std::uint64_t bytes) {
        const auto bits = static_cast<std::uint32_t>(8 * (header.size() + bytes));
        for (std::size_t i = 0; i < sizeof bits; ++i) header[offset + i] = byte_of(bits, is_little ? i : 3 - i);
    };
    put(kContentSize, text_left_);
    put(kPacketSize, packet_left());
    return header;
}

}  // namespace leat::relay
