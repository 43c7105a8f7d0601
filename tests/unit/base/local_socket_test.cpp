#include "base/local_socket.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "support/scratch_directory.hpp"

namespace leat {
namespace {

class LocalSocketTest : public testing::Test {
  protected:
    [[nodiscard]] mode_t mode() const {
        struct stat status {};
        EXPECT_EQ(::lstat(path_.c_str(), &status), 0);
        return status.st_mode;
    }

    test::ScratchDirectory directory_;
    std::filesystem::path path_ = directory_.path() / "socket";
};

TEST_F(LocalSocketTest, ListensWithTheModeThatIsWanted) {
    for (const mode_t wanted : {0600, 0660, 0666}) {
        const auto socket = listen_at(path_, {.mode = wanted});
        ASSERT_TRUE(socket) << socket.error().message;
        EXPECT_EQ(mode(), S_IFSOCK | wanted);
        EXPECT_TRUE(connect_at(path_, SOCK_STREAM));
        ::unlink(path_.c_str());
    }
}

TEST_F(LocalSocketTest, BelongsToTheGroupThatIsWanted) {
    const auto socket = listen_at(path_, {.mode = 0660, .group = ::getegid()});
    ASSERT_TRUE(socket) << socket.error().message;
    struct stat status {};
    EXPECT_EQ(::lstat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_gid, ::getegid());
}

TEST_F(LocalSocketTest, DoesNotTakeThePlaceOfAnother) {
    const auto first = listen_at(path_, {});
    const auto second = listen_at(path_, {});
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().message.find("cannot make " + path_.native()), std::string::npos);
    EXPECT_TRUE(connect_at(path_, SOCK_STREAM));
}

TEST_F(LocalSocketTest, IsReachedByItsOwnTypeAlone) {
    const auto socket = listen_at(path_, {.type = SOCK_SEQPACKET});
    EXPECT_TRUE(connect_at(path_, SOCK_SEQPACKET));
    EXPECT_FALSE(connect_at(path_, SOCK_STREAM));
}

TEST_F(LocalSocketTest, LongestPathAndOneThatIsTooLong) {
    const std::string start = directory_.path().native() + "/";
    const std::string longest = start + std::string(107 - start.size(), 's');
    const auto socket = listen_at(longest, {});
    ASSERT_TRUE(socket) << socket.error().message;
    EXPECT_TRUE(connect_at(longest, SOCK_STREAM));
    for (const auto& error : {listen_at(longest + "s", {}), connect_at(longest + "s", SOCK_STREAM)}) {
        ASSERT_FALSE(error);
        EXPECT_NE(error.error().message.find("too long for a socket"), std::string::npos);
    }
}

}  // namespace
}  // namespace leat
