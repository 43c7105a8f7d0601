#include "relay/live/viewer_session.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/file.hpp"
#include "base/log.hpp"

namespace leat::relay {
namespace {

// Replies are cut to this: viewers ask for the rest.
constexpr std::uint64_t kMaxMetadataReply = 1U << 20;
// So much of a file is looked through at once for the text that a viewer lacks.
constexpr std::uint64_t kMaxLook = 1U << 20;

// What a viewer gets of a trace whose text will not come: babeltrace2 waits for the text of each trace that it was told
// of, and does nothing else for the session.
constexpr std::string_view kNothingDeclared = "/* CTF 1.8 */\n\ntrace { major = 1; minor = 8; byte_order = le; };\n";

// Goes on to this offset in the file, or to the text behind this position, whichever comes first.
Result<void> go_on(MetadataScan& scan, int fd, std::uint64_t offset, std::uint64_t position = MetadataScan::kAll) {
    constexpr std::uint64_t kBlock = 64U << 10;
    std::vector<std::byte> block(std::min(kBlock, offset - std::min(offset, scan.bytes())));
    while (scan.bytes() < offset) {
        const auto piece = std::span(block).first(std::min<std::uint64_t>(block.size(), offset - scan.bytes()));
        if (LEAT_TRY(read_at(fd, scan.bytes(), piece)) < piece.size())
            return corrupt("metadata is shorter than it was");
        if (scan.add(piece, position) < piece.size()) break;
    }
    return {};
}

// Nothing of it can be shown to a viewer that comes now.
bool is_gone(const SessionStream& entry) {
    const MetadataStream* const metadata = entry.is_published ? entry.trace->metadata.get() : nullptr;
    return (entry.view.is_finished && entry.view.packets == 0) ||
           (metadata != nullptr && metadata->is_finished() && metadata->has_no_text());
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

ViewerSession::Streams<wire::AttachStatus> ViewerSession::attach(const wire::AttachSession& request) {
    const auto refused = [](wire::AttachStatus status) { return Streams<wire::AttachStatus>{{status, 0}, {}}; };
    const std::shared_ptr<StoredSession> session = relay_->find_session(request.session_id);
    if (session == nullptr) return refused(wire::AttachStatus::kUnknownSession);
    if (!session->is_live()) return refused(wire::AttachStatus::kNotLive);
    if (find(request.session_id) != nullptr) return refused(wire::AttachStatus::kAlready);
    const wire::Seek seek = request.seek;
    if (seek != wire::Seek::kBeginning && seek != wire::Seek::kLast) return refused(wire::AttachStatus::kSeekError);
    Attachment& attachment = attachments_.emplace_back(Attachment{.session = session, .listener = {}});
    attachment.listener = session->add_listener(wake_);
    session->viewers.fetch_add(1);
    auto streams = session->locked([&](SessionState& state) { return take_new_streams(attachment, state, seek); });
    const auto count = static_cast<std::uint32_t>(streams.size());
    return {{wire::AttachStatus::kOk, count}, std::move(streams)};
}

// A trace is offered once it has metadata and a stream of data: a viewer gives up on one without the other.
std::vector<wire::StreamDescriptor> ViewerSession::take_new_streams(Attachment& attachment, SessionState& state,
                                                                    wire::Seek seek) {
    std::vector<wire::StreamDescriptor> found;
    for (auto at = state.streams.upper_bound(attachment.last_stream); at != state.streams.end(); ++at)
        attachment.waiting.insert(attachment.last_stream = at->first);
    for (auto at = attachment.waiting.begin(); at != attachment.waiting.end();) {
        const auto known = state.streams.find(*at);
        if (known == state.streams.end() || is_gone(*known->second)) {
            at = attachment.waiting.erase(at);
            continue;
        }
        const auto& entry = known->second;
        const Trace& trace = *entry->trace;
        if (!entry->is_published || !trace.is_metadata_published || trace.metadata == nullptr) {
            ++at;
            continue;
        }
        const std::uint64_t metadata_id = tell(attachment, trace, found);
        found.push_back({entry->id, metadata_.at(metadata_id).told_trace, 0U, trace.path,
                         entry->stream->parameters().files.channel_name});
        add_cursor(attachment, entry, metadata_id, seek);
        at = attachment.waiting.erase(at);
    }
    attachment.publications = state.publications;
    attachment.beacons_withheld = 0;
    return found;
}

// A viewer gives a trace up, and its metadata with it, when all its streams have ended. What comes of it later is
// another trace for that viewer, with ids of its own: babeltrace2 would ask for ever for one that has no metadata.
std::uint64_t ViewerSession::tell(Attachment& attachment, const Trace& trace,
                                  std::vector<wire::StreamDescriptor>& told) {
    const auto [known, is_new] = attachment.traces.try_emplace(trace.id);
    if (!is_new) return known->second;
    const std::uint64_t metadata_id = known->second = relay_->next_id();
    const std::uint64_t told_trace = relay_->next_id();
    told.push_back({metadata_id, told_trace, 1U, trace.path, "metadata"});
    metadata_.emplace(metadata_id, MetadataCursor{trace.metadata, &attachment, trace.id, told_trace});
    return metadata_id;
}

void ViewerSession::add_cursor(Attachment& attachment, const std::shared_ptr<SessionStream>& entry,
                               std::uint64_t metadata_id, wire::Seek seek) {
    const bool is_short = entry->stream->parameters().files.index_minor == 0;
    Cursor& cursor = cursors_
                         .insert_or_assign(entry->id, Cursor{.entry = entry,
                                                             .attachment = &attachment,
                                                             .metadata_id = metadata_id,
                                                             .view = entry->view,
                                                             .entry_size = is_short ? trace::kIndexEntrySize10
                                                                                    : trace::kIndexEntrySize,
                                                             .first_file = entry->view.first_file})
                         .first->second;
    ++attachment.cursors;
    ++metadata_.at(cursor.metadata_id).cursors;
    if (seek == wire::Seek::kLast) go_to_end(cursor);
    cursor.view.current.reset();
    wait_for_turn(entry->id, cursor);
}

// Over all that is there already.
void ViewerSession::go_to_end(Cursor& cursor) {
    if (!cursor.view.current_file) return;
    cursor.file_number = cursor.view.current_file;
    cursor.next_entry = cursor.view.entries;
}

void ViewerSession::erase_cursor(Cursors::iterator cursor) {
    // Metadata may still be asked for: of so many traces it is kept.
    constexpr std::size_t kMaxEnded = 256;
    --cursor->second.attachment->cursors;
    const auto metadata = metadata_.find(cursor->second.metadata_id);
    if (cursor->second.in_open) open_.erase(*cursor->second.in_open);
    cursors_.erase(cursor);
    if (--metadata->second.cursors != 0) return;
    metadata->second.attachment->traces.erase(metadata->second.trace);
    ended_metadata_.push_back(metadata->first);
    if (ended_metadata_.size() <= kMaxEnded) return;
    metadata_.erase(ended_metadata_.front());
    ended_metadata_.pop_front();
}

ViewerSession::Streams<wire::NewStreamsStatus> ViewerSession::new_streams(std::uint64_t session_id) {
    Attachment* const attachment = find(session_id);
    if (attachment == nullptr) return {{wire::NewStreamsStatus::kError, 0}, {}};
    Streams<wire::NewStreamsStatus> streams{};
    bool is_open = true;
    attachment->session->locked([&](SessionState& state) {
        streams.streams = take_new_streams(*attachment, state, wire::Seek::kBeginning);
        is_open = state.is_control_open;
    });
    const bool is_over = !is_open && streams.streams.empty() && attachment->cursors == 0;
    attachment->has_hung_up = is_over;
    streams.reply.status = is_over ? wire::NewStreamsStatus::kHangUp : wire::NewStreamsStatus::kOk;
    streams.reply.streams = static_cast<std::uint32_t>(streams.streams.size());
    return streams;
}

// A stream that has hung up has no cursor any more.
bool ViewerSession::has_ended(const Attachment& attachment) {
    return attachment.is_closed && !attachment.has_hung_up && attachment.cursors == 0;
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

// Listener first: from here on no change wakes the viewer for this session.
void ViewerSession::forget(Attachment& attachment) {
    attachment.session->remove_listener(attachment.listener);
    attachment.session->viewers.fetch_sub(1);
    std::erase_if(cursors_, [&](const auto& cursor) {
        if (cursor.second.attachment != &attachment) return false;
        if (cursor.second.in_open) open_.erase(*cursor.second.in_open);
        return true;
    });
    std::erase_if(metadata_, [&](const auto& cursor) { return cursor.second.attachment == &attachment; });
    const auto has_gone = [&](std::uint64_t id) { return !cursors_.contains(id); };
    std::erase_if(turn_, has_gone);
    std::erase_if(held_, has_gone);
    attachments_.remove_if([&](const Attachment& entry) { return &entry == &attachment; });
}

std::uint64_t ViewerSession::change() const {
    std::uint64_t sum = 0;
    for (const Attachment& attachment : attachments_) sum += attachment.session->change();
    return sum;
}

// `publications` was read together with the view, under one lock: whatever was published before a packet could be seen
// is told with that packet.
std::uint32_t ViewerSession::flags_of(const Cursor& cursor, const MetadataStream::State& state,
                                      std::uint64_t publications) const {
    std::uint32_t flags = 0;
    if (state.end > metadata_.at(cursor.metadata_id).sent) flags |= wire::kNewMetadata;
    if (publications != cursor.attachment->publications) flags |= wire::kNewStreams;
    return flags;
}

// Decides in the order of docs/formats/live.md, "GET_NEXT_INDEX".
wire::NextIndexReply ViewerSession::next_index(std::uint64_t stream_id) {
    must_go_on_ = false;
    const auto found = cursors_.find(stream_id);
    if (found == cursors_.end())
        return {.status = metadata_.contains(stream_id) ? wire::IndexStatus::kHangUp : wire::IndexStatus::kError};
    wire::NextIndexReply reply = next_index(stream_id, found->second);
    if (reply.status == wire::IndexStatus::kHangUp) erase_cursor(found);
    if (reply.status == wire::IndexStatus::kInactive && is_to_wait(found->second, reply.flags))
        reply = {.status = wire::IndexStatus::kRetry, .flags = reply.flags};
    return reply;
}

// Streams that the viewer has not been told of may have older events than a beacon, and babeltrace2 aborts when it is
// shown them. But 2.0 reads the flags of packets alone, and asks for none while a stream in front of them is quiet.
bool ViewerSession::is_to_wait(const Cursor& cursor, std::uint32_t flags) {
    constexpr unsigned kMostBeacons = 10;  // babeltrace2 asks ten times a second
    return (flags & wire::kNewStreams) != 0 && cursor.attachment->beacons_withheld++ < kMostBeacons;
}

// What is there is looked at first, under the lock, and then read without it: nothing behind it is told.
wire::NextIndexReply ViewerSession::next_index(std::uint64_t id, Cursor& cursor) {
    wire::NextIndexReply reply;
    const std::uint64_t publications = cursor.attachment->session->locked([&](const SessionState& state) {
        cursor.view = cursor.entry->view;
        return state.publications;
    });
    const auto entry = next_entry(cursor);
    keep_open(id, cursor);
    const std::uint64_t class_id = entry && *entry ? (*entry)->stream_class_id : ctf::IndexEntry::kUnknown;
    const MetadataCursor& text = metadata_.at(cursor.metadata_id);
    const MetadataStream::State metadata = text.stream->state(class_id, text.sent);
    reply.flags = flags_of(cursor, metadata, publications);
    const Decodable when = entry && *entry ? decodable(cursor, metadata) : Decodable::kNow;
    cursor.is_held = is_disk_full(entry) || when == Decodable::kLater;
    if (when == Decodable::kNever) {
        must_go_on_ = true;  // over this packet
        if (!std::exchange(cursor.is_undecodable_told, true))
            log_warning(
                "a viewer's stream {}: packets are passed over: after a rotation, what they need of the metadata "
                "did not come again",
                id);
    }
    if (is_disk_full(entry)) note_shortage(entry.error());
    // Others have their turn first, or there is no descriptor for its file now.
    if (must_go_on_ || is_disk_full(entry)) {
        reply.status = wire::IndexStatus::kRetry;
        return reply;
    }
    if (!entry) {
        log("a viewer's stream {}: {}", id, entry.error().message);
        reply.status = wire::IndexStatus::kError;
    } else if (when == Decodable::kLater) {
        --cursor.next_entry;
        const bool is_over = cursor.view.is_finished && metadata.is_finished;
        reply.status = is_over ? wire::IndexStatus::kHangUp : wire::IndexStatus::kRetry;
    } else if (*entry) {
        reply.entry = **entry;
        reply.status = wire::IndexStatus::kOk;
        cursor.readable_end = std::max(cursor.readable_end, reply.entry.offset + reply.entry.packet_size / 8);
        cursor.needed_metadata = metadata.end;
    } else if (cursor.view.is_finished) {
        reply.status = wire::IndexStatus::kHangUp;
    } else if (cursor.view.beacon) {
        reply.entry.timestamp_end = cursor.view.beacon->timestamp;
        reply.entry.stream_class_id = cursor.view.beacon->stream_class_id;
        reply.status = wire::IndexStatus::kInactive;
    } else {
        reply.status = wire::IndexStatus::kRetry;
    }
    return reply;
}

// LTTng sends packets without events before their stream class is declared. After a rotation, what packets of the chunk
// before need may not have come again yet: it does before the first packet of the new one.
ViewerSession::Decodable ViewerSession::decodable(const Cursor& cursor, const MetadataStream::State& state) const {
    if (!state.is_declared) return Decodable::kLater;
    const MetadataCursor& metadata = metadata_.at(cursor.metadata_id);
    const StreamView& view = cursor.view;
    const FilePlace* const place = place_of(view, *cursor.file_number);
    const bool has_all = std::max(state.end, metadata.sent) >= state.furthest_end;
    const bool is_elsewhere = place != nullptr && !place->is_in(state.chunk);
    const bool has_begun_there = view.current_file && view.place->is_in(state.chunk);
    if (is_elsewhere && !has_all && !has_begun_there) return state.is_finished ? Decodable::kNever : Decodable::kLater;
    return state.end <= metadata.sent || !metadata.stream->is_cleared() ? Decodable::kNow : Decodable::kLater;
}

void ViewerSession::note_shortage(const Error& error) {
    if (!std::exchange(is_shortage_told_, true)) log_warning("a viewer has to wait: {}", error.message);
}

// Thousands of streams are read by turns: only the files of the last ones stay open for this viewer.
void ViewerSession::keep_open(std::uint64_t id, Cursor& cursor) {
    constexpr std::size_t kMaxOpen = 64;
    cursor.view.current.reset();
    if (cursor.file == nullptr) return;
    if (!cursor.in_open) cursor.in_open = open_.insert(open_.end(), id);
    open_.splice(open_.end(), open_, *cursor.in_open);
    if (open_.size() <= kMaxOpen) return;
    Cursor& oldest = cursors_.at(open_.front());
    oldest.file.reset();
    oldest.in_open.reset();
    open_.pop_front();
}

// The list is in the order of changes, so the walk ends at the first stream that was looked at before: with thousands
// of quiet streams a turn costs as much as there is news.
void ViewerSession::look(Attachment& attachment) {
    attachment.session->locked([&](const SessionState& state) {
        for (auto at = state.by_change.rbegin(); at != state.by_change.rend(); ++at) {
            if ((*at)->change <= attachment.seen_changes) break;
            if (const auto found = cursors_.find((*at)->id); found != cursors_.end())
                wait_for_turn(found->first, found->second);
        }
        // What has been forgotten since is not in that list any more.
        if (attachment.seen_forgotten != state.forgotten)
            for (auto& [id, cursor] : cursors_)
                if (cursor.attachment == &attachment && cursor.entry->change > attachment.seen_changes)
                    wait_for_turn(id, cursor);
        attachment.seen_forgotten = state.forgotten;
        attachment.seen_changes = state.changes;
        attachment.is_closed = !state.is_control_open;
        attachment.is_news_due = state.publications != attachment.publications;
    });
}

void ViewerSession::wait_for_turn(std::uint64_t id, Cursor& cursor) {
    if (asks_for_news_ && !std::exchange(cursor.is_waiting, true)) turn_.push_back(id);
}

// A packet of each stream in turn.
ViewerSession::News ViewerSession::news(std::uint64_t limit) {
    News news;
    must_go_on_ = false;
    if (!std::exchange(asks_for_news_, true))
        for (auto& [id, cursor] : cursors_) wait_for_turn(id, cursor);
    for (Attachment& attachment : attachments_) look(attachment);
    for (const std::uint64_t id : std::exchange(held_, {}))
        if (const auto cursor = cursors_.find(id); cursor != cursors_.end()) wait_for_turn(id, cursor->second);
    const auto is_full = [&] { return news.bytes >= limit || news.entries.size() >= wire::kMaxNewsEntries; };
    while (!turn_.empty() && !must_go_on_ && !is_full()) {
        const auto cursor = cursors_.find(turn_.front());
        turn_.pop_front();
        if (cursor == cursors_.end()) continue;
        cursor->second.is_waiting = false;
        const std::uint64_t id = cursor->first;
        if (add_news(news, cursor)) wait_for_turn(id, cursor->second);
    }
    // Behind the packets: whatever was published before one of them is told with it.
    for (Attachment& attachment : attachments_) {
        look(attachment);
        if (attachment.is_news_due || has_ended(attachment)) news.flags |= wire::kNewStreams;
    }
    return news;
}

// Whether there may be more of that stream, now.
bool ViewerSession::add_news(News& news, Cursors::iterator at) {
    Cursor& cursor = at->second;
    News::Entry entry{{at->first, next_index(at->first, cursor), 0}};
    switch (entry.head.index.status) {
        case wire::IndexStatus::kOk: {
            const std::uint64_t size = entry.head.index.entry.packet_size / 8;
            const bool is_small = size <= wire::kMaxNewsPacket;
            if (is_small) {
                entry.head.length = static_cast<std::uint32_t>(size);
                entry.file = cursor.file;
            }
            // A large one counts too: the viewer fetches it before it goes on.
            news.bytes += size;
            news.entries.push_back(std::move(entry));
            // The packet is to be fetched from the file that the stream is in now.
            if (!is_small) held_.push_back(at->first);
            return is_small;
        }
        case wire::IndexStatus::kInactive:
            if (entry.head.index.entry.timestamp_end <= cursor.told_beacon) return false;
            cursor.told_beacon = entry.head.index.entry.timestamp_end;
            news.entries.push_back(std::move(entry));
            return false;
        case wire::IndexStatus::kRetry:
            if (must_go_on_ || cursor.is_held) held_.push_back(at->first);
            return false;
        default:
            // The viewer is told once.
            news.entries.push_back(std::move(entry));
            erase_cursor(at);
            return false;
    }
}

Result<std::optional<ctf::IndexEntry>> ViewerSession::next_entry(Cursor& cursor) {
    constexpr int kMostPassed = 1024;  // entries, or files without any
    for (int passed = 0; passed < kMostPassed; ++passed) {
        const auto entry = LEAT_TRY(read_entry(cursor));
        if (!entry) {
            if (LEAT_TRY(go_to_next_file(cursor))) continue;
            return std::optional<ctf::IndexEntry>();
        }
        ++cursor.next_entry;
        // What was lost on its way is not there to be read; the numbers of the packets tell.
        if (!entry->is_lost()) return entry;
    }
    must_go_on_ = true;
    return std::optional<ctf::IndexEntry>();
}

// Of the current file, only entries that the view names are on disk for certain. An older file ends where it ends.
Result<std::optional<ctf::IndexEntry>> ViewerSession::read_entry(Cursor& cursor) {
    // What was cleared is gone, read or not.
    if (!cursor.file_number || !place_of(cursor.view, *cursor.file_number)) return std::optional<ctf::IndexEntry>();
    const bool is_current = cursor.file_number == cursor.view.current_file;
    if (is_current && cursor.next_entry >= cursor.view.entries) return std::optional<ctf::IndexEntry>();
    if (cursor.file == nullptr && !LEAT_TRY(open_file(cursor, *cursor.file_number)))
        return std::optional<ctf::IndexEntry>();
    std::array<std::byte, trace::kIndexEntrySize> bytes{};
    const auto whole = std::span(bytes).first(cursor.entry_size);
    const std::uint64_t offset = trace::kIndexHeaderSize + cursor.next_entry * cursor.entry_size;
    const std::size_t filled = LEAT_TRY(read_at(cursor.file->index.get(), offset, whole));
    if (filled < whole.size()) return std::optional<ctf::IndexEntry>();
    return LEAT_TRY(trace::parse_index_entry(whole));
}

// False if there is none, or if it is in the newest one already.
Result<bool> ViewerSession::go_to_next_file(Cursor& cursor) {
    while (const auto next = next_file(cursor)) {
        if (!LEAT_TRY(open_file(cursor, *next))) continue;
        cursor.next_entry = 0;
        cursor.readable_end = 0;
        return true;
    }
    return false;
}

std::optional<std::uint64_t> ViewerSession::next_file(const Cursor& cursor) {
    const StreamView& view = cursor.view;
    std::uint64_t next = cursor.file_number ? *cursor.file_number + 1 : cursor.first_file;
    for (const auto& [place, end] : *view.former) {
        const std::uint64_t oldest = std::max(next, place->oldest());
        if (oldest < end && !place->are_gone()) return oldest;
        next = std::max(next, end);
    }
    if (!view.current_file) return std::nullopt;
    next = std::max({next, view.first_file, view.place->oldest()});
    return next <= *view.current_file ? std::optional(next) : std::nullopt;
}

// False: it has been rolled away, or its chunk has been cleared: then all that was in it has been skipped.
Result<bool> ViewerSession::open_file(Cursor& cursor, std::uint64_t number) {
    const bool is_current = number == cursor.view.current_file && cursor.view.current != nullptr;
    if (is_current) {
        cursor.file = cursor.view.current;
    } else {
        const FilePlace* const place = place_of(cursor.view, number);
        auto opened = place == nullptr ? Result<std::shared_ptr<const StreamFile::Open>>(not_found("it is gone"))
                                       : place->open(number);
        if (!opened && place != nullptr && number < place->oldest()) return false;
        // A chunk that was left may have been taken away by anybody.
        const bool is_left = number < cursor.view.first_file && !is_disk_full(opened);
        if (!opened && (is_left || opened.error().kind == ErrorKind::kNotFound)) {
            skip(cursor, number);
            return false;
        }
        cursor.file = LEAT_TRY(std::move(opened));
    }
    cursor.file_number = number;
    return true;
}

// The rest of its chunk has gone with it; but of those that the stream has left, each file is looked for.
void ViewerSession::skip(Cursor& cursor, std::uint64_t number) {
    const bool is_former = number < cursor.view.first_file;
    if (!is_former)
        cursor.next_entry = cursor.view.entries;
    else if (cursor.file_number != number)
        cursor.next_entry = 0;
    cursor.file_number = is_former ? number : cursor.view.current_file;
    cursor.readable_end = 0;
    cursor.file.reset();
}

// Null: it has been cleared, or it was long ago that the stream was there.
const FilePlace* ViewerSession::place_of(const StreamView& view, std::uint64_t number) {
    if (number >= view.first_file) return view.place.get();
    const auto former = std::ranges::upper_bound(*view.former, number, {}, &StreamView::FormerPlace::end);
    const bool is_there =
        former != view.former->end() && number >= former->place->oldest() && !former->place->are_gone();
    return is_there ? former->place.get() : nullptr;
}

ViewerSession::ServedPacket ViewerSession::packet(const wire::GetPacket& request) {
    const auto refused = [](std::uint32_t flags, wire::PacketStatus status = wire::PacketStatus::kError) {
        return ServedPacket{{status, 0, flags}, std::nullopt};
    };
    const auto found = cursors_.find(request.stream_id);
    if (found == cursors_.end()) return refused(0);
    Cursor& cursor = found->second;
    if (request.length == 0 || request.offset > cursor.readable_end ||
        request.length > cursor.readable_end - request.offset)
        return refused(0);
    // [live-protocol], "Get data packet": not before the metadata that it may need.
    if (metadata_.at(cursor.metadata_id).sent < cursor.needed_metadata) return refused(wire::kNewMetadata);
    if (cursor.file == nullptr) {
        const auto opened = cursor.file_number ? open_file(cursor, *cursor.file_number) : Result<bool>(false);
        if (is_disk_full(opened)) {
            note_shortage(opened.error());
            return refused(0, wire::PacketStatus::kRetry);
        }
        if (!opened || !*opened) return refused(0);
    }
    keep_open(request.stream_id, cursor);
    return {{wire::PacketStatus::kOk, request.length, 0},
            FileRange{cursor.file, cursor.file->data.get(), request.offset, request.length}};
}

ViewerSession::ServedMetadata ViewerSession::metadata(std::uint64_t stream_id) {
    const auto found = metadata_.find(stream_id);
    if (found == metadata_.end()) return {{0, wire::MetadataStatus::kError}, std::nullopt};
    MetadataCursor& cursor = found->second;
    if (cursor.sent == 0 && cursor.stream->is_finished() && cursor.stream->is_cleared()) return no_text(cursor);
    if (cursor.stream->end() <= cursor.sent || is_withheld(cursor))
        return {{0, wire::MetadataStatus::kNoNew}, std::nullopt};
    const auto found_text = cursor.stream->text();
    // It was cleared before it was read: what follows it comes from its beginning, if anything does.
    const bool is_cleared = !found_text && found_text.error().kind == ErrorKind::kNotFound;
    if (is_cleared && !cursor.stream->is_finished()) return {{0, wire::MetadataStatus::kNoNew}, std::nullopt};
    if (is_cleared) return {{0, wire::MetadataStatus::kError}, std::nullopt};
    if (is_disk_full(found_text)) {
        note_shortage(found_text.error());
        return {.reply = {0, wire::MetadataStatus::kNoNew}, .must_wait = true};
    }
    if (!found_text) {
        log("a viewer's metadata {}: {}", stream_id, found_text.error().message);
        return {{0, wire::MetadataStatus::kError}, std::nullopt};
    }
    // Text that has given way to another is passed over.
    cursor.sent = std::max(cursor.sent, found_text->begin);
    auto served = next_text(cursor, *found_text);
    if (served) return *std::move(served);
    log("a viewer's metadata {}: {}", stream_id, served.error().message);
    return {{0, wire::MetadataStatus::kError}, std::nullopt};
}

// A viewer that is told of a trace before it declares a stream gets its text when it does: babeltrace2 fails at the
// first beacon if the first text that it gets has none. But not for ever, as it does nothing else meanwhile.
bool ViewerSession::is_withheld(MetadataCursor& cursor) {
    constexpr unsigned kMostTimes = 50;  // babeltrace2 asks ten times a second
    return cursor.sent == 0 && !cursor.stream->declares_any() && cursor.times_withheld++ < kMostTimes;
}

// Once. It was told of the trace before.
ViewerSession::ServedMetadata ViewerSession::no_text(MetadataCursor& cursor) {
    if (std::exchange(cursor.is_told_of_none, true)) return {{0, wire::MetadataStatus::kError}, std::nullopt};
    const auto bytes = std::as_bytes(std::span(kNothingDeclared));
    return {{bytes.size(), wire::MetadataStatus::kOk}, std::nullopt, {bytes.begin(), bytes.end()}};
}

// The text that a viewer has may end in the middle of a packet, if what was sent again is packed anew: the rest of that
// packet is a packet for it, with a header of our own.
Result<ViewerSession::ServedMetadata> ViewerSession::next_text(MetadataCursor& cursor,
                                                               const MetadataStream::Text& text) {
    ServedMetadata nothing{{0, wire::MetadataStatus::kNoNew}, std::nullopt};
    const int fd = text.file->get();
    MetadataScan& scan = cursor.scan;
    if (std::exchange(cursor.version, text.version) != text.version) {
        cursor.is_found = false;
        scan = {};
    }
    std::uint64_t most = kMaxMetadataReply;
    wire::Bytes head;
    if (!cursor.is_found) {
        const std::uint64_t wanted = cursor.sent - text.begin;
        const std::uint64_t end = std::min(text.size, scan.bytes() + kMaxLook);
        LEAT_TRY(go_on(scan, fd, end, wanted));
        // As long as the text does not come so far, the viewer is where it was.
        if (scan.bytes() == end && scan.text() <= wanted) {
            nothing.must_go_on = end < text.size;
            return nothing;
        }
        if (scan.is_plain()) {
            cursor.offset = scan.bytes() - (scan.text() - wanted);
        } else if (scan.is_at_first_text()) {
            cursor.offset = scan.bytes() - ctf::kMetadataPacketHeaderSize;
        } else {
            cursor.offset = scan.bytes();
            const MetadataScan::Header header = scan.header_of_rest();
            head.assign(header.begin(), header.end());
            most = std::min(most, scan.packet_left());  // what follows it begins with a packet
        }
        cursor.is_found = true;
    }
    if (text.size <= cursor.offset) return nothing;
    const std::uint64_t end = std::min(text.size, cursor.offset + most);
    LEAT_TRY(go_on(scan, fd, end));
    // With whole packets alone a viewer can go on in a file that is packed anew.
    if (end < text.size && scan.whole_bytes() > cursor.offset) scan.go_back();
    FileRange range{text.file, fd, cursor.offset, scan.bytes() - cursor.offset};
    cursor.offset = scan.bytes();
    cursor.sent = text.begin + scan.text();
    return ServedMetadata{{head.size() + range.size, wire::MetadataStatus::kOk}, std::move(range), std::move(head)};
}

}  // namespace leat::relay
