#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::relay {

using Time = std::chrono::steady_clock::time_point;

inline Time now() { return std::chrono::steady_clock::now(); }

// Where the data of a packet was put.
struct StoredData {
    static constexpr std::uint64_t kNoFile = ~std::uint64_t{0};

    std::uint64_t file_number;  // kNoFile: it was here, and is nowhere any more
    std::uint64_t offset;       // bytes
    std::uint64_t size;         // bytes, padding included
    std::uint64_t came = 0;     // bytes that its producer sends: the padding behind them is a hole in the file
};

// Index and data of a packet come on two connections, in either order, and wait here for one another, by sequence
// number. They leave in the order of their numbers, as pairs, or as lost.
//
// Either side comes in order, so a later number shows that an earlier one will not come any more. (Datagrams are put in
// order before: DatagramWindow.) A number is lost when that is known of its index and of its data, unless one of them
// is here; or when it has waited too long. Numbers do not begin anew: nothing comes after 2^64 - 2.
//
// Data after the last index of all is no lost packet: its producer was killed or cut off before it sent the index. It
// was never told that the packet is stored, so it still has the packet, or ended together with it.
//
//     data     5  6  7
//     index    5  6  | end      5 and 6 are pairs, 7 is forgotten: the stream ends after 6
//
// What waits is bounded by age and count. Whoever reads from a connection asks has_room_for_...() first and waits if
// there is none: the other connection will catch up, or age will decide. Where no data comes at all, nobody waits: the
// oldest index makes room for the newest. ([RFC-live-reading], "Index streaming")
class PairingTable {
  public:
    // How data comes. Indexes always come by a connection.
    enum class Transport : std::uint8_t { kStream, kDatagrams };
    explicit PairingTable(Transport transport)
        : max_age_(transport == Transport::kStream ? kMaxAge : kMaxAgeOfDatagrams) {}

    static constexpr std::size_t kMaxWaiting = 4096;  // of indexes, and as many of data
    // Numbers that nobody mentioned, between two that came, are lost packets as well. So many are listed; more are only
    // counted, because each costs an entry in the index and a gap costs the peer nothing. Each packet that does come
    // lets so many more be listed.
    static constexpr std::uint64_t kMaxListed = 4096;
    static constexpr std::uint64_t kListedPerPacket = 16;
    // A packet may be long on its way through a slow connection.
    static constexpr std::chrono::seconds kMaxAge{600};
    // DatagramReceiver gives datagrams up much earlier. This is for streams that it does not know.
    static constexpr std::chrono::seconds kMaxAgeOfDatagrams{10};

    // Fails if the number has been there already, or there is no room.
    Result<void> add_index(const wire::SendIndex& index, Time now);
    Result<void> add_data(std::uint64_t number, const StoredData& data, Time now);
    [[nodiscard]] bool has_room_for_index(std::uint64_t number) const;
    [[nodiscard]] bool has_room_for_data(std::uint64_t number) const;

    // No data, or no index, will come any more.
    void end_data() { has_data_ended_ = true; }
    void end_indexes() { have_indexes_ended_ = true; }
    [[nodiscard]] bool has_data_ended() const { return has_data_ended_; }
    [[nodiscard]] bool have_indexes_ended() const { return have_indexes_ended_; }
    // No data will come for indexes that were here before that time. True if there are any.
    bool give_up_data(Time before);
    // No data will come for the oldest of the indexes that wait for it.
    void give_up_oldest_data();
    // What waits is as if it had come now, if it came before: nothing could come meanwhile.
    void count_ages_from(Time now) { ages_from_ = now; }

    struct Outcome {
        std::uint64_t number = 0;
        std::optional<ctf::IndexEntry> index{};  // without its offset
        std::optional<StoredData> data{};

        [[nodiscard]] bool is_lost() const { return !index || !data; }
    };
    // The next packet about which all is known; then it is forgotten.
    std::optional<Outcome> take(Time now);

    [[nodiscard]] bool empty() const { return waiting_.empty(); }
    // Whether an index waits for data that may still come.
    [[nodiscard]] bool waits_for_data() const { return !has_data_ended_ && indexes_waiting_ != 0; }
    // All packets up to and including this one have been taken. wire::kNoPacket is before all others.
    [[nodiscard]] bool is_past(std::uint64_t number) const {
        return number == wire::kNoPacket || (next_ && number < *next_);
    }
    // Packets at the end that no index speaks of. They are not among those taken.
    [[nodiscard]] std::uint64_t unindexed() const { return unindexed_; }
    // Lost packets that were not among those taken, because their gap was too large.
    [[nodiscard]] std::uint64_t unlisted() const { return unlisted_; }
    // All data that waits, oldest first, for those who must move it.
    std::vector<StoredData*> all_data();

    // For those who put datagrams together. Only indexes tell which numbers are real: they cannot be forged.
    [[nodiscard]] std::optional<std::uint64_t> next() const { return next_; }  // number to be taken next
    [[nodiscard]] std::optional<std::uint64_t> last_index() const { return last_index_; }
    struct Expected {
        std::uint64_t number;
        std::uint64_t size;  // bytes
        Time since;          // the index is here
    };
    // Of packets whose index waits for data: this one, and the last one before it.
    [[nodiscard]] std::optional<Expected> expected(std::uint64_t number) const;
    [[nodiscard]] std::optional<Expected> last_expected_before(std::uint64_t number) const;
    // Called once, by the next add_index(), under whatever lock that is called.
    void call_at_next_index(std::function<void()> function) { at_next_index_ = std::move(function); }

  private:
    struct Waiting {
        std::optional<ctf::IndexEntry> index{};  // without its offset
        std::optional<StoredData> data{};
        Time since{};
    };

    Result<void> check(std::uint64_t number) const;
    Waiting& entry(std::uint64_t number, Time now);
    [[nodiscard]] bool may_index_come(std::uint64_t number) const;
    [[nodiscard]] bool may_data_come(std::uint64_t number) const;
    void forget_unindexed();
    bool skip_gap(std::uint64_t end);
    Outcome take_first();
    static Expected expected_of(std::uint64_t number, const Waiting& waiting);

    std::chrono::seconds max_age_;
    Time ages_from_{};
    bool has_data_ended_ = false;
    bool have_indexes_ended_ = false;
    std::map<std::uint64_t, Waiting> waiting_;
    std::size_t indexes_waiting_ = 0;  // without their data
    std::size_t data_waiting_ = 0;     // without its index
    std::optional<std::uint64_t> next_{};
    bool has_taken_ = false;                     // until then, an earlier number may still turn up
    std::optional<std::uint64_t> last_index_{};  // highest number of an index so far
    std::uint64_t data_end_ = 0;                 // no data will come for numbers below
    std::uint64_t listed_ = 0;                   // of lost packets, and not yet paid for
    std::uint64_t unlisted_ = 0;
    std::uint64_t unindexed_ = 0;
    std::function<void()> at_next_index_{};
};

}  // namespace leat::relay
