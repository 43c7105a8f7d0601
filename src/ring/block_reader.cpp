#include "ring/block_reader.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "ring/ring_head.hpp"
#include "ring/sanitizers.hpp"

#if defined(LEAT_THREAD_SANITIZER)
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace leat::ring {
namespace {

// While it lives, ThreadSanitizer takes no notice of what this thread reads.
struct RaceIsMeant {
#if defined(LEAT_THREAD_SANITIZER)
    RaceIsMeant() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
    ~RaceIsMeant() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else
    RaceIsMeant() = default;
    ~RaceIsMeant() {}  // NOLINT(*-use-equals-default): not trivial, so that nobody takes it for unused
#endif
    RaceIsMeant(const RaceIsMeant&) = delete;
    RaceIsMeant& operator=(const RaceIsMeant&) = delete;
};

std::uint64_t load_word(std::uint64_t& word) { return std::atomic_ref(word).load(std::memory_order_acquire); }

BlockNote load_note(BlockNote& note) {
    return {load_word(note.position), load_word(note.timestamp), load_word(note.records), load_word(note.discarded)};
}

}  // namespace

std::uint64_t BlockReader::head() const { return load_word(header_->head); }

std::uint64_t BlockReader::discarded(DiscardReason reason) const {
    return load_word(header_->discarded[static_cast<std::uint32_t>(reason)]);
}

Result<BlockNote> BlockReader::end() const {
    const RingHead head = LEAT_TRY(look_at_head(*header_));
    std::uint64_t discarded = 0;
    for (std::uint64_t& reason : header_->discarded) discarded += load_word(reason);
    return BlockNote{head.position, head.timestamp, head.records, discarded};
}

// Nothing is written over yet from limit - size on.
std::uint64_t BlockReader::limit() const {
    // AH: who sees a limit sees the notes of all blocks up to it; and what was copied before was not written over by
    // those who are beyond it later. Pairs with AG in thread_writer.cpp's begin_block() and in
    // rseq_sequence_x86_64.inc. The compiler must keep the copy in front of this look; x86 does.
    std::atomic_signal_fence(std::memory_order_acquire);
    return load_word(header_->limit);
}

std::uint64_t BlockReader::oldest_below(std::uint64_t limit) const { return limit - std::min(limit, size_); }

// The head first: then no block ends beyond the limit that is looked at afterwards.
//
//     limit - size                             end           limit
//       |      | note           | note          | head        |
//                 a whole block   the block that is written
Result<std::vector<BlockNote>> BlockReader::notes() const {
    for (int look = 0; look < kMaxLooks; ++look) {
        const BlockNote end = LEAT_TRY(this->end());
        if (was_lost()) return file_was_cut_off();
        if (end.position == 0) return std::vector<BlockNote>();
        const std::uint64_t limit = this->limit();
        if (end.position < oldest_below(limit)) {
            // Writers have gone over all that was there; unless the head is still where it was.
            if (head() < oldest_below(limit)) break;
            continue;
        }
        auto notes = notes_between(oldest_below(limit), limit, end);
        // Writers may have gone on to the next block between our looks at head and limit, and almost around.
        if (!notes && head() != end.position) continue;
        // Until then, writers use other notes.
        if (this->limit() - limit <= (kBlockNotes - kBlocks) * block_size(size_)) return notes;
    }
    return corrupt("ring's blocks do not hold still");
}

Result<std::vector<BlockNote>> BlockReader::notes_between(std::uint64_t oldest, std::uint64_t limit,
                                                          const BlockNote& end) const {
    const std::uint64_t block = block_size(size_);
    std::vector<BlockNote> notes;
    for (std::uint64_t number = oldest / block; number < limit / block; ++number) {
        const BlockNote note = load_note(header_->blocks[number % kBlockNotes]);
        const bool is_of_this_block = note.position <= number * block && note.position >= oldest;
        if (!is_of_this_block || note.position > end.position) continue;
        // A record that is longer than a block: several begin with the one behind it.
        if (!notes.empty() && note.position == notes.back().position) continue;
        const BlockNote& before = notes.empty() ? note : notes.back();
        if (note.position < before.position || note.timestamp < before.timestamp || note.records < before.records)
            return corrupt("ring's block {} begins before the one in front of it", number);
        notes.push_back(note);
    }
    if (notes.empty()) return corrupt("ring has records up to byte {}, and no block that they are in", end.position);
    if (notes.back().position != end.position) notes.push_back(end);
    if (end.timestamp < notes.back().timestamp || end.records < notes.back().records)
        return corrupt("ring's last block ends before it begins");
    return notes;
}

// Programs may write there meanwhile: what comes of that is found out afterwards.
bool BlockReader::copy(std::uint64_t from, std::uint64_t to, std::vector<std::byte>& copy) const {
    if (from > to || to - from > size_) return false;
    const auto* const records = reinterpret_cast<const std::byte*>(header_) + kPageSize;  // NOLINT(*-reinterpret-cast)
    const std::byte* const begin = records + (from & (size_ - 1));
    const std::size_t before = copy.size();
    {
        const RaceIsMeant here;
        copy.insert(copy.end(), begin, begin + (to - from));
    }
    if (from >= oldest_below(limit()) && !was_lost()) return true;
    copy.resize(before);
    return false;
}

void BlockReader::touch() const {
    const auto* const records =
        reinterpret_cast<const volatile char*>(header_) + kPageSize;  // NOLINT(*-reinterpret-cast)
    for (std::uint64_t at = 0; at < size_; at += kPageSize) (void)records[at];
    std::atomic_ref(header_->touched).store(size_, std::memory_order_relaxed);
}

}  // namespace leat::ring
