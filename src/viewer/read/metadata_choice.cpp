#include "viewer/read/metadata_choice.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <numeric>

namespace leat::viewer {
namespace {

template <class Class>
std::map<std::uint64_t, const Class*> by_id(const std::deque<Class>& classes) {
    std::map<std::uint64_t, const Class*> found;
    for (const Class& one : classes) found.emplace(one.id, &one);
    return found;
}

bool declares_all_of(const ctf::StreamClass& more, const ctf::StreamClass& less) {
    if (more.packet_context != less.packet_context || more.event_header != less.event_header ||
        more.event_context != less.event_context)
        return false;
    const auto events = by_id(more.events);
    return std::ranges::all_of(less.events, [&](const ctf::EventClass& event) {
        const auto found = events.find(event.id);
        return found != events.end() && *found->second == event;
    });
}

bool declares_all_of(const ctf::TraceClass& more, const ctf::TraceClass& less) {
    if (more.byte_order != less.byte_order || more.packet_header != less.packet_header) return false;
    const auto streams = by_id(more.streams);
    return std::ranges::all_of(less.streams, [&](const ctf::StreamClass& stream) {
        const auto found = streams.find(stream.id);
        return found != streams.end() && declares_all_of(*found->second, stream);
    });
}

}  // namespace

std::size_t count_declarations(const ctf::TraceClass& trace_class) {
    std::size_t count = trace_class.streams.size();
    for (const ctf::StreamClass& stream : trace_class.streams) count += stream.events.size();
    return count;
}

std::vector<std::size_t> choose_metadata(std::span<const ctf::TraceClass* const> directories) {
    constexpr std::size_t kMostOfOneUuid = 8;  // that are compared: no tracer makes more of them
    std::vector<std::size_t> chosen(directories.size());
    std::iota(chosen.begin(), chosen.end(), std::size_t{0});
    std::vector<std::size_t> most_first = chosen;
    std::ranges::stable_sort(most_first, std::greater{},
                             [&](std::size_t i) { return count_declarations(*directories[i]); });
    std::map<ctf::Uuid, std::vector<std::size_t>> most;  // that no other serves
    for (const std::size_t i : most_first) {
        if (!directories[i]->uuid) continue;
        auto& known = most[*directories[i]->uuid];
        const auto serves = std::ranges::find_if(
            known, [&](std::size_t other) { return declares_all_of(*directories[other], *directories[i]); });
        if (serves != known.end())
            chosen[i] = *serves;
        else if (known.size() < kMostOfOneUuid)
            known.push_back(i);
    }
    return chosen;
}

}  // namespace leat::viewer
