// The messages that the two ends of a viewer's connection read. A message that is accepted, encoded and read again must
// be the same.
//
// Input: which message, its bytes.
#include "wire/live/live_messages.hpp"

#include "fuzz_input.hpp"
#include "message_round_trip.hpp"

namespace leat::fuzz::live_messages {
namespace {

using namespace wire;

constexpr std::array kMessages{
    round_trip<LiveHeader>,     round_trip<Connect>,         round_trip<WordReply>,         round_trip<ListedSession>,
    round_trip<AttachSession>,  round_trip<AttachReply>,     round_trip<StreamDescriptor>,  round_trip<LiveIdRequest>,
    round_trip<NextIndexReply>, round_trip<GetPacket>,       round_trip<PacketReply>,       round_trip<MetadataReply>,
    round_trip<Wait>,           round_trip<WaitReply>,       round_trip<GetNews>,           round_trip<NewsReply>,
    round_trip<NewsEntry>,      round_trip<NewStreamsReply>, round_trip<CreateViewerReply>, round_trip<DetachReply>,
};

void run(FuzzInput input) {
    const auto message = input.take<std::uint8_t>() % kMessages.size();
    kMessages.at(message)(input.take_rest(), kProtocolMinor);
}

}  // namespace

LEAT_FUZZ_TARGET(live_messages) {
    run(FuzzInput(data, size));
    return 0;
}

}  // namespace leat::fuzz::live_messages
