#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "consumer/output.hpp"
#include "output/channel_files.hpp"
#include "output/owned_files.hpp"
#include "output/stream_files.hpp"
#include "trace/sync_file.hpp"

namespace leat::output {

// Makes a directory, and those above it that are missing.
Result<void> make_with_parents(const std::filesystem::path& path);

// The files of one trace while they are written: {metadata, CHANNEL_RING, index/CHANNEL_RING.idx}, or with limits of
// the channel's files several of each stream. They can be followed while they grow: docs/formats/sync-file.md.
class TraceFiles {
  public:
    // The directory must be new. `owner`: whom it is given to, with the one above it and all in it; nobody else may
    // then read it. That user may do there what it likes: we keep hold of what we made, and follow no links.
    static Result<std::unique_ptr<TraceFiles>> create(const std::filesystem::path& directory,
                                                      std::vector<ChannelFiles> channels, std::optional<uid_t> owner);
    // The next chunk of this trace, in a new directory. Followers who come to the end of this one then wait for that.
    [[nodiscard]] Result<std::unique_ptr<TraceFiles>> create_next(const std::filesystem::path& directory) const;
    // Goes on with the files of a process that was killed, or that never made them. `stored`: for each stream that
    // has packets, the number of the next one; what the files have beyond, a packet that was being written, is cut off.
    using Stored = std::map<consumer::StreamId, std::uint64_t>;
    static Result<std::unique_ptr<TraceFiles>> resume(const std::filesystem::path& directory,
                                                      std::vector<ChannelFiles> channels, std::optional<uid_t> owner,
                                                      const Stored& stored);
    // Removes a trace that nobody writes any more. What is not ours in its directory stays.
    static Result<void> remove_ended(const std::filesystem::path& directory, std::vector<ChannelFiles> channels);
    // Followers learn that the trace has ended.
    ~TraceFiles();
    TraceFiles(const TraceFiles&) = delete;
    TraceFiles& operator=(const TraceFiles&) = delete;

    // Each of these writes all, or nothing that a reader would take for whole.
    Result<void> write_metadata(std::string_view unit);
    // All of it. The file has the first part, unless its process was killed while it replaced the metadata.
    Result<void> restore_metadata(std::string_view text);
    // By a new file: readers find the one or the other.
    Result<void> replace_metadata(std::string_view text);
    Result<void> write_packet(const consumer::Packet& packet);
    // Of packets whose files, or directory, somebody had removed before they were written.
    [[nodiscard]] std::uint64_t events_lost() const { return lost_.in_removed_files + lost_.without_metadata; }
    // Followers may read up to there.
    void cycle_done(std::uint64_t horizon);

    [[nodiscard]] bool has_streams() const { return !streams_.empty(); }
    // Removes all streams. Followers do not notice. An error: none was.
    Result<void> remove_streams();
    // Removes all that was made. Nothing may be written any more.
    void remove_trace();

  private:
    TraceFiles(std::filesystem::path trace, std::vector<ChannelFiles> channels, std::optional<uid_t> owner)
        : trace_(std::move(trace)), channels_(std::move(channels)), owner_(owner), files_(trace_, owner) {}

    static Result<std::unique_ptr<TraceFiles>> create(const std::filesystem::path& directory,
                                                      std::vector<ChannelFiles> channels, std::optional<uid_t> owner,
                                                      std::uint64_t horizon);
    enum class Existing { kRefused, kTaken };
    Result<void> make(Existing existing, std::uint64_t horizon);
    Result<void> make_directories(Existing existing);
    [[nodiscard]] Result<void> give_directories() const;
    [[nodiscard]] StreamFiles::Place place_of(consumer::StreamId id) const;
    Result<void> write_to_stream(const consumer::Packet& packet);
    [[nodiscard]] bool is_directory_removed() const;
    [[nodiscard]] bool has_no_metadata() const;

    struct Lost {  // events
        std::uint64_t in_removed_files = 0;
        std::uint64_t without_metadata = 0;  // until these are written again
    };

    std::filesystem::path trace_;
    std::vector<ChannelFiles> channels_;
    std::optional<uid_t> owner_;
    OwnedFiles files_;
    UniqueFd trace_fd_;
    UniqueFd index_fd_;
    GrowingFile metadata_;
    std::optional<trace::SyncWriter> sync_;  // none: nobody can follow the trace, but it is complete
    std::map<consumer::StreamId, StreamFiles> streams_;
    bool are_names_counted_ = true;  // by the file system
    Lost lost_{};
};

}  // namespace leat::output
