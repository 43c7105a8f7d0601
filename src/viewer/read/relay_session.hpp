#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.hpp"
#include "viewer/merge/live_merge.hpp"
#include "viewer/read/live_connection.hpp"
#include "viewer/read/live_stream.hpp"
#include "viewer/read/live_trace.hpp"
#include "viewer/read/progress.hpp"

namespace leat::viewer {

// Which packets have been shown: a producer that connects again sends some of them a second time.
class ShownPackets {
  public:
    // Nothing: it has been shown. Otherwise it counts as shown from then on; how many between it and the last one
    // before it have not been.
    std::optional<std::uint64_t> add(const ctf::TraceClass& trace_class, std::uint64_t stream_class_id,
                                     const ctf::PacketProperties& packet);

  private:
    using Key = std::tuple<ctf::Uuid, std::uint64_t, std::uint64_t>;
    std::map<Key, std::uint64_t> last_;  // sequence number, by trace, stream class and instance
};

// Follows sessions of a relay: asks for what their streams need, and feeds it to a merge.
class RelaySession {
  public:
    using Warn = std::function<void(const std::string&)>;

    // All outlive the object.
    RelaySession(LiveConnection& connection, LiveMerge& merge, ShownPackets& shown, Warn warn)
        : connection_(&connection), merge_(&merge), shown_(&shown), warn_(std::move(warn)) {}
    RelaySession(const RelaySession&) = delete;
    RelaySession& operator=(const RelaySession&) = delete;
    // Nothing more comes: its streams hold nobody back any longer.
    ~RelaySession();

    // Errors say why the relay refused, and what to do.
    Result<void> attach(const wire::ListedSession& session, wire::Seek seek);
    // One turn over all streams that have been read to their end. When there is nothing new, wait().
    Result<Progress> advance();
    Result<void> wait();
    // Whether packets lie here whose turn has not come.
    [[nodiscard]] bool has_queued() const { return queued_bytes_ != 0; }
    // Streams of which something could not be shown; what, a warning said.
    [[nodiscard]] std::uint64_t cut_short() const { return cut_short_; }
    // Says goodbye.
    Result<void> detach();

  private:
    struct Session {
        std::uint64_t id;
        bool has_hung_up = false;
    };
    struct Metadata {
        std::uint64_t stream_id;
        std::uint64_t trace_id;
        bool is_wanted = true;
        bool is_closed = false;
    };
    struct Data {
        std::uint64_t id;
        std::uint64_t trace_id;
        std::shared_ptr<LiveStream> stream;
        std::optional<wire::NextIndexReply> index{};      // its packet is still to be fetched
        std::deque<LiveConnection::News::Entry> queue{};  // came before their turn; packets whole
    };

    void add_streams(const std::vector<wire::StreamDescriptor>& descriptors);
    Result<void> ask_for_streams(Session& session);
    // The relay is asked for each stream that needs something, or tells what is new in all of them.
    [[nodiscard]] bool takes_news() const;
    Result<bool> advance_by_asking();
    Result<bool> take_queued();
    Result<void> take_queued(Data& data);
    Result<void> take_news();
    Result<void> complete(Data& data, LiveConnection::News::Entry& entry);
    void enqueue(Data& data, LiveConnection::News::Entry entry);

    Result<void> ask_for_streams();
    Result<bool> ask_for_indexes();
    bool take_index(Data& data, const wire::NextIndexReply& reply);
    void be_quiet(Data& data, const wire::NextIndexReply& reply);
    Result<void> fetch_metadata();
    Result<void> fetch_metadata(Metadata& metadata);
    Result<bool> fetch_packets();
    Result<bool> fetch_packet(Data& data);
    Result<std::optional<std::vector<std::byte>>> receive_packet(Data& data, std::uint64_t size);
    Result<void> feed(Data& data, std::vector<std::byte> packet, std::uint64_t offset);
    void warn_of_missed(const Data& data, std::uint64_t packets);
    void end(Data& data, const std::string& why);
    void want_metadata_of(std::uint64_t trace_id);
    void forget_finished();

    LiveConnection* connection_;
    LiveMerge* merge_;
    ShownPackets* shown_;
    Warn warn_;
    std::vector<Session> sessions_;
    std::map<std::uint64_t, LiveTrace> traces_;  // by the relay's id
    std::vector<Metadata> metadata_;
    std::map<std::uint64_t, Data> data_;           // by id
    std::map<std::uint64_t, bool> known_streams_;  // by id; a relay may offer one again
    bool wants_streams_ = false;
    std::uint64_t queued_bytes_ = 0;
    std::uint64_t cut_short_ = 0;
};

}  // namespace leat::viewer
