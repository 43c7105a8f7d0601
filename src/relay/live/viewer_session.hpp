#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "relay/relay.hpp"
#include "wire/live/live_messages.hpp"

namespace leat::relay {

// Bytes of a file that go to a viewer behind a reply.
struct FileRange {
    // One of two, kept open by whoever has it.
    std::shared_ptr<const void> owner{};
    int fd = -1;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
};

// What one viewer has attached to, and how far it has read: cursors of its own, so that viewers of one session do not
// know of one another. Serves only streams of sessions that it has attached to. One connection's strand.
class ViewerSession {
  public:
    // `wake` is called, on any thread, at every change of an attached session.
    ViewerSession(Relay& relay, std::function<void()> wake) : relay_(&relay), wake_(std::move(wake)) {}
    ~ViewerSession();
    ViewerSession(const ViewerSession&) = delete;
    ViewerSession& operator=(const ViewerSession&) = delete;

    template <class Status>
    struct Streams {
        wire::StreamsReply<Status> reply;
        std::vector<wire::StreamDescriptor> streams;
    };
    Streams<wire::AttachStatus> attach(const wire::AttachSession& request);
    Streams<wire::NewStreamsStatus> new_streams(std::uint64_t session_id);
    wire::DetachStatus detach(std::uint64_t session_id);

    wire::NextIndexReply next_index(std::uint64_t stream_id);
    // The last next_index() or news() was among lost packets, and has not come to their end: it is to be called again,
    // when others have had a turn.
    [[nodiscard]] bool must_go_on() const { return must_go_on_; }
    struct ServedPacket {
        wire::PacketReply reply;
        std::optional<FileRange> data;
    };
    ServedPacket packet(const wire::GetPacket& request);
    struct ServedMetadata {
        wire::MetadataReply reply;
        std::optional<FileRange> text{};
        wire::Bytes head{};       // in front of it
        bool must_go_on = false;  // nothing is decided: to be called again, when others have had a turn
        bool must_wait = false;   // the same, when there may be a descriptor for it
    };
    ServedMetadata metadata(std::uint64_t stream_id);

    // What GET_NEXT_INDEX would say of all streams, one after the other, as long as it is new and there is room.
    struct News {
        struct Entry {
            wire::NewsEntry head;
            std::shared_ptr<const StreamFile::Open> file{};  // that the packet is in
        };
        std::uint32_t flags = 0;
        std::uint64_t bytes = 0;  // of packets
        std::vector<Entry> entries{};

        [[nodiscard]] bool is_empty() const { return flags == 0 && entries.empty(); }
    };
    News news(std::uint64_t limit);

    // Counts changes of all that is attached.
    [[nodiscard]] std::uint64_t change() const;

  private:
    struct Attachment {
        std::shared_ptr<StoredSession> session;
        std::list<StoredSession::Listener>::iterator listener;
        std::uint64_t publications = 0;     // of which the viewer knows the streams
        std::uint64_t seen_forgotten = 0;   // streams
        std::uint64_t seen_changes = 0;     // of the session's streams
        std::uint64_t last_stream = 0;      // the newest that has been looked at
        std::set<std::uint64_t> waiting{};  // streams that could not be offered yet
        // The metadata's id, by the trace's, of those that it reads streams of.
        std::map<std::uint64_t, std::uint64_t> traces{};
        std::size_t cursors = 0;
        bool is_closed = false;         // the session has ended
        bool has_hung_up = false;       // and it has been told
        bool is_news_due = false;       // streams, or the end, that news() has to tell of
        unsigned beacons_withheld = 0;  // since there have been streams to ask for
    };
    // How far a data stream has been read:
    //
    //     files      | rolled away | older: read to its end | file_number | ... | view.current_file |
    //                       of chunks before: view.former    view.first_file
    //
    //     entries    | given to the viewer | next_entry | ... | view.entries, or the end of an older file |
    //
    // The viewer may fetch what the entries given speak of, up to readable_end. Files that are rolled away, or cleared
    // with their chunk, are skipped, read or not; those of a chunk that was rotated are not.
    struct Cursor {
        std::shared_ptr<SessionStream> entry;
        Attachment* attachment;
        std::uint64_t metadata_id;
        StreamView view;           // when it was looked at last
        std::size_t entry_size;    // bytes, in its indexes
        std::uint64_t first_file;  // that it may read
        std::optional<std::uint64_t> file_number{};
        std::shared_ptr<const StreamFile::Open> file{};
        std::uint64_t next_entry = 0;
        std::uint64_t readable_end = 0;     // bytes of the file that its indexes have been given for
        std::uint64_t needed_metadata = 0;  // up to this position, to decode the packet whose index was given last
        std::uint64_t told_beacon = 0;      // by news()
        bool is_waiting = false;            // for its turn in news()
        bool is_undecodable_told = false;   // that some of its packets are
        bool is_held = false;               // by something else than its packets: it is to be looked at again
        std::optional<std::list<std::uint64_t>::iterator> in_open{};
    };
    struct MetadataCursor {
        std::shared_ptr<MetadataStream> stream;
        Attachment* attachment;
        std::uint64_t trace;        // its id in the session
        std::uint64_t told_trace;   // and for this viewer
        std::size_t cursors = 0;    // of its trace's streams
        std::uint64_t sent = 0;     // everything before this position
        std::uint64_t version = 0;  // of the file that is read
        MetadataScan scan{};        // of that file, up to `offset`; or as far as it was looked through for the text
        bool is_found = false;      // that comes next
        bool is_told_of_none = false;
        unsigned times_withheld = 0;  // the first text
        std::uint64_t offset = 0;     // where that is
    };

    Attachment* find(std::uint64_t session_id);
    std::vector<wire::StreamDescriptor> take_new_streams(Attachment& attachment, SessionState& state, wire::Seek seek);
    // Tells of the trace, if that is new. Returns the id of its metadata.
    std::uint64_t tell(Attachment& attachment, const Trace& trace, std::vector<wire::StreamDescriptor>& told);
    void add_cursor(Attachment& attachment, const std::shared_ptr<SessionStream>& entry, std::uint64_t metadata_id,
                    wire::Seek seek);
    using Cursors = std::unordered_map<std::uint64_t, Cursor>;
    void erase_cursor(Cursors::iterator cursor);
    [[nodiscard]] static bool has_ended(const Attachment& attachment);
    // Only what has changed is looked at.
    void look(Attachment& attachment);
    void wait_for_turn(std::uint64_t id, Cursor& cursor);
    bool add_news(News& news, Cursors::iterator at);
    wire::NextIndexReply next_index(std::uint64_t id, Cursor& cursor);
    // Instead of a beacon.
    static bool is_to_wait(const Cursor& cursor, std::uint32_t flags);
    void keep_open(std::uint64_t id, Cursor& cursor);
    // There is no descriptor for a file that the viewer needs.
    void note_shortage(const Error& error);
    static bool is_withheld(MetadataCursor& cursor);
    static ServedMetadata no_text(MetadataCursor& cursor);
    static Result<ServedMetadata> next_text(MetadataCursor& cursor, const MetadataStream::Text& text);
    // When the viewer can have the metadata of the packet that comes next. It may have been cleared, or be sent again.
    enum class Decodable : std::uint8_t { kNow, kLater, kNever };
    [[nodiscard]] Decodable decodable(const Cursor& cursor, const MetadataStream::State& state) const;
    [[nodiscard]] std::uint32_t flags_of(const Cursor& cursor, const MetadataStream::State& state,
                                         std::uint64_t publications) const;
    // The next entry of the stream, which it goes over; nothing if all has been read, or it must go on.
    Result<std::optional<ctf::IndexEntry>> next_entry(Cursor& cursor);
    static Result<std::optional<ctf::IndexEntry>> read_entry(Cursor& cursor);
    static Result<bool> go_to_next_file(Cursor& cursor);
    static std::optional<std::uint64_t> next_file(const Cursor& cursor);
    static Result<bool> open_file(Cursor& cursor, std::uint64_t number);
    static void skip(Cursor& cursor, std::uint64_t number);
    static const FilePlace* place_of(const StreamView& view, std::uint64_t number);
    static void go_to_end(Cursor& cursor);
    void forget(Attachment& attachment);

    Relay* relay_;
    std::function<void()> wake_;
    std::list<Attachment> attachments_;
    Cursors cursors_;                  // by the streams' ids
    bool asks_for_news_ = false;       // babeltrace2 does not
    std::deque<std::uint64_t> turn_;   // of those that may have news
    std::list<std::uint64_t> open_;    // that may have a file open, each once, the last one used at the end
    std::vector<std::uint64_t> held_;  // of those whose last packet has to be fetched first, or that cannot be decoded
    std::map<std::uint64_t, MetadataCursor> metadata_;  // by id
    std::deque<std::uint64_t> ended_metadata_;          // whose streams have all hung up
    bool must_go_on_ = false;
    bool is_shortage_told_ = false;
};

}  // namespace leat::relay
