#include "relay/ingest/producer.hpp"

namespace leat::relay {

std::shared_ptr<SessionStream> find_stream(Producer& producer, std::uint64_t handle) {
    return producer.session->locked([&](const SessionState& state) {
        const auto found = state.by_handle.find(handle);
        return found == state.by_handle.end() ? nullptr : found->second;
    });
}

std::shared_ptr<Trace> find_metadata(Producer& producer, std::uint64_t handle) {
    return producer.session->locked([&](const SessionState& state) {
        const auto found = state.metadata.find(handle);
        return found == state.metadata.end() ? nullptr : found->second;
    });
}

void end_producer(Producer& producer) {
    if (producer.session == nullptr) return;
    producer.relay->remove_session(*producer.session);
    producer.session->locked([](SessionState& state) {
        state.is_control_open = false;
        state.control_end = now();
    });
    for (const auto& stream : producer.session->open_streams()) stream->stream->end_indexes();
    if (!producer.session->finish_streams(now())) {
        const auto hurry = producer.session->locked([](const SessionState& state) { return state.hurry_data; });
        if (hurry) hurry();
    }
    producer.session->note_change();
}

CommandOutcome replied(wire::RelayCode with) { return {.reply = wire::encode(wire::CodeReply{with})}; }

// LTTng's producers take every error for the end, and so does its relay.
CommandOutcome failed(wire::RelayCode with, Error error) {
    return {.reply = wire::encode(wire::CodeReply{with}), .error = std::move(error), .ends_connection = true};
}

CommandOutcome disconnected(Error error) { return {.error = std::move(error), .ends_connection = true}; }

}  // namespace leat::relay
