#include "wire/live/live_messages.hpp"

namespace leat::wire {

void append_request(Bytes& bytes, LiveCommand command) { append(bytes, LiveHeader{.command = command}); }

std::string name_of(LiveCommand command) {
    switch (command) {
        case LiveCommand::kConnect:
            return "CONNECT";
        case LiveCommand::kListSessions:
            return "LIST_SESSIONS";
        case LiveCommand::kAttachSession:
            return "ATTACH_SESSION";
        case LiveCommand::kGetNextIndex:
            return "GET_NEXT_INDEX";
        case LiveCommand::kGetPacket:
            return "GET_PACKET";
        case LiveCommand::kGetMetadata:
            return "GET_METADATA";
        case LiveCommand::kGetNewStreams:
            return "GET_NEW_STREAMS";
        case LiveCommand::kCreateSession:
            return "CREATE_SESSION";
        case LiveCommand::kDetachSession:
            return "DETACH_SESSION";
        case LiveCommand::kWait:
            return "WAIT";
        case LiveCommand::kGetNews:
            return "GET_NEWS";
    }
    return fmt::format("command {}", command);
}

}  // namespace leat::wire
