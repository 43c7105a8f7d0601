#include "host/chunk_directories.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "support/scratch_directory.hpp"

namespace leat::host {
namespace {

namespace fs = std::filesystem;

class ChunkDirectoriesTest : public testing::Test {
  protected:
    // As a session does that records into `where`.
    static void write(const fs::path& where, const std::string& text) {
        fs::create_directories(where / "ust");
        std::ofstream(where / "ust/metadata") << text;
    }
    static std::string read(const fs::path& where) {
        std::ifstream file(where / "ust/metadata");
        return {std::istreambuf_iterator<char>(file), {}};
    }
    // The process was killed, and another one has the state.
    void hand_over() { chunks_ = ChunkDirectories(session_, ChunkDirectories::State(chunks_.state())); }

    fs::path rotate(const std::string& next) {
        chunks_.plan_rotation();
        write(chunks_.state().next, next);
        const auto archived = chunks_.rotate();
        EXPECT_TRUE(archived) << archived.error().message;
        return archived ? *archived : fs::path();
    }
    [[nodiscard]] std::size_t archives() const {
        std::error_code error;
        const fs::directory_iterator all(session_ / "archives", error);
        return error ? 0 : static_cast<std::size_t>(std::distance(begin(all), end(all)));
    }

    test::ScratchDirectory scratch_;
    fs::path session_ = scratch_.path() / "session";
    ChunkDirectories chunks_{session_};
};

TEST_F(ChunkDirectoriesTest, FirstChunkIsTheSessionsDirectory) {
    EXPECT_EQ(chunks_.state().current, session_);
    EXPECT_FALSE(chunks_.was_rotated());
}

TEST_F(ChunkDirectoriesTest, BeginsOnce) {
    chunks_ = ChunkDirectories(session_, {.current = session_, .start = 1'000});
    chunks_.begin();
    EXPECT_EQ(chunks_.state().start, 1'000);
}

TEST_F(ChunkDirectoriesTest, ChunksFollowEachOther) {
    write(session_, "first");
    chunks_.begin();
    const fs::path first = rotate("second");
    EXPECT_TRUE(chunks_.was_rotated());
    const fs::path second = rotate("third");
    EXPECT_EQ(read(first), "first");
    EXPECT_EQ(read(second), "second");
    EXPECT_EQ(read(chunks_.state().current), "third");
    EXPECT_EQ(archives(), 2U);
    EXPECT_FALSE(fs::exists(session_ / "ust"));
}

TEST_F(ChunkDirectoriesTest, RotationThatIsDroppedChangesNothing) {
    write(session_, "first");
    chunks_.plan_rotation();
    EXPECT_FALSE(chunks_.state().next.empty());
    chunks_.drop_plan();
    EXPECT_TRUE(chunks_.state().next.empty());
    EXPECT_TRUE(chunks_.state().archived.empty());
    EXPECT_EQ(chunks_.state().current, session_);
    EXPECT_EQ(read(rotate("second")), "first");
}

TEST_F(ChunkDirectoriesTest, ChunkWithoutTracesIsShownAsAnEmptyOne) {
    chunks_.begin();
    const fs::path archived = rotate("second");
    EXPECT_TRUE(fs::is_directory(archived));
    EXPECT_TRUE(fs::is_empty(archived));
}

TEST_F(ChunkDirectoriesTest, WhatCannotBeMovedIsTold) {
    write(session_, "first");
    std::ofstream(session_ / "archives") << "a file";
    chunks_.plan_rotation();
    const fs::path next = chunks_.state().next;
    EXPECT_FALSE(chunks_.rotate());
    EXPECT_EQ(chunks_.state().current, next) << "which is where the session goes on";
    EXPECT_EQ(read(session_), "first");
}

// Whatever of a rotation was done when the process was killed, the next one ends it, in the places that were planned.
// Both for the first chunk, and for one that has a directory of its own.
TEST_F(ChunkDirectoriesTest, RotationThatWasInterruptedIsEnded) {
    const std::vector<std::function<void(const ChunkDirectories::State&, bool)>> steps{
        [](const auto&, bool) {},  // planned
        [](const auto& state, bool) { fs::create_directories(state.next); },
        [](const auto& state, bool) { write(state.next, "next"); },
        [](const auto& state, bool is_first) {
            write(state.next, "next");
            fs::create_directories(is_first ? state.archived : state.archived.parent_path());
        },
        [](const auto& state, bool is_first) {
            write(state.next, "next");
            fs::create_directories(is_first ? state.archived : state.archived.parent_path());
            is_first ? fs::rename(state.current / "ust", state.archived / "ust")
                     : fs::rename(state.current, state.archived);
        },
    };
    for (const bool is_first : {true, false}) {
        for (std::size_t step = 0; step < steps.size(); ++step) {
            fs::remove_all(session_);
            chunks_ = ChunkDirectories(session_);
            write(session_, "this");
            chunks_.begin();
            if (!is_first) rotate("this");
            chunks_.plan_rotation();
            const ChunkDirectories::State planned = chunks_.state();
            steps[step](planned, is_first);
            hand_over();
            const auto archived = chunks_.rotate();
            ASSERT_TRUE(archived) << archived.error().message;
            EXPECT_EQ(*archived, planned.archived);
            EXPECT_EQ(read(*archived), "this") << step;
            EXPECT_EQ(chunks_.state().current, planned.next);
            EXPECT_EQ(chunks_.state().id, planned.id + 1);
            EXPECT_EQ(archives(), is_first ? 1U : 2U);
            if (step >= 2) {
                EXPECT_EQ(read(chunks_.state().current), "next");
            }
        }
    }
}

// It was done, and the state that says so was not handed over.
TEST_F(ChunkDirectoriesTest, RotationThatIsEndedTwiceIsTheSame) {
    write(session_, "first");
    chunks_.plan_rotation();
    write(chunks_.state().next, "second");
    const ChunkDirectories::State planned = chunks_.state();
    ASSERT_TRUE(chunks_.rotate());
    chunks_ = ChunkDirectories(session_, planned);
    const auto archived = chunks_.rotate();
    ASSERT_TRUE(archived);
    EXPECT_EQ(read(*archived), "first");
    EXPECT_EQ(read(chunks_.state().current), "second");
    EXPECT_EQ(archives(), 1U);
}

}  // namespace
}  // namespace leat::host
