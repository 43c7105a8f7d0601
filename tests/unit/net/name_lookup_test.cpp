#include "net/name_lookup.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include "support/patience.hpp"

namespace leat::net {
namespace {

using namespace std::chrono_literals;

TEST(NameLookup, NumbersAreKnownAtOnce) {
    for (const char* host : {"127.0.0.1", "::1"}) {
        NameLookup lookup(host);
        ASSERT_TRUE(lookup.is_done()) << host;
        const auto addresses = lookup.take();
        ASSERT_TRUE(addresses) << host;
        EXPECT_FALSE(addresses->empty());
    }
}

TEST(NameLookup, AnswerIsReadable) {
    NameLookup lookup("localhost");
    const test::Patience patience;
    while (!lookup.is_done() && !patience.is_over()) {
        pollfd wanted{lookup.fd(), POLLIN, 0};
        ::poll(&wanted, 1, 1000);
    }
    ASSERT_TRUE(lookup.is_done());
    EXPECT_TRUE(lookup.take());
}

TEST(NameLookup, NobodyNeedsToWaitForIt) {
    for (int i = 0; i < 20; ++i) NameLookup("localhost");
}

TEST(NameLookup, WaitsForSoLong) {
    EXPECT_TRUE(resolve_within(1min, "localhost"));
    const auto nobody = resolve_within(0ms, "localhost");
    EXPECT_TRUE(nobody || nobody.error().message.ends_with("no answer within 0 s"));
}

}  // namespace
}  // namespace leat::net
