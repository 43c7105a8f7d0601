#include "relay/ingest/splice_pipe.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <system_error>

#include "support/scratch_directory.hpp"

namespace leat::relay {
namespace {

class SplicePipeTest : public testing::Test {
  protected:
    void SetUp() override {
        std::array<int, 2> ends{};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
        peer = UniqueFd(ends[0]);
        socket = UniqueFd(ends[1]);
        ASSERT_TRUE(pipe.open());
    }
    UniqueFd file(int flags = 0) {
        return UniqueFd(::open((scratch.path() / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600));
    }
    void send(const std::string& text) {
        ASSERT_EQ(::write(peer.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    static std::string content_of(const UniqueFd& fd) {
        std::string text(100, ' ');
        const ssize_t count = ::pread(fd.get(), text.data(), text.size(), 0);
        text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
        return text;
    }

    test::ScratchDirectory scratch;
    UniqueFd peer;
    UniqueFd socket;
    SplicePipe pipe;
};

TEST_F(SplicePipeTest, BytesComeToTheirPlaceAndNoMoreThanWanted) {
    const UniqueFd target = file();
    ASSERT_EQ(::pwrite(target.get(), "..........", 10, 0), 10);
    send("abcdef");
    EXPECT_EQ(pipe.fill(socket.get(), 100), 6U);
    EXPECT_EQ(pipe.size(), 6U);
    EXPECT_EQ(*pipe.write_what_fits(target.get(), 3, 4), 4U);
    EXPECT_EQ(pipe.size(), 2U);
    EXPECT_EQ(content_of(target), "...abcd...");
    EXPECT_EQ(*pipe.write_what_fits(target.get(), 9, 2), 2U);
    EXPECT_EQ(pipe.size(), 0U);
    EXPECT_EQ(content_of(target), "...abcd..ef");
}

TEST_F(SplicePipeTest, TakesNoMoreThanAllowed) {
    send("abcdef");
    EXPECT_EQ(pipe.fill(socket.get(), 4), 4U);
    EXPECT_EQ(pipe.fill(socket.get(), 0), 0U);
    EXPECT_EQ(pipe.size(), 4U);
}

TEST_F(SplicePipeTest, NothingYetIsNotTheEnd) {
    EXPECT_EQ(pipe.fill(socket.get(), 100), std::nullopt);
    peer.reset();
    EXPECT_EQ(pipe.fill(socket.get(), 100), 0U);
}

TEST_F(SplicePipeTest, FilesThatTakeNoPipeGetTheirBytesFromMemory) {
    const UniqueFd target = file(O_APPEND);
    send("abcdef");
    EXPECT_EQ(pipe.fill(socket.get(), 100), 6U);
    const auto written = pipe.write_what_fits(target.get(), 0, 6);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().kind, ErrorKind::kUnsupported);
    std::array<std::byte, 4> bytes{};
    EXPECT_EQ(*pipe.read(bytes), 4U);
    EXPECT_EQ(bytes[3], std::byte{'d'});
    EXPECT_EQ(pipe.size(), 2U);
}

TEST_F(SplicePipeTest, LostConnectionIsAnException) { EXPECT_THROW(pipe.fill(-1, 100), std::system_error); }

}  // namespace
}  // namespace leat::relay
