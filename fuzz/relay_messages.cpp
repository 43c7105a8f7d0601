// The messages that the two ends of an ingest connection read, at every minor version. A message that is accepted,
// encoded and read again must be the same.
//
// Input: which message, the minor version, its bytes.
#include "wire/ingest/relay_messages.hpp"

#include "fuzz_input.hpp"
#include "message_round_trip.hpp"

namespace leat::fuzz::relay_messages {
namespace {

using namespace wire;

constexpr std::array kMessages{
    round_trip<ControlHeader>,
    round_trip<CodeReply>,
    round_trip<Version>,
    round_trip<GetConfiguration>,
    round_trip<ConfigurationReply>,
    round_trip<CreateSession>,
    round_trip<CreateSessionReply>,
    round_trip<AddStream>,
    round_trip<AddStreamReply>,
    round_trip<SendMetadata>,
    round_trip<DataHeader>,
    round_trip<DatagramHeader>,
    round_trip<SendIndex>,
    round_trip<CloseStream>,
    round_trip<DataPending>,
    round_trip<IdRequest>,
    round_trip<ResetMetadata>,
    round_trip<RotateStreams>,
    round_trip<CreateTraceChunk>,
    round_trip<CloseTraceChunk>,
    round_trip<CloseTraceChunkReply>,
    round_trip<TraceChunkExists>,
    round_trip<TraceChunkExistsReply>,
};

void run(FuzzInput input) {
    const auto message = input.take<std::uint8_t>() % kMessages.size();
    const auto minor = std::uint32_t{input.take<std::uint8_t>()} % (kProtocolMinor + 1);
    kMessages.at(message)(input.take_rest(), minor);
}

}  // namespace

LEAT_FUZZ_TARGET(relay_messages) {
    run(FuzzInput(data, size));
    return 0;
}

}  // namespace leat::fuzz::relay_messages
