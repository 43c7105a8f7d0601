// Which events of a trace a command is about.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"
#include "viewer/filter/selected_events.hpp"

namespace CLI {
class App;
}

namespace leat::cli {

// Names of columns, with commas between them.
void refuse_empty_columns(const std::optional<std::string>& columns);

// What nobody would miss in a result: an error names a pattern that no event of the traces matches, and the option that
// has it.
Result<void> check_event_names(std::string_view option, const std::string& from, const std::string& to,
                               std::span<const ctf::TraceClass* const> trace_classes);

// As the command line has it.
struct SelectionOptions {
    std::optional<std::string> filter{};
    std::optional<std::string> begin{};
    std::optional<std::string> end{};
    std::optional<std::string> time_range{};
    bool is_of_all_streams = false;

    // The options are part of this object.
    void add_to(CLI::App& command);
    // Throws what is wrong with them: cli/misuse.hpp.
    [[nodiscard]] viewer::Selection parse(bool is_gmt) const;
};

}  // namespace leat::cli
