#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"
#include "session/channel.hpp"
#include "session/description_budget.hpp"
#include "session/event_rules.hpp"

namespace leat::session {

// More than any program has; a bound on what a hostile one costs.
inline constexpr std::size_t kMaxEventClasses = 1U << 20;

// Of one name: each new one is compared with all of them.
inline constexpr std::size_t kMaxVersions = 256;

// Where an event class comes from; for people.
struct EventOrigin {
    std::string program;  // "nginx"
    std::string place;    // "file.c:12"; one class may come from many places
    pid_t pid = 0;        // 0: not known

    // Of a class that was known before the daemon was started again, until a program has it.
    [[nodiscard]] bool is_known() const { return !program.empty(); }

    [[nodiscard]] std::string text() const;
};

[[nodiscard]] EventOrigin origin_of(const Application& application, const wire::TracepointDescription& tracepoint);

// Two events of one name that differ.
struct Conflict {
    std::string event;
    EventOrigin known;
    EventOrigin refused;
    std::string difference;  // as "field \"size\" is an integer of 32 bits there, of 64 bits here"

    // The whole story in one line.
    [[nodiscard]] std::string text() const;
};

// The event classes of one session, ABI, channel and user, and their ids ([RFC-event-ids], algorithm 1).
// Ids are given once and never to another event.
class Registry {
  public:
    // Its classes take from the budget; null: there is none.
    explicit Registry(DescriptionBudget* budget = nullptr) : budget_(budget) {}
    ~Registry();
    Registry(const Registry&) = delete;
    Registry& operator=(const Registry&) = delete;

    struct Enrolled {
        std::uint32_t id;
        bool is_new;  // the caller has a metadata unit to write before the id may be used
    };
    struct Refusal {
        Error error;
        std::vector<Conflict> conflict{};  // at most one
        bool is_over_budget = false;
    };

    // Gives the id of an event class: its old one if the same class was enrolled before, else the next one.
    // `event_class.id` is ignored. Refuses it if there are too many classes, or there is no memory for more; or if the
    // name is known with another description, unless a rule allows that and it has fewer than kMaxVersions.
    tl::expected<Enrolled, Refusal> enroll(ctf::EventClass event_class, const EventOrigin& origin,
                                           OnConflict on_conflict = OnConflict::kRefuse);

    // As if the class that was enrolled last had not been: its id is not used yet.
    void take_back_last();

    // Takes up what another registry had, in the order of ids.
    void restore(ctf::EventClass event_class);

    [[nodiscard]] const ctf::EventClass& event_class(std::uint32_t id) const { return classes_[id].event_class; }
    [[nodiscard]] std::size_t size() const { return classes_.size(); }

  private:
    std::uint32_t add(ctf::EventClass event_class, EventOrigin origin);

    struct Entry {
        ctf::EventClass event_class;
        EventOrigin origin;
    };
    DescriptionBudget* budget_;
    std::int64_t taken_ = 0;     // from the budget
    std::deque<Entry> classes_;  // by id
    std::map<std::string, std::vector<std::uint32_t>>
        by_name_;  // more than one: versions. No hash: programs choose names
};

}  // namespace leat::session
