#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "consumer/output.hpp"
#include "output/owned_files.hpp"
#include "trace/file_limits.hpp"
#include "trace/moving_lock.hpp"

namespace leat::output {

// Removes a file of a stream, and its index.
void remove_stream_file(int trace_directory, int index_directory, const std::string& name);

// A file of a stream that has more than its index knows: who wrote it was killed in between.
struct UnfinishedFile {
    std::filesystem::path file;
    std::uint64_t size;    // bytes that its index knows
    std::uint64_t beyond;  // and how many come after that
};
// Of the trace, in whatever chunks it is below a session's directory. `owner`: files of others do not count; none: they
// do.
std::vector<UnfinishedFile> find_unfinished_files(const std::filesystem::path& session_directory,
                                                  const std::filesystem::path& trace_path, std::optional<uid_t> owner);

// The files of one stream while it is written: data and index. With limits, they are the newest of several, and only
// that takes packets.
class StreamFiles {
  public:
    // What it points to outlives the files.
    struct Place {
        const OwnedFiles* files;
        int trace_directory;
        int index_directory;
        std::string stream;
        trace::FileLimits limits{};
    };

    static Result<StreamFiles> create(Place place);
    // Goes on where another process has ended, before packet `next`: what is there of that one and later ones is
    // removed. `indexes` are the names in the directory of indexes. None: there is nothing to go on with. An error:
    // what is there cannot be opened, and stays.
    static Result<std::optional<StreamFiles>> reopen(Place place, std::uint64_t next,
                                                     std::span<const std::string> indexes);

    // All of it, or nothing that a reader would take for whole. It may go into a new file, and then the oldest may have
    // to go.
    Result<void> write(const consumer::Packet& packet);
    // Whether somebody has removed the newest file.
    [[nodiscard]] bool is_removed() const { return leat::is_removed(file_.data.fd.get()); }

  private:
    struct File {
        GrowingFile data;
        GrowingFile index;
        trace::MovingLock unsafe{};  // of the data: what has no index entry yet
    };
    struct Found {
        File file;
        std::uint64_t number;  // of the file
        std::uint64_t newest;  // packet in it
    };

    StreamFiles(Place place, File file, std::uint64_t number)
        : place_(std::move(place)), file_(std::move(file)), number_(number) {}
    static Result<File> make_file(const Place& place, std::uint64_t number);
    static Result<File> make_file(const Place& place, const std::string& name);
    static Result<std::optional<Found>> reopen_file(const Place& place, std::uint64_t number, std::uint64_t next);

    Place place_;
    File file_;
    bool is_full_ = false;  // the newest file; it may have gone for the next, which could not be made
    std::uint64_t number_;  // of the file: how many there were before; after a restart, at least what its name says
};

}  // namespace leat::output
