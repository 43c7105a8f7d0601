#include "capture/capture.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>

#include "base/file.hpp"
#include "ring/clock.hpp"
#include "ring/shared_clock.hpp"
#include "tracer/capture_link.hpp"

namespace leat::capture {
namespace {

// Blocks that fill up faster than that are too small for anybody.
constexpr std::uint64_t kLookPeriod = 100'000;  // ns
constexpr std::uint64_t kDisciplinePeriod = 1'000'000'000;

// Asks once whether the TSC is to be trusted: that is a system call.
class TimeOfCapture final : public ring::TimeSource {
  public:
    Sample sample() override { return system_->sample(); }
    [[nodiscard]] bool is_tsc_trusted() const override { return is_trusted_; }

  private:
    std::unique_ptr<ring::TimeSource> system_ = ring::TimeSource::of_system();
    bool is_trusted_ = system_->is_tsc_trusted();
};

// Those that this process may run on: any of its threads, of which the one that starts the capture may have a CPU to
// itself.
std::vector<std::uint32_t> own_cpus() {
    cpu_set_t all;
    CPU_ZERO(&all);
    const auto add = [&all](pid_t thread) {
        cpu_set_t allowed;
        if (::sched_getaffinity(thread, sizeof allowed, &allowed) == 0) CPU_OR(&all, &all, &allowed);
    };
    add(0);
    std::error_code error;
    for (std::filesystem::directory_iterator at("/proc/self/task", error); !error && at != end(at); at.increment(error))
        if (const int thread = std::atoi(at->path().filename().c_str()); thread > 0) add(thread);
    std::vector<std::uint32_t> cpus;
    for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &all)) cpus.push_back(cpu);
    return cpus;
}

session::Session::Parameters session_of(const Capture::Options& options) {
    return {.name = options.directory.filename().string(),
            .lane = wire::Lane::kRecorder,
            .buffers = session::Session::Buffers::kPid,
            .channels = {options.channel},
            .environment = options.environment,
            .time_source = [] { return std::make_unique<TimeOfCapture>(); }};
}

session::Application this_process() {
    return {.pid = ::getpid(),
            .vpid = ::getpid(),
            .uid = ::geteuid(),
            .procname = program_invocation_short_name,
            .bitness = 8 * sizeof(void*),
            .tracepoints = std::make_shared<const session::Tracepoints>()};
}

std::uint64_t later(std::uint64_t time, std::uint64_t by) {
    return by > std::numeric_limits<std::uint64_t>::max() - time ? std::numeric_limits<std::uint64_t>::max()
                                                                 : time + by;
}

// Of what a capture may store, the last packet that does not fit is a small part.
std::uint64_t packet_size(const Capture::Options& options) {
    constexpr std::uint64_t kSmallest = 4096;
    return std::min(options.block_size, std::max(options.max_size / 8, kSmallest));
}

consumer::Consumer::Source source_of(const session::TraceChannel& channel, std::uint64_t max_packet_size) {
    return {.rings = &channel.rings(),
            .walker = &channel.walker(),
            .stream_class_id = channel.stream_class_id(),
            .thread_stream_class_id = channel.thread_stream_class_id(),
            .max_packet_size = max_packet_size};
}

// Of each CPU something is kept for the last packets, too.
tl::unexpected<Error> no_room() {
    return refused(
        "there is no room to describe the events that are wanted: raise max_size (and `ulimit -f`), or capture fewer "
        "of "
        "them");
}

}  // namespace

Result<std::unique_ptr<Capture>> Capture::start(const Options& options) {
    auto session = std::make_unique<session::Session>(session_of(options));
    session->set_active(true);
    session::Trace& trace = *LEAT_TRY(session->trace_for(this_process()));
    auto tracepoints = LEAT_TRY(OwnTracepoints::create(*session));
    const session::TraceChannel& channel = *trace.channels().front();
    LEAT_TRY(tracepoints->attach(channel));
    const std::vector<std::uint32_t> cpus = own_cpus();
    auto output = LEAT_TRY(BlockOutput::create(options.directory, channel.name(), channel.rings().geometry().cpu_rings,
                                               cpus, std::min(options.max_size, largest_file())));
    if (!output->write_metadata(trace.initial_metadata())) {
        output->remove_if_unused();
        return no_room();
    }
    // Before the time runs: that is a page fault for each page.
    for (const std::uint32_t cpu : cpus)
        if (cpu < channel.rings().geometry().cpu_rings)
            channel.rings().reader(cpu).touch_ahead(options.channel.ring_size);
    if (!tracepoints->has_files()) {
        output->remove_if_unused();
        return refused(
            "no tracepoint can be captured, as none has a file of this process: is /dev/shm full or not writable, has "
            "somebody removed it, or is LEAT_RUNTIME_DIR empty?");
    }
    std::unique_ptr<Capture> capture(
        new Capture(options, std::move(session), trace, std::move(output), std::move(tracepoints)));
    capture->switch_on();
    // What cannot even say what it has would end with its first event.
    if (!capture->describe_new_events()) {
        capture->abandon();
        return no_room();
    }
    return capture;
}

Capture::Capture(const Options& options, std::unique_ptr<session::Session> session, session::Trace& trace,
                 std::unique_ptr<BlockOutput> output, std::unique_ptr<OwnTracepoints> tracepoints)
    : session_(std::move(session)),
      trace_(trace),
      output_(std::move(output)),
      consumer_(std::vector{source_of(*trace.channels().front(), packet_size(options))}, *output_,
                {.trace_uuid = trace.uuid(),
                 .clock = &trace.clock().page(),
                 .is_polled = true,
                 .before_cut = [this] { return describe_new_events(); }}),
      tracepoints_(std::move(tracepoints)),
      process_(leat_capture_process()),
      ends_at_(later(now(), options.duration)),
      flush_period_(options.flush_period),
      next_flush_(later(now(), options.flush_period)) {}

Capture::~Capture() {
    if (!is_of_this_process()) return;
    try {
        write_rest();
    } catch (const std::exception&) {
        give_up_without_memory();
    }
}

// The kernel may be writing blocks that are about to go. Each round has one fewer of them, whatever fails.
void Capture::give_up_without_memory() noexcept {
    output_->fail_without_memory();
    while (writer_ != nullptr && writer_->count() != 0) {
        writer_->wait();
        try {
            take_done();
        } catch (const std::exception&) {
            continue;
        }
    }
    try {
        output_->take_back();
        output_->close();
    } catch (const std::exception&) {
        return;  // files may have gaps then
    }
}

void Capture::write_rest() {
    stop();
    if (writer_ != nullptr) write_submitted();
    output_->take_back();
    while (!is_over()) write();
}

std::uint64_t Capture::now() const { return ring::clock_now(trace_.clock().page()); }

// As if it had not been: nothing is written yet.
void Capture::abandon() {
    tracepoints_.reset();
    output_->remove_if_unused();
    state_ = State::kOver;
}

bool Capture::is_of_this_process() const { return leat_capture_process() == process_; }

void Capture::switch_on() {
    for (std::string& warning : tracepoints_->switch_on()) warn(std::move(warning));
    for (const session::StickyProgram& program : tracepoints_->take_sticky_values()) record_sticky_values(program);
}

// A library that comes again and again is the same each time.
void Capture::warn(std::string warning) {
    if (std::ranges::find(warnings_, warning) == warnings_.end()) warnings_.push_back(std::move(warning));
}

// What does not fit into a ring is discarded there, and counted.
void Capture::record_sticky_values(const session::StickyProgram& program) {
    const auto replayed = session::replay_sticky_values(
        trace_, [this] { drain(true); }, program);
    if (!replayed)
        warn(fmt::format("sticky values of {}: {}", program.name, replayed.error().message));
    else if (replayed->not_kept != 0)
        warn(fmt::format("{} has not kept {} sticky values", program.name, replayed->not_kept));
}

Result<void> Capture::describe_new_events() {
    undescribed_ += trace_.channels().front()->describe_new(consumer_.has_thread_streams(0));
    if (undescribed_.empty()) return {};
    LEAT_TRY(output_->write_metadata(undescribed_));
    undescribed_.clear();
    return {};
}

void Capture::poll() {
    if (is_over()) return;
    if (!is_of_this_process()) {
        note_final_counts();
        state_ = State::kOver;
        return;
    }
    if (state_ == State::kRunning) {
        const std::uint64_t time = now();
        // A TSC that begins anew, as it does after some kinds of suspend, stops the clock until that is disciplined.
        // One that is a little behind on another CPU does not.
        const bool stands_still = time <= std::exchange(last_time_, time) && ring::system_now() >= look_overdue_at_;
        if (time < next_look_ && !stands_still) return;
        if (stands_still || time >= next_discipline_) discipline(time);
        next_look_ = time + kLookPeriod;
        look_overdue_at_ = ring::system_now() + 2 * kLookPeriod;
        look(time);
    }
    if (state_ == State::kEnding) cut_rest();
    if (state_ == State::kClosing) close_if_written();
}

void Capture::discipline(std::uint64_t time) {
    next_discipline_ = time + kDisciplinePeriod;
    trace_.clock().discipline(consumer_.newest());
}

void Capture::look(std::uint64_t time) {
    if (tracepoints_->has_news()) switch_on();
    const bool is_flush_due = time >= next_flush_;
    if (is_flush_due || consumer_.has_full_packet()) drain(is_flush_due);
    if (is_flush_due) next_flush_ = later(time, flush_period_);
    if (output_->error()) return begin_end(End::kError);
    if (output_->is_full()) return begin_end(End::kSize);
    if (time >= ends_at_) begin_end(End::kDuration);
}

// What the output does not take stays in the rings, and the output says why.
void Capture::drain(bool has_rest) {
    consumer_.cut_full_packets_only(!has_rest);
    (void)consumer_.drain();
}

void Capture::stop() {
    if (state_ == State::kRunning && is_of_this_process()) begin_end(End::kStop);
}

void Capture::begin_end(End end) {
    end_ = end;
    tracepoints_->switch_off();
    state_ = State::kEnding;
}

// A stream that has too many blocks out goes on when some are written.
void Capture::cut_rest() {
    drain(true);
    if (output_->is_full()) end_ = End::kSize;
    if (output_->error()) end_ = End::kError;
    if (consumer_.is_blocked() && !output_->is_full() && !output_->error()) return;
    (void)consumer_.finish();
    state_ = State::kClosing;
}

// A thread that had begun a record when its tracepoint was switched off may have written it since.
void Capture::close_if_written() {
    if (output_->error()) end_ = End::kError;
    if (!output_->is_delivered()) return;
    drain(true);
    (void)consumer_.finish();
    if (!output_->is_delivered()) return;
    output_->close();
    if (output_->has_removed_files()) warn("somebody has removed files of the trace: their events are lost");
    tracepoints_.reset();
    note_final_counts();
    state_ = State::kOver;
}

// Rings have no end of their own: a thread that was held up in front of its record may reach one at any time.
void Capture::note_final_counts() {
    skipped_ = consumer_.discarded_told();
    skipped_too_late_ = consumer_.discarded() - skipped_;
}

Block* Capture::hand_out() { return is_over() ? nullptr : output_->hand_out(); }

// Writers get the room now: a full ring has no full packet that the next look would find.
void Capture::written(std::uint64_t number, std::int64_t result) {
    if (!is_of_this_process() || !output_->written(number, result)) return;
    (void)consumer_.release_stored();
}

void Capture::write_block(const Block& block) {
    int count = 0;
    const auto parts = block.parts(count);
    const auto offset = static_cast<off_t>(block.offset + block.written);
    const ssize_t size = ::pwritev(fd_of(block), parts.data(), count, offset);
    written(block.number, size < 0 ? -errno : size == 0 ? -EIO : size);
}

void Capture::write() {
    poll();
    if (is_over()) return;
    if (writer_ != nullptr) write_submitted();
    while (const Block* const block = hand_out()) write_block(*block);
    if (state_ != State::kRunning) poll();
}

// The kernel may have refused some for a while; and what waits for metadata that are under way comes after them.
void Capture::write_submitted() {
    while (writer_->count() != 0) {
        writer_->wait();
        take_done();
    }
    if (!writer_->has_failed()) return;
    writer_.reset();
    has_no_writer_ = true;
}

std::size_t Capture::submit() {
    poll();
    if (is_over()) return 0;
    if (writer_ == nullptr && !has_no_writer_) writer_ = UringWriter::create();
    has_no_writer_ = writer_ == nullptr;
    if (has_no_writer_) {
        write();
        return 0;
    }
    take_done();
    while (writer_->has_room()) {
        const Block* const block = hand_out();
        if (block == nullptr) break;
        int count = 0;
        const auto parts = block->parts(count);
        writer_->add(block->number, fd_of(*block), block->offset + block->written,
                     std::span(parts).first(static_cast<std::size_t>(count)));
    }
    writer_->submit();
    return writer_->count();
}

void Capture::take_done() {
    while (const auto done = writer_->take_done()) written(done->number, done->result == 0 ? -EIO : done->result);
}

}  // namespace leat::capture
