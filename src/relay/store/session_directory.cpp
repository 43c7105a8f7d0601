#include "relay/store/session_directory.hpp"

#include <algorithm>

#include "base/local_time.hpp"
#include "base/log.hpp"
#include "trace/stream_paths.hpp"

namespace leat::relay {
namespace {

constexpr const char* kArchives = "archives";

// As LTTng's daemons write times into names: local, 1 s.
std::string time_text(std::uint64_t seconds) { return local_time_text(seconds, "%Y%m%dT%H%M%S%z"); }

bool is_move(const wire::CloseTraceChunk& close) { return close.command == wire::ChunkCommand::kMoveToArchives; }

bool is_delete(const wire::CloseTraceChunk& close) { return close.command == wire::ChunkCommand::kDelete; }

}  // namespace

SessionDirectory::~SessionDirectory() {
    settle_chunks();
    for (const auto& chunk : unsettled_)
        log("{}: trace chunk {} could not be moved or deleted: the disk is full", path_, chunk->id);
    for (const auto& [id, chunk] : chunks_)
        if (chunk->directory) sync(*chunk->directory);
}

void SessionDirectory::sync(const ConfinedDirectory& directory) const {
    if (keepers_.sync != nullptr) keepers_.sync->later(directory);
}

// The parts of a session ask for the same chunk one after the other, and share it. Two may be open at a time: the one
// that the streams leave, and the one that they go to.
Result<std::shared_ptr<TraceChunk>> SessionDirectory::create_chunk(const wire::CreateTraceChunk& request) {
    const std::lock_guard lock(mutex_);
    if (const auto found = chunks_.find(request.chunk_id); found != chunks_.end()) return found->second;
    const auto is_closing = [](const auto& chunk) { return chunk.second->close.has_value(); };
    if (std::ranges::count_if(chunks_, std::not_fn(is_closing)) >= 2)
        return unsupported("two trace chunks are open already");
    auto chunk = std::make_shared<TraceChunk>();
    chunk->id = request.chunk_id;
    chunk->creation_time = request.creation_time;
    std::string path;
    if (!request.override_name.empty())
        path = LEAT_TRY(parse_name(request.override_name));
    else if (!is_root_free())
        path = fmt::format("{}-{}", time_text(request.creation_time), request.chunk_id);
    if (path == kArchives) return refused("a trace chunk cannot be called {}", path);
    if (path.empty()) {
        chunk->directory = LEAT_TRY(directory_.make(""));
        is_root_taken_ = true;
    } else {
        ConfinedDirectory::Made made = LEAT_TRY(directory_.make_fresh(path));
        chunk->directory = std::move(made.directory);
        chunk->path = std::move(made.path);
    }
    chunks_[chunk->id] = chunk;
    return chunk;
}

Result<std::shared_ptr<TraceChunk>> SessionDirectory::implicit_chunk() {
    const std::lock_guard lock(mutex_);
    if (const auto found = chunks_.find(0); found != chunks_.end()) return found->second;
    auto chunk = std::make_shared<TraceChunk>();
    chunk->directory = LEAT_TRY(directory_.make(""));
    is_root_taken_ = true;
    chunks_[0] = chunk;
    return chunk;
}

// Without a command the session ends: what had been rotated once ends in the archives as a whole.
bool SessionDirectory::goes_to_archives(const wire::CloseTraceChunk& request) const {
    return is_move(request) || (!request.command && has_rotated_);
}

// Streams may still write into the chunk. The directory in the archives is made now, because the answer names it and
// the name must stay free; the files go there when the last stream has left. A second part that closes it hears the
// same.
Result<std::string> SessionDirectory::close_chunk(const wire::CloseTraceChunk& request) {
    const std::lock_guard lock(mutex_);
    const auto found = chunks_.find(request.chunk_id);
    if (found == chunks_.end()) {
        const auto closed = std::ranges::find(closed_, request.chunk_id, &decltype(closed_)::value_type::first);
        if (closed != closed_.end()) return path_of(closed->second);
        return not_found("there is no trace chunk {}", request.chunk_id);
    }
    const std::shared_ptr<TraceChunk> chunk = found->second;
    if (!chunk->close) {
        chunk->closed_path = chunk->path;
        // Made now: the answer says where it goes.
        if (goes_to_archives(request))
            chunk->closed_path =
                LEAT_TRY(directory_.make_fresh(fmt::format("{}/{}-{}-{}", kArchives, time_text(chunk->creation_time),
                                                           time_text(request.close_time), chunk->id)))
                    .path;
        chunk->close = request;
        if (is_move(request)) has_rotated_ = true;
        if (chunk->writers.empty()) finish(*chunk);
    }
    return path_of(chunk->closed_path);
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

void SessionDirectory::enter(TraceChunk& chunk, std::uint64_t trace_id) {
    const std::lock_guard lock(mutex_);
    ++chunk.writers[trace_id].count;
}

void SessionDirectory::enter_metadata(TraceChunk& chunk, std::uint64_t trace_id) {
    const std::lock_guard lock(mutex_);
    TraceChunk::Writers& writers = chunk.writers[trace_id];
    ++writers.count;
    writers.left.reset();  // its name is the new one's
}

void SessionDirectory::leave(TraceChunk& chunk, std::uint64_t trace_id) {
    const std::lock_guard lock(mutex_);
    leave_locked(chunk, trace_id);
}

void SessionDirectory::leave_metadata(TraceChunk& chunk, std::uint64_t trace_id, SyncPlace sync) {
    const std::lock_guard lock(mutex_);
    chunk.writers[trace_id].left.emplace(std::move(sync));
    leave_locked(chunk, trace_id);
}

void SessionDirectory::leave_locked(TraceChunk& chunk, std::uint64_t trace_id) {
    const auto writers = chunk.writers.find(trace_id);
    if (--writers->second.count != 0) return;
    // For those who follow the directory, the trace has ended.
    if (writers->second.left) (void)writers->second.left->directory.remove(trace::kSyncFileName);
    chunk.writers.erase(writers);
    if (chunk.writers.empty() && chunk.close) finish(chunk);
}

// A peer names any path; nothing that lies there already is touched. "ust/uid/1000" thus becomes "ust-2/uid/1000" if
// somebody else has made "ust", but stays with the other traces of this chunk that go there.
Result<SessionDirectory::TracePlace> SessionDirectory::make_trace(TraceChunk& chunk, std::uint64_t trace_id,
                                                                  const std::string& path) {
    const std::lock_guard lock(mutex_);
    if (chunk.is_deleted) return refused("trace chunk {} is gone", chunk.id);
    // A stream may find a chunk while its last writer leaves.
    if (!chunk.directory) chunk.directory = LEAT_TRY(directory_.open(chunk.path));
    if (const auto known = chunk.traces.find(trace_id); known != chunk.traces.end())
        return TracePlace{LEAT_TRY(chunk.directory->open(known->second)), known->second};
    const std::size_t slash = path.find('/');
    std::string place = path;
    if (slash != std::string::npos) place = LEAT_TRY(make_parent(chunk, path.substr(0, slash))) + path.substr(slash);
    // Not inside of another trace, where names may meet, but beside it.
    for (std::size_t end = place.find('/'); end != std::string::npos; end = place.find('/', end + 1))
        while (chunk.places.contains(place.substr(0, end))) {
            place.insert(end, "-2");
            end += 2;
        }
    ConfinedDirectory::Made made = LEAT_TRY(chunk.directory->make_fresh(place));
    if (slash == std::string::npos) chunk.top_level.insert(made.path);
    chunk.places.insert(made.path);
    chunk.traces[trace_id] = made.path;
    return TracePlace{std::move(made.directory), std::move(made.path)};
}

// Traces of a chunk share it, nobody else does.
Result<std::string> SessionDirectory::make_parent(TraceChunk& chunk, const std::string& name) {
    if (const auto known = chunk.parents.find(name); known != chunk.parents.end()) return known->second;
    std::string made = LEAT_TRY(chunk.directory->make_fresh(name)).path;
    chunk.top_level.insert(made);
    return chunk.parents[name] = std::move(made);
}

Result<ConfinedDirectory> SessionDirectory::open_trace(const TraceChunk& chunk, const std::string& path) const {
    const std::lock_guard lock(mutex_);
    if (chunk.is_deleted) return not_found("trace chunk {} is gone", chunk.id);
    if (chunk.directory) return chunk.directory->open(path);
    return directory_.open(chunk.path.empty() ? path : chunk.path + "/" + path);
}

void SessionDirectory::forget_trace(std::uint64_t trace_id) {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, chunk] : chunks_) {
        const auto found = chunk->traces.find(trace_id);
        if (found == chunk->traces.end()) continue;
        chunk->places.erase(found->second);
        chunk->traces.erase(found);
    }
}

// The chunk's files are complete: what was asked for at its closing is done.
void SessionDirectory::finish(const TraceChunk& chunk) {
    const auto found = chunks_.find(chunk.id);
    // It was complete before: a stream may find a chunk while its last writer leaves, and enter it after that.
    if (found == chunks_.end() || found->second.get() != &chunk) return;
    constexpr std::size_t kMaxClosed = 64;
    closed_.emplace_back(chunk.id, chunk.closed_path);
    if (closed_.size() > kMaxClosed) closed_.pop_front();
    unsettled_.push_back(std::move(found->second));
    chunks_.erase(found);
    settle_chunks();
}

void SessionDirectory::settle() {
    // Somebody may be removing a large chunk just now. This one has other sessions to look after.
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) settle_chunks();
}

// What fails because the disk is full is tried again later. Any other failure is told once, and the files stay where
// they are: complete, if not where they were promised.
void SessionDirectory::settle_chunks() {
    std::erase_if(unsettled_, [this](const auto& chunk) {
        const auto done = is_delete(*chunk->close) ? erase(*chunk) : archive(*chunk);
        if (is_disk_full(done)) return false;
        if (!done) log("{}: trace chunk {}: {}", path_, chunk->id, done.error().message);
        return true;
    });
}

// Descriptors that writers and viewers have open go on to work: only names change.
Result<void> SessionDirectory::archive(TraceChunk& chunk) {
    if (chunk.closed_path == chunk.path) {
        if (chunk.directory) sync(*chunk.directory);
        chunk.directory.reset();
        return {};
    }
    ConfinedDirectory target = LEAT_TRY(directory_.open(chunk.closed_path));
    LEAT_TRY(rename_all(chunk, target));
    const std::string from = std::exchange(chunk.path, chunk.closed_path);
    sync(target);
    chunk.directory.reset();  // whoever reads it later opens it again
    return from.empty() ? Result<void>() : directory_.remove(from);
}

// All that the chunk has made, or nothing.
Result<void> SessionDirectory::rename_all(const TraceChunk& chunk, const ConfinedDirectory& target) {
    for (auto name = chunk.top_level.begin(); name != chunk.top_level.end(); ++name) {
        auto renamed = chunk.directory->rename(*name, target, *name);
        if (renamed) continue;
        while (name != chunk.top_level.begin()) {
            --name;
            (void)target.rename(*name, *chunk.directory, *name);  // its place there is still free: that needs no room
        }
        return renamed;
    }
    return {};
}

// What is cleared makes room at its place: the next chunk moves there.
Result<void> SessionDirectory::erase(TraceChunk& chunk) {
    chunk.is_deleted = true;
    while (!chunk.top_level.empty()) {
        LEAT_TRY(chunk.directory->remove(*chunk.top_level.begin()));
        chunk.top_level.erase(chunk.top_level.begin());
    }
    chunk.directory.reset();
    if (!chunk.path.empty()) return directory_.remove(chunk.path);
    is_root_taken_ = false;
    if (!is_root_free() || chunks_.empty()) return {};
    return move_to_root(*chunks_.begin()->second);
}

Result<void> SessionDirectory::move_to_root(TraceChunk& chunk) {
    const std::string from = chunk.path;
    if (from.empty()) return {};
    ConfinedDirectory root = LEAT_TRY(directory_.make(""));
    // What somebody put in the way meanwhile stays.
    for (const std::string& name : chunk.top_level)
        if (root.exists(name)) return {};
    LEAT_TRY(rename_all(chunk, root));
    // A chunk that is closed already has said where it will be.
    if (chunk.closed_path == from) chunk.closed_path.clear();
    chunk.path.clear();
    is_root_taken_ = true;
    chunk.directory = std::move(root);
    return directory_.remove(from);
}

Result<std::string> parse_trace_path(const std::string& path) {
    std::string parsed = LEAT_TRY(parse_path(path));
    if (parsed.empty()) return refused("a trace has no path");
    for (std::size_t begin = 0; begin <= parsed.size();) {
        const std::size_t end = std::min(parsed.find('/', begin), parsed.size());
        const std::string_view step = std::string_view(parsed).substr(begin, end - begin);
        if (step.starts_with('.') || step == trace::kIndexDirectory || (begin == 0 && step == kArchives))
            return refused("\"{}\" is a name that only the relay gives", step);
        begin = end + 1;
    }
    return parsed;
}

}  // namespace leat::relay
