#pragma once

#include <array>
#include <asio/ip/address.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "base/result.hpp"

namespace leat::relay {

// Who may connect, so that no peer and no port can take all places. Each port has a share of them:
//
//   control 3/8 | data 3/8 | live 1/4
//
// and of each share one peer leaves a quarter, or 64 places, to the others. A connection is a stranger until it has
// said something useful. When a share is full, the newcomer gets the place of a stranger: the oldest one of the peer
// that has most of them. A peer that has all it may have loses its own oldest stranger. Who is known is never dropped
// for a newcomer. There is no smaller limit for strangers: after a restart of the relay all its producers come at once.
//
// A producer opens its data connection long before it has data. So as many silent data connections as there are
// sessions without one are vouched for: they count as known. Any thread.
class Admission : public std::enable_shared_from_this<Admission> {
    struct Entry;

  public:
    enum class Port : std::uint8_t { kControl, kData, kLive };
    static constexpr std::size_t kPorts = 3;
    static constexpr std::size_t kFewestConnections = 8;

    explicit Admission(std::size_t max_connections);

    // Of one connection, as long as it lives.
    class Place {
      public:
        Place() = default;
        Place(Place&& other) noexcept : admission_(std::move(other.admission_)), entry_(other.entry_) {}
        Place& operator=(Place&& other) noexcept {
            std::swap(admission_, other.admission_);
            std::swap(entry_, other.entry_);
            return *this;
        }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;
        ~Place();

        // Called, on any thread, when a newcomer takes the place; not while the admission is locked by the caller.
        void on_drop(std::function<void()> drop);
        // The connection has said something useful.
        void identify();
        // Whether it may go on saying nothing, although it had its time.
        bool may_be_silent();

      private:
        friend class Admission;
        Place(std::shared_ptr<Admission> admission, std::list<Entry>::iterator entry)
            : admission_(std::move(admission)), entry_(entry) {}

        std::shared_ptr<Admission> admission_{};
        std::list<Entry>::iterator entry_{};
    };

    // A place for a newcomer, or why there is none.
    Result<Place> admit(Port port, const asio::ip::address& address);
    // Gives up the stranger that would be the next to go; false: there is none.
    bool drop_stranger(Port port);

    [[nodiscard]] std::size_t open(Port port) const;
    static const char* name_of(Port port);

  private:
    // IPv4 addresses, and networks of 64 bits: a host has as many IPv6 addresses as it likes.
    using Peer = std::array<std::uint8_t, 16>;
    static Peer peer_of(const asio::ip::address& address);

    struct Entry {
        Port port;
        Peer peer;
        enum class Standing : std::uint8_t { kStranger, kVouchedFor, kKnown, kDropped } standing;
        std::function<void()> drop{};
    };
    // Of one port.
    struct PeerState {
        std::size_t open = 0;
        std::size_t known = 0;  // with those vouched for
        std::list<Entry*> strangers{};
        std::list<Entry*> vouched_for{};
    };
    struct PortState {
        std::size_t share = 0;
        std::size_t open = 0;
        std::size_t known = 0;
        std::map<Peer, PeerState> peers{};
    };
    PortState& state_of(Port port) { return ports_[static_cast<std::size_t>(port)]; }
    [[nodiscard]] std::size_t known_of(Port port, const Peer& peer);
    void add(Entry& entry);
    // The opposite of add(); the peer's state is there still.
    void withdraw(Entry& entry);
    void remove(Entry& entry);
    void change_standing(Entry& entry, Entry::Standing standing);
    void revoke_vouchers(const Peer& peer);
    Entry* next_to_go(PortState& state);
    std::function<void()> drop(Entry& entry);

    mutable std::mutex mutex_;
    std::array<PortState, kPorts> ports_{};
    std::list<Entry> entries_{};
};

}  // namespace leat::relay
