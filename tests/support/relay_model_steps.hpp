// Which step comes next, and what it contains: see relay_model.hpp.
#pragma once

#include "support/relay_model.hpp"

namespace leat::test {

// Draws everything that a step needs from one source.
struct RelayModelSteps {
    RelayModel& model;
    const Draw& draw;

    static constexpr std::size_t kMaxParts = 6;    // at once
    static constexpr std::size_t kMaxViewers = 4;  // at once

    [[nodiscard]] bool is_one_in(std::uint64_t count) const { return draw(count) == count - 1; }
    template <class T, std::size_t kSize>
    [[nodiscard]] T one_of(const std::array<T, kSize>& values) const {
        return values[draw(kSize)];
    }

    ModelledPart* any_part() {
        std::vector<ModelledPart*> open;
        for (ModelledPart& part : model.parts_)
            if (!part.is_over) open.push_back(&part);
        return open.empty() ? nullptr : open[draw(open.size())];
    }
    ModelledStream* any_stream(bool is_metadata) {
        std::vector<ModelledStream*> open;
        for (ModelledStream& stream : model.streams_)
            if (!stream.is_closed && stream.is_metadata == is_metadata && !stream.part->is_over)
                open.push_back(&stream);
        return open.empty() ? nullptr : open[draw(open.size())];
    }
    ModelledViewer* any_viewer() {
        std::vector<ModelledViewer*> open;
        for (ModelledViewer& viewer : model.viewers_)
            if (viewer.peer.is_open()) open.push_back(&viewer);
        return open.empty() ? nullptr : open[draw(open.size())];
    }
    // A half-sent message is either finished now, or left as it is.
    bool is_free(ModelledPart& part) {
        if (part.is_held() && !is_one_in(2)) return false;
        if (part.is_held()) model.resume_control(part);
        return !part.is_over;
    }
    bool may_send_data(ModelledPart& part) {
        if (!part.data.is_open() && part.has_had_data) return false;
        if (!part.data_rest.empty() && is_one_in(2)) return false;
        model.resume_data(part);
        return !part.is_over;
    }

    // Producers.
    void begin_part() {
        std::size_t open = 0;
        for (const ModelledPart& part : model.parts_) open += part.is_over ? 0 : 1;
        if (open >= kMaxParts) return;
        static constexpr std::array<std::uint32_t, 8> kMinors{13, 13, 13, 12, 11, 10, 7, 4};
        static const std::array<std::string, 4> kHosts{"host-a", "host-a", "host-b", "host-z"};
        static const std::array<std::string, 5> kNames{"s1", "s1", "s2", "s1-20260101-000000", "old"};
        static const std::array<std::string, 10> kBases{
            "", "", "", "", "", "base", "base/deep", "s1-20260101-000000", "base/ust", "s9-20250101-000000"};
        RelayModel::NewPart wanted{.minor = one_of(kMinors),
                                   .host = one_of(kHosts),
                                   .name = one_of(kNames),
                                   .session_id = 100 + model.recordings_.size(),
                                   .daemon = static_cast<std::uint8_t>(1 + draw(2)),
                                   .is_live = !is_one_in(3),
                                   .asks_for_datagrams = is_one_in(5)};
        if (wanted.minor >= 11) wanted.base = one_of(kBases);
        if (wanted.minor >= 11 && is_one_in(8)) {
            wanted.is_snapshot = true;
            wanted.is_live = false;
        }
        ModelledRecording* of = nullptr;
        if (!model.recordings_.empty() && is_one_in(4)) of = &model.recordings_[draw(model.recordings_.size())];
        const bool is_alive = of != nullptr && std::ranges::any_of(model.parts_, [&](const ModelledPart& part) {
                                  return part.recording == of && !part.is_over && part.has_chunks();
                              });
        if (is_alive && wanted.minor >= 11 && is_one_in(2)) {
            wanted.of = of;
        } else if (of != nullptr && wanted.minor >= 11) {
            // Another producer's daemon and session, under another name.
            wanted.daemon = of->request.sessiond_uuid[0];
            wanted.session_id = of->request.sessiond_session_id;
            wanted.name = of->request.session_name == "s1" ? "s2" : "s1";
            wanted.base.clear();
        }
        static const std::array<std::string, 6> kBadBases{"../host-z", "archives", "index/x",
                                                          "a/../../b", ".hidden",  "s9-20250101-000000/ust/uid"};
        if (wanted.of == nullptr && wanted.minor >= 11 && is_one_in(12)) {
            wanted.base = one_of(kBadBases);
            wanted.must_succeed = false;
        }
        if (wanted.minor < 11 || wanted.of == nullptr) {
            if (is_one_in(20)) {
                wanted.host = one_of(std::array<std::string, 3>{"archives", "..", "a/b"});
                wanted.must_succeed = false;
            }
        }
        if (wanted.of == nullptr && is_part_of_another(wanted)) return;
        ModelledPart* const part = model.begin_part(wanted);
        if (part == nullptr || !model.is_good()) return;
        if (part->has_chunks() && !is_one_in(8)) begin_chunk(*part);
        if (!part->is_over && part->chunk != kNoChunk && !is_one_in(6)) add_trace(*part);
    }

    // A producer that states the same session and wants the same directory is another part of it.
    bool is_part_of_another(const RelayModel::NewPart& wanted) {
        const auto directory = [](const std::string& base, const std::string& name) {
            return base.empty() ? name + "-20260101-000000" : base;
        };
        return std::ranges::any_of(model.recordings_, [&](const ModelledRecording& other) {
            const auto& known = other.request;
            return known.sessiond_uuid[0] == wanted.daemon && known.sessiond_session_id == wanted.session_id &&
                   known.hostname == wanted.host &&
                   directory(known.base_path, known.session_name) == directory(wanted.base, wanted.name);
        });
    }

    void begin_chunk(ModelledPart& part) {
        ModelledRecording& recording = *part.recording;
        if (recording.chunk != kNoChunk && part.chunk == recording.chunk) return;
        if (recording.chunk != kNoChunk) return (void)model.create_chunk(part, recording.chunk);  // one of another part
        static const std::array<std::string, 7> kNames{"snapshot-1", "snapshot-1", "archives", "index",
                                                       "ust",        ".hidden",    "s1"};
        if (!part.is_snapshot) return (void)model.create_chunk(part, recording.next_chunk);
        const std::string name = one_of(kNames);
        part.is_loose = name == "archives" || name == "index" || name.starts_with('.');
        if (model.create_chunk(part, recording.next_chunk, name)) part.is_loose = false;
        if (part.is_loose && !part.is_over) model.cut_part(part, false);
    }

    std::string path_for(const ModelledPart& part, RelayModel::Expect& expect) {
        static const std::array<std::string, 6> kPaths{"ust/uid/0/64-bit", "ust/uid/0/64-bit", "ust/pid/app-1",
                                                       "ust/pid/app-2",    "kernel",           "ust/uid/1/32-bit"};
        std::string path = one_of(kPaths);
        static const std::array<std::string, 6> kBad{"archives/x", "ust/index", ".tmp/x",
                                                     "index",      "ust/uid",   "base/deep/ust"};
        if (is_one_in(15)) {
            path = one_of(kBad);
            expect = RelayModel::Expect::kEither;
        }
        if (part.has_chunks()) return path;
        // Old producers state the path from the output directory on.
        const auto& request = part.recording->request;
        std::string root = fmt::format("/{}/{}-20260101-000000", request.hostname, request.session_name);
        if (is_one_in(4)) {
            expect = RelayModel::Expect::kEither;
            const ModelledPart& other = model.parts_[draw(model.parts_.size())];
            if (!other.directory.empty()) root = "/" + other.directory;
            if (is_one_in(3)) root = "/host-a/s9-20250101-000000";
            if (is_one_in(6)) root = "/host-a";
        }
        return root + "/" + path;
    }

    void add_trace(ModelledPart& part) {
        RelayModel::Expect expect = RelayModel::Expect::kOk;
        const std::string path = path_for(part, expect);
        const auto streams = static_cast<unsigned>(draw(3) + 1);
        const bool is_limited = is_one_in(6);
        const std::uint64_t size = is_limited ? 300 + draw(1000) : 0;
        const std::uint64_t count = is_limited ? draw(4) : 0;
        for (unsigned i = 0; i < streams && model.is_good() && !part.is_over; ++i)
            model.add_stream(part, {.path = path,
                                    .channel = fmt::format("channel0_{}", i),
                                    .file_size = size,
                                    .file_count = count,
                                    .first_number = part.is_snapshot && is_one_in(4) ? 5U : 0U,
                                    .expect = expect});
        if (part.is_over || !model.is_good() || is_one_in(10)) return;
        ModelledStream* const metadata =
            model.add_stream(part, {.path = path, .channel = "metadata", .expect = expect});
        if (metadata != nullptr && !is_one_in(5)) model.send_metadata(*metadata, 1);
        if (!part.is_snapshot && !part.is_over && !is_one_in(8)) model.publish_streams(part);
    }
    void add_another_trace() {
        ModelledPart* const part = any_part();
        if (part == nullptr || !is_free(*part)) return;
        if (part->has_chunks() && part->chunk == kNoChunk) begin_chunk(*part);
        if (!part->is_over && part->chunk != kNoChunk && model.is_good()) add_trace(*part);
    }
    void publish() {
        ModelledPart* const part = any_part();
        if (part != nullptr && !part->is_snapshot && is_free(*part)) model.publish_streams(*part);
    }

    RelayModel::NewPacket any_packet() {
        RelayModel::NewPacket packet{.size = static_cast<std::uint32_t>(32 + draw(300))};
        if (is_one_in(12)) packet.size = static_cast<std::uint32_t>(20'000 + draw(60'000));
        if (is_one_in(3)) packet.padding = static_cast<std::uint32_t>(draw(200));
        if (is_one_in(40)) packet.padding = 5000;
        return packet;
    }
    bool may_send(ModelledStream& stream) {
        return !stream.is_out && (stream.part->chunk != kNoChunk || !stream.part->has_chunks());
    }
    void send_data() {
        ModelledStream* const stream = any_stream(false);
        if (stream == nullptr || !may_send(*stream) || !may_send_data(*stream->part)) return;
        if (stream->next_data > stream->next_index + 20 && !stream->part->is_snapshot) return;
        const auto packet = any_packet();
        std::uint64_t upto = ~std::uint64_t{0};
        if (is_one_in(4))
            upto = is_one_in(4) ? 1 + draw(wire::kSizeOf<wire::DataHeader>)
                                : wire::kSizeOf<wire::DataHeader> + draw(packet.size);
        model.send_data(*stream, packet, upto);
    }
    void send_index() {
        ModelledStream* const stream = any_stream(false);
        if (stream == nullptr || !may_send(*stream) || stream->part->is_snapshot || !is_free(*stream->part)) return;
        if (stream->next_index > stream->next_data + 20) return;
        model.send_index(*stream, any_packet(), is_one_in(8) ? 1 + draw(100) : ~std::uint64_t{0});
    }
    void send_both() {
        ModelledStream* const stream = any_stream(false);
        if (stream == nullptr || !may_send(*stream) || stream->part->is_snapshot) return;
        if (!is_free(*stream->part) || !may_send_data(*stream->part)) return;
        const auto packet = any_packet();
        const bool is_index_first = is_one_in(3);
        if (is_index_first) model.send_index(*stream, packet);
        if (!stream->part->is_over) model.send_data(*stream, packet);
        if (!is_index_first && !stream->part->is_over) model.send_index(*stream, packet);
    }
    void lose_packets() {
        ModelledStream* const stream = any_stream(false);
        if (stream == nullptr || !may_send(*stream) || stream->part->is_snapshot || stream->is_rotating) return;
        if (stream->next_data != stream->next_index || stream->packets.empty()) return;
        const std::uint64_t count = is_one_in(4) ? 5000 : 1 + draw(5);
        model.tell("part {}: {} packets of stream {} are never sent", stream->part->id, count, stream->uid);
        stream->next_data += count;
        stream->next_index += count;
    }
    void send_burst() {
        ModelledStream* const stream = any_stream(false);
        if (stream == nullptr || !may_send(*stream) || stream->part->is_snapshot || model.is_disk_full_) return;
        ModelledPart& part = *stream->part;
        if (part.is_held() || !may_send_data(part)) return;
        model.send_burst(*stream, 60);
    }
    void send_datagrams() {
        ModelledStream* const stream = any_stream(false);
        if (stream == nullptr || !may_send(*stream) || !stream->part->has_datagrams) return;
        if (stream->part->is_snapshot || !is_free(*stream->part) || !may_send_data(*stream->part)) return;
        const RelayModel::NewPacket packet{static_cast<std::uint32_t>(32 + draw(6000))};
        model.send_datagrams(*stream, packet, draw);
        if (stream->next_index + 1 == stream->next_data && !is_one_in(4)) model.send_index(*stream, packet);
    }
    void send_beacon() {
        ModelledStream* const stream = any_stream(false);
        if (stream == nullptr || stream->part->is_snapshot || !is_free(*stream->part)) return;
        if (stream->next_index >= stream->next_data) model.send_beacon(*stream);
    }
    void ask_pending() {
        ModelledStream* const stream = any_stream(false);
        if (stream == nullptr || stream->packets.empty() || !is_free(*stream->part)) return;
        if (is_one_in(2)) return model.complete(*stream);
        model.ask_pending(*stream, stream->packets.begin()->first + draw(stream->packets.size()));
    }
    void send_metadata() {
        ModelledStream* const stream = any_stream(true);
        if (stream == nullptr || stream->is_out || !is_free(*stream->part)) return;
        if (stream->part->is_over) return;
        const std::uint64_t upto = is_one_in(4) ? 1 + draw(300) : ~std::uint64_t{0};
        model.send_metadata(*stream, static_cast<unsigned>(1 + draw(3)), upto);
        if (is_one_in(3) && !stream->part->is_held()) model.ask_quiescent(*stream);
    }
    void reset_metadata() {
        ModelledStream* const stream = any_stream(true);
        if (stream == nullptr || stream->is_out || stream->part->is_live || stream->part->minor < 8) return;
        if (is_free(*stream->part)) model.reset_metadata(*stream);
    }

    // Does what `lttng rotate`, `clear` and `stop` do: it takes all parts of a session, with commands for each.
    void rotate() {
        ModelledPart* const chosen = any_part();
        if (chosen == nullptr || !chosen->has_chunks() || chosen->chunk == kNoChunk || chosen->is_snapshot) return;
        ModelledRecording& recording = *chosen->recording;
        std::vector<ModelledPart*> parts;
        for (ModelledPart& part : model.parts_)
            if (part.recording == &recording && !part.is_over && part.chunk == chosen->chunk) parts.push_back(&part);
        for (ModelledPart* part : parts) {
            if (!is_free(*part) || !is_settled_for_rotation(*part)) return;
            if (part->is_snapshot) return;
        }
        const std::uint64_t old = chosen->chunk;
        std::optional<std::uint64_t> next;
        if (!is_one_in(4)) next = recording.next_chunk;
        static constexpr std::array<std::optional<wire::ChunkCommand>, 4> kCommands{
            wire::ChunkCommand::kMoveToArchives, wire::ChunkCommand::kDelete, wire::ChunkCommand::kDelete,
            wire::ChunkCommand::kNone};
        const auto command = one_of(kCommands);
        const std::uint64_t order = draw(6);
        const std::uint64_t ahead = draw(3);
        // Leaves every chunk while packets are on their way. A producer that does this cannot know where the chunks
        // end.
        const bool is_early = !next && is_one_in(3);
        for (ModelledPart* part : parts) {
            if (!model.is_good() || part->is_over) continue;
            part->is_rotated = true;
            if (is_early) make_loose(*part);
            if (next && !model.create_chunk(*part, *next)) return;
            if (!next) part->chunk = recording.chunk = kNoChunk;
            for (std::uint64_t i = 0; i < 3 && model.is_good() && !part->is_over; ++i) {
                switch ((i + order) % 3) {
                    case 0:
                        model.rotate_data(*part, next, [&](const ModelledStream& stream) {
                            const std::uint64_t sent = std::max(stream.next_data, stream.next_index);
                            if (!next) return is_early ? stream.next_index : sent;
                            return order < 3 ? sent + ahead : std::max(stream.next_index, sent - std::min(sent, ahead));
                        });
                        break;
                    case 1:
                        model.rotate_metadata(*part, next);
                        break;
                    default:
                        model.close_chunk(*part, old, command);
                }
                if (next) recording.chunk = *next;
            }
        }
    }
    void make_loose(ModelledPart& part) {
        part.is_loose = true;
        for (ModelledStream* stream : model.streams_of(part)) stream->is_loose = true;
    }
    // One rotation at a time: everything before the last one must be done.
    bool is_settled_for_rotation(ModelledPart& part) {
        for (ModelledStream* stream : model.streams_of(part)) {
            if (!stream->is_rotating || stream->is_closed) continue;
            if (stream->is_loose || stream->next_index < stream->rotates_at || stream->next_data < stream->rotates_at)
                return false;
            if (!part.data_rest.empty()) model.resume_data(part);
            const auto after = stream->packets.lower_bound(stream->rotates_at);
            const std::uint64_t last = after == stream->packets.begin() ? wire::kNoPacket : std::prev(after)->first;
            if (part.is_over || !model.wait_until_stored(*stream, last)) return false;
            if (last + 1 < stream->rotates_at) return false;  // it waits for packets that were lost
            model.note_rotation(*stream);
        }
        return true;
    }
    // After a stop, the session goes on in a new chunk.
    void start_again() {
        ModelledPart* const part = any_part();
        if (part == nullptr || !part->has_chunks() || part->chunk != kNoChunk || part->is_snapshot) return;
        if (!part->is_rotated || !is_free(*part) || !is_settled_for_rotation(*part)) return;
        begin_chunk(*part);
        if (part->is_over || part->chunk == kNoChunk || !model.is_good()) return;
        model.rotate_data(*part, part->chunk,
                          [](const ModelledStream& stream) { return std::max(stream.next_data, stream.next_index); });
        if (!part->is_over && model.is_good()) model.rotate_metadata(*part, part->chunk);
    }
    void ask_for_chunk() {
        ModelledPart* const part = any_part();
        if (part == nullptr || !part->has_chunks() || !is_free(*part)) return;
        wire::Bytes reply;
        const wire::TraceChunkExists message{part->recording->next_chunk - draw(2)};
        model.request(*part, wire::encode_request(RelayCommand::kTraceChunkExists, message), 5, reply,
                      "TRACE_CHUNK_EXISTS");
    }

    // Closes the streams of a process that ends, or the metadata only.
    void close_streams() {
        ModelledStream* const chosen = any_stream(is_one_in(2));
        if (chosen == nullptr || !is_free(*chosen->part)) return;
        for (ModelledStream* stream : model.streams_of(*chosen->part)) {
            if (stream->is_closed || stream->path != chosen->path || (chosen->is_metadata && !stream->is_metadata))
                continue;
            if (stream->is_rotating || stream->part->is_over || !model.is_good()) continue;
            model.complete(*stream);
            if (!stream->part->is_over && model.is_good()) model.close_stream(*stream);
        }
    }
    void end_part() {
        ModelledPart* const part = any_part();
        if (part == nullptr) return;
        model.resume_control(*part);
        if (part->is_over || !is_settled_for_rotation(*part)) return;
        model.end_part(*part);
    }
    void cut_part() {
        ModelledPart* const part = any_part();
        if (part != nullptr) model.cut_part(*part, is_one_in(2));
    }
    void cut_data() {
        ModelledPart* const part = any_part();
        if (part == nullptr || !part->data.is_open()) return;
        model.tell("part {}: its data connection is cut", part->id);
        part->data.cut(is_one_in(2));
        part->data_rest.clear();
        for (ModelledStream* stream : model.streams_of(*part)) {
            stream->is_loose = true;
            stream->is_out = true;  // nothing more will come
        }
    }
    void break_protocol() {
        ModelledPart* const part = any_part();
        if (part == nullptr) return;
        const auto id = part->recording->next_chunk;
        struct Later {
            std::uint32_t since;
            RelayCommand command;
            wire::Bytes bytes;
        };
        const std::array later{
            Later{8, RelayCommand::kResetMetadata,
                  wire::encode_request(RelayCommand::kResetMetadata, wire::ResetMetadata{1, 1})},
            Later{11, RelayCommand::kCreateTraceChunk,
                  wire::encode_request(RelayCommand::kCreateTraceChunk, wire::CreateTraceChunk{.chunk_id = id})},
            Later{11, RelayCommand::kCloseTraceChunk,
                  wire::encode_request(RelayCommand::kCloseTraceChunk,
                                       wire::CloseTraceChunk{.chunk_id = 0, .command = wire::ChunkCommand::kDelete})},
            Later{11, RelayCommand::kTraceChunkExists,
                  wire::encode_request(RelayCommand::kTraceChunkExists, wire::TraceChunkExists{0})},
            Later{12, RelayCommand::kGetConfiguration,
                  wire::encode_request(RelayCommand::kGetConfiguration, wire::GetConfiguration{})}};
        const Later& chosen = later[draw(later.size())];
        if (part->minor < chosen.since)
            model.send_unknown_version_command(*part, chosen.command, chosen.bytes, true);
        else
            model.send_unknown_version_command(
                *part, RelayCommand::kVersion,
                wire::encode_request(RelayCommand::kVersion, wire::Version{.minor = is_one_in(2) ? 4U : 13U}), false);
    }

    // Viewers.
    void begin_viewer() {
        std::size_t open = 0;
        for (const ModelledViewer& viewer : model.viewers_) open += viewer.peer.is_open() ? 1 : 0;
        if (open >= kMaxViewers) return;
        if (ModelledViewer* const viewer = model.begin_viewer()) attach(*viewer);
    }
    void attach(ModelledViewer& viewer) {
        ModelledPart* const part = any_part();
        if (part == nullptr || viewer.waits_for_news || !model.is_good()) return;
        model.attach(viewer, *part, is_one_in(3) ? wire::Seek::kLast : wire::Seek::kBeginning);
    }
    void attach_again() {
        if (ModelledViewer* const viewer = any_viewer()) attach(*viewer);
    }
    void read() {
        ModelledViewer* const viewer = any_viewer();
        if (viewer == nullptr) return;
        if (viewer->waits_for_news) return model.take_news(*viewer);
        if (is_one_in(3)) return model.ask_for_news(*viewer);
        model.read_all(*viewer);
    }
    void leave() {
        ModelledViewer* const viewer = any_viewer();
        if (viewer == nullptr) return;
        if (is_one_in(2) && !viewer->attached.empty() && !viewer->waits_for_news)
            return model.detach(*viewer, *viewer->attached.begin()->second);
        model.tell("viewer {} goes", viewer->id);
        // This may be in the middle of a request.
        const wire::Bytes bytes = live_request(LiveCommand::kListSessions);
        if (is_one_in(2))
            (void)viewer->peer.send(UntrustedBytes(bytes).first(static_cast<std::size_t>(draw(bytes.size()))));
        model.forget_viewer(*viewer);
    }

    // Faults.
    void kill_relay() { model.kill_relay(); }
    void stop_relay() { model.stop_relay(); }
    void fill_disk() { model.fill_disk(); }
    void check_disk() { model.check_disk(); }

    void take() {
        struct Step {
            std::uint64_t weight;
            void (RelayModelSteps::*take)();
        };
        static constexpr std::array kSteps{
            Step{12, &RelayModelSteps::begin_part},    Step{6, &RelayModelSteps::add_another_trace},
            Step{3, &RelayModelSteps::publish},        Step{30, &RelayModelSteps::send_data},
            Step{25, &RelayModelSteps::send_index},    Step{30, &RelayModelSteps::send_both},
            Step{2, &RelayModelSteps::lose_packets},   Step{2, &RelayModelSteps::send_burst},
            Step{4, &RelayModelSteps::send_datagrams}, Step{12, &RelayModelSteps::send_beacon},
            Step{14, &RelayModelSteps::ask_pending},   Step{14, &RelayModelSteps::send_metadata},
            Step{2, &RelayModelSteps::reset_metadata}, Step{10, &RelayModelSteps::rotate},
            Step{4, &RelayModelSteps::start_again},    Step{3, &RelayModelSteps::ask_for_chunk},
            Step{6, &RelayModelSteps::close_streams},  Step{4, &RelayModelSteps::end_part},
            Step{3, &RelayModelSteps::cut_part},       Step{1, &RelayModelSteps::cut_data},
            Step{1, &RelayModelSteps::break_protocol}, Step{6, &RelayModelSteps::begin_viewer},
            Step{4, &RelayModelSteps::attach_again},   Step{24, &RelayModelSteps::read},
            Step{2, &RelayModelSteps::leave},          Step{1, &RelayModelSteps::kill_relay},
            Step{1, &RelayModelSteps::stop_relay},     Step{4, &RelayModelSteps::fill_disk},
            Step{6, &RelayModelSteps::check_disk},
        };
        std::uint64_t all = 0;
        for (const Step& step : kSteps) all += step.weight;
        std::uint64_t chosen = draw(all);
        for (const Step& step : kSteps) {
            if (chosen < step.weight) return (this->*step.take)();
            chosen -= step.weight;
        }
    }
};

inline void RelayModel::step(const Draw& draw) {
    ++steps_;
    if (!is_good() || !is_running_) return;
    tell("step {}", steps_);
    RelayModelSteps{*this, draw}.take();
    // A full disk does not last, because producers wait for it.
    if (is_disk_full_ && draw(4) == 3) empty_disk();
    check_alive();
}

inline void RelayModel::finish(const Draw& draw) {
    if (!is_good() || !is_running_) return;
    tell("the end");
    empty_disk();
    RelayModelSteps steps{*this, draw};
    const std::uint64_t how = draw(4);
    if (how == 0) return stop_relay();
    if (how == 1) return kill_relay();
    for (ModelledPart& part : parts_) {
        if (part.is_over || !is_good()) continue;
        resume_control(part);
        if (!part.is_over && is_good() && steps.is_settled_for_rotation(part)) end_part(part);
        if (!part.is_over) cut_part(part, false);
    }
    for (ModelledViewer& viewer : viewers_) {
        if (!is_good()) return;
        if (viewer.waits_for_news) take_news(viewer);
        read_all(viewer);
    }
    for (ModelledViewer& viewer : viewers_) forget_viewer(viewer);
    if (!is_good()) return;
    // A peer that comes now is served as always.
    ModelledPart* const part =
        begin_part({.host = "host-c", .name = fmt::format("fresh-{}", steps_), .session_id = 9999});
    if (part == nullptr) return;
    create_chunk(*part, 0);
    const auto streams = add_trace(*part, "ust/uid/0/64-bit", 1);
    if (!is_good() || streams.size() != 2) return violate("refused", "a fresh producer is not served");
    ModelledViewer* const viewer = begin_viewer();
    if (viewer == nullptr) return;
    attach(*viewer, *part, wire::Seek::kBeginning);
    send_data(*streams[0], {});
    send_index(*streams[0], {});
    complete(*streams[0]);
    const std::uint64_t before = counts_.viewed;
    read_all(*viewer);
    if (is_good() && counts_.viewed != before + 1) violate("visible", "a fresh viewer is not told of a fresh packet");
    if (is_good()) end_part(*part);
    forget_viewer(*viewer);
    if (!is_good()) return;
    if (how == 2) {
        check_descriptors();
        for (ModelledPart& over : parts_)
            if (is_good()) settle(over);
    }
    check_disk();
}

}  // namespace leat::test
