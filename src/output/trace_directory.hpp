#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "consumer/output.hpp"
#include "trace/moving_lock.hpp"
#include "trace/sync_file.hpp"

namespace leat::output {

// A trace on disk, laid out as LTTng's ([LTTng-2.13], "Trace directories"): DIR/ust/uid/UID/64-bit/{metadata,
// CHANNEL_CPU, index/CHANNEL_CPU.idx}. It can be followed while it grows: docs/formats/sync-file.md.
class TraceDirectory final : public consumer::Output {
  public:
    // Creates the directory. One that exists must be empty.
    static Result<std::unique_ptr<TraceDirectory>> create(const std::filesystem::path& directory, uid_t uid,
                                                          std::string channel);
    // Followers learn that the trace has ended.
    ~TraceDirectory() override;
    TraceDirectory(const TraceDirectory&) = delete;
    TraceDirectory& operator=(const TraceDirectory&) = delete;

    Result<void> write_metadata(std::string_view unit) override;
    Result<void> write_packet(const consumer::Packet& packet) override;
    void cycle_done(std::uint64_t horizon) override;

    [[nodiscard]] std::uint64_t metadata_bytes() const { return metadata_.size; }

    void remove_if_unused() override;

  private:
    // A file that never ends in the middle of what was appended.
    struct GrowingFile {
        UniqueFd fd;
        std::uint64_t size = 0;
    };
    struct StreamFiles {
        GrowingFile data;
        GrowingFile index;
        trace::MovingLock unsafe{};  // of the data: what has no index entry yet
    };

    TraceDirectory(std::filesystem::path root, std::filesystem::path trace, std::string channel)
        : root_(std::move(root)), trace_(std::move(trace)), channel_(std::move(channel)) {}

    Result<StreamFiles*> files_of(std::uint64_t stream_instance_id);
    static Result<GrowingFile> create_file(const std::filesystem::path& path);
    static void cut(GrowingFile& file, std::uint64_t size);
    // Appends the parts one after the other; all of them, or none.
    static Result<void> append(GrowingFile& file, std::initializer_list<UntrustedBytes> parts);

    std::filesystem::path root_;
    std::filesystem::path trace_;
    std::string channel_;
    GrowingFile metadata_;
    std::optional<trace::SyncWriter> sync_;  // none: nobody can follow the trace, but it is complete
    std::map<std::uint64_t, StreamFiles> streams_;
};

}  // namespace leat::output
