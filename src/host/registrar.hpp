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
#include "session/session.hpp"
#include "wire/app/app_socket.hpp"

namespace leat::host {

// Registers applications on a thread of its own, so that a slow disk or relay holds up no program's start.
//
// A program may write as soon as it is answered. So the registrar hands over the new event classes before it answers,
// and the host takes them after it has looked at the rings:
//
//     registrar   hands over "7 is io:queued", answers
//     program                                          writes a record of id 7
//     host                                                                     looks at the rings, takes, describes
class Registrar {
  public:
    static Result<std::unique_ptr<Registrar>> start(session::Session& session, wire::AppSocket socket);
    ~Registrar() { stop(); }
    Registrar(const Registrar&) = delete;
    Registrar& operator=(const Registrar&) = delete;

    // Answers the applications that came before, then ends the thread. Registers no others.
    void stop();

    // Programs came that are of another version. Any thread.
    [[nodiscard]] bool has_refused() const { return has_refused_; }
    // Event classes that got their ids since the last call. Any thread.
    [[nodiscard]] std::vector<ctf::EventClass> take_event_classes();
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
    void wait() const;
    void accept_applications();
    void handle_applications();
    void register_application(wire::AppConnection& connection);
    void hand_over(std::vector<ctf::EventClass> classes, std::vector<std::string> warnings);

    session::Session& session_;
    wire::AppSocket socket_;
    UniqueFd wake_up_;  // eventfd: the thread is to end
    std::vector<Waiting> waiting_;
    std::atomic<bool> is_ending_{false};
    std::atomic<bool> has_refused_{false};

    std::mutex lock_;  // of the two below
    std::vector<ctf::EventClass> classes_;
    std::vector<std::string> warnings_;

    std::thread thread_;
};

}  // namespace leat::host
