#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "session/channel.hpp"
#include "session/trace.hpp"
#include "session/tracked.hpp"
#include "wire/app/control_format.hpp"

namespace leat::session {

// What an application is to do, by all sessions that want something of it.
struct Orders {
    using Actions = std::vector<std::vector<wire::Action>>;
    explicit Orders(std::size_t tracepoints) : actions(tracepoints) {}
    // `what_was`: the actions of now, which give way to no new ones. It outlives this.
    explicit Orders(const Actions& what_was) : actions(what_was.size()), before(&what_was) {}

    Actions actions;                               // of each tracepoint; none: it is off
    const Actions* before = nullptr;               // null: they are all off
    std::vector<const TraceChannel*> channels{};   // that the actions name
    std::map<std::uint32_t, std::string> names{};  // of channels by number, for warnings
    bool is_waiting = false;                       // for a trace, which there is no room for
    std::vector<std::string> warnings{};           // for the user: what is not recorded, and why
};

// A session: which events people want, and the traces that they are recorded in, one for each user and ABI (or process)
// that has such events. One thread uses it, the one that registers applications; the traces tell what others may do.
class Session {
  public:
    // Whose events share rings, ids and a trace.
    enum class Buffers : std::uint8_t {
        kEverybody,  // of `leat record`: whatever it has started, of 32 bits or 64
        kUser,
        kPid,
    };
    struct Parameters {
        std::string name;
        wire::Lane lane = wire::Lane::kRecorder;
        Buffers buffers = Buffers::kEverybody;
        uid_t uid = 0;  // of the one trace of kEverybody
        std::vector<Channel> channels{};
        bool is_kept = false;  // its traces can be adopted
        // Where their memory is in files; see Trace::Parameters.
        std::filesystem::path memory_directory{};
        // Called with a trace that was just made, before any program has to do with it; if it fails, there is none.
        std::function<Result<void>(Trace& trace)> complete{};
        // What it stores are snapshots: its channels overwrite, but for the one whose events ask for them.
        bool is_for_snapshots = false;
        std::vector<std::string> snapshot_on{};  // patterns of those
        // Whether there may be one more trace, of these channels, and what it holds while it lives; none: there always
        // may.
        std::function<Result<Trace::Claim>(const RegistryKey& key, std::span<const Channel> channels)> admit{};
        // Of its traces; see Trace::Parameters.
        std::vector<ctf::EnvironmentEntry> environment{};
        std::function<std::unique_ptr<ring::TimeSource>()> time_source{};
        DescriptionBudgets* budgets = nullptr;  // that the events of each user take from; null: there is no limit
    };
    explicit Session(Parameters parameters) : parameters_(std::move(parameters)) {}

    [[nodiscard]] const std::string& name() const { return parameters_.name; }
    [[nodiscard]] wire::Lane lane() const { return parameters_.lane; }
    [[nodiscard]] bool is_for_snapshots() const { return parameters_.is_for_snapshots; }
    [[nodiscard]] const std::vector<std::string>& snapshot_on() const { return parameters_.snapshot_on; }
    [[nodiscard]] Buffers buffers() const { return parameters_.buffers; }
    void set_buffers(Buffers buffers) { parameters_.buffers = buffers; }
    // Channels may be added until there are traces, which have those that there are then. Rules may change at any time.
    [[nodiscard]] std::vector<Channel>& channels() { return parameters_.channels; }
    [[nodiscard]] const std::vector<Channel>& channels() const { return parameters_.channels; }
    [[nodiscard]] Tracked& tracked() { return tracked_; }
    [[nodiscard]] const Tracked& tracked() const { return tracked_; }

    // An inactive session wants nothing of anybody.
    void set_active(bool is_active) { is_active_ = is_active; }
    [[nodiscard]] bool is_active() const { return is_active_; }

    // [RFC-event-ids], algorithm 1: looks up each tracepoint that the rules match, gives ids, adds what to do. Makes
    // the trace of the application's user if it is the first with such events. If there is no room for that, the events
    // go to a channel without rings: the program counts them. Ask again when there may be room.
    void add_orders(const Application& application, Orders& orders);

    [[nodiscard]] RegistryKey key_of(const Application& application) const;
    // Makes it if there is none.
    Result<Trace*> trace_for(const Application& application);
    // One that another daemon has left. Gives it back if its process has become another program, which has a trace.
    std::unique_ptr<Trace> add_trace(std::unique_ptr<Trace> trace);
    // Takes it out of the session: a program with the same key gets another one.
    std::unique_ptr<Trace> take_trace(const RegistryKey& key);
    [[nodiscard]] const std::map<RegistryKey, std::unique_ptr<Trace>>& traces() const { return traces_; }
    // The channel that programs know by this number; null if it is none of this session.
    [[nodiscard]] const TraceChannel* find_channel(std::uint32_t number, const Trace** of = nullptr) const;
    // The name of the channel that programs know by this number, with rings or without; null if it is none of this
    // session.
    [[nodiscard]] const std::string* find_channel_name(std::uint32_t number) const;

    struct KnownConflict {
        std::string channel;
        Conflict conflict;
    };
    // The first ones.
    [[nodiscard]] const std::vector<KnownConflict>& conflicts() const { return conflicts_; }

    // Traces that there was no room for, but for those that have got it since, and why not the last one. The first is
    // warned of.
    struct Refused {
        std::set<RegistryKey> traces{};
        std::uint64_t events = 0;  // that there was no memory for
        std::string reason{};
    };
    [[nodiscard]] const Refused& refused() const { return refused_; }

    // For "nothing was recorded, because ...". A name counts once, however many files and programs have it.
    void count(const Application& application);
    struct Counts {
        std::uint64_t registrations = 0;
        std::uint64_t tracepoints = 0;
        std::uint64_t enabled = 0;
    };
    [[nodiscard]] Counts counts() const;

  private:
    struct Refusals;
    void add_orders(const Application& application, std::size_t index, Orders& orders, Refusals& refusals);
    void complete_conflicts(const std::string& channel, const Application& application,
                            const wire::TracepointDescription& tracepoint);
    Result<Trace*> make_trace(const Application& application, const RegistryKey& key);
    void refuse_event(uid_t uid, std::string& warning);
    bool refuse_trace(const RegistryKey& key, const std::string& reason);
    void add_waiting_orders(const Application& application, std::size_t index, Orders& orders, Refusals& refusals);
    static void add_action(const Application& application, std::size_t tracepoint, wire::Action action, Orders& orders,
                           Refusals& refusals);
    std::string unused_path(const Trace::Parameters& parameters);

    Parameters parameters_;
    Tracked tracked_;
    bool is_active_ = false;
    std::map<RegistryKey, std::unique_ptr<Trace>> traces_;
    std::set<std::string> paths_of_processes_;  // that were given lately
    std::vector<KnownConflict> conflicts_;
    Refused refused_;
    std::map<std::size_t, std::uint32_t> waiting_;  // numbers of channels without rings, by index
    std::uint64_t registrations_ = 0;
    std::set<std::string> names_seen_;
};

}  // namespace leat::session
