#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "viewer/merge/live_merge.hpp"
#include "viewer/read/live_connection.hpp"
#include "viewer/read/live_stream.hpp"
#include "viewer/read/live_trace.hpp"
#include "viewer/read/progress.hpp"
#include "viewer/read/shown_packets.hpp"

namespace leat::viewer {

// Follows sessions of a relay: gets the packets that their streams need, and feeds these streams to a merge.
//
//     Leat's relay:   wait(): GET_NEWS -> metadata, large packets -> queues     advance(): queues -> streams
//     other relays:   wait(): WAIT or a pause      advance(): GET_NEXT_INDEX -> metadata -> GET_PACKET -> streams
class RelaySession {
  public:
    using Warn = std::function<void(const std::string&)>;

    // The arguments must outlive the object.
    RelaySession(LiveConnection& connection, LiveMerge& merge, ShownPackets& shown, Warn warn)
        : connection_(&connection), merge_(&merge), shown_(&shown), warn_(std::move(warn)) {}
    RelaySession(const RelaySession&) = delete;
    RelaySession& operator=(const RelaySession&) = delete;
    // Ends the streams, so that the merge does not wait for them any longer.
    ~RelaySession();

    // Returns why the relay refused, and what to do, if it did. An error is one of the connection.
    Result<std::optional<Error>> attach(const wire::ListedSession& session, wire::Seek seek);
    // Supplies all streams whose packets have been read to the end. Call wait() when it returns kNothingNew.
    Result<Progress> advance();
    Result<void> wait();
    // False: after the next wait() no request is under way, so that the connection can be asked for something else.
    void request_ahead(bool may_request) { may_request_ahead_ = may_request; }
    // Whether packets wait here for their streams.
    [[nodiscard]] bool has_queued() const { return queued_bytes_ != 0; }
    // Streams of which something could not be shown. A warning was given for each.
    [[nodiscard]] std::uint64_t cut_short() const { return cut_short_; }
    // Leaves all sessions.
    Result<void> detach();

  private:
    struct Session {
        std::uint64_t id;
        bool has_hung_up = false;
        std::set<std::uint64_t> traces{};   // by their ids in the relay
        std::set<std::uint64_t> streams{};  // that it has told of, by their ids
    };
    struct Trace {
        LiveTrace metadata;
        std::size_t streams = 0;  // of data, that the relay has told of and not ended
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
        std::optional<wire::NextIndexReply> index{};      // of a packet that has not been fetched yet
        std::deque<LiveConnection::News::Entry> queue{};  // the stream is not hungry yet; packets are whole
        bool lacks_metadata = false;                      // the last packet could not be read
        bool has_hung_up = false;  // the relay has said that it has ended, or that it cannot go on
    };

    void add_streams(Session& session, const std::vector<wire::StreamDescriptor>& descriptors);
    Result<void> ask_for_streams(Session& session);
    Result<void> leave_ended();
    void forget_stream(const Data& data);
    void forget_trace(std::uint64_t trace_id);
    void forget(const Session& left);
    // True: the relay tells what is new in all streams (GET_NEWS). False: it is asked about each stream that is hungry.
    [[nodiscard]] bool takes_news() const;
    Result<bool> advance_by_asking();
    Result<bool> take_queued();
    Result<void> take_queued(Data& data);
    Result<void> take_news();
    Result<void> complete(Data& data, LiveConnection::News::Entry& entry);
    Result<bool> can_come_later(const Data& data);
    void enqueue(Data& data, LiveConnection::News::Entry entry);

    Result<void> ask_for_streams();
    Result<bool> ask_for_indexes();
    bool take_index(Data& data, const wire::NextIndexReply& reply);
    bool be_quiet(Data& data, const wire::NextIndexReply& reply);
    Result<void> fetch_metadata();
    Result<void> fetch_metadata(Metadata& metadata);
    Result<bool> fetch_packets();
    Result<bool> fetch_packet(Data& data);
    Result<std::optional<std::vector<std::byte>>> receive_packet(Data& data, std::uint64_t size);
    Result<void> feed(Data& data, std::vector<std::byte> packet, std::uint64_t offset);
    void do_without_metadata(Data& data);
    void warn_of_failure(const Data& data);
    [[nodiscard]] bool is_awaited_elsewhere(const Data& data, const ctf::TraceClass& trace_class,
                                            std::uint64_t stream_class_id, const ctf::PacketProperties& packet);
    void warn_of_missed(const Data& data, std::uint64_t packets);
    void end(Data& data, const std::string& why);
    void end_trace(std::uint64_t trace_id, const std::string& why);
    void want_metadata_of(std::uint64_t trace_id);
    void forget_finished();

    LiveConnection* connection_;
    LiveMerge* merge_;
    ShownPackets* shown_;
    Warn warn_;
    std::vector<Session> sessions_;
    std::map<std::uint64_t, Trace> traces_;  // by their ids in the relay
    std::vector<Metadata> metadata_;
    std::map<std::uint64_t, Data> data_;     // by id
    std::set<std::uint64_t> known_streams_;  // a relay may offer a stream twice
    bool has_left_out_ = false;              // streams, as there were too many; their traces' later ones, too
    bool wants_streams_ = false;
    bool may_request_ahead_ = true;
    std::uint64_t queued_bytes_ = 0;
    std::uint64_t cut_short_ = 0;
};

}  // namespace leat::viewer
