// A model of a relay's ingest and viewers. Producers of all protocol versions and viewers take random steps, including
// faults, against a real relay over loopback. The model knows what must be on disk and what viewers must be told, and
// reports anything else. Unit tests draw the steps from random numbers, a fuzz target from its input.
//
//   relay_model.hpp             who takes part, and what is known of them; the choice of steps
//   relay_model_producers.hpp   connections, sessions and streams of producers
//   relay_model_packets.hpp     packets, indexes, metadata, rotations, and how they end
//   relay_model_viewers.hpp     what viewers ask for, and what they must be told
//   relay_model_disk.hpp        what must lie on disk, and whose it is
//   relay_model_host.hpp        the relay itself; relay_model_peer.hpp: a connection to it
//   relay_model_content.hpp     bytes of packets and metadata
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/model.hpp"
#include "support/relay_model_content.hpp"
#include "support/relay_model_host.hpp"
#include "support/relay_model_peer.hpp"
#include "support/scratch_directory.hpp"
#include "trace/index_format.hpp"
#include "wire/ingest/relay_messages.hpp"
#include "wire/live/live_messages.hpp"

namespace leat::test {

using Draw = Choose;

inline constexpr std::uint64_t kNoChunk = ~std::uint64_t{0};
// So many that a stream has left can still be read by viewers that were there.
inline constexpr std::uint64_t kFormerChunks = 8;

// What one session daemon considers one session. Its parts share a directory.
struct ModelledRecording {
    std::size_t id = 0;
    wire::CreateSession request{};
    std::uint64_t next_chunk = 0;
    std::uint64_t chunk = kNoChunk;     // the current one
    std::set<std::uint64_t> deleted{};  // chunks that were cleared, or will be
    std::set<std::uint64_t> closed{};   // chunks that at least one of its parts has closed
    bool is_frozen = false;             // all parts have ended: its files must not change any more
};

struct ModelledStream;

// One control connection, with its data connection.
struct ModelledPart {
    std::size_t id = 0;
    ModelledRecording* recording = nullptr;
    std::uint32_t minor = 13;
    std::uint64_t session = 0;  // the relay's id
    std::string directory{};    // as the relay named it; empty below minor 11
    ModelPeer control{};
    ModelPeer data{};
    bool has_had_data = false;  // whether it has had a data connection
    bool has_datagrams = false;
    bool is_live = false;
    bool is_snapshot = false;
    bool is_over = false;     // its control connection has ended
    bool is_settled = false;  // it is over, and the relay has nothing more to do for it
    bool is_loose = false;    // it broke a rule: the relay may end it
    std::uint64_t chunk = kNoChunk;
    bool is_rotated = false;
    wire::Bytes data_rest{};               // the rest of a packet that was sent in part
    std::function<void()> data_done{};     // called when that is sent
    wire::Bytes control_rest{};            // the rest of a command
    std::function<void()> control_done{};  // called when that is sent

    [[nodiscard]] bool has_chunks() const { return minor >= 11; }
    [[nodiscard]] bool is_held() const { return !control_rest.empty(); }
};

struct ModelledPacket {
    std::uint32_t size = 0;
    std::uint32_t padding = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool has_data = false;   // all of it was sent
    bool has_index = false;  // and acknowledged
    bool is_stored = false;  // the relay said so
    bool is_due = false;     // it will be stored once its session has ended
    std::uint64_t chunk = kNoChunk;
    std::uint64_t metadata = 0;  // uid of the metadata stream that its trace had then, if any
    std::uint32_t units = 0;     // of it, that were sent before its index

    [[nodiscard]] std::uint64_t all() const { return std::uint64_t{size} + padding; }
};

// A data stream, or a metadata stream.
struct ModelledStream {
    std::uint64_t uid = 0;
    ModelledPart* part = nullptr;
    std::string path{};
    std::string channel{};
    std::uint64_t handle = 0;
    std::uint64_t file_size = 0;
    std::uint64_t file_count = 0;
    bool is_metadata = false;
    bool is_published = false;
    bool is_closed = false;
    bool is_loose = false;     // packets may be lost on the way
    bool may_be_gone = false;  // another stream of its part has taken its place

    // Data.
    std::map<std::uint64_t, ModelledPacket> packets{};
    std::uint64_t next_data = 0;
    std::uint64_t next_index = 0;
    std::uint64_t time = 0;        // nothing older may come
    std::uint64_t rotates_at = 0;  // packets from here on are in the next chunk
    std::uint64_t chunk = kNoChunk;
    std::uint64_t next_chunk = kNoChunk;
    std::uint64_t last_chunk = kNoChunk;  // that it was told to go into
    bool is_rotating = false;
    std::uint64_t rotations = 0;
    bool is_out = false;  // not in any chunk

    // Metadata.
    struct Unit {
        std::uint32_t size;
        std::uint32_t padding;
    };
    std::vector<Unit> units{};
    struct Generation {
        std::uint64_t chunk = kNoChunk;
        std::uint32_t sent = 0;    // whole units that were sent
        std::uint32_t stored = 0;  // the relay said so
        std::uint32_t due = 0;     // will be stored once its session has ended
        bool may_be_gone = false;
    };
    std::vector<Generation> generations{};

    // Whether viewers may be told this path. Old producers state the whole path from the output directory on. Its first
    // two steps may get another name if that one is taken.
    [[nodiscard]] bool has_path(const std::string& told) const {
        std::string tail = path;
        for (int step = 0; step < 2 && path.starts_with('/'); ++step) {
            const std::size_t next = tail.find('/', 1);
            if (next != std::string::npos) tail.erase(0, next);
        }
        return !told.empty() && (told == path || ("/" + told).ends_with(tail) || ("/" + path).ends_with("/" + told));
    }
    [[nodiscard]] bool is_limited() const { return file_size != 0 && file_count != 0; }
    [[nodiscard]] std::uint64_t chunk_of(std::uint64_t number) const {
        return is_rotating && number >= rotates_at ? next_chunk : chunk;
    }
};

struct ModelledViewer {
    struct Stream {
        ModelledPart* part = nullptr;
        std::uint64_t trace = 0;
        bool is_metadata = false;
        bool is_from_start = false;
        std::uint64_t first_chunk = 0;  // the stream may have been in it, or come to it, when the viewer heard of it
        bool has_ended = false;
        std::string path{};
        std::string channel{};
        ModelledStream* stream = nullptr;  // found by its first packet
        std::set<std::uint64_t> seen{};
        std::uint64_t told = 0;  // nothing older may come
        wire::Bytes text{};      // metadata
        std::size_t units = 0;   // in it
        // The metadata that was declared last, and how much of it is there.
        std::uint64_t last_metadata = 0;
        std::size_t last_units = 0;
    };
    std::size_t id = 0;
    ModelPeer peer{};
    std::map<std::uint64_t, ModelledPart*> attached{};  // by session
    std::map<std::uint64_t, Stream> streams{};          // by the relay's number
    std::set<std::uint64_t> told_streams{};
    bool waits_for_news = false;
};

class RelayModel {
  public:
    // `can_fill_disk`: the output is on a small file system of its own.
    struct Options {
        std::filesystem::path output{};  // empty: a scratch directory
        bool can_fill_disk = false;
    };
    explicit RelayModel(std::unique_ptr<RelayHost> host) : RelayModel(std::move(host), Options{}) {}
    RelayModel(std::unique_ptr<RelayHost> host, const Options& options);
    ~RelayModel();
    RelayModel(const RelayModel&) = delete;
    RelayModel& operator=(const RelayModel&) = delete;

    // Takes one random step.
    void step(const Draw& draw);
    // Ends all connections and checks that everything is accounted for. No step may follow.
    void finish(const Draw& draw);

    // The first violation: a word for its kind, a colon, and the rest. Empty if there was none.
    [[nodiscard]] const std::string& violation() const { return violation_; }
    // What has happened, one line for each thing.
    [[nodiscard]] const std::vector<std::string>& history() const { return history_; }
    [[nodiscard]] std::string relay_log() const { return tail_of(log_); }

    // Counts, to check that the steps achieve something.
    struct Counts {
        std::uint64_t packets = 0;  // whose halves were both sent
        std::uint64_t stored = 0;   // which the relay reported as stored
        std::uint64_t viewed = 0;   // that viewers got
        std::uint64_t units = 0;    // of metadata that viewers got
        std::uint64_t rotations = 0;
        std::uint64_t kills = 0;
        std::uint64_t checks = 0;  // of the disk
    };
    [[nodiscard]] const Counts& counts() const { return counts_; }

    // The steps, also for written histories. Producers:
    struct NewPart {
        std::uint32_t minor = 13;
        std::string host = "host-a";
        std::string name = "s1";
        std::string base{};
        std::uint64_t session_id = 0;
        std::uint8_t daemon = 1;
        bool is_live = true;
        bool is_snapshot = false;
        bool asks_for_datagrams = false;
        ModelledRecording* of = nullptr;  // makes another part of this recording
        bool must_succeed = true;
    };
    ModelledPart* begin_part(const NewPart& wanted);
    bool create_chunk(ModelledPart& part, std::uint64_t id, const std::string& override_name = {});
    enum class Expect : std::uint8_t { kOk, kRefusal, kEither };
    struct NewStream {
        std::string path = "ust/uid/0/64-bit";
        std::string channel = "channel0_0";
        std::uint64_t file_size = 0;
        std::uint64_t file_count = 0;
        std::uint64_t first_number = 0;
        Expect expect = Expect::kOk;
    };
    ModelledStream* add_stream(ModelledPart& part, const NewStream& wanted);
    void publish_streams(ModelledPart& part);
    // Adds metadata, sends its first unit, adds data streams, and publishes all of them.
    std::vector<ModelledStream*> add_trace(ModelledPart& part, const std::string& path, unsigned streams);
    struct NewPacket {
        std::uint32_t size = 200;
        std::uint32_t padding = 0;
    };
    // `upto`: sends only so many bytes of header and packet for now.
    void send_data(ModelledStream& stream, const NewPacket& packet, std::uint64_t upto = ~std::uint64_t{0});
    void resume_data(ModelledPart& part);
    void send_datagrams(ModelledStream& stream, const NewPacket& packet, const Draw& draw);
    void send_index(ModelledStream& stream, const NewPacket& packet, std::uint64_t upto = ~std::uint64_t{0});
    void resume_control(ModelledPart& part);
    void send_beacon(ModelledStream& stream);
    void send_metadata(ModelledStream& stream, unsigned units, std::uint64_t upto = ~std::uint64_t{0});
    // Asks whether everything up to the packet is stored, and checks the answer against the disk at once.
    std::optional<bool> ask_pending(ModelledStream& stream, std::uint64_t number);
    // Sends both halves of all packets begun so far, then asks until they are stored.
    void complete(ModelledStream& stream);
    bool wait_until_stored(ModelledStream& stream, std::uint64_t number);
    void ask_quiescent(ModelledStream& stream);
    void reset_metadata(ModelledStream& stream);
    void rotate_data(ModelledPart& part, std::optional<std::uint64_t> chunk,
                     const std::function<std::uint64_t(const ModelledStream&)>& position);
    void rotate_metadata(ModelledPart& part, std::optional<std::uint64_t> chunk);
    void close_chunk(ModelledPart& part, std::uint64_t id, std::optional<wire::ChunkCommand> command);
    void close_stream(ModelledStream& stream);
    // Ends it normally.
    void end_part(ModelledPart& part);
    void cut_part(ModelledPart& part, bool is_reset);
    // Sends a command that this protocol version does not have, or a second VERSION. The connection must end.
    void send_unknown_version_command(ModelledPart& part, wire::RelayCommand command, const wire::Bytes& request,
                                      bool needs_error_reply);

    void say(ModelledPart& part, wire::RelayCommand command, const wire::Bytes& request);
    // Sends the indexes of many packets, then all of their data at once, so that the relay is busy when it is asked.
    void send_burst(ModelledStream& stream, unsigned packets);

    // Viewers:
    ModelledViewer* begin_viewer();
    void attach(ModelledViewer& viewer, ModelledPart& part, wire::Seek seek);
    void look_for_streams(ModelledViewer& viewer, ModelledPart& part);
    // Reads everything that is there now.
    void read_all(ModelledViewer& viewer);
    void detach(ModelledViewer& viewer, ModelledPart& part);

    // Faults:
    void kill_relay();
    void stop_relay();
    void fill_disk();
    void empty_disk();

    // Checks everything on disk.
    void check_disk();
    // Checks that no descriptor is left after all peers have gone.
    void check_descriptors();
    [[nodiscard]] std::vector<ModelledStream*> streams_of(const ModelledPart& part);

  private:
    friend struct RelayModelSteps;

    template <class... Arguments>
    void violate(const char* kind, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
        if (!violation_.empty()) return;
        violation_ = fmt::format("{}: {}", kind, fmt::format(text, std::forward<Arguments>(arguments)...));
    }
    template <class... Arguments>
    void tell(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
        if (!is_quiet_) history_.push_back(fmt::format(text, std::forward<Arguments>(arguments)...));
    }
    [[nodiscard]] bool is_good() const { return violation_.empty(); }

    bool start_relay();
    void make_strangers();
    bool check_alive();

    // Producers.
    bool request(ModelledPart& part, const wire::Bytes& bytes, std::size_t reply_size, wire::Bytes& reply,
                 const std::string& what);
    std::optional<wire::RelayCode> request_code(ModelledPart& part, const wire::Bytes& bytes, const std::string& what);
    bool hear(ModelledPart& part, ModelPeer::Outcome outcome, const std::string& what);
    void lose(ModelledPart& part);
    bool open_data(ModelledPart& part);
    [[nodiscard]] RelayHost::Meanwhile end_of_data();
    void end_data(ModelledPart& part);
    ModelledPacket& packet_of(ModelledStream& stream, std::uint64_t number, const NewPacket& wanted);
    static wire::Bytes data_bytes(const ModelledStream& stream, std::uint64_t number, const ModelledPacket& packet);
    void note_index(ModelledStream& stream, std::uint64_t number);
    void note_rotation(ModelledStream& stream);
    [[nodiscard]] Expect expectation(const ModelledPart& part, const NewStream& wanted) const;
    [[nodiscard]] wire::SendIndex index_of(const ModelledStream& stream, std::uint64_t number,
                                           const ModelledPacket& packet) const;
    void note_sent_is_due(ModelledPart& part);
    void resend_metadata(ModelledStream& stream);
    void note_deleted(ModelledRecording& recording, std::uint64_t chunk);
    // Metadata streams of a trace whose text was cleared.
    std::vector<const ModelledStream*> cleared_metadata(const ModelledPart& part, const std::string& path);
    void settle(ModelledPart& part);
    ModelledStream* stream_of(std::uint64_t uid);

    // Viewers.
    bool ask(ModelledViewer& viewer, const wire::Bytes& bytes, std::size_t size, wire::Bytes& reply, const char* what);
    void note_streams(ModelledViewer& viewer, ModelledPart& part, std::uint32_t count, bool is_from_start);
    void read_stream(ModelledViewer& viewer, std::uint64_t id);
    bool read_next(ModelledViewer& viewer, std::uint64_t id);
    void follow_flags(ModelledViewer& viewer, std::uint64_t id, std::uint32_t flags);
    void read_metadata(ModelledViewer& viewer, ModelledViewer::Stream& stream, std::uint64_t id);
    static std::size_t bytes_of_metadata(const ModelledViewer& viewer);
    std::optional<wire::Bytes> fetch(ModelledViewer& viewer, std::uint64_t id, const wire::NextIndexReply& index);
    void see_packet(ModelledViewer& viewer, std::uint64_t id, const wire::NextIndexReply& index,
                    const wire::Bytes& bytes);
    void see_end(ModelledViewer& viewer, std::uint64_t id);
    void see_beacon(ModelledViewer& viewer, std::uint64_t id, std::uint64_t time);
    void ask_for_news(ModelledViewer& viewer);
    void take_news(ModelledViewer& viewer);
    void forget_viewer(ModelledViewer& viewer);

    // Disk.
    struct Found {
        std::string path;
        std::uint64_t size;
        std::int64_t modified;
        std::uint64_t inode;
        bool operator==(const Found&) const = default;
    };
    struct Seen;  // what lies on disk
    [[nodiscard]] std::vector<Found> list_files() const;
    void look_at_disk();
    void look_at_data(const Found& file, Seen& seen);
    void look_at_index(const Found& file, const wire::Bytes& data, const wire::Bytes& index, Seen& seen);
    void look_at_packets(const Found& file, const wire::Bytes& data, Seen& seen);
    void look_at_metadata(const Found& file, Seen& seen);
    void note_owner(const Found& file, ModelledStream& stream, Seen& seen);
    void check_stored(const Seen& seen);
    void check_strangers(const std::vector<Found>& files);
    void freeze(const std::vector<Found>& files, const Seen& seen);
    [[nodiscard]] wire::Bytes contents(const std::string& path) const;

    ScratchDirectory scratch_;
    std::filesystem::path output_;
    std::filesystem::path log_;
    Options options_;
    std::unique_ptr<RelayHost> host_;
    RelayHost::Ports ports_;
    std::size_t descriptors_ = 0;  // of the relay, without any peer
    bool is_running_ = false;
    bool is_disk_full_ = false;
    bool was_disk_full_ = false;

    std::string violation_;
    std::vector<std::string> history_;
    bool is_quiet_ = false;  // tells many steps of a kind in one line
    Counts counts_;
    std::uint64_t now_ = 1'000'000;
    std::uint64_t next_uid_ = 1;
    std::uint64_t steps_ = 0;

    std::deque<ModelledRecording> recordings_;
    std::deque<ModelledPart> parts_;
    std::deque<ModelledStream> streams_;
    std::deque<ModelledViewer> viewers_;
    std::map<std::string, Found> frozen_;  // files that nobody writes to any more
    std::set<std::string> strangers_;      // directories that were there at the start
};

inline RelayModel::RelayModel(std::unique_ptr<RelayHost> host, const Options& options)
    : output_(options.output.empty() ? scratch_.path() / "output" : options.output),
      log_(scratch_.path() / "log"),
      options_(options),
      host_(std::move(host)) {
    std::filesystem::create_directories(output_);
    make_strangers();
    start_relay();
}

inline RelayModel::~RelayModel() {
    for (ModelledViewer& viewer : viewers_) viewer.peer.cut(false);
    for (ModelledPart& part : parts_) {
        part.control.cut(false);
        part.data.cut(false);
    }
    if (is_running_) host_->kill({});
    if (!options_.output.empty())
        for (const auto& entry : std::filesystem::directory_iterator(output_)) {
            std::error_code ignored;
            std::filesystem::remove_all(entry.path(), ignored);
        }
}

inline bool RelayModel::start_relay() {
    ports_ = host_->start(output_, log_);
    is_running_ = ports_.control != 0;
    if (!is_running_) violate("crash", "the relay does not start");
    if (is_running_) descriptors_ = host_->descriptors();
    return is_running_;
}

inline bool RelayModel::check_alive() {
    const std::string death = is_running_ ? host_->death() : std::string();
    if (death.empty()) return is_running_;
    is_running_ = false;
    violate("crash", "the relay died: {}", death);
    return false;
}

inline ModelledStream* RelayModel::stream_of(std::uint64_t uid) {
    return uid == 0 || uid > streams_.size() ? nullptr : &streams_[uid - 1];
}

inline std::vector<ModelledStream*> RelayModel::streams_of(const ModelledPart& part) {
    std::vector<ModelledStream*> found;
    for (ModelledStream& stream : streams_)
        if (stream.part == &part) found.push_back(&stream);
    return found;
}

// Faults --------------------------------------------------------------------------------------------------------------

inline void RelayModel::kill_relay() {
    if (!is_running_) return;
    tell("kill -9, and start again");
    ++counts_.kills;
    const bool is_real = host_->kill(end_of_data());
    is_running_ = false;
    for (ModelledPart& part : parts_) {
        if (!part.is_over && !is_real) note_sent_is_due(part);
        lose(part);
        if (is_real)
            part.is_settled = true;
        else
            settle(part);
    }
    for (ModelledViewer& viewer : viewers_) forget_viewer(viewer);
    empty_disk();
    look_at_disk();
    if (is_good()) start_relay();
}

inline void RelayModel::stop_relay() {
    if (!is_running_) return;
    tell("SIGTERM, and start again");
    empty_disk();
    const std::string end = host_->stop(end_of_data());
    is_running_ = false;
    if (!end.empty()) violate("crash", "SIGTERM: {}", end);
    for (ModelledPart& part : parts_) {
        if (!part.is_over) note_sent_is_due(part);
        lose(part);
        settle(part);
    }
    for (ModelledViewer& viewer : viewers_) forget_viewer(viewer);
    look_at_disk();
    if (is_good()) start_relay();
}

inline void RelayModel::check_descriptors() {
    std::size_t count = 0;
    if (wait_until([&] { return !is_running_ || (count = host_->descriptors()) <= descriptors_; })) return;
    if (check_alive()) violate("leak", "all have gone, and the relay has {} descriptors, not {}", count, descriptors_);
}

}  // namespace leat::test

#include "support/relay_model_disk.hpp"
#include "support/relay_model_packets.hpp"
#include "support/relay_model_producers.hpp"
#include "support/relay_model_viewers.hpp"
// The headers below need all of these declarations.
#include "support/relay_model_steps.hpp"
