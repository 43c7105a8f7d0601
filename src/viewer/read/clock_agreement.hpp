#pragma once

#include <optional>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// Checks that the clocks of several streams can be compared: all count from the Unix epoch, or all are the same clock.
class ClockAgreement {
  public:
    // The clock must outlive the agreement.
    Result<void> add(const ctf::TraceClass& trace_class, const ctf::ClockClass& clock);

  private:
    struct Member {
        const ctf::ClockClass* clock;
        bool is_absolute;
    };

    std::optional<Member> first_;
};

}  // namespace leat::viewer
