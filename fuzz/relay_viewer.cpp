// What a viewer asks while a session goes on. It gets only what is stored, and only of the sessions it has attached to.
// What the relay promises must be there.
//
// Input: steps with their bytes. A step is a request, or something that happens in the session.
#include <unistd.h>

#include <array>
#include <vector>

#include "relay/live/viewer_session.hpp"
#include "scratch_relay.hpp"

namespace leat::fuzz::relay_viewer {
namespace {

using wire::RelayCommand;

constexpr std::uint32_t kPacketSize = 64;

// A live session with two streams, whose files are rolled over.
class LiveSession {
  public:
    explicit LiveSession(ScratchRelay& scratch, const char* name) : producer_(*scratch), first_(scratch.next_handle()) {
        relay::Relay& relay = *scratch;
        ask(RelayCommand::kVersion, wire::Version{});
        wire::CreateSession create{.live_timer_us = 1000};
        create.session_name = name;
        create.hostname = "host";
        create.sessiond_uuid.fill(1);
        create.sessiond_session_id = relay.sessions().size();
        ask(RelayCommand::kCreateSession, create);
        ask(RelayCommand::kCreateTraceChunk, wire::CreateTraceChunk{.chunk_id = 0});
        first_id_ = relay.next_id();
        for (const char* const channel : {"c_0", "c_1", "metadata"})
            ask(RelayCommand::kAddStream, wire::AddStream{.channel_name = channel,
                                                          .path = "ust",
                                                          .tracefile_size = 2 * kPacketSize,
                                                          .tracefile_count = 2,
                                                          .trace_chunk_id = 0});
        last_id_ = relay.next_id();
    }

    void publish() { LEAT_CHECK(producer_.control(RelayCommand::kStreamsSent, {})); }
    void send_metadata(UntrustedBytes text) {
        wire::Bytes payload = wire::encode(wire::SendMetadata{.stream_id = first_ + 2});
        payload.insert(payload.end(), text.begin(), text.end());
        producer_.control(RelayCommand::kSendMetadata, payload);
    }
    void send_packet(std::size_t stream) {
        const std::uint64_t number = sent_.at(stream)++;
        const std::array<std::byte, kPacketSize> packet{};
        producer_.data({.stream_id = first_ + stream, .net_seq_num = number, .data_size = kPacketSize}, packet);
        ask(RelayCommand::kSendIndex,
            wire::SendIndex{
                .stream_id = first_ + stream,
                .net_seq_num = number,
                .entry = {.packet_size = 8 * kPacketSize, .content_size = 8 * kPacketSize, .packet_seq_num = number}});
    }
    void send_beacon(std::size_t stream) {
        ask(RelayCommand::kSendIndex, wire::SendIndex{.stream_id = first_ + stream,
                                                      .net_seq_num = sent_.at(stream) - 1,
                                                      .entry = {.timestamp_end = 1000 + sent_.at(stream)}});
    }
    // Does what `lttng clear` does.
    void clear() {
        ++chunk_;
        ask(RelayCommand::kCreateTraceChunk, wire::CreateTraceChunk{.chunk_id = chunk_});
        wire::RotateStreams rotate{.new_chunk_id = chunk_};
        for (std::size_t i = 0; i < 2; ++i) rotate.positions.push_back({first_ + i, sent_.at(i)});
        rotate.positions.push_back({first_ + 2, 0});
        ask(RelayCommand::kRotateStreams, rotate);
        ask(RelayCommand::kCloseTraceChunk,
            wire::CloseTraceChunk{.chunk_id = chunk_ - 1, .command = wire::ChunkCommand::kDelete});
    }
    void end_data() { producer_.end_data(); }
    // Whether viewers know this id as one of its streams.
    [[nodiscard]] bool owns(std::uint64_t stream) const { return stream > first_id_ && stream < last_id_; }
    [[nodiscard]] std::uint64_t id() const { return producer_.session()->description().id; }

  private:
    template <class Message>
    void ask(RelayCommand command, const Message& message) {
        producer_.control(command, wire::encode(message, wire::kProtocolMinor));
    }

    ScratchProducer producer_;
    std::uint64_t first_;  // handle
    std::uint64_t first_id_ = 0;
    std::uint64_t last_id_ = 0;
    std::array<std::uint64_t, 2> sent_{};
    std::uint64_t chunk_ = 0;
};

// The part of a reply that comes from a file must exist in that file.
void check(const std::optional<relay::FileRange>& range) {
    if (!range) return;
    std::vector<std::byte> bytes(range->size);
    LEAT_CHECK(::pread(range->fd, bytes.data(), bytes.size(), static_cast<off_t>(range->offset)) ==
               static_cast<ssize_t>(bytes.size()));
}

// A viewer. It never attaches to the session `other`, so that session's streams must be refused.
class Viewing {
  public:
    Viewing(relay::Relay& relay, const LiveSession& other) : viewer_(relay, [] {}), other_(&other) {}

    void request(wire::LiveCommand command, UntrustedBytes payload) {
        switch (command) {
            case wire::LiveCommand::kAttachSession:
                if (const auto request = wire::parse<wire::AttachSession>(payload);
                    request && request->session_id != other_->id())
                    viewer_.attach(*request);
                break;
            case wire::LiveCommand::kGetPacket:
                if (const auto request = wire::parse<wire::GetPacket>(payload)) packet(*request);
                break;
            default:
                if (const auto request = wire::parse<wire::LiveIdRequest>(payload)) request_of(command, request->id);
        }
    }

  private:
    void packet(const wire::GetPacket& request) {
        const auto packet = viewer_.packet(request);
        LEAT_CHECK(!packet.data || !other_->owns(request.stream_id));
        check(packet.data);
    }
    void request_of(wire::LiveCommand command, std::uint64_t id) {
        if (command == wire::LiveCommand::kGetNextIndex) {
            const auto reply = viewer_.next_index(id);
            LEAT_CHECK(!other_->owns(id) || reply.status == wire::IndexStatus::kError);
        } else if (command == wire::LiveCommand::kGetMetadata) {
            const auto metadata = viewer_.metadata(id);
            LEAT_CHECK(!metadata.text || !other_->owns(id));
            check(metadata.text);
        } else if (command == wire::LiveCommand::kGetNewStreams) {
            for (const auto& stream : viewer_.new_streams(id).streams) LEAT_CHECK(!other_->owns(stream.id));
        } else if (command == wire::LiveCommand::kDetachSession) {
            viewer_.detach(id);
        }
        (void)viewer_.change();
    }

    relay::ViewerSession viewer_;
    const LiveSession* other_;
};

void run(FuzzInput input) {
    ScratchRelay relay;
    LiveSession session(relay, "watched");
    LiveSession other(relay, "other");
    other.publish();
    Viewing viewing(*relay, other);
    while (!input.is_empty()) {
        const auto step = input.take<std::uint8_t>();
        switch (step % 8) {
            case 0:
                session.publish();
                break;
            case 1:
                session.send_metadata(input.take_bytes(step));
                break;
            case 2:
                session.send_packet(step / 8 % 2);
                break;
            case 3:
                session.send_beacon(step / 8 % 2);
                break;
            case 4:
                if (step > 128) session.clear();
                break;
            case 5:
                if (step > 240) session.end_data();
                break;
            default: {
                const auto header = wire::parse<wire::LiveHeader>(input.take_bytes(wire::kSizeOf<wire::LiveHeader>));
                if (!header) return;
                viewing.request(header->command, input.take_bytes(header->data_size));
            }
        }
    }
}

}  // namespace

LEAT_FUZZ_TARGET(relay_viewer) {
    run(FuzzInput(data, size));
    return 0;
}

}  // namespace leat::fuzz::relay_viewer
