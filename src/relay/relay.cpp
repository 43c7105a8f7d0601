#include "relay/relay.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/descriptors.hpp"
#include "base/local_time.hpp"
#include "base/log.hpp"

namespace leat::relay {
namespace {

constexpr std::uint32_t kMinorOfNamedSessions = 4;
constexpr std::uint32_t kMinorOfDirectories = 11;
// Bytes. It is in replies, with the name of a chunk in the archives behind it.
constexpr std::size_t kMaxSessionPath = wire::kMaxBasePath - 512;
constexpr const char* kDateFormat = "%Y%m%d-%H%M%S";

Result<std::string> parse_session_name(const std::string& what, const std::string& text) {
    auto name = parse_name(text);
    if (!name) return wrap(what, std::move(name).error());
    if (name->starts_with('.')) return refused("{} begins with a dot", what);
    return name;
}

// Where LTTng's relay would put it: [LTTng-2.13], lttng-relayd(8), "Output directory".
Result<std::string> session_path(const wire::CreateSession& request, Grouping grouping) {
    const std::string host = LEAT_TRY(parse_session_name("the host name", request.hostname));
    const std::string name = LEAT_TRY(parse_session_name("the session name", request.session_name));
    auto base = parse_path(request.base_path);
    if (!base) return wrap("the base path", std::move(base).error());
    const std::string date = local_time_text(request.creation_time, kDateFormat);
    if (grouping == Grouping::kBySession)
        return fmt::format("{}/{}-{}{}{}", name, host, date, base->empty() ? "" : "/", *base);
    if (!base->empty()) return host + "/" + *base;
    if (request.name_contains_creation_time) return host + "/" + name;
    return fmt::format("{}/{}-{}", host, name, date);
}

// Not by prefix alone: "a/bc" is not inside of "a/b".
bool is_inside(const std::string& path, const std::string& directory) { return path.starts_with(directory + "/"); }

}  // namespace

std::size_t Relay::default_quota() { return std::min<std::size_t>(descriptor_limit() / 2, 131072); }

// Nobody gets into a directory that a session is using: whoever wants to be inside of one is beside it.
std::string Relay::beside_others(std::string path) const {
    for (auto known = directories_.begin(); known != directories_.end();) {
        const auto directory = (known++)->second.lock();
        if (directory == nullptr || !is_inside(path, directory->path())) continue;
        path.insert(directory->path().size(), "-2");
        known = directories_.begin();
    }
    return path;
}

bool Relay::is_in_use(const std::string& path) const {
    return std::ranges::any_of(directories_, [&](const auto& known) {
        const auto directory = known.second.lock();
        return directory != nullptr && directory->path() == path && !directory->is_found();
    });
}

// The lock is held while the directory is made: two parts of a session that come at once must end in the same one. Only
// snapshots may use a directory that was there before: they are one session for their producer, and many for us.
Result<std::shared_ptr<SessionDirectory>> Relay::known_or_made(const std::string& key, const std::string& path,
                                                               bool may_be_found) {
    const std::lock_guard lock(directories_mutex_);
    std::erase_if(directories_, [](const auto& entry) { return entry.second.expired(); });
    if (const auto found = directories_.find(key); found != directories_.end())
        if (auto directory = found->second.lock(); directory != nullptr && !directory->is_removed()) return directory;
    if (LEAT_TRY(output_.renew_root_if_removed()))
        log("the output directory was removed: new sessions are in a new one");
    const std::string free = beside_others(path);
    if (free.size() > kMaxSessionPath)
        return refused("the path of the session has {} bytes of at most {}", free.size(), kMaxSessionPath);
    std::shared_ptr<SessionDirectory> directory;
    if (may_be_found && output_.exists(free) && !is_in_use(free)) {
        ConfinedDirectory found = LEAT_TRY(output_.open(free));
        directory =
            std::make_shared<SessionDirectory>(std::move(found), free, SessionDirectory::Origin::kFound, keepers_);
    } else {
        ConfinedDirectory::Made made = LEAT_TRY(output_.make_fresh(free));
        directory = std::make_shared<SessionDirectory>(std::move(made.directory), made.path,
                                                       SessionDirectory::Origin::kMade, keepers_);
    }
    directories_[key] = directory;
    return directory;
}

// The parts of a session come from one session daemon, on one host.
Result<std::shared_ptr<SessionDirectory>> Relay::directory_for(const wire::CreateSession& request,
                                                               const Principal& principal) {
    const std::string path = LEAT_TRY(session_path(request, policy_.grouping));
    if (std::ranges::all_of(request.sessiond_uuid, [](std::uint8_t byte) { return byte == 0; }))
        return refused("the session daemon's UUID is nil");
    const std::string key = fmt::format("{} {:02x} {} {}", principal.address, fmt::join(request.sessiond_uuid, ""),
                                        request.sessiond_session_id, path);
    if (request.current_chunk_id) {
        const std::lock_guard lock(directories_mutex_);
        const auto found = directories_.find(key);
        const auto directory = found == directories_.end() ? nullptr : found->second.lock();
        if (directory == nullptr || !directory->is_open(*request.current_chunk_id))
            return refused("there is no trace chunk {} of that session", *request.current_chunk_id);
    }
    return known_or_made(key, path, request.is_snapshot);
}

// Nothing in their protocol tells the parts of one session from those of another: each gets a directory of its own.
Result<std::shared_ptr<SessionDirectory>> Relay::directory_of_old(const std::string& path) {
    return known_or_made(fmt::format("{}", next_id()), path, false);
}

Result<std::shared_ptr<StoredSession>> Relay::create_session(const wire::CreateSession& request, std::uint32_t minor,
                                                             const Principal& principal) {
    if (minor < kMinorOfNamedSessions) return unsupported("peers before 2.4 do not name their sessions");
    LEAT_TRY(parse_session_name("the host name", request.hostname));
    LEAT_TRY(parse_session_name("the session name", request.session_name));
    if (session_count() >= kMaxSessions) return refused("there are {} sessions already", kMaxSessions);
    std::shared_ptr<SessionDirectory> directory;
    if (minor >= kMinorOfDirectories) directory = LEAT_TRY(directory_for(request, principal));
    const std::lock_guard lock(mutex_);
    const StoredSession::Description description{.id = next_session_, .minor = minor, .request = request};
    auto session = std::make_shared<StoredSession>(description, handles_);
    session->locked([&](SessionState& state) { state.directory = std::move(directory); });
    sessions_.emplace(next_session_++, session);
    ++traffic_->sessions;
    return session;
}

// It goes from where viewers look to where the housekeeping looks: data may still be on its way on the other
// connection.
void Relay::remove_session(const StoredSession& session) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(session.description().id);
    if (found == sessions_.end()) return;
    ending_.push_back(found->second);
    sessions_.erase(found);
}

std::shared_ptr<StoredSession> Relay::find_session(std::uint64_t id) const {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<StoredSession>> Relay::ending_sessions() const {
    const std::lock_guard lock(mutex_);
    return ending_;
}

void Relay::forget(const std::shared_ptr<StoredSession>& ending_session) {
    const std::lock_guard lock(mutex_);
    std::erase(ending_, ending_session);
}

std::size_t Relay::session_count() const {
    const std::lock_guard lock(mutex_);
    return sessions_.size();
}

std::vector<std::shared_ptr<StoredSession>> Relay::sessions() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<StoredSession>> all;
    all.reserve(sessions_.size());
    for (const auto& [id, session] : sessions_) all.push_back(session);
    return all;
}

}  // namespace leat::relay
