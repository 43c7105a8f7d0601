#include "relay/ingest/pending_commands.hpp"

#include <fcntl.h>

namespace leat::relay {

using wire::RelayCode;

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
    CommandOutcome outcome{.reply =
                               wire::encode(wire::CodeReply{is_stored ? RelayCode::kNotPending : RelayCode::kPending})};
    const DiskSync* const sync = producer.relay->sync();
    if (is_stored && sync != nullptr && sync->is_strict()) outcome.to_sync = stream->stream->duplicate_files();
    // It asks again, when there may be descriptors.
    if (!std::ranges::all_of(outcome.to_sync, &UniqueFd::is_open)) return replied(RelayCode::kPending);
    return outcome;
}

CommandOutcome quiescent_control(Producer& producer, const wire::IdRequest& message) {
    // Metadata is stored by the time that this command is read.
    CommandOutcome outcome = replied(RelayCode::kOk);
    const auto trace = find_metadata(producer, message.id);
    const DiskSync* const sync = producer.relay->sync();
    if (trace == nullptr || sync == nullptr || !sync->is_strict()) return outcome;
    if (const auto text = trace->metadata->text())
        outcome.to_sync.emplace_back(::fcntl(text->file->get(), F_DUPFD_CLOEXEC, 0));
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
