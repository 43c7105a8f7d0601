#include "relay/admission.hpp"

#include <algorithm>

namespace leat::relay {

namespace {

// Of a port with many places. Of one with few, a quarter.
constexpr std::size_t kLeftToOthers = 64;

}  // namespace

// Producers need control and data connections in equal numbers, nearly; viewers may come in crowds, but each of them
// costs the others. Rounding goes to the control port: without one, no other connection of a session is any use.
Admission::Admission(std::size_t max_connections) {
    const std::size_t places = std::max(max_connections, kFewestConnections);
    state_of(Port::kLive).share = places / 4;
    state_of(Port::kData).share = places * 3 / 8;
    state_of(Port::kControl).share = places - places / 4 - places * 3 / 8;
}

const char* Admission::name_of(Port port) {
    constexpr std::array<const char*, kPorts> kNames{"control", "data", "live"};
    return kNames[static_cast<std::size_t>(port)];
}

// An IPv4 address is the same peer whether it comes by an IPv4 socket or mapped by an IPv6 one.
Admission::Peer Admission::peer_of(const asio::ip::address& address) {
    Peer peer{};
    if (address.is_v4() || address.to_v6().is_v4_mapped()) {
        const auto v4 =
            address.is_v4() ? address.to_v4() : asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
        std::ranges::copy(v4.to_bytes(), peer.begin() + 12);
    } else {
        const auto bytes = address.to_v6().to_bytes();
        std::copy_n(bytes.begin(), 8, peer.begin());
    }
    return peer;
}

// A peer at its own limit pays with its own oldest stranger, also when the port has room; only when the port is full
// does somebody else pay. The function that drops a connection is called without the lock: it may come back for the
// place.
Result<Admission::Place> Admission::admit(Port port, const asio::ip::address& address) {
    const Peer peer = peer_of(address);
    std::function<void()> drop_other;
    std::list<Entry>::iterator entry;
    {
        const std::lock_guard lock(mutex_);
        PortState& state = state_of(port);
        const auto found = state.peers.find(peer);
        const bool is_owed = port == Port::kData && known_of(Port::kControl, peer) > known_of(port, peer);
        const std::size_t peer_limit = state.share - std::min(state.share / 4, kLeftToOthers);
        if (found != state.peers.end() && found->second.open >= peer_limit) {
            if (found->second.strangers.empty())
                return refused("{} has {} connections to the {} port, as many as a peer may", address.to_string(),
                               found->second.open, name_of(port));
            drop_other = drop(*found->second.strangers.front());
        } else if (state.open >= state.share) {
            Entry* const other = next_to_go(state);
            if (other == nullptr)
                return refused("all {} places of the {} port are taken: see --max-connections", state.share,
                               name_of(port));
            drop_other = drop(*other);
        }
        const auto standing = is_owed ? Entry::Standing::kVouchedFor : Entry::Standing::kStranger;
        entry = entries_.insert(entries_.end(), Entry{port, peer, standing});
        add(*entry);
    }
    if (drop_other) drop_other();
    return Place(shared_from_this(), entry);
}

bool Admission::drop_stranger(Port port) {
    std::function<void()> drop_it;
    {
        const std::lock_guard lock(mutex_);
        Entry* const entry = next_to_go(state_of(port));
        if (entry == nullptr) return false;
        drop_it = drop(*entry);
    }
    if (drop_it) drop_it();
    return true;
}

std::size_t Admission::open(Port port) const {
    const std::lock_guard lock(mutex_);
    return ports_[static_cast<std::size_t>(port)].open;
}

std::size_t Admission::known_of(Port port, const Peer& peer) {
    const auto& peers = state_of(port).peers;
    const auto found = peers.find(peer);
    return found == peers.end() ? 0 : found->second.known;
}

void Admission::add(Entry& entry) {
    using Standing = Entry::Standing;
    PortState& state = state_of(entry.port);
    PeerState& peer = state.peers[entry.peer];
    ++state.open;
    ++peer.open;
    if (entry.standing == Standing::kStranger) {
        peer.strangers.push_back(&entry);
        return;
    }
    ++state.known;
    ++peer.known;
    if (entry.standing == Standing::kVouchedFor) peer.vouched_for.push_back(&entry);
}

void Admission::withdraw(Entry& entry) {
    using Standing = Entry::Standing;
    PortState& state = state_of(entry.port);
    PeerState& peer = state.peers.find(entry.peer)->second;
    --state.open;
    --peer.open;
    if (entry.standing == Standing::kStranger) peer.strangers.remove(&entry);
    if (entry.standing == Standing::kVouchedFor) peer.vouched_for.remove(&entry);
    if (entry.standing != Standing::kStranger) {
        --state.known;
        --peer.known;
    }
}

// A dropped entry was taken out of all counts when it was dropped; its connection still holds the place, and ends
// later. A peer without connections is forgotten, so that addresses that came once cost nothing.
void Admission::remove(Entry& entry) {
    if (entry.standing == Entry::Standing::kDropped) return;
    withdraw(entry);
    auto& peers = state_of(entry.port).peers;
    const auto found = peers.find(entry.peer);
    if (found->second.open == 0) peers.erase(found);
}

// The peer's state stays where it is, even if this is the peer's only connection: revoke_vouchers() holds on to it.
void Admission::change_standing(Entry& entry, Entry::Standing standing) {
    withdraw(entry);
    entry.standing = standing;
    add(entry);
}

// There are fewer sessions without a data connection than there were.
void Admission::revoke_vouchers(const Peer& peer) {
    const auto found = state_of(Port::kData).peers.find(peer);
    if (found == state_of(Port::kData).peers.end()) return;
    while (!found->second.vouched_for.empty() && found->second.known > known_of(Port::kControl, peer))
        change_standing(*found->second.vouched_for.back(), Entry::Standing::kStranger);
}

// Whoever has most strangers loses one: a flood from one peer is paid for by that peer, and not by those that came
// before.
Admission::Entry* Admission::next_to_go(PortState& state) {
    const auto most =
        std::ranges::max_element(state.peers, {}, [](const auto& entry) { return entry.second.strangers.size(); });
    return most == state.peers.end() || most->second.strangers.empty() ? nullptr : most->second.strangers.front();
}

// Its place is free at once, its connection ends soon.
std::function<void()> Admission::drop(Entry& entry) {
    remove(entry);
    entry.standing = Entry::Standing::kDropped;
    return std::move(entry.drop);
}

Admission::Place::~Place() {
    if (admission_ == nullptr) return;
    const std::lock_guard lock(admission_->mutex_);
    admission_->remove(*entry_);
    if (entry_->port == Port::kControl) admission_->revoke_vouchers(entry_->peer);
    admission_->entries_.erase(entry_);
}

void Admission::Place::on_drop(std::function<void()> drop) {
    const std::lock_guard lock(admission_->mutex_);
    entry_->drop = std::move(drop);
}

// A data connection that is known now needs no voucher; another one may have been vouched for in its stead.
void Admission::Place::identify() {
    const std::lock_guard lock(admission_->mutex_);
    if (entry_->standing == Entry::Standing::kDropped || entry_->standing == Entry::Standing::kKnown) return;
    admission_->change_standing(*entry_, Entry::Standing::kKnown);
    if (entry_->port == Port::kData) admission_->revoke_vouchers(entry_->peer);
}

bool Admission::Place::may_be_silent() {
    using Standing = Entry::Standing;
    const std::lock_guard lock(admission_->mutex_);
    if (entry_->standing != Standing::kStranger) return true;
    // The session's control connection may have come from another address of the producer.
    if (entry_->port != Port::kData ||
        admission_->state_of(Port::kControl).known <= admission_->state_of(Port::kData).known)
        return false;
    admission_->change_standing(*entry_, Standing::kVouchedFor);
    return true;
}

}  // namespace leat::relay
