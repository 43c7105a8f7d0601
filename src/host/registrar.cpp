#include "host/registrar.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <iterator>
#include <system_error>
#include <utility>
#include <variant>

#include "base/blocked_signals.hpp"
#include "base/readable.hpp"
#include "base/threads.hpp"
#include "host/answering.hpp"

namespace leat::host {
namespace {

using namespace std::chrono_literals;

// An application that connects speaks at once; one that does not is dropped.
constexpr auto kPatience = 5s;
constexpr std::size_t kMaxWaiting = 256;

std::string not_traced(const wire::AppConnection& connection, const Error& error) {
    return fmt::format("{} is not traced: {}", connection.program_name(), error.message);
}

}  // namespace

Result<std::unique_ptr<Registrar>> Registrar::start(session::Session& session, wire::AppSocket socket) {
    UniqueFd wake_up(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_up.is_open()) return io_error("cannot create the registrar's descriptor");
    try {
        return std::unique_ptr<Registrar>(new Registrar(session, std::move(socket), std::move(wake_up)));
    } catch (const std::system_error&) {
        return cannot_start_thread();
    }
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

void Registrar::switch_off() {
    ++to_switch_off_;
    ::eventfd_write(wake_up_.get(), 1);
}

void Registrar::run() {
    bool is_last = false;
    while (!is_last) {
        wait();
        eventfd_t ignored = 0;
        (void)::eventfd_read(wake_up_.get(), &ignored);
        is_last = is_ending_;
        if (switched_off_ != to_switch_off_) switch_off_now();
        accept_applications();
        handle_applications();
    }
}

// Those that register later get nothing.
void Registrar::switch_off_now() {
    const unsigned wanted = to_switch_off_;
    session_.set_active(false);
    std::vector<std::uint32_t> channels;
    for (const auto& [key, trace] : session_.traces())
        for (const auto& channel : trace->channels()) channels.push_back(channel->number());
    programs_.switch_off(channels);
    switched_off_ = wanted;
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
    auto message = connection.receive(wire::Lane::kRecorder);
    if (!message) {
        if (message.error().kind == ErrorKind::kUnsupported) has_refused_ = true;
        return warn({not_traced(connection, message.error())});
    }
    if (const auto* const request = std::get_if<wire::AttachRequest>(&*message)) return attach(connection, *request);
    const auto answered = answer(connection, std::get<wire::RegisteredApp>(*std::move(message)));
    if (!answered) warn({not_traced(connection, answered.error())});
}

// Rings are for programs of our user. Another one hears nothing but the end of the connection.
void Registrar::attach(wire::AppConnection& connection, const wire::AttachRequest& request) {
    const session::TraceChannel* const channel = session_.find_channel(request.channel);
    if (channel != nullptr && request.uid == ::geteuid()) (void)send_channels(connection, std::array{channel});
}

Result<void> Registrar::answer(wire::AppConnection& connection, wire::RegisteredApp registered) {
    const session::Application application = application_of(std::move(registered.registration));
    session_.count(application);
    session::Orders orders(application.tracepoints->size());
    session_.add_orders(application, orders);
    warn(std::move(orders.warnings));
    LEAT_TRY(send_channels(connection, orders.channels));
    auto switched = switch_tracepoints(registered.control, orders.actions);
    // Some of them may be on also where not all could be switched.
    if (!orders.channels.empty()) programs_.add(application, registered.control);
    LEAT_TRY(switched);
    return connection.send_done();
}

void Registrar::warn(std::vector<std::string> warnings) {
    const std::lock_guard guard(lock_);
    std::move(warnings.begin(), warnings.end(), std::back_inserter(warnings_));
}

std::vector<std::string> Registrar::take_warnings() {
    const std::lock_guard guard(lock_);
    return std::exchange(warnings_, {});
}

}  // namespace leat::host
