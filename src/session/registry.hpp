#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::session {

// More than any program has; a bound on what a hostile one costs.
inline constexpr std::size_t kMaxEventClasses = 1U << 20;

// The event classes of one session, ABI, channel and user, and their ids ([RFC-event-ids], algorithm 1).
// Ids are given once and never to another event.
class Registry {
  public:
    struct Enrolled {
        std::uint32_t id;
        bool is_new;  // the caller has a metadata unit to write before the id may be used
    };

    // Gives the id of an event class: its old one if the same class was enrolled before, else the next one.
    // `event_class.id` is ignored. Fails when the name is known with other fields or another log level, or when there
    // are too many classes. `place`, as "file.c:12", is only for that error: one class may come from many places.
    Result<Enrolled> enroll(ctf::EventClass event_class, std::string place);

    [[nodiscard]] const ctf::EventClass& event_class(std::uint32_t id) const { return *classes_[id]; }
    [[nodiscard]] std::size_t size() const { return classes_.size(); }

  private:
    struct Entry {
        ctf::EventClass event_class;
        std::string first_place;
    };
    std::unordered_map<std::string, Entry> by_name_;
    std::vector<const ctf::EventClass*> classes_;  // by id; they live in by_name_, whose nodes never move
};

}  // namespace leat::session
