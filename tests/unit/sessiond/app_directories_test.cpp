#include "sessiond/app_directories.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <limits>
#include <utility>

#include "support/descriptor_limit.hpp"
#include "support/scratch_directory.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::sessiond {
namespace {

class AppDirectoriesTest : public testing::Test {
  protected:
    // A directory with a control file that a program has.
    void make(const std::string& name) {
        const auto directory = parent_.path() / name;
        // That of our own user is there from the start.
        ASSERT_TRUE(::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST);
        const auto file = directory / "0123456789abcdef.app";
        held_.emplace_back(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        ASSERT_EQ(::flock(held_.back().get(), LOCK_SH), 0);
    }

    test::ScratchDirectory parent_;
    std::vector<UniqueFd> held_;
    std::string user_ = std::to_string(::geteuid());
    std::unique_ptr<AppDirectories> directories_ = *AppDirectories::open(parent_.path(), std::nullopt);
};

TEST_F(AppDirectoriesTest, UserHasNoSecondDirectoryUnderAnotherSpelling) {
    make("leat-" + user_);
    make("leat-0" + user_);
    EXPECT_EQ(directories_->sweep().found.size(), 1U);
}

TEST_F(AppDirectoriesTest, DirectoryThatWasRenamedGivesWayToItsSuccessor) {
    make("leat-" + user_);
    ASSERT_EQ(directories_->sweep().found.size(), 1U);
    std::filesystem::rename(parent_.path() / ("leat-" + user_), parent_.path() / "elsewhere");
    make("leat-" + user_);
    const auto news = directories_->sweep();
    EXPECT_EQ(news.found.size(), 1U);
    EXPECT_EQ(news.gone.size(), 1U);
}

TEST_F(AppDirectoriesTest, FileWithoutANameIsFollowedToItsEnd) {
    make("leat-" + user_);
    const auto file = std::move(directories_->sweep().found.at(0));
    std::filesystem::remove_all(parent_.path() / ("leat-" + user_));
    EXPECT_EQ(directories_->look().gone, std::vector{file.id});
    ASSERT_TRUE(directories_->follow(file.id, file.uid, file.fd.get()));
    EXPECT_EQ(directories_->find(file.uid, file.id.number), file.id);
    EXPECT_TRUE(directories_->look().gone.empty());
    EXPECT_EQ(directories_->sweep().gone, std::vector{file.id});
    held_.clear();
    EXPECT_EQ(directories_->look().gone, std::vector{file.id});
    directories_->unfollow(file.id);
    EXPECT_TRUE(directories_->sweep().gone.empty());
    EXPECT_FALSE(directories_->find(file.uid, file.id.number));
}

TEST_F(AppDirectoriesTest, FileThatHasAnotherNameIsNotFollowed) {
    make("leat-" + user_);
    const auto file = std::move(directories_->sweep().found.at(0));
    const auto directory = parent_.path() / ("leat-" + user_);
    std::filesystem::rename(directory / "0123456789abcdef.app", directory / "fedcba9876543210.app");
    EXPECT_EQ(directories_->look().gone, std::vector{file.id});
    EXPECT_FALSE(directories_->follow(file.id, file.uid, file.fd.get()));
}

// Each time, it would be opened and read, and its program be told what to do; or it would be forgotten.
TEST_F(AppDirectoriesTest, FileThatIsRenamedAwayAndBackIsTheOneThatIsKnown) {
    make("leat-" + user_);
    const FileId id = directories_->sweep().found.at(0).id;
    const auto directory = parent_.path() / ("leat-" + user_);
    for (int i = 0; i < 50; ++i) {
        std::filesystem::rename(directory / "0123456789abcdef.app", directory / "elsewhere");
        std::filesystem::rename(directory / "elsewhere", directory / "0123456789abcdef.app");
    }
    const auto news = directories_->look();
    EXPECT_TRUE(news.found.empty());
    EXPECT_TRUE(news.gone.empty());
    EXPECT_EQ(directories_->find(::geteuid(), id.number), id);
}

// As ext4 does: one look may tell of both.
TEST_F(AppDirectoriesTest, FileThatGetsTheInodeOfOneThatIsGoneIsAnother) {
    make("leat-" + user_);
    ASSERT_EQ(directories_->sweep().found.size(), 1U);
    const auto directory = parent_.path() / ("leat-" + user_);
    std::filesystem::rename(directory / "0123456789abcdef.app", directory / "fedcba9876543210.app");
    const auto news = directories_->sweep();
    ASSERT_EQ(news.found.size(), 1U);
    ASSERT_EQ(news.gone.size(), 1U);
    EXPECT_EQ(news.found[0].id.inode, news.gone[0].inode);
    EXPECT_NE(news.found[0].id, news.gone[0]);
}

// It would be found once more, and what it has counted would be counted twice.
TEST_F(AppDirectoriesTest, FileThatCannotBeOpenedNowHasNotGone) {
    make("leat-" + user_);
    ASSERT_EQ(directories_->sweep().found.size(), 1U);
    {
        const test::NoDescriptorLeft none;
        EXPECT_TRUE(directories_->sweep().gone.empty());
    }
    const auto news = directories_->sweep();
    EXPECT_TRUE(news.found.empty());
    EXPECT_TRUE(news.gone.empty());
    held_.clear();
    EXPECT_EQ(directories_->sweep().gone.size(), 1U);
}

// Between its creation and its lock, it looks like that of a dead program.
TEST_F(AppDirectoriesTest, NewFileIsLeftAloneUntilItIsOld) {
    make("leat-" + user_);
    const auto file = parent_.path() / ("leat-" + user_) / "fedcba9876543210.new";
    UniqueFd made;
    std::time_t begin = 0;
    bool is_there = false;
    do {  // again, if it has become old meanwhile
        begin = ::time(nullptr);
        made = UniqueFd(::open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        (void)directories_->sweep();
        EXPECT_TRUE(directories_->unfinished().empty());
        is_there = std::filesystem::exists(file);
    } while (::time(nullptr) - begin > 1);
    EXPECT_TRUE(is_there);

    const std::array<timespec, 2> long_ago{};
    ASSERT_EQ(::futimens(made.get(), long_ago.data()), 0);
    ASSERT_EQ(::flock(made.get(), LOCK_SH | LOCK_NB), 0);
    EXPECT_EQ(directories_->unfinished().size(), 1U);
    ASSERT_EQ(::flock(made.get(), LOCK_UN), 0);
    EXPECT_TRUE(directories_->unfinished().empty());
    EXPECT_FALSE(std::filesystem::exists(file));
}

// Whoever has the file may say any time.
TEST(NewControlFile, MayBeInTheMakingForAboutASecond) {
    constexpr long long kNow = 1'800'000'000;
    for (const long long written : {kNow - 1, kNow, kNow + 1})
        EXPECT_TRUE(wire::may_be_in_the_making(written, kNow)) << written;
    for (const long long written :
         {kNow - 2, kNow + 2, 0LL, std::numeric_limits<long long>::min(), std::numeric_limits<long long>::max()})
        EXPECT_FALSE(wire::may_be_in_the_making(written, kNow)) << written;
}

TEST_F(AppDirectoriesTest, DeadNewFilesHideNoneThatIsAlive) {
    make("leat-" + user_);
    const auto directory = parent_.path() / ("leat-" + user_);
    constexpr int kAlive = 60;
    for (int i = 0; i < 6 * kAlive; ++i) {
        const auto file = directory / fmt::format("{:016x}.new", i);
        UniqueFd made(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        ASSERT_TRUE(made.is_open());
        if (i % 6 != 0) continue;  // its program is dead
        ASSERT_EQ(::flock(made.get(), LOCK_SH), 0);
        held_.push_back(std::move(made));
    }
    (void)directories_->sweep();
    EXPECT_EQ(directories_->unfinished().size(), std::size_t{kAlive});
}

}  // namespace
}  // namespace leat::sessiond
