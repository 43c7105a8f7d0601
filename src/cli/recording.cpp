#include "cli/recording.hpp"

#include <poll.h>
#include <signal.h>

#include <algorithm>

namespace leat::cli {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Between two drains that nothing asked for: bounds what a killed recorder takes with it.
constexpr auto kTick = 100ms;
// An application that connects speaks at once; one that does not is dropped.
constexpr auto kPatience = 5s;
constexpr std::size_t kMaxWaiting = 256;

// While the program runs nothing is lost yet: the report says at the end what was.
std::string while_running(const Error& error) {
    return error.message + ": events stay in the rings until there is room";
}

}  // namespace

Result<std::unique_ptr<Recording>> Recording::create(const session::SessionParameters& parameters,
                                                     const std::filesystem::path& runtime_directory,
                                                     const std::filesystem::path& trace) {
    session::Session session = LEAT_TRY(session::Session::create(parameters));
    wire::AppSocket socket = LEAT_TRY(wire::AppSocket::listen(runtime_directory));
    auto output = LEAT_TRY(consumer::TraceDirectory::create(trace, parameters.uid, "channel0"));
    auto metadata = output->write_metadata(session.initial_metadata());
    if (!metadata) {
        output->remove_if_unused();
        return tl::unexpected(metadata.error());
    }
    std::unique_ptr<Recording> recording(
        new Recording(std::move(session), std::move(socket), std::move(output), parameters.ring_size / 2));
    recording->doorbell_ = LEAT_TRY(consumer::DoorbellWaiter::start(recording->session_.rings().doorbell()));
    return recording;
}

Recording::Recording(session::Session session, wire::AppSocket socket, std::unique_ptr<consumer::TraceDirectory> output,
                     std::uint64_t wake_after)
    : session_(std::move(session)),
      socket_(std::move(socket)),
      output_(std::move(output)),
      consumer_(session_.rings(), session_.walker(), *output_,
                {.trace_uuid = *session_.trace_class().uuid,
                 .stream_class_id = session::kStreamClassId,
                 .wake_after = wake_after}) {}

Result<int> Recording::run(const std::vector<std::string>& command,
                           const std::vector<ChildProcess::Variable>& variables) {
    ChildProcess child = LEAT_TRY(ChildProcess::start(command, variables));
    std::optional<int> exit_status;
    while (!exit_status) {
        wait();
        handle_signals(child);
        accept_applications();
        handle_applications();
        drain();
        exit_status = child.poll_exit_status();
    }
    finish();
    return *exit_status;
}

// Until there is something to do, or it is time for a tick.
void Recording::wait() {
    std::vector<pollfd> wanted{{socket_.fd(), POLLIN, 0}, {doorbell_->fd(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
    for (const Waiting& waiting : waiting_) wanted.push_back({waiting.connection.fd(), POLLIN, 0});
    ::poll(wanted.data(), wanted.size(), static_cast<int>(kTick / 1ms));
    if (Clock::now() - last_tick_ < kTick) return;
    last_tick_ = Clock::now();
    session_.clock().discipline();
}

// What a terminal sends, it sends to the program as well; what somebody sends to us alone, we pass on.
void Recording::handle_signals(const ChildProcess& child) {
    while (const auto signal = signals_.next()) {
        const bool is_from_terminal = signal->ssi_code == SI_KERNEL;
        if (signal->ssi_signo != SIGCHLD && !is_from_terminal) child.send(static_cast<int>(signal->ssi_signo));
    }
}

void Recording::accept_applications() {
    while (waiting_.size() < kMaxWaiting) {
        auto connection = socket_.accept();
        if (!connection) return;
        waiting_.push_back({std::move(*connection), Clock::now()});
    }
}

void Recording::handle_applications() {
    for (Waiting& waiting : waiting_) {
        pollfd wanted{waiting.connection.fd(), POLLIN, 0};
        if (::poll(&wanted, 1, 0) == 1) {
            register_application(waiting.connection);
            waiting.since = {};  // done, whatever came of it
        }
    }
    std::erase_if(waiting_, [](const Waiting& waiting) { return Clock::now() - waiting.since > kPatience; });
}

void Recording::register_application(wire::AppConnection& connection) {
    const auto registration = connection.receive();
    if (!registration) return warn("a program could not be traced: " + registration.error().message);
    const session::RegistrationOutcome outcome = session_.register_application(*registration);
    for (const std::string& warning : outcome.warnings) warn(warning);
    // Metadata before data: the program learns its ids when what they mean is on disk.
    unwritten_metadata_ += outcome.metadata;
    const auto written = write_metadata();
    if (!written) return warn("a program could not be traced: " + written.error().message);
    const auto answered = session_.answer(connection, outcome.event_ids);
    if (!answered) warn("a program could not be traced: " + answered.error().message);
}

// What could not be written stays in front of what comes later: ids that were given stay given.
Result<void> Recording::write_metadata() {
    if (unwritten_metadata_.empty()) return {};
    LEAT_TRY(output_->write_metadata(unwritten_metadata_));
    unwritten_metadata_.clear();
    return {};
}

void Recording::drain() {
    doorbell_->acknowledge();
    const auto drained = consumer_.drain();
    if (!drained) warn(while_running(drained.error()));
    output_error_ = drained ? std::nullopt : std::optional(drained.error());
    for (const std::string& quarantined : consumer_.quarantined())
        warn(fmt::format("{}: a traced program overwrote it; the rest of it is lost", quarantined));
}

void Recording::finish() {
    drain();
    const auto finished = consumer_.finish();
    if (!finished) output_error_ = finished.error();
}

void Recording::warn(const std::string& warning) {
    if (std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end()) warnings_.push_back(warning);
}

}  // namespace leat::cli
