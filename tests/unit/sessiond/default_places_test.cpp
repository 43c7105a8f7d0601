#include "sessiond/default_places.hpp"

#include <gtest/gtest.h>

namespace leat::sessiond {
namespace {

TEST(DefaultPlaces, DifferWithinASecond) {
    DefaultPlaces places;
    EXPECT_EQ(places.next("/home/ann", "web", "20260101-120000"), "/home/ann/leat-traces/web-20260101-120000");
    EXPECT_EQ(places.next("/home/ann", "web", "20260101-120000"), "/home/ann/leat-traces/web-20260101-120000-2");
    EXPECT_EQ(places.next("/home/bob", "web", "20260101-120000"), "/home/bob/leat-traces/web-20260101-120000");
    EXPECT_EQ(places.next("/home/ann", "web", "20260101-120000"), "/home/ann/leat-traces/web-20260101-120000-3");
    EXPECT_EQ(places.next("/home/ann", "web", "20260101-120001"), "/home/ann/leat-traces/web-20260101-120001");
}

}  // namespace
}  // namespace leat::sessiond
