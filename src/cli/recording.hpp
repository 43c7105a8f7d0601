#pragma once

#include <poll.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/child_process.hpp"
#include "cli/readable_signals.hpp"
#include "cli/registrar.hpp"
#include "consumer/consumer.hpp"
#include "consumer/doorbell_waiter.hpp"
#include "consumer/relay_output.hpp"
#include "consumer/trace_directory.hpp"
#include "session/session.hpp"
#include "wire/app/app_socket.hpp"

namespace leat::cli {

// Where a recording goes.
struct Destination {
    std::filesystem::path directory{};  // if there is no relay
    std::optional<consumer::RelayAddress> relay{};
    bool is_live = false;  // read while it runs
    // Of each stream: bytes, and how many are kept. 0: without limit. Only a relay takes them.
    std::uint64_t tracefile_size = 0;
    std::uint64_t tracefile_count = 0;
};

// Session, consumer and output in one process, for as long as one program runs. One thread, one poll loop; beside it,
// the registrar's.
class Recording {
  public:
    // Everything is ready to hear from applications that look into `runtime_directory`; the output has the metadata.
    static Result<std::unique_ptr<Recording>> create(const session::SessionParameters& parameters,
                                                     const std::filesystem::path& runtime_directory,
                                                     const Destination& destination);

    // Starts the program and records until it has ended; passes signals on to it. Fails if it cannot be started.
    Result<int> run(const std::vector<std::string>& command, const std::vector<ChildProcess::Variable>& variables);

    [[nodiscard]] const session::Session& session() const { return session_; }
    [[nodiscard]] const consumer::Consumer& consumer() const { return consumer_; }
    [[nodiscard]] consumer::Output& output() { return *output_; }
    // Nothing if it goes into a directory.
    [[nodiscard]] const consumer::RelayOutput* relay() const { return relay_; }
    // What the user should know: each once, in the order in which it happened.
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
    // The output's last word, if it failed and did not recover.
    [[nodiscard]] const std::optional<Error>& output_error() const { return output_error_; }

  private:
    using Clock = std::chrono::steady_clock;

    Recording(session::Session session, std::unique_ptr<consumer::Output> output, consumer::RelayOutput* relay,
              std::uint64_t wake_after);

    static Result<std::unique_ptr<Recording>> create(session::Session session, wire::AppSocket socket,
                                                     const session::SessionParameters& parameters,
                                                     const Destination& destination);
    Result<void> begin(wire::AppSocket socket, bool is_live);
    // What there is to do.
    struct Woken {
        bool by_signal;
        bool by_relay;
    };
    Woken wait();
    [[nodiscard]] Clock::time_point deadline() const;
    [[nodiscard]] Clock::duration tick(Clock::time_point now) const;
    [[nodiscard]] std::vector<pollfd> wanted() const;
    void run_relay();
    void drain_if_due();
    void handle_signals(const ChildProcess& child);
    Result<void> write_metadata();
    void drain();
    void finish();
    void deliver();
    void warn(const std::string& warning);

    ReadableSignals signals_;
    session::Session session_;
    std::unique_ptr<consumer::Output> output_;
    consumer::RelayOutput* relay_;  // the output, if it is one
    bool is_live_;                  // read while it runs
    consumer::Consumer consumer_;
    std::unique_ptr<consumer::DoorbellWaiter> doorbell_;
    std::unique_ptr<Registrar> registrar_;
    std::string unwritten_metadata_;
    std::vector<std::string> warnings_;
    std::optional<Error> output_error_;
    Clock::time_point next_tick_{};
    Clock::time_point last_drain_{};
    Clock::time_point last_events_{};
    bool is_drain_due_ = false;
};

}  // namespace leat::cli
