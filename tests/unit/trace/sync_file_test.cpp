#include "trace/sync_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "support/scratch_directory.hpp"

namespace leat::trace {
namespace {

// A second process that runs the body and exits with its result.
class Child {
  public:
    explicit Child(const std::function<int()>& body) : pid_(::fork()) {
        if (pid_ == 0) ::_exit(body());
    }
    ~Child() {
        if (pid_ > 0) end(SIGKILL);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    void kill() { end(SIGKILL); }
    int exit_status() { return end(0); }

  private:
    int end(int signal) {
        int status = 0;
        ::kill(pid_, signal);
        ::waitpid(pid_, &status, 0);
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

    pid_t pid_;
};

class SyncFileTest : public testing::Test {
  protected:
    SyncFileTest() : directory_fd_(::open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

    SyncWriter writer() { return std::move(SyncWriter::create(directory_fd_.get()).value()); }
    SyncReader reader() { return std::move(SyncReader::open(directory_.path()).value().value()); }

    test::ScratchDirectory directory_;
    UniqueFd directory_fd_;
};

TEST_F(SyncFileTest, DirectoryWithoutOneIsFollowedByNobody) {
    EXPECT_FALSE(SyncReader::open(directory_.path()).value().has_value());
}

TEST_F(SyncFileTest, ReaderSeesWhatWasPublishedLast) {
    SyncWriter writer = this->writer();
    const SyncReader reader = this->reader();
    EXPECT_EQ(reader.read()->generation, 0U);
    ASSERT_TRUE(writer.publish(100, 4096));
    ASSERT_TRUE(writer.publish(200, 8192));
    const SyncState state = reader.read().value();
    EXPECT_EQ(state.generation, 2U);
    EXPECT_EQ(state.horizon, 200U);
    EXPECT_EQ(state.metadata_size, 8192U);
    EXPECT_FALSE(reader.is_writer_gone());
}

TEST_F(SyncFileTest, NewsThatAreThereAreNotWaitedFor) {
    SyncWriter writer = this->writer();
    ASSERT_TRUE(writer.publish(100, 0));
    EXPECT_EQ(reader().wait_after(0).value(), LockWait::kFree);
}

TEST_F(SyncFileTest, WaitingFollowersAreWokenByThePublication) {
    SyncWriter writer = this->writer();
    const auto follow = [this] {
        const SyncReader reader = this->reader();
        if (!reader.wait_after(0)) return 1;
        return reader.read()->horizon == 7 ? 0 : 2;
    };
    Child first(follow);
    Child second(follow);
    ASSERT_TRUE(writer.publish(7, 0));
    EXPECT_EQ(first.exit_status(), 0);
    EXPECT_EQ(second.exit_status(), 0);
}

TEST_F(SyncFileTest, KilledFollowerHarmsNobody) {
    SyncWriter writer = this->writer();
    Child(std::function<int()>([this] { return reader().wait_after(0) ? 0 : 1; })).kill();
    ASSERT_TRUE(writer.publish(7, 0));
    EXPECT_EQ(reader().wait_after(0).value(), LockWait::kFree);
}

TEST_F(SyncFileTest, NobodyWaitsForASessionThatHasEnded) {
    auto writer = std::optional(this->writer());
    const SyncReader reader = this->reader();
    EXPECT_FALSE(reader.is_writer_gone());
    writer.reset();
    EXPECT_EQ(reader.wait_after(0).value(), LockWait::kFree);
    EXPECT_TRUE(reader.is_writer_gone());
}

TEST_F(SyncFileTest, KilledWriterHasEndedItsSession) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    Child child([&] {
        SyncWriter writer = this->writer();
        if (!writer.publish(5, 10)) return 1;
        (void)!::write(ready[1], "x", 1);
        ::pause();
        return 0;
    });
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    const SyncReader reader = this->reader();
    EXPECT_FALSE(reader.is_writer_gone());
    child.kill();
    EXPECT_EQ(reader.wait_after(1).value(), LockWait::kFree);
    EXPECT_TRUE(reader.is_writer_gone());
    EXPECT_EQ(reader.read()->horizon, 5U);
    ::close(ready[0]);
    ::close(ready[1]);
}

TEST_F(SyncFileTest, NextSessionTakesAnotherFile) {
    auto first = std::optional(writer());
    const SyncReader old_reader = reader();
    SyncWriter second = writer();
    first.reset();
    EXPECT_TRUE(old_reader.is_writer_gone());
    EXPECT_FALSE(reader().is_writer_gone());
}

TEST_F(SyncFileTest, TornRecordIsNotBelieved) {
    SyncRecord record;
    record.generation = 3;
    record.generation_again = 2;
    EXPECT_FALSE(parse_sync_record(std::as_bytes(std::span(&record, 1))));
    record.generation = record.generation_again = ~std::uint64_t{0};
    EXPECT_FALSE(parse_sync_record(std::as_bytes(std::span(&record, 1))));
}

TEST_F(SyncFileTest, ForeignFileIsNotBelieved) {
    std::ofstream(directory_.path() / kSyncFileName) << std::string(sizeof(SyncRecord), 'x');
    EXPECT_EQ(reader().read().error().message, "sync file does not begin with its magic number");
    std::ofstream(directory_.path() / kSyncFileName) << "short";
    EXPECT_EQ(reader().read().error().message, "sync file has 5 bytes of 40");
}

TEST_F(SyncFileTest, RecordOfALaterVersionIsRefused) {
    SyncRecord record;
    record.version = 2;
    EXPECT_EQ(parse_sync_record(std::as_bytes(std::span(&record, 1))).error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace leat::trace
