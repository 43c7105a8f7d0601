#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "consumer/consumer.hpp"
#include "consumer/snapshots.hpp"
#include "host/drain_pace.hpp"
#include "output/kept_metadata.hpp"
#include "session/trace.hpp"

namespace leat::host {

// One trace with its rings, the consumer that drains them, and the output that its packets go to. It never waits: an
// Engine calls it when there is something to do. Another thread enrolls events in the trace.
//
// It settles and ends in steps, each in a turn of its own if need be. The rings keep what is not stored:
//
//     running --begin_settle()--> draining --> storing --> settled --resume()--> running
//     running --begin_finish()--> draining --> storing --> closing --> finished
//                                    |            |         ^ |           ^
//                                    +------------+-------->+ +-----------+ give_up()
//
//     draining   what the rings hold is cut into packets, as far as the output stores them
//     storing    all is cut, and what was discarded is told: until the output has stored it for good
//     settled    nothing is cut, and nothing is under way
//     closing    readers learn that this is the end; a relay beside a directory gets what it has not got yet
class Recording {
  public:
    using Clock = std::chrono::steady_clock;

    // The time between beacons of a live session that has events now and then.
    static constexpr std::chrono::milliseconds kLiveTick{200};

    // Without events for so long, a recording is quiet.
    static constexpr std::chrono::seconds kQuietAfter{2};

    struct Parameters {
        bool is_live = false;  // read while it runs: drained at every event
        // Unless live, writers ring the doorbell when this part of a ring is full: a half, a quarter.
        std::uint64_t wake_at_part = 2;
        // The output keeps copies of packets, and has limited memory for them: a drain must not bring it too many.
        bool is_copied = false;
        // Of a trace that is kept: where its streams are. Outlives the recording.
        consumer::Progress* progress = nullptr;
        // Of the session; null: there is none. Outlives the recording.
        consumer::SizeLimit* limit = nullptr;
        // For snapshots: called before an event that asks for one is taken out of its ring.
        std::function<void()> before_wish{};
        // An output that takes nothing for so long is stuck.
        Clock::duration patience = consumer::Output::kPatience;
        // As consumer::Consumer::Parameters::touched_at_first.
        std::uint64_t touched_at_first = consumer::Consumer::kTouchedAtFirst;
    };

    // Afterwards the output has the first metadata. If it fails, it removes what the output has made. The trace
    // outlives the recording.
    static Result<std::unique_ptr<Recording>> create(session::Trace& trace, std::unique_ptr<consumer::Output> output,
                                                     const Parameters& parameters);

    // The same for a trace of which only snapshots are stored. Its rings keep what happened last; channels that tell
    // when one is to be made are drained.
    static Result<std::unique_ptr<Recording>> create_for_snapshots(session::Trace& trace, const Parameters& parameters);

    // For the engine: its bells, the descriptors that it waits for, and when it is due at the latest.
    [[nodiscard]] std::vector<std::uint32_t*> doorbells() const;
    [[nodiscard]] std::vector<pollfd> wanted() const;
    [[nodiscard]] Clock::time_point deadline() const;
    // Whether it has had no events for a while, and has nothing left to store.
    [[nodiscard]] bool is_quiet() const { return !output_error_ && Clock::now() - last_events_ >= kQuietAfter; }
    // `is_wanted`: all that its readers follow is quiet. Unless it is live, it then does less often what nobody asks
    // for, and the next record rings its bell.
    void rest(bool is_wanted);
    // Does what is due. `fds` are those of wanted(), polled.
    void turn(bool has_rung, std::span<const pollfd> fds);

    // Stores what the rings hold, up to `max_size` bytes (0: no limit), and leaves them as they are. Waits for the
    // output. Of a recording for snapshots.
    Result<consumer::SnapshotTotals> take_snapshot(consumer::Output& output, std::uint64_t max_size);
    // What the rings hold by now is in no snapshot that comes.
    void forget() { for_snapshots_->rings.forget(); }
    // Whether somebody has asked for a snapshot since the last look: a program, or an event.
    [[nodiscard]] bool notice_snapshot_wanted();

    // Drains the rings now, even if no drain is due.
    void drain();
    // Stores what the rings hold by now, and leaves out what comes after that: tracepoints are off, or should be.
    void leave_out_rest();
    // Stores what the rings hold and tells what was discarded by now: it takes turns while is_storing(). Nothing is
    // drained until resume().
    void begin_settle();
    void resume() { state_ = State::kRunning; }
    // Writes the metadata again, with the time of day that the system has by now.
    Result<void> sample_clock_offset();
    // Ends the recording: it takes turns until it is finished. If it was begun before, the patience begins anew.
    void begin_finish();
    [[nodiscard]] bool is_finished() const { return state_ == State::kFinished; }
    // Whether it settles or ends, and the rings still have what is not stored for good.
    [[nodiscard]] bool is_storing() const { return state_ == State::kDraining || state_ == State::kStoring; }
    // Whether that comes no further: the output has failed, or has taken nothing for as long as there is patience.
    [[nodiscard]] bool is_stuck() const {
        return (output_error_ && state_ != State::kClosing) || Clock::now() - last_taken_at_ >= patience_;
    }
    // Why it does not come further; what is not stored, if it is that.
    [[nodiscard]] std::optional<Error> trouble() const;
    // Of one that ends and is stuck: goes on without what has not come about by now; what only the rings have is lost,
    // and output_error() says what that is. Then it closes, or is finished.
    void give_up();
    // The same, until it is finished.
    void finish_now();
    // Call it instead of begin_finish(): removes what was made for a recording that did not begin.
    void abandon() { output_->remove_if_unused(); }
    // Events that the rings of a trace hold, of which this process has made no recording. `progress`: of one before, if
    // there was one.
    static std::uint64_t count_unrecorded(const session::Trace& trace, const consumer::Progress* progress);

    [[nodiscard]] const session::Trace& trace() const { return trace_; }
    [[nodiscard]] const consumer::Consumer& consumer() const { return consumer_; }
    [[nodiscard]] bool is_for_snapshots() const { return for_snapshots_.has_value(); }
    // Events that programs did not write, by reason; and all that are not in the trace.
    [[nodiscard]] std::uint64_t discarded(ring::DiscardReason reason) const;
    [[nodiscard]] std::uint64_t discarded() const;
    [[nodiscard]] const consumer::Output& output() const { return *output_; }
    // To rotate and clear it, settled.
    [[nodiscard]] consumer::Output& output() { return *output_; }
    // Warnings for the user, each once, in the order in which they came up.
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
    void warn(const std::string& warning);
    void warn_all(const std::vector<std::string>& warnings);
    // Why nothing is stored at present; empty if nothing is known to stand in the way.
    [[nodiscard]] std::string storage_trouble() const;
    // The output's last error, if it did not recover.
    [[nodiscard]] const std::optional<Error>& output_error() const { return output_error_; }

  private:
    enum class State { kRunning, kDraining, kStoring, kSettled, kClosing, kFinished };

    Recording(session::Trace& trace, std::unique_ptr<consumer::Output> output, const Parameters& parameters);

    static Result<std::unique_ptr<Recording>> begin(std::unique_ptr<Recording> recording);
    Result<void> begin();
    [[nodiscard]] std::uint64_t snapshots_wanted() const;
    [[nodiscard]] bool is_resting() const;
    // At the end, what a ring holds that cannot be mapped now would be lost.
    [[nodiscard]] bool awaits_mapping() const {
        return is_ending_ && state_ == State::kDraining && consumer_.unmapped();
    }
    [[nodiscard]] Clock::duration drain_period() const;
    [[nodiscard]] Clock::duration pause() const;
    [[nodiscard]] bool answers_can_wait() const;
    void run_output();
    void drain_by(Result<void> (consumer::Consumer::*act)());
    void drain_if_due();
    void begin_storing();
    void step_to_end();
    void tell_rest();
    void close();
    void finish();
    Result<void> keep(std::string_view metadata);
    Result<void> write_metadata();

    session::Trace& trace_;
    std::unique_ptr<consumer::Output> output_;
    bool is_live_;
    Clock::duration longest_;  // that an event may lie in a ring
    DrainPace pace_;
    Clock::duration patience_;
    consumer::Consumer consumer_;
    struct ForSnapshots {
        consumer::Snapshots rings;
        const output::KeptMetadata* metadata;  // our output
        // So often, as last noticed. What was asked for before the recording began, or while no daemon was there, is
        // met as well; of a trace that goes on, nobody knows what was.
        std::uint64_t wanted = 0;
    };
    std::optional<ForSnapshots> for_snapshots_{};
    std::string unkept_metadata_;
    std::string unwritten_metadata_;
    std::vector<std::string> warnings_;
    std::optional<Error> output_error_;
    Clock::time_point next_tick_{};   // of the clock
    Clock::time_point next_drain_{};  // that nothing asks for
    Clock::time_point last_drain_{};
    Clock::time_point last_events_{};
    bool is_drain_due_ = false;
    bool is_to_leave_out_ = false;  // once all is cut that the rings hold
    bool may_rest_ = false;
    State state_ = State::kRunning;
    std::uint64_t taken_ = 0;            // by the output
    Clock::time_point last_taken_at_{};  // or when it began to settle, end or close
    bool is_ending_ = false;
};

}  // namespace leat::host
