#include "relay/ingest/control_commands.hpp"

#include <algorithm>
#include <array>
#include <ctime>

#include "relay/ingest/chunk_commands.hpp"
#include "relay/ingest/pending_commands.hpp"
#include "relay/ingest/stream_commands.hpp"

namespace leat::relay {
namespace {

using wire::RelayCode;
using wire::RelayCommand;

// The smaller minor counts from here on: it decides how every later message of this connection is laid out.
CommandOutcome version(Producer& producer, const wire::Version& message) {
    if (producer.minor) return disconnected({ErrorKind::kRefused, "a second VERSION"});
    CommandOutcome outcome{.reply = wire::encode(wire::Version{})};
    if (message.major != wire::kProtocolMajor) {
        outcome.error = Error{ErrorKind::kUnsupported, fmt::format("it speaks protocol {}.{}; 2 is what we speak",
                                                                   message.major, message.minor)};
        outcome.ends_connection = true;
    }
    producer.minor = std::min(message.minor, wire::kProtocolMinor);
    return outcome;
}

// Queries of later protocols are refused as a whole: a peer that asked for two things must not take an answer to one
// for both.
CommandOutcome get_configuration(Producer& producer, const wire::GetConfiguration& message) {
    if ((message.query_flags & ~wire::kQueryDatagrams) != 0)
        return {.reply = wire::encode(wire::ConfigurationReply{RelayCode::kProtocolError, 0})};
    producer.can_send_datagrams = message.query_flags != 0;
    const std::uint64_t clear = producer.relay->policy().is_clear_allowed ? wire::kClearAllowed : 0;
    return {.reply = wire::encode(wire::ConfigurationReply{RelayCode::kOk, clear | message.query_flags})};
}

CommandOutcome create_session(Producer& producer, const wire::CreateSession& message) {
    if (producer.session != nullptr) return disconnected({ErrorKind::kRefused, "it creates a second session"});
    auto session = producer.relay->create_session(message, *producer.minor, producer.principal);
    if (!session)
        return {.reply = wire::encode(wire::CreateSessionReply{.code = RelayCode::kFatal}, *producer.minor),
                .error = session.error()};
    producer.session = *session;
    producer.creation_time = static_cast<std::uint64_t>(std::time(nullptr));
    producer.session->locked([&](SessionState& state) { state.thread = producer.thread; });
    const auto directory = producer.session->directory();
    const wire::CreateSessionReply reply{producer.session->description().id, RelayCode::kOk,
                                         directory == nullptr ? std::string() : directory->path()};
    return {.reply = wire::encode(reply, *producer.minor)};
}

CommandOutcome start_data(Producer& /*producer*/) { return replied(RelayCode::kOk); }

template <class Message>
CommandOutcome call(Producer& producer, CommandOutcome (*handler)(Producer&, const Message&), UntrustedBytes payload) {
    const auto message = wire::parse<Message>(payload, producer.minor.value_or(0));
    return message ? handler(producer, *message) : disconnected(message.error());
}
CommandOutcome call(Producer& producer, CommandOutcome (*handler)(Producer&), UntrustedBytes /*payload*/) {
    return handler(producer);
}

// Parses the payload into the message that the handler takes. A peer that sent rubbish is disconnected.
template <auto handler>
CommandOutcome run_handler(Producer& producer, UntrustedBytes payload) {
    return call(producer, handler, payload);
}

struct Command {
    RelayCommand command;
    std::uint32_t since;  // minor of the protocol
    enum class Needs : std::uint8_t { kNothing, kVersion, kSession } needs;
    std::uint64_t max_payload;  // bytes
    CommandOutcome (*run)(Producer&, UntrustedBytes);
};

using Needs = Command::Needs;
constexpr std::uint64_t kSmall = 1024;

constexpr std::array kCommands{
    Command{RelayCommand::kVersion, 0, Needs::kNothing, kSmall, run_handler<version>},
    Command{RelayCommand::kGetConfiguration, 12, Needs::kVersion, kSmall, run_handler<get_configuration>},
    Command{RelayCommand::kCreateSession, 0, Needs::kVersion, 8192, run_handler<create_session>},
    Command{RelayCommand::kStartData, 0, Needs::kVersion, kSmall, run_handler<start_data>},
    Command{RelayCommand::kCreateTraceChunk, kMinorOfChunks, Needs::kSession, 8192, run_handler<create_trace_chunk>},
    Command{RelayCommand::kAddStream, 0, Needs::kSession, 8192, run_handler<add_stream>},
    Command{RelayCommand::kStreamsSent, 4, Needs::kSession, kSmall, run_handler<streams_sent>},
    Command{RelayCommand::kSendIndex, kMinorOfIndexes, Needs::kSession, kSmall, run_handler<send_index>},
    Command{RelayCommand::kDataPending, 0, Needs::kSession, kSmall, run_handler<data_pending>},
    Command{RelayCommand::kQuiescentControl, 0, Needs::kSession, kSmall, run_handler<quiescent_control>},
    Command{RelayCommand::kBeginDataPending, 0, Needs::kSession, kSmall, run_handler<begin_data_pending>},
    Command{RelayCommand::kEndDataPending, 0, Needs::kSession, kSmall, run_handler<end_data_pending>},
    Command{RelayCommand::kResetMetadata, 8, Needs::kSession, kSmall, run_handler<reset_metadata>},
    Command{RelayCommand::kRotateStreams, kMinorOfChunks, Needs::kSession, 32 + 16 * kMaxStreams,
            run_handler<rotate_streams>},
    Command{RelayCommand::kCloseTraceChunk, kMinorOfChunks, Needs::kSession, kSmall, run_handler<close_trace_chunk>},
    Command{RelayCommand::kTraceChunkExists, kMinorOfChunks, Needs::kSession, kSmall, run_handler<trace_chunk_exists>},
    Command{RelayCommand::kCloseStream, 0, Needs::kSession, kSmall, run_handler<close_stream>},
};

const Command* find_command(RelayCommand command) {
    const auto* const found = std::ranges::find(kCommands, command, &Command::command);
    return found == kCommands.end() ? nullptr : found;
}

}  // namespace

std::uint64_t max_payload(RelayCommand command) {
    const Command* const found = find_command(command);
    return found == nullptr ? kSmall : found->max_payload;
}

CommandOutcome run_command(Producer& producer, RelayCommand command, UntrustedBytes payload) {
    const Command* const found = find_command(command);
    if (found == nullptr)
        return failed(RelayCode::kUnknownError, {ErrorKind::kUnsupported, wire::name_of(command) + " is not served"});
    if (found->needs != Needs::kNothing && !producer.minor)
        return disconnected({ErrorKind::kRefused, wire::name_of(command) + " before VERSION"});
    if (found->needs == Needs::kSession && producer.session == nullptr)
        return disconnected({ErrorKind::kRefused, wire::name_of(command) + " before CREATE_SESSION"});
    // What an older protocol does not have it cannot be asked for: it came with promises that older peers do not give.
    if (producer.minor.value_or(0) < found->since)
        return failed(RelayCode::kUnknownError,
                      {ErrorKind::kUnsupported,
                       fmt::format("{} does not exist in protocol 2.{}", wire::name_of(command), *producer.minor)});
    return found->run(producer, payload);
}

}  // namespace leat::relay
