#include "relay/pairing_table.hpp"

#include <algorithm>

namespace leat::relay {
namespace {

// A larger gap is no loss but rubbish: each lost packet costs an entry in the index. Connections lose none, but one may
// be that far behind the other; networks may be gone for a while.
constexpr std::uint64_t kMaxGap = PairingTable::kMaxWaiting;
constexpr std::uint64_t kMaxGapOfDatagrams = 1U << 16;

}  // namespace

Result<PairingTable::Waiting*> PairingTable::entry(std::uint64_t number, Time now) {
    const std::uint64_t max_gap = is_data_ordered_ ? kMaxGap : kMaxGapOfDatagrams;
    if (!next_) next_ = number;
    if (number < *next_) {
        if (has_taken_ || *next_ - number > max_gap) return refused("packet {} comes too late", number);
        next_ = number;
    }
    if (number - *next_ > max_gap)
        return refused("packet {} comes after packet {}: so many cannot be lost", number, *next_ - 1);
    if (waiting_.size() >= kMaxWaiting && !waiting_.contains(number))
        return refused("{} packets wait for their other half", waiting_.size());
    return &waiting_.try_emplace(number, Waiting{.since = now}).first->second;
}

Result<void> PairingTable::add_index(const wire::SendIndex& index, Time now) {
    Waiting* const waiting = LEAT_TRY(entry(index.net_seq_num, now));
    if (waiting->index) return refused("packet {} has two indexes", index.net_seq_num);
    waiting->index = index;
    last_index_ = std::max(last_index_.value_or(index.net_seq_num), index.net_seq_num);
    return {};
}

Result<void> PairingTable::add_data(std::uint64_t number, const StoredData& data, Time now) {
    Waiting* const waiting = LEAT_TRY(entry(number, now));
    if (waiting->data) return refused("packet {} comes twice", number);
    waiting->data = data;
    last_data_ = std::max(last_data_.value_or(number), number);
    return {};
}

bool PairingTable::is_hopeless(std::uint64_t number, const Waiting& waiting, Time now) const {
    if (!waiting.data && (has_data_ended_ || (is_data_ordered_ && last_data_ && *last_data_ > number))) return true;
    if (!waiting.index && (have_indexes_ended_ || (last_index_ && *last_index_ > number))) return true;
    return now - waiting.since > (is_data_ordered_ ? kMaxAge : kMaxAgeOfDatagrams);
}

std::optional<PairingTable::Outcome> PairingTable::take(Time now) {
    if (waiting_.empty()) return std::nullopt;
    const auto first = waiting_.begin();
    const bool is_gap = first->first != *next_;
    const Waiting& waiting = first->second;
    const bool is_complete = waiting.index && waiting.data;
    // Of a number in a gap neither half is here; what came behind it decides.
    const bool is_decided =
        is_gap ? (is_complete && is_data_ordered_) || is_hopeless(*next_, {.since = waiting.since}, now)
               : is_complete || is_hopeless(first->first, waiting, now);
    if (!is_decided) return std::nullopt;
    has_taken_ = true;
    Outcome outcome{.number = (*next_)++};
    if (is_gap) return outcome;
    outcome.index = waiting.index;
    outcome.data = waiting.data;
    waiting_.erase(first);
    return outcome;
}

bool PairingTable::waits_for_data() const {
    return !has_data_ended_ &&
           std::ranges::any_of(waiting_, [](const auto& entry) { return entry.second.index && !entry.second.data; });
}

bool PairingTable::is_past(std::uint64_t number) const {
    return next_ ? static_cast<std::int64_t>(number - *next_) < 0 : number == wire::kNoPacket;
}

std::vector<StoredData*> PairingTable::all_data() {
    std::vector<StoredData*> found;
    for (auto& [number, waiting] : waiting_)
        if (waiting.data) found.push_back(&*waiting.data);
    return found;
}

}  // namespace leat::relay
