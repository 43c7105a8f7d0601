#include "relay/datagram_window.hpp"

#include <algorithm>
#include <utility>

namespace leat::relay {
namespace {

constexpr std::uint64_t kLastNumber = ~std::uint64_t{0};

}  // namespace

Result<void> DatagramWindow::add(const wire::DatagramHeader& header, UntrustedBytes piece, Time now) {
    if (header.packet_size == 0 || header.packet_size > wire::kMaxDatagramPacket)
        return corrupt("a packet of {} bytes does not come as datagrams", header.packet_size);
    const std::size_t wanted =
        std::min<std::size_t>(wire::kDatagramPiece, header.packet_size - std::min(header.offset, header.packet_size));
    if (header.offset % wire::kDatagramPiece != 0 || wanted == 0 || piece.size() != wanted)
        return corrupt("a datagram of {} bytes at {} is no piece of a packet of {}", piece.size(), header.offset,
                       header.packet_size);
    // None could follow it.
    if (header.net_seq_num == kLastNumber) return corrupt("a datagram has the number {}", header.net_seq_num);
    if (header.net_seq_num == 0 && !next_) next_ = 0;
    if (next_ && header.net_seq_num < *next_) return {};
    const std::size_t pieces = (header.packet_size + wire::kDatagramPiece - 1) / wire::kDatagramPiece;
    auto found = waiting_.find(header.net_seq_num);
    if (found == waiting_.end()) {
        Partial partial{wire::Bytes(header.packet_size), std::vector<bool>(pieces), pieces, now};
        found = waiting_.emplace(header.net_seq_num, std::move(partial)).first;
        bytes_ += header.packet_size;
    }
    Partial& packet = found->second;
    if (packet.bytes.size() != header.packet_size)
        return corrupt("packet {} has {} bytes, and then {}", header.net_seq_num, packet.bytes.size(),
                       header.packet_size);
    const std::size_t number = header.offset / wire::kDatagramPiece;
    if (packet.pieces[number]) return {};
    packet.pieces[number] = true;
    --packet.missing;
    std::ranges::copy(piece, packet.bytes.begin() + header.offset);
    return {};
}

std::optional<DatagramWindow::Packet> DatagramWindow::take(Time now) {
    while (!waiting_.empty()) {
        const auto first = waiting_.begin();
        const bool is_next = next_ == first->first;
        const bool is_whole = first->second.missing == 0;
        // What is missing before it, or of it, may still be on its way.
        const bool is_late = now - first->second.since > kMaxAge || bytes_ > kMaxBytes || waiting_.size() > kMaxPackets;
        if (!(is_next && is_whole) && !is_late) return std::nullopt;
        next_ = first->first + 1;
        bytes_ -= first->second.bytes.size();
        Partial partial = std::move(first->second);
        waiting_.erase(first);
        if (is_whole) return Packet{*next_ - 1, std::move(partial.bytes)};
    }
    return std::nullopt;
}

}  // namespace leat::relay
