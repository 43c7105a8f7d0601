#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "trace/index_format.hpp"
#include "trace/sync_file.hpp"
#include "viewer/merge/live_merge.hpp"
#include "viewer/read/followed_file.hpp"
#include "viewer/read/live_stream.hpp"
#include "viewer/read/live_trace.hpp"
#include "viewer/read/progress.hpp"

namespace leat::viewer {

// Follows a trace directory that is being written: docs/formats/sync-file.md. It reads by the index, and reads nothing
// that the writer has locked. Files may be truncated at any time, so they are read, not mapped.
//
// A writer with a size limit goes from file to file. With a count limit as well, it replaces the oldest file by the
// next. The index of a file says which stream the file belongs to, and where in that stream:
//
//   ch_0_0   replaced by   ch_0_0        a stream:  ch_0_0 (old, still held) -> ch_0_1 -> ch_0_2 -> ch_0_0 (new)
//   ch_0_1
//   ch_0_2
class FollowedTrace {
  public:
    using Warn = std::function<void(const std::string&)>;

    struct Opened {
        std::unique_ptr<FollowedTrace> trace{};  // null: the directory is gone, or has no metadata, or it is finished
        std::optional<FileIdentity> finished{};  // no writer is left, and the trace began before we came
    };
    // `has_begun_since`: we were there before the trace, or so we think. Then it is read also if no writer is left.
    // The merge must outlive the object.
    static Result<Opened> open(const std::filesystem::path& directory, std::uint64_t trace_number, LiveMerge& merge,
                               Warn warn, bool has_begun_since = false);

    // Its streams hold nobody up any more.
    ~FollowedTrace();
    FollowedTrace(const FollowedTrace&) = delete;
    FollowedTrace& operator=(const FollowedTrace&) = delete;

    // Reads on in all streams that had been read to their end.
    Result<Progress> advance();
    // Which directory it is, whatever its name by now.
    [[nodiscard]] FileIdentity identity() const { return FileIdentity::of(fd_.get()); }
    // The number of streams of which something could not be shown. A warning said what.
    [[nodiscard]] std::uint64_t cut_short() const { return cut_short_; }
    // Sleeps until there is more to read, the writer is gone, or a signal comes.
    Result<void> wait();

  private:
    // Stream class and instance. An index of version 1.0 does not state them: then there is no key, and each file is a
    // stream.
    using Key = std::pair<std::uint64_t, std::uint64_t>;

    struct File {
        std::shared_ptr<FollowedFile> file;
        std::uint64_t first_packet;  // its number in the stream
    };
    struct FollowedStream {
        std::shared_ptr<LiveStream> stream;
        std::optional<Key> key;
        std::string name;               // of the file that is being read
        std::deque<File> files{};       // in the order of their packets; the first is being read
        bool has_begun = false;         // whether reading the first has begun
        std::uint64_t next_packet = 0;  // after the last that was read
    };
    // A file that does not say yet which stream it belongs to.
    struct UnknownFile {
        std::shared_ptr<FollowedFile> file;
        std::shared_ptr<LiveStream> stream;  // holds the merge back; becomes the file's stream if that is a new one
    };

    FollowedTrace(std::filesystem::path directory, UniqueFd fd, std::uint64_t trace_number,
                  std::optional<trace::SyncReader> sync, LiveMerge& merge, Warn warn, bool has_begun_since)
        : directory_(std::move(directory)),
          fd_(std::move(fd)),
          place_("/proc/self/fd/" + std::to_string(fd_.get())),
          trace_(trace_number),
          sync_(std::move(sync)),
          merge_(&merge),
          warn_(std::move(warn)),
          has_looked_(has_begun_since) {}

    Result<void> find_all_files();
    Result<void> add_new_files();
    [[nodiscard]] bool may_come_later(const Error& error) const;
    void note_unreadable(const std::string& name, const Error& error);
    void place_files();
    Result<bool> place(const UnknownFile& unknown);
    void add_to_stream(const UnknownFile& unknown, const ctf::IndexEntry& entry);
    void warn_of_streams_without_beginning();
    void hold_back();
    void keep_quiet(LiveStream& stream);
    void take_new_metadata_file();
    Result<void> read_metadata();
    Result<bool> advance(FollowedStream& stream);
    Result<bool> feed(FollowedStream& stream, FollowedFile& file, const ctf::IndexEntry& entry);
    void end(FollowedStream& stream);
    [[nodiscard]] bool is_over() const;

    std::filesystem::path directory_;  // as people know it
    // A rotation moves the directory, and a clear may remove it: what we hold stays the same.
    UniqueFd fd_;
    std::filesystem::path place_;  // leads through fd_
    LiveTrace trace_;
    std::optional<trace::SyncReader> sync_;  // none: the writer has ended, and taken the file away
    LiveMerge* merge_;
    Warn warn_;
    UniqueFd metadata_;
    // A stream without events that keeps the merge from going beyond the published horizon. A writer may be in the
    // middle of its next round, and the first packet of a new stream may still be missing.
    std::shared_ptr<LiveStream> limit_;
    std::map<std::string, std::shared_ptr<FollowedFile>> files_;  // by name: the file of that name when we last looked
    std::set<std::string> unreadable_;  // names of files whose index cannot be opened, as people know
    std::vector<UnknownFile> unknown_files_;
    std::list<FollowedStream> streams_;  // includes those that have ended
    std::map<Key, FollowedStream*> stream_by_key_;
    trace::SyncState state_{};
    bool is_writer_gone_ = false;
    bool has_looked_;  // what comes now has begun since we came
    std::uint64_t cut_short_ = 0;
};

}  // namespace leat::viewer
