#include "relay/control_connection.hpp"

#include "relay/log.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBufferSize = 16U << 10;
// A producer introduces itself at once, and slow networks carry at least so many bytes a second.
constexpr auto kPatience = 30s;
constexpr std::uint64_t kSlowestBytesPerSecond = 512;
// A producer that sends large packets without waiting for each reply is in no hurry: its indexes gather for a moment,
// and cost a third as much together.
constexpr std::uint64_t kBulkPacket = 64U << 10;
constexpr auto kBulkPause = 300us;

std::chrono::seconds time_for(std::uint64_t bytes) {
    return kPatience + std::chrono::seconds(bytes / kSlowestBytesPerSecond);
}

}  // namespace

ControlConnection::ControlConnection(asio::ip::tcp::socket socket, Relay& relay, std::size_t thread)
    : Connection(std::move(socket), "producer"), input_(kBufferSize) {
    producer_.relay = &relay;
    producer_.thread = thread;
}

asio::awaitable<Result<void>> ControlConnection::serve() {
    expect_within(kPatience);
    for (;;) {
        for (;;) {
            Result<bool> outcome = false;
            // Not `?:`: GCC 12 destroys the results of co_await in it twice.
            if (metadata_)
                outcome = co_await metadata();
            else
                outcome = co_await next_message();
            if (!outcome) co_return tl::unexpected(outcome.error());
            if (!*outcome || has_ended_) break;
        }
        const auto sent = co_await send_replies();
        if (!sent) co_return tl::unexpected(sent.error());
        if (has_ended_) co_return Result<void>();
        if (std::exchange(bulk_indexes_, 0) > 1) co_await sleep(kBulkPause);
        const std::size_t count = co_await receive(input_.room(wanted_));
        if (count == 0) co_return Result<void>();
        input_.add(count);
    }
}

asio::awaitable<Result<bool>> ControlConnection::next_message() {
    const bool is_new = wanted_ == 0;
    wanted_ = std::max(wanted_, wire::kControlHeaderSize);
    if (input_.size() == 0) {
        wanted_ = 0;
        // Between two messages a producer may be silent for ever, once it has a session.
        if (producer_.session != nullptr) expect_nothing();
        co_return false;
    }
    if (is_new && producer_.session != nullptr) expect_within(kPatience);
    if (input_.size() < wire::kControlHeaderSize) co_return false;
    const auto header = wire::parse<wire::ControlHeader>(input_.bytes().first(wire::kControlHeaderSize));
    const auto command = static_cast<wire::RelayCommand>(header->command);
    if (header->data_size > wire::kMaxControlPayload)
        co_return refused("{}: a payload of {} bytes is too large", wire::name_of(command), header->data_size);
    if (command == wire::RelayCommand::kSendMetadata) {
        wanted_ = wire::kControlHeaderSize + wire::kSendMetadataSize;
        if (input_.size() < wanted_) co_return false;
        const auto begun = begin_metadata(header->data_size);
        if (!begun) co_return tl::unexpected(begun.error());
        expect_within(time_for(header->data_size));
        wanted_ = 0;
        co_return true;
    }
    if (header->data_size > max_payload(command))
        co_return refused("{}: a payload of {} bytes is too large", wire::name_of(command), header->data_size);
    if (wanted_ == wire::kControlHeaderSize) expect_within(time_for(header->data_size));
    wanted_ = wire::kControlHeaderSize + header->data_size;
    if (input_.size() < wanted_) co_return false;
    const auto payload = [&] { return input_.bytes().subspan(wire::kControlHeaderSize, header->data_size); };
    CommandOutcome outcome = run_command(producer_, command, payload());
    while (outcome.must_wait) {
        const auto sent = co_await send_replies();
        if (!sent) co_return tl::unexpected(sent.error());
        co_await wait_for_other();
        outcome = run_command(producer_, command, payload());
    }
    input_.drop(wanted_);
    wanted_ = 0;
    if (outcome.error) log("{}: {}", peer(), outcome.error->message);
    is_change_ = is_change_ || outcome.is_change;
    if (outcome.packet_size >= kBulkPacket) ++bulk_indexes_;
    has_ended_ = outcome.ends_connection;
    replies_.insert(replies_.end(), outcome.reply.begin(), outcome.reply.end());
    co_return true;
}

Result<void> ControlConnection::begin_metadata(std::uint64_t payload_size) {
    if (producer_.session == nullptr) return refused("SEND_METADATA before CREATE_SESSION");
    if (payload_size < wire::kSendMetadataSize) return corrupt("SEND_METADATA: it has {} bytes", payload_size);
    const auto message = LEAT_TRY(
        wire::parse<wire::SendMetadata>(input_.bytes().subspan(wire::kControlHeaderSize, wire::kSendMetadataSize)));
    if (message.padding_size > wire::kMaxControlPayload)
        return corrupt("SEND_METADATA: a padding of {} bytes is too large", message.padding_size);
    auto stream = producer_.session->locked([&](SessionState& state) -> std::shared_ptr<MetadataStream> {
        const auto found = state.metadata.find(message.stream_id);
        return found == state.metadata.end() ? nullptr : found->second->metadata;
    });
    if (stream == nullptr) return not_found("SEND_METADATA: there is no metadata stream {}", message.stream_id);
    input_.drop(wire::kControlHeaderSize + wire::kSendMetadataSize);
    metadata_ = Metadata{std::move(stream), payload_size - wire::kSendMetadataSize, message.padding_size};
    return {};
}

// Writes what has come of it. A full disk is waited for, which the producer feels, and nobody else.
asio::awaitable<Result<bool>> ControlConnection::metadata() {
    while (metadata_->missing + metadata_->padding != 0) {
        const bool is_text = metadata_->missing != 0;
        const UntrustedBytes piece =
            input_.bytes().first(static_cast<std::size_t>(std::min<std::uint64_t>(metadata_->missing, input_.size())));
        if (is_text && piece.empty()) co_return false;
        const auto written = producer_.session->locked([&](SessionState&) {
            return is_text ? metadata_->stream->write(piece) : metadata_->stream->write_zeros(metadata_->padding);
        });
        if (!written) co_return tl::unexpected(written.error());
        (is_text ? metadata_->missing : metadata_->padding) -= *written;
        if (is_text) input_.drop(*written);
        if (*written != 0) continue;
        co_await wait_for_disk();
    }
    producer_.session->locked([&](SessionState&) { metadata_->stream->end_message(); });
    metadata_.reset();
    is_change_ = true;
    co_return true;
}

// A reply says that it is on disk.
asio::awaitable<Result<void>> ControlConnection::send_replies() {
    while (is_change_ && producer_.session != nullptr) {
        const auto flushed = producer_.session->locked(flush_all);
        if (!flushed) co_return tl::unexpected(flushed.error());
        if (*flushed == Disk::kDone) {
            // Viewers first: for an event somebody may be waiting, for a reply hardly anybody.
            producer_.session->wake_viewers();
            co_await yield();
            producer_.session->ring_for_followers();
            break;
        }
        co_await wait_for_disk();
    }
    is_change_ = false;
    note_stored();
    if (!replies_.empty()) co_await send(replies_);
    replies_.clear();
    co_return Result<void>();
}

}  // namespace leat::relay
