#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "host/recorded_programs.hpp"
#include "session/session.hpp"
#include "wire/app/app_socket.hpp"

namespace leat::host {

// Registers the applications of one session on a thread of its own, so that a slow disk or relay holds up no program's
// start. Nobody else uses the session meanwhile, but for its traces.
class Registrar {
  public:
    static Result<std::unique_ptr<Registrar>> start(session::Session& session, wire::AppSocket socket);
    ~Registrar() { stop(); }
    Registrar(const Registrar&) = delete;
    Registrar& operator=(const Registrar&) = delete;

    // Answers the applications that came before, then ends the thread. Registers no others.
    void stop();

    // Switches off what programs record for the session, and what programs that come later would. Once more: also of
    // children that were being made meanwhile, and had what their parents had. Any thread.
    void switch_off();
    // Whether that is done. Any thread.
    [[nodiscard]] bool is_switched_off() const { return switched_off_ != 0 && switched_off_ == to_switch_off_; }

    // After stop(): as RecordedPrograms::not_attached().
    [[nodiscard]] std::uint64_t not_attached() const { return programs_.not_attached(); }

    // Programs came that are of another version. Any thread.
    [[nodiscard]] bool has_refused() const { return has_refused_; }
    // Warnings for the user since the last call. Any thread.
    [[nodiscard]] std::vector<std::string> take_warnings();

  private:
    using Clock = std::chrono::steady_clock;
    struct Waiting {
        wire::AppConnection connection;
        Clock::time_point since;
    };

    Registrar(session::Session& session, wire::AppSocket socket, UniqueFd wake_up);
    void run();
    void switch_off_now();
    void wait() const;
    void accept_applications();
    void handle_applications();
    void register_application(wire::AppConnection& connection);
    void attach(wire::AppConnection& connection, const wire::AttachRequest& request);
    Result<void> answer(wire::AppConnection& connection, wire::RegisteredApp registered);
    void warn(std::vector<std::string> warnings);

    session::Session& session_;
    wire::AppSocket socket_;
    UniqueFd wake_up_;  // eventfd: the thread is to end, or to switch off
    RecordedPrograms programs_;
    std::vector<Waiting> waiting_;
    std::atomic<bool> is_ending_{false};
    std::atomic<unsigned> to_switch_off_{0};  // how often
    std::atomic<unsigned> switched_off_{0};
    std::atomic<bool> has_refused_{false};

    std::mutex lock_;  // of the next
    std::vector<std::string> warnings_;

    std::thread thread_;
};

}  // namespace leat::host
