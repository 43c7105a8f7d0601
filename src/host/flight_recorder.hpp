#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "consumer/snapshots.hpp"
#include "host/destination.hpp"
#include "host/recording.hpp"

namespace leat::host {

// What somebody wants of a snapshot.
struct SnapshotOrder {
    std::string name = "snapshot-1";
    std::uint64_t max_size = 0;  // bytes of its streams; 0: no limit
    bool is_limited = false;     // by whoever wants it: it may have less than others have asked for
    // Where it goes, if not to where the session's go: a directory, itself new, or a relay.
    std::filesystem::path directory{};
    std::optional<net::RelayAddress> relay{};
};

struct StoredSnapshot {
    std::filesystem::path directory;  // at a relay: below its output directory
    std::string relay{};              // HOST:PORT; empty: none
    consumer::SnapshotTotals totals;  // of all traces
};

// Stores snapshots of the traces of a session, each in a directory of its own, named as LTTng's ([LTTng-2.13]):
// NAME-YYYYMMDD-HHMMSS-ID. Each is a trace directory that can be read by itself, or with the others; it gets that name
// when it is whole, or at a relay, its metadata.
//
// Where a relay does not take a snapshot that was asked for by a program, an event or a crash, or a disk has no room
// for it, it stays wanted, and is due again after a pause that doubles each time. One thread.
class FlightRecorder {
  public:
    using Clock = Recording::Clock;

    // Programs, events and crashes may ask for many snapshots. The next one is due so long after the last began.
    static constexpr std::chrono::seconds kPause{1};
    static constexpr std::chrono::seconds kLongestPause{60};  // where none can be stored

    FlightRecorder(Destination destination, std::string session)
        : destination_(std::move(destination)), session_(std::move(session)) {}

    // When the session was started first, in s since the epoch, if that was not when this was made.
    void note_start(std::time_t start) { start_ = start; }
    // Another daemon was killed, which may have made snapshots until now: ours have other names, which have their time.
    // What it had not finished is removed.
    void go_on_after_another();

    // Of all these traces. A maximum is divided evenly among them. Waits until it is stored. If it fails, what was
    // stored by then in a directory can be read, if that is anything; of one that is wanted and tried again, only what
    // the first try has stored stays. One that goes somewhere else, or is limited, leaves those that are wanted due.
    Result<StoredSnapshot> take(std::span<Recording* const> recordings, const SnapshotOrder& order);
    // The same of one trace that is about to end, whatever is due: the one of all stays wanted.
    Result<StoredSnapshot> take_last(Recording& recording, const SnapshotOrder& order);

    // Takes back the directory of a session that did not begin.
    void remove_if_unused() const;

    // Looks whether programs or events have asked for one.
    void notice(std::span<Recording* const> recordings);
    // Somebody asks whom notice() does not see: a crash.
    void ask() {
        is_wanted_ = true;
        part_.clear();  // what is stored of this one, nobody has yet
    }
    // When the one is due that was asked for.
    [[nodiscard]] Clock::duration until_due() const;
    [[nodiscard]] bool is_due() const { return until_due() <= Clock::duration(0); }
    [[nodiscard]] bool is_wanted() const { return is_wanted_; }
    // By take_last(), since somebody asked: if there is nobody else, nothing is missing.
    [[nodiscard]] bool is_met_in_part() const { return is_met_in_part_; }
    void forget_wish() { is_wanted_ = is_passed_on_ = is_met_in_part_ = false; }
    // Whether the last one could not be stored where they all go, as a relay or a disk was not well. Until the next is
    // due, it is not tried.
    [[nodiscard]] bool is_failing() const { return failures_ != 0; }
    // The host has told its daemon that one is due. It is not due again, but stays wanted until it is taken.
    void pass_on() { is_passed_on_ = true; }

  private:
    [[nodiscard]] std::filesystem::path directory_for(const SnapshotOrder& order);
    [[nodiscard]] Clock::duration pause() const;
    // `part`: what was stored of the same wish by a try that failed, and stays; it is set if there is any. Null: this
    // is nobody's wish.
    Result<StoredSnapshot> store(std::span<Recording* const> recordings, const SnapshotOrder& order,
                                 std::filesystem::path* part = nullptr);
    Result<StoredSnapshot> store_in_directory(std::span<Recording* const> recordings, const SnapshotOrder& order,
                                              std::filesystem::path* part);
    Result<StoredSnapshot> store_at_relay(std::span<Recording* const> recordings, const SnapshotOrder& order,
                                          const net::RelayAddress& relay);
    struct Sent {
        std::vector<std::unique_ptr<output::RelaySnapshot>> outputs{};
        std::optional<Error> failure{};  // of a trace that is not among them
    };
    Result<Sent> send(std::span<Recording* const> recordings, const SnapshotOrder& order,
                      const net::RelayAddress& relay, const output::SnapshotDescription& description,
                      consumer::SnapshotTotals& totals);
    void note_failure();
    tl::unexpected<Error> relay_failed(const net::RelayAddress& relay, Error error);
    Result<void> write(std::span<Recording* const> recordings, const SnapshotOrder& order,
                       const std::filesystem::path& place, consumer::SnapshotTotals& totals) const;
    Result<consumer::SnapshotTotals> write_trace(Recording& recording, const Destination& destination,
                                                 std::uint64_t max_size) const;

    Destination destination_;
    std::string session_;
    std::time_t start_ = std::time(nullptr);
    std::time_t earliest_ = 0;
    std::array<std::uint8_t, 16> sender_ = output::random_sender();
    unsigned next_id_ = 0;
    unsigned failures_ = 0;         // of the relay or disk, since it took one
    std::filesystem::path part_{};  // of the snapshot that is wanted: what could be stored
    bool is_wanted_ = false;
    bool is_passed_on_ = false;
    bool is_met_in_part_ = false;
    std::optional<Clock::time_point> last_{};
};

}  // namespace leat::host
