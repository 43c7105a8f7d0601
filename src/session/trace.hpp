#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/journal.hpp"
#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"
#include "ctf/record/record_walker.hpp"
#include "ring/ring_set.hpp"
#include "ring/shared_clock.hpp"
#include "session/channel.hpp"
#include "session/event_journal.hpp"
#include "session/memory_directory.hpp"
#include "session/registry.hpp"
#include "wire/app/app_protocol.hpp"
#include "wire/app/control_format.hpp"

namespace leat::session {

// A channel's part in one trace: its rings, and the ids of its events.
//
// Two threads use it: the one that registers applications enrolls their events; the other describes what they write. A
// class is handed over before its id is used, and described before a packet is cut that may hold its events:
//
//     registering   enrolls io:queued as 7 -> switches it on
//     program                                                -> writes a record of id 7
//     describing                                                looks at the rings -> describes 7 -> cuts a packet
class TraceChannel {
  public:
    // `number`: as programs know it. Clock, journal and budget outlive it; new event classes go to the journal and take
    // from the budget, if there are such.
    TraceChannel(const Channel& channel, std::size_t index, std::uint32_t number, ring::RingSet rings,
                 const ring::SharedClock& clock, EventJournal& journal, DescriptionBudget* budget);

    // Of the channel: for all threads, constant.
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] std::uint32_t number() const { return number_; }
    [[nodiscard]] const trace::FileLimits& files() const { return files_; }
    // How long its events may lie in the rings, us; 0: nobody has said.
    [[nodiscard]] std::uint32_t drain_period_us() const { return drain_period_us_; }
    [[nodiscard]] const ring::RingSet& rings() const { return rings_; }
    // Its events are for nothing but to be noticed.
    [[nodiscard]] bool is_trigger() const { return is_trigger_; }
    [[nodiscard]] ring::HeaderKind header_kind() const { return header_; }
    [[nodiscard]] const Contexts& contexts() const { return contexts_; }
    // A packet of a CPU's ring is of the first class, one of a thread's ring of the second.
    [[nodiscard]] std::uint64_t stream_class_id() const { return 2 * index_; }
    [[nodiscard]] std::uint64_t thread_stream_class_id() const { return 2 * index_ + 1; }
    // What a program is told and given that attaches it.
    [[nodiscard]] wire::ChannelMessage message() const;
    [[nodiscard]] bool has_app_contexts() const { return !contexts_.of_application.empty(); }
    [[nodiscard]] wire::AppContextNames app_context_names() const { return session::app_context_names(contexts_); }
    [[nodiscard]] int clock_fd() const { return clock_->fd(); }
    [[nodiscard]] bool is_blocking() const { return blocking_timeout_us_ != wire::kNoBlocking; }

    // Registering thread.
    struct Enrolled {
        std::uint32_t id = wire::kNotEnabled;
        std::vector<Conflict> conflict{};  // at most one
        std::string warning{};             // for the user; empty: all is well
        bool is_over_budget = false;
    };
    // Gives the id of an application's tracepoint; `index` is its number there. Asked again, it does not warn again,
    // but looks whether there is memory by now for what there was none for.
    Enrolled enroll(const Application& application, std::size_t index, OnConflict on_conflict);
    [[nodiscard]] std::size_t event_class_count() const { return registry_.size(); }

    // Before the threads: takes up the classes of the journal, in the order of ids, of which the first ones were
    // described.
    void restore(const std::deque<ctf::EventClass>& classes, std::size_t described, bool has_thread_streams);

    // Describing thread: whole metadata units that declare what was enrolled since the last call, for the streams of
    // CPUs, and if they have threads, for those of threads, too. From now on, their records are known.
    std::string describe_new(bool has_thread_streams);
    [[nodiscard]] const ctf::RecordWalker& walker() const { return walker_; }
    // One that knows all classes, also those that are not described yet. Registering thread.
    [[nodiscard]] ctf::RecordWalker walker_of_all() const;

  private:
    // Of one set of tracepoints: what became of each.
    struct Known {
        static constexpr std::uint32_t kUnknown = 0xffff'fffe;      // not asked yet
        static constexpr std::uint32_t kConflicting = 0xffff'fffd;  // has no id, unless a rule allows versions
        static constexpr std::uint32_t kOverBudget = 0xffff'fffc;   // may have room by now
        std::weak_ptr<const Tracepoints> tracepoints;               // if they are gone, the key means nothing
        std::vector<std::uint32_t> ids;
    };
    Known& known(const Application& application);

    std::string name_;
    std::size_t index_;
    ring::HeaderKind header_;
    Contexts contexts_;
    std::uint32_t blocking_timeout_us_;
    trace::FileLimits files_;
    std::uint32_t drain_period_us_;
    bool is_trigger_;
    std::uint32_t number_;
    ring::RingSet rings_;
    const ring::SharedClock* clock_;
    EventJournal* journal_;

    Registry registry_;
    std::unordered_map<const Tracepoints*, Known> known_;

    std::mutex lock_;  // of the next
    std::vector<ctf::EventClass> handed_over_;

    ctf::RecordWalker walker_;
    std::vector<ctf::EventClass> described_;
    bool has_thread_streams_ = false;
};

// Of the event that never happens: no other has it. See Trace::initial_metadata().
inline constexpr std::uint64_t kNoEvent = wire::kNotEnabled;

// A number that no other channel of this lane has.
std::uint32_t next_channel_number(wire::Lane lane);

// The part of a session that is stored as one trace: that of one user and ABI, or of one process.
class Trace {
  public:
    // What its rings have of what there is for all.
    struct Claim {
        std::shared_ptr<const void> memory{};    // given back when nobody has it any more
        std::shared_ptr<ring::MapShare> maps{};  // for rings of threads; null: as many as there are
    };
    struct Parameters {
        std::string session_name{};
        RegistryKey key{};
        wire::Lane lane = wire::Lane::kRecorder;
        std::string program{};  // if it is that of one process: its name
        pid_t vpid = 0;         // and what it calls itself
        std::string path{};     // empty: the usual one
        // It can be adopted: what it is lies in memory that outlives its process, if somebody keeps the descriptors.
        bool is_kept = false;
        // Where its memory is in files, which outlive everything: the directory of its session. Empty: they have none.
        std::filesystem::path memory_directory{};
        Claim claim{};
        // Further lines of the metadata's `env` block; keys are those of C identifiers.
        std::vector<ctf::EnvironmentEntry> environment{};
        // Of its clock; none: the system's.
        std::function<std::unique_ptr<ring::TimeSource>()> time_source{};
        DescriptionBudget* budget = nullptr;  // that its events take from; none: there is no limit
    };
    // Where the traces of processes lie, below the directory of a session.
    static constexpr char kDirectoryOfProcesses[] = "ust/pid";
    // Of a process, it has the time in it.
    static std::string usual_path(const Parameters& parameters);
    // Bytes of the rings of CPUs, once they are full. Those of threads come on top, if there are any.
    static std::uint64_t ring_memory(std::span<const Channel> channels);
    static std::uint64_t cpu_rings(std::span<const Channel> channels) {
        return channels.size() * ring::possible_cpus();
    }
    static Result<std::unique_ptr<Trace>> create(const Parameters& parameters, std::span<const Channel> channels);

    // What the next process must know of a trace, beside what lies in its memory.
    struct Shape {
        std::string path;
        struct OfChannel {
            std::uint32_t number;
            ring::RingSetGeometry geometry;
            std::uint64_t created;  // ns
        };
        std::vector<OfChannel> channels{};
    };
    [[nodiscard]] Shape shape() const;
    // The descriptors to keep: clock, registry, metadata, then the rings of each channel; of files, also their lock.
    [[nodiscard]] std::vector<int> memory() const;
    // Of a trace whose memory is in files; null: it is not.
    [[nodiscard]] MemoryDirectory* files() { return files_ ? &*files_ : nullptr; }
    // Where more of its memory is to be made.
    [[nodiscard]] const MemoryPlace& place() const;
    // Goes on with a trace whose process has ended. The channels are those of that trace.
    static Result<std::unique_ptr<Trace>> adopt(const Parameters& parameters, std::span<const Channel> channels,
                                                const Shape& shape, std::vector<UniqueFd> memory);
    // The same, with the memory opened.
    struct Memory {
        ring::SharedClock clock;
        Journal registry;
        Journal metadata;
        std::vector<ring::RingSet> rings{};
    };
    static Result<std::unique_ptr<Trace>> adopt(const Parameters& parameters, std::span<const Channel> channels,
                                                const Shape& shape, Memory memory);
    // How many rings each channel has.
    [[nodiscard]] std::vector<std::uint32_t> ring_counts() const;

    [[nodiscard]] const RegistryKey& key() const { return parameters_.key; }
    [[nodiscard]] const Parameters& parameters() const { return parameters_; }
    // Below the directory of a session: "ust/uid/1000/64-bit", or "ust/pid/nginx-4711-20261122-141500".
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] const ctf::Uuid& uuid() const { return *trace_class_.uuid; }
    [[nodiscard]] const std::vector<std::unique_ptr<TraceChannel>>& channels() const { return channels_; }
    [[nodiscard]] std::vector<std::string> channel_names() const;
    // Whether it is stored by snapshots alone: its rings overwrite.
    [[nodiscard]] bool is_for_snapshots() const;

    // The metadata before any event: trace, environment, clock, streams.
    [[nodiscard]] std::string initial_metadata() const;
    // Of its clock, by now; cycles. It differs from what the metadata says if somebody has set CLOCK_REALTIME
    // meanwhile.
    [[nodiscard]] std::uint64_t epoch_offset() const;
    // For the describing thread, of a trace that is kept: all metadata that was given to the output. Null: it is not
    // kept.
    [[nodiscard]] Journal* metadata() { return metadata_ ? &*metadata_ : nullptr; }
    // Another process may have begun to record it.
    [[nodiscard]] bool is_adopted() const { return is_adopted_; }
    [[nodiscard]] ring::SharedClock& clock() { return clock_; }
    [[nodiscard]] const ring::SharedClock& clock() const { return clock_; }

  private:
    Trace(const Parameters& parameters, std::string path, ring::SharedClock clock, ctf::TraceClass trace_class)
        : parameters_(parameters),
          path_(std::move(path)),
          clock_(std::move(clock)),
          trace_class_(std::move(trace_class)) {}
    void add_channel(const Channel& channel, std::uint32_t number, ring::RingSet rings);
    void restore(const ctf::TraceClass& enrolled, const ctf::TraceClass& described);

    Parameters parameters_;
    std::string path_;
    std::optional<MemoryDirectory> files_{};
    ring::SharedClock clock_;
    ctf::TraceClass trace_class_;        // without events
    std::optional<Journal> registry_{};  // TSDL: all classes, in the streams of CPUs
    EventJournal events_{};              // that ends it
    std::optional<Journal> metadata_{};  // TSDL: what was described
    bool is_adopted_ = false;
    std::vector<std::unique_ptr<TraceChannel>> channels_;
};

}  // namespace leat::session
