#include "relay/store/chunk_switch.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/log.hpp"
#include "relay/store/stream_file.hpp"

namespace leat::relay {
namespace {

// A hole stays one.
Result<StoredData> copy_one(FileSequence* source, FileSequence& target, const StoredData& data, std::uint64_t count) {
    // A packet may be larger than what we want to hold in memory.
    constexpr std::uint64_t kPiece = 256U << 10;
    StreamFile* const from = source != nullptr ? source->find(data.file_number) : nullptr;
    if (from == nullptr) return not_found("its file is gone");
    StreamFile& to = *LEAT_TRY(target.for_packet(data.size));
    const std::uint64_t begin = to.size();
    const std::uint64_t came = std::min(count, data.came);
    std::vector<std::byte> bytes(std::min(came, kPiece));
    for (std::uint64_t done = 0; done < came;) {
        const auto piece = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), came - done));
        LEAT_TRY(from->read(data.offset + done, piece));
        if (LEAT_TRY(to.write(begin + done, piece)) != piece.size())
            return fail(ErrorKind::kDiskFull, "the disk is full");
        done += piece.size();
    }
    if (came < count) LEAT_TRY(to.extend(begin + count));
    return StoredData{.file_number = to.number(), .offset = begin, .size = data.size, .came = data.came};
}

}  // namespace

Result<void> ChunkSwitch::copy(std::vector<Move>& moves, FileSequence* from, FileSequence& to,
                               std::uint64_t stream_id) {
    for (Move& move : moves) {
        const auto copied = copy_one(from, to, *move.data, move.count);
        if (copied) {
            move.to = *copied;
        } else if (is_disk_full(copied)) {
            to.discard();
            return tl::unexpected(copied.error());
        } else {
            log("stream {}: a packet was lost at a rotation: {}", stream_id, copied.error().message);
        }
    }
    return {};
}

void ChunkSwitch::finish(const std::vector<Move>& moves) {
    for (const Move& move : moves) *move.data = move.to;
}

}  // namespace leat::relay
