#include "sessiond/applications.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

#include "support/file_size_limit.hpp"
#include "support/test_control.hpp"

namespace leat::sessiond {
namespace {

using test::TestControl;
using test::TestTracepoint;

constexpr uid_t kMallory = 1001;
constexpr uid_t kAda = 1002;

// Each user may have two programs that describe the same small event.
class ApplicationsOfSmallBudgets : public testing::Test {
  protected:
    ApplicationsOfSmallBudgets() {
        for (const uid_t uid : {kMallory, kAda}) budgets_.emplace(uid, session::DescriptionBudget(2 * 512 + 44));
    }

    Result<TracedFile*> add(ino_t inode, const std::string& event, uid_t uid) {
        const std::vector<TestTracepoint> tracepoints{{.name = event}};
        return applications_.add(
            {.id = {.inode = inode}, .fd = TestControl(tracepoints).memfd(), .uid = uid, .gid = uid});
    }

    session::DescriptionBudgets budgets_;
    Applications applications_{wire::Lane::kSystem, budgets_};
};

TEST_F(ApplicationsOfSmallBudgets, ProgramOfAUserWhoHasNoneLeftIsRefused) {
    ASSERT_TRUE(add(1, "a:a", kMallory));
    const auto refused = add(2, "a:b", kMallory);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kRefused);
    EXPECT_TRUE(add(3, "a:b", kAda));
}

TEST_F(ApplicationsOfSmallBudgets, ProgramsOfOneFileTakeOnce) {
    ASSERT_TRUE(add(1, "a:a", kMallory));
    EXPECT_TRUE(add(2, "a:a", kMallory));
}

TEST_F(ApplicationsOfSmallBudgets, ProgramThatEndsGivesBack) {
    ASSERT_TRUE(add(1, "a:a", kMallory));
    applications_.remove({.inode = 1});
    EXPECT_TRUE(add(2, "a:b", kMallory));
}

TEST_F(ApplicationsOfSmallBudgets, EachFileTakesWhatIsKeptOfItsTracepoints) {
    ASSERT_TRUE(add(1, "a:a", kMallory));
    ASSERT_TRUE(add(2, "a:a", kMallory));
    const auto refused = add(3, "a:a", kMallory);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kRefused);
    EXPECT_TRUE(applications_.is_over_budget({.inode = 3}));
    EXPECT_TRUE(applications_.take_untold(kMallory));
    EXPECT_FALSE(applications_.take_untold(kMallory));
    EXPECT_TRUE(add(4, "a:a", kAda)) << "another user's, though the table is known";
    EXPECT_TRUE(applications_.with_room_again().empty());
    applications_.remove({.inode = 1});
    ASSERT_EQ(applications_.with_room_again().size(), 1U);
    EXPECT_EQ(applications_.with_room_again().front(), std::pair(FileId{.inode = 3}, kMallory));
    EXPECT_TRUE(add(3, "a:a", kMallory));
    EXPECT_FALSE(applications_.is_over_budget({.inode = 3}));
}

TEST_F(ApplicationsOfSmallBudgets, UserPaysForATableThatAnotherUserHas) {
    ASSERT_TRUE(add(1, "a:a", kMallory));
    ASSERT_TRUE(add(2, "a:a", kAda));
    EXPECT_FALSE(add(3, "a:b", kAda));
}

TEST_F(ApplicationsOfSmallBudgets, KnownTableWithAnotherNumberOfTracepointsIsRefused) {
    ASSERT_TRUE(add(1, "a:a", kMallory));
    TestControl control(std::vector<TestTracepoint>{{.name = "a:a"}});
    control.header.tracepoint_count = 0;
    const auto refused = applications_.add({.id = {.inode = 2}, .fd = control.memfd(), .uid = kMallory, .gid = 0});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kCorrupt);
}

// The list of a tracepoint's further actions may need a page of /dev/shm, which is full.
TEST(Applications, TracepointThatCannotBeSwitchedLeavesTheOthersToTheirOrders) {
    session::DescriptionBudgets budgets;
    budgets.emplace(kAda, session::DescriptionBudget(10'000));
    Applications applications(wire::Lane::kSystem, budgets);
    const TestControl control(std::vector<TestTracepoint>{{.name = "a:a"}, {.name = "a:b"}, {.name = "a:c"}});
    UniqueFd memory = control.memfd();
    const UniqueFd program(::dup(memory.get()));
    const auto file = applications.add({.id = {.inode = 1}, .fd = std::move(memory), .uid = kAda, .gid = kAda});
    ASSERT_TRUE(file);
    const wire::Action one{.event_id = 1, .channel = 1U << 2};
    const wire::Action other{.event_id = 2, .channel = 2U << 2};
    const auto orders_of = [](session::Orders::Actions actions) {
        session::Orders orders(actions.size());
        orders.actions = std::move(actions);
        return orders;
    };
    ASSERT_TRUE(Applications::carry_out(**file, orders_of({{one}, {one}, {}})));
    {
        const test::FileSizeLimit full(control.layout().more_actions(0));
        EXPECT_FALSE(Applications::carry_out(**file, orders_of({{one, other}, {}, {one}})));
    }
    const auto is_on = [&](std::uint64_t index) {
        return test::entry_in(program.get(), control.layout(), index).word != 0;
    };
    EXPECT_TRUE(is_on(0));
    EXPECT_FALSE(is_on(1));
    EXPECT_TRUE(is_on(2));
    EXPECT_TRUE(Applications::carry_out(**file, orders_of({{one, other}, {}, {one}})));
    EXPECT_EQ((*file)->orders[0].size(), 2U);
}

}  // namespace
}  // namespace leat::sessiond
