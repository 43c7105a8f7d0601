#include "relay/store/stored_session.hpp"

#include <algorithm>

#include "base/log.hpp"

namespace leat::relay {
namespace {

// For the first byte of data after the end of the control connection: it may lie in a socket whose thread has not run
// yet.
constexpr std::chrono::seconds kPatienceForData{10};
// While both connections of a session wait for one another.
constexpr std::chrono::seconds kPatienceForBoth{2};
// A look is 5 ms: ten seconds, in which TCP sends again what was lost. Counted, because after a pause of the whole
// process much time has passed, and what came has not been read yet.
constexpr std::uint32_t kLooksForData = 2000;

std::uint64_t horizon_of(const StreamView& view) { return view.horizon.value_or(0); }

}  // namespace

// The handle table is shared by all sessions: a handle that outlived its session would name nothing.
StoredSession::~StoredSession() {
    for (const auto& [handle, stream] : state_.by_handle) handles_->remove(handle);
    for (const auto& [handle, trace] : state_.metadata) handles_->remove(handle);
}

std::shared_ptr<SessionDirectory> StoredSession::directory() {
    return locked([](const SessionState& state) { return state.directory; });
}

std::vector<std::shared_ptr<SessionStream>> StoredSession::open_streams() {
    return locked([](const SessionState& state) {
        std::vector<std::shared_ptr<SessionStream>> open;
        for (const auto& [handle, stream] : state.by_handle)
            if (!stream->view.is_finished) open.push_back(stream);
        return open;
    });
}

void StoredSession::add(const std::shared_ptr<SessionStream>& stream) {
    const bool has_data_ended = locked([&](SessionState& state) {
        const StreamParameters& parameters = stream->stream->parameters();
        state.open_names.emplace(stream->trace->path, parameters.files.channel_name);
        stream->change = ++state.changes;
        stream->by_change = state.by_change.insert(state.by_change.end(), stream);
        stream->trace->horizons.insert(horizon_of(stream->view));
        state.by_handle.emplace(parameters.handle, stream);
        state.streams.emplace(stream->id, stream);
        return state.has_data_ended;
    });
    // end_data() was for all streams, also for those that come later.
    if (has_data_ended) stream->stream->end_data();
}

// The view is copied under the session's lock, so versions never go back, whichever connection comes first. A finished
// view is the last one.
bool StoredSession::show(const std::shared_ptr<SessionStream>& stream) {
    Forgotten forgotten;
    const bool is_new = locked([&](SessionState& state) {
        StreamView view = stream->stream->view();
        if (view.version == stream->view.version || stream->view.is_finished) return false;
        note_horizon(*stream, view);
        stream->view = std::move(view);
        stream->change = ++state.changes;
        state.last_change = now();
        state.by_change.splice(state.by_change.end(), state.by_change, stream->by_change);
        mark_changed(state, stream->trace);
        if (stream->view.is_finished) retire(state, stream, forgotten);
        return true;
    });
    forget(forgotten);
    return is_new;
}

void StoredSession::show(const std::shared_ptr<Trace>& trace) {
    Forgotten forgotten;
    locked([&](SessionState& state) {
        mark_changed(state, trace);
        note_if_complete(state, trace, forgotten);
    });
    forget(forgotten);
}

// The smallest horizon of its unfinished streams is how far the trace is: a finished one holds nobody up.
void StoredSession::note_horizon(SessionStream& stream, const StreamView& view) {
    auto& horizons = stream.trace->horizons;
    horizons.erase(horizons.find(horizon_of(stream.view)));
    if (!view.is_finished) horizons.insert(horizon_of(view));
}

void StoredSession::mark_changed(SessionState& state, const std::shared_ptr<Trace>& trace) {
    if (!std::exchange(trace->is_changed, true)) state.changed_traces.push_back(trace);
}

// Its name is free for another stream at once. It is remembered for a while, with its files closed.
void StoredSession::retire(SessionState& state, const std::shared_ptr<SessionStream>& stream, Forgotten& forgotten) {
    state.open_names.erase({stream->trace->path, stream->stream->parameters().files.channel_name});
    stream->place.reset();
    state.finished.push_back(stream);
    note_if_complete(state, stream->trace, forgotten);
    if (state.finished.size() <= kMaxFinished) return;
    auto& oldest = forgotten.streams.emplace_back(std::move(state.finished.front()));
    state.finished.pop_front();
    state.by_change.erase(oldest->by_change);
    ++state.forgotten;
    state.streams.erase(oldest->id);
    state.by_handle.erase(oldest->stream->parameters().handle);
}

// Nothing writes into it any more. It keeps its place for a while: more streams of it may come.
void StoredSession::note_if_complete(SessionState& state, const std::shared_ptr<Trace>& trace, Forgotten& forgotten) {
    const auto is_idle = [](const Trace& candidate) {
        return candidate.horizons.empty() && (candidate.metadata == nullptr || candidate.metadata->is_finished());
    };
    if (!is_idle(*trace) || std::exchange(trace->is_complete, true)) return;
    state.complete_traces.push_back(trace);
    if (state.complete_traces.size() <= kMaxFinished) return;
    const std::shared_ptr<Trace> oldest = std::move(state.complete_traces.front());
    state.complete_traces.pop_front();
    oldest->is_complete = false;
    if (!is_idle(*oldest)) return;
    state.traces.erase(oldest->path);
    forgotten.traces.push_back(oldest);
}

// Outside of the session's lock: both tables have locks of their own.
void StoredSession::forget(const Forgotten& forgotten) {
    for (const auto& stream : forgotten.streams) handles_->remove(stream->stream->parameters().handle);
    for (const auto& trace : forgotten.traces) trace->directory->forget_trace(trace->id);
}

bool StoredSession::finish_streams(Time now) {
    const auto [is_control_open, may_data_come] = locked([&](const SessionState& state) {
        // The data connection may be the slower one: we may not even have seen it yet.
        const bool may_come = !state.has_data_ended && now - state.control_end < kPatienceForData;
        return std::pair(state.is_control_open, state.has_data_connection || may_come);
    });
    const auto open = open_streams();
    const auto waits = [](const auto& stream) { return stream->stream->waits_for_data(); };
    // All of them at once: in front of data that one waits for may be some of another, that no index speaks of.
    const bool is_over = !is_control_open && !(may_data_come && std::ranges::any_of(open, waits));
    std::set<const Trace*> unfinished;
    for (const auto& stream : open) {
        // On a full disk it has not finished.
        if (is_over || stream->stream->should_finish()) (void)stream->stream->finish();
        show(stream);
        if (!stream->stream->is_finished()) unfinished.insert(stream->trace.get());
    }
    if (is_control_open) return unfinished.empty();
    const auto traces = locked([](const SessionState& state) { return state.traces; });
    for (const auto& [path, trace] : traces)
        // Followers take its end for that of all the trace.
        if (trace->metadata != nullptr && !unfinished.contains(trace.get())) trace->metadata->finish();
    return unfinished.empty();
}

void StoredSession::note_disk_wait(Time now) {
    for (const auto& stream : open_streams())
        stream->stream->with_pairs([now](PairingTable& pairs) { pairs.count_ages_from(now); });
}

void StoredSession::end_data(Time now) {
    note_idle_data(true);
    locked([](SessionState& state) {
        state.has_data_connection = false;
        state.has_data_ended = true;
    });
    for (const auto& stream : open_streams()) {
        stream->stream->end_data();
        const auto flushed = stream->stream->flush(now);
        if (!flushed && !is_disk_full(flushed)) log("stream {}: {}", stream->id, flushed.error().message);
        show(stream);
    }
}

// A half waits when too many of its packets wait for the other half already. If both do, each has what the other lacks:
// data of one set of numbers, indexes of another. One of them may just be about to go on, hence the patience.
//
// Indexes alone wait because their data may be on its way. A producer that sends none is not to wait for what will not
// come: once that has been seen, the oldest index makes room for each new one.
Result<void> StoredSession::wait(Half half, Time now) {
    Time none{};
    waits_since_[index_of(half)].compare_exchange_strong(none, now);
    const bool is_data_waiting = waits_since_[index_of(Half::kData)].load() != Time{};
    if (half == Half::kIndexes && !is_data_waiting && is_data_idle_ && ++silent_looks_ == kLooksForData) {
        is_data_silent_ = true;
        log("session {}: no data comes for its indexes: their packets are lost, the oldest first", description_.id);
    }
    const Time data = waits_since_[index_of(Half::kData)];
    const Time indexes = waits_since_[index_of(Half::kIndexes)];
    if (data == Time{} || indexes == Time{} || now - std::max(data, indexes) < kPatienceForBoth) return {};
    return corrupt("the packets of its streams come in one order, and their indexes in another, too far apart");
}

void StoredSession::note_change() {
    ring_for_followers();
    wake_viewers();
}

// The count goes up before anybody is called: a viewer that looks meanwhile sees either the change or a count that
// differs from the one that it has.
void StoredSession::wake_viewers() {
    change_.fetch_add(1);
    const std::lock_guard lock(listeners_mutex_);
    for (const Listener& listener : listeners_) listener();
}

// Words are collected under the session's lock and published without it, because publishing writes a file. Two
// connections that do so at once could publish an older horizon last: followers_mutex_ keeps them in turn.
void StoredSession::ring_for_followers() {
    const std::lock_guard in_turn(followers_mutex_);
    struct Word {
        std::shared_ptr<MetadataStream> metadata;
        std::uint64_t horizon;
    };
    const auto words = locked([](SessionState& state) {
        std::vector<Word> said;
        for (const auto& trace : state.changed_traces) {
            trace->is_changed = false;
            if (trace->metadata != nullptr && !trace->horizons.empty())
                said.push_back({trace->metadata, *trace->horizons.begin()});
        }
        state.changed_traces.clear();
        return said;
    });
    for (const Word& word : words) word.metadata->publish(word.horizon);
}

std::list<StoredSession::Listener>::iterator StoredSession::add_listener(Listener listener) {
    const std::lock_guard lock(listeners_mutex_);
    return listeners_.insert(listeners_.end(), std::move(listener));
}

void StoredSession::remove_listener(std::list<Listener>::iterator listener) {
    const std::lock_guard lock(listeners_mutex_);
    listeners_.erase(listener);
}

void Changes::add(const std::shared_ptr<SessionStream>& stream) {
    if (streams_.empty() || streams_.back() != stream) streams_.push_back(stream);
}

// A stream leaves the list only when it is flushed, or failed for good: a full disk leaves it there for the next call.
Result<bool> Changes::flush(StoredSession& session, Time now) {
    while (!streams_.empty()) {
        const std::shared_ptr<SessionStream>& stream = streams_.back();
        auto flushed = stream->stream->flush(now);
        if (flushed && stream->stream->should_finish()) flushed = stream->stream->finish();
        is_visible_ = session.show(stream) || is_visible_;
        if (!is_disk_full(flushed)) streams_.pop_back();
        if (!flushed) return tl::unexpected(std::move(flushed).error());
    }
    return std::exchange(is_visible_, false);
}

}  // namespace leat::relay
