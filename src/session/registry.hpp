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

// The event classes of one session, ABI, channel and user, and their ids (document 002, algorithm 1).
// Ids are given once and never to another event.
class Registry {
  public:
    struct Enrolled {
        std::uint32_t id;
        bool is_new;  // the caller has a metadata unit to write before the id may be used
    };

    // The id of an event class: that of the same one seen before, or the next. `event_class.id` is not looked at.
    // Fails when the name is known with other fields or another log level, or when there are too many. `place`, as
    // "file.c:12", is for that message alone: the same event class may come from many places.
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
