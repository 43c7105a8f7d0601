// Packets as blocks that somebody else writes: into the files of a trace directory, whenever he likes.
#pragma once

#include <sys/uio.h>

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "consumer/output.hpp"
#include "consumer/size_limit.hpp"

namespace leat::capture {

// Bytes for a place in a file. They lie here and in the ring, and hold still until they are written.
//
//     waiting  -- hand_out() -->  out  -- written() -->  done
//        ^                         |
//        +---- not all of it ------+
struct Block {
    enum class State { kWaiting, kOut, kDone };

    std::uint64_t number = 0;
    std::size_t file = 0;  // its number
    std::uint64_t offset = 0;
    std::vector<std::byte> head{};
    UntrustedBytes rest{};
    std::uint64_t written = 0;  // bytes
    State state = State::kWaiting;
    consumer::StreamId stream{};
    std::uint64_t sequence_number = 0;  // of the packet
    std::uint64_t events = 0;
    bool is_metadata = false;

    [[nodiscard]] std::uint64_t size() const { return head.size() + rest.size(); }
    // What is not written yet, in up to two parts.
    [[nodiscard]] std::array<iovec, 2> parts(int& count) const;
};

// A limit holds for all files together. What would exceed it is refused, and stays in the rings. After an error of a
// write nothing more goes out; close() then leaves in each file what is whole.
class BlockOutput final : public consumer::Output {
  public:
    // The directory is new or empty. Files of these CPUs are open from the start, those of others when they have
    // events.
    static Result<std::unique_ptr<BlockOutput>> create(const std::filesystem::path& directory, std::string_view channel,
                                                       std::uint32_t cpu_rings, std::span<const std::uint32_t> cpus,
                                                       std::uint64_t max_size);

    Result<void> write_metadata(std::string_view unit) override;
    Result<void> write_packet(const consumer::Packet& packet) override;
    [[nodiscard]] std::uint64_t stored(consumer::StreamId stream) const override;
    // After an error: nobody has a block any more.
    [[nodiscard]] bool is_delivered() const override;
    // Closes the files. Those without a packet go.
    void close() override;
    void remove_if_unused() override;

    // The next block to write, nullptr: none is to be written now. Packets wait for the metadata before them.
    Block* hand_out();
    [[nodiscard]] int fd_of(const Block& block) const { return files_[block.file].fd.get(); }
    // Nobody else will write the blocks that are out: they wait again.
    void take_back();
    // Some bytes of a block are written, or -errno. False: no such block is out.
    bool written(std::uint64_t number, std::int64_t result);

    // An error as one of a write, after an exception has come out of any of these.
    void fail_without_memory() noexcept;

    // A packet did not fit.
    [[nodiscard]] bool is_full() const { return is_full_; }
    [[nodiscard]] const std::optional<Error>& error() const { return error_; }
    // Events and bytes that were taken, and are stored or will be; once closed after an error, those that are stored.
    [[nodiscard]] std::uint64_t events() const { return events_; }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    // Events that were taken, and are not stored because of the error, or as their files were removed; when it is
    // closed.
    [[nodiscard]] std::uint64_t lost() const { return lost_; }
    // By somebody else, and they were not empty.
    [[nodiscard]] bool has_removed_files() const { return has_removed_files_; }

  private:
    struct File {
        std::string name;
        UniqueFd fd;
        std::uint64_t size = 0;    // with all blocks
        std::uint64_t stored = 0;  // bytes from its start, without a gap
        std::uint64_t events = 0;  // in its blocks
        bool has_name = false;     // had one when it was made: some file systems say of all files that they have none
    };

    BlockOutput(std::filesystem::path directory, std::string_view channel, std::uint64_t max_size)
        : directory_(std::move(directory)), channel_(channel), limit_(max_size), kept_(&limit_) {}
    Result<std::size_t> open_file(const std::string& name);
    Result<std::size_t> file_of(consumer::StreamId stream);
    [[nodiscard]] bool has_room_for(std::uint64_t size, bool has_records) const;
    [[nodiscard]] std::string path_of(const File& file) const { return (directory_ / file.name).string(); }
    void add(Block block);
    void note_done(const Block& done);
    void fail(Error error);
    void give_up_the_rest();
    void note_removed();

    std::filesystem::path directory_;
    UniqueFd directory_fd_;  // programs change their directory, and people rename this one
    std::string channel_;
    consumer::SizeLimit limit_;  // of metadata, too
    consumer::SizeLimit::Kept kept_;
    std::vector<File> files_;  // the first is the metadata's
    std::map<consumer::StreamId, std::size_t> file_numbers_;
    std::deque<Block> blocks_;  // not done, but for some in between
    std::uint64_t next_number_ = 1;
    std::map<consumer::StreamId, std::uint64_t> next_stored_;  // sequence numbers
    std::uint64_t events_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t lost_ = 0;
    bool has_made_directory_ = false;
    bool is_full_ = false;
    bool has_removed_files_ = false;
    std::optional<Error> error_;
};

}  // namespace leat::capture
