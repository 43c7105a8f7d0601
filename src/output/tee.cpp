#include "output/tee.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace leat::output {

Result<void> Tee::write_metadata(std::string_view unit) {
    LEAT_TRY(first_->write_metadata(unit));
    return second_->write_metadata(unit);
}

Result<void> Tee::restore_metadata(std::string_view text) {
    has_gone_on_ = true;
    LEAT_TRY(first_->restore_metadata(text));
    return second_->restore_metadata(text);
}

Result<std::string> Tee::set_clock_offset(std::uint64_t offset) {
    std::string text = LEAT_TRY(first_->set_clock_offset(offset));
    if (const auto asked = second_->ask_for_clock_offset(offset); !asked) warnings_.push_back(asked.error().message);
    return text;
}

Result<void> Tee::announce(std::span<const consumer::StreamId> streams) {
    LEAT_TRY(first_->announce(streams));
    return second_->announce(streams);
}

// One that the first does not take comes again.
Result<void> Tee::write_packet(const consumer::Packet& packet) {
    hand_over();
    LEAT_TRY(first_->write_packet(packet));
    if (!is_left_behind_ && !has_room_for(packet)) leave_behind();
    if (is_left_behind_) {
        miss(packet);
        return {};
    }
    Copy copy{.packet = packet, .records = {packet.records.begin(), packet.records.end()}};
    copy.packet.records = copy.records;
    behind_ += size_of(packet);
    steps_.emplace_back(std::move(copy));
    return {};
}

// Rings may hold more than the copies may: the relay gets what it takes, and says what it has, also during a drain.
// Each look takes as long as there are streams, so there are few.
bool Tee::has_room_for(const consumer::Packet& packet) {
    const std::size_t behind = behind_ + size_of(packet);
    if (behind <= std::min(std::max(max_behind_ / 2, next_look_), max_behind_)) return true;
    run_second();
    return behind_ + size_of(packet) <= max_behind_;
}

// A beacon in front of an older packet would be a lie.
void Tee::write_beacon(consumer::StreamId stream, std::uint64_t timestamp) {
    first_->write_beacon(stream, timestamp);
    hand_over();
    if (steps_.empty() && !is_turning_ && !is_left_behind_) second_->write_beacon(stream, timestamp);
}

// Small ones, so that what is taken of a ring at once leaves nobody behind.
std::size_t Tee::max_packet_size() const {
    constexpr std::size_t kMaxCopy = 256U << 10;
    return std::min({first_->max_packet_size(), second_->max_packet_size(), kMaxCopy});
}

void Tee::run_second() {
    second_->run();
    was_connected_ |= second_->is_connected();
    free_stored();
    next_look_ = behind_ + max_behind_ / 32;
}

bool Tee::run() {
    first_->run();
    run_second();
    if (may_catch_up()) catch_up();
    hand_over();
    close_second();
    return std::exchange(part_, part()) != part();
}

void Tee::flush() {
    first_->flush();
    hand_over();
    second_->flush();
}

void Tee::begin_close() {
    first_->close();
    is_closing_ = true;
    close_second();
}

// A new chunk waits for all answers, and packets wait for it.
bool Tee::awaits_close() const {
    if (second_->is_connecting()) return true;
    if (!steps_.empty() || !second_->is_delivered()) return was_connected_;
    return second_->is_connected() && (!second_->is_settled() || second_->awaits_close());
}

void Tee::close_second() {
    if (is_closing_ && steps_.empty() && second_->is_settled()) second_->begin_close();
}

void Tee::close() {
    miss_unstored();
    second_->close();
    if (missed_.packets != 0) warnings_.push_back(fmt::format("{} {}", name_, what_it_misses()));
}

Result<void> Tee::prepare_chunk(const std::filesystem::path& directory) { return first_->prepare_chunk(directory); }

Result<std::string> Tee::begin_chunk() {
    hand_over();
    if (!is_left_behind_) steps_.emplace_back(ChunkStep::kBegin);
    return first_->begin_chunk();
}

Result<void> Tee::clear() {
    LEAT_TRY(first_->clear());
    hand_over();
    if (is_left_behind_)
        miss_clear();
    else
        steps_.emplace_back(ChunkStep::kClear);
    return {};
}

// Data must not overtake the command that begins its chunk: they take two connections.
void Tee::hand_over() {
    if (is_turning_ && !second_->is_settled()) return;
    end_turn();
    while (!is_turning_ && !steps_.empty() && hand_over(steps_.front())) steps_.pop_front();
}

bool Tee::hand_over(Step& step) {
    if (auto* const copy = std::get_if<Copy>(&step)) {
        (void)second_->write_packet(copy->packet);
        handed_[copy->packet.stream].push_back(std::move(*copy));
        return true;
    }
    if (!second_->is_settled()) return false;
    if (std::get<ChunkStep>(step) == ChunkStep::kBegin) {
        second_->ask_for_chunk();
    } else if (const auto asked = second_->ask_for_clear(); !asked) {
        warnings_.push_back(asked.error().message);
        return true;
    } else {
        is_clearing_ = true;
    }
    is_turning_ = true;
    return true;
}

// What is cleared is the part of the last connection.
void Tee::end_turn() {
    is_turning_ = false;
    if (!std::exchange(is_clearing_, false)) return;
    const std::uint64_t connections = second_->connections();
    const bool has_parts_before = std::exchange(has_gone_on_, false) || connections > 1;
    if (std::exchange(connections_cleared_, connections) != connections && has_parts_before) miss_clear();
}

void Tee::miss_clear() {
    if (!may_have_stored()) return;
    warnings_.push_back(fmt::format("{} was not there all the time: what it had stored was not cleared", name_));
}

void Tee::free_stored() {
    for (auto& [stream, copies] : handed_) {
        const std::uint64_t stored = second_->stored(stream);
        while (!copies.empty() && copies.front().packet.header.packet_seq_num < stored) {
            behind_ -= size_of(copies.front().packet);
            copies.pop_front();
        }
    }
}

// A copy of few records takes more than these.
std::size_t Tee::size_of(const consumer::Packet& packet) {
    return sizeof(Copy) + packet.records.size() + packet.late_records.size();
}

void Tee::miss(const consumer::Packet& packet) {
    ++missed_.packets;
    missed_.events += packet.events;
}

// Packets may be half sent from these copies: the connection ends first.
void Tee::miss_unstored() {
    free_stored();
    second_->forget_packets();
    for (const auto& [stream, copies] : handed_)
        for (const Copy& copy : copies) miss(copy.packet);
    if (std::exchange(is_clearing_, false)) miss_clear();
    for (const Step& step : steps_) {
        if (const auto* const copy = std::get_if<Copy>(&step))
            miss(copy->packet);
        else if (std::get<ChunkStep>(step) == ChunkStep::kClear)
            miss_clear();
    }
    handed_.clear();
    steps_.clear();
    behind_ = 0;
    is_turning_ = false;
}

void Tee::leave_behind() {
    constexpr std::chrono::minutes kLongest{1};
    part_left_ = second_->part();
    miss_unstored();
    is_left_behind_ = true;
    const Clock::time_point now = Clock::now();
    const bool has_just_caught_up = caught_up_ != Clock::time_point{} && now - caught_up_ < kLongest;
    pause_ = has_just_caught_up ? std::clamp<Clock::duration>(2 * pause_, std::chrono::seconds(1), kLongest)
                                : Clock::duration{};
    may_catch_up_ = now + pause_;
    warnings_.push_back(fmt::format("{} takes too little: until it is back, events go to the directory alone", name_));
}

// The streams of the second go on when it has caught up, not when it is connected.
std::uint64_t Tee::part() const { return first_->part() + (is_left_behind_ ? part_left_ : second_->part()); }

Tee::Clock::time_point Tee::deadline() const {
    return is_to_catch_up() ? std::min(second_->deadline(), may_catch_up_) : second_->deadline();
}

void Tee::catch_up() {
    is_left_behind_ = false;
    caught_up_ = Clock::now();
    warnings_.push_back(fmt::format("{} is back, in a new part of the session: it {}", name_, what_it_misses()));
}

std::string Tee::what_it_misses() const {
    return fmt::format("misses {} packets with {} events, which are in the directory", missed_.packets, missed_.events);
}

std::vector<std::string> Tee::take_warnings() {
    std::vector<std::string> warnings = first_->take_warnings();
    std::ranges::move(second_->take_warnings(), std::back_inserter(warnings));
    std::ranges::move(std::exchange(warnings_, {}), std::back_inserter(warnings));
    return warnings;
}

}  // namespace leat::output
