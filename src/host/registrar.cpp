#include "host/registrar.hpp"

#include <sys/eventfd.h>

#include <iterator>
#include <utility>

#include "base/blocked_signals.hpp"

namespace leat::host {
namespace {

using namespace std::chrono_literals;

// An application that connects speaks at once; one that does not is dropped.
constexpr auto kPatience = 5s;
constexpr std::size_t kMaxWaiting = 256;

bool is_readable(int fd) {
    pollfd wanted{fd, POLLIN, 0};
    return ::poll(&wanted, 1, 0) == 1;
}

std::string not_traced(const wire::AppConnection& connection, const Error& error) {
    return fmt::format("{} is not traced: {}", connection.program_name(), error.message);
}

}  // namespace

Result<std::unique_ptr<Registrar>> Registrar::start(session::Session& session, wire::AppSocket socket) {
    UniqueFd wake_up(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_up.is_open()) return io_error("cannot create the registrar's descriptor");
    return std::unique_ptr<Registrar>(new Registrar(session, std::move(socket), std::move(wake_up)));
}

Registrar::Registrar(session::Session& session, wire::AppSocket socket, UniqueFd wake_up)
    : session_(session), socket_(std::move(socket)), wake_up_(std::move(wake_up)) {
    const BlockedSignals blocked;
    thread_ = std::thread([this] { run(); });
}

void Registrar::stop() {
    if (!thread_.joinable()) return;
    is_ending_ = true;
    ::eventfd_write(wake_up_.get(), 1);
    thread_.join();
}

void Registrar::run() {
    bool is_last = false;
    while (!is_last) {
        wait();
        is_last = is_ending_;
        accept_applications();
        handle_applications();
    }
}

// Waits until an application connects or sends, or one has been silent for too long.
void Registrar::wait() const {
    std::vector<pollfd> wanted{{wake_up_.get(), POLLIN, 0}};
    if (waiting_.size() < kMaxWaiting) wanted.push_back({socket_.fd(), POLLIN, 0});
    for (const Waiting& waiting : waiting_) wanted.push_back({waiting.connection.fd(), POLLIN, 0});
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
    ::poll(wanted.data(), wanted.size(), waiting_.empty() ? -1 : static_cast<int>(patience));
}

void Registrar::accept_applications() {
    while (waiting_.size() < kMaxWaiting) {
        auto connection = socket_.accept();
        if (!connection) return;
        waiting_.push_back({std::move(*connection), Clock::now()});
    }
}

void Registrar::handle_applications() {
    for (Waiting& waiting : waiting_) {
        if (!is_readable(waiting.connection.fd())) continue;
        register_application(waiting.connection);
        waiting.since = {};  // done, registered or not
    }
    std::erase_if(waiting_, [](const Waiting& waiting) { return Clock::now() - waiting.since > kPatience; });
}

void Registrar::register_application(wire::AppConnection& connection) {
    auto application = connection.receive(wire::Lane::kRecorder);
    if (!application) {
        if (application.error().kind == ErrorKind::kUnsupported) has_refused_ = true;
        return hand_over({}, {not_traced(connection, application.error())});
    }
    session::RegistrationOutcome outcome = session_.register_application(application->registration);
    hand_over(std::move(outcome.new_classes), std::move(outcome.warnings));
    auto enabled = session_.enable(connection, application->control, outcome.event_ids);
    if (enabled) enabled = connection.send_done();
    if (!enabled) hand_over({}, {not_traced(connection, enabled.error())});
}

void Registrar::hand_over(std::vector<ctf::EventClass> classes, std::vector<std::string> warnings) {
    const std::lock_guard guard(lock_);
    std::move(classes.begin(), classes.end(), std::back_inserter(classes_));
    std::move(warnings.begin(), warnings.end(), std::back_inserter(warnings_));
}

std::vector<ctf::EventClass> Registrar::take_event_classes() {
    const std::lock_guard guard(lock_);
    return std::exchange(classes_, {});
}

std::vector<std::string> Registrar::take_warnings() {
    const std::lock_guard guard(lock_);
    return std::exchange(warnings_, {});
}

}  // namespace leat::host
