#include "sessiond/keeper.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>

#include "base/descriptors.hpp"
#include "base/fd_passing.hpp"
#include "base/local_socket.hpp"
#include "ring/sanitizers.hpp"
#include "support/patience.hpp"
#include "support/resource_limit.hpp"
#include "support/scratch_directory.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::sessiond {
namespace {

const int kPatienceMs = test::test_patience_ms();

UniqueFd memory_with(std::string_view text) {
    UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
    EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return fd;
}

// What each name leads to.
std::map<std::string, std::string> texts(const Keeper::Kept& kept) {
    std::map<std::string, std::string> texts;
    for (const auto& [name, fd] : kept) {
        std::array<char, 100> text{};
        const ssize_t size = ::pread(fd.get(), text.data(), text.size(), 0);
        texts[name] = size < 0 ? "?" : std::string(text.data(), static_cast<std::size_t>(size));
    }
    return texts;
}

using Texts = std::map<std::string, std::string>;

bool is_hung_up(int fd) {
    pollfd wanted{fd, POLLIN, 0};
    return ::poll(&wanted, 1, kPatienceMs) == 1 && (wanted.revents & POLLHUP) != 0;
}

// The keeper ends with its directory.
class KeeperTest : public testing::Test {
  protected:
    Keeper find_or_start() {
        kept_.clear();
        auto found = Keeper::find(scratch_.path(), kept_);
        EXPECT_TRUE(found) << found.error().message;
        if (*found) return **std::move(found);
        auto keeper = Keeper::start(scratch_.path());
        EXPECT_TRUE(keeper) << keeper.error().message;
        return *std::move(keeper);
    }
    void put(Keeper& keeper, const std::string& name, std::string_view text) {
        keeper.put(name, memory_with(text).get());
    }

    // Speaks whatever it likes.
    [[nodiscard]] UniqueFd stranger() const { return *connect_at(socket_, SOCK_SEQPACKET); }
    static std::string message(std::uint32_t version, std::uint32_t operation, std::string_view name) {
        std::string bytes(sizeof version + sizeof operation, '\0');
        std::memcpy(bytes.data(), &version, sizeof version);
        std::memcpy(bytes.data() + sizeof version, &operation, sizeof operation);
        return bytes.append(name);
    }
    static void send(const UniqueFd& socket, std::string_view bytes, std::span<const int> fds = {}) {
        EXPECT_GT(send_with_fds(socket.get(), std::as_bytes(std::span(bytes)), fds), 0);
    }

    test::ScratchDirectory scratch_;
    std::filesystem::path socket_ = scratch_.path() / wire::kKeeperSocketName;
    Keeper::Kept kept_;
};

TEST_F(KeeperTest, NextDaemonGetsWhatWasKept) {
    {
        Keeper keeper = find_or_start();
        EXPECT_TRUE(kept_.empty());
        put(keeper, "3/0", "rings");
        put(keeper, "state", "{}");
    }
    {
        Keeper keeper = find_or_start();
        EXPECT_EQ(texts(kept_), (Texts{{"3/0", "rings"}, {"state", "{}"}}));
    }
    // It has them still.
    const Keeper keeper = find_or_start();
    EXPECT_EQ(texts(kept_), (Texts{{"3/0", "rings"}, {"state", "{}"}}));
}

TEST_F(KeeperTest, NothingButItsOwnerReachesIt) {
    const Keeper keeper = find_or_start();
    struct stat status {};
    ASSERT_EQ(::stat(socket_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0177U, 0U);
}

TEST_F(KeeperTest, LastOfANameCounts) {
    {
        Keeper keeper = find_or_start();
        put(keeper, "state", "one");
        put(keeper, "state", "two");
    }
    const Keeper keeper = find_or_start();
    EXPECT_EQ(texts(kept_), (Texts{{"state", "two"}}));
}

TEST_F(KeeperTest, DropsWhatBeginsSo) {
    {
        Keeper keeper = find_or_start();
        for (const char* const name : {"3/0", "3/1", "31/0", "4/0"}) put(keeper, name, name);
        keeper.drop("3/");
        keeper.drop("nothing");
    }
    const Keeper keeper = find_or_start();
    EXPECT_EQ(texts(kept_), (Texts{{"31/0", "31/0"}, {"4/0", "4/0"}}));
}

TEST_F(KeeperTest, KeepsManyDescriptors) {
    Texts all;
    {
        Keeper keeper = find_or_start();
        for (int i = 0; i < 300; ++i) {
            all[std::to_string(i)] = std::to_string(i);
            put(keeper, std::to_string(i), std::to_string(i));
        }
    }
    const Keeper keeper = find_or_start();
    EXPECT_EQ(texts(kept_), all);
}

// As a daemon whose hard limit is lower than that of the one before: it must not start, and nothing may be lost.
#ifndef LEAT_ADDRESS_SANITIZER  // where no descriptor is left, UBSan takes all objects for broken
TEST_F(KeeperTest, DaemonWithTooFewDescriptorsIsRefusedAndNothingIsLost) {
    Texts all;
    {
        Keeper keeper = find_or_start();
        for (int i = 0; i < 100; ++i) {
            all[std::to_string(i)] = std::to_string(i);
            put(keeper, std::to_string(i), std::to_string(i));
        }
    }
    const std::uint64_t open = open_descriptors();
    // Too few for all of them; then for all of them, and for little else.
    for (const std::uint64_t limit : {open + 50, open + 105}) {
        const test::LowerLimit low(RLIMIT_NOFILE, limit);
        Keeper::Kept kept;
        const auto refused = Keeper::find(scratch_.path(), kept);
        ASSERT_FALSE(refused);
        EXPECT_TRUE(kept.empty());
        EXPECT_NE(refused.error().message.find("raise it"), std::string::npos) << refused.error().message;
        EXPECT_NE(refused.error().message.find(socket_.string()), std::string::npos) << refused.error().message;
    }
    const Keeper keeper = find_or_start();
    EXPECT_EQ(texts(kept_), all);
}
#endif

TEST_F(KeeperTest, OneThatWasKilledIsNone) {
    ASSERT_TRUE(listen_at(socket_, {.type = SOCK_SEQPACKET}));
    const auto found = Keeper::find(scratch_.path(), kept_);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_FALSE(*found);
}

TEST_F(KeeperTest, EndsWithTheLastDaemonIfItKeepsNothing) {
    UniqueFd waiting;
    {
        Keeper keeper = find_or_start();
        put(keeper, "state", "{}");
        keeper.drop("state");
        waiting = stranger();
    }
    EXPECT_TRUE(is_hung_up(waiting.get()));
    // Another daemon starts another one.
    Keeper keeper = find_or_start();
    EXPECT_TRUE(kept_.empty());
    put(keeper, "state", "{}");
}

TEST_F(KeeperTest, DaemonAfterDaemonFindsOne) {
    for (int i = 0; i < 20; ++i) {
        // The one of before may be about to end.
        Keeper keeper = find_or_start();
        EXPECT_TRUE(kept_.empty());
        if (i % 2 == 0) continue;
        put(keeper, "state", "{}");
        keeper.end();
    }
}

TEST_F(KeeperTest, EndsWhenItIsTold) {
    Keeper keeper = find_or_start();
    put(keeper, "state", "{}");
    const UniqueFd waiting = stranger();
    keeper.end();
    EXPECT_TRUE(is_hung_up(waiting.get()));
    EXPECT_FALSE(std::filesystem::exists(socket_));
}

TEST_F(KeeperTest, EndsWhenItsSocketIsRemoved) {
    Keeper keeper = find_or_start();
    put(keeper, "state", "{}");
    const UniqueFd waiting = stranger();
    std::filesystem::remove(socket_);
    EXPECT_TRUE(is_hung_up(waiting.get()));
    // The daemon goes on without.
    put(keeper, "state", "{}");
    put(keeper, "state", "{}");
}

TEST_F(KeeperTest, SecondDaemonWaitsForTheFirst) {
    std::optional<Keeper> first = find_or_start();
    const UniqueFd second = stranger();
    constexpr std::uint32_t kTakeAll = 2;
    send(second, message(1, kTakeAll, ""));
    pollfd answered{second.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&answered, 1, 50), 0);
    put(*first, "state", "{}");
    first.reset();
    EXPECT_EQ(::poll(&answered, 1, kPatienceMs), 1);
    std::array<std::byte, 100> bytes{};
    const MessageWithFds state = receive_with_fds(second.get(), bytes, 0);
    EXPECT_EQ(state.size, 8 + 5);
    ASSERT_EQ(state.fd_count, 1U);
    ::close(state.fds[0]);
}

// Such a client is hung up on, or nothing comes of it; what is kept stays.
TEST_F(KeeperTest, GarbageDoesNoHarm) {
    {
        Keeper keeper = find_or_start();
        put(keeper, "state", "{}");
    }
    const UniqueFd some = memory_with("some");
    const std::array<int, 2> two{some.get(), some.get()};
    constexpr std::uint32_t kPut = 0;
    send(stranger(), "x");
    send(stranger(), message(2, kPut, "version"), std::span(two).first(1));
    send(stranger(), message(1, 99, "operation"), std::span(two).first(1));
    send(stranger(), message(1, kPut, "without"));
    send(stranger(), message(1, kPut, std::string(65, 'x')), std::span(two).first(1));
    send(stranger(), std::string(100'000, 'x'), two);
    send(stranger(), message(1, kPut, "two"), two);
    for (int i = 0; i < 3; ++i) (void)stranger();
    const Keeper keeper = find_or_start();
    EXPECT_EQ(texts(kept_), (Texts{{"state", "{}"}, {"two", "some"}}));
}

TEST_F(KeeperTest, PathThatIsTooLongIsRefused) {
    const auto found = Keeper::find(scratch_.path() / std::string(100, 'x'), kept_);
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().message.find("too long"), std::string::npos);
}

// Somebody has left a file there.
TEST_F(KeeperTest, WhateverHasTheNameOfItsSocketGivesWay) {
    ASSERT_GE(UniqueFd(::open(socket_.c_str(), O_CREAT | O_CLOEXEC, 0600)).get(), 0);
    Keeper keeper = find_or_start();
    EXPECT_TRUE(kept_.empty());
    put(keeper, "state", "{}");
}

}  // namespace
}  // namespace leat::sessiond
