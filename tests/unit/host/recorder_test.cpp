#include "host/recorder.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "base/fd_passing.hpp"
#include "base/local_socket.hpp"
#include "support/scratch_directory.hpp"
#include "support/test_control.hpp"

namespace leat::host {
namespace {

using namespace std::chrono_literals;
using test::TestControl;

// Keeps the metadata, as long as the recorder has it.
class MetadataOutput final : public consumer::Output {
  public:
    explicit MetadataOutput(std::string& metadata) : metadata_(&metadata) {}

    Result<void> write_metadata(std::string_view unit) override {
        *metadata_ += unit;
        return {};
    }
    Result<void> write_packet(const consumer::Packet& /*packet*/) override { return {}; }

  private:
    std::string* metadata_;
};

// A program that registers one tracepoint, "test:event".
class Program {
  public:
    explicit Program(const std::filesystem::path& directory)
        : socket_(*connect_at(directory / wire::kAppSocketName, SOCK_SEQPACKET)) {}

    void send(std::uint16_t version = wire::kAppVersion) {
        const wire::RegisterMessage message{{wire::kAppMagic, version, wire::AppMessageType::kRegister}};
        const std::array fds{control_.get()};
        EXPECT_EQ(send_with_fds(socket_.get(), std::as_bytes(std::span(&message, 1)), fds),
                  static_cast<ssize_t>(sizeof message));
    }
    // The numbers of the channels that it is given before it may go on.
    std::vector<std::uint32_t> receive_channels() {
        std::vector<std::uint32_t> channels;
        for (;;) {
            wire::ChannelMessage message{};
            const MessageWithFds got =
                receive_with_fds(socket_.get(), std::as_writable_bytes(std::span(&message, 1)), 0);
            for (std::size_t i = 0; i < got.fd_count; ++i) ::close(got.fds.at(i));
            if (got.size <= 0 || message.header.type != wire::AppMessageType::kChannel) break;
            channels.push_back(message.number);
        }
        return channels;
    }
    [[nodiscard]] wire::ControlEntry entry() const { return test::entry_in(control_.get(), TestControl().layout(), 0); }
    // Whether the recorder has left it.
    [[nodiscard]] bool is_dropped() const {
        char byte = 0;
        return ::recv(socket_.get(), &byte, 1, 0) == 0;
    }

  private:
    UniqueFd socket_;
    UniqueFd control_ = TestControl().memfd();
};

session::Session::Parameters parameters(std::vector<session::EventRule> rules = {session::EventRule{}}) {
    const session::Channel channel{.rules = std::move(rules), .ring_size = ring::kMinRingSize};
    return {.name = "test", .uid = 7, .channels = {channel}};
}

class RecorderTest : public testing::Test {
  protected:
    std::unique_ptr<Recorder> record(session::Session::Parameters what) {
        auto recorder =
            Recorder::create(std::move(what), runtime_.path(), std::make_unique<MetadataOutput>(metadata_), {});
        EXPECT_TRUE(recorder) << recorder.error().message;
        return *std::move(recorder);
    }

    test::ScratchDirectory runtime_;
    std::string metadata_;
};

TEST_F(RecorderTest, ItsOnlyTraceIsOfItsUserAndThereFromTheStart) {
    const auto recorder = record(parameters());
    EXPECT_EQ(recorder->recording().trace().path(), "ust/uid/7/64-bit");
    EXPECT_EQ(metadata_, recorder->recording().trace().initial_metadata());
    recorder->finish();
    EXPECT_EQ(recorder->counts().registrations, 0U);
}

TEST_F(RecorderTest, ProgramIsGivenTheChannelAndItsEventsAreDescribed) {
    const auto recorder = record(parameters());
    Program program(runtime_.path());
    program.send();
    const std::uint32_t number = recorder->recording().trace().channels()[0]->number();
    EXPECT_EQ(program.receive_channels(), std::vector{number});
    EXPECT_NE(program.entry().word, 0U) << "it is on";
    recorder->turn({}, 0s);
    EXPECT_NE(metadata_.find("test:event"), std::string::npos);
    recorder->finish();
    EXPECT_EQ(recorder->counts().registrations, 1U);
    EXPECT_EQ(recorder->counts().tracepoints, 1U);
    EXPECT_EQ(recorder->counts().enabled, 1U);
    EXPECT_TRUE(recorder->recording().warnings().empty());
}

TEST_F(RecorderTest, ProgramThatNobodyWantsIsAnsweredAndCounted) {
    const auto recorder = record(parameters({{.pattern = "other:*"}}));
    Program program(runtime_.path());
    program.send();
    EXPECT_TRUE(program.receive_channels().empty());
    EXPECT_EQ(program.entry().word, 0U);
    recorder->finish();
    EXPECT_EQ(recorder->counts().registrations, 1U);
    EXPECT_EQ(recorder->counts().enabled, 0U);
    EXPECT_EQ(metadata_.find("test:event"), std::string::npos);
}

TEST_F(RecorderTest, ProgramThatCameBeforeTheEndIsAnsweredByTheEnd) {
    const auto recorder = record(parameters());
    Program program(runtime_.path());
    program.send();
    recorder->finish();
    EXPECT_EQ(program.receive_channels().size(), 1U);
    EXPECT_EQ(recorder->counts().registrations, 1U);
}

TEST_F(RecorderTest, ProgramOfAnotherVersionIsRefusedAndTold) {
    const auto recorder = record(parameters());
    Program program(runtime_.path());
    program.send(wire::kAppVersion + 1);
    EXPECT_TRUE(program.is_dropped());
    recorder->finish();
    EXPECT_TRUE(recorder->has_refused_programs());
    EXPECT_EQ(recorder->counts().registrations, 0U);
    ASSERT_EQ(recorder->recording().warnings().size(), 1U);
    EXPECT_NE(recorder->recording().warnings()[0].find("is not traced"), std::string::npos);
}

TEST_F(RecorderTest, DirectoryOfARecordingThatDidNotBeginIsRemoved) {
    const test::ScratchDirectory scratch;
    const Destination destination{.directory = scratch.path() / "trace"};
    const auto recorder = Recorder::create(parameters(), runtime_.path(), destination);
    ASSERT_TRUE(recorder) << recorder.error().message;
    EXPECT_TRUE(std::filesystem::exists(destination.directory / "ust/uid/7/64-bit/metadata"));
    (*recorder)->abandon();
    EXPECT_FALSE(std::filesystem::exists(destination.directory));
}

TEST_F(RecorderTest, OccupiedDirectoryIsRefused) {
    const test::ScratchDirectory scratch;
    std::ofstream(scratch.path() / "mine") << "x";
    const auto recorder = Recorder::create(parameters(), runtime_.path(), Destination{.directory = scratch.path()});
    ASSERT_FALSE(recorder);
    EXPECT_NE(recorder.error().message.find("exists and is not empty"), std::string::npos);
}

}  // namespace
}  // namespace leat::host
