#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "consumer/output.hpp"
#include "output/remote_output.hpp"

namespace leat::output {

// A session that goes to two places: a directory, which alone decides what is stored, and a relay, which gets what it
// takes. Whatever becomes of the relay, the rings drain as if there were the directory alone: what the relay has not
// stored yet is a copy.
//
//                  +-> directory: stored when write_packet() returns
//     consumer ----+
//                  +-> steps_ --hand_over()--> handed_, relay --stored()--> (freed)
//
// A packet is handed over at the next call after write_packet(): by then the consumer has saved that it is stored. So
// who goes on after a kill never cuts a packet again that the relay may know, and the relay misses what was not sent.
//
//     up to date   all packets go to the relay. If the copies need more than kMaxBehind, it is left behind: they are
//                  forgotten and count as missed
//     left behind  packets go to the directory alone and count as missed, until the relay is connected again: then it
//                  goes on with a new part. One that is left behind again within a minute has to wait, each time for
//                  longer, up to a minute: a line that is too slow would get a thousand parts an hour
class Tee final : public consumer::Output {
  public:
    // Bytes of the copies that the relay has not stored yet.
    static constexpr std::size_t kMaxBehind = 16U << 20;

    // `name`: of the second, in warnings.
    Tee(std::unique_ptr<consumer::Output> first, std::unique_ptr<RemoteOutput> second, std::string name,
        std::size_t max_behind = kMaxBehind)
        : first_(std::move(first)), second_(std::move(second)), name_(std::move(name)), max_behind_(max_behind) {}

    Result<void> write_metadata(std::string_view unit) override;
    Result<void> restore_metadata(std::string_view text) override;
    Result<std::string> set_clock_offset(std::uint64_t offset) override;
    Result<void> write_packet(const consumer::Packet& packet) override;
    Result<void> announce(std::span<const consumer::StreamId> streams) override;
    void write_beacon(consumer::StreamId stream, std::uint64_t timestamp) override;
    void cycle_done(std::uint64_t horizon) override { first_->cycle_done(horizon); }
    [[nodiscard]] std::uint64_t stored(consumer::StreamId stream) const override { return first_->stored(stream); }
    [[nodiscard]] std::uint64_t part() const override;
    [[nodiscard]] std::size_t max_packet_size() const override;

    [[nodiscard]] std::vector<pollfd> wanted() const override { return second_->wanted(); }
    [[nodiscard]] Clock::time_point deadline() const override;
    bool run() override;
    void flush() override;
    // Also what the relay has to say is to be heard now and then.
    [[nodiscard]] bool is_delivered() const override { return steps_.empty() && second_->is_delivered(); }
    // By the first alone.
    [[nodiscard]] Result<void> check_delivered() const override { return first_->check_delivered(); }
    // By the second: the first is not waited for.
    [[nodiscard]] std::uint64_t taken() const override { return second_->taken(); }
    void begin_close() override;
    // For the second, if it was ever there. A short session may end before it is.
    [[nodiscard]] bool awaits_close() const override;
    // What the second has not stored by then, it misses.
    void close() override;

    // Of the first. The second does the same after all packets before.
    Result<void> prepare_chunk(const std::filesystem::path& directory) override;
    Result<std::string> begin_chunk() override;
    void drop_chunk() override { first_->drop_chunk(); }
    Result<void> clear() override;

    [[nodiscard]] std::vector<std::string> take_warnings() override;
    [[nodiscard]] std::uint64_t packets_missed() const override { return missed_.packets; }
    [[nodiscard]] std::uint64_t events_lost() const override { return first_->events_lost(); }
    void remove_if_unused() override { first_->remove_if_unused(); }

  private:
    // Its records lie here.
    struct Copy {
        consumer::Packet packet;
        std::vector<std::byte> records;
    };
    enum class ChunkStep { kBegin, kClear };
    using Step = std::variant<Copy, ChunkStep>;
    struct Missed {
        std::uint64_t packets = 0;
        std::uint64_t events = 0;
    };

    void close_second();
    void run_second();
    void hand_over();
    [[nodiscard]] bool hand_over(Step& step);
    void end_turn();
    [[nodiscard]] bool may_have_stored() const { return has_gone_on_ || second_->connections() != 0; }
    void miss_clear();
    void free_stored();
    [[nodiscard]] static std::size_t size_of(const consumer::Packet& packet);
    void miss(const consumer::Packet& packet);
    void miss_unstored();
    [[nodiscard]] std::string what_it_misses() const;
    [[nodiscard]] bool has_room_for(const consumer::Packet& packet);
    void leave_behind();
    [[nodiscard]] bool is_to_catch_up() const { return is_left_behind_ && second_->is_connected(); }
    [[nodiscard]] bool may_catch_up() const { return is_to_catch_up() && Clock::now() >= may_catch_up_; }
    void catch_up();

    std::unique_ptr<consumer::Output> first_;
    std::unique_ptr<RemoteOutput> second_;
    std::string name_;
    std::size_t max_behind_;

    std::deque<Step> steps_{};                                 // that the second has not been told
    std::map<consumer::StreamId, std::deque<Copy>> handed_{};  // that the second has not stored
    std::size_t behind_ = 0;                                   // bytes of both
    std::size_t next_look_ = 0;                                // at what the second has stored: when so much is behind
    bool is_turning_ = false;                                  // to a chunk that the second was asked for
    bool is_clearing_ = false;                                 // by that chunk
    bool has_gone_on_ = false;                                 // with a session of another process, not cleared since
    std::uint64_t connections_cleared_ = 0;                    // how many there had been at the last clear
    bool is_left_behind_ = false;
    std::uint64_t part_left_ = 0;    // of the second, when it was left behind
    Clock::time_point caught_up_{};  // when it did last
    Clock::duration pause_{};        // before it may again
    Clock::time_point may_catch_up_{};
    bool is_closing_ = false;
    bool was_connected_ = false;
    Missed missed_{};
    std::uint64_t part_ = 0;  // that the consumer was told of
    std::vector<std::string> warnings_{};
};

}  // namespace leat::output
