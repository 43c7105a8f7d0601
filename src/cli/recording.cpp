#include "cli/recording.hpp"

#include <poll.h>
#include <signal.h>

#include <algorithm>

#include "session/trace_description.hpp"

namespace leat::cli {
namespace {

using namespace std::chrono_literals;

constexpr char kChannel[] = "channel0";

// Between two drains that nothing asked for: bounds what a killed recorder takes with it, and how long quiet streams
// say nothing. A live session drains at every event, and its ticks are all that it costs while there are none. Where it
// has had none for a while they are rarer; only viewers who follow a busy session at the same time notice, as they wait
// for our beacons. LTTng's tick is a second.
constexpr auto kTick = 100ms;
constexpr auto kLiveTick = 200ms;
constexpr auto kQuietLiveTick = 400ms;
constexpr auto kQuietAfter = 2s;
// From one drain to the next: events that come faster share a packet, and live readers see them up to this much later.
// 10,000 events a second cost the recorder and its relay about as much CPU time as that many packets: a third of it so.
constexpr auto kShortestPause = 250us;
// What a live session's relay is told; LTTng's viewers use it to guess how often to ask.
constexpr std::uint32_t kLiveTimerUs = std::chrono::microseconds(kLiveTick).count();
// Longer than a busy machine keeps a writer without rseq from its CPU, and short beside a tick.
constexpr std::uint64_t kMarginNs = 20'000'000;
// Places among the descriptors.
constexpr std::size_t kSignals = 0;
constexpr std::size_t kRelay = 1;  // and what follows

// While the program runs nothing is lost yet: the report says at the end what was.
std::string while_running(const Error& error) {
    return error.message + ": events stay in the rings until there is room";
}

consumer::RelaySession relay_session(const session::Session& session, const session::SessionParameters& parameters,
                                     const Destination& destination) {
    return {.name = parameters.name,
            .hostname = session::host_name(),
            .trace_path = fmt::format("ust/uid/{}/64-bit", parameters.uid),
            .channel = kChannel,
            .live_timer_us = destination.is_live ? kLiveTimerUs : 0,
            .tracefile_size = destination.tracefile_size,
            .tracefile_count = destination.tracefile_count,
            .trace_uuid = *session.trace_class().uuid};
}

}  // namespace

Result<std::unique_ptr<Recording>> Recording::create(const session::SessionParameters& parameters,
                                                     const std::filesystem::path& runtime_directory,
                                                     const Destination& destination) {
    session::Session session = LEAT_TRY(session::Session::create(parameters));
    wire::AppSocket socket = LEAT_TRY(wire::AppSocket::listen(runtime_directory));
    return create(std::move(session), std::move(socket), parameters, destination);
}

Result<std::unique_ptr<Recording>> Recording::create(session::Session session, wire::AppSocket socket,
                                                     const session::SessionParameters& parameters,
                                                     const Destination& destination) {
    std::unique_ptr<consumer::Output> output;
    consumer::RelayOutput* relay = nullptr;
    if (destination.relay) {
        const consumer::RelaySession description = relay_session(session, parameters, destination);
        auto connected = LEAT_TRY(consumer::RelayOutput::connect(*destination.relay, description));
        relay = connected.get();
        output = std::move(connected);
    } else {
        output = LEAT_TRY(consumer::TraceDirectory::create(destination.directory, parameters.uid, kChannel));
    }
    // A relay gives room back later than a disk does.
    const std::uint64_t wake_after = destination.is_live ? 0 : parameters.ring_size / (relay != nullptr ? 4 : 2);
    std::unique_ptr<Recording> recording(new Recording(std::move(session), std::move(output), relay, wake_after));
    auto begun = recording->begin(std::move(socket), destination.is_live);
    if (!begun) {
        recording->output_->remove_if_unused();
        return tl::unexpected(std::move(begun).error());
    }
    return recording;
}

Recording::Recording(session::Session session, std::unique_ptr<consumer::Output> output, consumer::RelayOutput* relay,
                     std::uint64_t wake_after)
    : session_(std::move(session)),
      output_(std::move(output)),
      relay_(relay),
      is_live_(wake_after == 0),
      consumer_(session_.rings(), session_.walker(), *output_,
                {.trace_uuid = *session_.trace_class().uuid,
                 .stream_class_id = session::kStreamClassId,
                 .thread_stream_class_id = session::kThreadStreamClassId,
                 .wake_after = wake_after,
                 .clock = &session_.clock().page(),
                 .margin = kMarginNs,
                 .max_packet_size = relay != nullptr ? relay->max_packet_size() : ~std::size_t{0},
                 .before_cut = [this] { return write_metadata(); }}) {}

Result<void> Recording::begin(wire::AppSocket socket, bool is_live) {
    LEAT_TRY(output_->write_metadata(session_.initial_metadata()));
    if (is_live) LEAT_TRY(consumer_.announce_cpu_rings());
    doorbell_ = LEAT_TRY(consumer::DoorbellWaiter::start(session_.rings().doorbell()));
    registrar_ = LEAT_TRY(Registrar::start(session_, std::move(socket)));
    return {};
}

Result<int> Recording::run(const std::vector<std::string>& command,
                           const std::vector<ChildProcess::Variable>& variables) {
    ChildProcess child = LEAT_TRY(ChildProcess::start(command, variables));
    std::optional<int> exit_status;
    while (!exit_status) {
        const Woken woken = wait();
        if (woken.by_signal) handle_signals(child);
        if (woken.by_relay) run_relay();
        drain_if_due();
        if (relay_ != nullptr) relay_->flush();
        if (woken.by_signal) exit_status = child.poll_exit_status();
    }
    finish();
    return *exit_status;
}

std::vector<pollfd> Recording::wanted() const {
    std::vector<pollfd> wanted{{signals_.fd(), POLLIN, 0}};
    if (relay_ == nullptr) return wanted;
    for (pollfd of_relay : relay_->wanted()) {
        // Its answers can wait for a drain that is due: each would wake us once more.
        if (is_drain_due_) of_relay.events &= ~POLLIN;
        wanted.push_back(of_relay);
    }
    return wanted;
}

Recording::Clock::time_point Recording::deadline() const {
    Clock::time_point deadline = next_tick_;
    if (is_drain_due_) deadline = std::min(deadline, last_drain_ + kShortestPause);
    if (relay_ != nullptr) deadline = std::min(deadline, relay_->deadline());
    return deadline;
}

Recording::Clock::duration Recording::tick(Clock::time_point now) const {
    if (!is_live_) return kTick;
    return now - last_events_ < kQuietAfter ? kLiveTick : kQuietLiveTick;
}

// Until there is something to do, or it is time for a tick.
Recording::Woken Recording::wait() {
    std::vector<pollfd> fds = wanted();
    const auto left = std::max<Clock::duration>(deadline() - Clock::now(), 0ns);
    if (doorbell_->wait(fds, left)) is_drain_due_ = true;
    const auto now = Clock::now();
    if (now >= next_tick_) {
        next_tick_ = now + tick(now);
        session_.clock().discipline(consumer_.newest());
        is_drain_due_ = true;
    }
    const auto is_ready = [](const pollfd& fd) { return fd.revents != 0; };
    const auto of_relay = fds.begin() + static_cast<std::ptrdiff_t>(kRelay);
    const bool is_relay_due = relay_ != nullptr && now >= relay_->deadline();
    return {.by_signal = fds[kSignals].revents != 0,
            .by_relay = is_relay_due || std::any_of(of_relay, fds.end(), is_ready)};
}

// What a terminal sends, it sends to the program as well; what somebody sends to us alone, we pass on.
void Recording::handle_signals(const ChildProcess& child) {
    while (const auto signal = signals_.next()) {
        const bool is_from_terminal = signal->ssi_code == SI_KERNEL;
        if (signal->ssi_signo != SIGCHLD && !is_from_terminal) child.send(static_cast<int>(signal->ssi_signo));
    }
}

// Metadata before data: called between looking at the rings and cutting packets. What could not be written stays in
// front of what comes later, and no packet leaves before it.
Result<void> Recording::write_metadata() {
    unwritten_metadata_ += session_.describe(registrar_->take_event_classes());
    if (consumer_.has_thread_streams()) unwritten_metadata_ += session_.describe_thread_streams();
    for (const std::string& warning : registrar_->take_warnings()) warn(warning);
    if (unwritten_metadata_.empty()) return {};
    LEAT_TRY(output_->write_metadata(unwritten_metadata_));
    unwritten_metadata_.clear();
    return {};
}

void Recording::run_relay() {
    if (relay_ == nullptr) return;
    if (relay_->run()) is_drain_due_ = true;
    for (const std::string& warning : relay_->take_warnings()) warn(warning);
}

void Recording::drain_if_due() {
    if (!is_drain_due_ || Clock::now() < last_drain_ + kShortestPause) return;
    // What the relay has stored gives the rings room back. If it has stored everything, events need not wait for that.
    if (relay_ != nullptr && !relay_->is_delivered()) run_relay();
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
    // What is cut at once is what was there at the end; what a relay's slowness kept from being cut follows.
    deliver();
    while (!output_error_ && consumer_.is_blocked()) {
        drain();
        deliver();
    }
    const auto finished = consumer_.finish();
    if (!finished) output_error_ = finished.error();
    deliver();
    if (relay_ != nullptr && !output_error_) relay_->close();
}

void Recording::deliver() {
    if (relay_ == nullptr || output_error_) return;
    const auto delivered = relay_->deliver();
    if (!delivered) output_error_ = delivered.error();
    for (const std::string& warning : relay_->take_warnings()) warn(warning);
}

void Recording::warn(const std::string& warning) {
    if (std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end()) warnings_.push_back(warning);
}

}  // namespace leat::cli
