#include "cli/live_printer.hpp"

#include <unistd.h>

#include <cstdio>

#include "cli/tell.hpp"

namespace leat::cli {

LivePrinter::LivePrinter(const viewer::TextOptions& options, std::optional<viewer::EventExpression> filter)
    : sink_(options, std::move(filter), STDOUT_FILENO, STDERR_FILENO) {}

Result<void> LivePrinter::print() {
    while (!sink_.is_closed()) {
        const auto is_message = merge_.next();
        if (!is_message) {
            ++cut_short_;
            print_warning(is_message.error().message + "; the rest of the stream is not shown");
            continue;
        }
        if (!*is_message) break;
        LEAT_TRY(sink_.consume(merge_.message()));
    }
    if (merge_.late_events() > 0 && !has_warned_) {
        print_warning("events came too late to be shown in order");
        has_warned_ = true;
    }
    return {};
}

Result<void> LivePrinter::outcome(std::uint64_t others) const {
    const std::uint64_t count = cut_short_ + others;
    if (count == 0) return {};
    return corrupt("{} stream{} could not be shown to the end: warnings say why", count, count == 1 ? "" : "s");
}

}  // namespace leat::cli
