#include "net/relay_url.hpp"

#include <gtest/gtest.h>

namespace leat::net {
namespace {

TEST(RelayUrl, RelayAlone) {
    const RelayUrl url = parse_relay_url("net://relay").value();
    EXPECT_EQ(url.address(), "relay:5344");
    EXPECT_FALSE(url.names_session());
    EXPECT_EQ(parse_relay_url("net://relay:7/")->address(), "relay:7");
}

TEST(RelayUrl, SessionOfAHost) {
    const RelayUrl url = parse_relay_url("net://relay:7/host/db1/my session").value();
    EXPECT_EQ(url.target_host, "db1");
    EXPECT_EQ(url.session, "my session");
    EXPECT_EQ(url.url_of("a", "b"), "net://relay:7/host/a/b");
}

TEST(RelayUrl, Ip6AddressInBrackets) {
    EXPECT_EQ(parse_relay_url("net6://[::1]:7")->address(), "[::1]:7");
    const RelayUrl url = parse_relay_url("net://[fe80::1]/host/a/b").value();
    EXPECT_EQ(url.host, "fe80::1");
    EXPECT_EQ(url.url_of("a", "b"), "net://[fe80::1]/host/a/b");
}

TEST(RelayUrl, OtherFormsAreRefused) {
    for (const char* text : {"relay", "net://", "net://:5", "net://[::1", "net://[::1]x", "net://[[a]", "net://a]",
                             "net://a:b", "net://a:0", "net://a:65536", "net://a/b", "net://a/host/", "net://a/host/b",
                             "net://a/host//c", "net://a/host/b/"})
        EXPECT_FALSE(parse_relay_url(text)) << text;
    EXPECT_EQ(parse_relay_url("net://a:0").error().message, "net://a:0: '0' is not a port");
}

}  // namespace
}  // namespace leat::net
