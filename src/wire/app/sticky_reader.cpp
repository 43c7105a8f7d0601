#include "wire/app/sticky_reader.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "base/file.hpp"

namespace leat::wire {
namespace {

// A program may change a value each time that it is looked at. So many looks more than one are taken at all values
// together: some ms.
constexpr int kMaxLooks = 1000;

template <class T>
Result<void> read(int fd, std::span<T> into, std::uint64_t offset) {
    const auto size = read_at(fd, offset, std::as_writable_bytes(into));
    if (!size) return wrap("sticky values", size.error());
    if (*size < into.size_bytes()) return corrupt("sticky values end in the middle");
    return {};
}

bool is_whole(const StickySlot& slot, const StickySlot& afterwards) {
    return slot.sequence % 2 == 0 && slot.sequence == afterwards.sequence;
}

bool is_used(const StickySlot& slot) { return slot.sequence != 0 && slot.tracepoint != kNoTracepoint; }

std::optional<StickyValue> parse(const StickySlot& slot, std::uint64_t tracepoint_count) {
    if (slot.tracepoint >= tracepoint_count || slot.size > kStickyPayload) return std::nullopt;
    const auto payload = std::as_bytes(std::span(slot.payload)).first(slot.size);
    return StickyValue{slot.tracepoint, slot.order, {payload.begin(), payload.end()}};
}

}  // namespace

// AF: the sequence is read before the value and again after it. Pairs with AE in SlotChange: system calls and x86 keep
// the order of loads.
Result<StickyValues> read_sticky_values(int fd, const ControlLayout& layout) {
    StickyValues found;
    LEAT_TRY(read(fd, std::span(&found.not_kept, 1), offsetof(ControlFileHeader, not_kept)));
    std::vector<StickySlot> slots(layout.sticky_slots);
    std::vector<StickySlot> afterwards(layout.sticky_slots);
    LEAT_TRY(read(fd, std::span(slots), layout.sticky(0)));
    LEAT_TRY(read(fd, std::span(afterwards), layout.sticky(0)));
    int looks = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
        while (!is_whole(slots[i], afterwards[i]) && looks++ < kMaxLooks) {
            LEAT_TRY(read(fd, std::span(&slots[i], 1), layout.sticky(i)));
            LEAT_TRY(read(fd, std::span(&afterwards[i], 1), layout.sticky(i)));
        }
        if (!is_used(slots[i])) continue;
        auto value = is_whole(slots[i], afterwards[i]) ? parse(slots[i], layout.tracepoint_count) : std::nullopt;
        if (value)
            found.values.push_back(*std::move(value));
        else
            ++found.unreadable;
    }
    std::ranges::stable_sort(found.values, {}, &StickyValue::order);
    return found;
}

}  // namespace leat::wire
