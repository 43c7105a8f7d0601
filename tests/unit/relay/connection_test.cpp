#include "relay/connection.hpp"

#include <gtest/gtest.h>

#include "support/patience.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;
using asio::ip::tcp;

// Waits for a byte, but not longer than a given time.
class WaitingConnection final : public Connection {
  public:
    WaitingConnection(tcp::socket socket, Traffic& traffic, Clock::duration patience, bool& has_ended)
        : Connection(std::move(socket), "peer", traffic), patience_(patience), has_ended_(&has_ended) {}

  private:
    asio::awaitable<Result<void>> serve() override {
        expect_within(patience_);
        std::array<std::byte, 1> byte{};
        co_await receive(byte);
        co_return Result<void>();
    }
    void end() override { *has_ended_ = true; }

    Clock::duration patience_;
    bool* has_ended_;
};

// The second peer's data connection is that of a known producer, so its silence is no reason to drop it.
TEST(Connection, PeerThatIsTooSlowIsDropped) {
    asio::io_context context;
    tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    tcp::socket peer(context);
    peer.connect(acceptor.local_endpoint());
    const auto admission = std::make_shared<Admission>(Admission::kFewestConnections);
    const auto address = asio::ip::address_v4::loopback();
    auto control = *admission->admit(Admission::Port::kControl, address);
    control.identify();
    bool has_ended = false;
    Traffic traffic;
    std::make_shared<WaitingConnection>(acceptor.accept(), traffic, 1ms, has_ended)
        ->start(*admission->admit(Admission::Port::kData, address), 40ms);
    EXPECT_TRUE(test::wait_until([&] { return has_ended; }, [&] { context.run_one_for(100ms); }));
}

}  // namespace
}  // namespace leat::relay
