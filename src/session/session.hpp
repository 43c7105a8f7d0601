#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"
#include "ctf/record/record_walker.hpp"
#include "ring/event_header.hpp"
#include "ring/ring_set.hpp"
#include "ring/shared_clock.hpp"
#include "session/event_rules.hpp"
#include "session/registry.hpp"
#include "wire/app/app_socket.hpp"

namespace leat::session {

struct SessionParameters {
    std::string name;
    EventRules rules{};
    ring::HeaderKind header = ring::HeaderKind::kCompact;
    std::uint32_t contexts = wire::kDefaultContexts;
    std::uint64_t ring_size = 1U << 20;
    uid_t uid = 0;
};

// The result of an application's registration.
struct RegistrationOutcome {
    std::vector<std::uint32_t> event_ids{};      // for each of its tracepoints; wire::kNotEnabled
    std::vector<ctf::EventClass> new_classes{};  // to describe() before any packet is cut from what the rings then hold
    std::vector<std::string> warnings{};         // for the user: which tracepoints are not recorded, and why
};

// A recording session with one channel, for the programs of one user: which events are wanted, what they are called
// in the trace, and the rings they go to. Two threads may use it: one registers applications and answers them, the
// other describes what they write. Members that both need are constant.
class Session {
  public:
    static Result<Session> create(const SessionParameters& parameters);

    // The metadata before any event: trace, environment, clock, stream.
    [[nodiscard]] std::string initial_metadata() const;

    // [RFC-event-ids], algorithm 1: looks up each tracepoint that the rules match, gives ids. Registering thread.
    RegistrationOutcome register_application(const wire::AppRegistration& application);

    // Switches the application's tracepoints as `event_ids` say, and hands it the channel that they go to. Registering
    // thread.
    Result<void> enable(wire::AppConnection& application, wire::ControlFile& control,
                        const std::vector<std::uint32_t>& event_ids) const;

    // Returns whole metadata units that declare these event classes. From now on, their records are known. Describing
    // thread.
    std::string describe(const std::vector<ctf::EventClass>& classes);
    // Returns metadata units that declare the streams of rings that belong to threads, which most traces do not have,
    // with all classes so far. From now on, describe() declares classes for these streams, too. Returns nothing if that
    // was done before. Describing thread.
    std::string describe_thread_streams();

    [[nodiscard]] const ring::RingSet& rings() const { return rings_; }
    [[nodiscard]] ring::SharedClock& clock() { return clock_; }
    [[nodiscard]] const ctf::RecordWalker& walker() const { return walker_; }
    [[nodiscard]] const ctf::TraceClass& trace_class() const { return trace_class_; }

    // For "nothing was recorded, because ...". A name counts once, however many files and programs have it. Registering
    // thread.
    struct Counts {
        std::uint64_t registrations = 0;
        std::uint64_t tracepoints = 0;
        std::uint64_t enabled = 0;
    };
    [[nodiscard]] Counts counts() const { return {registrations_, names_seen_.size(), registry_.size()}; }

  private:
    Session(const SessionParameters& parameters, ring::SharedClock clock, ring::RingSet rings);

    Result<Registry::Enrolled> enroll(const wire::TracepointDescription& tracepoint);

    SessionParameters parameters_;
    ring::SharedClock clock_;
    ring::RingSet rings_;
    std::uint32_t channel_number_;
    Registry registry_;
    ctf::TraceClass trace_class_;
    ctf::RecordWalker walker_;
    std::uint64_t registrations_ = 0;
    std::unordered_set<std::string> names_seen_;
    std::vector<ctf::EventClass> described_;
    bool has_thread_streams_ = false;
};

inline constexpr std::uint64_t kStreamClassId = 0;        // of rings that belong to CPUs
inline constexpr std::uint64_t kThreadStreamClassId = 1;  // of rings that belong to threads

}  // namespace leat::session
