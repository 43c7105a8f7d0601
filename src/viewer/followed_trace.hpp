#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "ctf/index_format.hpp"
#include "viewer/live_merge.hpp"
#include "viewer/live_stream.hpp"
#include "viewer/live_trace.hpp"
#include "viewer/progress.hpp"
#include "wire/sync_file.hpp"

namespace leat::viewer {

// Follows a trace directory that somebody writes: docs/formats/sync-file.md. Reads by the index, and nothing that is
// under the writer's lock. Files may be cut under our hands: they are read, not mapped.
class FollowedTrace {
  public:
    using Warn = std::function<void(const std::string&)>;

    // Nothing if nobody writes there any more: then it is a recorded trace. The merge outlives the object.
    static Result<std::unique_ptr<FollowedTrace>> open(const std::filesystem::path& directory,
                                                       std::uint64_t trace_number, LiveMerge& merge, Warn warn);

    // One turn over all streams that have been read to their end.
    Result<Progress> advance();
    // Streams of which something could not be shown; what, a warning said.
    [[nodiscard]] std::uint64_t cut_short() const { return cut_short_; }
    // Sleeps until there is more, the writer is gone, or a signal comes.
    Result<void> wait();

  private:
    struct File {
        std::string name;
        UniqueFd data;
        UniqueFd index;
        std::shared_ptr<LiveStream> stream;
        std::uint64_t position = 0;    // in the index
        std::uint64_t entry_size = 0;  // 0: its header has not been read
    };

    FollowedTrace(std::filesystem::path directory, std::uint64_t trace_number, wire::SyncReader sync, LiveMerge& merge,
                  Warn warn)
        : directory_(std::move(directory)),
          trace_(trace_number),
          sync_(std::move(sync)),
          merge_(&merge),
          warn_(std::move(warn)) {}

    Result<void> add_new_files();
    void hold_back();
    Result<void> read_metadata();
    Result<bool> advance(File& file);
    Result<std::optional<ctf::IndexEntry>> next_entry(File& file);
    Result<bool> feed(File& file, const ctf::IndexEntry& entry);
    void end(File& file);

    std::filesystem::path directory_;
    LiveTrace trace_;
    wire::SyncReader sync_;
    LiveMerge* merge_;
    Warn warn_;
    UniqueFd metadata_;
    // Has no events: keeps the merge from going beyond what was published. A writer may be in the middle of its next
    // round, and the first packet of a new stream still be missing.
    std::shared_ptr<LiveStream> limit_;
    std::set<std::string> known_;  // names of files
    std::vector<File> files_;
    wire::SyncState state_{};
    bool is_writer_gone_ = false;
    std::uint64_t cut_short_ = 0;
};

}  // namespace leat::viewer
