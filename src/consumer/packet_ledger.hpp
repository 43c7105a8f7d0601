#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "base/check.hpp"

namespace leat::consumer {

// The packets of one stream from the moment they are cut until they are stored, in the order of their sequence numbers.
//
//                 add()      note_sent()        ask()        note_stored()
//     (nothing)  ------> cut  --------->  sent  --------->  asked  ---------->  (forgotten)
//                         ^                 |                | ^
//                         |                 |                +-+  note_pending(), ask()
//                         +-----------------+
//                               rewind()
//
// Packets are sent in order and stored in order, so a state is a stretch of the ledger:
//
//     stored()
//        | asked ... | sent ... | cut ... |
//      oldest                           newest
//
// One question is under way at a time; it covers all that was sent when it was asked. If that was too early, the same
// is asked again: of what has been sent since, the newest is always still under way. If that is so again and again, the
// line may be slow: then each second question is about the oldest alone, so that what has arrived makes room. rewind()
// is for a connection that broke: whatever is not stored is sent again, with the numbers that it has.
//
// Each layer keeps in its entries what only it may know: the consumer a position in the ring, an output the packet. The
// consumer passes from cut to stored; what lies between is its output's business.
template <class Entry>
class PacketLedger {
  public:
    struct Numbered {
        std::uint64_t number;
        Entry entry;
    };

    // A packet was cut; its number is above all before. The entry stays where it is until it is stored.
    Entry& add(std::uint64_t number, Entry entry) {
        LEAT_CHECK(packets_.empty() || packets_.back().number < number);
        packets_.push_back({number, std::move(entry)});
        return packets_.back().entry;
    }

    [[nodiscard]] bool empty() const { return packets_.empty(); }
    // All that are not stored, oldest first.
    [[nodiscard]] const std::deque<Numbered>& packets() const { return packets_; }

    [[nodiscard]] bool has_unsent() const { return sent_ < packets_.size(); }
    [[nodiscard]] const Entry& next_unsent() const { return packets_[sent_].entry; }
    void note_sent() {
        last_sent_ = packets_[sent_].number;
        ++sent_;
    }
    // Over this connection.
    [[nodiscard]] std::optional<std::uint64_t> last_sent() const { return last_sent_; }

    // Whether something was sent and is not known to be stored.
    [[nodiscard]] bool has_unconfirmed() const { return sent_ != 0; }
    [[nodiscard]] bool is_asked() const { return is_asked_; }
    // Returns the packet to ask about: whether it is stored, with all before it. Only while something is unconfirmed.
    std::uint64_t ask() {
        if (!covered_) covered_ = last_sent_;
        is_asked_ = true;
        asked_ = is_oldest_next_ ? std::min(packets_.front().number, *covered_) : *covered_;
        return asked_;
    }
    // The answers to the question. Packets that were sent after it are in neither of them.
    void note_pending() {
        is_asked_ = false;
        is_oldest_next_ = ++too_early_ >= kOftenTooEarly && !is_oldest_next_;
    }
    void note_stored() {
        if (!is_asked_) return;
        (void)note_stored(asked_ + 1);
        is_asked_ = false;
        is_oldest_next_ = false;
        if (asked_ == covered_) forget_question();
    }

    // All packets of smaller numbers are stored. Returns the entry of the last one that is forgotten for it.
    std::optional<Entry> note_stored(std::uint64_t end) {
        std::optional<Entry> last;
        stored_ = std::max(stored_, end);
        while (!packets_.empty() && packets_.front().number < end) {
            last = std::move(packets_.front().entry);
            packets_.pop_front();
            if (sent_ != 0) --sent_;
            ++forgotten_;
        }
        return last;
    }
    // All smaller numbers are stored.
    [[nodiscard]] std::uint64_t stored() const { return stored_; }
    // Packets that were here and are stored.
    [[nodiscard]] std::uint64_t stored_count() const { return forgotten_; }

    void rewind() {
        sent_ = 0;
        last_sent_.reset();
        forget_question();
    }

  private:
    static constexpr unsigned kOftenTooEarly = 8;

    void forget_question() {
        covered_.reset();
        is_asked_ = false;
        is_oldest_next_ = false;
        too_early_ = 0;
    }

    std::deque<Numbered> packets_{};
    std::size_t sent_ = 0;  // of packets_, from the front
    std::optional<std::uint64_t> last_sent_{};
    std::optional<std::uint64_t> covered_{};  // the last packet that the question covers, or did when it came too early
    std::uint64_t asked_ = 0;                 // covered_, or the oldest
    bool is_asked_ = false;
    unsigned too_early_ = 0;  // times that the question was
    bool is_oldest_next_ = false;
    std::uint64_t stored_ = 0;
    std::uint64_t forgotten_ = 0;
};

}  // namespace leat::consumer
