#include "relay/ingest/datagram_window.hpp"

#include <algorithm>
#include <utility>

namespace leat::relay {
namespace {

// The memory of a small packet is reserved at once: one that comes in order is never copied.
constexpr std::size_t kReserved = DatagramWindow::kSmallPacket;

std::size_t count_pieces(std::uint32_t packet_size) {
    return (packet_size + wire::kDatagramPiece - 1) / wire::kDatagramPiece;
}

bool is_well_formed(const wire::DatagramHeader& header, UntrustedBytes piece) {
    if (header.packet_size == 0 || header.packet_size > wire::kMaxDatagramPacket) return false;
    if (header.offset >= header.packet_size || header.offset % wire::kDatagramPiece != 0) return false;
    if (header.net_seq_num == wire::kNoPacket) return false;
    // We have no keys: nobody can have asked for one.
    if (header.key != 0 || header.mac != 0) return false;
    return piece.size() == std::min<std::size_t>(wire::kDatagramPiece, header.packet_size - header.offset);
}

}  // namespace

std::size_t DatagramWindow::Partial::held() const {
    return kOverhead + bytes.capacity() + slots.capacity() * sizeof slots.front();
}

void DatagramWindow::Partial::put(std::size_t piece_number, UntrustedBytes piece) {
    const std::size_t position = slots.size() - missing;
    const std::size_t begin = position * wire::kDatagramPiece;
    const std::size_t end = begin + piece.size();
    if (end > bytes.capacity()) bytes.reserve(std::max(end, std::min<std::size_t>(packet_size, 2 * bytes.capacity())));
    bytes.resize(begin);  // the packet's last piece may be short and yet not the last to come
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    slots[piece_number] = static_cast<std::uint16_t>(position + 1);
    --missing;
}

wire::Bytes DatagramWindow::Partial::assemble() {
    bool is_in_order = true;
    for (std::size_t i = 0; i < slots.size(); ++i) is_in_order = is_in_order && slots[i] == i + 1;
    if (is_in_order) return std::move(bytes);
    wire::Bytes packet;
    packet.reserve(packet_size);
    for (const std::uint16_t slot : slots) {
        const auto piece = UntrustedBytes(bytes).subspan((slot - 1U) * wire::kDatagramPiece);
        const std::size_t size = std::min({piece.size(), wire::kDatagramPiece, packet_size - packet.size()});
        packet.insert(packet.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(size));
    }
    return packet;
}

DatagramWindow::Fate DatagramWindow::add(const wire::DatagramHeader& header, UntrustedBytes piece, Time now) {
    if (!is_well_formed(header, piece)) return Fate::kMalformed;
    if (header.net_seq_num < begin_) return Fate::kTooLate;
    if (end_ && header.net_seq_num >= *end_) return Fate::kTooFar;
    auto found = waiting_.find(header.net_seq_num);
    if (found == waiting_.end()) found = begin_packet(header, now);
    Partial& packet = found->second;
    if (packet.packet_size != header.packet_size) return Fate::kMalformed;
    const std::size_t number = header.offset / wire::kDatagramPiece;
    if (packet.slots[number] != 0) return Fate::kRepeated;
    bytes_ -= packet.held();
    packet.put(number, piece);
    bytes_ += packet.held();
    return packet.missing == 0 ? Fate::kWhole : Fate::kKept;
}

// Before the first index any number may be the first one. The oldest goes then: what is real is confirmed soon.
DatagramWindow::Waiting::iterator DatagramWindow::begin_packet(const wire::DatagramHeader& header, Time now) {
    if (waiting_.size() >= (end_ ? kMaxPackets : kAhead))
        drop(std::ranges::min_element(waiting_, {}, [](const auto& entry) { return entry.second.since; }));
    const std::size_t pieces = count_pieces(header.packet_size);
    Partial packet{.packet_size = header.packet_size,
                   .missing = pieces,
                   .slots = std::vector<std::uint16_t>(pieces),
                   .bytes = {},
                   .since = now};
    packet.bytes.reserve(std::min<std::size_t>(header.packet_size, kReserved));
    bytes_ += packet.held();
    return waiting_.emplace(header.net_seq_num, std::move(packet)).first;
}

void DatagramWindow::follow(const PairingTable& pairs) {
    if (!pairs.last_index()) return;
    const std::uint64_t last = std::max(*pairs.last_index() + 1, *pairs.next());
    begin_ = std::max(begin_, *pairs.next());
    const bool is_first = !end_;
    end_ = last + std::min(kAhead, wire::kNoPacket - last);
    while (!waiting_.empty() && waiting_.begin()->first < begin_) drop(waiting_.begin());
    if (!is_first) return;
    for (auto at = waiting_.lower_bound(*end_); at != waiting_.end();) at = drop(at);
}

std::optional<DatagramWindow::WholePacket> DatagramWindow::take(const PairingTable& pairs, Time now) {
    follow(pairs);
    for (auto at = waiting_.begin(); at != waiting_.end() && pairs.last_index() && at->first <= *pairs.last_index();) {
        if (at->second.missing != 0) {
            ++at;
            continue;
        }
        const auto expected = pairs.expected(at->first);
        if (!expected || expected->size != at->second.packet_size) {
            at = drop(at);
            continue;
        }
        // What is missing before it may still be on its way. The one before was announced last of all those.
        const auto before = pairs.last_expected_before(at->first);
        if (before && now - before->since <= kMaxAge) return std::nullopt;
        bytes_ -= at->second.held();
        WholePacket packet{at->first, at->second.assemble()};
        waiting_.erase(at);
        begin_ = packet.number + 1;
        return packet;
    }
    return std::nullopt;
}

void DatagramWindow::clean(const PairingTable& pairs, Time now) {
    follow(pairs);
    for (auto at = waiting_.begin(); at != waiting_.end();) {
        const bool is_announced = pairs.last_index() && at->first <= *pairs.last_index();
        const bool is_real =
            is_announced ? pairs.expected(at->first).has_value() : now - at->second.since <= kMaxAgeWithoutIndex;
        at = is_real ? std::next(at) : drop(at);
    }
}

void DatagramWindow::drop_largest() {
    if (waiting_.empty()) return;
    auto largest = waiting_.begin();
    for (auto at = waiting_.begin(); at != waiting_.end(); ++at)
        if (at->second.held() >= largest->second.held()) largest = at;
    drop(largest);
}

DatagramWindow::Waiting::iterator DatagramWindow::drop(Waiting::iterator at) {
    ++dropped_packets_;
    bytes_ -= at->second.held();
    return waiting_.erase(at);
}

}  // namespace leat::relay
