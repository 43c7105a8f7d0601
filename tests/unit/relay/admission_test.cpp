#include "relay/admission.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

namespace leat::relay {
namespace {

using Port = Admission::Port;

// Connections that a test opens, identifies and closes by number.
class Crowd {
  public:
    explicit Crowd(std::size_t max_connections) : admission_(std::make_shared<Admission>(max_connections)) {}

    // Returns the connection's number; nothing if it was turned away.
    std::optional<std::size_t> connect(Port port, const std::string& address = "10.0.0.1") {
        auto place = admission_->admit(port, asio::ip::make_address(address));
        if (!place) return std::nullopt;
        const std::size_t number = places_.size();
        place->on_drop([this, number] { dropped.insert(number); });
        places_.push_back(std::move(*place));
        return number;
    }
    std::size_t known(Port port, const std::string& address = "10.0.0.1") {
        const std::size_t number = connect(port, address).value();
        places_[number].identify();
        return number;
    }
    Admission::Place& operator[](std::size_t number) { return places_[number]; }
    void close(std::size_t number) { places_[number] = Admission::Place(); }
    Admission& admission() { return *admission_; }

    std::set<std::size_t> dropped{};

  private:
    std::shared_ptr<Admission> admission_;
    std::vector<Admission::Place> places_{};
};

TEST(Admission, OldestStrangerGoesForANewcomer) {
    Crowd crowd(64);  // live: 16, of one peer: 12
    for (int i = 0; i < 12; ++i) crowd.connect(Port::kLive);
    EXPECT_TRUE(crowd.dropped.empty());
    EXPECT_TRUE(crowd.connect(Port::kLive));
    EXPECT_EQ(crowd.dropped, std::set<std::size_t>{0});
    EXPECT_TRUE(crowd.connect(Port::kLive));
    EXPECT_EQ(crowd.dropped, (std::set<std::size_t>{0, 1}));
    EXPECT_EQ(crowd.admission().open(Port::kLive), 12U);
}

TEST(Admission, StrangerOfTheMostCrowdedPeerGoesFirst) {
    Crowd crowd(64);
    std::set<std::size_t> lonely;
    for (int i = 2; i < 6; ++i) lonely.insert(crowd.connect(Port::kLive, "10.0.0." + std::to_string(i)).value());
    for (int i = 0; i < 30; ++i) crowd.connect(Port::kLive, "10.0.0.1");
    EXPECT_EQ(crowd.dropped.size(), 18U);
    for (int i = 6; i < 10; ++i) EXPECT_TRUE(crowd.connect(Port::kLive, "10.0.0." + std::to_string(i)));
    EXPECT_EQ(crowd.dropped.size(), 22U);
    for (const std::size_t number : lonely) EXPECT_FALSE(crowd.dropped.contains(number));
    EXPECT_EQ(*crowd.dropped.rbegin(), lonely.size() + 21) << "of that peer the oldest go";
}

TEST(Admission, KnownOnesAreNeverDropped) {
    Crowd crowd(64);
    std::size_t count = 0;
    for (; count < 12; ++count) crowd.known(Port::kLive);
    EXPECT_FALSE(crowd.connect(Port::kLive)) << "three quarters are one peer's";
    for (int i = 0; i < 4; ++i) crowd.known(Port::kLive, "10.0.0.2");
    EXPECT_FALSE(crowd.connect(Port::kLive, "10.0.0.3"));
    EXPECT_TRUE(crowd.dropped.empty());
    crowd.close(0);
    EXPECT_TRUE(crowd.connect(Port::kLive, "10.0.0.3"));
}

TEST(Admission, CrowdOnOnePortLeavesTheOthersTheirPlaces) {
    Crowd crowd(64);
    for (int i = 0; i < 16; ++i) crowd.connect(Port::kLive, "10.0.1." + std::to_string(i));
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(crowd.connect(Port::kControl));
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(crowd.connect(Port::kData));
}

TEST(Admission, PeerAtItsLimitLosesItsOwnStrangersOnly) {
    Crowd crowd(64);
    const auto other = crowd.connect(Port::kLive, "10.0.0.2");
    for (int i = 0; i < 11; ++i) crowd.known(Port::kLive);
    const auto own = crowd.connect(Port::kLive);
    EXPECT_TRUE(crowd.connect(Port::kLive));
    EXPECT_EQ(crowd.dropped, std::set<std::size_t>{*own});
    EXPECT_FALSE(crowd.dropped.contains(*other));
}

TEST(Admission, Ipv6HostIsOnePeerWithAllItsAddresses) {
    Crowd crowd(64);
    for (int i = 0; i < 12; ++i) crowd.known(Port::kLive, "2001:db8::" + std::to_string(i + 1));
    EXPECT_FALSE(crowd.connect(Port::kLive, "2001:db8::ffff"));
    EXPECT_TRUE(crowd.connect(Port::kLive, "2001:db8:0:1::1"));
    crowd.known(Port::kControl, "::ffff:10.0.0.1");
    const auto data = crowd.connect(Port::kData, "10.0.0.1");
    EXPECT_TRUE(crowd[*data].may_be_silent()) << "IPv4 in IPv6 is IPv4";
}

TEST(Admission, SessionVouchesForOneSilentDataConnection) {
    Crowd crowd(64);
    const auto before = crowd.connect(Port::kData);
    EXPECT_FALSE(crowd[*before].may_be_silent());
    const auto control = crowd.known(Port::kControl);
    const auto data = crowd.connect(Port::kData);
    const auto second = crowd.connect(Port::kData);
    EXPECT_TRUE(crowd[*data].may_be_silent());
    EXPECT_FALSE(crowd[*second].may_be_silent());
    for (int i = 0; i < 60; ++i) crowd.connect(Port::kData);
    EXPECT_FALSE(crowd.dropped.contains(*data));
    EXPECT_TRUE(crowd.dropped.contains(*second));
    crowd.close(control);
    EXPECT_FALSE(crowd[*data].may_be_silent()) << "the session has ended";
}

TEST(Admission, OnlyDataConnectionOfAPeerLosesItsVoucher) {
    Crowd crowd(64);
    const auto control = crowd.known(Port::kControl);
    const auto data = crowd.connect(Port::kData);
    EXPECT_TRUE(crowd[*data].may_be_silent());
    crowd.close(control);
    EXPECT_FALSE(crowd[*data].may_be_silent());
    EXPECT_EQ(crowd.admission().open(Port::kData), 1U);
}

TEST(Admission, VoucherGoesToWhoeverIsNotTheSessionsOwn) {
    Crowd crowd(64);
    const auto early = crowd.connect(Port::kData);
    crowd.known(Port::kControl);
    const auto wrong = crowd.connect(Port::kData);
    EXPECT_TRUE(crowd[*wrong].may_be_silent());
    crowd[*early].identify();  // the session's data came on this connection
    EXPECT_FALSE(crowd[*wrong].may_be_silent());
}

TEST(Admission, DataFromAnotherAddressOfTheProducerMayBeSilentToo) {
    Crowd crowd(64);
    crowd.known(Port::kControl, "10.0.0.1");
    const auto data = crowd.connect(Port::kData, "192.168.0.1");
    const auto other = crowd.connect(Port::kData, "192.168.0.2");
    EXPECT_TRUE(crowd[*data].may_be_silent());
    EXPECT_FALSE(crowd[*other].may_be_silent());
}

TEST(Admission, ThousandProducersOfOnePeerHaveRoom) {
    Crowd crowd(2984);  // as many as a limit of 12,000 open files allows
    for (int i = 0; i < 1000; ++i) crowd.known(Port::kControl);
    for (int i = 0; i < 1000; ++i) crowd.connect(Port::kData);
    for (int i = 0; i < 20; ++i) crowd.known(Port::kLive);
    EXPECT_TRUE(crowd.dropped.empty());
}

TEST(Admission, FewPlacesAreLeftToOtherPeers) {
    Crowd crowd(4096);  // live: 1024
    for (int i = 0; i < 960; ++i) crowd.known(Port::kLive);
    EXPECT_FALSE(crowd.connect(Port::kLive));
    for (int i = 0; i < 64; ++i) crowd.known(Port::kLive, "10.0.0.2");
    EXPECT_FALSE(crowd.connect(Port::kLive, "10.0.0.2"));
}

TEST(Admission, EverybodyGoneLeavesNothing) {
    Crowd crowd(64);
    std::vector<std::size_t> numbers;
    for (int i = 0; i < 40; ++i) {
        for (const Port port : {Port::kControl, Port::kData, Port::kLive}) {
            const auto number = crowd.connect(port, "10.0.0." + std::to_string(i % 7));
            if (!number) continue;
            if (i % 3 == 0) crowd[*number].identify();
            numbers.push_back(*number);
        }
    }
    for (const std::size_t number : numbers) crowd.close(number);
    for (const Port port : {Port::kControl, Port::kData, Port::kLive}) EXPECT_EQ(crowd.admission().open(port), 0U);
    EXPECT_FALSE(crowd.admission().drop_stranger(Port::kLive));
}

}  // namespace
}  // namespace leat::relay
