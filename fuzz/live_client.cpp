// What a relay says to a viewer, whatever the viewer asks: a whole session, up to the text that is printed.
//
// Input: the relay's bytes.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/check.hpp"
#include "fuzz_input.hpp"
#include "viewer/read/relay_session.hpp"
#include "viewer/sink/text_sink.hpp"

namespace leat::fuzz::live_client {
namespace {

using namespace viewer;

// Bytes that do not fit into the socket are dropped.
net::WaitingSocket relay_that_says(UntrustedBytes bytes, UniqueFd& other_end) {
    std::array<int, 2> ends{};
    LEAT_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    other_end = UniqueFd(ends[1]);
    (void)!::send(other_end.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(other_end.get(), SHUT_WR);
    return {UniqueFd(ends[0]), -1};
}

// Requests are read and dropped, so that the next ones find room.
void forget_requests(const UniqueFd& other_end) {
    std::array<std::byte, 65536> requests{};
    while (::recv(other_end.get(), requests.data(), requests.size(), 0) > 0) continue;
}

Result<void> print(LiveMerge& merge, TextSink& sink) {
    while (true) {
        const auto is_message = merge.next();
        if (!is_message) continue;  // an error ends only its stream
        if (!*is_message) return sink.flush();
        LEAT_TRY(sink.consume(merge.message()));
    }
}

// Follows the session as `leat view net://` does.
Result<void> follow(net::WaitingSocket socket, const UniqueFd& other_end, LiveMerge& merge, TextSink& sink) {
    LiveConnection connection = LEAT_TRY(LiveConnection::open(std::move(socket)));
    const auto sessions = LEAT_TRY(connection.list_sessions());
    LEAT_TRY(connection.create_viewer_session());
    ShownPackets shown;
    RelaySession session(connection, merge, shown, [](const std::string&) {});
    for (const wire::ListedSession& listed : sessions) (void)LEAT_TRY(session.attach(listed, wire::Seek::kBeginning));
    while (true) {
        const Progress progress = LEAT_TRY(session.advance());
        LEAT_TRY(print(merge, sink));
        if (progress == Progress::kEnded) return session.detach();
        // A relay that cannot wait would have to be polled, which takes time.
        if (progress == Progress::kNothingNew && (connection.can_get_news() || connection.can_wait()))
            LEAT_TRY(session.wait());
        forget_requests(other_end);
    }
}

}  // namespace

LEAT_FUZZ_TARGET(live_client) {
    static const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    UniqueFd other_end;
    net::WaitingSocket socket = relay_that_says(FuzzInput(data, size).take_rest(), other_end);
    viewer::LiveMerge merge;
    viewer::TextSink sink({}, std::nullopt, null, null);
    (void)follow(std::move(socket), other_end, merge, sink);
    (void)print(merge, sink);
    return 0;
}

}  // namespace leat::fuzz::live_client
