// The daemon's end of a program's control memory: reads descriptions, switches tracepoints.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "wire/app/control_format.hpp"
#include "wire/app/description_reader.hpp"

namespace leat::wire {

// The file stays the program's, which may write anything there at any time: it is read and written by calls, never
// mapped, and what was read is checked once and kept. One for each lane; one thread.
class ControlFile {
  public:
    // Takes over a descriptor that is open for reading and writing. Fails if it is not control memory of our version,
    // or if it could change its size.
    static Result<ControlFile> open(UniqueFd fd, Lane lane);

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] std::uint32_t tracepoint_count() const {
        return static_cast<std::uint32_t>(layout_.tracepoint_count);
    }
    [[nodiscard]] unsigned bitness() const { return bitness_; }
    // As the program sees and calls itself; the name is printable.
    [[nodiscard]] std::uint32_t pid() const { return pid_; }
    [[nodiscard]] const std::string& procname() const { return procname_; }

    // Copies the table, and parses the copy.
    [[nodiscard]] Result<std::vector<TracepointDescription>> read_descriptions() const;

    // From now on, events of the tracepoint go where these actions say, at most kMaxActions; with none, it is off. An
    // event that is being written meanwhile goes by the old actions or by the new ones.
    Result<void> switch_to(std::uint32_t tracepoint, std::span<const Action> actions);

    // Events that the program could not write, because it has not got the rings of their channel.
    [[nodiscard]] Result<std::uint64_t> not_attached() const;

  private:
    ControlFile(UniqueFd fd, Lane lane, const ControlFileHeader& header);
    Result<void> read_words();
    Result<void> write(std::span<const std::byte> bytes, std::uint64_t offset) const;
    [[nodiscard]] std::uint32_t lane() const { return static_cast<std::uint32_t>(lane_); }

    UniqueFd fd_;
    Lane lane_;
    ControlLayout layout_;
    unsigned bitness_;
    std::uint32_t pid_;
    std::string procname_;
    std::vector<std::uint8_t> changes_;  // of each tracepoint: its lane's byte when it was last on
    std::vector<bool> is_on_;
};

}  // namespace leat::wire
