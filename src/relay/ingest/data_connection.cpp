#include "relay/ingest/data_connection.hpp"

#include <algorithm>

#include "base/log.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatienceForRest = 10s;
// From here on it is cheaper to leave a packet's bytes to the system than to receive several packets with one call.
constexpr std::size_t kLargePacket = 32U << 10;
constexpr std::size_t kDataBufferSize = kLargePacket;

}  // namespace

DataConnection::DataConnection(asio::ip::tcp::socket socket, Relay& relay)
    : Connection(std::move(socket), "data of producer", relay.traffic()), relay_(&relay), input_(kDataBufferSize) {}

// Packets are shown in batches: as long as bytes keep coming, entries gather in memory; when there is nothing to read,
// or the turn is over, they go to disk and viewers hear of them. Before it waits for the other connection it shows
// everything too, because what that one waits for may be among it.
asio::awaitable<Result<void>> DataConnection::serve() {
    for (;;) {
        const auto progress = consume();
        if (is_disk_full(progress) || (progress && *progress == Progress::kDiskFull)) {
            if (session_ != nullptr) {
                session_->note_data();
                session_->go_on(Half::kData);
            }
            co_await wait_for_disk();
            continue;
        }
        if (!progress) co_return tl::unexpected(progress.error());
        if (*progress == Progress::kMustWait) {
            const auto flushed = co_await flush_patiently();
            if (!flushed) co_return flushed;
            const auto may_wait = session_->wait(Half::kData, now());
            if (!may_wait) co_return may_wait;
            co_await wait_for_other();
            continue;
        }
        if (session_ != nullptr) session_->go_on(Half::kData);
        // What has come is shown when there is nothing more to read, or much has.
        auto count = is_turn_over() ? std::nullopt : take();
        if (!count) {
            const auto flushed = co_await flush_patiently();
            if (!flushed) co_return flushed;
            if (is_turn_over()) {
                co_await yield();
                continue;
            }
            if (session_ != nullptr) session_->note_idle_data(true);
            while (!count) {
                co_await wait_for_bytes();
                count = take();
            }
            if (session_ != nullptr) session_->note_idle_data(false);
        }
        if (*count == 0) co_return Result<void>();
    }
}

std::optional<std::size_t> DataConnection::take() {
    if (is_spliced_) return try_receive(pipe_);
    const auto count = try_receive(input_.room(wire::kSizeOf<wire::DataHeader>));
    input_.add(count.value_or(0));
    return count;
}

// Shows what has come.
asio::awaitable<Result<void>> DataConnection::flush_patiently() {
    while (!changes_.is_empty()) {
        const auto is_visible = changes_.flush(*session_, now());
        if (is_disk_full(is_visible)) {
            session_->note_data();
            co_await wait_for_disk();
        } else if (!is_visible) {
            co_return tl::unexpected(is_visible.error());
        } else if (*is_visible) {
            session_->note_change();
        }
    }
    note_stored();
    co_return Result<void>();
}

Result<DataConnection::Progress> DataConnection::consume() {
    // What has been received is used up even if the turn is over by its size, but not if it is by packets.
    for (std::size_t packets = 0; packets < kTurnMessages; ++packets) {
        if (stream_ == nullptr && left_ == 0) {
            LEAT_TRY(take_header_from_pipe());
            if (input_.size() < wire::kSizeOf<wire::DataHeader>) return Progress::kNeedsMore;
            if (!LEAT_TRY(begin_packet())) return Progress::kMustWait;
        }
        const Progress progress = LEAT_TRY(stream_ != nullptr ? write_piece() : pass_over());
        if (progress != Progress::kPacketDone) return progress;
        note_message();
    }
    return Progress::kNeedsMore;
}

// While bytes are spliced, the header of the packet after the large one is in the pipe, perhaps with part of its data.
Result<void> DataConnection::take_header_from_pipe() {
    if (pipe_.size() == 0 || input_.size() >= wire::kSizeOf<wire::DataHeader>) return {};
    const std::size_t missing = wire::kSizeOf<wire::DataHeader> - input_.size();
    input_.add(LEAT_TRY(pipe_.read(input_.room(missing).first(missing))));
    return {};
}

Result<bool> DataConnection::begin_packet() {
    const auto header = LEAT_TRY(wire::parse<wire::DataHeader>(input_.bytes().first(wire::kSizeOf<wire::DataHeader>)));
    LEAT_TRY(find_session(header.stream_id));
    auto stream = session_->locked([&](SessionState& state) -> std::shared_ptr<SessionStream> {
        const auto found = state.by_handle.find(header.stream_id);
        return found == state.by_handle.end() ? nullptr : found->second;
    });
    if (stream == nullptr) return not_found("data for stream {}, which its session does not have", header.stream_id);
    const DataStream::Begun begun = LEAT_TRY(stream->stream->begin_packet(header));
    if (begun == DataStream::Begun::kLater) return false;
    input_.drop(wire::kSizeOf<wire::DataHeader>);
    left_ = header.data_size;
    is_spliced_ = false;
    if (begun == DataStream::Begun::kDropped) return true;
    stream_ = std::move(stream);
    is_spliced_ = can_splice_ && header.data_size >= kLargePacket && pipe_.open();
    return true;
}

// A handle is random and known only to its producer, so the first one proves which session the connection is for. Later
// ones must be of the same session.
Result<void> DataConnection::find_session(std::uint64_t handle) {
    if (session_ != nullptr) return {};
    const std::shared_ptr<StoredSession> session = relay_->handles().session_of(handle);
    if (session == nullptr) return not_found("data for stream {}, which does not exist", handle);
    const bool is_first = session->locked([&](SessionState& state) {
        if (state.has_data_connection || state.has_data_ended) return false;
        state.has_data_connection = true;
        if (!state.is_control_open) expect_bytes_within(kPatienceForRest);
        // The control connection's end leaves little to come: it has to come soon.
        state.hurry_data = [connection = weak_from_this()] {
            if (const auto self = connection.lock()) self->hurry(kPatienceForRest);
        };
        return true;
    });
    if (!is_first) return refused("session {} has its data connection already", session->description().id);
    session_ = session;
    session_->note_idle_data(false);
    identify();
    return {};
}

// As much of the packet as is here. The bytes are written without a lock: commands and viewers do not wait for them.
Result<DataConnection::Progress> DataConnection::write_piece() {
    DataStream& stream = *stream_->stream;
    const auto target = LEAT_TRY(stream.begin_write());
    if (!target) {
        stream_.reset();
        return pass_over();
    }
    const std::uint64_t here =
        std::min<std::uint64_t>(target->missing, input_.size() != 0 ? input_.size() : pipe_.size());
    const auto written = write_what_fits(*target, here);
    left_ -= written.value_or(0);
    changes_.add(stream_);
    const auto is_complete = stream.end_write(written.value_or(0), now());
    if (!written) return tl::unexpected(written.error());
    if (!is_complete && !is_disk_full(is_complete)) return tl::unexpected(is_complete.error());
    if (!is_complete || *written != here) return Progress::kDiskFull;
    if (!*is_complete) return Progress::kNeedsMore;
    stream_.reset();
    return Progress::kPacketDone;
}

Result<DataConnection::Progress> DataConnection::pass_over() {
    for (;;) {
        const std::size_t here = std::min<std::uint64_t>(left_, input_.size());
        input_.drop(here);
        left_ -= here;
        if (left_ == 0) return Progress::kPacketDone;
        const std::size_t piece = std::min<std::uint64_t>({left_, pipe_.size(), kLargePacket});
        if (piece == 0) return Progress::kNeedsMore;
        input_.add(LEAT_TRY(pipe_.read(input_.room(piece).first(piece))));
    }
}

// From the buffer, or if that is empty, from the pipe.
Result<std::size_t> DataConnection::write_what_fits(const DataStream::Target& target, std::uint64_t count) {
    if (input_.size() == 0 && count != 0) {
        auto written = pipe_.write_what_fits(target.file->data.get(), target.offset, count);
        if (written || written.error().kind != ErrorKind::kUnsupported) return written;
        while (pipe_.size() != 0) input_.add(LEAT_TRY(pipe_.read(input_.room(pipe_.size()))));
        can_splice_ = is_spliced_ = false;
    }
    const UntrustedBytes piece = input_.bytes().first(static_cast<std::size_t>(count));
    const std::size_t written = LEAT_TRY(relay::write_what_fits(target.file->data.get(), target.offset, piece));
    input_.drop(written);
    return written;
}

void DataConnection::note_disk_wait() {
    if (session_ != nullptr) session_->note_disk_wait(now());
}

// However it ended: what is here is flushed, and what waited for this data is lost.
void DataConnection::end() {
    if (session_ == nullptr) return;
    session_->end_data(now());
    session_->finish_streams(now());
    session_->note_change();
}

}  // namespace leat::relay
