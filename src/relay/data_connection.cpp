#include "relay/data_connection.hpp"

#include <algorithm>

#include "relay/log.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;

// So many bytes of a connection that always has more, before they are shown and others have their turn.
constexpr std::size_t kMuch = 1U << 20;
constexpr auto kPatienceAtEnd = 10s;
// From here on it is cheaper to leave a packet's bytes to the system than to receive several packets with one call.
constexpr std::size_t kLargePacket = 32U << 10;
constexpr std::size_t kBufferSize = kLargePacket;

Time now() { return std::chrono::steady_clock::now(); }

}  // namespace

DataConnection::DataConnection(asio::ip::tcp::socket socket, Relay& relay)
    : Connection(std::move(socket), "data of producer"), relay_(&relay), input_(kBufferSize) {}

asio::awaitable<Result<void>> DataConnection::serve() {
    std::size_t taken = 0;
    for (;;) {
        const auto progress = consume();
        if (!progress) co_return tl::unexpected(progress.error());
        if (*progress == Progress::kDiskFull) {
            co_await wait_for_disk();
            continue;
        }
        if (*progress == Progress::kMustWait) {
            const auto flushed = co_await flush_patiently();
            if (!flushed) co_return flushed;
            co_await wait_for_other();
            continue;
        }
        // What has come is shown when there is nothing more to read, or much has.
        const bool is_much = taken >= kMuch;
        auto count = is_much ? std::nullopt : take();
        if (!count) {
            taken = 0;
            const auto flushed = co_await flush_patiently();
            if (!flushed) co_return flushed;
            if (is_much) {
                co_await yield();
                count = take();
            }
            while (!count) {
                co_await wait_for_bytes();
                count = take();
            }
        }
        if (*count == 0) co_return Result<void>();
        taken += *count;
    }
}

std::optional<std::size_t> DataConnection::take() {
    if (is_spliced_) return try_receive(pipe_);
    const auto count = try_receive(input_.room(wire::kDataHeaderSize));
    input_.add(count.value_or(0));
    return count;
}

asio::awaitable<Result<void>> DataConnection::flush_patiently() {
    for (;;) {
        const auto is_flushed = flush();
        if (!is_flushed) co_return tl::unexpected(is_flushed.error());
        if (*is_flushed) break;
        co_await wait_for_disk();
    }
    note_stored();
    co_return Result<void>();
}

Result<bool> DataConnection::flush() {
    if (!is_change_) return true;
    if (LEAT_TRY(session_->locked(flush_all)) == Disk::kFull) return false;
    session_->note_change();
    is_change_ = false;
    return true;
}

Result<DataConnection::Progress> DataConnection::consume() {
    for (;;) {
        if (stream_ == nullptr) {
            LEAT_TRY(take_header_from_pipe());
            if (input_.size() < wire::kDataHeaderSize) return Progress::kNeedsMore;
            if (!LEAT_TRY(begin_packet())) return Progress::kMustWait;
        }
        const Progress progress = LEAT_TRY(write_piece());
        if (progress != Progress::kPacketDone) return progress;
    }
}

Result<void> DataConnection::take_header_from_pipe() {
    if (pipe_.size() == 0 || input_.size() >= wire::kDataHeaderSize) return {};
    const std::size_t missing = wire::kDataHeaderSize - input_.size();
    input_.add(LEAT_TRY(pipe_.read(input_.room(missing).first(missing))));
    return {};
}

Result<bool> DataConnection::begin_packet() {
    const auto header = LEAT_TRY(wire::parse<wire::DataHeader>(input_.bytes().first(wire::kDataHeaderSize)));
    LEAT_TRY(find_session(header.stream_id));
    stream_ = session_->locked([&](SessionState& state) -> std::shared_ptr<DataStream> {
        const auto found = state.streams.find(header.stream_id);
        return found == state.streams.end() ? nullptr : found->second.stream;
    });
    if (stream_ == nullptr) return not_found("data for stream {}, which its session does not have", header.stream_id);
    const bool has_begun = LEAT_TRY(session_->locked([&](SessionState&) -> Result<bool> {
        if (!stream_->pairs().has_room_for_data(header.net_seq_num)) return false;
        LEAT_TRY(stream_->begin_packet(header));
        return true;
    }));
    if (!has_begun) {
        stream_.reset();
        return false;
    }
    input_.drop(wire::kDataHeaderSize);
    is_spliced_ = can_splice_ && header.data_size >= kLargePacket && pipe_.open();
    return true;
}

Result<void> DataConnection::find_session(std::uint64_t handle) {
    if (session_ != nullptr) return {};
    const std::shared_ptr<Session> session = relay_->session_of(handle);
    if (session == nullptr) return not_found("data for stream {}, which does not exist", handle);
    const bool is_first = session->locked([&](SessionState& state) {
        if (state.has_data_connection) return false;
        state.has_data_connection = true;
        if (!state.is_control_open) expect_within(kPatienceAtEnd);
        // The control connection's end leaves little to come: it has to come soon.
        state.hurry_data = [connection = weak_from_this()] {
            if (const auto self = connection.lock()) self->hurry(kPatienceAtEnd);
        };
        return true;
    });
    if (!is_first) return refused("session {} has a data connection already", session->description().id);
    session_ = session;
    return {};
}

// As much of the packet as is here. The bytes are written without the lock: commands and viewers do not wait for them.
Result<DataConnection::Progress> DataConnection::write_piece() {
    const auto begun =
        session_->locked([&](SessionState&) -> std::optional<std::pair<std::uint64_t, DataStream::Target>> {
            // Its session has ended: no index will come for this packet.
            if (stream_->is_finished()) return std::nullopt;
            return std::pair(stream_->missing(), stream_->begin_write());
        });
    if (!begun) return refused("stream {} is closed", stream_->parameters().handle);
    const auto [missing, target] = *begun;
    const std::uint64_t here = std::min<std::uint64_t>(missing, input_.size() != 0 ? input_.size() : pipe_.size());
    const auto written = write_what_fits(target, here);
    return session_->locked([&](SessionState& state) -> Result<Progress> {
        const std::uint64_t changes = stream_->changes();
        stream_->end_write(written.value_or(0));
        if (!written) return tl::unexpected(written.error());
        if (*written != here) return Progress::kDiskFull;
        if (here == missing) {
            if (LEAT_TRY(stream_->end_packet(now())) == Disk::kFull) return Progress::kDiskFull;
        } else {
            LEAT_TRY(stream_->commit(now()));  // what waited for the write to end
        }
        note_commit(state, stream_);
        if (here == missing && stream_->should_finish()) stream_->finish();
        is_change_ = is_change_ || stream_->changes() != changes;
        if (here != missing) return Progress::kNeedsMore;
        stream_.reset();
        return Progress::kPacketDone;
    });
}

// From the buffer, or if that is empty, from the pipe.
Result<std::size_t> DataConnection::write_what_fits(const DataStream::Target& target, std::uint64_t count) {
    if (input_.size() == 0 && count != 0) {
        auto written = pipe_.write_what_fits(target.fd, target.offset, count);
        if (written || written.error().kind != ErrorKind::kUnsupported) return written;
        while (pipe_.size() != 0) input_.add(LEAT_TRY(pipe_.read(input_.room(pipe_.size()))));
        can_splice_ = is_spliced_ = false;
    }
    const UntrustedBytes piece = input_.bytes().first(static_cast<std::size_t>(count));
    const std::size_t written = LEAT_TRY(relay::write_what_fits(target.fd, target.offset, piece));
    input_.drop(written);
    return written;
}

void DataConnection::end() {
    if (session_ == nullptr) return;
    session_->locked([](SessionState& state) {
        end_data(state, now());
        finish_streams(state, now());
    });
    session_->directory().finish_all();
    session_->note_change();
}

}  // namespace leat::relay
