// Datagrams of one stream: in any order, twice, of packets that never become whole, and that lie about their size and
// place. What leaves is whole, is what came, and is in order; what waits is bounded; and while nothing is late and
// nothing is in the way, nothing is lost.
//
// The input: the first packet's number; then steps: which one, and its bytes.
#include "relay/datagram_window.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/check.hpp"
#include "fuzz_input.hpp"

namespace leat::fuzz {
namespace {

using namespace std::chrono_literals;
using relay::DatagramWindow;

constexpr std::uint32_t kPiece = wire::kDatagramPiece;

class Receiver {
  public:
    void add(const wire::DatagramHeader& header, UntrustedBytes piece) {
        const bool is_late = last_ && header.net_seq_num <= *last_;
        if (!window_.add(header, piece, now_)) return;
        is_pressed_ |= window_.bytes() > DatagramWindow::kMaxBytes;
        if (!is_late) note(header, piece);
    }
    void take() {
        while (const auto packet = window_.take(now_)) check(*packet);
        LEAT_CHECK(window_.bytes() <= DatagramWindow::kMaxBytes);
    }
    void wait(std::chrono::milliseconds time) {
        now_ += time;
        has_waited_ = true;
    }
    // Everything leaves in time; and all that was whole has, unless it had to go before.
    void finish() {
        take();
        const bool may_lose = has_waited_ || is_pressed_;
        wait(DatagramWindow::kMaxAge + 1ms);
        take();
        LEAT_CHECK(window_.bytes() == 0);
        for (const auto& [number, sent] : sent_)
            LEAT_CHECK(may_lose || std::ranges::find(sent.pieces, false) != sent.pieces.end());
    }

  private:
    struct Sent {
        wire::Bytes bytes;
        std::vector<bool> pieces;
    };

    // The first piece of a place counts.
    void note(const wire::DatagramHeader& header, UntrustedBytes piece) {
        auto& [bytes, pieces] = sent_[header.net_seq_num];
        bytes.resize(header.packet_size);
        pieces.resize((header.packet_size + kPiece - 1) / kPiece);
        if (pieces.at(header.offset / kPiece)) return;
        pieces.at(header.offset / kPiece) = true;
        LEAT_CHECK(header.offset + piece.size() <= bytes.size());
        std::ranges::copy(piece, bytes.begin() + header.offset);
    }
    void check(const DatagramWindow::Packet& packet) {
        LEAT_CHECK(!last_ || packet.number > *last_);
        last_ = packet.number;
        const auto sent = sent_.find(packet.number);
        LEAT_CHECK(sent != sent_.end());
        LEAT_CHECK(std::ranges::find(sent->second.pieces, false) == sent->second.pieces.end());
        LEAT_CHECK(packet.bytes == sent->second.bytes);
        sent_.erase(sent);
    }

    DatagramWindow window_;
    relay::Time now_{1000s};
    std::map<std::uint64_t, Sent> sent_;  // as far as it has not left
    std::optional<std::uint64_t> last_;   // number that has left
    bool has_waited_ = false;
    bool is_pressed_ = false;
};

// A piece as it should be, or with one thing wrong.
void send_piece(FuzzInput& input, std::uint8_t step, std::uint64_t first_number, Receiver& receiver) {
    wire::DatagramHeader header{.net_seq_num = first_number + input.take<std::uint8_t>()};
    // Of up to five pieces, or a large one.
    const auto size = input.take<std::uint16_t>();
    header.packet_size = size % (5 * kPiece) << (size > 60000 ? 8U : 0U);
    header.offset = input.take<std::uint8_t>() % 8 * kPiece;
    std::uint32_t piece_size = std::min(kPiece, header.packet_size - std::min(header.offset, header.packet_size));
    const auto lie = step < 0xe0 ? std::uint8_t{0} : input.take<std::uint8_t>();
    if (lie % 4 == 1) header.packet_size = input.take<std::uint32_t>();
    if (lie % 4 == 2) header.offset = input.take<std::uint32_t>();
    if (lie % 4 == 3) piece_size = input.take<std::uint16_t>();
    receiver.add(header, wire::Bytes(piece_size, std::byte{input.take<std::uint8_t>()}));
}

void run(FuzzInput input) {
    Receiver receiver;
    const auto first_number = input.take<std::uint64_t>();
    while (!input.is_empty()) {
        const auto step = input.take<std::uint8_t>();
        if (step % 8 == 0)
            receiver.wait(std::chrono::milliseconds(input.take<std::uint8_t>() * 4));
        else if (step % 8 == 1)
            receiver.take();
        else
            send_piece(input, step, first_number, receiver);
    }
    receiver.finish();
}

}  // namespace
}  // namespace leat::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    leat::fuzz::run(leat::fuzz::FuzzInput(data, size));
    return 0;
}
