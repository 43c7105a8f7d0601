#include "host/recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "host/kept_trace.hpp"

namespace leat::host {

namespace {

using namespace std::chrono_literals;

// Children that were being made when their parents were switched off, and that have what these had, are there by then.
constexpr auto kSwitchOffAgain = 200ms;
constexpr int kSwitchOffs = 5;

// The program that is about to be started finds the beginning of its rings there.
std::uint64_t touched_at_first(const session::Trace& trace) {
    constexpr std::uint64_t kOfRing = 1U << 20;
    constexpr std::uint64_t kOfAll = 8U << 20;  // of very many, each gets what it always gets
    std::uint64_t rings = 0;
    for (const auto& channel : trace.channels()) rings += channel->rings().geometry().cpu_rings;
    return std::clamp(kOfAll / std::max<std::uint64_t>(rings, 1), consumer::Consumer::kTouchedAtFirst, kOfRing);
}

}  // namespace

Recorder::Recorder(session::Session::Parameters parameters, const Destination& destination,
                   const session::Limits& limits)
    : session_(std::move(parameters)),
      limits_(limits),
      size_limit_(limits.max_size != 0 ? limits.max_size : consumer::SizeLimit::kNone),
      flight_recorder_(destination, session_.name()) {
    session_.set_active(true);
}

// What failed before anything was recorded leaves nothing.
Recorder::~Recorder() {
    if (recording_ == nullptr) remove_files();
}

Result<session::Trace*> Recorder::make_trace() { return session_.trace_for({}); }

// Before any program has its rings.
Result<void> Recorder::complete(session::Trace& trace, const Destination& destination) {
    if (trace.files() == nullptr) return {};
    progress_.emplace(LEAT_TRY(consumer::Progress::create(trace.ring_counts(), trace.place())));
    return describe_memory(trace, destination);
}

// The trace is of everybody: there is one.
void Recorder::remove_files() {
    for (const auto& [key, trace] : session_.traces())
        if (trace->files() != nullptr) trace->files()->remove();
}

Result<std::unique_ptr<Recorder>> Recorder::create(session::Session::Parameters parameters,
                                                   const std::filesystem::path& runtime_directory,
                                                   const Destination& destination, const session::Limits& limits) {
    std::unique_ptr<Recorder> recorder(new Recorder(std::move(parameters), destination, limits));
    session::Trace* const trace = LEAT_TRY(recorder->make_trace());
    wire::AppSocket socket = LEAT_TRY(wire::AppSocket::listen(runtime_directory));
    if (destination.has_directory() || trace->is_for_snapshots()) LEAT_TRY(prepare(destination));
    LEAT_TRY(recorder->complete(*trace, destination));
    Recording::Parameters of_recording = recording_parameters(destination);
    of_recording.touched_at_first = touched_at_first(*trace);
    if (recorder->progress_) of_recording.progress = &*recorder->progress_;
    if (trace->is_for_snapshots()) {
        auto recording = LEAT_TRY(Recording::create_for_snapshots(*trace, of_recording));
        LEAT_TRY(recorder->begin(std::move(socket), std::move(recording)));
        return recorder;
    }
    if (limits.max_size != 0) of_recording.limit = &recorder->size_limit_;
    auto output = LEAT_TRY(open_output_that_is_there(*trace, recorder->session_.name(), destination));
    auto recording = LEAT_TRY(Recording::create(*trace, std::move(output), of_recording));
    LEAT_TRY(recorder->begin(std::move(socket), std::move(recording)));
    return recorder;
}

Result<std::unique_ptr<Recorder>> Recorder::create(session::Session::Parameters parameters,
                                                   const std::filesystem::path& runtime_directory,
                                                   std::unique_ptr<consumer::Output> output,
                                                   const Recording::Parameters& recording) {
    std::unique_ptr<Recorder> recorder(new Recorder(std::move(parameters), {}, {}));
    session::Trace* const trace = LEAT_TRY(recorder->make_trace());
    wire::AppSocket socket = LEAT_TRY(wire::AppSocket::listen(runtime_directory));
    auto made = LEAT_TRY(Recording::create(*trace, std::move(output), recording));
    LEAT_TRY(recorder->begin(std::move(socket), std::move(made)));
    return recorder;
}

Result<void> Recorder::begin(wire::AppSocket socket, std::unique_ptr<Recording> recording) {
    auto engine = Engine::create();
    if (!engine) {
        recording->abandon();
        return tl::unexpected(std::move(engine).error());
    }
    engine_ = *std::move(engine);
    recording_ = &engine_->add(std::move(recording));
    auto registrar = Registrar::start(session_, std::move(socket));
    if (!registrar) {
        abandon();
        return tl::unexpected(std::move(registrar).error());
    }
    registrar_ = *std::move(registrar);
    if (limits_.duration_us != 0) stops_at_ = Engine::Clock::now() + std::chrono::microseconds(limits_.duration_us);
    return {};
}

void Recorder::abandon() {
    recording_->abandon();
    if (recording_->is_for_snapshots()) flight_recorder_.remove_if_unused();
    remove_files();
}

Result<StoredSnapshot> Recorder::take_snapshot() {
    return flight_recorder_.take(std::array{recording_}, {.max_size = limits_.max_size});
}

void Recorder::turn(std::span<pollfd> own, Engine::Clock::duration longest) {
    const auto until = std::min(stops_at_, next_switch_off_) - Engine::Clock::now();
    engine_->turn(own,
                  std::clamp(std::min(until, flight_recorder_.until_due()), Engine::Clock::duration::zero(), longest));
    recording_->warn_all(registrar_->take_warnings());
    keep_limits();
    flight_recorder_.notice(std::array{recording_});
    if (flight_recorder_.is_due()) made_.push_back(take_snapshot());
}

void Recorder::keep_limits() {
    const auto now = Engine::Clock::now();
    if (stopped_by_ == session::StoppedBy::kNobody) {
        if (size_limit_.is_reached()) return stop(session::StoppedBy::kMaxSize);
        if (now >= stops_at_) stop(session::StoppedBy::kDuration);
        return;
    }
    // What was written before is stored.
    if (!is_leaving_out_ && registrar_->is_switched_off()) {
        is_leaving_out_ = true;
        recording_->leave_out_rest();
    }
    if (now < next_switch_off_) return;
    next_switch_off_ = --switch_offs_left_ != 0 ? now + kSwitchOffAgain : Engine::Clock::time_point::max();
    registrar_->switch_off();
}

void Recorder::stop(session::StoppedBy by) {
    stopped_by_ = by;
    stops_at_ = Engine::Clock::time_point::max();
    registrar_->switch_off();
    switch_offs_left_ = kSwitchOffs;
    next_switch_off_ = Engine::Clock::now() + kSwitchOffAgain / 20;
}

void Recorder::finish() {
    registrar_->stop();
    engine_->finish(*recording_);
    recording_->warn_all(registrar_->take_warnings());
    not_attached_ = registrar_->not_attached();
}

}  // namespace leat::host
