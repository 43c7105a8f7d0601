#include "relay/data_connection.hpp"

#include <algorithm>

#include "relay/log.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;

// A full disk is looked at again this often.
constexpr auto kDiskInterval = 200ms;
constexpr auto kPatienceAtEnd = 10s;

Time now() { return std::chrono::steady_clock::now(); }

}  // namespace

DataConnection::DataConnection(asio::ip::tcp::socket socket, Relay& relay, std::size_t buffer_size)
    : Connection(std::move(socket), "data of producer"), relay_(&relay), input_(buffer_size) {}

asio::awaitable<Result<void>> DataConnection::serve() {
    bool was_full = false;
    for (;;) {
        const auto consumed = consume();
        if (is_change_) session_->note_change();
        is_change_ = false;
        if (!consumed) co_return tl::unexpected(consumed.error());
        if (*consumed == Progress::kDiskFull) {
            if (!was_full) log("{}: the disk is full: its session waits for room", peer());
            was_full = true;
            co_await sleep(std::chrono::duration_cast<std::chrono::milliseconds>(kDiskInterval));
            continue;
        }
        if (was_full) log("{}: the disk has room again", peer());
        was_full = false;
        const std::size_t count = co_await receive(input_.room(wire::kDataHeaderSize));
        if (count == 0) co_return Result<void>();
        input_.add(count);
    }
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
    return {};
}

Result<void> DataConnection::find_session(std::uint64_t handle) {
    if (session_ != nullptr) return {};
    const std::shared_ptr<Session> session = relay_->session_of(handle);
    if (session == nullptr) return not_found("data for stream {}, which does not exist", handle);
    const bool is_first = session->locked([&](SessionState& state) {
        if (!state.is_control_open || state.has_data_connection) return false;
        state.has_data_connection = true;
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

// As much of the packet as is here.
Result<DataConnection::Progress> DataConnection::write_piece() {
    return session_->locked([&](SessionState&) -> Result<Progress> {
        const auto missing = stream_->missing();
        const UntrustedBytes piece =
            input_.bytes().first(static_cast<std::size_t>(std::min<std::uint64_t>(missing, input_.size())));
        if (!piece.empty()) {
            const std::size_t written = LEAT_TRY(stream_->write(piece));
            input_.drop(written);
            if (written != piece.size()) return Progress::kDiskFull;
        }
        if (piece.size() != missing) return Progress::kNeedsMore;
        if (LEAT_TRY(stream_->end_packet(now())) == Disk::kFull) return Progress::kDiskFull;
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
        finish_streams(state);
    });
    session_->directory().finish_all();
    session_->note_change();
}

}  // namespace leat::relay
