// What the forms of `leat view` share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/selection.hpp"
#include "ctf/model/clock.hpp"
#include "viewer/sink/text_options.hpp"

namespace leat::cli {

struct ViewArguments {
    std::vector<std::string> traces{};         // paths, or one net:// URL
    std::optional<std::string> daemons_url{};  // that URL, if it is the session daemon's, for a session that was named
    std::optional<std::uint16_t> live_port{};  // of the relay that has such a session
    std::string names{};
    std::string fields{};
    bool has_clock_date = false;
    bool has_clock_seconds = false;
    bool has_clock_cycles = false;
    bool has_no_delta = false;
    bool is_followed = false;
    std::string from = "start";
    bool reconnects = false;
    std::string format = "text";
    std::string color = "auto";
    std::optional<std::string> output{};  // none: standard output
    ctf::ClockShift clock_shift{};
    std::optional<std::string> columns{};
    SelectionOptions selection_options{};
    viewer::Selection selection{};
    viewer::TextOptions text{};
    std::size_t threads = 0;  // that make text; 0: one for each CPU
};

// How far events were printed: somebody may read only the first ones, as in `leat view | head`.
enum class Viewed { kToTheEnd, kUntilNobodyRead };

// Sends standard output where the user wants it. Before the first output, and behind all that may be refused.
Result<void> open_output(const ViewArguments& arguments);

// Prints traces on disk, to their end.
Result<Viewed> view_recorded(const ViewArguments& arguments, const viewer::TextOptions& options);
// Reads them, and prints nothing but warnings of losses.
Result<Viewed> view_none(const ViewArguments& arguments, const viewer::TextOptions& options);
// The same as a table.
Result<Viewed> view_csv(const ViewArguments& arguments, const viewer::TextOptions& options);
// Prints traces on disk while they are being written, until all are finished.
Result<Viewed> view_followed(const ViewArguments& arguments, const viewer::TextOptions& options);
// net://...: lists sessions, or follows one.
Result<Viewed> view_relay(const ViewArguments& arguments, const viewer::TextOptions& options);

}  // namespace leat::cli
