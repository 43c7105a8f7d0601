#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "consumer/output.hpp"
#include "output/trace_files.hpp"

namespace leat::output {

// A trace on disk, laid out as LTTng's ([LTTng-2.13], "Trace directories"): DIR/ust/uid/UID/64-bit/... . It may go on
// in another directory, a chunk, of which each is a trace that can be read by itself.
class TraceDirectory final : public consumer::Output {
  public:
    // Makes the directory of a session. One that exists must be empty.
    static Result<void> prepare(const std::filesystem::path& directory);
    // Makes a trace below it, which must be new. `trace_path` is below the directory: ust/uid/UID/64-bit. `owner`: see
    // TraceFiles; it gets ust/uid/UID.
    static Result<std::unique_ptr<TraceDirectory>> create(const std::filesystem::path& directory,
                                                          const std::filesystem::path& trace_path,
                                                          std::vector<ChannelFiles> channels,
                                                          std::optional<uid_t> owner = std::nullopt);

    // Goes on with one that another process has left, or did not get to make: see TraceFiles.
    static Result<std::unique_ptr<TraceDirectory>> resume(const std::filesystem::path& directory,
                                                          const std::filesystem::path& trace_path,
                                                          std::vector<ChannelFiles> channels,
                                                          std::optional<uid_t> owner, const TraceFiles::Stored& stored);

    // Removes the traces that lie in this directory, which need not be there, but for those that go on.
    static Result<void> remove_ended(const std::filesystem::path& directory,
                                     const std::set<std::filesystem::path>& going_on,
                                     const std::vector<ChannelFiles>& channels);

    Result<void> write_metadata(std::string_view unit) override;
    Result<void> restore_metadata(std::string_view text) override;
    Result<void> write_packet(const consumer::Packet& packet) override;
    void cycle_done(std::uint64_t horizon) override { files_->cycle_done(horizon); }
    [[nodiscard]] std::uint64_t part() const override { return part_; }

    [[nodiscard]] std::uint64_t metadata_bytes() const { return metadata_.size(); }

    Result<void> prepare_chunk(const std::filesystem::path& directory) override;
    Result<std::string> begin_chunk() override;
    void drop_chunk() override;
    Result<void> clear() override;
    Result<std::string> set_clock_offset(std::uint64_t offset) override;

    [[nodiscard]] std::vector<std::string> take_warnings() override { return std::exchange(warnings_, {}); }
    [[nodiscard]] std::uint64_t events_lost() const override { return lost_before_ + files_->events_lost(); }

    void remove_if_unused() override;

  private:
    TraceDirectory(std::filesystem::path root, std::filesystem::path trace_path)
        : root_(std::move(root)), trace_path_(std::move(trace_path)) {}
    [[nodiscard]] std::string place() const { return (root_ / trace_path_).string(); }

    std::filesystem::path root_;
    std::filesystem::path trace_path_;
    std::string metadata_;  // all of it
    std::unique_ptr<TraceFiles> files_;
    std::filesystem::path next_root_;
    std::unique_ptr<TraceFiles> next_;
    std::uint64_t part_ = 0;
    std::uint64_t lost_before_ = 0;  // events of chunks before this one
    std::vector<std::string> warnings_;
};

}  // namespace leat::output
