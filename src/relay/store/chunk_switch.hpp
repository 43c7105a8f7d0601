#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "relay/store/file_sequence.hpp"
#include "relay/store/pairing_table.hpp"
#include "relay/store/session_directory.hpp"

namespace leat::relay {

// As the tracer counts, which may wrap: `number` is `position` or follows it.
inline bool is_at_or_past(std::uint64_t number, std::uint64_t position) {
    return static_cast<std::int64_t>(number - position) >= 0;
}

// A stream's way from its chunk into the next one, or out of every chunk.
//
//                 is_due()              copy()               finish()
//     ordered  ------------->  due  -------------->  copied  ---------->  (the stream is there)
//                              ^  |
//                              +--+  the disk is full: nothing has changed, and it is tried again
//
// The command for it comes on the control connection and names a position; all packets before it stay. The data
// connection may be ahead: data that came already and belongs to the next chunk is copied into its files. Only when all
// of it is there does the stream leave its old files, so that a full disk loses nothing.
class ChunkSwitch {
  public:
    // Packets from this sequence number of the tracer's on belong to `chunk`; null: to none.
    ChunkSwitch(std::shared_ptr<TraceChunk> chunk, std::uint64_t packet_seq_num)
        : chunk_(std::move(chunk)), packet_seq_num_(packet_seq_num) {}

    [[nodiscard]] const std::shared_ptr<TraceChunk>& chunk() const { return chunk_; }
    // Whether everything before the position is committed, if `next` follows what is.
    [[nodiscard]] bool is_due(std::uint64_t next) const { return is_at_or_past(next, packet_seq_num_); }

    // Data that goes along, of which the first `count` bytes are there. It is referred to until finish().
    struct Move {
        StoredData* data;
        std::uint64_t count;
        StoredData to;
    };
    static Move move_of(StoredData& data, std::uint64_t count) {
        return {&data, count, StoredData{.file_number = StoredData::kNoFile, .offset = 0, .size = data.size}};
    }
    // kDiskFull: nothing is left in the new files. What cannot be copied for another reason is lost; `stream_id` is for
    // the log. `from` is null for a stream that was out of every chunk.
    static Result<void> copy(std::vector<Move>& moves, FileSequence* from, FileSequence& to, std::uint64_t stream_id);
    // The data lies where it was copied to, or nowhere. Cannot fail.
    static void finish(const std::vector<Move>& moves);

  private:
    std::shared_ptr<TraceChunk> chunk_;
    std::uint64_t packet_seq_num_;
};

}  // namespace leat::relay
