#include "relay/session.hpp"

#include <algorithm>

#include "relay/log.hpp"

namespace leat::relay {
namespace {

// For the first byte of data behind the end of the control connection.
constexpr std::chrono::seconds kPatienceForData{2};

}  // namespace

void Session::note_change() {
    ring_for_followers();
    wake_viewers();
}

void Session::wake_viewers() {
    change_.fetch_add(1);
    const std::lock_guard lock(listeners_mutex_);
    for (const Listener& listener : listeners_) listener();
}

std::list<Session::Listener>::iterator Session::add_listener(Listener listener) {
    const std::lock_guard lock(listeners_mutex_);
    return listeners_.insert(listeners_.end(), std::move(listener));
}

void Session::remove_listener(std::list<Listener>::iterator listener) {
    const std::lock_guard lock(listeners_mutex_);
    listeners_.erase(listener);
}

void commit_all(SessionState& state, Time now) {
    for (auto& [handle, entry] : state.streams) {
        if (entry.stream->is_finished()) continue;
        const auto committed = entry.stream->commit(now);
        if (!committed) log("stream {}: {}", handle, committed.error().message);
        note_commit(state, entry.stream);
    }
}

void note_commit(SessionState& state, const std::shared_ptr<DataStream>& stream) {
    const bool is_noted = !state.unflushed.empty() && state.unflushed.back() == stream;
    if (stream->has_unflushed() && !is_noted) state.unflushed.push_back(stream);
}

Result<Disk> flush_all(SessionState& state) {
    for (const auto& stream : state.unflushed)
        if (LEAT_TRY(stream->flush()) == Disk::kFull) return Disk::kFull;
    state.unflushed.clear();
    return Disk::kDone;
}

bool finish_streams(SessionState& state, Time now) {
    // The data connection may be the slower one: we may not even have seen it yet.
    const bool may_data_come = state.has_data_connection || now - state.control_end < kPatienceForData;
    bool are_all = true;
    for (auto& [handle, entry] : state.streams) {
        DataStream& stream = *entry.stream;
        const bool is_over = !state.is_control_open && !(may_data_come && stream.waits_for_data());
        if (!stream.is_finished() && (is_over || stream.should_finish())) stream.finish();
        are_all = are_all && stream.is_finished();
    }
    if (!state.is_control_open)
        for (auto& [handle, trace] : state.metadata) trace->metadata->finish();
    return are_all;
}

void end_data(SessionState& state, Time now) {
    state.has_data_connection = false;
    state.control_end = {};  // no patience any more
    for (auto& [handle, entry] : state.streams)
        if (!entry.stream->is_finished()) entry.stream->end_data();
    commit_all(state, now);
}

void publish_horizons(SessionState& state) {
    constexpr std::uint64_t kNone = ~std::uint64_t{0};
    for (const auto& [path, trace] : state.traces) trace->horizon = kNone;
    for (const auto& [handle, entry] : state.streams)
        if (!entry.stream->is_finished())
            entry.trace->horizon = std::min(entry.trace->horizon, entry.stream->horizon().value_or(0));
    for (const auto& [path, trace] : state.traces)
        if (trace->horizon != kNone && trace->metadata != nullptr && !trace->metadata->is_finished())
            trace->metadata->publish(trace->horizon);
}

}  // namespace leat::relay
