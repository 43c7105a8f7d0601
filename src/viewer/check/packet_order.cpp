#include "viewer/check/packet_order.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>

namespace leat::viewer {
namespace {

auto begin_of(const RecordedPacket& packet) { return packet.properties.begin_ns; }

// The longest sequence of packets that is in order, by how each is the best end of all sequences of its length.
std::vector<bool> in_order(const std::vector<RecordedPacket>& packets) {
    constexpr std::size_t kNone = ~std::size_t{0};
    std::vector<std::size_t> ends;  // of the sequences of 1, 2, 3 ... packets: the one that begins first
    std::vector<std::size_t> before(packets.size(), kNone);
    for (std::size_t i = 0; i < packets.size(); ++i) {
        const auto longer = std::ranges::upper_bound(ends, begin_of(packets[i]), {},
                                                     [&](std::size_t end) { return begin_of(packets[end]); });
        if (longer != ends.begin()) before[i] = *std::prev(longer);
        if (longer == ends.end())
            ends.push_back(i);
        else
            *longer = i;
    }
    std::vector<bool> is_in_order(packets.size());
    for (std::size_t i = ends.empty() ? kNone : ends.back(); i != kNone; i = before[i]) is_in_order[i] = true;
    return is_in_order;
}

}  // namespace

void put_in_order(std::vector<RecordedPacket>& packets, Findings& findings) {
    if (std::ranges::is_sorted(packets, {}, begin_of)) return;
    const std::vector<bool> is_in_order = in_order(packets);
    std::set<std::uint64_t> misplaced;  // offsets
    for (std::size_t i = 0; i < packets.size(); ++i) {
        if (is_in_order[i]) continue;
        misplaced.insert(packets[i].offset);
        findings.add(packets[i].file->path, packets[i].offset,
                     "the begin of the packet is not between those of its neighbours");
    }
    std::ranges::stable_sort(packets, {}, begin_of);
    const auto is_misplaced = [&](const RecordedPacket& packet) { return misplaced.contains(packet.offset); };
    std::vector<std::optional<std::uint64_t>> next(packets.size());  // number of the first behind it that is in order
    for (std::size_t i = packets.size() - 1; i > 0; --i)
        next[i - 1] = is_misplaced(packets[i]) ? next[i] : packets[i].properties.sequence_number;
    std::optional<std::uint64_t> last;  // of the one before it that is in order
    std::size_t at = 0;
    std::erase_if(packets, [&](const RecordedPacket& packet) {
        const auto& next_number = next[at++];
        const auto& number = packet.properties.sequence_number;
        if (!is_misplaced(packet)) {
            last = number;
            return false;
        }
        return number && ((last && *number <= *last) || (next_number && *number >= *next_number));
    });
}

}  // namespace leat::viewer
