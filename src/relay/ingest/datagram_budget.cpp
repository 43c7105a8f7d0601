#include "relay/ingest/datagram_budget.hpp"

namespace leat::relay {

void DatagramBudget::Group::set(std::uint64_t member, std::size_t member_bytes) {
    const std::size_t before = of(member);
    if (before == member_bytes) return;
    by_size.erase({before, member});
    bytes += member_bytes - before;
    if (member_bytes == 0) {
        members.erase(member);
        return;
    }
    members[member] = member_bytes;
    by_size.emplace(member_bytes, member);
}

std::size_t DatagramBudget::Group::of(std::uint64_t member) const {
    const auto found = members.find(member);
    return found == members.end() ? 0 : found->second;
}

void DatagramBudget::set(std::uint64_t session, std::uint64_t stream, std::size_t bytes) {
    Group& streams = sessions_[session];
    streams.set(stream, bytes);
    all_.set(session, streams.bytes);
    if (streams.bytes == 0) sessions_.erase(session);
}

std::optional<std::uint64_t> DatagramBudget::debtor(std::uint64_t session, std::uint64_t stream) const {
    if (const auto found = sessions_.find(session); found != sessions_.end()) {
        if (found->second.of(stream) > limits_.of_stream) return stream;
        if (found->second.bytes > limits_.of_session) return found->second.largest();
    }
    if (all_.bytes > limits_.of_all) return sessions_.at(all_.largest()).largest();
    return std::nullopt;
}

}  // namespace leat::relay
