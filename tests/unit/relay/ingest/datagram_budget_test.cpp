#include "relay/ingest/datagram_budget.hpp"

#include <gtest/gtest.h>

namespace leat::relay {
namespace {

class DatagramBudgetTest : public testing::Test {
  protected:
    DatagramBudget budget{{.of_stream = 100, .of_session = 250, .of_all = 400}};
};

TEST_F(DatagramBudgetTest, StreamPaysForItself) {
    budget.set(1, 10, 100);
    EXPECT_FALSE(budget.debtor(1, 10));
    budget.set(1, 10, 101);
    EXPECT_EQ(budget.debtor(1, 10), 10U);
}

TEST_F(DatagramBudgetTest, LargestOfTheSessionPaysForTheSession) {
    budget.set(1, 10, 99);
    budget.set(1, 11, 98);
    budget.set(1, 12, 53);
    EXPECT_FALSE(budget.debtor(1, 12));
    budget.set(1, 12, 54);
    EXPECT_EQ(budget.debtor(1, 12), 10U);
    EXPECT_FALSE(budget.debtor(2, 20)) << "another session does not";
}

TEST_F(DatagramBudgetTest, LargestSessionPaysForAll) {
    budget.set(1, 10, 90);
    budget.set(1, 11, 100);
    budget.set(2, 20, 95);
    budget.set(3, 30, 80);
    EXPECT_FALSE(budget.debtor(3, 30));
    budget.set(4, 40, 36);
    EXPECT_EQ(budget.debtor(4, 40), 11U);
}

TEST_F(DatagramBudgetTest, WhatIsGivenBackIsForgotten) {
    for (std::uint64_t i = 0; i < 10; ++i) {
        budget.set(i, i, 70);
        budget.set(i, i, 0);
        EXPECT_EQ(budget.total(), 0U);
        EXPECT_FALSE(budget.debtor(i, i));
    }
}

}  // namespace
}  // namespace leat::relay
