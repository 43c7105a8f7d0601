#include "relay/store/metadata_stream.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/log.hpp"
#include "ctf/record/index_entry.hpp"
#include "relay/store/stream_file.hpp"

namespace leat::relay {
namespace {

constexpr const char* kFileName = "metadata";
// Until a whole message is there. Readers of a session take every directory with metadata for a trace, and babeltrace2
// reads nothing at all if one of them is empty: so a relay that is killed leaves none that is. No reader takes a hidden
// file for a stream.
constexpr const char* kNewFileName = ".metadata-new";

// In place of what a killed relay may have left.
Result<UniqueFd> new_file(const ConfinedDirectory& directory) {
    LEAT_TRY(directory.remove(kNewFileName));
    return directory.create_file(kNewFileName);
}

}  // namespace

Result<std::unique_ptr<MetadataStream>> MetadataStream::create(std::uint64_t trace_id, std::string path,
                                                               std::shared_ptr<SessionDirectory> directory,
                                                               std::shared_ptr<TraceChunk> chunk) {
    std::unique_ptr<MetadataStream> stream(new MetadataStream(trace_id, std::move(path), std::move(directory)));
    LEAT_TRY(stream->open_in(std::move(chunk)));
    return stream;
}

MetadataStream::~MetadataStream() { finish(); }

Result<void> MetadataStream::open_in(std::shared_ptr<TraceChunk> chunk) {
    SessionDirectory::TracePlace trace = LEAT_TRY(directory_->make_trace(*chunk, trace_id_, path_));
    // First: by the metadata a trace is known, and then it can be followed.
    trace::SyncWriter sync = LEAT_TRY(trace::SyncWriter::create(trace.directory.fd()));
    UniqueFd file = LEAT_TRY(new_file(trace.directory));
    directory_->enter_metadata(*chunk, trace_id_);
    leave();
    followed_.emplace(Followed{{std::move(trace.directory), std::move(sync)}});
    begin(std::move(file));
    place_ = Place{chunk, std::move(trace.path)};
    chunk_ = std::move(chunk);
    return {};
}

Result<std::size_t> MetadataStream::write(UntrustedBytes piece) {
    const std::lock_guard lock(mutex_);
    return write_locked(piece);
}

Result<std::size_t> MetadataStream::write_locked(UntrustedBytes piece) {
    if (chunk_ == nullptr) return refused("the metadata of {} is closed", path_);
    const std::size_t count = LEAT_TRY(write_what_fits(file_->get(), written_, piece));
    written_ += count;
    scan_.add(piece.first(count), MetadataScan::kAll, &declared_);
    return count;
}

Result<std::size_t> MetadataStream::write_zeros(std::uint64_t count) {
    static constexpr std::array<std::byte, 64 << 10> kZeros{};
    return write(UntrustedBytes(kZeros).first(static_cast<std::size_t>(std::min<std::uint64_t>(count, kZeros.size()))));
}

// Viewers and followers see what lies before size_: bytes behind it are half a message.
Result<void> MetadataStream::end_message() {
    const std::lock_guard lock(mutex_);
    if (chunk_ == nullptr) return refused("the metadata of {} is closed", path_);
    show();
    return is_hidden_ && written_ != 0 ? give_name() : Result<void>();
}

Result<void> MetadataStream::give_name() {
    const ConfinedDirectory& directory = followed_->place.directory;
    LEAT_TRY(directory.rename(kNewFileName, directory, kFileName));
    is_hidden_ = false;
    return {};
}

void MetadataStream::begin(UniqueFd file) {
    file_ = std::make_shared<const UniqueFd>(std::move(file));
    is_hidden_ = true;
    ++version_;
    written_ = 0;
    scan_ = {};
    declared_.begin_text();
    show();
}

void MetadataStream::show() {
    size_ = written_;
    end_ = begin_ + scan_.text();
    declared_.end_message(end_);
    furthest_end_ = std::max<std::uint64_t>(furthest_end_, end_);
}

Result<void> MetadataStream::reset() {
    const std::lock_guard lock(mutex_);
    if (chunk_ == nullptr) return refused("the metadata of {} is closed", path_);
    begin(LEAT_TRY(new_file(followed_->place.directory)));
    return {};
}

Result<void> MetadataStream::reopen(std::shared_ptr<TraceChunk> chunk) {
    const std::lock_guard lock(mutex_);
    LEAT_TRY(open_in(std::move(chunk)));
    declared_ = {};
    begin_ = furthest_end_;
    show();
    is_finished_ = false;
    return {};
}

// The text is not copied: the producer sends it again for the new chunk.
Result<void> MetadataStream::rotate(const std::shared_ptr<TraceChunk>& chunk) {
    const std::lock_guard lock(mutex_);
    if (is_finished_ || chunk == chunk_) return {};
    if (chunk != nullptr) return open_in(chunk);
    leave();
    return {};
}

void MetadataStream::publish(std::uint64_t horizon) {
    const std::lock_guard lock(mutex_);
    if (!followed_ || (horizon <= followed_->horizon && size_ == followed_->size)) return;
    followed_->horizon = std::max(followed_->horizon, horizon);
    followed_->size = size_;
    const auto published = followed_->place.sync.publish(followed_->horizon, size_);
    if (!published) log("{}: {}", path_, published.error().message);
}

void MetadataStream::leave() {
    if (chunk_ == nullptr) return;
    // What came of a message that was never finished, or of a write that failed in the middle.
    (void)!::ftruncate(file_->get(), static_cast<off_t>(size_));
    written_ = size_;
    // Its producer was killed before it sent any, perhaps in the middle of a rotation; or the name is still to be had.
    if (is_hidden_) {
        const auto done = written_ == 0 ? followed_->place.directory.remove(kNewFileName) : give_name();
        if (!done) log("{}: {}", path_, done.error().message);
    }
    file_.reset();
    directory_->leave_metadata(*chunk_, trace_id_, std::move(followed_->place));
    followed_.reset();
    chunk_.reset();
}

void MetadataStream::finish() {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return;
    is_finished_ = true;
    leave();
}

// After the stream has left its chunk, the file may have been moved with it: it is opened where it is now.
Result<MetadataStream::Text> MetadataStream::text() const {
    const std::lock_guard lock(mutex_);
    if (file_ != nullptr) return Text{file_, begin_, size_, version_};
    const ConfinedDirectory trace = LEAT_TRY(directory_->open_trace(*place_->chunk, place_->path));
    UniqueFd file = LEAT_TRY(trace.open_file(kFileName));
    return Text{std::make_shared<const UniqueFd>(std::move(file)), begin_, size_, version_};
}

bool MetadataStream::declares_any() const {
    const std::lock_guard lock(mutex_);
    return is_finished_ || declared_.has_any(end_);
}

MetadataStream::State MetadataStream::state(std::uint64_t stream_class_id, std::uint64_t position) const {
    const std::lock_guard lock(mutex_);
    const bool need_not_be = is_finished_ || stream_class_id == ctf::IndexEntry::kUnknown;
    return {.chunk = place_->chunk.get(),
            .end = end_,
            .furthest_end = furthest_end_,
            .is_finished = is_finished_,
            .is_declared = need_not_be || declared_.has(stream_class_id, std::max<std::uint64_t>(position, end_))};
}

std::vector<Unsynced> MetadataStream::take_unsynced() {
    const std::lock_guard lock(mutex_);
    const Named now{.version = version_, .is_hidden = is_hidden_, .is_closed = file_ == nullptr};
    std::vector<Unsynced> unsynced;
    if (now == named_ && size_ == named_size_) return unsynced;
    unsynced.push_back(now == named_ ? Unsynced{duplicate(file_->get())} : directory_->unsynced());
    if (!unsynced.front().file.is_open()) return unsynced;
    named_ = now;
    named_size_ = size_;
    return unsynced;
}

bool MetadataStream::has_no_text() const {
    const std::lock_guard lock(mutex_);
    return is_finished_ && (size_ == 0 || place_->chunk->is_deleted);
}

bool MetadataStream::is_cleared() const {
    if (has_no_text()) return true;
    const auto found = text();
    return !found && found.error().kind == ErrorKind::kNotFound;
}

}  // namespace leat::relay
