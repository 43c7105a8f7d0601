#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "relay/store/metadata_scan.hpp"
#include "relay/store/session_directory.hpp"
#include "trace/sync_file.hpp"

namespace leat::relay {

// The metadata of one trace on its way to disk. A message becomes visible whole or not at all: a declaration may go
// over the borders of the packets in it. Any thread; kDiskFull: nothing was done, to be tried again.
//
//     file      | whole messages | the message that is just coming |
//               0             size_                            written_
//
//             create()              rotate(nullptr)
//     (none)  -------->  in a chunk  --------------->  out of every chunk
//                        |   ^    ^  <---------------       |
//              finish()  |   |    |    rotate(chunk)        |  finish()
//                        v   |    |                         v
//                     finished    +-- rotate(another)    finished
//                            |
//                            +-- reopen()
//
// A finished one can be reopened: a producer may declare the same trace again. Its old text then gives way to the new,
// which may differ. To viewers the new text comes after the old:
//
//     positions    | text before it was reopened | text in the file |
//                  0                             begin_             end()
//
// After a rotation, or a reset, the same text is sent again, into another file, and has the same positions: they count
// text, without the headers and zeros of its packets, because it may be packed anew (MetadataScan).
class MetadataStream {
  public:
    static Result<std::unique_ptr<MetadataStream>> create(std::uint64_t trace_id, std::string path,
                                                          std::shared_ptr<SessionDirectory> directory,
                                                          std::shared_ptr<TraceChunk> chunk);
    ~MetadataStream();
    MetadataStream(const MetadataStream&) = delete;
    MetadataStream& operator=(const MetadataStream&) = delete;

    // Bytes of one message, in pieces: as many as the disk has room for. end_message() shows them.
    Result<std::size_t> write(UntrustedBytes piece);
    Result<std::size_t> write_zeros(std::uint64_t count);
    Result<void> end_message();

    // The whole text comes again: for the same chunk, where the old one stays on disk until a message of the new one is
    // whole; or after it was finished,
    Result<void> reset();
    Result<void> reopen(std::shared_ptr<TraceChunk> chunk);
    // or in another one. It may also go on in none.
    Result<void> rotate(const std::shared_ptr<TraceChunk>& chunk);
    void finish();
    [[nodiscard]] bool is_finished() const { return is_finished_; }

    // The position after the last whole message.
    [[nodiscard]] std::uint64_t end() const { return end_; }
    // What is there, at one time.
    struct State {
        const TraceChunk* chunk;  // that the text is in, as long as that is so
        std::uint64_t end;
        std::uint64_t furthest_end;  // of all that was there: after a rotation it comes again, until `end` is here
        bool is_finished;
        bool is_declared;
    };
    // `is_declared`: whole messages, or all that was there up to this position, declare that stream class. If no more
    // will come, nobody need wait for it; nor for that of a packet that names none (ctf::IndexEntry::kUnknown).
    [[nodiscard]] State state(std::uint64_t stream_class_id, std::uint64_t position) const;
    // Any stream class at all.
    [[nodiscard]] bool declares_any() const;
    // Tells followers of the directory: the text so far, and events up to `horizon` (cycles of the trace's clock) are
    // there. (docs/formats/sync-file.md)
    void publish(std::uint64_t horizon);

    // For reading: the whole messages in a file, which is another one after a rotation. kNotFound: it has been cleared.
    struct Text {
        std::shared_ptr<const UniqueFd> file;
        std::uint64_t begin;    // position of its first text
        std::uint64_t size;     // bytes
        std::uint64_t version;  // of the file: each has another, from 1 on
    };
    [[nodiscard]] Result<Text> text() const;
    // As DataStream's.
    std::vector<Unsynced> take_unsynced();
    // Nobody can have the text: it was cleared, or it ended before it began.
    [[nodiscard]] bool is_cleared() const;
    // The same of one that is finished, without a look at files: somebody else may have removed them.
    [[nodiscard]] bool has_no_text() const;

  private:
    MetadataStream(std::uint64_t trace_id, std::string path, std::shared_ptr<SessionDirectory> directory)
        : trace_id_(trace_id), path_(std::move(path)), directory_(std::move(directory)) {}
    Result<void> open_in(std::shared_ptr<TraceChunk> chunk);
    Result<std::size_t> write_locked(UntrustedBytes piece);
    // What is written is whole messages.
    void show();
    Result<void> give_name();
    // The text goes to a file with nothing in it.
    void begin(UniqueFd file);
    // Nothing more comes into this chunk.
    void leave();

    const std::uint64_t trace_id_;
    const std::string path_;
    const std::shared_ptr<SessionDirectory> directory_;

    mutable std::mutex mutex_;
    std::shared_ptr<TraceChunk> chunk_{};  // that is written to
    struct Place {
        std::shared_ptr<TraceChunk> chunk;
        std::string path;  // in it
    };
    std::optional<Place> place_{};  // where the file is
    std::shared_ptr<const UniqueFd> file_{};
    struct Followed {
        SyncPlace place;
        std::uint64_t horizon = 0;
        std::uint64_t size = 0;
    };
    std::optional<Followed> followed_{};
    bool is_hidden_ = false;  // the file does not have its name yet
    std::uint64_t version_ = 0;
    // Of which file take_unsynced() has named what: bytes of it, or whether it has its name, and is closed.
    struct Named {
        std::uint64_t version = 0;
        bool is_hidden = false;
        bool is_closed = true;

        bool operator==(const Named&) const = default;
    };
    Named named_{};
    std::uint64_t named_size_ = 0;
    std::uint64_t written_ = 0;
    MetadataScan scan_{};  // of what is written
    DeclaredStreams declared_{};
    std::uint64_t size_ = 0;
    std::uint64_t begin_ = 0;
    std::uint64_t furthest_end_ = 0;  // no viewer has read beyond this position
    std::atomic<std::uint64_t> end_{0};
    std::atomic<bool> is_finished_{false};
};

}  // namespace leat::relay
