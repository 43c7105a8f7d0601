#include "relay/viewer_session.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "relay/log.hpp"

namespace leat::relay {
namespace {

// Replies are cut to this: viewers ask for the rest.
constexpr std::uint64_t kMaxMetadataReply = 1U << 20;

template <class Enum>
std::uint32_t word(Enum value) {
    return static_cast<std::uint32_t>(value);
}

// False at the end of the file.
Result<bool> read_at(int fd, std::uint64_t offset, std::span<std::byte> bytes) {
    const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) return io_error("cannot read the index");
    return static_cast<std::size_t>(count) == bytes.size();
}

}  // namespace

ViewerSession::~ViewerSession() {
    while (!attachments_.empty()) forget(attachments_.front());
}

ViewerSession::Attachment* ViewerSession::find(std::uint64_t session_id) {
    const auto found = std::ranges::find_if(
        attachments_, [&](const Attachment& entry) { return entry.session->description().id == session_id; });
    return found == attachments_.end() ? nullptr : &*found;
}

ViewerSession::Streams ViewerSession::attach(const wire::AttachSession& request) {
    const auto refused = [](wire::AttachStatus status) { return Streams{{word(status), 0}, {}}; };
    const std::shared_ptr<Session> session = relay_->find_session(request.session_id);
    if (session == nullptr) return refused(wire::AttachStatus::kUnknownSession);
    if (!session->is_live()) return refused(wire::AttachStatus::kNotLive);
    if (find(request.session_id) != nullptr) return refused(wire::AttachStatus::kAlready);
    const auto seek = static_cast<wire::Seek>(request.seek);
    if (seek != wire::Seek::kBeginning && seek != wire::Seek::kLast) return refused(wire::AttachStatus::kSeekError);
    Attachment& attachment = attachments_.emplace_back(Attachment{.session = session, .listener = {}});
    attachment.listener = session->add_listener(wake_);
    session->directory().viewers.fetch_add(1);
    auto streams = session->locked([&](SessionState& state) { return take_new_streams(attachment, state, seek); });
    const auto count = static_cast<std::uint32_t>(streams.size());
    return {{word(wire::AttachStatus::kOk), count}, std::move(streams)};
}

// A trace is offered once it has metadata and a stream of data: a viewer gives up on one without the other.
std::vector<wire::StreamDescriptor> ViewerSession::take_new_streams(Attachment& attachment, SessionState& state,
                                                                    wire::Seek seek) {
    std::vector<wire::StreamDescriptor> found;
    const auto describe = [&](std::uint64_t handle, const Trace& trace, bool is_metadata, const std::string& name) {
        attachment.known.insert(handle);
        found.push_back({handle, trace.id, is_metadata ? 1U : 0U, trace.path, name});
    };
    for (const auto& [handle, entry] : state.streams) {
        const Trace& trace = *entry.trace;
        const bool is_offered = entry.is_published && trace.is_metadata_published && trace.metadata != nullptr;
        const bool is_over = entry.stream->is_finished() && entry.stream->committed_packets() == 0;
        if (!is_offered || is_over || attachment.known.contains(handle)) continue;
        const std::uint64_t metadata = trace.metadata->handle();
        if (!attachment.known.contains(metadata)) {
            describe(metadata, trace, true, "metadata");
            metadata_[metadata] = MetadataCursor{trace.metadata, &attachment};
        }
        describe(handle, trace, false, entry.stream->parameters().channel_name);
        add_cursor(attachment, handle, entry, seek);
    }
    attachment.publications = state.publications;
    return found;
}

void ViewerSession::add_cursor(Attachment& attachment, std::uint64_t handle, const SessionStream& entry,
                               wire::Seek seek) {
    Cursor cursor{
        .stream = entry.stream, .attachment = &attachment, .metadata_handle = entry.trace->metadata->handle()};
    // From now on: over all that is there already.
    while (seek == wire::Seek::kLast) {
        const auto skipped = next_entry(cursor);
        if (!skipped || !*skipped) break;
    }
    cursors_.insert_or_assign(handle, std::move(cursor));
}

ViewerSession::Streams ViewerSession::new_streams(std::uint64_t session_id) {
    Attachment* const attachment = find(session_id);
    if (attachment == nullptr) return {{word(wire::NewStreamsStatus::kError), 0}, {}};
    Streams streams{};
    bool is_open = true;
    attachment->session->locked([&](SessionState& state) {
        streams.streams = take_new_streams(*attachment, state, wire::Seek::kBeginning);
        is_open = state.is_control_open;
    });
    const bool is_over = !is_open && streams.streams.empty() && !has_unread(*attachment);
    attachment->has_hung_up = is_over;
    streams.reply.status = word(is_over ? wire::NewStreamsStatus::kHangUp : wire::NewStreamsStatus::kOk);
    streams.reply.streams = static_cast<std::uint32_t>(streams.streams.size());
    return streams;
}

// A stream that has hung up has no cursor any more.
bool ViewerSession::has_unread(const Attachment& attachment) const {
    return std::ranges::any_of(cursors_, [&](const auto& cursor) { return cursor.second.attachment == &attachment; });
}

bool ViewerSession::has_ended(const Attachment& attachment, const SessionState& state) const {
    return !state.is_control_open && !attachment.has_hung_up && !has_unread(attachment);
}

wire::DetachStatus ViewerSession::detach(std::uint64_t session_id) {
    Attachment* const attachment = find(session_id);
    if (attachment != nullptr) {
        forget(*attachment);
        return wire::DetachStatus::kOk;
    }
    return relay_->find_session(session_id) == nullptr ? wire::DetachStatus::kUnknownSession
                                                       : wire::DetachStatus::kNotAttached;
}

void ViewerSession::forget(Attachment& attachment) {
    attachment.session->remove_listener(attachment.listener);
    attachment.session->directory().viewers.fetch_sub(1);
    std::erase_if(cursors_, [&](const auto& cursor) { return cursor.second.attachment == &attachment; });
    std::erase_if(metadata_, [&](const auto& cursor) { return cursor.second.attachment == &attachment; });
    attachments_.remove_if([&](const Attachment& entry) { return &entry == &attachment; });
}

std::uint64_t ViewerSession::change() const {
    std::uint64_t sum = 0;
    for (const Attachment& attachment : attachments_) sum += attachment.session->change();
    return sum;
}

std::uint32_t ViewerSession::flags_of(const Cursor& cursor, const SessionState& state) const {
    std::uint32_t flags = 0;
    const MetadataCursor& metadata = metadata_.at(cursor.metadata_handle);
    if (metadata.stream->size() > metadata.sent) flags |= wire::kNewMetadata;
    if (state.publications != cursor.attachment->publications) flags |= wire::kNewStreams;
    return flags;
}

// facts: live protocol, section 4, "check order".
wire::NextIndexReply ViewerSession::next_index(std::uint64_t stream_id) {
    const auto found = cursors_.find(stream_id);
    if (found == cursors_.end())
        return {.status = word(metadata_.contains(stream_id) ? wire::IndexStatus::kHangUp : wire::IndexStatus::kError)};
    const wire::NextIndexReply reply = next_index(stream_id, found->second);
    if (reply.status == word(wire::IndexStatus::kHangUp)) cursors_.erase(found);
    return reply;
}

wire::NextIndexReply ViewerSession::next_index(std::uint64_t stream_id, Cursor& cursor) const {
    wire::NextIndexReply reply;
    const auto status = [&](wire::IndexStatus value) { reply.status = word(value); };
    cursor.attachment->session->locked([&](SessionState& state) {
        const auto entry = next_unread_entry(cursor);
        reply.flags = flags_of(cursor, state);
        if (!entry) {
            log("a viewer's stream {}: {}", stream_id, entry.error().message);
            return status(wire::IndexStatus::kError);
        }
        if (*entry) {
            const ctf::IndexEntry& index = **entry;
            reply = {index.offset,        index.packet_size,      index.content_size,    index.timestamp_begin,
                     index.timestamp_end, index.events_discarded, index.stream_class_id, word(wire::IndexStatus::kOk),
                     reply.flags};
            cursor.readable_end = std::max(cursor.readable_end, index.offset + index.packet_size / 8);
            cursor.needed_metadata = metadata_.at(cursor.metadata_handle).stream->size();
            return;
        }
        if (cursor.stream->is_finished()) return status(wire::IndexStatus::kHangUp);
        const auto& beacon = cursor.stream->beacon();
        if (!beacon) return status(wire::IndexStatus::kRetry);
        reply.timestamp_end = beacon->timestamp;
        reply.stream_class_id = beacon->stream_class_id;
        status(wire::IndexStatus::kInactive);
    });
    return reply;
}

ViewerSession::News ViewerSession::news(std::uint64_t limit) {
    News news;
    auto unread = cursors_in_turn();
    const auto has_room = [&] { return news.bytes < limit && news.entries.size() < wire::kMaxNewsEntries; };
    while (!unread.empty() && has_room())
        std::erase_if(unread, [&](Cursors::iterator cursor) { return has_room() && !add_news(news, cursor); });
    // Behind the packets: whatever was published before one of them is told with it.
    for (const Attachment& attachment : attachments_)
        attachment.session->locked([&](const SessionState& state) {
            if (state.publications != attachment.publications || has_ended(attachment, state))
                news.flags |= wire::kNewStreams;
        });
    return news;
}

// Whoever found no room the last time comes first.
std::vector<ViewerSession::Cursors::iterator> ViewerSession::cursors_in_turn() {
    std::vector<Cursors::iterator> turn;
    turn.reserve(cursors_.size());
    const auto first = cursors_.upper_bound(last_in_news_);
    for (auto at = first; at != cursors_.end(); ++at) turn.push_back(at);
    for (auto at = cursors_.begin(); at != first; ++at) turn.push_back(at);
    return turn;
}

// Whether there may be more of that stream.
bool ViewerSession::add_news(News& news, Cursors::iterator at) {
    const std::uint64_t handle = last_in_news_ = at->first;
    Cursor& cursor = at->second;
    News::Entry entry{{handle, next_index(handle, cursor), 0}};
    switch (static_cast<wire::IndexStatus>(entry.head.index.status)) {
        case wire::IndexStatus::kOk: {
            const std::uint64_t size = entry.head.index.packet_size / 8;
            const bool is_small = size <= wire::kMaxNewsPacket;
            if (is_small) {
                entry.head.length = static_cast<std::uint32_t>(size);
                entry.file = cursor.file;
                news.bytes += size;
            }
            news.entries.push_back(std::move(entry));
            return is_small;
        }
        case wire::IndexStatus::kInactive:
            if (entry.head.index.timestamp_end <= cursor.told_beacon) return false;
            cursor.told_beacon = entry.head.index.timestamp_end;
            news.entries.push_back(std::move(entry));
            return false;
        case wire::IndexStatus::kRetry:
            return false;
        default:
            // The viewer is told once.
            news.entries.push_back(std::move(entry));
            cursors_.erase(at);
            return false;
    }
}

// Only what was committed since all had been read is looked for. It is flushed first, or else the beacon behind it
// would overtake it.
Result<std::optional<ctf::IndexEntry>> ViewerSession::next_unread_entry(Cursor& cursor) const {
    DataStream& stream = *cursor.stream;
    if (stream.has_unflushed()) (void)stream.flush();
    const std::uint64_t committed = stream.committed_packets();
    if (cursor.read_up_to == committed) return std::optional<ctf::IndexEntry>();
    auto entry = LEAT_TRY(next_entry(cursor));
    if (!entry && !stream.has_unflushed()) cursor.read_up_to = committed;
    return entry;
}

Result<std::optional<ctf::IndexEntry>> ViewerSession::next_entry(Cursor& cursor) const {
    for (;;) {
        const auto entry = LEAT_TRY(read_entry(cursor));
        if (!entry) {
            if (LEAT_TRY(go_to_next_file(cursor))) continue;
            return std::optional<ctf::IndexEntry>();
        }
        ++cursor.next_entry;
        // What was lost on its way is not there to be read; the numbers of the packets tell.
        if (!entry->is_lost()) return entry;
    }
}

Result<std::optional<ctf::IndexEntry>> ViewerSession::read_entry(Cursor& cursor) const {
    // What was cleared is gone, read or not.
    const auto oldest = cursor.stream->oldest_file();
    if (!cursor.file_number || (oldest && *cursor.file_number < cursor.stream->first_file_of_chunk()))
        return std::optional<ctf::IndexEntry>();
    std::array<std::byte, ctf::kIndexEntrySize> bytes{};
    const auto whole = std::span(bytes).first(std::min(cursor.entry_size, bytes.size()));
    const std::uint64_t offset = ctf::kIndexHeaderSize + cursor.next_entry * cursor.entry_size;
    if (!LEAT_TRY(read_at(cursor.file->index.get(), offset, whole))) return std::optional<ctf::IndexEntry>();
    return LEAT_TRY(ctf::parse_index_entry(whole));
}

// False if it is in the newest one already.
Result<bool> ViewerSession::go_to_next_file(Cursor& cursor) const {
    const auto oldest = cursor.stream->oldest_file();
    const auto newest = cursor.stream->newest_file();
    if (!oldest || (cursor.file_number && *cursor.file_number >= *newest)) return false;
    const std::uint64_t next = cursor.file_number ? std::max(*cursor.file_number + 1, *oldest) : *oldest;
    auto file = LEAT_TRY(cursor.stream->open_file(next));
    cursor.file = std::make_shared<const DataStream::Reading>(std::move(file));
    std::array<std::byte, ctf::kIndexHeaderSize> header{};
    if (!LEAT_TRY(read_at(cursor.file->index.get(), 0, header))) return corrupt("the index has no header");
    cursor.entry_size = LEAT_TRY(ctf::parse_index_header(header));
    cursor.file_number = next;
    cursor.next_entry = 0;
    cursor.readable_end = 0;
    return true;
}

ViewerSession::Packet ViewerSession::packet(const wire::GetPacket& request) {
    const auto refused = [](std::uint32_t flags) {
        return Packet{{word(wire::PacketStatus::kError), 0, flags}, std::nullopt};
    };
    const auto found = cursors_.find(request.stream_id);
    if (found == cursors_.end()) return refused(0);
    const Cursor& cursor = found->second;
    if (request.length == 0 || request.offset > cursor.readable_end ||
        request.length > cursor.readable_end - request.offset)
        return refused(0);
    // Document 001, "Get data packet": not before the metadata that it may need.
    if (metadata_.at(cursor.metadata_handle).sent < cursor.needed_metadata) return refused(wire::kNewMetadata);
    Packet packet{{word(wire::PacketStatus::kOk), request.length, 0}, FileRange{}};
    packet.data->file = UniqueFd(::dup(cursor.file->data.get()));
    packet.data->offset = request.offset;
    packet.data->size = request.length;
    return packet;
}

ViewerSession::Metadata ViewerSession::metadata(std::uint64_t stream_id) {
    const auto found = metadata_.find(stream_id);
    if (found == metadata_.end()) return {{0, word(wire::MetadataStatus::kError)}, std::nullopt};
    MetadataCursor& cursor = found->second;
    FileRange text{};
    cursor.attachment->session->locked([&](SessionState&) {
        const std::uint64_t size = cursor.stream->size();
        if (size <= cursor.sent) return;
        text = {cursor.stream->duplicate(), cursor.sent, std::min(size - cursor.sent, kMaxMetadataReply)};
    });
    if (text.size == 0) return {{0, word(wire::MetadataStatus::kNoNew)}, std::nullopt};
    cursor.sent += text.size;
    return {{text.size, word(wire::MetadataStatus::kOk)}, std::move(text)};
}

}  // namespace leat::relay
