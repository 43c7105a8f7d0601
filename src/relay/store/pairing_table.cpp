#include "relay/store/pairing_table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace leat::relay {

Result<void> PairingTable::check(std::uint64_t number) const {
    if (number == wire::kNoPacket) return refused("{} is no packet's number", number);
    if (has_taken_ && number < *next_) return refused("packet {} comes too late", number);
    return {};
}

PairingTable::Waiting& PairingTable::entry(std::uint64_t number, Time now) {
    next_ = std::min(next_.value_or(number), number);
    return waiting_.try_emplace(number, Waiting{.since = now}).first->second;
}

// A number whose other half is here takes no more room, and one beyond all data of a full table is what decides about
// it.
bool PairingTable::has_room_for_index(std::uint64_t number) const {
    const auto found = waiting_.find(number);
    return indexes_waiting_ < kMaxWaiting || (found != waiting_.end() && found->second.data);
}

bool PairingTable::has_room_for_data(std::uint64_t number) const {
    const auto found = waiting_.find(number);
    return data_waiting_ < kMaxWaiting || (found != waiting_.end() && found->second.index);
}

Result<void> PairingTable::add_index(const wire::SendIndex& index, Time now) {
    const std::uint64_t number = index.net_seq_num;
    LEAT_TRY(check(number));
    if (!has_room_for_index(number)) return refused("{} packets wait for their data", indexes_waiting_);
    Waiting& waiting = entry(number, now);
    if (waiting.index) return refused("packet {} has two indexes", number);
    waiting.index = index.entry;
    if (waiting.data)
        --data_waiting_;
    else
        ++indexes_waiting_;
    last_index_ = std::max(last_index_.value_or(number), number);
    if (const auto function = std::exchange(at_next_index_, nullptr)) function();
    return {};
}

Result<void> PairingTable::add_data(std::uint64_t number, const StoredData& data, Time now) {
    LEAT_TRY(check(number));
    if (!has_room_for_data(number)) return refused("{} packets wait for their index", data_waiting_);
    Waiting& waiting = entry(number, now);
    if (waiting.data) return refused("packet {} comes twice", number);
    waiting.data = data;
    if (waiting.index)
        --indexes_waiting_;
    else
        ++data_waiting_;
    data_end_ = std::max(data_end_, number);
    return {};
}

// Raising data_end_ says of all smaller numbers that their data will not come, as data of a later number would.
bool PairingTable::give_up_data(Time before) {
    const std::uint64_t end = data_end_;
    for (const auto& [number, waiting] : waiting_) {
        if (waiting.since >= before) break;
        if (waiting.index && !waiting.data) data_end_ = std::max(data_end_, number + 1);
    }
    return data_end_ != end;
}

// Whatever lies before that index is decided, and leaves with the next take(): the walk is a short one.
void PairingTable::give_up_oldest_data() {
    for (const auto& [number, waiting] : waiting_) {
        if (!waiting.index || waiting.data) continue;
        data_end_ = std::max(data_end_, number + 1);
        return;
    }
}

// Indexes come in order on their connection: a larger number shows that a smaller one will not come.
bool PairingTable::may_index_come(std::uint64_t number) const {
    return !have_indexes_ended_ && !(last_index_ && *last_index_ > number);
}

bool PairingTable::may_data_come(std::uint64_t number) const { return !has_data_ended_ && data_end_ <= number; }

// Looks only at the smallest number that waits: outcomes leave in order, so one packet whose fate is open holds up all
// that follow. Its age ends that.
std::optional<PairingTable::Outcome> PairingTable::take(Time now) {
    if (have_indexes_ended_) forget_unindexed();
    if (waiting_.empty()) return std::nullopt;
    const auto& [number, waiting] = *waiting_.begin();
    const bool is_old = now - std::max(waiting.since, ages_from_) > max_age_;
    if (number != *next_) {
        // No number of the gap was mentioned, so what came after it decides about all of them alike.
        if (!is_old && (may_index_come(*next_) || may_data_come(*next_))) return std::nullopt;
        has_taken_ = true;
        if (!skip_gap(number)) return Outcome{.number = (*next_)++};
    }
    const bool is_index_known = waiting.index || !may_index_come(number);
    const bool is_data_known = waiting.data || !may_data_come(number);
    if (!is_old && !(is_index_known && is_data_known)) return std::nullopt;
    return take_first();
}

// What is beyond the last index has data alone.
void PairingTable::forget_unindexed() {
    const auto first = last_index_ ? waiting_.upper_bound(*last_index_) : waiting_.begin();
    const auto count = static_cast<std::size_t>(std::distance(first, waiting_.end()));
    waiting_.erase(first, waiting_.end());
    data_waiting_ -= count;
    unindexed_ += count;
}

// Whether the rest of the gap is not listed.
bool PairingTable::skip_gap(std::uint64_t end) {
    if (listed_ < kMaxListed) {
        ++listed_;
        return false;
    }
    unlisted_ += end - *next_;
    next_ = end;
    return true;
}

PairingTable::Outcome PairingTable::take_first() {
    const auto first = waiting_.begin();
    const Outcome outcome{.number = first->first, .index = first->second.index, .data = first->second.data};
    waiting_.erase(first);
    if (!outcome.data) --indexes_waiting_;
    if (!outcome.index) --data_waiting_;
    next_ = outcome.number + 1;
    has_taken_ = true;
    listed_ -= std::min(listed_, kListedPerPacket);
    return outcome;
}

PairingTable::Expected PairingTable::expected_of(std::uint64_t number, const Waiting& waiting) {
    return {.number = number, .size = waiting.index->packet_size / 8, .since = waiting.since};
}

std::optional<PairingTable::Expected> PairingTable::expected(std::uint64_t number) const {
    const auto found = waiting_.find(number);
    if (found == waiting_.end() || !found->second.index || found->second.data) return std::nullopt;
    return expected_of(number, found->second);
}

std::optional<PairingTable::Expected> PairingTable::last_expected_before(std::uint64_t number) const {
    for (auto at = waiting_.lower_bound(number); at != waiting_.begin();) {
        --at;
        if (at->second.index && !at->second.data) return expected_of(at->first, at->second);
    }
    return std::nullopt;
}

std::vector<StoredData*> PairingTable::all_data() {
    std::vector<StoredData*> found;
    for (auto& [number, waiting] : waiting_)
        if (waiting.data) found.push_back(&*waiting.data);
    return found;
}

}  // namespace leat::relay
