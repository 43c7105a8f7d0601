#include "base/listener.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "base/readable.hpp"
#include "support/scratch_directory.hpp"

namespace leat {
namespace {

class ListenerTest : public testing::Test {
  protected:
    ListenerTest() {
        const std::string path = directory_.path() / "socket";
        address_.sun_family = AF_UNIX;
        std::memcpy(address_.sun_path, path.c_str(), path.size() + 1);
        UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        EXPECT_EQ(::bind(socket.get(), address(), sizeof address_), 0);
        EXPECT_EQ(::listen(socket.get(), 8), 0);
        listener_ = Listener(std::move(socket), "guests");
    }
    UniqueFd connect() {
        UniqueFd guest(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::connect(guest.get(), address(), sizeof address_), 0);
        return guest;
    }
    [[nodiscard]] const sockaddr* address() const {
        return reinterpret_cast<const sockaddr*>(&address_);  // NOLINT(*-reinterpret-cast)
    }

    test::ScratchDirectory directory_;
    sockaddr_un address_{};
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
    const UniqueFd next(::dup(0));
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{.rlim_cur = static_cast<rlim_t>(next.get()), .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const bool is_accepted = listener_.accept().is_open();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_FALSE(is_accepted);
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
