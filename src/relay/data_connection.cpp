#include "relay/data_connection.hpp"

#include <algorithm>

#include "relay/log.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;

// So many reads of a connection that always has more, before what they brought is shown and others have their turn.
constexpr unsigned kReadsToShow = 8;
// A full disk is looked at again this often.
constexpr auto kDiskInterval = 200ms;
constexpr auto kPatienceAtEnd = 10s;

Time now() { return std::chrono::steady_clock::now(); }

}  // namespace

DataConnection::DataConnection(asio::ip::tcp::socket socket, Relay& relay, std::size_t buffer_size)
    : Connection(std::move(socket), "data of producer"), relay_(&relay), input_(buffer_size) {}

asio::awaitable<Result<void>> DataConnection::serve() {
    unsigned reads = 0;
    for (;;) {
        const auto progress = consume();
        if (!progress) co_return tl::unexpected(progress.error());
        if (*progress == Progress::kDiskFull) {
            co_await wait_for_disk();
            continue;
        }
        // What has come is shown when there is nothing more to read, or much has.
        auto count = ++reads % kReadsToShow == 0 ? std::nullopt : try_receive(room());
        if (!count) {
            const auto flushed = co_await flush_patiently();
            if (!flushed) co_return flushed;
            if (reads % kReadsToShow == 0) co_await yield();
            count = co_await receive(room());
        }
        if (*count == 0) co_return Result<void>();
        input_.add(*count);
    }
}

// As far as the end of a packet, if those to come are as large as the last one: whole packets make whole pages.
std::span<std::byte> DataConnection::room() {
    const std::span<std::byte> room = input_.room(wire::kDataHeaderSize);
    const std::uint64_t first = missing_ > input_.size() ? missing_ - input_.size() : 0;
    const std::uint64_t packet = wire::kDataHeaderSize + last_size_;
    if (first >= room.size() || input_.size() > missing_) return room;
    return room.first(std::max<std::size_t>(first + (room.size() - first) / packet * packet, 1));
}

asio::awaitable<Result<void>> DataConnection::flush_patiently() {
    for (;;) {
        const auto is_flushed = flush();
        if (!is_flushed) co_return tl::unexpected(is_flushed.error());
        if (*is_flushed) break;
        co_await wait_for_disk();
    }
    if (std::exchange(was_full_, false)) log("{}: the disk has room again", peer());
    co_return Result<void>();
}

Result<bool> DataConnection::flush() {
    if (!is_change_) return true;
    if (LEAT_TRY(session_->locked(flush_all)) == Disk::kFull) return false;
    session_->note_change();
    is_change_ = false;
    return true;
}

asio::awaitable<void> DataConnection::wait_for_disk() {
    if (!std::exchange(was_full_, true)) log("{}: the disk is full: its session waits for room", peer());
    co_await sleep(kDiskInterval);
}

Result<DataConnection::Progress> DataConnection::consume() {
    for (;;) {
        if (stream_ == nullptr) {
            if (input_.size() < wire::kDataHeaderSize) return Progress::kNeedsMore;
            LEAT_TRY(begin_packet());
        }
        const Progress progress = LEAT_TRY(write_piece());
        if (progress != Progress::kPacketDone) return progress;
    }
}

Result<void> DataConnection::begin_packet() {
    const auto header = LEAT_TRY(wire::parse<wire::DataHeader>(input_.bytes().first(wire::kDataHeaderSize)));
    LEAT_TRY(find_session(header.stream_id));
    stream_ = session_->locked([&](SessionState& state) -> std::shared_ptr<DataStream> {
        const auto found = state.streams.find(header.stream_id);
        return found == state.streams.end() ? nullptr : found->second.stream;
    });
    if (stream_ == nullptr) return not_found("data for stream {}, which its session does not have", header.stream_id);
    LEAT_TRY(session_->locked([&](SessionState&) { return stream_->begin_packet(header); }));
    input_.drop(wire::kDataHeaderSize);
    last_size_ = header.data_size;
    return {};
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
    const auto [missing, target] =
        session_->locked([&](SessionState&) { return std::pair(stream_->missing(), stream_->begin_write()); });
    const UntrustedBytes piece =
        input_.bytes().first(static_cast<std::size_t>(std::min<std::uint64_t>(missing, input_.size())));
    const auto written = write_what_fits(target.fd, target.offset, piece);
    if (written) input_.drop(*written);
    return session_->locked([&](SessionState& state) -> Result<Progress> {
        stream_->end_write(written.value_or(0));
        missing_ = missing - written.value_or(0);
        if (!written) return tl::unexpected(written.error());
        if (*written != piece.size()) return Progress::kDiskFull;
        if (piece.size() == missing) {
            if (LEAT_TRY(stream_->end_packet(now())) == Disk::kFull) return Progress::kDiskFull;
        } else {
            LEAT_TRY(stream_->commit(now()));  // what waited for the write to end
        }
        note_commit(state, stream_);
        is_change_ = is_change_ || stream_->has_unflushed();
        if (piece.size() != missing) return Progress::kNeedsMore;
        if (stream_->should_finish()) stream_->finish();
        is_change_ = true;
        stream_.reset();
        return Progress::kPacketDone;
    });
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
