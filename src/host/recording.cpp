#include "host/recording.hpp"

#include <algorithm>

#include "session/trace_description.hpp"

namespace leat::host {
namespace {

using namespace std::chrono_literals;

// The time between drains that nothing asked for. It bounds what is lost when the recorder is killed, and how long
// quiet streams say nothing. A live session drains at every event; while there are none, its ticks are all that it
// costs. If there have been none for a while, it ticks less often. Only viewers who follow a busy session at the same
// time notice, because they wait for our beacons. LTTng's tick is a second.
constexpr auto kTick = 100ms;
constexpr auto kQuietLiveTick = 400ms;
constexpr auto kQuietAfter = 2s;
// The shortest time from one drain to the next. Events that come faster share a packet, and live readers see them up to
// this much later. The CPU time of the recorder and its relay grows with the number of packets: at 10,000 events a
// second, this pause leaves a third of it.
constexpr auto kShortestPause = 250us;
// Longer than a busy machine keeps a writer without rseq from its CPU, and short beside a tick.
constexpr std::uint64_t kMarginNs = 20'000'000;

// While the program runs, nothing is lost yet. The report says at the end what was.
std::string while_running(const Error& error) {
    return error.message + ": events stay in the rings until there is room";
}

}  // namespace

Result<std::unique_ptr<Recording>> Recording::create(session::Session session, std::unique_ptr<consumer::Output> output,
                                                     wire::AppSocket socket, const Parameters& parameters) {
    std::unique_ptr<Recording> recording(new Recording(std::move(session), std::move(output), parameters));
    auto begun = recording->begin(std::move(socket));
    if (!begun) {
        recording->abandon();
        return tl::unexpected(std::move(begun).error());
    }
    return recording;
}

Recording::Recording(session::Session session, std::unique_ptr<consumer::Output> output, const Parameters& parameters)
    : session_(std::move(session)),
      output_(std::move(output)),
      is_live_(parameters.is_live),
      consumer_(session_.rings(), session_.walker(), *output_,
                {.trace_uuid = *session_.trace_class().uuid,
                 .stream_class_id = session::kStreamClassId,
                 .thread_stream_class_id = session::kThreadStreamClassId,
                 .wake_after = is_live_ ? 0 : parameters.wake_after,
                 .clock = &session_.clock().page(),
                 .margin = kMarginNs,
                 .max_packet_size = output_->max_packet_size(),
                 .before_cut = [this] { return write_metadata(); }}) {}

Result<void> Recording::begin(wire::AppSocket socket) {
    LEAT_TRY(output_->write_metadata(session_.initial_metadata()));
    if (is_live_) LEAT_TRY(consumer_.announce_cpu_rings());
    registrar_ = LEAT_TRY(Registrar::start(session_, std::move(socket)));
    return {};
}

std::vector<pollfd> Recording::wanted() const {
    std::vector<pollfd> wanted = output_->wanted();
    // A relay's answers can wait until a drain that is due: each of them would wake us once more.
    if (is_drain_due_)
        for (pollfd& fd : wanted) fd.events &= ~POLLIN;
    return wanted;
}

Recording::Clock::time_point Recording::deadline() const {
    const Clock::time_point deadline = std::min(next_tick_, output_->deadline());
    return is_drain_due_ ? std::min(deadline, last_drain_ + kShortestPause) : deadline;
}

Recording::Clock::duration Recording::tick(Clock::time_point now) const {
    if (!is_live_) return kTick;
    return now - last_events_ < kQuietAfter ? kLiveTick : kQuietLiveTick;
}

void Recording::turn(bool has_rung, std::span<const pollfd> fds) {
    const auto now = Clock::now();
    if (has_rung) is_drain_due_ = true;
    if (now >= next_tick_) {
        next_tick_ = now + tick(now);
        session_.clock().discipline(consumer_.newest());
        is_drain_due_ = true;
    }
    const bool is_ready = std::ranges::any_of(fds, [](const pollfd& fd) { return fd.revents != 0; });
    if (is_ready || now >= output_->deadline()) run_output();
    drain_if_due();
    output_->flush();
}

// Metadata before data: the consumer calls this after it has looked at the rings and before it cuts packets. Metadata
// that could not be written is kept and written before any that comes later, and no packet leaves before it.
Result<void> Recording::write_metadata() {
    unwritten_metadata_ += session_.describe(registrar_->take_event_classes());
    if (consumer_.has_thread_streams()) unwritten_metadata_ += session_.describe_thread_streams();
    warn_all(registrar_->take_warnings());
    if (unwritten_metadata_.empty()) return {};
    LEAT_TRY(output_->write_metadata(unwritten_metadata_));
    unwritten_metadata_.clear();
    return {};
}

void Recording::run_output() {
    if (output_->run()) is_drain_due_ = true;
    warn_all(output_->take_warnings());
}

void Recording::drain_if_due() {
    if (!is_drain_due_ || Clock::now() < last_drain_ + kShortestPause) return;
    // What the output has stored gives the rings room back. If it has stored everything, events need not wait for that.
    if (!output_->is_delivered()) run_output();
    drain();
}

void Recording::drain() {
    last_drain_ = Clock::now();
    const std::uint64_t events = consumer_.totals().events;
    const auto drained = consumer_.drain();
    if (consumer_.totals().events != events) last_events_ = last_drain_;
    is_drain_due_ = consumer_.wants_drain();
    if (!drained) warn(while_running(drained.error()));
    output_error_ = drained ? std::nullopt : std::optional(drained.error());
    for (const std::string& quarantined : consumer_.quarantined())
        warn(fmt::format("{}: a traced program overwrote it; the rest of it is lost", quarantined));
}

void Recording::finish() {
    registrar_->stop();
    drain();
    // This drain cuts what it can. What a slow relay kept from being cut follows.
    deliver();
    while (!output_error_ && consumer_.is_blocked()) {
        drain();
        deliver();
    }
    const auto finished = consumer_.finish();
    if (!finished) output_error_ = finished.error();
    deliver();
    if (!output_error_) output_->close();
}

void Recording::deliver() {
    if (output_error_) return;
    const auto delivered = output_->deliver();
    if (!delivered) output_error_ = delivered.error();
    warn_all(output_->take_warnings());
}

void Recording::warn(const std::string& warning) {
    if (std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end()) warnings_.push_back(warning);
}

void Recording::warn_all(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) warn(warning);
}

}  // namespace leat::host
