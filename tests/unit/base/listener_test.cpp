#include "base/listener.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <utility>

#include "base/local_socket.hpp"
#include "base/log.hpp"
#include "base/readable.hpp"
#include "support/descriptor_limit.hpp"
#include "support/scratch_directory.hpp"

namespace leat {
namespace {

class ListenerTest : public testing::Test {
  protected:
    ListenerTest() {
        auto socket = listen_at(path_, {.type = SOCK_STREAM | SOCK_NONBLOCK});
        EXPECT_TRUE(socket);
        listener_ = Listener(*std::move(socket), "guests");
    }
    UniqueFd connect() { return *connect_at(path_, SOCK_STREAM); }

    test::ScratchDirectory directory_;
    std::filesystem::path path_ = directory_.path() / "socket";
    Listener listener_;
};

TEST_F(ListenerTest, GivesThoseThatWaitAndThenNobody) {
    const UniqueFd first = connect();
    const UniqueFd second = connect();
    EXPECT_TRUE(listener_.accept().is_open());
    EXPECT_TRUE(listener_.accept().is_open());
    EXPECT_FALSE(listener_.accept().is_open());
}

TEST_F(ListenerTest, WithoutDescriptorsThoseThatWaitAreTurnedAway) {
    the_log().set_level(Log::Level::kError);
    const UniqueFd first = connect();
    const UniqueFd second = connect();
    // UBSan needs descriptors to look at types that it has not met.
    log_error("descriptors are about to run out");
    {
        const test::FewDescriptorsLeft none(0);
        EXPECT_FALSE(listener_.accept().is_open());
    }
    EXPECT_FALSE(is_readable(listener_.fd()));
    for (const UniqueFd* const guest : {&first, &second}) {
        char byte = 0;
        EXPECT_EQ(::recv(guest->get(), &byte, 1, MSG_DONTWAIT), 0);
    }
    const UniqueFd third = connect();
    EXPECT_TRUE(listener_.accept().is_open());
}

}  // namespace
}  // namespace leat
