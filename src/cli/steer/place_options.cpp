#include "cli/steer/place_options.hpp"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "cli/repeated_option.hpp"

namespace leat::cli {
namespace {

constexpr char kLocalRelay[] = "net://127.0.0.1";

// Of a user who has said so, as in a container: the daemon looks it up otherwise.
std::optional<std::string> other_home() {
    // NOLINTBEGIN(concurrency-mt-unsafe): one thread
    const char* const home = std::getenv("HOME");
    if (home == nullptr || home[0] != '/') return std::nullopt;
    const passwd* const user = ::getpwuid(::geteuid());
    // NOLINTEND(concurrency-mt-unsafe)
    if (user != nullptr && user->pw_dir == std::string_view(home)) return std::nullopt;
    return home;
}

}  // namespace

Outcome<std::string> absolute_path(const std::string& path) {
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(path, error);
    if (error || path.empty()) return usage("\"{}\" is not a path of a trace directory", path);
    return absolute.string();
}

bool is_url(std::string_view place) { return place.find("://") != std::string_view::npos; }

Outcome<void> put_places(const PlaceOptions& options, Json& members) {
    for (const std::string& output : options.outputs) {
        const char* const member = is_url(output) ? "output" : "directory";
        if (members.contains(member)) return usage("a session goes to one directory and to one relay at most");
        members[member] = is_url(output) ? output : LEAT_TRY(absolute_path(output));
    }
    if (!options.live.empty()) members["live"] = options.live;
    const bool has_place = members.contains("directory") || members.contains("output") || members.contains("live");
    if (const auto home = other_home(); home && !has_place) members["home"] = *home;
    if (!options.shm_path.empty()) members["shm_path"] = LEAT_TRY(absolute_path(options.shm_path));
    return {};
}

void add_place_options(CLI::App& command, PlaceOptions& options) {
    repeated(command.add_option("-o,--output", options.outputs,
                                "Trace directory, or net://HOST[:CONTROL[:DATA]], a relay; twice for both"))
        ->type_name("DIR|URL");
    command
        .add_option("--live", options.live,
                    "Send the trace to a relay, for readers who follow it (default: net://127.0.0.1)")
        ->expected(0, 1)
        ->default_str(kLocalRelay)
        ->type_name("URL");
    command
        .add_option(
            "--shm-path", options.shm_path,
            "Keep the rings in files below this directory: if everything crashes, leat recover makes a trace of "
            "what they hold")
        ->type_name("DIR");
}

}  // namespace leat::cli
