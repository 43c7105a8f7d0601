#include "relay/metadata_stream.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "relay/log.hpp"
#include "relay/stream_file.hpp"

namespace leat::relay {

Result<std::unique_ptr<MetadataStream>> MetadataStream::create(std::uint64_t handle, std::string path,
                                                               std::shared_ptr<SessionDirectory> directory,
                                                               std::shared_ptr<TraceChunk> chunk) {
    std::unique_ptr<MetadataStream> stream(new MetadataStream(handle, std::move(path), std::move(directory)));
    LEAT_TRY(stream->open_in(std::move(chunk)));
    return stream;
}

MetadataStream::~MetadataStream() { finish(); }

Result<void> MetadataStream::open_in(std::shared_ptr<TraceChunk> chunk) {
    ConfinedDirectory trace = LEAT_TRY(directory_->make_path(*chunk, path_));
    // First: by the metadata a trace is known, and then it can be followed.
    wire::SyncWriter sync = LEAT_TRY(wire::SyncWriter::create(trace.fd()));
    UniqueFd file = LEAT_TRY(trace.create_file("metadata"));
    end_followed();
    file_ = std::move(file);
    followed_.emplace(Followed{std::move(trace), std::move(sync)});
    written_ = size_ = 0;
    directory_->enter(*chunk);
    if (chunk_ != nullptr) directory_->leave(*chunk_);
    chunk_ = std::move(chunk);
    return {};
}

Result<std::size_t> MetadataStream::write(UntrustedBytes piece) {
    if (!file_.is_open() || is_finished_) return refused("metadata stream {} is closed", handle_);
    const std::size_t count = LEAT_TRY(write_what_fits(file_.get(), written_, piece));
    written_ += count;
    return count;
}

Result<std::size_t> MetadataStream::write_zeros(std::uint64_t count) {
    static constexpr std::array<std::byte, 4096> kZeros{};
    return write(UntrustedBytes(kZeros).first(static_cast<std::size_t>(std::min<std::uint64_t>(count, kZeros.size()))));
}

Result<void> MetadataStream::reset() {
    if (!file_.is_open() || ::ftruncate(file_.get(), 0) != 0) return io_error("cannot empty the metadata");
    written_ = size_ = 0;
    return {};
}

Result<void> MetadataStream::rotate(std::shared_ptr<TraceChunk> chunk) {
    if (chunk != nullptr) return open_in(std::move(chunk));
    end_followed();
    if (chunk_ != nullptr) directory_->leave(*chunk_);
    chunk_.reset();
    return {};
}

void MetadataStream::publish(std::uint64_t horizon) {
    if (!followed_ || (horizon <= followed_->horizon && size_ == followed_->size)) return;
    followed_->horizon = std::max(followed_->horizon, horizon);
    followed_->size = size_;
    const auto published = followed_->sync.publish(followed_->horizon, size_);
    if (!published) log("{}: {}", path_, published.error().message);
}

void MetadataStream::end_followed() {
    if (!followed_) return;
    (void)followed_->directory.remove(wire::kSyncFileName);
    followed_.reset();
}

void MetadataStream::finish() {
    if (is_finished_) return;
    is_finished_ = true;
    // What came of a message that was never finished.
    if (file_.is_open() && written_ != size_) (void)!::ftruncate(file_.get(), static_cast<off_t>(size_));
    end_followed();
    if (chunk_ != nullptr) directory_->leave(*chunk_);
    chunk_.reset();
}

UniqueFd MetadataStream::duplicate() const { return UniqueFd(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0)); }

}  // namespace leat::relay
