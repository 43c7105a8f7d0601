#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "base/mapped_file.hpp"
#include "base/result.hpp"
#include "viewer/check/finding.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::viewer {

// The index of a stream's file, compared with the packets. Readers go without one, or make their own: so what is wrong
// there loses nothing.
class IndexCheck {
  public:
    // To be made before the stream's file is opened: if it is still being written, it then has all that the index
    // names.
    explicit IndexCheck(const std::filesystem::path& stream_file);

    // Compares it with the packets that can be read of a file of `stream_size` bytes. `plan`: theirs, if there are any.
    // What is `unfinished` is wrong only if nobody writes to the index any more: first data are written, then their
    // index, and neither at once.
    void run(std::span<const RecordedPacket> packets, const ctf::DecodePlan* plan, std::uint64_t stream_size,
             Findings& findings, Findings& unfinished) const;

    // Since the object was made: it has grown, or there is another one.
    [[nodiscard]] bool has_changed() const;
    [[nodiscard]] bool is_replaced() const;

  private:
    struct Opened {
        MappedFile mapping;
        dev_t device;
        ino_t inode;
    };
    static Result<Opened> open(const std::filesystem::path& path);

    std::filesystem::path path_;
    std::optional<Result<Opened>> opened_{};  // none: there is no index
};

}  // namespace leat::viewer
