#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/result.hpp"
#include "relay/relay.hpp"
#include "wire/live_messages.hpp"

namespace leat::relay {

// Bytes of a file that go to a viewer behind a reply.
struct FileRange {
    UniqueFd file;
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

    struct Streams {
        wire::StreamsReply reply;
        std::vector<wire::StreamDescriptor> streams;
    };
    Streams attach(const wire::AttachSession& request);
    Streams new_streams(std::uint64_t session_id);
    wire::DetachStatus detach(std::uint64_t session_id);

    wire::NextIndexReply next_index(std::uint64_t stream_id);
    struct Packet {
        wire::PacketReply reply;
        std::optional<FileRange> data;
    };
    Packet packet(const wire::GetPacket& request);
    struct Metadata {
        wire::MetadataReply reply;
        std::optional<FileRange> text;
    };
    Metadata metadata(std::uint64_t stream_id);

    // What GET_NEXT_INDEX would say of all streams, one after the other, as long as it is new and there is room.
    struct News {
        struct Entry {
            wire::NewsEntry head;
            std::shared_ptr<const DataStream::Reading> file{};  // that the packet is in
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
        std::shared_ptr<Session> session;
        std::list<Session::Listener>::iterator listener;
        std::uint64_t publications = 0;   // of which the viewer knows the streams
        std::set<std::uint64_t> known{};  // handles that it has been told of
        bool has_hung_up = false;         // and it has been told
    };
    // How far a data stream has been read.
    struct Cursor {
        std::shared_ptr<DataStream> stream;
        Attachment* attachment;
        std::uint64_t metadata_handle;
        std::optional<std::uint64_t> file_number{};
        std::shared_ptr<const DataStream::Reading> file{};
        std::size_t entry_size = 0;
        std::uint64_t next_entry = 0;
        std::uint64_t readable_end = 0;     // bytes of the file that its indexes have been given for
        std::uint64_t needed_metadata = 0;  // bytes, to decode the packet whose index was given last
        // All that was committed then has been read: it need not be looked for again.
        std::optional<std::uint64_t> read_up_to{};
        std::uint64_t told_beacon = 0;  // by news()
    };
    struct MetadataCursor {
        std::shared_ptr<MetadataStream> stream;
        Attachment* attachment;
        std::uint64_t sent = 0;  // bytes
    };

    Attachment* find(std::uint64_t session_id);
    std::vector<wire::StreamDescriptor> take_new_streams(Attachment& attachment, SessionState& state, wire::Seek seek);
    void add_cursor(Attachment& attachment, std::uint64_t handle, const SessionStream& entry, wire::Seek seek);
    bool has_unread(const Attachment& attachment) const;
    bool has_ended(const Attachment& attachment, const SessionState& state) const;
    using Cursors = std::map<std::uint64_t, Cursor>;
    std::vector<Cursors::iterator> cursors_in_turn();
    bool add_news(News& news, Cursors::iterator at);
    wire::NextIndexReply next_index(std::uint64_t stream_id, Cursor& cursor) const;
    std::uint32_t flags_of(const Cursor& cursor, const SessionState& state) const;
    // The next entry of the stream, which it goes over; nothing if all has been read.
    Result<std::optional<ctf::IndexEntry>> next_entry(Cursor& cursor) const;
    Result<std::optional<ctf::IndexEntry>> next_unread_entry(Cursor& cursor) const;
    Result<std::optional<ctf::IndexEntry>> read_entry(Cursor& cursor) const;
    Result<bool> go_to_next_file(Cursor& cursor) const;
    void forget(Attachment& attachment);

    Relay* relay_;
    std::function<void()> wake_;
    std::list<Attachment> attachments_;
    Cursors cursors_;                                   // by handle
    std::uint64_t last_in_news_ = 0;                    // handle
    std::map<std::uint64_t, MetadataCursor> metadata_;  // by handle
};

}  // namespace leat::relay
