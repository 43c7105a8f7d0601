#include "output/relay_output.hpp"

#include <poll.h>

#include <algorithm>
#include <ctime>

#include "output/datagram_link.hpp"

namespace leat::output {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestBackOff = 5s;
// The end of a session: a relay that takes nothing for this long does not get the rest.
constexpr auto kPatience = 10s;
constexpr auto kClosingPatience = 2s;
// Viewers read whole packets; and while one is on its way, the next one is cut.
constexpr std::size_t kMaxPacketSize = 256U << 10;
constexpr std::size_t kLargePacket = 64U << 10;

tl::unexpected<Error> cannot_connect(const net::RelayAddress& address, const Error& error) {
    if (error.kind == ErrorKind::kUnsupported) return unsupported("relay {}: {}", to_text(address), error.message);
    if (error.kind == ErrorKind::kRefused)
        return refused("relay {} does not take the session: {}: its log says why", to_text(address), error.message);
    return fail(error.kind, "cannot reach relay {}: {}: start leat-relayd there, or check the address",
                to_text(address), error.message);
}

}  // namespace

Result<std::unique_ptr<RelayOutput>> RelayOutput::connect(const net::RelayAddress& address,
                                                          const SessionDescription& session,
                                                          Clock::duration shortest_back_off) {
    std::vector<net::HostAddress> hosts = LEAT_TRY(net::resolve(address.host));
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
    hand_over();
    return {};
}

// Everything that the new connection has to say, in an order that it may.
void RelayOutput::hand_over() {
    std::vector<std::uint64_t> ids;
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

Result<void> RelayOutput::write_packet(const consumer::Packet& packet) {
    auto& unstored = unstored_[packet.header.stream_instance_id];
    const consumer::Packet& kept = unstored.add(packet.header.packet_seq_num, packet);
    if (connection_) connection_->send_packet(kept);
    // On its way while the next one is cut.
    if (packet.header.packet_size / 8 >= kLargePacket) flush();
    return {};
}

Result<void> RelayOutput::announce(std::span<const std::uint64_t> stream_instance_ids) {
    for (const std::uint64_t id : stream_instance_ids) unstored_.try_emplace(id);
    if (connection_) connection_->announce(stream_instance_ids);
    return {};
}

void RelayOutput::write_beacon(std::uint64_t stream_instance_id, std::uint64_t timestamp) {
    if (connection_) connection_->send_beacon(stream_instance_id, timestamp);
}

std::uint64_t RelayOutput::stored(std::uint64_t stream_instance_id) const {
    const auto found = unstored_.find(stream_instance_id);
    return found == unstored_.end() ? 0 : found->second.stored();
}

bool RelayOutput::run() {
    if (!connection_) reopen();
    if (!connection_) return false;
    const std::uint64_t stored_before = packets_stored();
    const auto outcome = connection_->run(Clock::now());
    const bool has_stored = packets_stored() != stored_before;
    if (!outcome) {
        give_up(outcome.error());
        return has_stored;
    }
    if (was_ready_ || !connection_->is_ready()) return has_stored;
    was_ready_ = true;
    ++part_;
    back_off_ = {};
    return true;
}

void RelayOutput::flush() {
    if (!connection_) return;
    const auto outcome = connection_->send(Clock::now());
    if (!outcome) give_up(outcome.error());
}

void RelayOutput::reopen() {
    if (Clock::now() < retry_at_) return;
    const auto opened = open();
    if (!opened) give_up(opened.error());
}

void RelayOutput::give_up(const Error& error) {
    if (was_ready_)
        warnings_.push_back(
            fmt::format("relay {}: {}: events stay in the rings until it is back", to_text(address_), error.message));
    if (connection_) sent_before_ += connection_->packets_sent();
    connection_.reset();
    was_ready_ = false;
    back_off_ = std::clamp<Clock::duration>(back_off_ * 2, shortest_back_off_, kLongestBackOff);
    retry_at_ = Clock::now() + back_off_;
}

std::uint64_t RelayOutput::packets_stored() const {
    std::uint64_t sum = 0;
    for (const auto& [id, unstored] : unstored_) sum += unstored.stored_count();
    return sum;
}

std::vector<pollfd> RelayOutput::wanted() const {
    if (!connection_) return {};
    const auto wanted = connection_->wanted();
    return {wanted.begin(), wanted.end()};
}

RelayOutput::Clock::time_point RelayOutput::deadline() const {
    return connection_ ? connection_->deadline() : retry_at_;
}

void RelayOutput::poll_until(Clock::time_point time) const {
    const auto left = std::clamp<Clock::duration>(time - Clock::now(), 0s, 1s);
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec timeout{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    auto fds = wanted();
    ::ppoll(fds.data(), fds.size(), &timeout, nullptr);
}

bool RelayOutput::is_delivered() const {
    return std::all_of(unstored_.begin(), unstored_.end(), [](const auto& entry) { return entry.second.empty(); });
}

Result<void> RelayOutput::deliver() {
    auto give_up_at = Clock::now() + kPatience;
    std::uint64_t taken_before = 0;
    while (!is_delivered()) {
        const bool has_come_further = run();
        const std::uint64_t taken = connection_ && connection_->is_ready() ? connection_->taken() : 0;
        if (has_come_further) taken_before = 0;  // also: another connection, that counts anew
        if (has_come_further || taken > taken_before) give_up_at = Clock::now() + kPatience;
        taken_before = std::max(taken, taken_before);
        if (is_delivered()) break;
        if (Clock::now() > give_up_at)
            return fail(ErrorKind::kIo, "relay {} does not take {}", to_text(address_), undelivered());
        poll_until(std::min(deadline(), give_up_at));
    }
    return {};
}

void RelayOutput::close() {
    if (!connection_ || !connection_->is_ready()) return;
    const auto give_up_at = Clock::now() + kClosingPatience;
    connection_->close();
    // Everything is stored: a relay that does not answer any more may do as it likes.
    while (!connection_->is_closed() && Clock::now() < give_up_at && connection_->run(Clock::now()))
        if (!connection_->is_closed()) poll_until(give_up_at);
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

// "packets 3 to 7 of stream 0, packet 2 of stream 1: 512 events"
std::string RelayOutput::undelivered() const {
    std::string text;
    for (const auto& [id, unstored] : unstored_) {
        if (unstored.empty()) continue;
        const std::uint64_t first = unstored.packets().front().number;
        const std::uint64_t last = unstored.packets().back().number;
        if (!text.empty()) text += ", ";
        text += first == last ? fmt::format("packet {} of stream {}", first, id)
                              : fmt::format("packets {} to {} of stream {}", first, last, id);
    }
    return fmt::format("{}: {} events", text, figures().events_lost);
}

}  // namespace leat::output
