#pragma once

#include <array>
#include <optional>

#include "base/unique_fd.hpp"
#include "net/stream_socket.hpp"
#include "output/data_link.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::output {

// Sends packets as numbered pieces, which the network may lose or reorder. The relay puts them together and tells what
// is lost. Nothing is sent twice.
class DatagramLink final : public DataLink {
  public:
    explicit DatagramLink(UniqueFd socket) : socket_(std::move(socket)) {}

    // A packet is lost if any of its pieces is. Small packets lose less, large ones cost less. A packet of this size
    // has 12 pieces: 1 % of lost datagrams means 11 % of lost packets.
    static constexpr std::size_t kMaxPacketSize = 16U << 10;

    [[nodiscard]] bool is_connected() const override { return true; }
    [[nodiscard]] bool is_idle() const override { return sent_ == size(); }
    // Does not send a packet that is larger than what the relay puts together: it is lost like others.
    void begin(const consumer::Packet& packet, std::uint64_t stream_handle) override;
    Result<void> flush(Clock::time_point now) override;
    // Never fails: an error here says only that nobody took an earlier datagram.
    Result<void> check() override;
    [[nodiscard]] pollfd wanted() const override;
    [[nodiscard]] Clock::time_point deadline() const override;

  private:
    static constexpr std::size_t kMaxAtOnce = 32;  // pieces

    // The piece's header, then bytes of the head, of the records, or of both.
    using Piece = std::array<iovec, 3>;

    [[nodiscard]] std::size_t size() const { return head_.size() + records_.size(); }
    void add_header(std::size_t offset);
    [[nodiscard]] Piece piece_at(std::size_t offset, std::byte* header);
    // Returns how many pieces have left or never will; nothing if the socket is full.
    Result<std::optional<std::size_t>> send_pieces(std::size_t count);

    UniqueFd socket_;
    std::uint64_t stream_handle_ = 0;
    std::uint64_t number_ = 0;
    wire::Bytes head_;  // packet header, and the first record's header if it differs
    UntrustedBytes records_;
    std::size_t sent_ = 0;  // bytes of both
    wire::Bytes piece_headers_;
    bool is_full_ = false;  // the socket

    Clock::time_point burst_began_{};
    std::size_t left_in_burst_ = 0;  // pieces
};

}  // namespace leat::output
