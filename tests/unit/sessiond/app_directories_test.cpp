#include "sessiond/app_directories.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>

#include "support/scratch_directory.hpp"

namespace leat::sessiond {
namespace {

class AppDirectoriesTest : public testing::Test {
  protected:
    // A directory with a control file that a program has.
    void make(const std::string& name) {
        const auto directory = parent_.path() / name;
        ASSERT_EQ(::mkdir(directory.c_str(), 0700), 0);
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

// Between its creation and its lock, it looks like that of a dead program.
TEST_F(AppDirectoriesTest, NewFileIsLeftAloneUntilItIsOld) {
    make("leat-" + user_);
    const auto file = parent_.path() / ("leat-" + user_) / "fedcba9876543210.new";
    const UniqueFd made(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    (void)directories_->sweep();
    EXPECT_TRUE(std::filesystem::exists(file));
    EXPECT_TRUE(directories_->unfinished().empty());
    EXPECT_TRUE(std::filesystem::exists(file));

    const auto become_old = [&] {
        const std::array<timespec, 2> times{timespec{::time(nullptr) - 11, 0}, {::time(nullptr) - 11, 0}};
        ASSERT_EQ(::futimens(made.get(), times.data()), 0);
    };
    become_old();
    ASSERT_EQ(::flock(made.get(), LOCK_SH | LOCK_NB), 0);
    EXPECT_EQ(directories_->unfinished().size(), 1U);
    ASSERT_EQ(::flock(made.get(), LOCK_UN), 0);
    EXPECT_TRUE(directories_->unfinished().empty());
    EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace leat::sessiond
