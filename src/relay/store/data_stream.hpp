#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "relay/store/arrival.hpp"
#include "relay/store/chunk_switch.hpp"
#include "relay/store/file_sequence.hpp"
#include "relay/store/pairing_table.hpp"
#include "relay/store/session_directory.hpp"
#include "relay/store/stream_file.hpp"
#include "relay/traffic.hpp"

namespace leat::relay {

struct StreamParameters {
    std::uint64_t handle = 0;  // the producer's: it is a secret
    std::uint64_t id = 0;      // by which everybody else knows it
    FileNaming files{};        // without indexes: snapshots, and peers below 2.4, send none
    FileSequence::TakePlace take_place{};
    PairingTable::Transport transport = PairingTable::Transport::kStream;
    std::shared_ptr<Traffic> traffic = std::make_shared<Traffic>();
};

// What can be seen of a stream: it is complete, and on disk.
struct StreamView {
    std::uint64_t version = 0;  // counts changes
    std::uint64_t packets = 0;
    // In chunks that it has left, oldest first: all that lies before `end`, for those who have not come so far. Of more
    // chunks, only the last ones.
    struct FormerPlace {
        std::shared_ptr<const FilePlace> place;
        std::uint64_t end;  // number of a file
    };
    std::shared_ptr<const std::vector<FormerPlace>> former = std::make_shared<const std::vector<FormerPlace>>();
    // Files from `first_file` to `current_file` may be read: those before the current one to their end, the current
    // one as far as its first `entries` index entries go.
    std::shared_ptr<const FilePlace> place{};
    std::uint64_t first_file = 0;
    std::optional<std::uint64_t> current_file{};
    std::uint64_t entries = 0;
    std::shared_ptr<const StreamFile::Open> current{};  // as long as it is written to
    struct Beacon {
        std::uint64_t timestamp;
        std::uint64_t stream_class_id;
    };
    // Nothing older than its time will come behind these packets.
    std::optional<Beacon> beacon{};
    // Nothing older will be seen, in cycles of the trace's clock; none before the first packet or beacon.
    std::optional<std::uint64_t> horizon{};
    bool is_finished = false;
};

// A stream of packets on its way to disk. Data and index of a packet come on two connections, in either order:
//
//     data connection, or datagrams              control connection
//                 |                                      |
//                 v                                      |
//     arriving: its bytes go into a file      Arrival    |
//                 |                                      |
//                 v                                      v
//     data waits for its index  -----.   .-----  index waits for its data       PairingTable
//                                    v   v
//                       both are here, or one is lost
//                                      |                       in the order of the numbers from here on
//                                      v
//                       in hand: the next to be committed      waits for room on the disk, or a chunk switch
//                                      |
//                                      v  commit()
//                       committed: its entry is in memory      StreamFile
//                                      |
//                                      v  flush()
//                       stored: its entry is on disk           StreamView: viewers may read it, and the producer
//                                                              may forget it
//
// The stream as a whole:
//
//                    rotate()                        the position is committed
//     in a chunk  ------------->  rotation pending  ---------------------------->  in the next chunk, or in none
//         |
//         |  close_after(n), then packet n is stored; or the session has ended      finish()
//         +------------------------------------------------------------------->  finished
//
// Out of every chunk it refuses data, and only counts packets that are lost. Finished, it takes nothing, its files are
// closed, and everything counts as stored: who asks need not wait for what will not come.
//
// Any thread. It has a lock of its own, which is held while its files are written: those who only look take a view.
// kDiskFull is an error of none of its functions but says that there is no room now: what was given is kept, and
// flush(), or the same call again, goes on with it.
class DataStream {
  public:
    DataStream(StreamParameters parameters, std::shared_ptr<SessionDirectory> directory,
               std::shared_ptr<TraceChunk> chunk);
    ~DataStream();
    DataStream(const DataStream&) = delete;
    DataStream& operator=(const DataStream&) = delete;

    [[nodiscard]] const StreamParameters& parameters() const { return parameters_; }

    // One packet. Its bytes come in pieces. kLater: too many wait for their indexes, or another one is just coming (by
    // a connection, and as datagrams). kDropped: it was given up, and its chunk is over; its bytes are to be passed
    // over.
    enum class Begun : std::uint8_t { kYes, kLater, kDropped };
    Result<Begun> begin_packet(const wire::DataHeader& header);
    // Where its next bytes go, which the caller writes without the lock: nothing moves the packet meanwhile. Nowhere:
    // it was dropped, as its chunk is over.
    using Target = Arrival::Target;
    Result<std::optional<Target>> begin_write();
    // True when the packet is complete. kDiskFull: its padding does not fit, call it again with 0.
    Result<bool> end_write(std::uint64_t written, Time now);
    // Abandons the packet that was begun.
    void drop_packet();
    // All at once, or nothing.
    Result<void> store_packet(std::uint64_t number, UntrustedBytes bytes, Time now);

    // From the control connection. False: too many wait for their data; later. If no data comes (StoredSession), the
    // oldest of those is lost instead. An index with impossible sizes is refused here, so that readers of the file need
    // not check it.
    Result<bool> add_index(const wire::SendIndex& index, Time now, bool is_data_silent = false);
    void add_beacon(const wire::SendIndex& beacon);
    // Packets from this sequence number of the tracer's on belong to another chunk, or to none.
    Result<void> rotate(std::shared_ptr<TraceChunk> chunk, std::uint64_t packet_seq_num, Time now);
    void close_after(std::uint64_t last_number);

    // Whatever is complete, or lost, by now gets its index on disk, and can be seen.
    Result<void> flush(Time now);
    // No more data, no more indexes: what waits for them is lost with the next flush().
    void end_data();
    void end_indexes();
    // For those who put datagrams together: under the lock.
    template <class Function>
    auto with_pairs(Function&& function) {
        const std::lock_guard lock(mutex_);
        return std::forward<Function>(function)(pairs_);
    }
    // Everything that will ever come is here: files are cut behind the last packet, and closed.
    Result<void> finish();

    [[nodiscard]] StreamView view() const;
    [[nodiscard]] bool is_finished() const;
    // Whether finish() now would lose data that may still come.
    [[nodiscard]] bool waits_for_data() const;
    // All packets up to this number are on disk, or known to be lost.
    [[nodiscard]] bool has_stored(std::uint64_t number) const;
    // The producer has closed it, and its last packet is here.
    [[nodiscard]] bool should_finish() const;
    [[nodiscard]] std::uint64_t lost_packets() const;
    // Of these, packets whose data connection ended before their data came, while their producer is there to send them
    // again: it must not hear that they are stored.
    [[nodiscard]] std::uint64_t missing_packets() const;
    // What has to be on disk so that what is stored is there, but for what an earlier call has named: whoever calls it
    // brings that to disk, or ends. A descriptor that there was none for is closed, and named again by the next call.
    std::vector<Unsynced> take_unsynced();

  private:
    // All of these under the lock. commit() may be called at any time: it does what can be done, and stops where it has
    // to wait. After a failure it goes on where it stopped.
    void note_dropped(std::uint64_t number, std::string_view why);
    void add_data(const Arrival::Complete& packet, Time now);
    void note_stored_without_index(const Arrival::Complete& packet);
    Result<void> flush_files();
    Result<bool> take_in_hand(Time now);
    Result<void> commit(Time now);
    Result<void> commit(const PairingTable::Outcome& outcome);
    [[nodiscard]] bool is_missing(const PairingTable::Outcome& outcome) const;
    [[nodiscard]] ctf::IndexEntry entry_of(const PairingTable::Outcome& outcome);
    void note_committed(const ctf::IndexEntry& entry);
    void note_if_removed(const StreamFile& file);
    void note_former_place();
    void apply_beacon();
    [[nodiscard]] bool is_rotation_due(std::uint64_t next_packet_seq_num) const;
    Result<void> rotate_if_due(std::uint64_t next_packet_seq_num);
    Result<void> switch_chunk();
    std::vector<ChunkSwitch::Move> data_to_move();
    void close_old_files();
    [[nodiscard]] bool is_stored(std::uint64_t number) const;
    void show();

    const StreamParameters parameters_;
    const std::shared_ptr<SessionDirectory> directory_;

    // Held while files are written, so whoever only wants to look must not need it: see view_mutex_.
    mutable std::mutex mutex_;
    std::optional<FileSequence> files_;  // none: out of every chunk
    std::uint64_t next_file_ = 0;        // number, for when there are no files: numbers go on over chunks
    Arrival arrival_{};
    std::optional<std::uint64_t> last_data_{};  // number of the last packet whose data is here
    PairingTable pairs_;
    std::optional<PairingTable::Outcome> in_hand_{};  // taken from the table, not yet in the index
    std::optional<ChunkSwitch> rotation_{};
    std::optional<std::uint64_t> close_after_{};
    std::optional<wire::SendIndex> pending_beacon_{};
    std::optional<ctf::IndexEntry> last_{};  // of the last packet
    std::uint64_t lost_packets_ = 0;
    std::uint64_t missing_packets_ = 0;
    struct Named {
        std::uint64_t next_file = 0;
        std::vector<std::uint64_t> open{};

        bool operator==(const Named&) const = default;
    };
    Named named_{};                      // by take_unsynced()
    std::uint64_t refused_packets_ = 0;  // whose data was dropped
    std::uint64_t removed_packets_ = 0;  // whose file somebody had removed when they were committed
    bool has_wrong_sizes_ = false;       // and the log has said so
    bool is_unflushed_ = false;          // next_view_ is ahead of view_, or entries are in memory
    bool is_finished_ = false;
    StreamView next_view_{};  // as it will be when all is flushed

    mutable std::mutex view_mutex_;  // last of all locks
    StreamView view_{};
};

}  // namespace leat::relay
