#include "net/connecting.hpp"

#include <gtest/gtest.h>

namespace leat::net {
namespace {

TEST(Connecting, NumbersNeedNoResolver) {
    for (const char* host : {"127.0.0.1", "::1"}) {
        const auto addresses = resolve(host);
        ASSERT_TRUE(addresses) << host;
        EXPECT_FALSE(addresses->empty());
    }
}

}  // namespace
}  // namespace leat::net
