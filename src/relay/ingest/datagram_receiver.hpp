#pragma once

#include <array>
#include <asio/awaitable.hpp>
#include <asio/ip/udp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/result.hpp"
#include "relay/ingest/datagram_budget.hpp"
#include "relay/ingest/datagram_window.hpp"
#include "relay/relay.hpp"

namespace leat::relay {

// Takes the data of sessions that send it as datagrams, on one socket for all. ([RFC-live-reading], "Index streaming")
//
// Anybody can send to this port, in anybody's name. A datagram for no stream costs a look into a table of our own; one
// for a stream costs at most the packet whose number it bears (DatagramWindow), and memory of that stream's session
// (DatagramBudget). Nobody gets an answer.
//
//     datagram --> find() the stream --> DatagramWindow: pieces become packets --> deliver() --> DataStream, in order
//                     |                     |                                         ^
//                     v                     v                                         |
//                 counted only     given up when late (expire)         its index came, or those before it are late
//
// All of it runs on one thread, that of the socket. What it shares with other threads it reaches through the stream's
// lock (with_pairs) and the table of handles.
class DatagramReceiver {
  public:
    DatagramReceiver(asio::ip::udp::socket socket, Relay& relay);

    // Both until the socket is closed.
    asio::awaitable<void> receive();
    asio::awaitable<void> expire();
    void close();
    // All of these run there.
    [[nodiscard]] asio::ip::udp::socket::executor_type executor() { return socket_.get_executor(); }

  private:
    struct Source {
        std::shared_ptr<StoredSession> session;
        std::shared_ptr<SessionStream> entry;

        // Lives as long as the source: a finished stream is noticed by remove_ended(), not by a dangling reference.
        [[nodiscard]] DataStream& stream() const { return *entry->stream; }
        DatagramWindow window{};
        // Of datagrams, by their fate.
        std::array<std::uint64_t, 6> counts{};
        std::uint64_t unstored_packets = 0;
        Time last_look{};

        // For something that time decides.
        [[nodiscard]] bool waits() const {
            return window.packets() != 0 ||
                   stream().with_pairs([](const PairingTable& pairs) { return pairs.waits_for_data(); });
        }
        [[nodiscard]] std::uint64_t count(DatagramWindow::Fate fate) const {
            return counts[static_cast<std::size_t>(fate)];
        }
    };

    std::size_t receive_some();
    void handle(UntrustedBytes datagram);
    Source* find(std::uint64_t handle);
    void add_sources();
    void add_source(std::uint64_t handle, const std::shared_ptr<StoredSession>& session);
    DatagramWindow::Fate add(Source& source, const wire::DatagramHeader& header, UntrustedBytes piece, Time now);
    void update_budget(const Source& source);
    // Gives the stream all that may leave the window.
    void deliver(Source& source, Time now);
    void clean(Source& source, Time now);
    void deliver_when_indexed(std::uint64_t handle, PairingTable& pairs);
    void store(Source& source, const DatagramWindow::WholePacket& packet, Time now);
    void remove_ended();
    static void tell_end(const Source& source);
    void tell_unknown(Time now);

    asio::ip::udp::socket socket_;
    asio::steady_timer timer_;
    Relay* relay_;
    std::unordered_map<std::uint64_t, Source> sources_;  // every stream that takes datagrams, by its handle
    std::uint64_t handles_seen_ = 0;                     // of all that the relay has added
    DatagramBudget budget_;
    std::uint64_t unknown_ = 0;  // datagrams for no stream
    std::uint64_t unknown_told_ = 0;
    Time unknown_told_at_{};
    wire::Bytes buffer_;
};

}  // namespace leat::relay
