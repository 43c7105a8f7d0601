#include "sessiond/daemon_place.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "support/descriptor_limit.hpp"
#include "support/scratch_directory.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::sessiond {
namespace {

namespace fs = std::filesystem;
using Owner = DaemonPlace::Owner;

class DaemonPlaceTest : public testing::Test {
  protected:
    DaemonPlaceTest() { fs::create_directory(apps); }
    [[nodiscard]] Result<DaemonPlace> take() const {
        return DaemonPlace::take({.lane = wire::Lane::kSystem, .directory = directory, .app_parent = apps}, UniqueFd());
    }
    static std::string outcome(const Result<void>& taken) {
        return taken ? "taken" : taken.error().kind == ErrorKind::kRefused ? "refused" : "later";
    }

    test::ScratchDirectory scratch;
    fs::path directory = scratch.path() / "place";
    fs::path apps = scratch.path() / "apps";
};

TEST_F(DaemonPlaceTest, IsOfOneDaemon) {
    std::optional first(*take());
    EXPECT_EQ(*first->owner(), Owner::kWe);
    EXPECT_EQ(take().error().message, fmt::format("another session daemon runs already in {}", directory.string()));
    EXPECT_EQ(outcome(first->take_again()), "taken");
    first.reset();
    EXPECT_TRUE(take());
}

TEST_F(DaemonPlaceTest, WhoHasTheLockOfARemovedOneHasIt) {
    DaemonPlace first = *take();
    fs::remove_all(directory);
    EXPECT_EQ(*first.owner(), Owner::kNobody);
    std::optional second(*take());
    EXPECT_EQ(*first.owner(), Owner::kAnother);
    EXPECT_EQ(outcome(first.take_again()), "refused");
    second.reset();
    EXPECT_EQ(*first.owner(), Owner::kNobody);
    EXPECT_EQ(outcome(first.take_again()), "taken");
    EXPECT_EQ(*first.owner(), Owner::kWe);
}

// Others may write there, so it is nobody's.
TEST_F(DaemonPlaceTest, WhatStrangersPutThereIsNoDaemons) {
    DaemonPlace place = *take();
    const auto remove_and_put = [this](auto put) {
        fs::remove_all(directory);
        put();
    };
    const auto put_directory = [this] {
        fs::create_directory(directory);
        EXPECT_EQ(::chmod(directory.c_str(), 0777), 0);
    };
    remove_and_put(put_directory);
    const UniqueFd locked(::open((directory / wire::kLockName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(::flock(locked.get(), LOCK_EX), 0);
    EXPECT_EQ(*place.owner(), Owner::kNobody);
    EXPECT_EQ(outcome(place.take_again()), "later");
    remove_and_put([this] { EXPECT_TRUE(UniqueFd(::creat(directory.c_str(), 0600)).is_open()); });
    EXPECT_EQ(*place.owner(), Owner::kNobody);
    EXPECT_EQ(outcome(place.take_again()), "later");
    remove_and_put([this] { fs::create_symlink(apps, directory); });
    EXPECT_EQ(outcome(place.take_again()), "later");
    remove_and_put([] {});
    EXPECT_EQ(outcome(place.take_again()), "taken");
}

TEST_F(DaemonPlaceTest, ForWantOfDescriptorsItIsTriedAgain) {
    DaemonPlace place = *take();
    fs::remove_all(directory);
    std::optional another(*take());
    {
        const test::NoDescriptorLeft none;
        EXPECT_FALSE(place.owner());
        EXPECT_EQ(outcome(place.take_again()), "later");
    }
    EXPECT_EQ(outcome(place.take_again()), "refused");
    another.reset();
    fs::remove_all(directory);
    {
        const test::NoDescriptorLeft none;
        EXPECT_EQ(outcome(place.take_again()), "later");
    }
    EXPECT_EQ(outcome(place.take_again()), "taken");
}

TEST_F(DaemonPlaceTest, NeedsTheDirectoryOfPrograms) {
    DaemonPlace place = *take();
    fs::remove_all(directory);
    fs::rename(apps, scratch.path() / "elsewhere");
    fs::create_directory(apps);
    EXPECT_EQ(outcome(place.take_again()), "later");
    fs::remove(apps);
    fs::rename(scratch.path() / "elsewhere", apps);
    EXPECT_EQ(outcome(place.take_again()), "taken");
}

}  // namespace
}  // namespace leat::sessiond
