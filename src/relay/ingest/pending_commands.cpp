#include "relay/ingest/pending_commands.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

namespace leat::relay {

using wire::RelayCode;

namespace {

bool is_sync_strict(const Producer& producer) {
    const DiskSync* const sync = producer.relay->sync();
    return sync != nullptr && sync->is_strict();
}

bool is_open(const Unsynced& one) { return one.file.is_open(); }

// Packets are nothing without their metadata.
std::vector<Unsynced> take_unsynced(Producer& producer, const SessionStream& stream) {
    std::vector<Unsynced> unsynced = stream.stream->take_unsynced();
    const auto metadata = producer.session->locked([&](const SessionState&) { return stream.trace->metadata; });
    if (metadata != nullptr) std::ranges::move(metadata->take_unsynced(), std::back_inserter(unsynced));
    return unsynced;
}

}  // namespace

CommandOutcome begin_data_pending(Producer& producer, const wire::IdRequest& /*message*/) {
    producer.session->locked([](SessionState& state) {
        for (auto& [handle, stream] : state.by_handle) stream->is_checked = false;
    });
    return replied(RelayCode::kOk);
}

// "Stored" is a promise: index and data are on disk by then, so that even a kill loses nothing.
CommandOutcome data_pending(Producer& producer, const wire::DataPending& message) {
    const auto stream = find_stream(producer, message.stream_id);
    if (stream == nullptr) return {.reply = wire::encode(wire::CodeReply{RelayCode::kUnknownStream})};
    producer.session->locked([&](SessionState&) { stream->is_checked = true; });
    producer.changes.add(stream);
    const auto flushed = stream->stream->flush(now());
    if (!flushed && !is_disk_full(flushed)) return failed(RelayCode::kUnknownError, flushed.error());
    // The producer goes on with a new part, and sends them again.
    if (const std::uint64_t missing = stream->stream->missing_packets(); missing != 0)
        return failed(RelayCode::kUnknownError,
                      {ErrorKind::kIo, fmt::format("DATA_PENDING: the data of {} packets of stream {} has not come",
                                                   missing, stream->id)});
    const bool is_stored = stream->stream->has_stored(message.last_net_seq_num);
    if (!is_stored || !is_sync_strict(producer))
        return replied(is_stored ? RelayCode::kNotPending : RelayCode::kPending);
    std::vector<Unsynced> unsynced = take_unsynced(producer, *stream);
    // It asks again, when there may be descriptors.
    const bool are_all = std::erase_if(unsynced, std::not_fn(is_open)) == 0;
    CommandOutcome outcome = replied(are_all ? RelayCode::kNotPending : RelayCode::kPending);
    outcome.to_sync = std::move(unsynced);
    return outcome;
}

CommandOutcome quiescent_control(Producer& producer, const wire::IdRequest& message) {
    // Metadata is stored by the time that this command is read.
    CommandOutcome outcome = replied(RelayCode::kOk);
    const auto trace = find_metadata(producer, message.id);
    if (trace != nullptr && is_sync_strict(producer)) outcome.to_sync = trace->metadata->take_unsynced();
    if (!std::ranges::all_of(outcome.to_sync, is_open))
        return {.error = Error{ErrorKind::kDiskFull, "there is no descriptor to bring metadata to disk with"}};
    return outcome;
}

CommandOutcome end_data_pending(Producer& producer, const wire::IdRequest& /*message*/) {
    for (const auto& stream : producer.session->open_streams()) {
        const bool is_checked = producer.session->locked([&](const SessionState&) { return stream->is_checked; });
        if (!is_checked && stream->stream->waits_for_data()) return replied(RelayCode::kPending);
    }
    return replied(RelayCode::kNotPending);
}

}  // namespace leat::relay
