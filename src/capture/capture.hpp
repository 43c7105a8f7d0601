// A capture: this process records itself for a while, driven by whoever calls poll(). See <leat/capture.h>.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "capture/block_output.hpp"
#include "capture/own_tracepoints.hpp"
#include "capture/uring_writer.hpp"
#include "consumer/consumer.hpp"
#include "session/session.hpp"

namespace leat::capture {

enum class End { kNone, kDuration, kSize, kStop, kError };

// An engine: it has no thread, waits for nobody, and makes no system call unless something changes.
//
//     running --> ending --> closing --> over
//
//     running   tracepoints are on; full blocks are cut from the rings, and others once a period
//     ending    tracepoints are off; what the rings hold is cut, as far as the size allows
//     closing   all is cut, and what was skipped is told: until the last block is written
//     over      the files are closed
class Capture {
  public:
    struct Options {
        std::filesystem::path directory;
        std::uint64_t duration;  // ns
        std::uint64_t max_size;  // bytes
        session::Channel channel;
        std::uint64_t block_size;    // bytes
        std::uint64_t flush_period;  // ns
        std::vector<ctf::EnvironmentEntry> environment{};
    };
    static Result<std::unique_ptr<Capture>> start(const Options& options);
    // Writes what is left, if it is not over.
    ~Capture();
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

    // Does what is due.
    void poll();
    // The next block to write; nullptr: there is none now. Lies still until it is written().
    Block* hand_out();
    [[nodiscard]] int fd_of(const Block& block) const { return output_->fd_of(block); }
    void written(std::uint64_t number, std::int64_t result);
    // Writes all blocks that there are now, and waits for those that are submitted.
    void write();
    // The same without waiting for the disk, where the kernel has io_uring. Returns how many writes are under way.
    std::size_t submit();
    void stop();
    // An exception has come out of one of these: there is no memory. The next calls end the capture, as after an error
    // of a write.
    void give_up() noexcept { output_->fail_without_memory(); }

    [[nodiscard]] bool is_over() const { return state_ == State::kOver; }
    [[nodiscard]] End end() const { return end_; }
    [[nodiscard]] const std::optional<Error>& error() const { return output_->error(); }
    [[nodiscard]] std::uint64_t events() const { return output_->events(); }
    [[nodiscard]] std::uint64_t bytes() const { return output_->bytes(); }
    // The trace tells of them.
    [[nodiscard]] std::uint64_t skipped() const { return is_over() ? skipped_ : consumer_.discarded(); }
    // Taken from a ring, or left there; or skipped by a thread when the trace could tell no more.
    [[nodiscard]] std::uint64_t lost() const {
        return output_->lost() + consumer_.totals().left_in_rings + skipped_too_late_;
    }
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  private:
    enum class State { kRunning, kEnding, kClosing, kOver };

    Capture(const Options& options, std::unique_ptr<session::Session> session, session::Trace& trace,
            std::unique_ptr<BlockOutput> output, std::unique_ptr<OwnTracepoints> tracepoints);
    [[nodiscard]] std::uint64_t now() const;
    [[nodiscard]] bool is_of_this_process() const;
    Result<void> describe_new_events();
    void switch_on();
    void warn(std::string warning);
    void record_sticky_values(const session::StickyProgram& program);
    void abandon();
    void write_rest();
    void give_up_without_memory() noexcept;
    void discipline(std::uint64_t time);
    void look(std::uint64_t time);
    void drain(bool has_rest);
    void begin_end(End end);
    void cut_rest();
    void close_if_written();
    void note_final_counts();
    void write_block(const Block& block);
    void take_done();
    void write_submitted();

    std::unique_ptr<session::Session> session_;
    session::Trace& trace_;
    std::unique_ptr<BlockOutput> output_;
    consumer::Consumer consumer_;
    std::unique_ptr<OwnTracepoints> tracepoints_;
    std::unique_ptr<UringWriter> writer_;
    bool has_no_writer_ = false;
    std::uint32_t process_;
    std::uint64_t ends_at_;  // ns, of the trace's clock, as the others
    std::uint64_t last_time_ = 0;
    std::uint64_t next_look_ = 0;
    std::uint64_t look_overdue_at_ = 0;  // ns of CLOCK_MONOTONIC
    std::uint64_t flush_period_;
    std::uint64_t next_flush_;
    std::uint64_t next_discipline_ = 0;
    std::string undescribed_;  // metadata that the output has not got
    State state_ = State::kRunning;
    std::uint64_t skipped_ = 0;  // both once it is over
    std::uint64_t skipped_too_late_ = 0;
    End end_ = End::kNone;
    std::vector<std::string> warnings_;
};

}  // namespace leat::capture
