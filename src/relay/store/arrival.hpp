#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.hpp"
#include "relay/store/file_sequence.hpp"
#include "relay/store/pairing_table.hpp"
#include "relay/store/stream_file.hpp"

namespace leat::relay {

// The packet of a stream that is just arriving. Its data goes into its file piece by piece; the pieces are written
// without the stream's lock, and everything else happens under it.
//
//              begin()              begin_write()
//     (none)  --------->  arriving  ------------->  being written
//       ^  ^                |  ^                         |
//       |  +----------------+  +-------------------------+
//       |    drop()                 end_write(): more is to come, or the padding does not fit
//       |                                                |
//       +------------------------------------------------+
//                           end_write(): complete
//
// A packet that is being written stays where it is: its file must not be closed, and it does not change its chunk.
// The files given are always those that the packet began in, or was moved to.
class Arrival {
  public:
    [[nodiscard]] bool is_under_way() const { return packet_.has_value(); }
    [[nodiscard]] bool is_being_written() const { return packet_ && packet_->is_being_written; }

    // Only if none is under way. Reserves nothing: the packet is the last one in its file until it is complete.
    Result<void> begin(const wire::DataHeader& header, FileSequence& files);

    // Where its next bytes go.
    struct Target {
        std::shared_ptr<const StreamFile::Open> file;
        std::uint64_t offset;
        std::uint64_t missing;  // bytes of the packet
    };
    Target begin_write(FileSequence& files);

    struct Complete {
        std::uint64_t number;
        StoredData data;
    };
    // The packet, when all of it is there, padding included; then none is under way. kDiskFull: the padding does not
    // fit, call it again with 0.
    Result<std::optional<Complete>> end_write(std::uint64_t written, FileSequence& files);

    // What is there of the packet is cut off.
    void drop(FileSequence& files);
    // Its file is gone, or ends before it.
    void forget() { packet_.reset(); }

    // While one is under way: where it lies, for whoever moves it to another file, and how many bytes are there.
    [[nodiscard]] StoredData& place() { return packet_->place; }
    [[nodiscard]] std::uint64_t number() const { return packet_->number; }
    [[nodiscard]] std::uint64_t received() const { return packet_->received; }

  private:
    struct ArrivingPacket {
        std::uint64_t number;
        StoredData place;  // its size includes the padding that we add
        std::uint64_t received = 0;
        bool is_being_written = false;
    };

    Result<void> pad(StreamFile& file);

    std::optional<ArrivingPacket> packet_{};
};

}  // namespace leat::relay
