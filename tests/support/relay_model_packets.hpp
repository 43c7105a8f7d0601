// How producers send into their streams, and how they rotate and end them: see relay_model.hpp.
#pragma once

#include "support/relay_model_producers.hpp"

namespace leat::test {

// Packets -------------------------------------------------------------------------------------------------------------

inline ModelledPacket& RelayModel::packet_of(ModelledStream& stream, std::uint64_t number, const NewPacket& wanted) {
    const auto [found, is_new] = stream.packets.try_emplace(number);
    ModelledPacket& packet = found->second;
    if (!is_new) return packet;
    packet.size = std::max<std::uint32_t>(wanted.size, sizeof(PacketTag));
    packet.padding = wanted.padding;
    packet.begin = std::max(stream.time, now_);
    now_ += 10;
    packet.end = stream.time = packet.begin + 5;
    packet.chunk = stream.chunk_of(number);
    return packet;
}

inline wire::Bytes RelayModel::data_bytes(const ModelledStream& stream, std::uint64_t number,
                                          const ModelledPacket& packet) {
    wire::Bytes bytes = wire::encode(wire::DataHeader{
        .stream_id = stream.handle, .net_seq_num = number, .data_size = packet.size, .padding_size = packet.padding});
    const wire::Bytes content =
        make_packet({.stream = stream.uid, .number = number, .size = packet.size, .padding = packet.padding});
    bytes.insert(bytes.end(), content.begin(), content.end());
    return bytes;
}

inline void RelayModel::send_data(ModelledStream& stream, const NewPacket& wanted, std::uint64_t upto) {
    ModelledPart& part = *stream.part;
    if (!is_good() || !open_data(part)) return;
    if (!part.data_rest.empty()) resume_data(part);
    const std::uint64_t number = stream.next_data++;
    const ModelledPacket& packet = packet_of(stream, number, wanted);
    const wire::Bytes bytes = data_bytes(stream, number, packet);
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(upto, bytes.size()));
    tell("part {}: data of stream {} packet {}: {} + {} bytes{}", part.id, stream.uid, number, packet.size,
         packet.padding, now == bytes.size() ? "" : fmt::format(", of which {} with its header", now));
    const auto done = [this, &stream, number] {
        stream.packets[number].has_data = true;
        if (stream.packets[number].has_index) ++counts_.packets;
    };
    if (!hear(part, part.data.send(UntrustedBytes(bytes).first(now)), "data")) return;
    if (now == bytes.size()) return done();
    part.data_rest.assign(bytes.begin() + static_cast<std::ptrdiff_t>(now), bytes.end());
    part.data_done = done;
}

inline void RelayModel::resume_data(ModelledPart& part) {
    const wire::Bytes rest = std::exchange(part.data_rest, {});
    if (rest.empty() || !is_good()) return;
    tell("part {}: the other {} bytes of data", part.id, rest.size());
    if (hear(part, part.data.send(rest), "data")) part.data_done();
}

inline void RelayModel::send_datagrams(ModelledStream& stream, const NewPacket& wanted, const Draw& draw) {
    ModelledPart& part = *stream.part;
    stream.is_loose = true;
    const std::uint64_t number = stream.next_data++;
    ModelledPacket& packet = packet_of(stream, number, {wanted.size, 0});
    tell("part {}: datagrams of stream {} packet {}: {} bytes", part.id, stream.uid, number, packet.size);
    const wire::Bytes content = make_packet({.stream = stream.uid, .number = number, .size = packet.size});
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(ports_.data);
    std::vector<std::uint32_t> offsets;
    for (std::uint32_t at = 0; at < packet.size; at += wire::kDatagramPiece) offsets.push_back(at);
    if (draw(3) == 0) std::ranges::reverse(offsets);
    if (draw(3) == 0) offsets.push_back(offsets.front());
    if (draw(6) == 0) offsets.pop_back();
    for (const std::uint32_t offset : offsets) {
        wire::Bytes bytes = wire::encode(wire::DatagramHeader{
            .stream_id = stream.handle, .net_seq_num = number, .packet_size = packet.size, .offset = offset});
        const auto piece = UntrustedBytes(content).subspan(offset);
        bytes.insert(bytes.end(), piece.begin(),
                     piece.begin() + static_cast<std::ptrdiff_t>(std::min(piece.size(), wire::kDatagramPiece)));
        ::sendto(socket.get(), bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&address),  // NOLINT
                 sizeof address);
    }
    packet.has_data = true;
}

inline wire::SendIndex RelayModel::index_of(const ModelledStream& stream, std::uint64_t number,
                                            const ModelledPacket& packet) const {
    return {.stream_id = stream.handle,
            .net_seq_num = number,
            .entry = {.packet_size = 8 * packet.all(),
                      .content_size = 8 * packet.size,
                      .timestamp_begin = packet.begin,
                      .timestamp_end = packet.end,
                      .events_discarded = 0,
                      .stream_class_id = 7,
                      .stream_instance_id = stream.uid,
                      .packet_seq_num = number}};
}

inline void RelayModel::note_index(ModelledStream& stream, std::uint64_t number) {
    ModelledPacket& packet = stream.packets[number];
    packet.has_index = true;
    if (packet.has_data) ++counts_.packets;
    // The relay does not wait long for a packet that may come as datagrams, even if it comes by the connection.
    if (stream.part->has_datagrams && !packet.has_data) stream.is_loose = true;
}

inline void RelayModel::send_index(ModelledStream& stream, const NewPacket& wanted, std::uint64_t upto) {
    ModelledPart& part = *stream.part;
    if (part.is_over || !is_good()) return;
    if (part.is_held()) resume_control(part);
    const std::uint64_t number = stream.next_index++;
    ModelledPacket& packet = packet_of(stream, number, wanted);
    for (const ModelledStream& other : streams_) {
        if (!other.is_metadata || other.is_closed || other.part != &part || other.path != stream.path) continue;
        packet.metadata = other.uid;
        packet.units = other.generations.back().sent;
    }
    const auto bytes = wire::encode_request(RelayCommand::kSendIndex, index_of(stream, number, packet), part.minor);
    if (upto < bytes.size()) {
        tell("part {}: {} bytes of SEND_INDEX of stream {} packet {}", part.id, upto, stream.uid, number);
        const auto now = static_cast<std::size_t>(upto);
        if (!hear(part, part.control.send(UntrustedBytes(bytes).first(now)), "SEND_INDEX")) return;
        part.control_rest.assign(bytes.begin() + static_cast<std::ptrdiff_t>(now), bytes.end());
        part.control_done = [this, &part, &stream, number] {
            wire::Bytes reply;
            if (!hear(part, part.control.receive(4, reply), "SEND_INDEX")) return;
            if (wire::parse<wire::CodeReply>(reply)->code == wire::RelayCode::kOk) note_index(stream, number);
        };
        return;
    }
    tell("part {}: SEND_INDEX of stream {} packet {}", part.id, stream.uid, number);
    if (request_code(part, bytes, "SEND_INDEX") == wire::RelayCode::kOk) note_index(stream, number);
}

inline void RelayModel::resume_control(ModelledPart& part) {
    const wire::Bytes rest = std::exchange(part.control_rest, {});
    if (rest.empty() || !is_good()) return;
    tell("part {}: the other {} bytes of its command", part.id, rest.size());
    if (hear(part, part.control.send(rest), "the rest of a command")) part.control_done();
}

inline void RelayModel::send_beacon(ModelledStream& stream) {
    ModelledPart& part = *stream.part;
    stream.time = std::max(stream.time, now_) + 3;
    now_ = stream.time + 1;
    const bool has_none = stream.packets.empty();
    tell("part {}: a beacon of stream {} at {}", part.id, stream.uid, stream.time);
    const wire::SendIndex beacon{
        .stream_id = stream.handle,
        .net_seq_num = has_none ? wire::kNoPacket : stream.next_index - 1,
        .entry = {.timestamp_end = stream.time, .stream_class_id = 7, .stream_instance_id = 0, .packet_seq_num = 0}};
    request_code(part, wire::encode_request(RelayCommand::kSendIndex, beacon, part.minor), "a beacon");
}

inline std::optional<bool> RelayModel::ask_pending(ModelledStream& stream, std::uint64_t number) {
    const wire::DataPending message{stream.handle, number};
    const auto code =
        request_code(*stream.part, wire::encode_request(RelayCommand::kDataPending, message), "DATA_PENDING");
    if (!code) return std::nullopt;
    if (*code != wire::RelayCode::kNotPending) return false;
    tell("part {}: DATA_PENDING of stream {} up to {}: stored", stream.part->id, stream.uid, number);
    bool is_news = false;
    for (auto& [at, packet] : stream.packets) {
        if (at > number || packet.is_stored || stream.is_loose || !packet.has_data) continue;
        if (!packet.has_index && !stream.part->is_snapshot) continue;
        packet.is_stored = is_news = true;
        ++counts_.stored;
    }
    if (stream.is_rotating && number + 1 >= stream.rotates_at) note_rotation(stream);
    if (is_news) check_disk();
    return true;
}

inline bool RelayModel::wait_until_stored(ModelledStream& stream, std::uint64_t number) {
    const auto deadline = std::chrono::steady_clock::now() + ModelPeer::kPatience;
    for (;;) {
        const auto is_stored = ask_pending(stream, number);
        if (!is_stored || *is_stored) return is_stored.has_value();
        // The relay never sends anything on this connection, so it has closed it.
        if (stream.part->data.has_input()) return hear(*stream.part, ModelPeer::Outcome::kClosed, "data");
        if (std::chrono::steady_clock::now() > deadline) {  // moment: patience
            violate(was_disk_full_ ? "full-disk" : "answer", "stream {}: packet {} is pending for {} s", stream.uid,
                    number, ModelPeer::kPatience.count());
            return false;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(200));  // moment: between two looks
        empty_disk();
    }
}

inline void RelayModel::complete(ModelledStream& stream) {
    ModelledPart& part = *stream.part;
    if (part.is_over || stream.is_closed || stream.is_metadata) return;
    if (part.is_held()) resume_control(part);
    if (!part.data_rest.empty()) resume_data(part);
    while (is_good() && !part.is_over && stream.next_data < stream.next_index) {
        const std::uint64_t before = stream.next_data;
        send_data(stream, {});
        if (stream.next_data == before) break;
    }
    while (!part.is_snapshot && is_good() && !part.is_over && stream.next_index < stream.next_data)
        send_index(stream, {});
    if (stream.packets.empty() || stream.is_loose || part.is_over) return;
    if (part.data.is_open()) wait_until_stored(stream, stream.packets.rbegin()->first);
}

inline void RelayModel::send_burst(ModelledStream& stream, unsigned packets) {
    ModelledPart& part = *stream.part;
    complete(stream);
    if (!is_good() || part.is_over || !open_data(part)) return;
    const std::uint64_t first = stream.next_index;
    tell("part {}: SEND_INDEX of stream {} packets {} to {}", part.id, stream.uid, first, first + packets - 1);
    is_quiet_ = true;
    for (unsigned i = 0; i < packets && is_good() && !part.is_over; ++i) send_index(stream, {.size = 300});
    is_quiet_ = false;
    if (!is_good() || part.is_over) return;
    wire::Bytes all;
    tell("part {}: data of stream {} packets {} to {}, at once", part.id, stream.uid, first, stream.next_index - 1);
    for (; stream.next_data < stream.next_index; ++stream.next_data) {
        ModelledPacket& packet = packet_of(stream, stream.next_data, {});
        const wire::Bytes bytes = data_bytes(stream, stream.next_data, packet);
        all.insert(all.end(), bytes.begin(), bytes.end());
        packet.has_data = true;
    }
    if (!hear(part, part.data.send(all), "data")) return;
    counts_.packets += packets;
    constexpr int kQuestions = 40;
    for (int i = 0; i < kQuestions; ++i)
        if (ask_pending(stream, first).value_or(true)) break;
}

// Metadata ------------------------------------------------------------------------------------------------------------

// Sends units that this generation does not have. Units of earlier generations come first, unchanged.
inline void RelayModel::send_metadata(ModelledStream& stream, unsigned units, std::uint64_t upto) {
    ModelledPart& part = *stream.part;
    if (part.is_over || !is_good()) return;
    if (part.is_held()) resume_control(part);
    ModelledStream::Generation& generation = stream.generations.back();
    wire::Bytes text;
    std::uint32_t padding = 0;
    for (unsigned i = 0; i < units; ++i) {
        const std::uint32_t number = generation.sent + i;
        if (number == stream.units.size())
            stream.units.push_back(
                {40 + static_cast<std::uint32_t>((now_ * 7 + number) % 300), number % 3 == 0 ? 33U : 0U});
        text.resize(text.size() + padding);
        padding = stream.units[number].padding;
        const wire::Bytes unit = make_unit({.generation = static_cast<std::uint32_t>(stream.generations.size() - 1),
                                            .stream = stream.uid,
                                            .number = number,
                                            .size = stream.units[number].size,
                                            .padding = padding});
        text.insert(text.end(), unit.begin(), unit.end());
    }
    const wire::Bytes head = wire::encode(wire::SendMetadata{stream.handle, padding});
    wire::Bytes bytes = wire::encode(
        wire::ControlHeader{.data_size = head.size() + text.size(), .command = RelayCommand::kSendMetadata});
    bytes.insert(bytes.end(), head.begin(), head.end());
    bytes.insert(bytes.end(), text.begin(), text.end());
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(upto, bytes.size()));
    tell("part {}: {} bytes of SEND_METADATA ({}) of stream {}: {} units from {}", part.id, now, bytes.size(),
         stream.uid, units, generation.sent);
    const auto done = [&generation, units] { generation.sent += units; };
    if (!hear(part, part.control.send(UntrustedBytes(bytes).first(now)), "SEND_METADATA")) return;
    if (now == bytes.size()) return done();
    part.control_rest.assign(bytes.begin() + static_cast<std::ptrdiff_t>(now), bytes.end());
    part.control_done = done;
}

inline void RelayModel::resend_metadata(ModelledStream& stream) {
    if (!stream.units.empty()) send_metadata(stream, static_cast<unsigned>(stream.units.size()));
}

inline void RelayModel::ask_quiescent(ModelledStream& stream) {
    const wire::IdRequest message{stream.handle};
    const auto bytes = wire::encode_request(RelayCommand::kQuiescentControl, message);
    if (request_code(*stream.part, bytes, "QUIESCENT_CONTROL") != wire::RelayCode::kOk) return;
    tell("part {}: QUIESCENT_CONTROL of stream {}", stream.part->id, stream.uid);
    stream.generations.back().stored = stream.generations.back().sent;
    check_disk();
}

inline void RelayModel::reset_metadata(ModelledStream& stream) {
    const wire::ResetMetadata message{stream.handle, stream.generations.size()};
    tell("part {}: RESET_METADATA of stream {}", stream.part->id, stream.uid);
    if (stream.part->is_held()) resume_control(*stream.part);
    stream.generations.back().may_be_gone = true;
    stream.generations.push_back({.chunk = stream.generations.back().chunk});
    const auto bytes = wire::encode_request(RelayCommand::kResetMetadata, message);
    if (request_code(*stream.part, bytes, "RESET_METADATA") == wire::RelayCode::kOk) resend_metadata(stream);
}

// Rotations -----------------------------------------------------------------------------------------------------------

inline void RelayModel::note_rotation(ModelledStream& stream) {
    stream.is_rotating = false;
    stream.chunk = stream.next_chunk;
}

inline void RelayModel::rotate_data(ModelledPart& part, std::optional<std::uint64_t> chunk,
                                    const std::function<std::uint64_t(const ModelledStream&)>& position) {
    if (part.is_held()) resume_control(part);
    wire::RotateStreams message{.new_chunk_id = chunk};
    std::string text;
    for (ModelledStream* stream : streams_of(part)) {
        if (stream->is_metadata || stream->is_closed) continue;
        if (stream->is_rotating) note_rotation(*stream);
        stream->rotates_at = position(*stream);
        stream->next_chunk = chunk.value_or(kNoChunk);
        stream->last_chunk = chunk.value_or(stream->last_chunk);
        stream->is_rotating = true;
        ++stream->rotations;
        stream->is_out = !chunk;
        message.positions.push_back({stream->handle, stream->rotates_at});
        for (auto& [number, packet] : stream->packets)
            if (number >= stream->rotates_at) packet.chunk = stream->next_chunk;
        text += fmt::format(" {} at {}", stream->uid, stream->rotates_at);
        if (stream->rotates_at == 0) note_rotation(*stream);
    }
    if (message.positions.empty()) return;
    tell("part {}: ROTATE_STREAMS to {}:{}", part.id, chunk ? fmt::format("{}", *chunk) : "none", text);
    ++counts_.rotations;
    request_code(part, wire::encode_request(RelayCommand::kRotateStreams, message), "ROTATE_STREAMS");
}

inline void RelayModel::rotate_metadata(ModelledPart& part, std::optional<std::uint64_t> chunk) {
    if (part.is_held()) resume_control(part);
    for (ModelledStream* stream : streams_of(part)) {
        if (!stream->is_metadata || stream->is_closed) continue;
        wire::RotateStreams message{.new_chunk_id = chunk};
        message.positions.push_back({stream->handle, 0});
        tell("part {}: ROTATE_STREAMS to {}: metadata {}", part.id, chunk ? fmt::format("{}", *chunk) : "none",
             stream->uid);
        stream->generations.push_back({.chunk = chunk.value_or(kNoChunk)});
        stream->is_out = !chunk;
        ++stream->rotations;
        request_code(part, wire::encode_request(RelayCommand::kRotateStreams, message), "ROTATE_STREAMS");
        if (chunk) resend_metadata(*stream);
    }
}

// Ends ----------------------------------------------------------------------------------------------------------------

inline void RelayModel::end_part(ModelledPart& part) {
    if (part.is_over || !is_good()) return;
    for (ModelledStream* stream : streams_of(part)) complete(*stream);
    if (part.is_over || !is_good()) return;
    tell("part {} ends", part.id);
    if (part.has_chunks() && part.chunk != kNoChunk) {
        rotate_data(part, std::nullopt, [](const ModelledStream& stream) { return stream.next_data; });
        rotate_metadata(part, std::nullopt);
        close_chunk(part, part.chunk, std::nullopt);
    }
    for (ModelledStream* stream : streams_of(part))
        if (!stream->is_closed && is_good()) close_stream(*stream);
    if (!is_good()) return;
    note_sent_is_due(part);
    // A producer may end its connections in either order, and the relay must close both: parts take turns.
    const bool is_control_first = part.id % 2 == 0;
    ModelPeer& first = is_control_first ? part.control : part.data;
    ModelPeer& second = is_control_first ? part.data : part.control;
    const bool have_ended = hear(part, first.finish(), "its end") && hear(part, second.finish(), "its end");
    lose(part);
    if (have_ended) settle(part);
}

// A relay that ends waits a second or two for data that may still come. Here no producer sends more data, and all end
// their data connections once the relay has handled their commands. At every fourth step, and in written histories, the
// relay waits in vain.
inline RelayHost::Meanwhile RelayModel::end_of_data() {
    if (steps_ % 4 == 0) return {};
    return [this] {
        for (ModelledPart& part : parts_) {
            if (part.is_over) continue;
            (void)part.control.wait_for_end();
            end_data(part);
        }
    };
}

// The relay cannot know of the end of a connection before it has seen a packet's header.
inline void RelayModel::end_data(ModelledPart& part) {
    for (const ModelledStream* stream : streams_of(part)) {
        const auto packet = stream->packets.find(stream->next_data);
        if (part.has_had_data || stream->is_closed || packet == stream->packets.end() || !open_data(part)) continue;
        const wire::Bytes bytes = data_bytes(*stream, packet->first, packet->second);
        (void)part.data.send(UntrustedBytes(bytes).first(wire::kSizeOf<wire::DataHeader>));
    }
    part.data.cut(false);
}

inline void RelayModel::cut_part(ModelledPart& part, bool is_reset) {
    tell("part {} is cut{}", part.id, is_reset ? ", with what is under way" : "");
    if (!is_reset) note_sent_is_due(part);
    part.data.cut(is_reset);
    part.control.cut(is_reset);
    lose(part);
}

// Sends a command without regard to what it does and how it is answered.
inline void RelayModel::say(ModelledPart& part, RelayCommand command, const wire::Bytes& bytes) {
    tell("part {}: {}", part.id, wire::name_of(command));
    part.is_loose = true;
    wire::Bytes reply;
    if (hear(part, part.control.send(bytes), "a command")) hear(part, part.control.receive(4, reply), "a command");
}

inline void RelayModel::send_unknown_version_command(ModelledPart& part, RelayCommand command, const wire::Bytes& bytes,
                                                     bool needs_error_reply) {
    const std::string what = wire::name_of(command);
    tell("part {}: {}, which ends the connection", part.id, what);
    if (part.is_held()) resume_control(part);
    if (part.is_over || !is_good()) return;
    wire::Bytes reply;
    part.is_loose = true;
    if (!hear(part, part.control.send(bytes), what)) return;
    const auto outcome = part.control.receive(4, reply);
    if (!check_alive()) return;
    if (outcome == ModelPeer::Outcome::kSilent) return violate("answer", "part {}: {}: no answer", part.id, what);
    if (outcome == ModelPeer::Outcome::kDone && needs_error_reply &&
        wire::parse<wire::CodeReply>(reply)->code == wire::RelayCode::kOk)
        return violate("version", "part {}: {} is served in protocol 2.{}", part.id, what, part.minor);
    // The session ends, so a later question is not answered. What is left of the first answer is not checked.
    const wire::Bytes question = wire::encode_request(RelayCommand::kBeginDataPending, wire::IdRequest{part.session});
    constexpr std::size_t kLongestRest = 8;
    if (outcome == ModelPeer::Outcome::kDone && part.control.send(question) == ModelPeer::Outcome::kDone &&
        part.control.send(question) == ModelPeer::Outcome::kDone &&
        part.control.send(question) == ModelPeer::Outcome::kDone &&
        part.control.receive(kLongestRest + 4, reply) == ModelPeer::Outcome::kDone)
        return violate("version", "part {}: {} does not end the connection", part.id, what);
    lose(part);
}

}  // namespace leat::test
