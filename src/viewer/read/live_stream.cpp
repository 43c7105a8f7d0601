#include "viewer/read/live_stream.hpp"

#include <algorithm>
#include <utility>

namespace leat::viewer {

Result<void> LiveStream::feed(std::shared_ptr<TraceModel> model, std::vector<std::byte> packet, std::uint64_t offset) {
    // The reader compares addresses to see whether class and plan are still the same. So the old model must live until
    // the new one is in its place.
    const std::shared_ptr<TraceModel> before = std::exchange(model_, std::move(model));
    packet_ = std::move(packet);
    auto started = start(offset);
    if (!started) {
        end();
        return wrap(stream_.name, std::move(started).error());
    }
    return advance();
}

Result<void> LiveStream::start(std::uint64_t offset) {
    const ctf::DecodePlan* const plan = LEAT_TRY(model_->plans.plan_for(packet_));
    LEAT_TRY(reader_.start(*model_->trace_class, *plan, packet_, offset));
    stream_.class_id = plan->stream_class->id;
    stream_.instance_id = reader_.properties().stream_instance_id;
    return {};
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
