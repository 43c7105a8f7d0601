#include "host/surviving_records.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "base/page_fill.hpp"
#include "ring/ring_head.hpp"

namespace leat::host {
namespace {

using session::TraceChannel;

// Where a stretch of records begins or ends.
struct Mark {
    std::uint64_t position;
    std::uint64_t timestamp;  // ns: of the record in front of it
    std::uint64_t records;    // below it, since the start
};

// Of a record's bytes in a page that is otherwise zeros: fewer of them may be zeros themselves.
constexpr std::uint64_t kSomeBytes = 64;

// Reads as no record.
constexpr std::byte kNoRecord{0xff};

// One ring, as a copy of it lies in memory.
class CopiedRing {
  public:
    CopiedRing(const TraceChannel& channel, const ctf::RecordWalker& walker, std::uint32_t index, PageFill& no_records)
        : walker_(walker),
          no_records_(no_records),
          size_(channel.rings().geometry().ring_size),
          header_(channel.rings().ring(index)),
          records_(reinterpret_cast<std::byte*>(&header_) + ring::kPageSize) {}  // NOLINT(*-reinterpret-cast)

    [[nodiscard]] Result<ring::RingHead> head() const { return ring::look_at_head(header_); }
    [[nodiscard]] std::uint64_t size() const { return size_; }

    // Whether the stretch holds what its marks say, and nothing of it is in a page of zeros.
    [[nodiscard]] bool is_whole(const Mark& from, const Mark& to) const {
        UntrustedBytes rest(records_ + (from.position & (size_ - 1)), to.position - from.position);
        std::uint64_t position = from.position;
        std::uint64_t time = from.timestamp;
        std::uint64_t count = from.records;
        for (; !rest.empty(); ++count) {
            const ctf::RecordWalker::Part record = walker_.walk_part(rest, 1, {time, to.timestamp});
            if (record.records != 1 || is_in_zeros(position, record.bytes)) return false;
            time = record.last_timestamp;
            position += record.bytes;
            rest = rest.subspan(record.bytes);
        }
        return count == to.records && time == walker_.header().whole_cycles(to.timestamp);
    }

    // In both places where readers find them: in a copy, these are pages of their own.
    void wipe(std::uint64_t from, std::uint64_t to) const {
        const std::uint64_t begin = from & (size_ - 1);
        const std::uint64_t before_end = std::min(to - from, size_ - begin);
        for (std::byte* const records : {records_, records_ + size_}) {
            no_records_.fill({records + begin, before_end});
            no_records_.fill({records, to - from - before_end});
        }
    }

  private:
    [[nodiscard]] bool is_in_zeros(std::uint64_t position, std::uint64_t bytes) const {
        const std::uint64_t end = position + bytes;
        for (std::uint64_t page = position & ~(ring::kPageSize - 1); page < end; page += ring::kPageSize) {
            const std::uint64_t in_page = std::min(end, page + ring::kPageSize) - std::max(position, page);
            if ((page <= position || in_page >= kSomeBytes) && is_zero(page)) return true;
        }
        return false;
    }

    // Many records share a page.
    [[nodiscard]] bool is_zero(std::uint64_t page) const {
        if (page == known_page_) return is_known_zero_;
        const std::byte* const begin = records_ + (page & (size_ - 1));
        known_page_ = page;
        is_known_zero_ =
            std::all_of(begin, begin + ring::kPageSize, [](std::byte byte) { return byte == std::byte{0}; });
        return is_known_zero_;
    }

    const ctf::RecordWalker& walker_;
    PageFill& no_records_;
    std::uint64_t size_;
    ring::RingHeader& header_;
    std::byte* records_;
    mutable std::uint64_t known_page_ = ~std::uint64_t{0};
    mutable bool is_known_zero_ = false;
};

// What is not stored yet.
void wipe_unread(const CopiedRing& ring, const Mark& read) {
    const auto head = ring.head();
    if (!head || head->position <= read.position || head->position - read.position > ring.size()) return;
    const Mark end{head->position, head->timestamp, head->records};
    if (!ring.is_whole(read, end)) ring.wipe(read.position, end.position);
}

// Neighbours that are torn at once, so that it takes less memory.
void wipe_blocks(const CopiedRing& ring, const ring::BlockReader& reader) {
    const auto notes = reader.notes();
    if (!notes || notes->empty()) return;
    if (notes->back().position - notes->front().position > ring.size()) return;
    std::uint64_t torn_from = notes->front().position;
    for (std::size_t i = 0; i + 1 < notes->size(); ++i) {
        const ring::BlockNote& from = (*notes)[i];
        const ring::BlockNote& to = (*notes)[i + 1];
        if (!ring.is_whole({from.position, from.timestamp, from.records}, {to.position, to.timestamp, to.records}))
            continue;
        ring.wipe(torn_from, from.position);
        torn_from = to.position;
    }
    ring.wipe(torn_from, notes->back().position);
}

}  // namespace

void wipe_what_is_torn(const session::Trace& trace, const consumer::Progress& progress) {
    PageFill no_records(kNoRecord);
    for (std::uint32_t i = 0; i < trace.channels().size(); ++i) {
        const TraceChannel& channel = *trace.channels()[i];
        const ctf::RecordWalker walker = channel.walker_of_all();
        const ring::RingSetGeometry& geometry = channel.rings().geometry();
        const std::uint32_t used = geometry.cpu_rings + channel.rings().thread_rings_used();
        for (std::uint32_t index = 0; index < used; ++index) {
            const CopiedRing ring(channel, walker, index, no_records);
            if (geometry.overwrites) {
                wipe_blocks(ring, channel.rings().block_reader(index));
                continue;
            }
            const auto known = progress.find({i, index});
            const std::uint64_t began = index < geometry.cpu_rings ? channel.rings().created() : 0;
            wipe_unread(ring,
                        known ? Mark{known->position, known->last_record, known->record_count} : Mark{0, began, 0});
        }
    }
}

}  // namespace leat::host
