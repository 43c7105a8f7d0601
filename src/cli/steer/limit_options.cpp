#include "cli/steer/limit_options.hpp"

#include "cli/steer/quantities.hpp"

namespace leat::cli {

void add_limit_options(CLI::App& command, LimitOptions& options) {
    command.add_option("--duration", options.duration, "Stop after this time; what is traced runs on: 1ms to 100000h")
        ->type_name("PERIOD");
    command
        .add_option("--max-size", options.max_size,
                    "Stop before the trace's streams have more bytes than this, 64K or more")
        ->type_name("SIZE");
}

// 0 would mean that there is no limit.
Result<session::Limits> limits_of(const LimitOptions& options) {
    session::Limits limits;
    if (options.duration) {
        limits.duration_us = LEAT_TRY(parse_period(*options.duration));
        if (limits.duration_us == 0) return refused("--duration is more than 0: leave it out for no limit");
    }
    if (options.max_size) {
        limits.max_size = LEAT_TRY(parse_size(*options.max_size));
        if (limits.max_size == 0) return refused("--max-size is more than 0: leave it out for no limit");
    }
    LEAT_TRY(limits.check());
    return limits;
}

std::string text_of_stop(session::StoppedBy by, const session::Limits& limits) {
    if (by == session::StoppedBy::kMaxSize) return fmt::format("limit of {} reached", size_for_people(limits.max_size));
    return fmt::format("stopped after {}", period_for_people(limits.duration_us));
}

}  // namespace leat::cli
