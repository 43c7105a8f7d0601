#include "relay/relay.hpp"

#include <algorithm>

#include "relay/local_time.hpp"
#include "relay/log.hpp"

namespace leat::relay {
namespace {

constexpr std::uint32_t kMinorOfNamedSessions = 4;
constexpr std::uint32_t kMinorOfChunks = 11;
constexpr const char* kDateFormat = "%Y%m%d-%H%M%S";

Result<std::string> parse_session_name(const std::string& what, const std::string& text) {
    auto name = parse_name(text);
    if (!name) return wrap(what, std::move(name).error());
    if (name->starts_with('.')) return refused("{} begins with a dot", what);
    return name;
}

// facts: on-disk formats, section 1, "Session directory".
Result<std::string> session_path(const wire::CreateSession& request) {
    const std::string host = LEAT_TRY(parse_session_name("the host name", request.hostname));
    const std::string name = LEAT_TRY(parse_session_name("the session name", request.session_name));
    auto base = parse_path(request.base_path);
    if (!base) return wrap("the base path", std::move(base).error());
    if (!base->empty()) return host + "/" + *base;
    if (request.name_contains_creation_time) return host + "/" + name;
    return fmt::format("{}/{}-{}", host, name, local_time_text(request.creation_time, kDateFormat));
}

}  // namespace

// Two sessions of the same name that begin in the same second: the second one has to go elsewhere.
Result<std::string> Relay::unused_path(const std::string& path) const {
    constexpr int kMaxTries = 1000;
    std::string candidate = path;
    for (int i = 2; i < kMaxTries; ++i) {
        if (!output_.exists(candidate)) return candidate;
        candidate = fmt::format("{}-{}", path, i);
    }
    return refused("{} and {} more like it exist", path, kMaxTries);
}

Result<std::shared_ptr<SessionDirectory>> Relay::directory_for(const wire::CreateSession& request,
                                                               std::uint32_t minor) {
    // Old peers say with each stream where it goes, from the output directory on.
    if (minor < kMinorOfChunks) return std::make_shared<SessionDirectory>(LEAT_TRY(output_.make("")), "", guard_);
    std::string path = LEAT_TRY(session_path(request));
    if (std::ranges::all_of(request.sessiond_uuid, [](std::uint8_t byte) { return byte == 0; }))
        return refused("the session daemon's UUID is nil");
    auto& known = directories_[DirectoryKey(request.sessiond_uuid, request.sessiond_session_id)];
    if (auto directory = known.lock(); directory != nullptr && directory->path() == path) return directory;
    if (!request.is_snapshot && request.base_path.empty()) path = LEAT_TRY(unused_path(path));
    auto directory = std::make_shared<SessionDirectory>(LEAT_TRY(output_.make(path)), path, guard_);
    known = directory;
    return directory;
}

Result<std::shared_ptr<Session>> Relay::create_session(const wire::CreateSession& request, std::uint32_t minor) {
    const std::lock_guard lock(mutex_);
    if (minor < kMinorOfNamedSessions) return unsupported("peers before 2.4 do not name their sessions");
    if (sessions_.size() >= kMaxSessions) return refused("there are {} sessions already", sessions_.size());
    Session::Description description{.id = next_session_, .minor = minor, .request = request};
    if (minor < kMinorOfChunks) {
        LEAT_TRY(parse_session_name("the host name", request.hostname));
        LEAT_TRY(parse_session_name("the session name", request.session_name));
    }
    if (request.current_chunk_id) {
        const auto known = directories_.find(DirectoryKey(request.sessiond_uuid, request.sessiond_session_id));
        const auto directory = known == directories_.end() ? nullptr : known->second.lock();
        if (directory == nullptr || !directory->is_open(*request.current_chunk_id))
            return refused("there is no trace chunk {} of that session", *request.current_chunk_id);
    }
    description.directory = LEAT_TRY(directory_for(request, minor));
    auto session = std::make_shared<Session>(std::move(description));
    sessions_.emplace(next_session_++, session);
    return session;
}

void Relay::remove_session(const Session& session) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(session.description().id);
    if (found == sessions_.end()) return;
    ending_.push_back(found->second);
    sessions_.erase(found);
    std::erase_if(directories_, [](const auto& entry) { return entry.second.expired(); });
}

void Relay::add_handle(std::uint64_t handle, const std::shared_ptr<Session>& session) {
    const std::lock_guard lock(mutex_);
    session_of_[handle] = session;
    new_handles_.push_back({handle, session});
    handles_added_.fetch_add(1, std::memory_order_release);
}

std::vector<Relay::NewHandle> Relay::take_new_handles() {
    const std::lock_guard lock(mutex_);
    return std::exchange(new_handles_, {});
}

std::shared_ptr<Session> Relay::session_of(std::uint64_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = session_of_.find(handle);
    return found == session_of_.end() ? nullptr : found->second.lock();
}

std::shared_ptr<Session> Relay::find_session(std::uint64_t id) const {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Session>> Relay::ending_sessions() const {
    const std::lock_guard lock(mutex_);
    return ending_;
}

void Relay::forget(const std::shared_ptr<Session>& ending_session) {
    const std::lock_guard lock(mutex_);
    std::erase(ending_, ending_session);
    std::erase_if(session_of_, [](const auto& entry) { return entry.second.expired(); });
}

std::vector<std::shared_ptr<Session>> Relay::sessions() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Session>> all;
    all.reserve(sessions_.size());
    for (const auto& [id, session] : sessions_) all.push_back(session);
    return all;
}

}  // namespace leat::relay
