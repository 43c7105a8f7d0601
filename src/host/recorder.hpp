#pragma once

#include <poll.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "consumer/progress.hpp"
#include "host/destination.hpp"
#include "host/engine.hpp"
#include "host/flight_recorder.hpp"
#include "host/registrar.hpp"
#include "session/limits.hpp"
#include "session/session.hpp"

namespace leat::host {

// What `leat record` runs: a session with one trace for all programs that it has started, whoever they run as. The
// caller's thread turns the engine; the registrar's registers programs.
class Recorder {
  public:
    // Programs are registered that look into `runtime_directory`. Buffers and user of the parameters are ours to say.
    static Result<std::unique_ptr<Recorder>> create(session::Session::Parameters parameters,
                                                    const std::filesystem::path& runtime_directory,
                                                    const Destination& destination, const session::Limits& limits = {});
    // The same with an output that is open.
    static Result<std::unique_ptr<Recorder>> create(session::Session::Parameters parameters,
                                                    const std::filesystem::path& runtime_directory,
                                                    std::unique_ptr<consumer::Output> output,
                                                    const Recording::Parameters& recording);

    // What became of the snapshots that programs and events asked for, since the last call.
    [[nodiscard]] std::vector<Result<StoredSnapshot>> take_snapshots_made() { return std::exchange(made_, {}); }
    // Of a session whose channels overwrite. Its maximum size is that of each snapshot.
    Result<StoredSnapshot> take_snapshot();

    // As Engine::turn(). Ends the recording at its limits: programs are switched off, and go on.
    void turn(std::span<pollfd> own, Engine::Clock::duration longest = std::chrono::hours(1));
    // Whether a limit has ended it, or is about to: programs may write on for a moment.
    [[nodiscard]] session::StoppedBy stopped_by() const { return stopped_by_; }
    // A limit has ended it, and all programs that we know are switched off.
    [[nodiscard]] bool is_stopped() const { return is_leaving_out_; }
    // Registers no more programs, stores what the rings hold, and waits until the output has it, as Engine::finish().
    void finish();
    // Call it instead of finish(): removes what was made for a recording that did not begin.
    void abandon();
    // After finish(), when all that the rings hold is stored: removes the files that they lie in, if they do.
    void remove_files();
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    [[nodiscard]] const Recording& recording() const { return *recording_; }
    [[nodiscard]] Recording& recording() { return *recording_; }
    // After finish().
    [[nodiscard]] session::Session::Counts counts() const { return session_.counts(); }
    // After finish(): events that programs could not write, because they have not got the rings.
    [[nodiscard]] std::uint64_t not_attached() const { return not_attached_; }
    // Programs of another version came: the recording's warnings say which.
    [[nodiscard]] bool has_refused_programs() const { return registrar_->has_refused(); }

  private:
    Recorder(session::Session::Parameters parameters, const Destination& destination, const session::Limits& limits);
    Result<session::Trace*> make_trace();
    Result<void> complete(session::Trace& trace, const Destination& destination);
    Result<void> begin(wire::AppSocket socket, std::unique_ptr<Recording> recording);
    void keep_limits();
    void stop(session::StoppedBy by);

    session::Session session_;
    std::optional<consumer::Progress> progress_{};  // of a trace whose memory is in files
    session::Limits limits_;
    consumer::SizeLimit size_limit_;
    Engine::Clock::time_point stops_at_ = Engine::Clock::time_point::max();
    session::StoppedBy stopped_by_ = session::StoppedBy::kNobody;
    // After it was stopped: when programs are switched off once more, and how often.
    Engine::Clock::time_point next_switch_off_ = Engine::Clock::time_point::max();
    int switch_offs_left_ = 0;
    bool is_leaving_out_ = false;
    std::unique_ptr<Engine> engine_;
    Recording* recording_ = nullptr;
    std::unique_ptr<Registrar> registrar_;
    std::uint64_t not_attached_ = 0;
    FlightRecorder flight_recorder_;
    std::vector<Result<StoredSnapshot>> made_;
};

}  // namespace leat::host
