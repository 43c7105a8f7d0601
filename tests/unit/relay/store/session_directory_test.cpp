#include "relay/store/session_directory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/descriptor_limit.hpp"
#include "support/scratch_directory.hpp"

namespace leat::relay {
namespace {

namespace fs = std::filesystem;

class SessionDirectoryTest : public testing::Test {
  protected:
    SessionDirectoryTest() : directory(*ConfinedDirectory::open_root(scratch.path().string()), "host/session") {
        ::setenv("TZ", "UTC", 1);
    }

    std::shared_ptr<TraceChunk> create(std::uint64_t id) {
        auto chunk = *directory.create_chunk({.chunk_id = id, .creation_time = 60 * id});
        directory.enter(*chunk, 1);
        EXPECT_TRUE(directory.make_trace(*chunk, 1, "ust/uid")->directory.create_file(fmt::format("of-{}", id)));
        return chunk;
    }
    std::string close(TraceChunk& chunk, std::optional<wire::ChunkCommand> command) {
        return *directory.close_chunk({.chunk_id = chunk.id, .close_time = 60 * chunk.id + 60, .command = command});
    }
    bool exists(const std::string& path) { return fs::exists(scratch.path() / path); }

    test::ScratchDirectory scratch;
    SessionDirectory directory;
};

constexpr auto kMove = wire::ChunkCommand::kMoveToArchives;
constexpr auto kDelete = wire::ChunkCommand::kDelete;

TEST_F(SessionDirectoryTest, FirstChunkLivesInTheSessionsDirectory) {
    auto chunk = create(0);
    EXPECT_TRUE(exists("ust/uid/of-0"));
    EXPECT_EQ(close(*chunk, std::nullopt), "host/session");
    directory.leave(*chunk, 1);
    EXPECT_TRUE(exists("ust/uid/of-0"));
}

TEST_F(SessionDirectoryTest, RotatedChunkGoesToTheArchivesWhenItsStreamsHaveLeft) {
    auto first = create(0);
    auto second = create(1);
    EXPECT_EQ(close(*first, kMove), "host/session/archives/19700101T000000+0000-19700101T000100+0000-0");
    EXPECT_TRUE(directory.is_open(0));
    EXPECT_TRUE(exists("ust/uid/of-0"));
    directory.leave(*first, 1);
    EXPECT_FALSE(directory.is_open(0));
    EXPECT_TRUE(exists("archives/19700101T000000+0000-19700101T000100+0000-0/ust/uid/of-0"));
    EXPECT_TRUE(exists("19700101T000100+0000-1/ust/uid/of-1"));
    directory.leave(*second, 1);
    EXPECT_EQ(close(*second, std::nullopt), "host/session/archives/19700101T000100+0000-19700101T000200+0000-1");
    EXPECT_TRUE(exists("archives/19700101T000100+0000-19700101T000200+0000-1/ust/uid/of-1"));
    EXPECT_FALSE(exists("19700101T000100+0000-1"));
}

TEST_F(SessionDirectoryTest, ChunkThatCannotBeMovedNowIsMovedLater) {
    auto first = create(0);
    const std::string archived = close(*first, kMove).substr(std::string("host/session/").size());
    {
        const test::NoDescriptorLeft none;
        directory.leave(*first, 1);
        directory.settle();
    }
    EXPECT_TRUE(exists("ust/uid/of-0"));
    directory.settle();
    EXPECT_FALSE(exists("ust"));
    EXPECT_TRUE(exists(archived + "/ust/uid/of-0"));
}

TEST_F(SessionDirectoryTest, ChunkThatCannotBeDeletedNowIsDeletedLater) {
    auto first = create(0);
    auto second = create(1);
    close(*first, kDelete);
    {
        const test::NoDescriptorLeft none;
        directory.leave(*first, 1);
    }
    EXPECT_TRUE(exists("ust/uid/of-0"));
    directory.settle();
    EXPECT_FALSE(exists("ust/uid/of-0"));
    EXPECT_TRUE(exists("ust/uid/of-1"));
}

// Wherever it comes to an end of them: a directory that cannot be listed is not an empty one.
TEST_F(SessionDirectoryTest, ChunkIsDeletedHoweverFewDescriptorsThereWere) {
    for (std::uint64_t count = 0; count < 6; ++count) {
        auto first = create(2 * count);
        auto second = create(2 * count + 1);
        const std::string file = fmt::format("of-{}", first->id);
        close(*first, kDelete);
        {
            const test::FewDescriptorsLeft few(count);
            directory.leave(*first, 1);
        }
        directory.settle();
        for (const auto& entry : fs::recursive_directory_iterator(scratch.path()))
            EXPECT_NE(entry.path().filename(), file) << entry.path() << ", " << count << " descriptors";
        close(*second, kDelete);
        directory.leave(*second, 1);
    }
}

// The test makes one rename fail half way.
TEST_F(SessionDirectoryTest, ChunkIsMovedAsAWholeOrNotAtAll) {
    auto first = create(0);
    EXPECT_TRUE(directory.make_trace(*first, 2, "a-first")->directory.create_file("of-a"));
    const std::string archived = close(*first, kMove).substr(std::string("host/session/").size());
    fs::create_directories(scratch.path() / archived / "ust" / "in-the-way");
    directory.leave(*first, 1);
    EXPECT_TRUE(exists("a-first/of-a"));
    EXPECT_TRUE(exists("ust/uid/of-0"));
}

TEST_F(SessionDirectoryTest, ClearedChunkMakesRoomForTheNext) {
    auto first = create(0);
    auto second = create(1);
    close(*first, kDelete);
    directory.leave(*first, 1);
    EXPECT_FALSE(exists("ust/uid/of-0"));
    EXPECT_TRUE(exists("ust/uid/of-1"));
    EXPECT_FALSE(exists("19700101T000100+0000-1"));
    EXPECT_TRUE(directory.make_trace(*second, 1, "ust/uid")->directory.create_file("later"));
    EXPECT_TRUE(exists("ust/uid/later"));
}

TEST_F(SessionDirectoryTest, StreamThatComesTooLateDoesNotCompleteTheChunkAgain) {
    auto first = create(0);
    const std::string place = close(*first, kMove);
    directory.leave(*first, 1);
    auto another = directory.create_chunk({.chunk_id = 0, .creation_time = 30});
    directory.enter(*first, 1);
    directory.leave(*first, 1);
    EXPECT_TRUE(directory.is_open(0));
    EXPECT_EQ(directory.find(0), *another);
    EXPECT_TRUE(exists(place.substr(std::string("host/session/").size()) + "/ust/uid/of-0"));
}

TEST_F(SessionDirectoryTest, SnapshotHasADirectoryOfItsOwn) {
    auto chunk = *directory.create_chunk({.chunk_id = 0, .override_name = "snapshot-1"});
    EXPECT_TRUE(exists("snapshot-1"));
    EXPECT_EQ(close(*chunk, std::nullopt), "host/session/snapshot-1");
}

// Parts of one session, such as kernel and user space.
TEST_F(SessionDirectoryTest, PartsShareTheChunkAndNoTrace) {
    auto chunk = *directory.create_chunk({.chunk_id = 0});
    EXPECT_EQ(directory.make_trace(*chunk, 1, "ust/uid/0")->path, "ust/uid/0");
    EXPECT_EQ(directory.make_trace(*chunk, 2, "ust/uid/1")->path, "ust/uid/1");
    EXPECT_EQ(directory.make_trace(*chunk, 3, "ust/uid/0")->path, "ust/uid/0-2");
    EXPECT_EQ(directory.make_trace(*chunk, 1, "ust/uid/0")->path, "ust/uid/0");
    EXPECT_EQ(directory.make_trace(*chunk, 4, "kernel")->path, "kernel");
    EXPECT_EQ(directory.make_trace(*chunk, 5, "ust/uid/0/inside")->path, "ust/uid/0-2-2/inside");
}

TEST_F(SessionDirectoryTest, WhatItDidNotMakeStays) {
    fs::create_directories(scratch.path() / "ust/uid");
    fs::create_directories(scratch.path() / "snapshot-1/ust");
    auto first = create(0);
    EXPECT_TRUE(exists("ust-2/uid/of-0"));
    auto snapshot = *directory.create_chunk({.chunk_id = 7, .override_name = "snapshot-1"});
    EXPECT_EQ(snapshot->path, "snapshot-1-2");
    directory.enter(*snapshot, 1);
    EXPECT_TRUE(directory.make_trace(*snapshot, 1, "ust/uid")->directory.create_file("file"));
    close(*snapshot, kDelete);
    directory.leave(*snapshot, 1);
    close(*first, kDelete);
    directory.leave(*first, 1);
    EXPECT_TRUE(exists("ust/uid")) << "it was there before";
    EXPECT_TRUE(exists("snapshot-1/ust")) << "it was there before";
    EXPECT_FALSE(exists("ust-2"));
    EXPECT_FALSE(exists("snapshot-1-2"));
}

TEST_F(SessionDirectoryTest, PathThatWasToldIsWhereTheChunkGoes) {
    auto first = create(0);
    fs::create_directories(scratch.path() / "archives/19700101T000000+0000-19700101T000100+0000-0/not-ours");
    const std::string path = close(*first, kMove);
    EXPECT_EQ(path, "host/session/archives/19700101T000000+0000-19700101T000100+0000-0-2");
    directory.leave(*first, 1);
    EXPECT_TRUE(exists("archives/19700101T000000+0000-19700101T000100+0000-0-2/ust/uid/of-0"));
}

TEST(TracePath, NamesThatTheRelayGivesAreRefused) {
    for (const char* bad : {"", "/", "archives/x", "ust/index", "ust/index/x", "ust/.hidden", ".leat-sync", "a/../b"})
        EXPECT_FALSE(parse_trace_path(bad)) << bad;
    EXPECT_EQ(*parse_trace_path("/ust/archives/x/"), "ust/archives/x");
}

TEST_F(SessionDirectoryTest, ThirdOpenChunkIsRefused) {
    create(0), create(1);
    EXPECT_FALSE(directory.create_chunk({.chunk_id = 2}));
}

TEST_F(SessionDirectoryTest, NameOfASnapshotCannotLeaveTheDirectory) {
    EXPECT_FALSE(directory.create_chunk({.chunk_id = 0, .override_name = ".."}));
    EXPECT_FALSE(directory.create_chunk({.chunk_id = 0, .override_name = "a/b"}));
}

TEST(ConfinedDirectory, DirectoryThatCannotBeOpenedIsNotLeft) {
    const test::ScratchDirectory scratch;
    const auto root = *ConfinedDirectory::open_root(scratch.path().string());
    for (rlim_t count = 0; count < 3; ++count) {
        const test::FewDescriptorsLeft few(count);
        (void)root.make_fresh("fresh");
        (void)root.make_fresh("fresh");
    }
    // Of the last two, if they could be.
    EXPECT_LE(root.entries()->size(), 2U);
}

TEST(ConfinedDirectory, LinksAreNotFollowed) {
    test::ScratchDirectory scratch;
    const auto root = *ConfinedDirectory::open_root(scratch.path().string());
    test::ScratchDirectory outside;
    fs::create_directory_symlink(outside.path(), scratch.path() / "link");
    fs::create_symlink(outside.path() / "file", scratch.path() / "name");
    EXPECT_FALSE(root.make("link/inner"));
    EXPECT_FALSE(root.open("link"));
    EXPECT_FALSE(root.create_file("name"));
    EXPECT_FALSE(fs::exists(outside.path() / "file"));
    EXPECT_TRUE(root.remove("link"));
    EXPECT_TRUE(fs::is_empty(outside.path()));
}

// A link may lead from one session into another.
TEST(ConfinedDirectory, LinksThatStayInsideAreNotFollowedEither) {
    test::ScratchDirectory scratch;
    const auto root = *ConfinedDirectory::open_root(scratch.path().string());
    ASSERT_TRUE(root.make("victim"));
    std::ofstream(scratch.path() / "victim" / "file") << "text";
    fs::create_directory_symlink("victim", scratch.path() / "link");
    fs::create_symlink("victim/file", scratch.path() / "name");
    EXPECT_FALSE(root.open("link"));
    EXPECT_FALSE(root.make("link"));
    EXPECT_FALSE(root.make("link/inner"));
    EXPECT_FALSE(root.make_fresh("link/inner"));
    EXPECT_FALSE(root.open_file("name"));
    EXPECT_FALSE(root.open_file("link/file"));
    EXPECT_FALSE(root.exists("link/file"));
    EXPECT_FALSE(fs::exists(scratch.path() / "victim" / "inner"));
}

TEST(ConfinedDirectory, RootThatWasRemovedIsMadeAgainWhereItWas) {
    test::ScratchDirectory scratch;
    const fs::path path = scratch.path() / "output";
    fs::create_directory_symlink(path, scratch.path() / "link");
    fs::create_directory(path);
    auto root = *ConfinedDirectory::open_root((scratch.path() / "link").string());
    EXPECT_FALSE(root.renew_root_if_removed().value());
    fs::remove(path);
    EXPECT_TRUE(root.is_removed());
    EXPECT_FALSE(root.make("session"));
    EXPECT_TRUE(root.renew_root_if_removed().value());
    EXPECT_TRUE(root.make("session"));
    EXPECT_TRUE(fs::is_directory(path / "session"));
}

TEST(ConfinedDirectory, RootThatWasRemovedIsNotWhereSomebodyElseSays) {
    test::ScratchDirectory scratch;
    test::ScratchDirectory outside;
    const fs::path path = scratch.path() / "output";
    auto root = *ConfinedDirectory::open_root(path.string());
    fs::remove(path);
    fs::create_directory_symlink(outside.path(), path);
    EXPECT_FALSE(root.renew_root_if_removed());
    fs::remove(path);
    fs::create_directory(path);
    const bool is_of_another = ::chown(path.c_str(), 1000, 1000) == 0 && ::geteuid() != 1000;
    const auto renewed = root.renew_root_if_removed();
    ASSERT_EQ(renewed.has_value(), !is_of_another);
    const std::string trouble = renewed ? "another user" : renewed.error().message;
    EXPECT_NE(trouble.find("another user"), std::string::npos);
}

TEST(ConfinedDirectory, NothingAboveIsReached) {
    test::ScratchDirectory scratch;
    const auto root = *ConfinedDirectory::open_root(scratch.path().string());
    EXPECT_FALSE(root.open(".."));
    EXPECT_FALSE(root.make("../x"));
    EXPECT_FALSE(root.open("/tmp"));
    EXPECT_FALSE(root.open_file("/etc/passwd"));
}

TEST(ConfinedDirectory, NamesFromPeersAreChecked) {
    for (const char* bad : {"", ".", "..", "a/b", "a\nb", "\x7f"}) EXPECT_FALSE(parse_name(bad)) << bad;
    EXPECT_FALSE(parse_name(std::string("a\0b", 3)));
    EXPECT_FALSE(parse_name(std::string(256, 'x')));
    EXPECT_TRUE(parse_name(std::string(255, 'x')));
    EXPECT_TRUE(parse_name("...")) << "an odd name, but one that stays where it is";
}

TEST(ConfinedDirectory, PathsFromPeersAreChecked) {
    EXPECT_EQ(*parse_path("/host//session/"), "host/session");
    EXPECT_EQ(*parse_path(""), "");
    EXPECT_FALSE(parse_path("a/../b"));
    EXPECT_FALSE(parse_path("a/./b"));
    std::string deep;
    for (int i = 0; i < 100; ++i) deep += "d/";
    EXPECT_FALSE(parse_path(deep));
}

}  // namespace
}  // namespace leat::relay
