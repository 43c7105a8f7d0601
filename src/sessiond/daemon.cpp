#include "sessiond/daemon.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.hpp"
#include "base/readable.hpp"
#include "sessiond/metrics.hpp"
#include "sessiond/program_log.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::sessiond {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// What the kernel should tell us and does not is found that often.
constexpr auto kSweep = 10s;
// A program that connects speaks at once; one that does not is dropped.
constexpr auto kCallerPatience = 5s;
constexpr std::size_t kMaxCallers = 256;
// An answer that takes longer holds the restart up no more: its client is hung up on.
constexpr auto kRestartPatience = 10s;
constexpr auto kRestartPeriod = 50ms;  // meanwhile, the daemon looks so often whether all have their answers

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::create(const Parameters& parameters, Handover handed_over) {
    if (!handed_over.lock.is_open()) handed_over = {};
    DaemonPlace place = LEAT_TRY(DaemonPlace::take(parameters.places, std::move(handed_over.lock)));
    std::unique_ptr<Daemon> daemon(new Daemon(std::move(place), std::move(handed_over), parameters));
    if (!daemon->mailbox_.is_open()) return io_error("cannot create a descriptor for events");
    return daemon;
}

Result<void> Daemon::begin() {
    const Places& places = place_.where();
    // First, because its port may be taken.
    if (!parameters_.metrics.empty())
        metrics_ =
            LEAT_TRY(net::MetricsServer::listen(parameters_.metrics, [this] { return metrics_page(*tracing_); }));
    Keeper::Kept kept;
    keeper_ = LEAT_TRY(Keeper::find(places.directory, kept));
    if (!keeper_) start_keeper();
    tracing_ = LEAT_TRY(Tracing::create({.place = &place_,
                                         .mailbox = &mailbox_,
                                         .keeper = keeper_ ? &*keeper_ : nullptr,
                                         .max_memory = parameters_.max_memory}));
    take_over_active(kept);
    LEAT_TRY(tracing_->adopt(std::move(kept)));
    auto listening = listen();
    if (is_disk_full(listening) && keeper_) return keeper_->has_no_room(listening.error().message);
    LEAT_TRY(std::move(listening));
    tracing_->keep_active();
    tracing_->stop_due();
    (void)tracing_->order_all();
    return {};
}

// There is one thread yet.
void Daemon::start_keeper() {
    auto keeper = Keeper::start(place_.where().directory);
    if (keeper)
        keeper_ = *std::move(keeper);
    else
        log_error("{}: sessions will not survive this daemon, if it is killed", keeper.error().message);
}

// Programs that have started since the daemon before was killed wait for us.
void Daemon::take_over_active(Keeper::Kept& kept) {
    const fs::path path = place_.where().directory / wire::kActiveName;
    auto of_keeper = kept.extract(Keeper::kActive);
    UniqueFd active = std::move(handed_over_.active);
    if (!active.is_open() && of_keeper) active = std::move(of_keeper.mapped());
    // Whoever made another one is dead: we have the lock of the directory.
    if (!is_locked_file(active, path)) {
        active.reset();
        ::unlink(path.c_str());
    }
    tracing_->take_over_active(std::move(active));
}

Result<void> Daemon::listen() {
    const Places& places = place_.where();
    commands_.emplace(*tracing_);
    const ControlServer::Parameters parameters{.path = places.directory / wire::kControlSocketName,
                                               .group = parameters_.group};
    const auto handle = [this](const Client& client, const nlohmann::json& request, Reply reply) {
        commands_->handle(client, request, std::move(reply));
    };
    if (handed_over_.programs.is_open()) {
        app_socket_ = wire::AppSocket::take_over(std::move(handed_over_.programs));
        app_name_ = NamedFile(places.directory / wire::kAppSocketName);
        control_ = ControlServer::take_over(std::move(handed_over_.clients), parameters, handle);
        return {};
    }
    LEAT_TRY(listen_to_programs());
    control_ = LEAT_TRY(ControlServer::listen(parameters, handle));
    return {};
}

Result<void> Daemon::listen_to_programs() {
    const Places& places = place_.where();
    const fs::path path = places.directory / wire::kAppSocketName;
    ::unlink(path.c_str());
    app_socket_ = LEAT_TRY(wire::AppSocket::listen(places.directory, places.only ? 0600 : 0666));
    app_name_ = NamedFile(path);
    return {};
}

bool Daemon::can_be_found() const { return place_.is_ours() && app_name_.is_there() && control_->can_be_found(); }

Result<void> Daemon::take_place_again() {
    const bool is_nobodys = LEAT_TRY(place_.owner()) == DaemonPlace::Owner::kNobody;
    const bool has_keeper = keeper_ && keeper_->is_there();
    if (is_nobodys && !has_keeper && Keeper::lives_in(place_.where().directory))
        return refused("the sessions of another session daemon that was killed wait there");
    LEAT_TRY(place_.take_again());
    accept_programs();  // that have come in time
    if (!app_name_.is_there()) LEAT_TRY(listen_to_programs());
    if (!control_->can_be_found()) LEAT_TRY(control_->listen_again());
    tracing_->show_anew();
    open_log_anew();
    return {};
}

// We may look when half of it is gone. For want of room, or of descriptors, it is tried again later.
void Daemon::keep_place() {
    if (can_be_found()) return tracing_->keep_shown();
    const std::string directory = place_.where().directory.string();
    const auto taken = take_place_again();
    const bool is_told = std::exchange(is_loss_told_, !taken);
    if (taken)
        log_warning(
            "{} was removed, and is made again; programs that were traced until then are not found again if this "
            "daemon is restarted",
            directory);
    else if (taken.error().kind == ErrorKind::kRefused)
        end_without_place(taken.error());
    else if (!is_told)
        log_error("{} was removed, and cannot be made again yet: {}", directory, taken.error().message);
}

void Daemon::end_without_place(const Error& error) {
    log_error("{} was removed: all sessions end, as it cannot be had again: {}", place_.where().directory.string(),
              error.message);
    begin_end();
}

Handover Daemon::hand_over() {
    return {.lock = place_.release(),
            .active = tracing_->hand_over_active(),
            .programs = app_socket_->release(),
            .clients = control_->release()};
}

Daemon::~Daemon() {
    // Unless the next one in this process has the place.
    if (!place_.is_released()) app_name_.remove();
}

Daemon::End Daemon::run(int signals) {
    next_sweep_ = Clock::now() + kSweep;
    while (!is_over_) turn(signals);
    if (restarts_by_) return End::kToRestart;
    if (keeper_) keeper_->end();
    return End::kStopped;
}

// Who has begun to end all sessions does so. SIGHUP opens the log file anew; without one, it means that the terminal
// has gone.
void Daemon::handle_signal(int signals) {
    signalfd_siginfo signal{};
    if (::read(signals, &signal, sizeof signal) != sizeof signal) return;
    if (signal.ssi_signo == SIGHUP && the_log().is_file()) return open_log_anew();
    if (signal.ssi_signo == SIGUSR2) {
        if (!restarts_by_) restarts_by_ = Clock::now() + kRestartPatience;
        return;
    }
    begin_end();
}

// Another daemon's log is not ours to write to.
void Daemon::open_log_anew() {
    const fs::path path = the_log().path();
    if (path == place_.where().directory / path.filename() && !place_.is_ours()) return;
    if (const auto reopened = the_log().reopen(); !reopened)
        log_error("{}: the old file is kept", reopened.error().message);
}

void Daemon::begin_end() {
    if (!place_.is_ours()) {
        tracing_->go_on_without_keeper();
        if (keeper_) keeper_->end();
        keeper_.reset();
    }
    restarts_by_.reset();
    control_->close_door(false);  // who calls now is told that it ends
    is_ending_ = true;
    commands_->destroy_all([this] { is_over_ = true; });
}

void Daemon::restart_if_answered() {
    const bool can_restart = keeper_ && keeper_->is_there() && place_.is_ours();
    control_->close_door(can_restart);
    if (!can_restart) {
        restarts_by_.reset();
        return log_error("cannot restart: sessions would be lost, as there is no keeper");
    }
    if (Clock::now() < *restarts_by_ && (!callers_.empty() || control_->owes_answers())) return;
    tracing_->count_not_attached();
    tracing_->keep();
    is_over_ = true;
}

void Daemon::turn(int signals) {
    std::vector<pollfd> wanted{{is_ending_ ? -1 : signals, POLLIN, 0},
                               {mailbox_.fd(), POLLIN, 0},
                               {tracing_->news_fd(), POLLIN, 0},
                               {restarts_by_ ? -1 : app_socket_->fd(), POLLIN, 0}};
    for (const Caller& caller : callers_) wanted.push_back({caller.connection.fd(), POLLIN, 0});
    const std::size_t first_of_clients = wanted.size();
    auto deadline = std::min({next_sweep_, control_->deadline(), tracing_->next_stop()});
    const auto of_clients = control_->wanted();
    wanted.insert(wanted.end(), of_clients.begin(), of_clients.end());
    if (metrics_) {
        const auto of_scrapers = metrics_->wanted();
        wanted.insert(wanted.end(), of_scrapers.begin(), of_scrapers.end());
        deadline = std::min(deadline, metrics_->deadline());
    }
    if (!callers_.empty()) deadline = std::min(deadline, callers_.front().since + kCallerPatience);
    if (restarts_by_) deadline = std::min(deadline, Clock::now() + kRestartPeriod);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    ::poll(wanted.data(), wanted.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));

    if (wanted[1].revents != 0) mailbox_.run_all();
    tracing_->stop_due();
    tracing_->order_waiting_if_freed();
    if (Clock::now() >= next_sweep_) {
        next_sweep_ = Clock::now() + kSweep;
        if (!is_ending_) keep_place();
        tracing_->sweep();
        tracing_->order_waiting();
        the_program_log().tell_left_out();
    } else if (wanted[2].revents != 0) {
        tracing_->look();
    }
    if (wanted[3].revents != 0) accept_programs();
    if (!callers_.empty()) answer_programs();
    const std::span clients = std::span(wanted).subspan(first_of_clients, of_clients.size());
    const bool has_clients = std::ranges::any_of(clients, [](const pollfd& fd) { return fd.revents != 0; });
    if (has_clients || Clock::now() >= control_->deadline()) control_->run();
    if (metrics_) metrics_->run();
    if (wanted[0].revents != 0) handle_signal(signals);
    if (restarts_by_) restart_if_answered();
}

// Programs speak at once. If there are too many that do not, those that have been silent for longest make room.
void Daemon::accept_programs() {
    std::size_t count = 0;
    do {
        auto connection = app_socket_->accept();
        if (!connection) return;
        callers_.push_back({std::move(*connection), Clock::now()});
        if (callers_.size() > kMaxCallers) answer_programs();
        if (callers_.size() > kMaxCallers) callers_.pop_front();
        // An accept4() that finds nobody costs ten times as much as this poll().
    } while (++count < kMaxCallers && is_readable(app_socket_->fd()));
}

void Daemon::answer_programs() {
    callers_.remove_if([this](Caller& caller) {
        if (!is_readable(caller.connection.fd())) return Clock::now() - caller.since > kCallerPatience;
        const auto answered = tracing_->answer(caller.connection);
        tracing_->show_answering();
        if (!answered) (void)caller.connection.send_done();  // it goes on without us
        if (!answered)
            the_program_log().warn(
                caller.connection.user(),
                fmt::format("{} is not traced: {}", caller.connection.program_name(), answered.error().message));
        return true;
    });
}

}  // namespace leat::sessiond
