#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/child_process.hpp"
#include "cli/readable_signals.hpp"
#include "consumer/consumer.hpp"
#include "consumer/doorbell_waiter.hpp"
#include "consumer/trace_directory.hpp"
#include "session/session.hpp"
#include "wire/app_socket.hpp"

namespace leat::cli {

// Session, consumer and output in one process, for as long as one program runs. One thread, one poll loop.
class Recording {
  public:
    // Everything is ready to hear from applications that look into `runtime_directory`; the metadata is on disk.
    static Result<std::unique_ptr<Recording>> create(const session::SessionParameters& parameters,
                                                     const std::filesystem::path& runtime_directory,
                                                     const std::filesystem::path& trace);

    // Starts the program and records until it has ended; passes signals on to it. Fails if it cannot be started.
    Result<int> run(const std::vector<std::string>& command, const std::vector<ChildProcess::Variable>& variables);

    [[nodiscard]] const session::Session& session() const { return session_; }
    [[nodiscard]] const consumer::Consumer& consumer() const { return consumer_; }
    [[nodiscard]] consumer::TraceDirectory& output() { return *output_; }
    // What the user should know: each once, in the order in which it happened.
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
    // The output's last word, if it failed and did not recover.
    [[nodiscard]] const std::optional<Error>& output_error() const { return output_error_; }

  private:
    struct Waiting {
        wire::AppConnection connection;
        std::chrono::steady_clock::time_point since;
    };

    Recording(session::Session session, wire::AppSocket socket, std::unique_ptr<consumer::TraceDirectory> output,
              std::uint64_t wake_after);

    void wait();
    void handle_signals(const ChildProcess& child);
    void accept_applications();
    void handle_applications();
    void register_application(wire::AppConnection& connection);
    Result<void> write_metadata();
    void drain();
    void finish();
    void warn(const std::string& warning);

    ReadableSignals signals_;
    session::Session session_;
    wire::AppSocket socket_;
    std::unique_ptr<consumer::TraceDirectory> output_;
    consumer::Consumer consumer_;
    std::unique_ptr<consumer::DoorbellWaiter> doorbell_;
    std::vector<Waiting> waiting_;
    std::string unwritten_metadata_;
    std::vector<std::string> warnings_;
    std::optional<Error> output_error_;
    std::chrono::steady_clock::time_point last_tick_;
};

}  // namespace leat::cli
