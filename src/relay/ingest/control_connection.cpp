#include "relay/ingest/control_connection.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/log.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kControlBufferSize = 16U << 10;
// Metadata is gathered up to that, and then written at once: a relay that is killed leaves a declaration whole or not
// at all.
constexpr std::uint64_t kGatheredMetadata = 64U << 10;
// For the rest of a message that has begun; slow networks carry at least so many bytes a second.
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
    : Connection(std::move(socket), "producer", relay.traffic()), input_(kControlBufferSize) {
    producer_.relay = &relay;
    producer_.principal = Principal{address()};
    producer_.thread = thread;
    expect_acknowledgements();
}

asio::awaitable<Result<void>> ControlConnection::serve() {
    for (;;) {
        // Whether more has to come for the next message: replies may begin another turn.
        bool is_used_up = false;
        while (!is_turn_over()) {
            Result<bool> outcome = false;
            // Not `?:`: GCC 12 destroys the results of co_await in it twice.
            if (metadata_)
                outcome = co_await metadata();
            else
                outcome = co_await next_message();
            if (!outcome) co_return tl::unexpected(outcome.error());
            is_used_up = !*outcome;
            if (is_used_up || has_ended_) break;
            note_message();
        }
        const auto sent = co_await send_replies();
        if (!sent) co_return tl::unexpected(sent.error());
        if (has_ended_) co_return Result<void>();
        if (!is_used_up) {
            co_await yield();
            continue;
        }
        if (std::exchange(bulk_indexes_, 0) > 1) co_await sleep(kBulkPause);
        const std::size_t count = co_await receive(input_.room(wanted_));
        if (count == 0) co_return Result<void>();
        input_.add(count);
    }
}

// A message is taken off the buffer only when it has been carried out: while it waits for the disk, or for the data
// connection, it is tried again from the same bytes. Metadata alone may be written in pieces, because a message of it
// may be larger than memory should hold: metadata().
asio::awaitable<Result<bool>> ControlConnection::next_message() {
    const bool is_new = wanted_ == 0;
    wanted_ = std::max(wanted_, wire::kSizeOf<wire::ControlHeader>);
    if (input_.size() == 0) {
        wanted_ = 0;
        // Between two messages a producer may be silent for ever, once it has a session.
        expect_nothing();
        co_return false;
    }
    if (is_new) expect_within(kPatience);
    if (input_.size() < wire::kSizeOf<wire::ControlHeader>) co_return false;
    const auto header = wire::parse<wire::ControlHeader>(input_.bytes().first(wire::kSizeOf<wire::ControlHeader>));
    const auto command = header->command;
    if (header->data_size > wire::kMaxControlPayload)
        co_return refused("{}: a payload of {} bytes is too large", wire::name_of(command), header->data_size);
    if (command == wire::RelayCommand::kSendMetadata) {
        wanted_ = wire::kSizeOf<wire::ControlHeader> + wire::kSizeOf<wire::SendMetadata>;
        if (input_.size() < wanted_) co_return false;
        const auto begun = begin_metadata(header->data_size);
        if (!begun) co_return tl::unexpected(begun.error());
        expect_within(time_for(header->data_size));
        wanted_ = 0;
        co_return true;
    }
    if (header->data_size > max_payload(command))
        co_return refused("{}: a payload of {} bytes is too large", wire::name_of(command), header->data_size);
    if (wanted_ == wire::kSizeOf<wire::ControlHeader>) expect_within(time_for(header->data_size));
    wanted_ = wire::kSizeOf<wire::ControlHeader> + header->data_size;
    if (input_.size() < wanted_) co_return false;
    log_debug("{}: {}, {} bytes", peer(), wire::name_of(command), header->data_size);
    const bool had_session = producer_.session != nullptr;
    const auto payload = [&] { return input_.bytes().subspan(wire::kSizeOf<wire::ControlHeader>, header->data_size); };
    CommandOutcome outcome = run_command(producer_, command, payload());
    while (outcome.must_wait || outcome.is_disk_full()) {
        if (outcome.must_wait) {
            const auto sent = co_await send_replies();
            if (!sent) co_return tl::unexpected(sent.error());
            const auto may_wait = producer_.session->wait(Half::kIndexes, std::chrono::steady_clock::now());
            if (!may_wait) co_return tl::unexpected(may_wait.error());
            co_await wait_for_other();
        } else {
            co_await wait_for_disk();
        }
        outcome = run_command(producer_, command, payload());
    }
    note_stored();
    if (had_session) producer_.session->go_on(Half::kIndexes);
    input_.drop(wanted_);
    wanted_ = 0;
    if (outcome.error) note_error(outcome.error->message);
    if (!had_session && producer_.session != nullptr) note_session();
    std::ranges::move(outcome.to_sync, std::back_inserter(to_sync_));
    if (outcome.packet_size >= kBulkPacket) ++bulk_indexes_;
    has_ended_ = outcome.ends_connection;
    replies_.insert(replies_.end(), outcome.reply.begin(), outcome.reply.end());
    co_return true;
}

// Refusals leave the connection open: a peer is not to fill the log with them.
void ControlConnection::note_error(const std::string& message) {
    constexpr std::uint64_t kMany = 10;
    ++errors_;
    if (errors_ <= kMany)
        log_warning("{}: {}", peer(), message);
    else if (std::has_single_bit(errors_))
        log_warning("{}: {} ({} errors so far)", peer(), message, errors_);
}

// A connection is a stranger until it has a session: from here on nobody takes its place.
void ControlConnection::note_session() {
    identify();
    const StoredSession::Description& session = producer_.session->description();
    log_info("{}: session {} begins: {} of {}, protocol 2.{}, {}", peer(), session.id, session.request.session_name,
             session.request.hostname, session.minor, session.request.live_timer_us != 0 ? "live" : "not live");
}

void ControlConnection::end() {
    if (producer_.session != nullptr) log_info("{}: session {} ends", peer(), producer_.session->description().id);
    end_producer(producer_);
}

Result<void> ControlConnection::begin_metadata(std::uint64_t payload_size) {
    if (producer_.session == nullptr) return refused("SEND_METADATA before CREATE_SESSION");
    if (payload_size < wire::kSizeOf<wire::SendMetadata>)
        return corrupt("SEND_METADATA: it has {} bytes", payload_size);
    const auto message = LEAT_TRY(wire::parse<wire::SendMetadata>(
        input_.bytes().subspan(wire::kSizeOf<wire::ControlHeader>, wire::kSizeOf<wire::SendMetadata>)));
    // Producers fill up a packet.
    constexpr std::uint32_t kMaxPadding = 1U << 20;
    if (message.padding_size > kMaxPadding)
        return corrupt("SEND_METADATA: a padding of {} bytes is too large", message.padding_size);
    auto trace = producer_.session->locked([&](SessionState& state) -> std::shared_ptr<Trace> {
        const auto found = state.metadata.find(message.stream_id);
        return found == state.metadata.end() ? nullptr : found->second;
    });
    if (trace == nullptr) return not_found("SEND_METADATA: there is no metadata stream {}", message.stream_id);
    input_.drop(wire::kSizeOf<wire::ControlHeader> + wire::kSizeOf<wire::SendMetadata>);
    metadata_ = Metadata{std::move(trace), payload_size - wire::kSizeOf<wire::SendMetadata>, message.padding_size};
    return {};
}

// Writes what has come of it, if that is enough. A full disk is waited for, which the producer feels, and nobody else.
asio::awaitable<Result<bool>> ControlConnection::metadata() {
    while (metadata_->missing + metadata_->padding != 0) {
        const bool is_text = metadata_->missing != 0;
        const UntrustedBytes piece =
            input_.bytes().first(static_cast<std::size_t>(std::min<std::uint64_t>(metadata_->missing, input_.size())));
        if (const auto gathered = std::min(metadata_->missing, kGatheredMetadata); piece.size() < gathered) {
            wanted_ = static_cast<std::size_t>(gathered);
            co_return false;
        }
        MetadataStream& stream = *metadata_->trace->metadata;
        const auto written = is_text ? stream.write(piece) : stream.write_zeros(metadata_->padding);
        if (!written) co_return tl::unexpected(written.error());
        (is_text ? metadata_->missing : metadata_->padding) -= *written;
        if (is_text) input_.drop(*written);
        if (is_text) producer_.relay->traffic().metadata_bytes += *written;
        if (!is_text) note_bytes(*written);
        if (is_turn_over()) co_await yield();
        if (*written != 0) continue;
        co_await wait_for_disk();
    }
    for (auto ended = metadata_->trace->metadata->end_message(); !ended;
         ended = metadata_->trace->metadata->end_message()) {
        if (!is_disk_full(ended)) co_return tl::unexpected(ended.error());
        co_await wait_for_disk();
    }
    producer_.session->show(metadata_->trace);
    producer_.changes.note();
    metadata_.reset();
    wanted_ = 0;
    co_return true;
}

void ControlConnection::note_disk_wait() {
    if (producer_.session != nullptr) producer_.session->note_disk_wait(now());
}

// A reply says that it is on disk.
asio::awaitable<Result<void>> ControlConnection::send_replies() {
    while (!producer_.changes.is_empty()) {
        const auto is_visible = producer_.changes.flush(*producer_.session, std::chrono::steady_clock::now());
        if (is_disk_full(is_visible)) {
            co_await wait_for_disk();
            continue;
        }
        if (!is_visible) co_return tl::unexpected(is_visible.error());
        if (!*is_visible) break;
        // Viewers first: for an event somebody may be waiting, for a reply hardly anybody.
        producer_.session->wake_viewers();
        co_await yield();
        producer_.session->ring_for_followers();
    }
    if (!to_sync_.empty()) {
        // It takes the time of all that is brought to disk before.
        const auto begin = Clock::now();
        const auto deadline = blame_nobody();
        const bool is_synced = co_await producer_.relay->sync()->now(std::exchange(to_sync_, {}));
        expect_by(deadline);
        forgive(Clock::now() - begin);
        if (!is_synced) co_return fail(ErrorKind::kIo, "what it asked for cannot be brought to disk");
    }
    note_stored();
    if (!replies_.empty()) co_await send(replies_);
    replies_.clear();
    co_return Result<void>();
}

}  // namespace leat::relay
