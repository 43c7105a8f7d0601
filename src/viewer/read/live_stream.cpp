#include "viewer/read/live_stream.hpp"

#include <algorithm>
#include <utility>

namespace leat::viewer {

Result<void> LiveStream::feed(std::shared_ptr<TraceModel> model, std::vector<std::byte> packet, std::uint64_t offset,
                              const IsWanted& is_wanted) {
    // An event that is offered lies in the packet.
    if (!is_hungry()) return corrupt("{}: a packet comes before the one before it is read", stream_.name);
    // The reader compares addresses to see whether class and plan are still the same. So the old model must live until
    // the new one is in its place.
    const std::shared_ptr<TraceModel> before = std::exchange(model_, std::move(model));
    packet_ = std::move(packet);
    auto started = start(offset, is_wanted);
    if (!started) {
        end();
        return wrap(stream_.name, std::move(started).error());
    }
    if (*started) return advance();
    packet_ = {};
    return {};
}

Result<bool> LiveStream::start(std::uint64_t offset, const IsWanted& is_wanted) {
    const ctf::PacketProperties properties = LEAT_TRY(reader_.read_head(model_->plans, packet_, offset));
    const bool is_late = reader_.is_behind(properties);
    if (is_wanted && !is_wanted(reader_.stream_class_id(), properties)) {
        if (!is_late) reader_.pass_over(properties);
        return false;
    }
    if (is_late) reader_.note_late_packet();
    LEAT_TRY(reader_.begin(*model_->trace_class, properties, packet_, offset));
    stream_.class_id = reader_.stream_class_id();
    stream_.instance_id = properties.stream_instance_id;
    return true;
}

void LiveStream::quiet_until(std::int64_t time_ns) { horizon_ns_ = std::max(horizon_ns_, time_ns); }

Result<void> LiveStream::advance() {
    auto is_message = reader_.next();
    has_message_ = is_message && *is_message;
    if (!is_message) {
        end();
        return wrap(stream_.name, std::move(is_message).error());
    }
    if (has_message_) {
        quiet_until(message().time_ns.value_or(horizon_ns_));
    } else {
        packet_ = {};
    }
    return {};
}

}  // namespace leat::viewer
