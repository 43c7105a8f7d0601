// The daemon's end of a program's control memory: reads descriptions, switches tracepoints.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
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
    // Called with the number of tracepoints before anything is kept or read of each; if it fails, so does open().
    using Admit = std::function<Result<void>(std::uint32_t tracepoints)>;
    // What is kept of each tracepoint, bytes.
    static constexpr std::size_t kStateSize = 4;

    // Takes over a descriptor that is open for reading and writing. Fails if it is not control memory of our version.
    static Result<ControlFile> open(UniqueFd fd, Lane lane, const Admit& admit = {});

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] std::uint32_t tracepoint_count() const {
        return static_cast<std::uint32_t>(layout_.tracepoint_count);
    }
    [[nodiscard]] unsigned bitness() const { return bitness_; }
    // As the program sees and calls itself; the name is printable.
    [[nodiscard]] std::uint32_t pid() const { return pid_; }
    [[nodiscard]] std::uint32_t pid_namespace() const { return pid_namespace_; }
    [[nodiscard]] const std::string& procname() const { return procname_; }
    [[nodiscard]] bool allows_blocking() const { return allows_blocking_; }

    // Copies the table, and parses the copy.
    [[nodiscard]] Result<std::vector<TracepointDescription>> read_descriptions() const;
    // The same in two steps: programs that have the same table need it parsed but once.
    [[nodiscard]] Result<std::string> read_table() const;
    [[nodiscard]] Result<std::vector<TracepointDescription>> parse_table(const std::string& table) const;

    // From now on, events of the tracepoint go where these actions say, at most kMaxActions; with none, it is off. An
    // event that is being written meanwhile goes by the old actions or by the new ones.
    Result<void> switch_to(std::uint32_t tracepoint, std::span<const Action> actions);

    // From now on, nothing goes to these channels, which are of our lane.
    Result<void> switch_off(std::span<const std::uint32_t> channels);

    [[nodiscard]] const ControlLayout& layout() const { return layout_; }

    // A channel that an event went to when the file was opened; 0: none did.
    [[nodiscard]] std::uint32_t channel_of_before() const { return channel_of_before_; }

    // Events that the program could not write, because it has not got the rings of their channel.
    [[nodiscard]] Result<std::uint64_t> not_attached() const;
    // Whether the program has said that it ends, or unloads the library that the file is of.
    [[nodiscard]] bool has_ended() const;
    // Whether a process has the file mapped.
    [[nodiscard]] bool is_in_use() const;

  private:
    // What the file says of a tracepoint, in this lane.
    struct Written {
        std::uint8_t byte = 0;  // of its word, when it was last on
        bool is_on = false;
        std::array<std::uint8_t, 2> more{};  // of each list
    };
    static_assert(sizeof(Written) == kStateSize);

    ControlFile(UniqueFd fd, Lane lane, const ControlFileHeader& header);
    [[nodiscard]] Result<std::vector<ControlEntry>> read_entries() const;
    [[nodiscard]] Result<std::vector<Action>> actions_of(std::uint32_t tracepoint, const ControlEntry& entry) const;
    // Where the actions beyond the first lie, of the list that a byte of a word names.
    [[nodiscard]] std::uint64_t more_actions(std::uint32_t tracepoint, std::uint8_t byte) const {
        return layout_.more_actions(tracepoint) + list_number(byte) * (kMaxActions - 1) * sizeof(Action);
    }
    [[nodiscard]] std::uint64_t list_number(std::uint8_t byte) const { return 2ULL * lane() + list_of(byte); }
    Result<void> read_words();
    Result<void> write(std::span<const std::byte> bytes, std::uint64_t offset) const;
    [[nodiscard]] std::uint32_t lane() const { return static_cast<std::uint32_t>(lane_); }

    UniqueFd fd_;
    Lane lane_;
    ControlLayout layout_;
    unsigned bitness_;
    std::uint32_t pid_;
    std::uint32_t pid_namespace_;
    std::string procname_;
    bool allows_blocking_;
    std::vector<Written> written_;  // of each tracepoint
    std::uint32_t channel_of_before_ = 0;
};

}  // namespace leat::wire
