#include "relay/session_directory.hpp"

#include <algorithm>

#include "relay/local_time.hpp"
#include "relay/log.hpp"

namespace leat::relay {
namespace {

constexpr const char* kArchives = "archives";

// As LTTng's daemons write times into names: local, 1 s.
std::string time_text(std::uint64_t seconds) { return local_time_text(seconds, "%Y%m%dT%H%M%S%z"); }

bool is_move(const wire::CloseTraceChunk& close) {
    return close.command == static_cast<std::uint32_t>(wire::ChunkCommand::kMoveToArchives);
}

bool is_delete(const wire::CloseTraceChunk& close) {
    return close.command == static_cast<std::uint32_t>(wire::ChunkCommand::kDelete);
}

}  // namespace

Result<std::shared_ptr<TraceChunk>> SessionDirectory::create_chunk(const wire::CreateTraceChunk& request) {
    const std::lock_guard lock(mutex_);
    if (const auto found = chunks_.find(request.chunk_id); found != chunks_.end()) return found->second;
    const auto is_closing = [](const auto& chunk) { return chunk.second->close.has_value(); };
    if (std::ranges::count_if(chunks_, std::not_fn(is_closing)) >= 2)
        return unsupported("two trace chunks are open already");
    auto chunk = std::make_shared<TraceChunk>();
    chunk->id = request.chunk_id;
    chunk->creation_time = request.creation_time;
    if (!request.override_name.empty())
        chunk->path = LEAT_TRY(parse_name(request.override_name));
    else if (has_rotated_ || is_root_taken())
        chunk->path = fmt::format("{}-{}", time_text(request.creation_time), request.chunk_id);
    chunk->directory = LEAT_TRY(directory_.make(chunk->path));
    chunks_[chunk->id] = chunk;
    return chunk;
}

std::shared_ptr<TraceChunk> SessionDirectory::implicit_chunk() {
    const std::lock_guard lock(mutex_);
    auto& chunk = chunks_[0];
    if (chunk == nullptr) {
        chunk = std::make_shared<TraceChunk>();
        if (auto directory = directory_.make("")) chunk->directory = *std::move(directory);
    }
    return chunk;
}

bool SessionDirectory::is_root_taken() const {
    return std::ranges::any_of(chunks_, [](const auto& chunk) { return chunk.second->path.empty(); });
}

std::string SessionDirectory::closed_path_of(const TraceChunk& chunk, const wire::CloseTraceChunk& request) const {
    // Without a command the session ends: what had been rotated once ends in the archives as a whole.
    const bool goes_to_archives = is_move(request) || (!request.command && has_rotated_);
    if (!goes_to_archives) return chunk.path;
    return fmt::format("{}/{}-{}-{}", kArchives, time_text(chunk.creation_time), time_text(request.close_time),
                       chunk.id);
}

Result<std::string> SessionDirectory::close_chunk(const wire::CloseTraceChunk& request) {
    const std::lock_guard lock(mutex_);
    const auto found = chunks_.find(request.chunk_id);
    if (found == chunks_.end()) return not_found("there is no trace chunk {}", request.chunk_id);
    const std::shared_ptr<TraceChunk> chunk = found->second;
    if (!chunk->close) {
        chunk->close = request;
        chunk->closed_path = closed_path_of(*chunk, request);
        if (is_move(request)) has_rotated_ = true;
        if (chunk->writers == 0) finish(*chunk);
    }
    return chunk->closed_path.empty() ? path_ : path_ + "/" + chunk->closed_path;
}

bool SessionDirectory::is_open(std::uint64_t id) const {
    const std::lock_guard lock(mutex_);
    return chunks_.contains(id);
}

std::shared_ptr<TraceChunk> SessionDirectory::find(std::uint64_t id) const {
    const std::lock_guard lock(mutex_);
    const auto found = chunks_.find(id);
    return found == chunks_.end() ? nullptr : found->second;
}

void SessionDirectory::enter(TraceChunk& chunk) {
    const std::lock_guard lock(mutex_);
    ++chunk.writers;
}

void SessionDirectory::leave(TraceChunk& chunk) {
    const std::lock_guard lock(mutex_);
    if (--chunk.writers == 0 && chunk.close) finish(chunk);
}

Result<ConfinedDirectory> SessionDirectory::make_path(TraceChunk& chunk, const std::string& path) {
    const std::lock_guard lock(mutex_);
    if (chunk.is_deleted || !chunk.directory) return refused("trace chunk {} is gone", chunk.id);
    chunk.top_level.insert(path.substr(0, path.find('/')));
    return chunk.directory->make(path);
}

void SessionDirectory::finish_all() {
    const std::lock_guard lock(mutex_);
    const auto chunks = chunks_;
    for (const auto& [id, chunk] : chunks)
        if (chunk->close && !chunk->is_finished) finish(*chunk);
}

// The chunk's files are complete: what was asked for at its closing is done.
void SessionDirectory::finish(TraceChunk& chunk) {
    const auto keep = chunks_.extract(chunk.id);
    chunk.is_finished = true;
    auto done = is_delete(*chunk.close) ? erase(chunk) : archive(chunk);
    if (!done) log("{}: trace chunk {}: {}", path_, chunk.id, done.error().message);
}

Result<void> SessionDirectory::archive(TraceChunk& chunk) {
    if (chunk.closed_path == chunk.path) return {};
    ConfinedDirectory target = LEAT_TRY(directory_.make(chunk.closed_path));
    for (const std::string& name : chunk.top_level) LEAT_TRY(chunk.directory->rename(name, target, name));
    if (!chunk.path.empty()) LEAT_TRY(directory_.remove(chunk.path));
    chunk.path = chunk.closed_path;
    chunk.directory = std::move(target);
    return {};
}

// What is cleared makes room at its place: the next chunk moves there.
Result<void> SessionDirectory::erase(TraceChunk& chunk) {
    chunk.is_deleted = true;
    for (const std::string& name : chunk.top_level) LEAT_TRY(chunk.directory->remove(name));
    if (!chunk.path.empty()) return directory_.remove(chunk.path);
    if (has_rotated_ || chunks_.empty()) return {};
    return move_to_root(*chunks_.begin()->second);
}

Result<void> SessionDirectory::move_to_root(TraceChunk& chunk) {
    const std::string from = chunk.path;
    if (from.empty()) return {};
    ConfinedDirectory root = LEAT_TRY(directory_.make(""));
    for (const std::string& name : chunk.top_level) LEAT_TRY(chunk.directory->rename(name, root, name));
    chunk.path.clear();
    chunk.directory = std::move(root);
    return directory_.remove(from);
}

}  // namespace leat::relay
