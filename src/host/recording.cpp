#include "host/recording.hpp"

#include <algorithm>
#include <utility>

namespace leat::host {
namespace {

using namespace std::chrono_literals;

// The time between drains that nothing asked for. It bounds what is lost when the recorder is killed, and how long
// quiet streams say nothing. A live session drains at every event; while there are none, its ticks are all that it
// costs. If there have been none for a while, it ticks less often. Only viewers who follow a busy session at the same
// time notice, because they wait for our beacons. LTTng's tick is a second.
constexpr auto kPeriod = 100ms;
constexpr auto kQuietLivePeriod = 400ms;
// While others are quiet, the next record rings, and nothing waits for a drain. But a writer may be killed before it
// rings. The same holds where a channel asks for a shorter period.
constexpr auto kQuietPeriod = 1s;
// The clock is looked at, and programs see that we live, at least so often.
constexpr auto kLongestTick = 1s;
// Longer than a busy machine keeps a writer without rseq from its CPU, and short beside a tick.
constexpr std::uint64_t kMarginNs = 20'000'000;

// While the program runs, nothing is lost yet. The report says at the end what was.
std::string while_running(const Error& error) {
    return error.message + ": events stay in the rings until there is room";
}

std::string missing(std::uint64_t events) {
    return fmt::format("{} events are missing: their files were removed while they were recorded", events);
}

// Of what programs did not write themselves.
template <class DiscardedFor>
std::uint64_t sum_of_reasons(DiscardedFor discarded_for) {
    std::uint64_t sum = 0;
    for (std::uint32_t reason = 0; reason < ring::kDiscardReasons; ++reason)
        sum += discarded_for(static_cast<ring::DiscardReason>(reason));
    return sum;
}

// A relay's answers may lie unread for so long, as long as no ring is fuller than that.
constexpr auto kAnswersMayLie = 20ms;
constexpr double kHalfFull = 0.5;

// A packet is never split over two files. At a relay it keeps its part of the ring until it is stored, and writers need
// the rest meanwhile; but each packet costs an index entry, wake-ups, and more, so it may be large where much waits.
std::size_t max_packet_size(const session::TraceChannel& channel, const consumer::Output& output) {
    constexpr std::uint64_t kPartsOfRing = 8;
    constexpr std::uint64_t kAtLeast = 256U << 10;
    constexpr std::size_t kAnySize = consumer::Output::kAnySize;
    const std::uint64_t ring_size = channel.rings().geometry().ring_size;
    const std::size_t of_ring =
        output.max_packet_size() == kAnySize ? kAnySize : std::max(ring_size / kPartsOfRing, kAtLeast);
    return channel.files().size == 0 ? of_ring : std::min<std::size_t>(of_ring, channel.files().size);
}

std::uint64_t wake_after(const session::TraceChannel& channel, const Recording::Parameters& parameters) {
    const bool is_awaited = parameters.is_live || channel.is_trigger();
    return is_awaited ? 0 : channel.rings().geometry().ring_size / parameters.wake_at_part;
}

std::vector<consumer::Consumer::Source> sources_of(const session::Trace& trace, const consumer::Output& output,
                                                   const Recording::Parameters& parameters) {
    std::vector<consumer::Consumer::Source> sources;
    for (const auto& channel : trace.channels())
        sources.push_back({.rings = &channel->rings(),
                           .walker = &channel->walker(),
                           .stream_class_id = channel->stream_class_id(),
                           .thread_stream_class_id = channel->thread_stream_class_id(),
                           .wake_after = wake_after(*channel, parameters),
                           .max_packet_size = max_packet_size(*channel, output)});
    return sources;
}

// Until there is something for the output to do.
void wait_for(const consumer::Output& output) {
    std::vector<pollfd> fds = output.wanted();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(output.deadline() - Recording::Clock::now());
    (void)::poll(fds.data(), fds.size(), static_cast<int>(std::clamp(left, 0ms, 100ms).count()));
}

// Waits until the output has stored all that it was given, as long as that goes forward.
Result<void> deliver(consumer::Output& output, Recording::Clock::duration patience) {
    std::uint64_t taken = output.taken();
    auto since = Recording::Clock::now();
    for (output.flush(); !output.is_delivered(); output.flush()) {
        wait_for(output);
        (void)output.run();
        if (std::exchange(taken, output.taken()) != output.taken()) since = Recording::Clock::now();
        if (output.is_broken() || Recording::Clock::now() - since >= patience) return output.check_delivered();
    }
    return {};
}

// The channels of a trace are drained together.
std::chrono::microseconds shortest_period(const session::Trace& trace) {
    std::chrono::microseconds shortest = std::chrono::microseconds::max();
    for (const auto& channel : trace.channels())
        shortest = std::min<std::chrono::microseconds>(
            shortest,
            channel->drain_period_us() != 0 ? std::chrono::microseconds(channel->drain_period_us()) : kPeriod);
    return shortest;
}

// One channel that is awaited makes the others hurry, because they are drained together.
DrainPace::Duration longest_pause(const session::Trace& trace, const Recording::Parameters& parameters) {
    const bool is_awaited = std::ranges::any_of(
        trace.channels(), [&](const auto& channel) { return wake_after(*channel, parameters) == 0; });
    return is_awaited || parameters.is_copied ? DrainPace::kShortest : shortest_period(trace);
}

}  // namespace

Result<std::unique_ptr<Recording>> Recording::create(session::Trace& trace, std::unique_ptr<consumer::Output> output,
                                                     const Parameters& parameters) {
    return begin(std::unique_ptr<Recording>(new Recording(trace, std::move(output), parameters)));
}

Result<std::unique_ptr<Recording>> Recording::create_for_snapshots(session::Trace& trace,
                                                                   const Parameters& parameters) {
    auto output = std::make_unique<output::KeptMetadata>(parameters.before_wish);
    const output::KeptMetadata* const metadata = output.get();
    std::unique_ptr<Recording> recording(new Recording(trace, std::move(output), parameters));
    recording->for_snapshots_ = {
        .rings = {sources_of(trace, *recording->output_, parameters), trace.uuid(), parameters.progress},
        .metadata = metadata};
    return begin(std::move(recording));
}

// As the rings say: nobody has described the records yet, by which they could be walked.
std::uint64_t Recording::count_unrecorded(const session::Trace& trace, const consumer::Progress* progress) {
    std::uint64_t count = 0;
    for (std::uint32_t number = 0; number < trace.channels().size(); ++number) {
        const ring::RingSet& rings = trace.channels()[number]->rings();
        const std::uint32_t in_use = rings.geometry().cpu_rings + rings.thread_rings_used();
        const std::uint64_t most = rings.geometry().ring_size / ring::kMinRecordSize;
        for (std::uint32_t ring = 0; ring < in_use; ++ring) {
            const auto known = progress != nullptr ? progress->find({number, ring}) : std::nullopt;
            count += std::min(rings.records_in_file(ring) - (known ? known->record_count : 0), most);
        }
    }
    return count;
}

Result<std::unique_ptr<Recording>> Recording::begin(std::unique_ptr<Recording> recording) {
    auto begun = recording->begin();
    if (!begun) {
        recording->abandon();
        return tl::unexpected(std::move(begun).error());
    }
    return recording;
}

Recording::Recording(session::Trace& trace, std::unique_ptr<consumer::Output> output, const Parameters& parameters)
    : trace_(trace),
      output_(std::move(output)),
      is_live_(parameters.is_live),
      longest_(shortest_period(trace)),
      pace_(longest_pause(trace, parameters)),
      patience_(parameters.patience),
      consumer_(sources_of(trace, *output_, parameters), *output_,
                {.trace_uuid = trace.uuid(),
                 .clock = &trace.clock().page(),
                 .margin = kMarginNs,
                 .max_packet_size = output_->max_packet_size(),
                 .before_cut = [this] { return write_metadata(); },
                 .progress = parameters.progress,
                 .limit = parameters.limit,
                 .touched_at_first = parameters.touched_at_first}) {}

Result<void> Recording::begin() {
    Journal* const kept = trace_.metadata();
    if (kept != nullptr && !kept->empty()) {
        LEAT_TRY(output_->restore_metadata(LEAT_TRY(kept->read())));
    } else {
        const std::string metadata = trace_.initial_metadata();
        LEAT_TRY(keep(metadata));
        LEAT_TRY(output_->write_metadata(metadata));
    }
    return is_live_ ? consumer_.announce_cpu_rings() : Result<void>();
}

std::vector<std::uint32_t*> Recording::doorbells() const {
    std::vector<std::uint32_t*> bells;
    for (const auto& channel : trace_.channels()) bells.push_back(&channel->rings().doorbell());
    return bells;
}

std::vector<pollfd> Recording::wanted() const {
    std::vector<pollfd> wanted = output_->wanted();
    if (answers_can_wait())
        for (pollfd& fd : wanted) fd.events &= ~POLLIN;
    return wanted;
}

// Until the next drain, which reads them, if it is due soon: each of them would wake us once more.
bool Recording::answers_can_wait() const {
    return is_drain_due_ && state_ == State::kRunning && pause() <= kAnswersMayLie && !consumer_.awaits_output() &&
           consumer_.fullest() < kHalfFull && !output_->is_delivered();
}

Recording::Clock::time_point Recording::deadline() const {
    const Clock::time_point deadline = std::min({next_tick_, next_drain_, output_->deadline()});
    const bool is_next = is_drain_due_ && state_ == State::kRunning;
    return is_next ? std::min(deadline, last_drain_ + pause()) : deadline;
}

// After an error, the period is shorter than a channel may ask for.
Recording::Clock::duration Recording::pause() const {
    return std::max<Clock::duration>(std::min(pace_.pause(), drain_period()), DrainPace::kShortest);
}

bool Recording::is_resting() const { return may_rest_ && longest_ < kQuietPeriod && !is_live_; }

Recording::Clock::duration Recording::drain_period() const {
    if (is_live_) return is_quiet() ? kQuietLivePeriod : kLiveTick;
    if (output_error_) return std::min<Clock::duration>(longest_, kPeriod);
    return is_resting() ? kQuietPeriod : longest_;
}

// Those that wait for the others' bells must not wait for the end of a rest.
void Recording::rest(bool is_wanted) {
    if (std::exchange(may_rest_, is_wanted) == is_wanted) return;
    consumer_.wake_at_first_record(is_resting());
    const auto now = Clock::now();
    next_drain_ = std::min(next_drain_, now + drain_period());
    next_tick_ = std::min(next_tick_, next_drain_);
}

void Recording::turn(bool has_rung, std::span<const pollfd> fds) {
    const auto now = Clock::now();
    if (has_rung) {
        is_drain_due_ = true;
        pace_.hurry();
    }
    const bool is_tick = now >= next_tick_;
    if (is_tick) {
        next_tick_ = now + std::clamp<Clock::duration>(drain_period(), kPeriod, kLongestTick);
        trace_.clock().discipline(consumer_.newest());
        consumer_.show_life();
        if (for_snapshots_) for_snapshots_->rings.touch_used();
    }
    if (now >= next_drain_) {
        next_drain_ = now + drain_period();
        is_drain_due_ = true;
    }
    const bool is_ready = std::ranges::any_of(fds, [](const pollfd& fd) { return fd.revents != 0; });
    // The end awaits all answers, and some of them are not polled for. And people are told for how long none has come.
    const bool may_be_answered = is_tick && (state_ != State::kRunning || !output_->is_delivered());
    if (is_ready || now >= output_->deadline() || may_be_answered) run_output();
    if (state_ == State::kRunning) drain_if_due();
    // Many packets at once, and not one for each that is stored.
    if (state_ == State::kDraining && is_drain_due_ && consumer_.release_stored())
        drain_by(&consumer::Consumer::drain_rest);
    step_to_end();
    output_->flush();
}

// Before it is written: who goes on with the trace writes the same.
Result<void> Recording::keep(std::string_view metadata) {
    Journal* const journal = trace_.metadata();
    return journal == nullptr || metadata.empty() ? Result<void>() : journal->append(metadata);
}

// Metadata before data: the consumer calls this after it has looked at the rings and before it cuts packets. Metadata
// that could not be written is kept and written before any that comes later, and no packet leaves before it.
Result<void> Recording::write_metadata() {
    std::string described = std::exchange(unkept_metadata_, {});
    for (std::size_t i = 0; i < trace_.channels().size(); ++i)
        described += trace_.channels()[i]->describe_new(
            consumer_.has_thread_streams(i) || (for_snapshots_ && for_snapshots_->rings.has_thread_streams(i)));
    if (auto kept = keep(described); !kept) {
        unkept_metadata_ = std::move(described);
        return kept;
    }
    unwritten_metadata_ += described;
    if (unwritten_metadata_.empty()) return {};
    LEAT_TRY(output_->write_metadata(unwritten_metadata_));
    unwritten_metadata_.clear();
    return {};
}

// What waits to be written comes first: so the output has all metadata, and nothing of it comes again. If we are killed
// before it is kept, who goes on with the trace puts the former metadata back.
Result<void> Recording::sample_clock_offset() {
    LEAT_TRY(write_metadata());
    const std::string metadata = LEAT_TRY(output_->set_clock_offset(trace_.epoch_offset()));
    Journal* const journal = trace_.metadata();
    return journal == nullptr ? Result<void>() : journal->replace(metadata);
}

// An event that a trigger's small ring had no room for is one, too.
std::uint64_t Recording::snapshots_wanted() const {
    std::uint64_t wanted = for_snapshots_->metadata->events();
    wanted += sum_of_reasons([this](ring::DiscardReason reason) { return consumer_.discarded(reason); });
    for (const auto& channel : trace_.channels()) wanted += channel->rings().snapshots_wanted();
    return wanted;
}

// What a trigger's ring had no room for is in the others.
std::uint64_t Recording::discarded(ring::DiscardReason reason) const {
    return for_snapshots_ ? for_snapshots_->rings.discarded(reason) : consumer_.discarded(reason);
}

std::uint64_t Recording::discarded() const {
    if (!for_snapshots_) return consumer_.discarded();
    return sum_of_reasons([this](ring::DiscardReason reason) { return discarded(reason); });
}

bool Recording::notice_snapshot_wanted() {
    if (!for_snapshots_) return false;
    const std::uint64_t wanted = snapshots_wanted();
    return std::exchange(for_snapshots_->wanted, wanted) != wanted;
}

// Rings first, then the metadata of what they hold.
Result<consumer::SnapshotTotals> Recording::take_snapshot(consumer::Output& output, std::uint64_t max_size) {
    std::size_t written = 0;
    const auto write_rest = [&]() -> Result<void> {
        LEAT_TRY(write_metadata());
        const std::string_view rest = std::string_view(for_snapshots_->metadata->text()).substr(written);
        if (!rest.empty()) LEAT_TRY(output.write_metadata(rest));
        written += rest.size();
        return {};
    };
    LEAT_TRY(write_rest());
    auto taken = for_snapshots_->rings.take(
        output, max_size, {.before_cut = write_rest, .after_write = [&] { return deliver(output, patience_); }});
    if (taken && output.events_lost() != 0) return not_found("{}", missing(output.events_lost()));
    return taken;
}

void Recording::run_output() {
    const bool is_awaited = consumer_.awaits_output();
    const std::uint64_t part = output_->part();
    if (output_->run()) {
        is_drain_due_ = true;
        // Writers need not wait for the room until the drain.
        if (state_ == State::kRunning) consumer_.release_stored();
        if (is_awaited || output_->part() != part) pace_.hurry();
    }
    if (std::exchange(taken_, output_->taken()) != output_->taken()) last_taken_at_ = Clock::now();
    warn_all(output_->take_warnings());
}

void Recording::drain_if_due() {
    if (!is_drain_due_ || Clock::now() < last_drain_ + pause()) return;
    // What the output has stored gives the rings room back. If it has stored everything, events need not wait for that.
    if (!output_->is_delivered()) run_output();
    drain();
    pace_.note(std::max(consumer_.nearest_bell(), consumer_.fullest()));
}

void Recording::drain() { drain_by(&consumer::Consumer::drain); }

void Recording::drain_by(Result<void> (consumer::Consumer::*act)()) {
    last_drain_ = Clock::now();
    const std::uint64_t events = consumer_.totals().events;
    const auto drained = (consumer_.*act)();
    if (consumer_.totals().events != events) last_events_ = last_drain_;
    is_drain_due_ = consumer_.wants_drain();
    if (!drained) warn(while_running(drained.error()));
    warn_all(output_->take_warnings());
    output_error_ = drained ? std::nullopt : std::optional(drained.error());
    if (output_error_ || awaits_mapping()) next_drain_ = std::min(next_drain_, last_drain_ + drain_period());
    if (const auto& unmapped = consumer_.unmapped()) warn(while_running(*unmapped));
    for (const std::string& quarantined : consumer_.quarantined())
        warn(fmt::format("{}; the rest of it is lost", quarantined));
    if (is_to_leave_out_ && drained && !consumer_.is_blocked()) consumer_.leave_out_rest();
}

void Recording::leave_out_rest() {
    is_to_leave_out_ = true;
    is_drain_due_ = true;
    if (state_ == State::kRunning) drain();
}

void Recording::begin_settle() {
    state_ = State::kDraining;
    begin_storing();
}

void Recording::begin_finish() {
    if (!std::exchange(is_ending_, true)) state_ = State::kDraining;
    begin_storing();
}

// This drain cuts what it can. What a slow relay keeps from being cut follows, and nothing that comes meanwhile: a
// program that goes on writing does not keep us.
void Recording::begin_storing() {
    last_taken_at_ = Clock::now();
    if (state_ == State::kDraining) drain();
    step_to_end();
    output_->flush();
}

void Recording::step_to_end() {
    if (state_ == State::kDraining && !output_error_ && !consumer_.is_blocked() && !awaits_mapping()) tell_rest();
    if (state_ == State::kStoring && consumer_.release_stored()) {
        state_ = is_ending_ ? State::kClosing : State::kSettled;
        last_taken_at_ = Clock::now();
        if (is_ending_) output_->begin_close();
    }
    if (state_ == State::kClosing && !output_->awaits_close()) close();
}

// What has come into the rings since has come too late.
void Recording::tell_rest() {
    if (const auto told = is_ending_ ? consumer_.finish() : consumer_.tell_discarded(); told) {
        state_ = State::kStoring;
    } else {
        warn(while_running(told.error()));
        output_error_ = told.error();
    }
}

void Recording::close() {
    output_->close();
    warn_all(output_->take_warnings());
    finish();
}

void Recording::finish() {
    if (output_->events_lost() != 0) warn(missing(output_->events_lost()));
    state_ = State::kFinished;
}

std::optional<Error> Recording::trouble() const {
    if (output_error_ || !is_storing()) return output_error_;
    const auto delivered = output_->check_delivered();
    return delivered ? std::nullopt : std::optional(delivered.error());
}

std::string Recording::storage_trouble() const {
    return output_error_ ? output_error_->message : output_->storage_trouble();
}

// What the output has taken may be stored by now. Where it goes to two places, the other one is to have as much: that
// takes turns.
void Recording::give_up() {
    step_to_end();
    if (is_finished()) return;
    if (state_ == State::kClosing) return close();
    output_error_ = trouble();
    if (!output_error_ && awaits_mapping()) output_error_ = consumer_.unmapped();
    // Counts what is left in the rings.
    if (state_ == State::kDraining)
        if (const auto finished = consumer_.finish(); !finished && !output_error_) output_error_ = finished.error();
    if (!consumer_.release_stored()) return output_error_ ? finish() : close();
    state_ = State::kClosing;
    last_taken_at_ = Clock::now();
    output_->begin_close();
    step_to_end();
}

void Recording::finish_now() {
    while (!is_finished()) give_up();
}

void Recording::warn(const std::string& warning) {
    if (std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end()) warnings_.push_back(warning);
}

void Recording::warn_all(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) warn(warning);
}

}  // namespace leat::host
