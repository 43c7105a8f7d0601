#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "relay/store/disk_sync.hpp"
#include "relay/store/pairing_table.hpp"
#include "relay/store/session_directory.hpp"
#include "relay/store/stream_file.hpp"
#include "trace/file_limits.hpp"

namespace leat::relay {

// What the files of a stream are called and how they roll, in every chunk.
struct FileNaming {
    std::uint64_t trace_id = 0;
    std::string path{};  // of its trace, below the chunk
    std::string channel_name{};
    std::uint64_t size_limit = 0;                                   // bytes; 0: one file
    std::uint64_t count_limit = 0;                                  // files; 0: all are kept
    std::optional<std::uint32_t> index_minor = trace::kIndexMinor;  // none: there are no indexes

    [[nodiscard]] trace::FileLimits limits() const { return {.size = size_limit, .count = count_limit}; }
};

// Where the files of a stream are, in one chunk: for those who read them, while they are written. Any thread.
class FilePlace {
  public:
    FilePlace(FileNaming naming, std::shared_ptr<const SessionDirectory> directory,
              std::shared_ptr<const TraceChunk> chunk, std::string path, std::uint64_t first)
        : naming_(std::move(naming)),
          directory_(std::move(directory)),
          chunk_(std::move(chunk)),
          path_(std::move(path)),
          oldest_(first),
          first_(first) {}

    // Files have numbers that only ever grow, also over chunks. Those before the oldest are gone.
    [[nodiscard]] std::uint64_t oldest() const { return oldest_; }
    [[nodiscard]] std::string file_name(std::uint64_t number) const;
    // kNotFound: it has gone meanwhile.
    [[nodiscard]] Result<std::shared_ptr<const StreamFile::Open>> open(std::uint64_t number) const;
    // All of them: they were cleared.
    [[nodiscard]] bool are_gone() const { return chunk_->is_deleted; }
    [[nodiscard]] bool is_in(const TraceChunk* chunk) const { return chunk_.get() == chunk; }

    // The writer's: before the file itself goes.
    void set_oldest(std::uint64_t oldest) { oldest_ = oldest; }
    [[nodiscard]] Result<ConfinedDirectory> open_directory() const { return directory_->open_trace(*chunk_, path_); }

  private:
    FileNaming naming_;
    std::shared_ptr<const SessionDirectory> directory_;
    std::shared_ptr<const TraceChunk> chunk_;
    std::string path_;  // as the directory was made
    std::atomic<std::uint64_t> oldest_;
    std::uint64_t first_;
};

// The files of one stream in one chunk, as they are written.
//
//     rolled away |  closed  |  open: entries to come  |   current    |  open: data, no entries yet  |  next
//     ------------|----------|-------------------------|--------------|------------------------------|------->  number
//          FilePlace::oldest()                    for_entry()                                  for_packet()
//
// Only the newest takes packets. Older ones stay open as long as entries for their packets may come; the current one
// took the last entry. With a limit of files, a new one takes the name of the oldest: numbers never come again, names
// do. Belongs to its stream, under whose lock all of it is called.
class FileSequence {
  public:
    // For a file that is open beside another one, as long as that is so. Null: there is none. Not set: there are
    // always.
    using TakePlace = std::function<std::shared_ptr<void>()>;
    FileSequence(FileNaming naming, std::shared_ptr<SessionDirectory> directory, std::shared_ptr<TraceChunk> chunk,
                 std::uint64_t first, TakePlace take_place = {});

    [[nodiscard]] TraceChunk& chunk() const { return *chunk_; }
    [[nodiscard]] std::uint64_t first() const { return first_; }
    [[nodiscard]] std::uint64_t next_number() const { return next_; }
    // None before the first file.
    [[nodiscard]] const std::shared_ptr<const FilePlace>& place() const { return readable_place_; }

    // As many may wait for entries: then packets go on in the last one, however large it is.
    static constexpr std::size_t kMostOpen = 16;

    // Where a packet of so many bytes goes: behind the last one, or into a new file, and then the oldest may have to
    // go.
    Result<StreamFile*> for_packet(std::uint64_t size);
    // Null: it has been closed.
    StreamFile* find(std::uint64_t number);
    // Whose index takes the entry of a packet: the file of its data; without any, the file of the last entry.
    Result<StreamFile*> for_entry(const std::optional<StoredData>& data);
    // The last entry is in this file: it is the newest that may be read.
    void set_current(const StreamFile& file) { current_ = file.number(); }
    // Null before the first entry.
    StreamFile* current() { return current_ ? find(*current_) : nullptr; }

    [[nodiscard]] std::size_t unflushed() const;  // bytes
    Result<void> flush();
    // Files before the current one that hold none of this data: nothing waits for them any more.
    void close_unused(std::span<const StoredData> waiting);
    // The same where there are no entries: but for the newest.
    void close_rolled();
    // Nothing more comes. What is not safe to read is cut off.
    void finish();
    // As if it had never been.
    void discard();

    // The numbers of what is open, and its descriptors, for those who bring it to disk. The latter is closed where
    // there are no more.
    [[nodiscard]] std::vector<std::uint64_t> numbers() const;
    [[nodiscard]] std::vector<Unsynced> duplicates() const;

  private:
    Result<void> open_next();
    Result<void> open_first(const SessionDirectory::TracePlace& trace);
    Result<void> open_another();
    void close_oldest();

    FileNaming naming_;
    std::shared_ptr<SessionDirectory> directory_;
    std::shared_ptr<TraceChunk> chunk_;
    TakePlace take_place_;
    std::shared_ptr<FilePlace> place_{};
    std::shared_ptr<const FilePlace> readable_place_{};
    std::deque<StreamFile> files_;
    std::optional<std::uint64_t> current_{};
    std::uint64_t first_;
    std::uint64_t next_;
};

}  // namespace leat::relay
