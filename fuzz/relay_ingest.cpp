// What a producer sends on its two connections, in any order. The relay stores what it can, and writes nothing outside
// its directory.
//
// Input: the bytes of both connections in turn. A byte before each message says what comes: a control message, the head
// of a packet, a piece of it, a while without messages, or the end of the data connection.
#include "scratch_relay.hpp"

namespace leat::fuzz::relay_ingest {
namespace {

enum class Step : std::uint8_t { kControl, kPacket, kPiece, kWait, kEndOfData };

bool run_step(FuzzInput& input, ScratchProducer& producer) {
    switch (static_cast<Step>(input.take<std::uint8_t>() % 5)) {
        case Step::kControl: {
            const auto header = wire::parse<wire::ControlHeader>(input.take_bytes(wire::kSizeOf<wire::ControlHeader>));
            if (!header) return false;
            return producer.control(header->command, input.take_bytes(header->data_size));
        }
        case Step::kPacket: {
            const auto header = wire::parse<wire::DataHeader>(input.take_bytes(wire::kSizeOf<wire::DataHeader>));
            return header && producer.begin_data(*header);
        }
        case Step::kPiece:
            // The packet goes on later, after other steps.
            return producer.more_data(input.take_bytes(input.take<std::uint8_t>()));
        case Step::kWait:
            producer.wait(std::chrono::seconds(input.take<std::uint8_t>()));
            return true;
        case Step::kEndOfData:
            producer.end_data();
            return true;
    }
    return true;
}

void run(FuzzInput input) {
    ScratchRelay relay;
    {
        ScratchProducer producer(*relay);
        while (!input.is_empty() && run_step(input, producer)) {
        }
    }
    // Nothing but the relay's directory may be there.
    const auto above = ScratchRelay::root().parent_path();
    LEAT_CHECK(std::distance(std::filesystem::directory_iterator(above), {}) == 1);
}

}  // namespace

LEAT_FUZZ_TARGET(relay_ingest) {
    run(FuzzInput(data, size));
    return 0;
}

}  // namespace leat::fuzz::relay_ingest
