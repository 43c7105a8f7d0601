#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "consumer/consumer.hpp"
#include "host/registrar.hpp"
#include "session/session.hpp"
#include "wire/app/app_socket.hpp"

namespace leat::host {

// One session with its rings, the consumer that drains them, and the output that its packets go to. It never waits,
// except in finish(): an Engine calls it when there is something to do. The registrar's thread runs beside it.
class Recording {
  public:
    using Clock = std::chrono::steady_clock;

    // The time between beacons of a live session that has events now and then.
    static constexpr std::chrono::milliseconds kLiveTick{200};

    struct Parameters {
        bool is_live = false;          // read while it runs: drained at every event
        std::uint64_t wake_after = 0;  // writers ring the doorbell at so many bytes in a ring, unless live
    };

    // Afterwards the output has the first metadata, and applications that connect to `socket` are registered. If it
    // fails, it removes what the output has made.
    static Result<std::unique_ptr<Recording>> create(session::Session session, std::unique_ptr<consumer::Output> output,
                                                     wire::AppSocket socket, const Parameters& parameters);

    // For the engine: its bell, the descriptors that it waits for, and when it is due at the latest.
    [[nodiscard]] std::uint32_t& doorbell() const { return session_.rings().doorbell(); }
    [[nodiscard]] std::vector<pollfd> wanted() const;
    [[nodiscard]] Clock::time_point deadline() const;
    // Does what is due. `fds` are those of wanted(), polled.
    void turn(bool has_rung, std::span<const pollfd> fds);

    // Drains the rings now, even if no drain is due.
    void drain();
    // Ends the recording: registers no more programs, stores what the rings hold, and waits until the output has it.
    void finish();
    // Call it instead of finish(): removes what was made for a recording that did not begin.
    void abandon() { output_->remove_if_unused(); }

    [[nodiscard]] const session::Session& session() const { return session_; }
    [[nodiscard]] const consumer::Consumer& consumer() const { return consumer_; }
    [[nodiscard]] const consumer::Output& output() const { return *output_; }
    // Warnings for the user, each once, in the order in which they came up.
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
    // Programs of another version came: warnings() say which.
    [[nodiscard]] bool has_refused_programs() const { return registrar_->has_refused(); }
    // The output's last error, if it did not recover.
    [[nodiscard]] const std::optional<Error>& output_error() const { return output_error_; }

  private:
    Recording(session::Session session, std::unique_ptr<consumer::Output> output, const Parameters& parameters);

    Result<void> begin(wire::AppSocket socket);
    [[nodiscard]] Clock::duration tick(Clock::time_point now) const;
    void run_output();
    void drain_if_due();
    Result<void> write_metadata();
    void deliver();
    void warn(const std::string& warning);
    void warn_all(const std::vector<std::string>& warnings);

    session::Session session_;
    std::unique_ptr<consumer::Output> output_;
    bool is_live_;
    consumer::Consumer consumer_;
    std::unique_ptr<Registrar> registrar_;
    std::string unwritten_metadata_;
    std::vector<std::string> warnings_;
    std::optional<Error> output_error_;
    Clock::time_point next_tick_{};
    Clock::time_point last_drain_{};
    Clock::time_point last_events_{};
    bool is_drain_due_ = false;
};

}  // namespace leat::host
