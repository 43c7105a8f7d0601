#include "cli/named_traces.hpp"

#include <algorithm>
#include <list>
#include <optional>
#include <utility>

#include "cli/command.hpp"
#include "cli/misuse.hpp"
#include "cli/output_file.hpp"
#include "cli/session_trace.hpp"
#include "cli/tell.hpp"
#include "net/relay_url.hpp"
#include "trace/stream_paths.hpp"
#include "trace/trace_directories.hpp"

namespace leat::cli {
namespace {

namespace fs = std::filesystem;

// "view"
std::string_view command_word() { return arguments()[1]; }

bool names_nothing_else(const std::string& trace) {
    std::error_code error;
    return !net::is_relay_url(trace) && fs::status(trace, error).type() == fs::file_type::not_found;
}

bool holds_traces(const fs::path& directory) {
    const auto found = trace::find_trace_directories(directory);
    return found && !found->paths.empty();
}

// The newest trace that `leat record` has left in this directory.
Result<fs::path> newest_recording() {
    std::optional<fs::path> newest;
    fs::file_time_type newest_time;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(".", error)) {
        std::error_code ignored;
        const std::string name = entry.path().filename().string();
        if (!name.starts_with("leat-") || !entry.is_directory(ignored)) continue;
        const fs::file_time_type time = entry.last_write_time(ignored);
        if (newest && time <= newest_time) continue;
        if (!holds_traces(name)) continue;
        newest = name;
        newest_time = time;
    }
    if (!newest)
        return not_found("no trace here: no directory leat-* with a trace in it; name one: leat {} PATH",
                         command_word());
    return *newest;
}

// `session`: as messages call it. What else is wrong with it, whoever reads it says.
Result<void> check_has_begun(const std::string& trace, const std::string& session) {
    if (net::is_relay_url(trace)) return {};
    const auto found = trace::find_trace_directories(trace);
    if (found ? !found->paths.empty() || !found->denied.empty() : found.error().kind != ErrorKind::kNotFound) return {};
    return not_found(
        "{} has no trace yet: leat status says what it records, and leat list --programs what there is to record",
        session);
}

// Of none: the current session's. Nothing if there is no such session.
Result<std::optional<std::string>> trace_of_session(const std::optional<std::string>& session, Begun begun) {
    auto trace = LEAT_TRY(find_session_trace(session));
    if (trace && begun == Begun::kNow)
        LEAT_TRY(check_has_begun(*trace, session ? fmt::format("session \"{}\"", *session) : "the current session"));
    return trace;
}

// Whether the file would make a trace of a directory that other traces are below.
bool is_metadata_of_all(const fs::path& output, const fs::path& place, const fs::path& trace) {
    const fs::path below = trace::real_path(trace).lexically_relative(place);
    return output.filename() == trace::kMetadataFile && !below.empty() && *below.begin() != "..";
}

// By another name, or through a link.
bool is_file_of(const fs::path& directory, const fs::path& file) {
    std::error_code ignored;
    if (!fs::exists(file, ignored)) return false;
    for (const auto& entry : fs::directory_iterator(directory, ignored))
        if (fs::equivalent(entry.path(), file, ignored)) return true;
    return false;
}

}  // namespace

Result<void> put_sessions_traces(std::vector<std::string>& traces, Begun begun) {
    if (traces.empty()) {
        if (const auto trace = LEAT_TRY(trace_of_session(std::nullopt, begun))) traces.push_back(*trace);
        return {};
    }
    for (std::string& trace : traces)
        if (names_nothing_else(trace)) {
            const auto of_session = LEAT_TRY(trace_of_session(trace, begun));
            if (!of_session)
                return not_found("{} does not exist, nor does a running session daemon have a session of that name",
                                 trace.empty() ? "\"\"" : trace);
            trace = *of_session;
        }
    return {};
}

Result<void> put_traces_on_disk(std::vector<std::string>& traces) {
    LEAT_TRY(put_sessions_traces(traces, Begun::kNow));
    if (std::ranges::any_of(traces, net::is_relay_url))
        misuse("leat {} reads traces on disk: those of a relay are below its --output directory", command_word());
    return {};
}

Result<std::vector<fs::path>> paths_of(const std::vector<std::string>& traces) {
    std::vector<fs::path> paths(traces.begin(), traces.end());
    if (paths.empty()) paths.push_back(LEAT_TRY(newest_recording()));
    return paths;
}

// Nobody closes them: the system takes the files of a process that ends all at once, which is much faster.
Result<NamedTraces> open_named_traces(const std::vector<std::string>& traces, const ctf::ClockShift& shift) {
    std::vector<fs::path> denied;
    static auto* const kept = new std::list<viewer::RecordedTraces>();
    kept->push_back(LEAT_TRY(viewer::open_traces(LEAT_TRY(paths_of(traces)), &denied, shift)));
    warn_of_denied(denied);
    return NamedTraces{.traces = kept->back(), .denied = denied.size()};
}

// What lies among the files of a trace is part of it for whoever reads that.
Result<void> check_outside_of_traces(const std::string& output, std::span<const fs::path> traces) {
    std::error_code ignored;
    const fs::path target = target_of(fs::absolute(output, ignored)).path;
    const fs::path place = fs::weakly_canonical(target, ignored).parent_path();
    for (const fs::path& path : traces) {
        const auto found = trace::find_trace_directories(path);
        if (!found) continue;  // one is about to begin, or has just gone
        for (const fs::path& trace : found->paths)
            for (const fs::path& directory : {trace, trace / trace::kIndexDirectory})
                if (place == trace::real_path(directory) || is_metadata_of_all(target, place, trace) ||
                    is_file_of(directory, target))
                    return refused("--output {} is among the files of {}, which is read: name a file elsewhere", output,
                                   trace.string());
    }
    return {};
}

Result<void> check_all_read(const NamedTraces& named) {
    LEAT_TRY(viewer::first_damage(named.traces));
    return check_none_denied(named.denied);
}

Result<void> check_none_denied(std::size_t directories) {
    if (directories == 0) return {};
    return fail(ErrorKind::kIo, "what is in {} director{} that cannot be read is missing", directories,
                directories == 1 ? "y" : "ies");
}

void warn_of_denied(std::span<const fs::path> directories) {
    constexpr std::size_t kMostTold = 10;
    const std::size_t told = std::min(directories.size(), kMostTold);
    for (const fs::path& directory : directories.first(told)) print_warning(trace::denied_error(directory).message);
    if (told != directories.size())
        tell("leat: warning: {} more directories cannot be read", directories.size() - told);
}

}  // namespace leat::cli
