#include "viewer/read/shown_packets.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace leat::viewer {

std::optional<std::uint64_t> ShownPackets::add(const ctf::TraceClass& trace_class, std::uint64_t stream_class_id,
                                               const ctf::PacketProperties& packet) {
    if (!trace_class.uuid || !packet.stream_instance_id || !packet.sequence_number) return 0;
    return add(spans_of({*trace_class.uuid, stream_class_id, *packet.stream_instance_id}), *packet.sequence_number);
}

std::vector<ShownPackets::Span>& ShownPackets::spans_of(const Key& key) {
    if (const auto known = recent_.find(key); known != recent_.end()) return known->second;
    auto former = former_.extract(key);
    if (recent_.size() == streams_) former_ = std::exchange(recent_, {});
    return former ? recent_.insert(std::move(former)).position->second : recent_[key];
}

std::optional<std::uint64_t> ShownPackets::add(std::vector<Span>& spans, std::uint64_t number) {
    const auto after = std::ranges::upper_bound(spans, number, {}, &Span::first);
    const bool has_before = after != spans.begin();
    if (has_before && number <= std::prev(after)->last) return std::nullopt;
    const std::uint64_t distance = has_before ? number - std::prev(after)->last : 0;
    const std::uint64_t missing = has_before && after == spans.end() ? distance - 1 : 0;
    const bool joins_after = after != spans.end() && after->first - number == 1;
    if (distance == 1 && joins_after) {
        std::prev(after)->last = after->last;
        spans.erase(after);
    } else if (distance == 1) {
        std::prev(after)->last = number;
    } else if (joins_after) {
        after->first = number;
    } else {
        spans.insert(after, {number, number});
    }
    if (spans.size() > kMaxSpans) {
        spans[1].first = spans[0].first;
        spans.erase(spans.begin());
    }
    return missing;
}

}  // namespace leat::viewer
