#include "output/relay_output.hpp"

#include <poll.h>

#include <algorithm>
#include <ctime>

#include "ctf/tsdl/tsdl_writer.hpp"
#include "output/datagram_link.hpp"
#include "trace/stream_paths.hpp"

namespace leat::output {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestBackOff = 5s;
// Viewers read whole packets, and have memory for each; and while one is on its way, the next one is cut.
constexpr std::size_t kMaxPacketSize = 4U << 20;
constexpr std::size_t kLargePacket = 64U << 10;

}  // namespace

Result<std::unique_ptr<RelayOutput>> RelayOutput::connect(const net::RelayAddress& address,
                                                          const SessionDescription& session,
                                                          Clock::duration shortest_back_off) {
    std::vector<net::HostAddress> hosts = LEAT_TRY(net::resolve_within(kPatience, address.host));
    std::unique_ptr<RelayOutput> output(new RelayOutput(address, session, std::move(hosts), shortest_back_off));
    Error error{ErrorKind::kIo, "it does not answer"};
    for (std::size_t i = 0; i < output->hosts_.size(); ++i) {
        auto outcome = output->open();
        while (outcome && !output->connection_->is_ready()) {
            outcome = output->connection_->run(Clock::now());
            if (outcome && !output->connection_->is_ready()) output->poll_until(output->deadline());
        }
        if (outcome) {
            output->was_ready_ = true;
            ++output->part_;
            return output;
        }
        error = std::move(outcome).error();
        output->connection_.reset();
    }
    return cannot_connect(address, error);
}

std::unique_ptr<RelayOutput> RelayOutput::begin(const net::RelayAddress& address, const SessionDescription& session,
                                                Place place, Clock::duration shortest_back_off) {
    std::unique_ptr<RelayOutput> output(new RelayOutput(address, session, {}, shortest_back_off));
    output->place_ = place;
    return output;
}

std::size_t RelayOutput::max_packet_size() const {
    return address_.takes_datagrams ? DatagramLink::kMaxPacketSize : kMaxPacketSize;
}

// Parts are told apart by their second.
Result<void> RelayOutput::open() {
    creation_time_ = std::max(static_cast<std::uint64_t>(std::time(nullptr)), creation_time_ + 1);
    const net::HostAddress& host = hosts_[next_host_];
    next_host_ = (next_host_ + 1) % hosts_.size();
    was_ready_ = false;
    for (auto& [id, packets] : unstored_) packets.rewind();
    connection_ = LEAT_TRY(RelayConnection::open(host, address_, session_, creation_time_, unstored_));
    stored_before_ = packets_stored();
    hand_over();
    return {};
}

// Everything that the new connection has to say, in an order that it may.
void RelayOutput::hand_over() {
    std::vector<consumer::StreamId> ids;
    ids.reserve(unstored_.size());
    for (const auto& [id, packets] : unstored_) ids.push_back(id);
    connection_->announce(ids);
    connection_->send_metadata(metadata_);
    for (const auto& [id, unstored] : unstored_)
        for (const auto& [number, packet] : unstored.packets()) connection_->send_packet(packet);
}

Result<void> RelayOutput::write_metadata(std::string_view unit) {
    metadata_ += unit;
    if (connection_) connection_->send_metadata(unit);
    return {};
}

Result<void> RelayOutput::ask_for_clock_offset(std::uint64_t offset) {
    if (session_.live_timer_us != 0) return refused("a live session keeps its metadata: viewers have read it");
    metadata_ = LEAT_TRY(ctf::with_clock_offset(metadata_, offset));
    if (connection_) connection_->replace_metadata(metadata_);
    return {};
}

Result<std::string> RelayOutput::set_clock_offset(std::uint64_t offset) {
    const bool was_connected = await_answers();
    LEAT_TRY(ask_for_clock_offset(offset));
    if (was_connected && await_answers()) return metadata_;
    return fail(ErrorKind::kIo, "relay {} is not connected: what it has stored keeps its old time", to_text(address_));
}

Result<void> RelayOutput::write_packet(const consumer::Packet& packet) {
    auto& unstored = unstored_[packet.stream];
    const consumer::Packet& kept = unstored.add(packet.header.packet_seq_num, packet);
    if (!stands_still_since_) stands_still_since_ = Clock::now();
    if (connection_) connection_->send_packet(kept);
    // On its way while the next one is cut.
    if (packet.header.packet_size / 8 >= kLargePacket) flush();
    return {};
}

Result<void> RelayOutput::announce(std::span<const consumer::StreamId> streams) {
    for (const consumer::StreamId id : streams) unstored_.try_emplace(id);
    if (connection_) connection_->announce(streams);
    return {};
}

void RelayOutput::write_beacon(consumer::StreamId stream, std::uint64_t timestamp) {
    if (connection_) connection_->send_beacon(stream, timestamp);
}

std::uint64_t RelayOutput::stored(consumer::StreamId stream) const {
    const auto found = unstored_.find(stream);
    return found == unstored_.end() ? 0 : found->second.stored();
}

bool RelayOutput::run() {
    if (is_closing_) {
        run_close();
        return false;
    }
    last_run_ = Clock::now();
    if (!connection_) reopen();
    if (!connection_) return false;
    const std::uint64_t stored_before = packets_stored();
    const auto outcome = connection_->run(last_run_);
    const bool has_stored = packets_stored() != stored_before;
    if (is_delivered()) stands_still_since_.reset();
    if (has_stored && stands_still_since_) stands_still_since_ = last_run_;
    if (!outcome) {
        fail_connection(outcome.error());
        return has_stored;
    }
    if (was_ready_ || !connection_->is_ready()) return has_stored;
    was_ready_ = true;
    ++part_;
    back_off_ = {};
    failures_ = 0;
    return true;
}

void RelayOutput::flush() {
    if (!connection_ || is_closing_) return;
    const auto outcome = connection_->send(Clock::now());
    if (!outcome) fail_connection(outcome.error());
}

void RelayOutput::reopen() {
    if (Clock::now() < retry_at_) return;
    look_up();
    if (hosts_.empty()) return;
    const auto opened = open();
    if (!opened) fail_connection(opened.error());
}

// Where the addresses that we know are of no use, others may be there by now: those are tried meanwhile.
void RelayOutput::look_up() {
    if (!lookup_ && (hosts_.empty() || is_lookup_due_)) lookup_.emplace(address_.host);
    if (!lookup_ || !lookup_->is_done()) return;
    auto found = lookup_->take();
    lookup_.reset();
    is_lookup_due_ = false;
    if (found) {
        hosts_ = *std::move(found);
        next_host_ %= hosts_.size();  // each gets its turn, however often we look
    } else if (hosts_.empty()) {
        fail_connection(found.error());
    }
}

void RelayOutput::fail_connection(const Error& error) {
    const char* const meanwhile =
        place_ == Place::kAlone ? "events stay in the rings until it is back" : "it gets the events when it is there";
    if (was_ready_ || part_ == 0)
        warnings_.push_back(fmt::format("relay {}: {}: {}", to_text(address_), error.message, meanwhile));
    disconnect();
    ++failures_;
    is_lookup_due_ = has_tried_all_hosts();
    last_failure_ = error.message;
    back_off_ = std::clamp<Clock::duration>(back_off_ * 2, shortest_back_off_, kLongestBackOff);
    retry_at_ = Clock::now() + back_off_;
}

void RelayOutput::disconnect() {
    if (connection_) sent_before_ += connection_->packets_sent();
    const std::uint64_t taken_now = taken();
    const bool has_stored = packets_stored() != stored_before_;
    taken_in_vain_ = has_stored ? 0 : taken_now - taken_before_;
    if (has_stored) taken_before_ = taken_now;
    connection_.reset();
    was_ready_ = false;
}

void RelayOutput::forget_packets() {
    disconnect();
    for (auto& [id, unstored] : unstored_) unstored = {};
    stands_still_since_.reset();
    retry_at_ = Clock::now() + shortest_back_off_;
}

std::uint64_t RelayOutput::packets_stored() const {
    std::uint64_t sum = 0;
    for (const auto& [id, unstored] : unstored_) sum += unstored.stored_count();
    return sum;
}

std::vector<pollfd> RelayOutput::wanted() const {
    if (!connection_ && awaits_name() && !is_closing_) return {pollfd{lookup_->fd(), POLLIN, 0}};
    if (!connection_) return {};
    const auto wanted = connection_->wanted();
    return {wanted.begin(), wanted.end()};
}

RelayOutput::Clock::time_point RelayOutput::deadline() const {
    if (connection_) return connection_->deadline();
    return is_closing_ || awaits_name() ? Clock::time_point::max() : retry_at_;
}

void RelayOutput::poll_until(Clock::time_point time) const {
    const auto left = std::clamp<Clock::duration>(time - Clock::now(), 0s, 1s);
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec timeout{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    auto fds = wanted();
    for (pollfd& fd : fds) fd.events |= POLLIN;  // an answer that nobody is in a hurry for is one here
    ::ppoll(fds.data(), fds.size(), &timeout, nullptr);
}

bool RelayOutput::is_delivered() const {
    return std::all_of(unstored_.begin(), unstored_.end(), [](const auto& entry) { return entry.second.empty(); });
}

std::uint64_t RelayOutput::taken() const {
    const std::uint64_t taken_now = connection_ && was_ready_ ? connection_->taken() : 0;
    const bool has_stored = connection_ && packets_stored() != stored_before_;
    return taken_before_ + (has_stored ? taken_in_vain_ + taken_now : std::max(taken_in_vain_, taken_now));
}

Result<void> RelayOutput::check_delivered() const {
    if (is_delivered()) return {};
    return fail(ErrorKind::kIo, "relay {} does not take {}", to_text(address_), undelivered());
}

// By what is stored: a relay that is stopped, or whose disk is full, goes on taking bytes, and answers beacons.
std::string RelayOutput::storage_trouble() const {
    if (!stands_still_since_) return {};
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(last_run_ - *stands_still_since_);
    const bool is_long = seconds >= kStandsStill;
    if (!is_connected() && (has_tried_all_hosts() || (is_long && failures_ != 0)))
        return fmt::format("relay {}: {}", to_text(address_), last_failure_);
    if (!is_long) return {};
    if (awaits_name()) return fmt::format("relay {}: the address of its host is being looked up", to_text(address_));
    return fmt::format("relay {} has stored nothing for {} s", to_text(address_), seconds.count());
}

// Each address of the host gets its try.
bool RelayOutput::has_tried_all_hosts() const { return failures_ >= std::max<std::size_t>(hosts_.size(), 1); }

bool RelayOutput::is_connecting() const { return part_ == 0 && !is_connected() && !has_tried_all_hosts(); }

// False: the connection has broken, or was given up because the relay does not answer.
bool RelayOutput::await_answers() {
    const std::uint64_t part = std::max<std::uint64_t>(part_, 1);  // the first may be under way
    std::uint64_t taken_before = taken();
    for (auto give_up_at = Clock::now() + kPatience;;) {
        run();
        if (!is_connecting() && (!is_connected() || part_ != part)) return false;
        if (is_connected() && connection_->is_answered()) return true;
        if (std::exchange(taken_before, taken()) != taken()) give_up_at = Clock::now() + kPatience;
        if (Clock::now() > give_up_at) {
            fail_connection({ErrorKind::kIo, "it does not answer"});
            return false;
        }
        poll_until(std::min(deadline(), give_up_at));
    }
}

Result<void> RelayOutput::prepare_chunk(const std::filesystem::path& /*directory*/) {
    if (await_answers()) return {};
    return fail(ErrorKind::kIo, "relay {} is not connected: try again when it is back", to_text(address_));
}

// Readers of the new chunk know nothing of any stream, also where the connection broke.
void RelayOutput::turn_to_chunk(wire::ChunkCommand what_becomes_of_it) {
    ++chunks_begun_;
    connection_->switch_chunk(metadata_, what_becomes_of_it);
}

Result<std::string> RelayOutput::switch_chunk(wire::ChunkCommand what_becomes_of_it, const char* what) {
    turn_to_chunk(what_becomes_of_it);
    if (await_answers()) return connection_->closed_chunk();
    return fail(ErrorKind::kIo,
                "relay {}: the connection broke while the session was {}: it goes on there as a new part, and what was "
                "stored before is in the part before",
                to_text(address_), what);
}

Result<std::string> RelayOutput::begin_chunk() { return switch_chunk(wire::ChunkCommand::kMoveToArchives, "rotated"); }

Result<void> RelayOutput::clear() {
    LEAT_TRY(prepare_chunk({}));
    LEAT_TRY(check_clear());
    LEAT_TRY(switch_chunk(wire::ChunkCommand::kDelete, "cleared"));
    return {};
}

Result<void> RelayOutput::check_clear() const {
    if (connection_->allows_clear()) return {};
    return refused("relay {} does not let sessions be cleared: see --disallow-clear there, or upgrade it to 2.12",
                   to_text(address_));
}

void RelayOutput::ask_for_chunk() { turn_to_chunk(wire::ChunkCommand::kMoveToArchives); }

Result<void> RelayOutput::ask_for_clear() {
    LEAT_TRY(check_clear());
    turn_to_chunk(wire::ChunkCommand::kDelete);
    return {};
}

void RelayOutput::begin_close() {
    if (std::exchange(is_closing_, true) || !is_connected()) return;
    connection_->close();
}

bool RelayOutput::awaits_close() const { return is_closing_ && is_connected() && !connection_->is_closed(); }

// Everything is stored: a relay that does not answer any more may do as it likes. One that has not said yet how it
// calls the metadata cannot be told of the end.
void RelayOutput::run_close() {
    if (!awaits_close()) return;
    if (!connection_->run(Clock::now())) return disconnect();
    connection_->close();
}

RelayOutput::Figures RelayOutput::figures() const {
    Figures figures{.packets_sent = sent_before_ + (connection_ ? connection_->packets_sent() : 0),
                    .packets_stored = packets_stored(),
                    .parts = part_};
    for (const auto& [id, unstored] : unstored_) {
        figures.packets_lost += unstored.packets().size();
        for (const auto& [number, packet] : unstored.packets()) figures.events_lost += packet.events;
    }
    return figures;
}

// "packets 3 to 7 of stream channel0_0, packet 2 of stream channel0_1: 512 events"
std::string RelayOutput::undelivered() const {
    std::string text;
    for (const auto& [id, unstored] : unstored_) {
        if (unstored.empty()) continue;
        const std::uint64_t first = unstored.packets().front().number;
        const std::uint64_t last = unstored.packets().back().number;
        const std::string name = trace::stream_name(session_.channels[id.channel].name, id.ring);
        if (!text.empty()) text += ", ";
        text += first == last ? fmt::format("packet {} of stream {}", first, name)
                              : fmt::format("packets {} to {} of stream {}", first, last, name);
    }
    return fmt::format("{}: {} events", text, figures().events_lost);
}

}  // namespace leat::output
