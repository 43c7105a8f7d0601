#include "wire/ingest/relay_messages.hpp"

#include <gtest/gtest.h>

#include <map>

#include "support/capture.hpp"

namespace leat::wire {
namespace {

using test::Capture;
using test::expect_no_other_length;
using test::expect_size;
using test::parse_and_encode;

template <class Message>
void expect_refused(const Bytes& bytes, const std::string& words, std::uint32_t minor = kProtocolMinor) {
    const auto parsed = parse<Message>(bytes, minor);
    ASSERT_FALSE(parsed) << Message::kName << " taken; expected: " << words;
    EXPECT_NE(parsed.error().message.find(words), std::string::npos) << parsed.error().message;
    EXPECT_EQ(parsed.error().message.find(Message::kName), 0U) << parsed.error().message;
}

void set_u32(Bytes& bytes, std::size_t at, std::uint32_t value) {
    for (std::size_t i = 0; i < 4; ++i) bytes.at(at + i) = static_cast<std::byte>(value >> (24 - 8 * i));
}

// ---- Captures of LTTng 2.13

const std::vector<std::string> kSessions{"live-uid-two-apps", "live-pid-buffers", "live-new-metadata-dlopen",
                                         "live-tracefile-rotation", "stream-nonlive"};
using Counts = std::map<RelayCommand, int>;

// ROTATE_STREAMS of a real producer contains seven undefined bytes of that producer's memory.
Bytes without_garbage(UntrustedBytes rotate_streams) {
    Bytes bytes = test::copy_of(rotate_streams);
    std::fill(bytes.begin() + 5, bytes.begin() + 12, std::byte{0});
    return bytes;
}

void check_request(RelayCommand command, UntrustedBytes payload) {
    switch (command) {
        case RelayCommand::kVersion:
            return void(parse_and_encode<Version>(payload));
        case RelayCommand::kGetConfiguration:
            return void(parse_and_encode<GetConfiguration>(payload));
        case RelayCommand::kCreateSession:
            return void(parse_and_encode<CreateSession>(payload));
        case RelayCommand::kCreateTraceChunk:
            return void(parse_and_encode<CreateTraceChunk>(payload));
        case RelayCommand::kAddStream:
            return void(parse_and_encode<AddStream>(payload));
        case RelayCommand::kStreamsSent:
            EXPECT_TRUE(payload.empty());
            return;
        case RelayCommand::kSendMetadata:
            return void(parse_and_encode<SendMetadata>(payload.first(kSizeOf<SendMetadata>)));
        case RelayCommand::kSendIndex:
            return void(parse_and_encode<SendIndex>(payload));
        case RelayCommand::kCloseStream:
            return void(parse_and_encode<CloseStream>(payload));
        case RelayCommand::kDataPending:
            return void(parse_and_encode<DataPending>(payload));
        case RelayCommand::kBeginDataPending:
        case RelayCommand::kEndDataPending:
        case RelayCommand::kQuiescentControl:
            return void(parse_and_encode<IdRequest>(payload));
        case RelayCommand::kRotateStreams:
            return void(parse_and_encode<RotateStreams>(without_garbage(payload)));
        case RelayCommand::kCloseTraceChunk:
            return void(parse_and_encode<CloseTraceChunk>(payload));
        case RelayCommand::kTraceChunkExists:
            return void(parse_and_encode<TraceChunkExists>(payload));
        default:
            ADD_FAILURE() << "no capture has " << name_of(command);
    }
}

void check_reply(RelayCommand command, Capture& replies) {
    switch (command) {
        case RelayCommand::kVersion:
            return void(parse_and_encode<Version>(replies.take(8)));
        case RelayCommand::kGetConfiguration: {
            const auto reply = parse_and_encode<ConfigurationReply>(replies.take(12));
            EXPECT_EQ(reply.flags, kClearAllowed);
            return;
        }
        case RelayCommand::kCreateSession: {
            const std::uint32_t path = replies.peek_u32(kHeadSizeOf<CreateSessionReply> - 4);
            const auto reply =
                parse_and_encode<CreateSessionReply>(replies.take(kHeadSizeOf<CreateSessionReply> + path));
            EXPECT_EQ(reply.output_path.size() + 1, path);
            return;
        }
        case RelayCommand::kAddStream:
            return void(parse_and_encode<AddStreamReply>(replies.take(12)));
        case RelayCommand::kSendMetadata:
            return;
        case RelayCommand::kCloseTraceChunk: {
            const std::uint32_t path = replies.peek_u32(kHeadSizeOf<CloseTraceChunkReply> - 4);
            return void(parse_and_encode<CloseTraceChunkReply>(replies.take(kHeadSizeOf<CloseTraceChunkReply> + path)));
        }
        case RelayCommand::kTraceChunkExists:
            return void(parse_and_encode<TraceChunkExistsReply>(replies.take(5)));
        default:
            return void(parse_and_encode<CodeReply>(replies.take(4)));
    }
}

// Checks both directions to their ends. Returns how often each command came.
Counts check_control(const std::string& session) {
    Capture requests(session, "control1.c2s");
    Capture replies(session, "control1.s2c");
    Counts counts;
    while (!requests.is_empty()) {
        const auto header = parse_and_encode<ControlHeader>(requests.take(kSizeOf<ControlHeader>));
        const auto command = header.command;
        SCOPED_TRACE(session + ": " + name_of(command) + " that ends at byte " +
                     std::to_string(requests.offset() + header.data_size));
        check_request(command, requests.take(header.data_size));
        check_reply(command, replies);
        ++counts[command];
    }
    EXPECT_TRUE(replies.is_empty());
    return counts;
}

TEST(RelayMessages, CapturedControlConnectionsComeBackByteForByte) {
    std::map<std::string, Counts> counts;
    for (const std::string& session : kSessions) counts[session] = check_control(session);
    EXPECT_EQ(counts["live-uid-two-apps"][RelayCommand::kSendIndex], 16);
    EXPECT_EQ(counts["live-pid-buffers"][RelayCommand::kAddStream], 6);
    EXPECT_EQ(counts["live-new-metadata-dlopen"][RelayCommand::kSendMetadata], 2);
    EXPECT_EQ(counts["live-tracefile-rotation"][RelayCommand::kSendIndex], 44);
    EXPECT_EQ(counts["stream-nonlive"][RelayCommand::kDataPending], 4);
}

TEST(RelayMessages, CapturedDataConnectionsComeBackByteForByte) {
    const std::map<std::string, int> packets{{"live-uid-two-apps", 6},
                                             {"live-pid-buffers", 10},
                                             {"live-new-metadata-dlopen", 8},
                                             {"live-tracefile-rotation", 18},
                                             {"stream-nonlive", 2}};
    for (const std::string& session : kSessions) {
        Capture data(session, "data1.c2s");
        int count = 0;
        for (; !data.is_empty(); ++count)
            data.take(parse_and_encode<DataHeader>(data.take(kSizeOf<DataHeader>)).data_size);
        EXPECT_EQ(count, packets.at(session)) << session;
    }
}

TEST(RelayMessages, CapturedCreateSessionSaysWhatTheTracerSaid) {
    Capture requests("live-uid-two-apps", "control1.c2s");
    requests.take(64 + kSizeOf<ControlHeader>);
    const auto session = parse<CreateSession>(requests.take(74));
    ASSERT_TRUE(session) << session.error().message;
    EXPECT_EQ(session->session_name, "live1");
    EXPECT_EQ(session->hostname, "tracer1");
    EXPECT_EQ(session->base_path, "");
    EXPECT_EQ(session->live_timer_us, 500'000U);
    EXPECT_FALSE(session->is_snapshot);
    EXPECT_EQ(session->sessiond_uuid[0], 0x69);
    EXPECT_EQ(session->creation_time, 1795182196U);
    EXPECT_FALSE(session->current_chunk_id);
}

TEST(RelayMessages, CapturedRotationNamesItsStreamsBehindGarbage) {
    Capture requests("stream-nonlive", "control1.c2s");
    requests.take(4180 + kSizeOf<ControlHeader>);
    const auto rotation = parse<RotateStreams>(requests.take(52));
    ASSERT_TRUE(rotation) << rotation.error().message;
    EXPECT_FALSE(rotation->new_chunk_id);
    ASSERT_EQ(rotation->positions.size(), 2U);
    EXPECT_EQ(rotation->positions[1].stream_id, 2U);
    EXPECT_EQ(rotation->positions[1].rotate_at, 1U);
}

// ---- Layouts by minor version

CreateSession some_session() {
    return {.session_name = "night",
            .hostname = "host",
            .live_timer_us = 1'000'000,
            .is_snapshot = true,
            .base_path = "a/b",
            .name_contains_creation_time = true,
            .sessiond_uuid = {1, 2, 3},
            .sessiond_session_id = 4,
            .creation_time = 5,
            .current_chunk_id = 6};
}
const AddStream kStream{
    .channel_name = "ch_0", .path = "ust/uid/0/64-bit", .tracefile_size = 1U << 20, .tracefile_count = 2};
const SendIndex kIndex{.stream_id = 1,
                       .net_seq_num = 2,
                       .entry = {.packet_size = 3,
                                 .content_size = 4,
                                 .timestamp_begin = 5,
                                 .timestamp_end = 6,
                                 .events_discarded = 7,
                                 .stream_class_id = 8,
                                 .stream_instance_id = 9,
                                 .packet_seq_num = 10}};

TEST(RelayMessages, CreateSessionHasThreeForms) {
    EXPECT_EQ(encode(some_session(), 1).size(), 0U);
    EXPECT_EQ(encode(some_session(), 3).size(), 0U);
    for (const std::uint32_t minor : {4U, 8U, 10U}) {
        const Bytes bytes = encode(some_session(), minor);
        EXPECT_EQ(bytes.size(), 327U);
        const auto session = parse_and_encode<CreateSession>(bytes, minor);
        EXPECT_EQ(session.session_name, "night");
        EXPECT_EQ(session.hostname, "host");
        EXPECT_EQ(session.live_timer_us, 1'000'000U);
        EXPECT_TRUE(session.is_snapshot);
    }
    const Bytes bytes = encode(some_session(), 11);
    EXPECT_EQ(bytes.size(), 59U + 6 + 5 + 4);
    const auto session = parse_and_encode<CreateSession>(bytes, 11);
    EXPECT_EQ(session.base_path, "a/b");
    EXPECT_EQ(session.current_chunk_id, 6U);
}

TEST(RelayMessages, CreateSessionReplyHasNoPathBelowMinor11) {
    const CreateSessionReply reply{.session_id = 1, .code = RelayCode::kOk, .output_path = "host/night"};
    EXPECT_EQ(encode(reply, 10).size(), 12U);
    EXPECT_EQ(encode(reply, 11).size(), 16U + 11);
    EXPECT_EQ(parse_and_encode<CreateSessionReply>(encode(reply)).output_path, "host/night");
}

TEST(RelayMessages, RefusalsCarryNoPath) {
    EXPECT_EQ(encode(CreateSessionReply{.code = RelayCode::kFatal}).size(), kHeadSizeOf<CreateSessionReply>);
    EXPECT_EQ(encode(CloseTraceChunkReply{.code = RelayCode::kNoMemory}).size(), kHeadSizeOf<CloseTraceChunkReply>);
}

TEST(RelayMessages, AddStreamHasThreeForms) {
    EXPECT_EQ(encode(kStream, 1).size(), 4360U);
    EXPECT_EQ(parse_and_encode<AddStream>(encode(kStream, 1), 1).tracefile_size, 0U);
    for (const std::uint32_t minor : {2U, 4U, 10U}) {
        const Bytes bytes = encode(kStream, minor);
        EXPECT_EQ(bytes.size(), 4376U);
        const auto stream = parse_and_encode<AddStream>(bytes, minor);
        EXPECT_EQ(stream.channel_name, "ch_0");
        EXPECT_EQ(stream.path, "ust/uid/0/64-bit");
        EXPECT_EQ(stream.tracefile_count, 2U);
    }
    EXPECT_EQ(encode(kStream, 11).size(), 32U + 5 + 17);
    EXPECT_EQ(parse_and_encode<AddStream>(encode(kStream, 11), 11).tracefile_size, 1U << 20);
}

TEST(RelayMessages, SendIndexHasTwoForms) {
    for (const std::uint32_t minor : {4U, 7U}) {
        EXPECT_EQ(encode(kIndex, minor).size(), 64U);
        const auto index = parse_and_encode<SendIndex>(encode(kIndex, minor), minor);
        EXPECT_EQ(index.entry.stream_class_id, 8U);
        EXPECT_EQ(index.entry.packet_seq_num, ~std::uint64_t{0}) << "what is not sent is not known";
    }
    EXPECT_EQ(encode(kIndex, 8).size(), 80U);
    EXPECT_EQ(parse_and_encode<SendIndex>(encode(kIndex, 8), 8).entry.packet_seq_num, 10U);
}

TEST(RelayMessages, FormOfAnotherMinorIsRefused) {
    expect_refused<SendIndex>(encode(kIndex, 8), "16 bytes too many", 7);
    expect_refused<SendIndex>(encode(kIndex, 7), "cut short", 8);
    expect_refused<AddStream>(encode(kStream, 2), "16 bytes too many", 1);
    expect_refused<AddStream>(encode(kStream, 1), "cut short", 2);
    expect_refused<AddStream>(encode(kStream, 10), "of at most", 11);
    expect_refused<CreateSession>(encode(some_session(), 10), "of at most", 11);
    expect_refused<CreateSession>(encode(some_session(), 10), "327 bytes too many", 3);
}

// Encoder and decoder share one layout, so a swap of two fields of one size would survive a round trip.
TEST(RelayMessages, FieldsLieInTheirOrder) {
    const Bytes index = encode(kIndex);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(index[8 * i + 7], static_cast<std::byte>(i + 1)) << i;

    const Bytes data =
        encode(DataHeader{.circuit_id = 1, .stream_id = 2, .net_seq_num = 3, .data_size = 4, .padding_size = 5});
    EXPECT_EQ(data[7], std::byte{1});
    EXPECT_EQ(data[15], std::byte{2});
    EXPECT_EQ(data[23], std::byte{3});
    EXPECT_EQ(data[27], std::byte{4});
    EXPECT_EQ(data[31], std::byte{5});

    const Bytes close = encode(CloseStream{.stream_id = 1, .last_net_seq_num = 2});
    EXPECT_EQ(close, encode(DataPending{.stream_id = 1, .last_net_seq_num = 2}));
    EXPECT_EQ(close, encode(ResetMetadata{.stream_id = 1, .version = 2}));
    EXPECT_EQ(close[7], std::byte{1});
    EXPECT_EQ(close[15], std::byte{2});
}

// The first packet of a real stream. The expected numbers were read from the capture by hand.
TEST(RelayMessages, CapturedStreamIsTheOneThatItWas) {
    Capture requests("live-uid-two-apps", "control1.c2s");
    requests.take(206 + kSizeOf<ControlHeader>);
    const std::size_t size = 32 + requests.peek_u32(0) + requests.peek_u32(4);
    const auto stream = parse<AddStream>(requests.take(size));
    ASSERT_TRUE(stream) << stream.error().message;
    EXPECT_EQ(stream->channel_name.substr(0, 3), "ch0");
    EXPECT_EQ(stream->path, "ust/uid/0/64-bit");
    EXPECT_EQ(stream->tracefile_size, 0U);
    EXPECT_EQ(stream->trace_chunk_id, 0U);
}

// ---- Hostile bytes

TEST(RelayMessages, CutAnywhereOrTooLongIsRefused) {
    expect_no_other_length<ControlHeader>(encode(ControlHeader{}));
    expect_no_other_length<CodeReply>(encode(CodeReply{}));
    expect_no_other_length<Version>(encode(Version{}));
    expect_no_other_length<GetConfiguration>(encode(GetConfiguration{}));
    expect_no_other_length<ConfigurationReply>(encode(ConfigurationReply{}));
    for (const std::uint32_t minor : {4U, 11U})
        expect_no_other_length<CreateSession>(encode(some_session(), minor), minor);
    for (const std::uint32_t minor : {4U, 11U})
        expect_no_other_length<CreateSessionReply>(encode(CreateSessionReply{.output_path = "a/b"}, minor), minor);
    for (const std::uint32_t minor : {1U, 2U, 11U}) expect_no_other_length<AddStream>(encode(kStream, minor), minor);
    expect_no_other_length<AddStreamReply>(encode(AddStreamReply{}));
    expect_no_other_length<SendMetadata>(encode(SendMetadata{}));
    expect_no_other_length<DataHeader>(encode(DataHeader{}));
    expect_no_other_length<DatagramHeader>(encode(DatagramHeader{}));
    for (const std::uint32_t minor : {4U, 8U}) expect_no_other_length<SendIndex>(encode(kIndex, minor), minor);
    expect_no_other_length<CloseStream>(encode(CloseStream{}));
    expect_no_other_length<DataPending>(encode(DataPending{}));
    expect_no_other_length<IdRequest>(encode(IdRequest{}));
    expect_no_other_length<ResetMetadata>(encode(ResetMetadata{}));
    expect_no_other_length<CreateTraceChunk>(encode(CreateTraceChunk{.override_name = "snapshot-1"}));
    expect_no_other_length<CloseTraceChunk>(encode(CloseTraceChunk{.command = ChunkCommand::kDelete}));
    expect_no_other_length<CloseTraceChunkReply>(encode(CloseTraceChunkReply{.path = "a/b"}));
    expect_no_other_length<TraceChunkExists>(encode(TraceChunkExists{}));
    expect_no_other_length<TraceChunkExistsReply>(encode(TraceChunkExistsReply{}));
}

TEST(RelayMessages, SizesAreThoseOfTheStructsThatReadThem) {
    expect_size<ControlHeader>(24);
    expect_size<DataHeader>(32);
    expect_size<DatagramHeader>(40);
    expect_size<SendMetadata>(12);
    EXPECT_EQ(kHeadSizeOf<CreateSessionReply>, 16U);
    EXPECT_EQ(kHeadSizeOf<CloseTraceChunkReply>, 8U);
}

TEST(RelayMessages, NameLongerThanItsLimitIsRefused) {
    const Bytes good = encode(some_session());
    for (const std::uint32_t length : {256U, 0x7fff'ffffU, 0xffff'ffffU}) {
        Bytes bytes = good;
        set_u32(bytes, 0, length);
        expect_refused<CreateSession>(bytes, "of at most 255");
    }
    Bytes hostname = good;
    set_u32(hostname, 4, 257);
    expect_refused<CreateSession>(hostname, "of at most 256");
    Bytes base_path = good;
    set_u32(base_path, 8, 4097);
    expect_refused<CreateSession>(base_path, "of at most 4096");
}

TEST(RelayMessages, NameAsLongAsItsLimitIsTaken) {
    CreateSession session = some_session();
    session.session_name = std::string(kMaxSessionName - 1, 's');
    session.hostname = std::string(kMaxHostname - 1, 'h');
    session.base_path = std::string(kMaxBasePath - 1, 'b');
    EXPECT_EQ(parse_and_encode<CreateSession>(encode(session)).base_path.size(), kMaxBasePath - 1);
}

TEST(RelayMessages, LengthsWhoseSumWrapsAreRefused) {
    Bytes bytes = encode(kStream);
    // 5 + 17 bytes follow. These numbers have the same sum in 32 bits.
    set_u32(bytes, 0, 0x8000'000bU);
    set_u32(bytes, 4, 0x8000'000bU);
    expect_refused<AddStream>(bytes, "of at most");
    Bytes one_more = encode(kStream);
    set_u32(one_more, 0, 6);
    set_u32(one_more, 4, 16);
    expect_refused<AddStream>(one_more, "does not end where it says");
}

TEST(RelayMessages, NameWithoutItsEndIsRefused) {
    Bytes bytes = encode(CreateTraceChunk{.override_name = "snapshot"});
    bytes.back() = std::byte{'x'};
    expect_refused<CreateTraceChunk>(bytes, "does not end where it says");

    Bytes fixed = encode(kStream, 10);
    std::fill(fixed.begin(), fixed.begin() + 264, std::byte{'x'});
    expect_refused<AddStream>(fixed, "has no end", 10);
}

TEST(RelayMessages, NameThatEndsTwiceIsRefused) {
    Bytes bytes = encode(CreateTraceChunk{.override_name = "snapshot"});
    bytes[22] = std::byte{0};
    expect_refused<CreateTraceChunk>(bytes, "does not end where it says");
}

TEST(RelayMessages, FixedNameEndsAtItsFirstNul) {
    Bytes bytes = encode(kStream, 10);
    bytes[10] = std::byte{'x'};
    const auto stream = parse<AddStream>(bytes, 10);
    ASSERT_TRUE(stream);
    EXPECT_EQ(stream->channel_name, "ch_0");
}

TEST(RelayMessages, EmptyNameMayComeWithoutItsNul) {
    CreateSession session = some_session();
    session.base_path.clear();
    Bytes bytes = encode(session);
    set_u32(bytes, 8, 0);
    bytes.pop_back();
    const auto parsed = parse<CreateSession>(bytes);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->base_path, "");
}

TEST(RelayMessages, RotationOfMoreStreamsThanItHoldsIsRefused) {
    // In 32 bits, 2^28 times 16 bytes is 0, and 2^32 / 16 + 1 times 16 bytes is 16.
    for (const std::uint32_t count : {3U, 0x1000'0000U, 0x1000'0001U, 0xffff'ffffU}) {
        Bytes bytes = encode(RotateStreams{.new_chunk_id = 1, .positions = {{1, 2}, {3, 4}}});
        set_u32(bytes, 0, count);
        expect_refused<RotateStreams>(bytes, "streams do not fit into it");
    }
    Bytes fewer = encode(RotateStreams{.new_chunk_id = 1, .positions = {{1, 2}, {3, 4}}});
    set_u32(fewer, 0, 1);
    expect_refused<RotateStreams>(fewer, "fits no known layout");
}

TEST(RelayMessages, RotationIsReadWithThePaddingOfEveryAbi) {
    const Bytes full = encode(RotateStreams{.new_chunk_id = 7, .positions = {{1, 2}}});
    ASSERT_EQ(full.size(), 36U);
    for (const std::size_t padding : {0U, 3U, 7U}) {
        Bytes bytes = full;
        bytes.erase(bytes.begin() + 5, bytes.begin() + 5 + static_cast<std::ptrdiff_t>(7 - padding));
        const auto rotation = parse<RotateStreams>(bytes);
        ASSERT_TRUE(rotation) << padding << ": " << rotation.error().message;
        EXPECT_EQ(rotation->new_chunk_id, 7U);
        EXPECT_EQ(rotation->positions.at(0).rotate_at, 2U);
    }
}

TEST(RelayMessages, RotationCutAnywhereElseIsRefused) {
    const Bytes full = encode(RotateStreams{.new_chunk_id = 7, .positions = {{1, 2}}});
    for (std::size_t length = 0; length < full.size(); ++length) {
        // The layouts with less padding have these lengths.
        const bool is_other_form = length == full.size() - 7 || length == full.size() - 4;
        EXPECT_EQ(parse<RotateStreams>(UntrustedBytes(full).first(length)).has_value(), is_other_form) << length;
    }
}

TEST(RelayMessages, RequestsCarryTheSizeOfTheirPayload) {
    const Bytes bytes = encode_request(RelayCommand::kCloseStream, CloseStream{.stream_id = 3});
    const auto header = parse<ControlHeader>(UntrustedBytes(bytes).first(kSizeOf<ControlHeader>));
    ASSERT_TRUE(header);
    EXPECT_EQ(header->data_size, bytes.size() - kSizeOf<ControlHeader>);
    EXPECT_EQ(header->command, RelayCommand::kCloseStream);
    EXPECT_EQ(encode_request(RelayCommand::kStreamsSent).size(), kSizeOf<ControlHeader>);
    EXPECT_EQ(name_of(RelayCommand::kStreamsSent), "STREAMS_SENT");
    EXPECT_EQ(name_of(static_cast<RelayCommand>(99)), "command 99");
}

}  // namespace
}  // namespace leat::wire
