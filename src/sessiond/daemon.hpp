#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "base/named_file.hpp"
#include "base/result.hpp"
#include "net/metrics_server.hpp"
#include "sessiond/commands.hpp"
#include "sessiond/control_server.hpp"
#include "sessiond/daemon_place.hpp"
#include "sessiond/handover.hpp"
#include "sessiond/keeper.hpp"
#include "sessiond/mailbox.hpp"
#include "sessiond/tracing.hpp"
#include "wire/app/app_socket.hpp"

namespace leat::sessiond {

// The session daemon: programs, clients, signals and threads of sessions meet in one loop.
class Daemon {
  public:
    struct Parameters {
        Places places;
        std::optional<gid_t> group{};  // whose members may steer it
        std::string metrics{};         // where they are served, "ADDRESS:PORT"; empty: nowhere
        std::uint64_t max_memory = 0;  // bytes of all rings of CPUs; 0: no limit
    };
    // Takes the place; fails with kRefused if another daemon lives there. `handed_over`: by the one whose place in this
    // process we take, if there was one.
    static Result<std::unique_ptr<Daemon>> create(const Parameters& parameters, Handover handed_over = {});
    // Goes on with what another daemon has left, and listens. Before run(), while there is one thread.
    Result<void> begin();
    ~Daemon();
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    // Where metrics are served; empty: nowhere.
    [[nodiscard]] std::string metrics_endpoint() const { return metrics_ ? metrics_->endpoint() : std::string(); }

    enum class End : std::uint8_t {
        kStopped,    // all sessions are ended, stored
        kToRestart,  // they are left to the next daemon
    };
    // Runs until `signals`, a signalfd, tells of SIGTERM or SIGINT, or of SIGUSR2, which asks for a restart. Who has
    // asked for something by then gets the answer first, as far as that does not take long.
    End run(int signals);
    // After kToRestart: for the next one in this process.
    Handover hand_over();

  private:
    using Clock = std::chrono::steady_clock;
    // A program that has connected and has not said yet what it wants.
    struct Caller {
        wire::AppConnection connection;
        Clock::time_point since;
    };

    Daemon(DaemonPlace place, Handover handed_over, const Parameters& parameters)
        : place_(std::move(place)), handed_over_(std::move(handed_over)), parameters_(parameters) {}
    void start_keeper();
    void take_over_active(Keeper::Kept& kept);
    Result<void> listen();
    Result<void> listen_to_programs();
    [[nodiscard]] bool can_be_found() const;
    Result<void> take_place_again();
    void keep_place();
    void end_without_place(const Error& error);
    void begin_end();
    void restart_if_answered();
    void turn(int signals);
    void handle_signal(int signals);
    void open_log_anew();
    void accept_programs();
    void answer_programs();

    DaemonPlace place_;
    Handover handed_over_;  // but for its lock
    Parameters parameters_;
    Mailbox mailbox_;
    std::optional<Keeper> keeper_;
    std::unique_ptr<Tracing> tracing_;
    std::optional<Commands> commands_;
    std::unique_ptr<ControlServer> control_;
    std::unique_ptr<net::MetricsServer> metrics_;
    std::optional<wire::AppSocket> app_socket_;
    NamedFile app_name_;  // of that
    std::list<Caller> callers_;
    Clock::time_point next_sweep_{};
    bool is_loss_told_ = false;  // of our place, since it was had last
    bool is_ending_ = false;
    std::optional<Clock::time_point> restarts_by_{};  // when it is to, at the latest
    bool is_over_ = false;
};

}  // namespace leat::sessiond
