#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "relay/pairing_table.hpp"
#include "relay/session_directory.hpp"
#include "relay/stream_file.hpp"

namespace leat::relay {

struct StreamParameters {
    std::uint64_t handle = 0;
    std::string channel_name{};
    std::string path{};  // of its trace, below the chunk
    std::uint64_t tracefile_size = 0;
    std::uint64_t tracefile_count = 0;
    bool has_indexes = true;  // snapshots, and peers below 2.4, send none
    std::uint32_t index_minor = ctf::kIndexMinor;
    PairingTable::Transport transport = PairingTable::Transport::kStream;
};

// Whether what was to be written has been written. A full disk is a slow disk: one asks again, and takes nothing more
// from the peer until then.
enum class Disk : std::uint8_t { kDone, kFull };

// A stream of packets on its way to disk: data goes into the file as it comes; with its index it is committed, and can
// be seen. Guarded by its session.
class DataStream {
  public:
    DataStream(StreamParameters parameters, std::shared_ptr<SessionDirectory> directory,
               std::shared_ptr<TraceChunk> chunk);
    ~DataStream();
    DataStream(const DataStream&) = delete;
    DataStream& operator=(const DataStream&) = delete;

    [[nodiscard]] const StreamParameters& parameters() const { return parameters_; }

    // One packet, from the data connection. Its bytes come in pieces; write() takes as many as the disk has room for.
    Result<void> begin_packet(const wire::DataHeader& header);
    Result<std::size_t> write(UntrustedBytes piece);
    // The same in two halves, the lock being given up between: nothing moves or closes the file meanwhile.
    struct Target {
        int fd;
        std::uint64_t offset;
    };
    Target begin_write();
    void end_write(std::size_t written);
    [[nodiscard]] std::uint64_t missing() const;
    // When nothing is missing; again if the disk was full.
    Result<Disk> end_packet(Time now);
    // Not at all.
    void drop_packet();

    // From the control connection.
    Result<void> add_index(const wire::SendIndex& index, Time now);
    void add_beacon(const wire::SendIndex& beacon);
    // Packets from this sequence number of the tracer's on belong to another chunk, or to none.
    Result<void> rotate(std::shared_ptr<TraceChunk> chunk, std::uint64_t packet_seq_num);
    void close_after(std::uint64_t last_number) { close_after_ = last_number; }

    // What is complete, or lost, gets its index; flush() brings that to disk, and then it can be seen.
    Result<void> commit(Time now);
    [[nodiscard]] bool has_unflushed() const { return has_unflushed_; }
    Result<Disk> flush();
    // No more data, no more indexes.
    void end_data();
    void end_indexes() { pairs_.end_indexes(); }
    // For DatagramReceiver, and for whoever asks whether there is room.
    [[nodiscard]] PairingTable& pairs() { return pairs_; }
    // Everything that will ever come is here: files are cut behind the last packet, and closed.
    void finish();

    // Counts what viewers can tell: packets committed, beacons, rotations, the end.
    [[nodiscard]] std::uint64_t changes() const { return changes_; }
    [[nodiscard]] bool is_finished() const { return is_finished_; }
    [[nodiscard]] bool waits_for_data() const;
    // All packets up to this number are stored, or known to be lost.
    [[nodiscard]] bool has_stored(std::uint64_t number) const;
    [[nodiscard]] bool should_finish() const {
        return close_after_ && !is_being_written() && has_stored(*close_after_);
    }
    [[nodiscard]] std::uint64_t lost_packets() const { return lost_packets_; }

    // For viewers. Files have numbers that only ever grow; those from oldest_file() to newest_file() are there.
    struct Reading {
        UniqueFd data;
        UniqueFd index;
    };
    [[nodiscard]] std::optional<std::uint64_t> oldest_file() const;
    [[nodiscard]] std::optional<std::uint64_t> newest_file() const;
    [[nodiscard]] std::uint64_t first_file_of_chunk() const { return first_of_chunk_; }
    [[nodiscard]] Result<Reading> open_file(std::uint64_t number) const;
    [[nodiscard]] std::uint64_t committed_packets() const { return committed_packets_; }
    struct BeaconValue {
        std::uint64_t timestamp;
        std::uint64_t stream_class_id;
    };
    // Nothing older than its time will come behind the packets committed so far.
    [[nodiscard]] const std::optional<BeaconValue>& beacon() const { return beacon_; }
    // Nothing older will be committed, in cycles of the trace's clock; none before the first packet or beacon.
    [[nodiscard]] std::optional<std::uint64_t> horizon() const { return horizon_; }

  private:
    struct Incoming {
        std::uint64_t number;
        std::uint64_t file_number;
        std::uint64_t offset;
        std::uint64_t data_size;  // bytes that come
        std::uint64_t size;       // and with the padding that we add
        std::uint64_t received = 0;
        bool is_being_written = false;
    };
    struct PendingRotation {
        std::shared_ptr<TraceChunk> chunk;
        std::uint64_t packet_seq_num;
    };

    [[nodiscard]] std::string file_name(std::uint64_t number) const;
    [[nodiscard]] bool is_limited() const { return parameters_.tracefile_size != 0; }
    Result<StreamFile*> file_for(std::uint64_t packet_size);
    Result<void> open_next_file();
    StreamFile* file(std::uint64_t number);
    void drop_old_files();
    Result<Disk> pad_packet();
    void add_data(const Incoming& packet, Time now);
    void note_stored_without_index(const Incoming& packet);
    Result<bool> take_in_hand(Time now);
    Result<void> commit(const PairingTable::Outcome& outcome);
    ctf::IndexEntry entry_of(const PairingTable::Outcome& outcome) const;
    void note_committed(const ctf::IndexEntry& entry);
    void apply_beacon();
    [[nodiscard]] bool is_being_written() const { return incoming_ && incoming_->is_being_written; }
    [[nodiscard]] bool is_rotation_due(std::uint64_t next_packet_seq_num) const;
    void rotate_if_due(std::uint64_t next_packet_seq_num);
    void switch_chunk();
    Result<void> move(StoredData& data, std::uint64_t count);
    void flush_or_log();
    void cut_uncommitted();

    StreamParameters parameters_;
    std::shared_ptr<SessionDirectory> directory_;
    std::shared_ptr<TraceChunk> chunk_;           // that is written to; none between two
    std::shared_ptr<TraceChunk> readable_chunk_;  // where the files are
    std::deque<StreamFile> files_;                // the newest is written to; older ones wait for indexes
    std::uint64_t next_file_ = 0;
    std::uint64_t first_of_chunk_ = 0;
    std::optional<Incoming> incoming_{};
    std::optional<std::uint64_t> last_data_{};  // number of the last packet whose data is here
    PairingTable pairs_;
    std::optional<PairingTable::Outcome> in_hand_{};  // taken from the table, not yet in the index
    bool has_unflushed_ = false;
    std::optional<PendingRotation> rotation_{};
    std::optional<std::uint64_t> close_after_{};
    std::optional<wire::SendIndex> pending_beacon_{};
    std::optional<BeaconValue> beacon_{};
    std::optional<std::uint64_t> horizon_{};
    std::optional<ctf::IndexEntry> last_{};  // the index of the last packet
    std::uint64_t safe_end_ = 0;             // of the newest file: what lies behind is not committed
    std::uint64_t committed_packets_ = 0;
    std::uint64_t lost_packets_ = 0;
    std::uint64_t refused_packets_ = 0;
    std::uint64_t changes_ = 0;
    bool is_finished_ = false;
};

}  // namespace leat::relay
