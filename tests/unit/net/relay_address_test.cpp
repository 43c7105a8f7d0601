#include "net/relay_address.hpp"

#include <gtest/gtest.h>

namespace leat::net {
namespace {

TEST(RelayAddress, PortsAreOptional) {
    EXPECT_EQ(*parse_relay_address("net://host"), (RelayAddress{"host", 5342, 5343}));
    EXPECT_EQ(*parse_relay_address("net://host/"), (RelayAddress{"host", 5342, 5343}));
    EXPECT_EQ(*parse_relay_address("net://10.0.0.1:1"), (RelayAddress{"10.0.0.1", 1, 5343}));
    EXPECT_EQ(*parse_relay_address("net://host:1:65535"), (RelayAddress{"host", 1, 65535}));
}

TEST(RelayAddress, Ipv6StandsInBrackets) {
    EXPECT_EQ(*parse_relay_address("net://[::1]"), (RelayAddress{"::1", 5342, 5343}));
    EXPECT_EQ(*parse_relay_address("net://[fe80::2]:7:8"), (RelayAddress{"fe80::2", 7, 8}));
    EXPECT_EQ(to_text({"::1", 7, 8}), "[::1]:7");
    EXPECT_EQ(to_text({"host", 7, 8}), "host:7");
}

TEST(RelayAddress, SchemeTellsHowPacketsTravel) {
    EXPECT_EQ(*parse_relay_address("net+udp://host:1:2"), (RelayAddress{"host", 1, 2, true}));
    EXPECT_FALSE(parse_relay_address("net://host")->takes_datagrams);
    EXPECT_TRUE(is_relay_address("net+udp://"));
    EXPECT_FALSE(is_relay_address("net/x"));
}

TEST(RelayAddress, OthersAreRefusedWithTheRemedy) {
    for (const char* url : {"",           "net:/",      "net://",        "net:///",       "tcp://h",
                            "net://:1",   "net://h:",   "net://h:0",     "net://h:65536", "net://h:-1",
                            "net://h: 1", "net://h:1:", "net://h:1:2:3", "net://h:1:2:",  "net://h/x",
                            "net://[::1", "net://[]",   "net://[::1]x",  "net://::1",     "net://[[h]",
                            "net://h]"}) {
        const auto address = parse_relay_address(url);
        ASSERT_FALSE(address) << url;
        EXPECT_NE(address.error().message.find("write net://HOST[:CONTROL[:DATA]]"), std::string::npos) << url;
    }
}

}  // namespace
}  // namespace leat::net
