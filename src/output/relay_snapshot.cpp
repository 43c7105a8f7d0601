#include "output/relay_snapshot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "net/name_lookup.hpp"

namespace leat::output {
namespace {

constexpr std::chrono::seconds kLookupPatience{5};

}  // namespace

Result<std::unique_ptr<RelaySnapshot>> RelaySnapshot::connect(const net::RelayAddress& address,
                                                              const SessionDescription& session,
                                                              std::uint64_t session_start) {
    auto hosts = net::resolve_within(kLookupPatience, address.host);
    if (!hosts) return cannot_connect(address, hosts.error());
    std::unique_ptr<RelaySnapshot> snapshot(new RelaySnapshot(address, session));
    Error error{ErrorKind::kIo, "it has no address"};
    for (const net::HostAddress& host : *hosts) {
        auto connected = snapshot->connect(host, session_start);
        if (connected) return snapshot;
        error = std::move(connected).error();
    }
    return cannot_connect(address, error);
}

// The connection gives up by itself if nothing answers.
Result<void> RelaySnapshot::connect(const net::HostAddress& host, std::uint64_t session_start) {
    connection_ = LEAT_TRY(RelayConnection::open(host, address_, session_, session_start, unstored_));
    for (;;) {
        LEAT_TRY(connection_->run(Clock::now()));
        if (connection_->is_ready()) return {};
        wait_until(deadline());
    }
}

Result<void> RelaySnapshot::write_metadata(std::string_view unit) {
    connection_->send_metadata(unit);
    return {};
}

Result<void> RelaySnapshot::write_packet(const consumer::Packet& packet) {
    if (error_) return check_delivered();
    const auto [stream, is_new] = unstored_.try_emplace(packet.stream);
    if (is_new) connection_->announce(std::array{packet.stream});
    connection_->send_packet(stream->second.add(packet.header.packet_seq_num, packet));
    return {};
}

std::vector<pollfd> RelaySnapshot::wanted() const {
    if (error_) return {};
    const auto wanted = connection_->wanted();
    return {wanted.begin(), wanted.end()};
}

bool RelaySnapshot::run() {
    if (error_) return false;
    const auto outcome = connection_->run(Clock::now());
    if (!outcome) error_ = outcome.error();
    return outcome.has_value();
}

bool RelaySnapshot::is_delivered() const {
    return std::ranges::all_of(unstored_, [](const auto& entry) { return entry.second.empty(); });
}

Result<void> RelaySnapshot::check_delivered() const {
    if (error_) return trouble(error_->message);
    if (!is_delivered()) return trouble("it takes nothing any more");
    return {};
}

tl::unexpected<Error> RelaySnapshot::trouble(std::string_view what) const {
    return fail(ErrorKind::kIo, "relay {}: {}: the snapshot is not stored there; see whether the relay is well",
                to_text(address_), what);
}

void RelaySnapshot::wait_until(Clock::time_point time) const {
    std::vector<pollfd> fds = wanted();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
    constexpr std::chrono::milliseconds kLongest{1000};
    const auto timeout = std::clamp(left, std::chrono::milliseconds(0), kLongest);
    (void)::poll(fds.data(), fds.size(), static_cast<int>(timeout.count()));
}

Result<std::string> RelaySnapshot::complete() {
    LEAT_TRY(check_delivered());
    std::uint64_t taken_before = taken();
    for (auto give_up_at = Clock::now() + kPatience; !connection_->is_closed();) {
        (void)run();
        LEAT_TRY(check_delivered());
        connection_->close();
        if (std::exchange(taken_before, taken()) != taken()) give_up_at = Clock::now() + kPatience;
        if (Clock::now() > give_up_at) return trouble("it does not answer");
        if (!connection_->is_closed()) wait_until(std::min(deadline(), give_up_at));
    }
    return connection_->closed_chunk();
}

}  // namespace leat::output
