// Verbs for sessions in files: save, load.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/file.hpp"
#include "base/printable_text.hpp"
#include "cli/command.hpp"
#include "cli/steer/place_options.hpp"
#include "cli/steer/verb.hpp"

namespace leat::cli {
namespace {

namespace fs = std::filesystem;

// Of a file: with its indentation, it is a few times larger than the request that carries it.
constexpr std::size_t kMaxDefinition = std::size_t{8} << 20;
// A daemon reads requests of 1 MiB (docs/formats/control-protocol.md). Some of it is for what is around the definition.
constexpr std::size_t kMaxCarried = (std::size_t{1} << 20) - 16384;

struct SaveOptions : VerbOptions {
    std::string file{};
    bool is_forced = false;
};

// Some file systems know no links, and others no flags of this call.
bool rename_to_new(const std::string& made, const std::string& file) {
    if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) == 0) return true;
    if (errno != EINVAL || ::link(made.c_str(), file.c_str()) != 0) return false;
    ::unlink(made.c_str());
    return true;
}

// Gives the file its name. Without --force, only if nothing has that.
Result<void> put_in_place(const std::string& made, const std::string& file, bool is_forced) {
    if (is_forced ? ::rename(made.c_str(), file.c_str()) == 0 : rename_to_new(made, file)) return {};
    if (errno == EEXIST) return refused("{} exists: --force writes over it", file);
    return io_error("cannot write " + file);
}

// The file is there when all of it is: on a full disk, one that is written over stays as it was.
Result<void> write_definition(const SaveOptions& options, const Json& definition) {
    const std::string text = readable_json(definition) + '\n';
    if (const std::size_t size = definition.dump().size(); size > kMaxCarried || text.size() > kMaxDefinition)
        return refused("the definition has {} bytes, more than leat load can pass on ({}): use fewer or shorter rules",
                       size, kMaxCarried);
    std::error_code error;
    const bool is_there = fs::exists(options.file, error);
    if (is_there && !options.is_forced) return refused("{} exists: --force writes over it", options.file);
    // A device or a pipe keeps its place, and a link its target.
    const bool is_special = is_there && !fs::is_regular_file(options.file, error);
    const std::string file = is_there && !is_special ? fs::canonical(options.file, error).string() : options.file;
    const std::string made = is_special ? file : fmt::format("{}.{}.new", file, ::getpid());
    const int flags = is_special ? 0 : O_CREAT | O_EXCL | O_NOFOLLOW;
    const UniqueFd fd(::open(made.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666));
    if (!fd.is_open()) return io_error("cannot write " + options.file);
    // Who may read what is written over may read what comes after, and nobody else.
    struct stat before {};
    if (is_there && !is_special && ::stat(file.c_str(), &before) == 0) {
        const bool has_group = ::fchown(fd.get(), static_cast<uid_t>(-1), before.st_gid) == 0;
        (void)::fchmod(fd.get(), before.st_mode & (has_group ? 0777 : 0707));
    }
    auto written = write_all(fd.get(), std::as_bytes(std::span(text)));
    if (is_special) return written ? Result<void>() : wrap(options.file, std::move(written).error());
    auto placed =
        written ? put_in_place(made, file, options.is_forced) : wrap(options.file, std::move(written).error());
    if (!placed) ::unlink(made.c_str());
    return placed;
}

Outcome<void> save(const SaveOptions& options, Steering& steering) {
    const Json answer = LEAT_TRY(steering.ask(request_of("save", options.session)));
    const std::string name = quoted_member(answer, "session");
    LEAT_TRY(write_definition(options, answer.at("definition")));
    steering.result() = answer;
    steering.result()["file"] = options.file;
    steering.say(fmt::format("session {} saved in {}", name, printable(options.file)));
    return {};
}

struct LoadOptions : PlaceOptions {
    std::string file{};
};

Result<Json> read_definition(const std::string& file) {
    const std::string text = LEAT_TRY(read_file(file, kMaxDefinition));
    auto definition = parse_json(text);
    if (!definition) return wrap(file, std::move(definition).error());
    if (!definition->is_object()) return corrupt("{}: not the definition of a session: no JSON object", file);
    return definition;
}

// Why a session cannot be made. The command line may be right all the same.
Failure of_file(const LoadOptions& options, Failure failure) {
    const bool says_all = !options.session && !options.are_given();
    if (failure.kind == kUsage && says_all) failure.kind = kind_name(ErrorKind::kRefused);
    if (failure.kind == kind_name(ErrorKind::kRefused) || failure.kind == kind_name(ErrorKind::kUnsupported))
        failure.message = fmt::format("{}: {}", options.file, failure.message);
    return failure;
}

Outcome<void> load(const LoadOptions& options, Steering& steering) {
    Json request = request_of("load", options.session);
    Json definition = LEAT_TRY(read_definition(options.file));
    // What is given counts in place of all that the file says.
    if (options.are_given())
        for (const char* const member : {"directory", "output", "live"}) definition.erase(member);
    LEAT_TRY(put_places(options, definition));
    request["definition"] = std::move(definition);
    steering.allow_start();
    auto answer = steering.ask(request);
    if (!answer) return tl::unexpected(of_file(options, std::move(answer).error()));
    steering.result() = *std::move(answer);
    const bool is_active = steering.result().value("active", false);
    steering.say(fmt::format("session {} loaded from {}{}", quoted_member(steering.result(), "session"),
                             printable(options.file), is_active ? ", and started" : ": leat start starts it"));
    return {};
}

}  // namespace

void add_definition_verbs(CLI::App& app, int& exit_status) {
    const auto saving = add_verb(app, exit_status, "save", "write the definition of a session to a file", save);
    add_session_argument(saving.command, saving.options, "the session (default: the current one)");
    saving.command.add_option("-o,--output", saving.options.file, "The file")->required()->type_name("FILE");
    saving.command.add_flag("-f,--force", saving.options.is_forced, "Write over a file that exists");
    const auto loading = add_verb(app, exit_status, "load", "make a session as a file says", load);
    loading.command.add_option("-i,--input", loading.options.file, "The file")->required()->type_name("FILE");
    add_session_argument(loading.command, loading.options, "name of the new session (default: as in the file)");
    add_place_options(loading.command, loading.options);
    loading.command.footer(
        "Without -o and --live, the trace goes where the file says; a directory must not exist, or be empty.\n"
        "Examples:\n"
        "  leat save web -o web.json && leat destroy web && mv web-trace old && leat load -i web.json\n"
        "  leat load -i web.json web2 -o /var/tmp/web2-trace");
}

}  // namespace leat::cli
