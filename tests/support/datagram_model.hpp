// A model of streams that are sent as datagrams over a network that loses, repeats and reorders them, and beside a
// forger. Senders, network, control connections, the forger and time take random steps. The model knows what must come
// out, and reports anything else. Unit tests draw the steps from random numbers, a fuzz target from its input.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "relay/ingest/datagram_budget.hpp"
#include "relay/ingest/datagram_window.hpp"
#include "relay/store/pairing_table.hpp"
#include "support/model.hpp"

namespace leat::test {

struct ModelledDatagram {
    wire::DatagramHeader header;
    wire::Bytes piece;
};

// One producer's stream, and what the relay has made of it.
struct ModelledDatagrams {
    struct Packet {
        wire::Bytes bytes;
        std::vector<bool> arrived;  // pieces
        std::size_t missing;        // pieces
        std::optional<relay::Time> first_piece{};
        std::optional<relay::Time> whole{};
        std::optional<relay::Time> indexed{};
        // Nothing is promised for this packet: a forged datagram had its number, or it came before the relay could know
        // of it.
        bool is_exempt = false;
    };

    std::uint64_t session;
    std::uint64_t handle;
    std::uint64_t next_number;
    std::map<std::uint64_t, Packet> packets{};  // sent, and not yet decided
    std::deque<std::uint64_t> indexes{};        // on their way
    std::vector<ModelledDatagram> network{};
    std::optional<std::uint64_t> last_decided{};
    bool was_attacked_early = false;  // before the first index

    relay::DatagramWindow window{};
    relay::PairingTable pairs{relay::PairingTable::Transport::kDatagrams};
    std::map<std::uint64_t, wire::Bytes> stored{};  // data that has left the window

    // Whether the relay must take the packet now. Before the first index, it must do so only if there was no attack.
    [[nodiscard]] bool is_promised(std::uint64_t number) const {
        const auto last = pairs.last_index();
        if (!last && was_attacked_early) return false;
        return number - last.value_or(indexes.front()) <= relay::DatagramWindow::kAhead || (last && number < *last);
    }
};

class DatagramModel {
  public:
    explicit DatagramModel(Choose choose) : choose_(std::move(choose)) {
        constexpr std::array<std::uint64_t, 4> kFirst{0, 5, std::uint64_t{1} << 40, wire::kNoPacket - 100};
        for (std::size_t i = 0; i < streams_.size(); ++i)
            streams_[i] = {.session = i / 2, .handle = i, .next_number = kFirst.at(choose_(kFirst.size()))};
    }

    void step() {
        ModelledDatagrams& stream = streams_.at(choose_(streams_.size()));
        const std::uint64_t what = choose_(32);
        if (what < 8)
            send(stream);
        else if (what < 18)
            for (std::uint64_t i = choose_(8); i != 0; --i) arrive(stream, what == 17);
        else if (what < 19)
            lose(stream);
        else if (what < 25)
            for (std::uint64_t i = choose_(6); i != 0; --i) index(stream);
        else if (what < 27)
            pass(std::chrono::milliseconds(choose_(250)));
        else if (what < 31)
            forge(stream);
        else if (choose_(8) == 0)
            flood(stream);
        check_memory();
    }

    // Ends everything: what is on its way arrives, and what is lost is given up.
    void finish() {
        for (ModelledDatagrams& stream : streams_) {
            while (!stream.indexes.empty()) index(stream);
            while (!stream.network.empty()) arrive(stream, false);
        }
        for (int i = 0; i < 50; ++i) pass(std::chrono::milliseconds(250));
        for (const ModelledDatagrams& stream : streams_) {
            expect(stream.packets.empty() && stream.pairs.empty(), "packets are never decided");
            expect(stream.window.bytes() == 0, "memory is held for nothing");
        }
    }

    [[nodiscard]] const std::string& violation() const { return violation_; }
    [[nodiscard]] std::uint64_t delivered() const { return delivered_; }
    [[nodiscard]] std::uint64_t lost() const { return lost_; }
    [[nodiscard]] std::uint64_t forged() const { return forged_; }
    [[nodiscard]] std::uint64_t evicted() const { return evicted_; }

  private:
    using Fate = relay::DatagramWindow::Fate;
    static constexpr std::size_t kMaxUnderWay = 64;
    static constexpr std::uint32_t kPiece = wire::kDatagramPiece;

    void expect(bool is_so, const std::string& otherwise) {
        if (!is_so && violation_.empty()) violation_ = otherwise;
    }

    void send(ModelledDatagrams& stream) {
        if (stream.packets.size() >= kMaxUnderWay) return;
        const std::uint64_t jump = choose_(64);
        if (jump == 0)
            stream.next_number += std::min<std::uint64_t>(choose_(10'000), wire::kNoPacket - stream.next_number);
        if (jump == 1 && stream.next_number < std::uint64_t{1} << 60) stream.next_number += std::uint64_t{1} << 42;
        if (stream.next_number == wire::kNoPacket) return;
        const std::uint64_t number = stream.next_number++;
        // Most packets have a piece or two.
        const std::uint64_t size = 1 + choose_(choose_(8) == 0 ? relay::DatagramWindow::kSmallPacket : 2 * kPiece);
        wire::Bytes bytes(size, static_cast<std::byte>(number * 4 + stream.handle));
        for (std::size_t i = 0; i < size; i += 16) bytes[i] = static_cast<std::byte>(i / 16);
        const std::size_t pieces = (size + kPiece - 1) / kPiece;
        for (std::size_t at = 0; at < size; at += kPiece) {
            const UntrustedBytes piece = UntrustedBytes(bytes).subspan(at, std::min<std::size_t>(kPiece, size - at));
            stream.network.push_back({{.stream_id = stream.handle,
                                       .net_seq_num = number,
                                       .packet_size = static_cast<std::uint32_t>(size),
                                       .offset = static_cast<std::uint32_t>(at)},
                                      {piece.begin(), piece.end()}});
        }
        stream.indexes.push_back(number);
        stream.packets[number] = {.bytes = std::move(bytes), .arrived = std::vector<bool>(pieces), .missing = pieces};
    }

    void arrive(ModelledDatagrams& stream, bool is_repeated) {
        if (stream.network.empty()) return;
        // Most datagrams arrive in order.
        const std::size_t which = choose_(4) == 0 ? choose_(stream.network.size()) : 0;
        const ModelledDatagram datagram = stream.network[which];
        if (!is_repeated) stream.network.erase(stream.network.begin() + static_cast<std::ptrdiff_t>(which));
        if (const auto sent = stream.packets.find(datagram.header.net_seq_num); sent != stream.packets.end()) {
            ModelledDatagrams::Packet& packet = sent->second;
            packet.is_exempt |= !stream.is_promised(sent->first);
            if (!packet.first_piece) packet.first_piece = now_;
            const std::size_t piece = datagram.header.offset / kPiece;
            if (!packet.arrived[piece]) {
                packet.arrived[piece] = true;
                if (--packet.missing == 0) packet.whole = now_;
            }
        }
        add(stream, datagram.header, datagram.piece);
    }

    void lose(ModelledDatagrams& stream) {
        if (!stream.network.empty())
            stream.network.erase(stream.network.begin() + static_cast<std::ptrdiff_t>(choose_(stream.network.size())));
    }

    void index(ModelledDatagrams& stream) {
        if (stream.indexes.empty()) return;
        const std::uint64_t number = stream.indexes.front();
        stream.indexes.pop_front();
        ModelledDatagrams::Packet& packet = stream.packets.at(number);
        packet.indexed = now_;
        const auto added =
            stream.pairs.add_index({.net_seq_num = number, .entry = {.packet_size = packet.bytes.size() * 8}}, now_);
        expect(added.has_value(), fmt::format("the index of packet {} is refused", number));
        deliver(stream);
    }

    void pass(std::chrono::milliseconds time) {
        now_ += time;
        for (ModelledDatagrams& stream : streams_) {
            deliver(stream);
            stream.window.clean(stream.pairs, now_);
            pay(stream);
        }
    }

    // Sends one forged datagram with any number. Its packet may be real, or may come later.
    void forge(ModelledDatagrams& stream) {
        const std::uint64_t next = stream.next_number;
        const std::array<std::uint64_t, 8> numbers{
            60'000,        std::uint64_t{1} << 63,        wire::kNoPacket - 1, wire::kNoPacket,
            next + 60'000, next + 300 + choose_(1 << 16), next + choose_(8),   next - choose_(8)};
        wire::DatagramHeader header{.stream_id = stream.handle, .net_seq_num = numbers.at(choose_(numbers.size()))};
        header.packet_size = static_cast<std::uint32_t>(1 + choose_(3 * kPiece));
        header.offset = static_cast<std::uint32_t>(choose_(2)) * kPiece;
        std::uint32_t size = std::min(kPiece, header.packet_size - std::min(header.offset, header.packet_size));
        const std::uint64_t lie = choose_(16);
        if (lie == 0) header.packet_size = static_cast<std::uint32_t>(choose_(std::uint64_t{1} << 32));
        if (lie == 1) header.offset = static_cast<std::uint32_t>(choose_(std::uint64_t{1} << 32));
        if (lie == 2) size = static_cast<std::uint32_t>(choose_(2 * kPiece));
        if (lie == 3) header.mac = 1;
        forge(stream, header, size);
    }

    // Forges large packets, more than there is memory for.
    void flood(ModelledDatagrams& stream) {
        const std::uint64_t last = stream.pairs.last_index().value_or(stream.next_number);
        const std::uint64_t pieces = choose_(wire::kMaxDatagramPacket / kPiece);
        for (std::uint64_t packet = 0; packet < 8; ++packet)
            for (std::uint32_t i = 0; i < pieces; ++i)
                forge(stream,
                      {.stream_id = stream.handle,
                       .net_seq_num = last + relay::DatagramWindow::kAhead - packet,
                       .packet_size = wire::kMaxDatagramPacket,
                       .offset = i * kPiece},
                      kPiece);
    }

    void forge(ModelledDatagrams& stream, const wire::DatagramHeader& header, std::uint32_t size) {
        ++forged_;
        hit_.emplace(stream.handle, header.net_seq_num);
        if (!stream.pairs.last_index()) stream.was_attacked_early = true;
        add(stream, header, wire::Bytes(size, std::byte{0xee}));
    }

    // The functions from here on do what DatagramReceiver does.
    void add(ModelledDatagrams& stream, const wire::DatagramHeader& header, UntrustedBytes piece) {
        const Fate fate = stream.window.add(header, piece, now_);
        pay(stream);
        if (fate == Fate::kWhole) deliver(stream);
    }

    void pay(const ModelledDatagrams& stream) {
        budget_.set(stream.session, stream.handle, stream.window.bytes());
        while (const auto debtor = budget_.debtor(stream.session, stream.handle)) {
            ModelledDatagrams& payer = streams_.at(*debtor);
            const std::size_t before = payer.window.bytes();
            payer.window.drop_largest();
            ++evicted_;
            expect(payer.window.bytes() < before, "a debtor has nothing to give");
            if (!violation_.empty()) return;
            budget_.set(payer.session, payer.handle, payer.window.bytes());
        }
    }

    void deliver(ModelledDatagrams& stream) {
        while (auto packet = stream.window.take(stream.pairs, now_)) {
            const std::uint64_t size = packet->bytes.size();
            const auto added =
                stream.pairs.add_data(packet->number, {.file_number = 0, .offset = 0, .size = size}, now_);
            expect(added.has_value(), fmt::format("packet {} leaves the window, and is refused", packet->number));
            stream.stored[packet->number] = std::move(packet->bytes);
            commit(stream);
        }
        if (stream.pairs.give_up_data(now_ - relay::DatagramWindow::kMaxAge)) commit(stream);
        pay(stream);
    }

    void commit(ModelledDatagrams& stream) {
        std::uint64_t listed = 0;
        while (const auto outcome = stream.pairs.take(now_)) {
            const std::uint64_t number = outcome->number;
            expect(!stream.last_decided || number > *stream.last_decided, fmt::format("packet {} again", number));
            stream.last_decided = number;
            const auto sent = stream.packets.find(number);
            listed = sent == stream.packets.end() ? listed + 1 : 0;
            expect(listed <= relay::PairingTable::kMaxListed, "a gap is too long");
            if (sent == stream.packets.end()) continue;
            expect(outcome->index.has_value(), fmt::format("packet {} has lost its index", number));
            check_outcome(stream, number, sent->second, outcome->is_lost());
            stream.packets.erase(sent);
            stream.stored.erase(number);
        }
        expect(stream.stored.empty(), "data is stored that no index speaks of");
    }

    void check_outcome(const ModelledDatagrams& stream, std::uint64_t number, const ModelledDatagrams::Packet& packet,
                       bool is_lost) {
        ++(is_lost ? lost_ : delivered_);
        const bool is_hit = hit_.contains({stream.handle, number});
        if (!is_lost) {
            const wire::Bytes& stored = stream.stored.at(number);
            expect(stored.size() == packet.bytes.size(), fmt::format("packet {} has another size", number));
            expect(is_hit || stored == packet.bytes, fmt::format("packet {} has other bytes", number));
            return;
        }
        if (is_hit || packet.is_exempt) return;
        // A packet that is not whole yet has all the time it is promised.
        const bool is_in_time =
            packet.whole.value_or(now_) - *packet.indexed <= relay::DatagramWindow::kMaxAge &&
            *packet.indexed - packet.first_piece.value_or(now_) <= relay::DatagramWindow::kMaxAgeWithoutIndex;
        expect(!is_in_time, fmt::format("packet {} of stream {} is lost too early", number, stream.handle));
    }

    void check_memory() {
        std::size_t all = 0;
        std::map<std::uint64_t, std::size_t> sessions;
        for (const ModelledDatagrams& stream : streams_) {
            expect(stream.window.bytes() <= limits_.of_stream, "a stream holds too much");
            all += stream.window.bytes();
            sessions[stream.session] += stream.window.bytes();
        }
        for (const auto& [session, bytes] : sessions) expect(bytes <= limits_.of_session, "a session holds too much");
        expect(all <= limits_.of_all, "all together hold too much");
    }

    Choose choose_;
    relay::DatagramBudget::Limits limits_{.of_stream = 4U << 20, .of_session = 6U << 20, .of_all = 9U << 20};
    relay::DatagramBudget budget_{limits_};
    std::array<ModelledDatagrams, 4> streams_{};
    std::set<std::pair<std::uint64_t, std::uint64_t>> hit_;  // stream and number
    relay::Time now_{std::chrono::seconds(1000)};
    std::uint64_t delivered_ = 0;
    std::uint64_t lost_ = 0;
    std::uint64_t forged_ = 0;
    std::uint64_t evicted_ = 0;
    std::string violation_;
};

}  // namespace leat::test
