#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "relay/session_directory.hpp"
#include "wire/relay_messages.hpp"
#include "wire/sync_file.hpp"

namespace leat::relay {

// The metadata of one trace on its way to disk. A message becomes visible whole or not at all: a declaration may go
// over the borders of the packets in it. Guarded by its session.
class MetadataStream {
  public:
    static Result<std::unique_ptr<MetadataStream>> create(std::uint64_t handle, std::string path,
                                                          std::shared_ptr<SessionDirectory> directory,
                                                          std::shared_ptr<TraceChunk> chunk);
    ~MetadataStream();
    MetadataStream(const MetadataStream&) = delete;
    MetadataStream& operator=(const MetadataStream&) = delete;

    [[nodiscard]] std::uint64_t handle() const { return handle_; }
    [[nodiscard]] const std::string& path() const { return path_; }

    // Bytes of one message, in pieces: as many as the disk has room for. end_message() shows them.
    Result<std::size_t> write(UntrustedBytes piece);
    Result<std::size_t> write_zeros(std::uint64_t count);
    void end_message() { size_ = written_; }

    // The whole text comes again.
    Result<void> reset();
    // It goes on in another chunk, where the whole text comes again; or in none.
    Result<void> rotate(std::shared_ptr<TraceChunk> chunk);
    void finish();
    [[nodiscard]] bool is_finished() const { return is_finished_; }

    // Bytes of whole messages in the file.
    [[nodiscard]] std::uint64_t size() const { return size_; }
    // Tells followers of the directory: the text so far, and events up to `horizon` (cycles of the trace's clock) are
    // there. (docs/formats/sync-file.md)
    void publish(std::uint64_t horizon);

    // For reading; another one after a rotation.
    [[nodiscard]] UniqueFd duplicate() const;

  private:
    MetadataStream(std::uint64_t handle, std::string path, std::shared_ptr<SessionDirectory> directory)
        : handle_(handle), path_(std::move(path)), directory_(std::move(directory)) {}
    // The session has ended for those who follow the directory.
    void end_followed();
    Result<void> open_in(std::shared_ptr<TraceChunk> chunk);

    std::uint64_t handle_;
    std::string path_;
    std::shared_ptr<SessionDirectory> directory_;
    std::shared_ptr<TraceChunk> chunk_{};
    UniqueFd file_{};
    struct Followed {
        ConfinedDirectory directory;
        wire::SyncWriter sync;
        std::uint64_t horizon = 0;
        std::uint64_t size = 0;
    };
    std::optional<Followed> followed_{};
    std::uint64_t written_ = 0;
    std::uint64_t size_ = 0;
    bool is_finished_ = false;
};

}  // namespace leat::relay
