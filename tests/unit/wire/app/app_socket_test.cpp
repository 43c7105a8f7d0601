#include "wire/app/app_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/fd_passing.hpp"
#include "base/file.hpp"
#include "base/local_socket.hpp"
#include "support/scratch_directory.hpp"
#include "support/test_control.hpp"

namespace leat::wire {
namespace {

using test::memfd_of;
using test::TestControl;

RegisterMessage good_message() { return {{kAppMagic, kAppVersion, AppMessageType::kRegister}}; }

// An application that connects and sends bad messages.
class AppSocketTest : public testing::Test {
  protected:
    void SetUp() override {
        socket_ = *AppSocket::listen(directory_.path());
        connect();
        ASSERT_TRUE(connection_);
    }

    void connect() {
        peer_ = *connect_at(directory_.path() / kAppSocketName, SOCK_SEQPACKET);
        connection_ = socket_.accept();
    }

    void send(std::string bytes, const std::vector<int>& fds) {
        alignas(cmsghdr) std::array<char, CMSG_SPACE(16 * sizeof(int))> control{};
        iovec vector{bytes.data(), bytes.size()};
        msghdr envelope{};
        envelope.msg_iov = &vector;
        envelope.msg_iovlen = 1;
        if (!fds.empty()) {
            envelope.msg_control = control.data();
            envelope.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
            cmsghdr* part = CMSG_FIRSTHDR(&envelope);
            part->cmsg_level = SOL_SOCKET;
            part->cmsg_type = SCM_RIGHTS;
            part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
            std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
        }
        ASSERT_EQ(::sendmsg(peer_.get(), &envelope, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    }
    void send(const RegisterMessage& message, const std::vector<int>& fds) {
        send(std::string(reinterpret_cast<const char*>(&message), sizeof message), fds);  // NOLINT
    }

    void expect_refused(const std::string& message) {
        const auto registration = connection_->receive(Lane::kRecorder);
        ASSERT_FALSE(registration) << "taken; expected: " << message;
        EXPECT_NE(registration.error().message.find(message), std::string::npos) << registration.error().message;
    }

    test::ScratchDirectory directory_;
    AppSocket socket_;
    UniqueFd peer_;
    std::optional<AppConnection> connection_;
};

TEST_F(AppSocketTest, GoodRegistrationSaysWhoAndWhat) {
    const UniqueFd control = TestControl().memfd();
    send(good_message(), {control.get()});
    const auto received = connection_->receive(Lane::kRecorder);
    ASSERT_TRUE(received) << received.error().message;
    const auto* const application = std::get_if<RegisteredApp>(&*received);
    ASSERT_NE(application, nullptr);
    const AppRegistration& registration = application->registration;
    EXPECT_EQ(registration.pid, ::getpid()) << "the kernel's word, not the message's";
    EXPECT_EQ(registration.uid, ::getuid());
    EXPECT_EQ(registration.procname, "program");
    EXPECT_EQ(registration.bitness, 64U);
    ASSERT_EQ(registration.tracepoints.size(), 1U);
    EXPECT_EQ(registration.tracepoints[0].name, "test:event");
    EXPECT_EQ(application->control.tracepoint_count(), 1U);
}

TEST_F(AppSocketTest, RequestForAChannelSaysWhichAndWho) {
    const AttachMessage message{{kAppMagic, kAppVersion, AppMessageType::kAttach}, 77, 0};
    send(std::string(reinterpret_cast<const char*>(&message), sizeof message), {});  // NOLINT
    const auto received = connection_->receive(Lane::kRecorder);
    ASSERT_TRUE(received) << received.error().message;
    const auto* const request = std::get_if<AttachRequest>(&*received);
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(request->channel, 77U);
    EXPECT_EQ(request->uid, ::getuid());
    EXPECT_EQ(request->pid, ::getpid());
}

TEST_F(AppSocketTest, DaemonTakesTheNumberOfAFileAndNoDescriptor) {
    const RegisterFileMessage message{{kAppMagic, kAppVersion, AppMessageType::kRegisterFile}, 0x1234'5678'9abc'def0};
    const std::string bytes(reinterpret_cast<const char*>(&message), sizeof message);  // NOLINT
    send(bytes, {});
    const auto received = connection_->receive(Lane::kUser);
    ASSERT_TRUE(received) << received.error().message;
    const auto* const file = std::get_if<RegisteredFile>(&*received);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->file, 0x1234'5678'9abc'def0U);
    EXPECT_EQ(file->uid, ::getuid());
    const UniqueFd control = TestControl().memfd();
    const auto expect_no_file = [&](const std::string& text, const std::vector<int>& fds) {
        connect();
        send(text, fds);
        const auto refused = connection_->receive(Lane::kSystem);
        ASSERT_FALSE(refused);
        const char* const why = fds.empty() ? "no registration of a file" : "sends descriptors";
        EXPECT_NE(refused.error().message.find(why), std::string::npos) << refused.error().message;
    };
    expect_no_file(bytes, {control.get()});
    expect_no_file(bytes.substr(0, 15), {});
    const RegisterMessage of_recorder = good_message();
    expect_no_file(std::string(reinterpret_cast<const char*>(&of_recorder), sizeof of_recorder),  // NOLINT
                   {control.get()});
    connect();
    send(bytes, {});
    expect_refused("registration has 16 bytes, not 8");
}

TEST_F(AppSocketTest, RequestForAChannelWithADescriptorIsRefused) {
    const AttachMessage message{{kAppMagic, kAppVersion, AppMessageType::kAttach}, 77, 0};
    const UniqueFd control = TestControl().memfd();
    send(std::string(reinterpret_cast<const char*>(&message), sizeof message), {control.get()});  // NOLINT
    expect_refused("registration has 16 bytes, not 8");
}

TEST_F(AppSocketTest, ChannelBringsTwoDescriptors) {
    const UniqueFd rings = memfd_of("rings", F_SEAL_SHRINK);
    const UniqueFd clock = memfd_of("clock", F_SEAL_SHRINK);
    ChannelMessage message{};
    message.number = 77;
    ASSERT_TRUE(connection_->send_channel(message, rings.get(), clock.get()));
    ASSERT_TRUE(connection_->send_done());

    ChannelMessage received{};
    const MessageWithFds got = receive_with_fds(peer_.get(), std::as_writable_bytes(std::span(&received, 1)), 0);
    ASSERT_EQ(got.size, static_cast<ssize_t>(sizeof received));
    EXPECT_EQ(received.header.type, AppMessageType::kChannel);
    EXPECT_EQ(received.number, 77U);
    ASSERT_EQ(got.fd_count, kChannelDescriptors);
    const std::array<UniqueFd, 2> owners{UniqueFd(got.fds[0]), UniqueFd(got.fds[1])};
    std::array<char, 6> text{};
    ASSERT_EQ(::pread(got.fds[1], text.data(), text.size(), 0), 5);
    EXPECT_STREQ(text.data(), "clock");

    RegistrationDoneMessage done{};
    ASSERT_EQ(::recv(peer_.get(), &done, sizeof done, MSG_TRUNC), static_cast<ssize_t>(sizeof done));
    EXPECT_EQ(done.header.type, AppMessageType::kRegistrationDone);
}

TEST_F(AppSocketTest, PeerThatIsGoneCannotBeAnswered) {
    const UniqueFd rings = memfd_of("rings", F_SEAL_SHRINK);
    peer_.reset();
    EXPECT_FALSE(connection_->send_channel({}, rings.get(), rings.get()));
    EXPECT_FALSE(connection_->send_done());
    expect_refused("before it had registered");
}

TEST_F(AppSocketTest, SilentPeerBlocksNobody) { expect_refused("cannot receive a registration"); }

TEST_F(AppSocketTest, NobodyThereBlocksNobody) { EXPECT_FALSE(socket_.accept()); }

TEST_F(AppSocketTest, ShortMessageIsRefused) {
    const UniqueFd control = TestControl().memfd();
    send("LEAP", {control.get()});
    expect_refused("registration has 4 bytes, not 8");
}

TEST_F(AppSocketTest, LongMessageIsRefused) {
    const UniqueFd control = TestControl().memfd();
    send(std::string(1000, 'x'), {control.get()});
    expect_refused("registration has more than 16 bytes, not 8");
}

TEST_F(AppSocketTest, ForeignMagicIsRefused) {
    const UniqueFd control = TestControl().memfd();
    RegisterMessage message = good_message();
    message.header.magic = 0xabcd;
    send(message, {control.get()});
    expect_refused("registration begins with 0xabcd");
}

TEST_F(AppSocketTest, OtherVersionIsNamed) {
    const UniqueFd control = TestControl().memfd();
    RegisterMessage message = good_message();
    message.header.version = 9;
    send(message, {control.get()});
    expect_refused(
        "its libleat speaks version 9 of the protocol, this recorder version 5: record it with a newer leat");
}

TEST_F(AppSocketTest, OlderVersionIsNamedWithItsRemedy) {
    RegisterMessage message = good_message();
    message.header.version = 1;
    send(message, {});
    expect_refused(
        "version 1 of the protocol, this recorder version 5: upgrade its libleat; if it is linked statically");
}

TEST_F(AppSocketTest, OtherVersionMayHaveMessagesOfAnotherSize) {
    AppMessageHeader header = good_message().header;
    header.version = 9;
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);  // NOLINT
    send(bytes, {});
    expect_refused("its libleat speaks version 9");
    send(bytes.append(100, 'x'), {});
    expect_refused("its libleat speaks version 9");
}

TEST_F(AppSocketTest, ModuleThatItsLibraryRefusedIsNamed) {
    ModuleRefusedMessage message{good_message().header, 7, 1};
    message.header.type = AppMessageType::kModuleRefused;
    const auto bytes = [&] { return std::string(reinterpret_cast<const char*>(&message), sizeof message); };  // NOLINT
    send(bytes(), {});
    expect_refused(
        "its headers are of ABI version 7, the libleat that it runs with is of version 1: upgrade that libleat");
    message.module_abi = 0;
    send(bytes(), {});
    expect_refused("its headers are of ABI version 0, the libleat that it runs with is of version 1: compile it again");
}

TEST_F(AppSocketTest, ProgramIsNamedAsTheKernelKnowsIt) {
    std::string name;
    std::getline(std::ifstream("/proc/self/comm"), name);
    EXPECT_EQ(connection_->program_name(), name);
}

TEST_F(AppSocketTest, OtherMessageIsRefused) {
    const UniqueFd control = TestControl().memfd();
    RegisterMessage message = good_message();
    message.header.type = AppMessageType::kRegistrationDone;
    send(message, {control.get()});
    expect_refused("message of type 2 instead of a registration");
}

TEST_F(AppSocketTest, WithoutDescriptorIsRefused) {
    send(good_message(), {});
    expect_refused("registration comes with 0 descriptors, not 1");
}

TEST_F(AppSocketTest, MoreDescriptorsAreRefusedAndClosed) {
    const auto count_open = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
    const UniqueFd control = TestControl().memfd();
    const auto before = count_open();
    send(good_message(), std::vector<int>(16, control.get()));
    expect_refused("descriptors, not 1");
    EXPECT_EQ(count_open(), before) << "descriptors were left open";
}

TEST_F(AppSocketTest, OtherThingThanControlMemoryIsRefused) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const UniqueFd reader(ends[0]);
    const UniqueFd writer(ends[1]);
    send(good_message(), {reader.get()});
    expect_refused("the control memory is no regular file");
}

TEST(AppSocketListen, PathTooLongForASocketIsNamed) {
    const auto socket = AppSocket::listen("/" + std::string(200, 'd'));
    ASSERT_FALSE(socket);
    EXPECT_EQ(socket.error().kind, ErrorKind::kRefused);
}

TEST(AppSocketListen, DirectoryThatIsNotThereIsNamed) {
    const auto socket = AppSocket::listen("/nonexistent");
    ASSERT_FALSE(socket);
    EXPECT_NE(socket.error().message.find("cannot make /nonexistent/app.sock"), std::string::npos);
}

}  // namespace
}  // namespace leat::wire
