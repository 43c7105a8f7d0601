#include "wire/app/app_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "base/file.hpp"
#include "support/description_table.hpp"
#include "support/scratch_directory.hpp"

namespace leat::wire {
namespace {

constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

UniqueFd memfd_of(const std::string& bytes, int seals = kAllSeals) {
    UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_TRUE(write_all(fd.get(), test::untrusted(bytes)));
    EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
}

std::string good_table() { return test::TestTable{{test::TestTracepoint{}}}.bytes(); }

RegisterMessage good_message() {
    RegisterMessage message{};
    message.header = {kAppMagic, kAppVersion, AppMessageType::kRegister};
    message.pid = 1;
    message.bitness = 64;
    std::memcpy(message.procname, "program", 8);
    return message;
}

// An application that connects and sends bad messages.
class AppSocketTest : public testing::Test {
  protected:
    void SetUp() override {
        socket_ = *AppSocket::listen(directory_.path());
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string path = directory_.path() / kAppSocketName;
        std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
        peer_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
        // NOLINTNEXTLINE(*-reinterpret-cast)
        ASSERT_EQ(::connect(peer_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        connection_ = socket_.accept();
        ASSERT_TRUE(connection_);
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
        const auto registration = connection_->receive();
        ASSERT_FALSE(registration) << "taken; expected: " << message;
        EXPECT_NE(registration.error().message.find(message), std::string::npos) << registration.error().message;
    }

    test::ScratchDirectory directory_;
    AppSocket socket_;
    UniqueFd peer_;
    std::optional<AppConnection> connection_;
};

TEST_F(AppSocketTest, GoodRegistrationSaysWhoAndWhat) {
    const UniqueFd table = memfd_of(good_table());
    send(good_message(), {table.get()});
    const auto registration = connection_->receive();
    ASSERT_TRUE(registration) << registration.error().message;
    EXPECT_EQ(registration->pid, ::getpid()) << "the kernel's word, not the message's";
    EXPECT_EQ(registration->uid, ::getuid());
    EXPECT_EQ(registration->procname, "program");
    ASSERT_EQ(registration->tracepoints.size(), 1U);
    EXPECT_EQ(registration->tracepoints[0].name, "test:event");
}

TEST_F(AppSocketTest, AnswerBringsThreeDescriptors) {
    const UniqueFd rings = memfd_of("rings");
    const UniqueFd clock = memfd_of("clock");
    RegistrationDoneMessage message{};
    message.session_id = 77;
    ASSERT_TRUE(connection_->answer(message, {4, kNotEnabled}, rings.get(), clock.get()));

    RegistrationDoneMessage received{};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(3 * sizeof(int))> control{};
    iovec vector{&received, sizeof received};
    msghdr envelope{};
    envelope.msg_iov = &vector;
    envelope.msg_iovlen = 1;
    envelope.msg_control = control.data();
    envelope.msg_controllen = control.size();
    ASSERT_EQ(::recvmsg(peer_.get(), &envelope, 0), static_cast<ssize_t>(sizeof received));
    EXPECT_EQ(received.header.type, AppMessageType::kRegistrationDone);
    EXPECT_EQ(received.session_id, 77U);
    EXPECT_EQ(received.is_active, 1U);
    std::array<int, 3> fds{};
    ASSERT_EQ(CMSG_FIRSTHDR(&envelope)->cmsg_len, CMSG_LEN(sizeof fds));
    std::memcpy(fds.data(), CMSG_DATA(CMSG_FIRSTHDR(&envelope)), sizeof fds);
    const std::array<UniqueFd, 3> owners{UniqueFd(fds[0]), UniqueFd(fds[1]), UniqueFd(fds[2])};
    std::array<std::uint32_t, 3> ids{};
    ASSERT_EQ(::pread(fds[0], ids.data(), sizeof ids, 0), 8);
    EXPECT_EQ(ids[0], 4U);
    EXPECT_EQ(ids[1], kNotEnabled);
    EXPECT_EQ(::fcntl(fds[0], F_GET_SEALS) & kAllSeals, kAllSeals);
}

TEST_F(AppSocketTest, PeerThatIsGoneCannotBeAnswered) {
    const UniqueFd rings = memfd_of("rings");
    peer_.reset();
    EXPECT_FALSE(connection_->answer({}, {}, rings.get(), rings.get()));
    expect_refused("registration has 0 bytes of 40");
}

TEST_F(AppSocketTest, SilentPeerBlocksNobody) { expect_refused("cannot receive a registration"); }

TEST_F(AppSocketTest, NobodyThereBlocksNobody) { EXPECT_FALSE(socket_.accept()); }

TEST_F(AppSocketTest, ShortMessageIsRefused) {
    const UniqueFd table = memfd_of(good_table());
    send("LEAP", {table.get()});
    expect_refused("registration has 4 bytes of 40");
}

TEST_F(AppSocketTest, LongMessageIsRefused) {
    const UniqueFd table = memfd_of(good_table());
    send(std::string(1000, 'x'), {table.get()});
    expect_refused("registration has more than 40 bytes");
}

TEST_F(AppSocketTest, ForeignMagicIsRefused) {
    const UniqueFd table = memfd_of(good_table());
    RegisterMessage message = good_message();
    message.header.magic = 0xabcd;
    send(message, {table.get()});
    expect_refused("registration begins with 0xabcd");
}

TEST_F(AppSocketTest, OtherVersionIsNamed) {
    const UniqueFd table = memfd_of(good_table());
    RegisterMessage message = good_message();
    message.header.version = 9;
    send(message, {table.get()});
    expect_refused(
        "its libleat speaks version 9 of the protocol, this recorder version 2: record it with a newer leat");
}

TEST_F(AppSocketTest, OlderVersionIsNamedWithItsRemedy) {
    RegisterMessage message = good_message();
    message.header.version = 1;
    send(message, {});
    expect_refused(
        "version 1 of the protocol, this recorder version 2: upgrade its libleat; if it is linked statically");
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
    const UniqueFd table = memfd_of(good_table());
    RegisterMessage message = good_message();
    message.header.type = AppMessageType::kRegistrationDone;
    send(message, {table.get()});
    expect_refused("message of type 2 instead of a registration");
}

TEST_F(AppSocketTest, WithoutDescriptorIsRefused) {
    send(good_message(), {});
    expect_refused("registration comes with 0 descriptors, not 1");
}

TEST_F(AppSocketTest, MoreDescriptorsAreRefusedAndClosed) {
    const UniqueFd table = memfd_of(good_table());
    const UniqueFd probe_before(::dup(table.get()));
    send(good_message(), std::vector<int>(16, table.get()));
    expect_refused("descriptors, not 1");
    const UniqueFd probe_after(::dup(table.get()));
    EXPECT_EQ(probe_after.get(), probe_before.get() + 1) << "descriptors were left open";
}

TEST_F(AppSocketTest, TableThatCouldChangeIsRefused) {
    for (const int seals : {0, F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_WRITE | F_SEAL_SHRINK}) {
        const UniqueFd table = memfd_of(good_table(), seals);
        send(good_message(), {table.get()});
        expect_refused("the description table is not sealed");
    }
}

TEST_F(AppSocketTest, FileInsteadOfMemfdIsRefused) {
    const std::string path = directory_.path() / "table";
    const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
    ASSERT_TRUE(write_all(file.get(), test::untrusted(good_table())));
    send(good_message(), {file.get()});
    expect_refused("the description table is not sealed");
}

TEST_F(AppSocketTest, PipeInsteadOfMemfdIsRefused) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const UniqueFd reader(ends[0]);
    const UniqueFd writer(ends[1]);
    send(good_message(), {reader.get()});
    expect_refused("the description table is not sealed");
}

TEST_F(AppSocketTest, HugeTableIsRefusedUnread) {
    const UniqueFd table(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(table.get(), 1LL << 40), 0);
    ASSERT_EQ(::fcntl(table.get(), F_ADD_SEALS, kAllSeals), 0);
    send(good_message(), {table.get()});
    expect_refused("description table of 1099511627776 bytes; the limit is 16777216");
}

TEST_F(AppSocketTest, BrokenTableIsRefused) {
    const UniqueFd table = memfd_of("rubbish");
    send(good_message(), {table.get()});
    expect_refused("bytes needed at offset");
}

TEST_F(AppSocketTest, NameWithoutEndOrWithControlCharacters) {
    const UniqueFd table = memfd_of(good_table());
    RegisterMessage message = good_message();
    std::memset(message.procname, '\n', sizeof message.procname);
    send(message, {table.get()});
    const auto registration = connection_->receive();
    ASSERT_TRUE(registration);
    EXPECT_EQ(registration->procname, std::string(kProcnameSize, '?'));
}

TEST(AppSocketListen, PathTooLongForASocketIsNamed) {
    const auto socket = AppSocket::listen("/" + std::string(200, 'd'));
    ASSERT_FALSE(socket);
    EXPECT_EQ(socket.error().kind, ErrorKind::kRefused);
}

TEST(AppSocketListen, DirectoryThatIsNotThereIsNamed) {
    const auto socket = AppSocket::listen("/nonexistent");
    ASSERT_FALSE(socket);
    EXPECT_NE(socket.error().message.find("cannot listen on /nonexistent/app.sock"), std::string::npos);
}

}  // namespace
}  // namespace leat::wire
