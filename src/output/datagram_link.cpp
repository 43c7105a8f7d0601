#include "output/datagram_link.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/check.hpp"

namespace leat::output {
namespace {

using namespace std::chrono_literals;

// A network has no back-pressure, and a receiving socket has room for some 200 KB unless somebody has raised its limit.
// One burst may leave at once, and another one after each pause: 130 MB a second.
constexpr std::size_t kBurst = 48;  // pieces
constexpr auto kBurstPause = 500us;

// How many unexpected datagrams or errors are read away at a time.
constexpr int kMaxUnexpected = 16;

}  // namespace

void DatagramLink::begin(const consumer::Packet& packet, std::uint64_t stream_handle) {
    LEAT_CHECK(is_idle());
    stream_handle_ = stream_handle;
    number_ = packet.header.packet_seq_num;
    head_.clear();
    consumer::append_head(head_, packet);
    records_ = packet.other_records();
    sent_ = size() > wire::kMaxDatagramPacket ? size() : 0;
}

Result<void> DatagramLink::flush(Clock::time_point now) {
    if (now - burst_began_ >= kBurstPause) {
        burst_began_ = now;
        left_in_burst_ = kBurst;
    }
    is_full_ = false;
    while (!is_idle() && left_in_burst_ != 0) {
        const std::size_t missing = (size() - sent_ + wire::kDatagramPiece - 1) / wire::kDatagramPiece;
        const auto count = LEAT_TRY(send_pieces(std::min({missing, left_in_burst_, kMaxAtOnce})));
        is_full_ = !count;
        if (is_full_) return {};
        left_in_burst_ -= *count;
        sent_ = std::min(sent_ + *count * wire::kDatagramPiece, size());
    }
    return {};
}

void DatagramLink::add_header(std::size_t offset) {
    wire::append(piece_headers_, wire::DatagramHeader{.stream_id = stream_handle_,
                                                      .net_seq_num = number_,
                                                      .packet_size = static_cast<std::uint32_t>(size()),
                                                      .offset = static_cast<std::uint32_t>(offset)});
}

DatagramLink::Piece DatagramLink::piece_at(std::size_t offset, std::byte* header) {
    const std::size_t end = std::min(offset + wire::kDatagramPiece, size());
    const std::size_t head_begin = std::min(offset, head_.size());
    const std::size_t of_head = std::min(end, head_.size()) - head_begin;
    const UntrustedBytes records = records_.subspan(offset - head_begin);
    return {iovec{header, wire::kSizeOf<wire::DatagramHeader>}, iovec{head_.data() + head_begin, of_head},
            iovec{const_cast<std::byte*>(records.data()), end - offset - of_head}};  // NOLINT(*-const-cast)
}

Result<std::optional<std::size_t>> DatagramLink::send_pieces(std::size_t count) {
    piece_headers_.clear();
    for (std::size_t i = 0; i < count; ++i) add_header(sent_ + i * wire::kDatagramPiece);
    std::array<Piece, kMaxAtOnce> pieces;
    std::array<mmsghdr, kMaxAtOnce> messages{};
    for (std::size_t i = 0; i < count; ++i) {
        pieces[i] =
            piece_at(sent_ + i * wire::kDatagramPiece, piece_headers_.data() + i * wire::kSizeOf<wire::DatagramHeader>);
        messages[i].msg_hdr.msg_iov = pieces[i].data();
        messages[i].msg_hdr.msg_iovlen = pieces[i].size();
    }
    for (;;) {
        const int sent = ::sendmmsg(socket_.get(), messages.data(), static_cast<unsigned>(count), MSG_NOSIGNAL);
        if (sent >= 0) return static_cast<std::size_t>(sent);
        if (errno == EAGAIN) return std::nullopt;
        if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK) return io_error("cannot send");
        // ECONNREFUSED is about an earlier piece, and comes only once.
        if (errno == EINTR || errno == ECONNREFUSED) continue;
        // A piece that the network refuses is lost, like one that it drops on the way.
        return 1;
    }
}

Result<void> DatagramLink::check() {
    std::byte unexpected{};
    for (int i = 0; i < kMaxUnexpected; ++i)
        if (::recv(socket_.get(), &unexpected, sizeof unexpected, MSG_DONTWAIT) < 0 && errno == EAGAIN) break;
    return {};
}

pollfd DatagramLink::wanted() const {
    return {socket_.get(), static_cast<short>(is_full_ ? POLLIN | POLLOUT : POLLIN), 0};
}

DataLink::Clock::time_point DatagramLink::deadline() const {
    return is_idle() || is_full_ ? Clock::time_point::max() : burst_began_ + kBurstPause;
}

}  // namespace leat::output
