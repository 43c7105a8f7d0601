#include "tracer/daemon_link.hpp"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "leat/abi.h"
#include "ring/clock.hpp"
#include "tracer/channel.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::tracer {
namespace {

constexpr int kDefaultTimeoutMs = 3000;
constexpr uint64_t kForever = UINT64_MAX;

// A daemon did not answer in time. Nobody waits for it again: a program that loads many libraries starts late once.
// Whatever process of ours that was: a forked child would fare no better.
bool is_deaf = false;

// secure_getenv() knows nothing in setuid programs: whoever starts one must not choose whom it speaks to.
const char* runtime_directory() { return secure_getenv(wire::kRuntimeDirectoryVariable); }

// When the wait for the daemon ends, in ns of CLOCK_MONOTONIC.
uint64_t deadline() {
    const char* text = secure_getenv("LEAT_REGISTER_TIMEOUT");
    const long timeout_ms = text == nullptr ? kDefaultTimeoutMs : strtol(text, nullptr, 10);
    if (timeout_ms < 0) return kForever;
    return ring::system_now() + static_cast<uint64_t>(timeout_ms) * 1'000'000;
}

int remaining_ms(uint64_t deadline) {
    if (deadline == kForever) return -1;
    const uint64_t now = ring::system_now();
    return now >= deadline ? 0 : static_cast<int>((deadline - now + 999'999) / 1'000'000);
}

bool wait_for(int socket, short events, uint64_t deadline) {
    for (;;) {
        pollfd wanted{socket, events, 0};
        const int count = poll(&wanted, 1, remaining_ms(deadline));
        if (count > 0) return true;
        if (count == 0 || errno != EINTR) return false;
    }
}

// A full backlog gives EAGAIN at once, and no event to wait for: try again until the deadline.
bool connect_until(int socket, const sockaddr_un& address, uint64_t deadline) {
    while (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {  // NOLINT
        if (errno == EINTR) continue;
        if (errno == EAGAIN && remaining_ms(deadline) == 0) is_deaf = true;
        if (errno != EAGAIN || is_deaf) return false;
        poll(nullptr, 0, 1);
    }
    return true;
}

// Who may tell us what to write, and where: our own user, or root.
bool is_trusted(uid_t uid) { return uid == 0 || uid == geteuid(); }

// Nobody else can put a socket of theirs there.
bool is_trusted_directory(const char* path) {
    struct stat status {};
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && is_trusted(status.st_uid) &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Whoever listens: the kernel knows.
bool is_trusted_peer(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && is_trusted(peer.uid);
}

int connect_to_daemon(uint64_t deadline) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const char* directory = runtime_directory();
    const size_t length = directory == nullptr ? 0 : strlen(directory);
    if (length == 0 || length + 1 + sizeof wire::kAppSocketName > sizeof address.sun_path) return -1;
    if (!is_trusted_directory(directory)) return -1;
    memcpy(address.sun_path, directory, length);
    address.sun_path[length] = '/';
    memcpy(address.sun_path + length + 1, wire::kAppSocketName, sizeof wire::kAppSocketName);

    // Messages keep their bounds, descriptors come along, and nothing blocks: a stopped daemon costs one timeout.
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    if (connect_until(fd, address, deadline) && is_trusted_peer(fd)) return fd;
    close(fd);
    return -1;
}

bool send_registration(int socket, int control_fd) {
    wire::RegisterMessage message{{wire::kAppMagic, wire::kAppVersion, wire::AppMessageType::kRegister}};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec bytes{&message, sizeof message};
    msghdr envelope{};
    envelope.msg_iov = &bytes;
    envelope.msg_iovlen = 1;
    envelope.msg_control = control;
    envelope.msg_controllen = sizeof control;
    cmsghdr* descriptors = CMSG_FIRSTHDR(&envelope);
    descriptors->cmsg_level = SOL_SOCKET;
    descriptors->cmsg_type = SCM_RIGHTS;
    descriptors->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(descriptors), &control_fd, sizeof(int));
    return sendmsg(socket, &envelope, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

// One message of the daemon, and the descriptors that came with it, which are closed with this object.
class Answer {
  public:
    Answer() = default;
    ~Answer() {
        for (const int fd : fds_) {
            if (fd >= 0) close(fd);
        }
    }
    Answer(const Answer&) = delete;
    Answer& operator=(const Answer&) = delete;

    // False: nothing came, or what we do not know.
    bool receive(int socket);

    [[nodiscard]] bool is_channel() const {
        return is(wire::AppMessageType::kChannel, sizeof message_) && fd_count_ == wire::kChannelDescriptors &&
               (message_.header_kind == ring::HeaderKind::kCompact || message_.header_kind == ring::HeaderKind::kLarge);
    }
    void attach() const { attach_channel(message_, fds_[0], fds_[1]); }

  private:
    [[nodiscard]] bool is(wire::AppMessageType type, size_t size) const {
        const wire::AppMessageHeader& header = message_.header;
        return size_ == size && header.magic == wire::kAppMagic && header.version == wire::kAppVersion &&
               header.type == type;
    }

    wire::ChannelMessage message_{};  // the longest
    size_t size_ = 0;
    int fds_[wire::kChannelDescriptors] = {-1, -1};
    uint32_t fd_count_ = 0;
};

bool Answer::receive(int socket) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds_)] = {};
    iovec bytes{&message_, sizeof message_};
    msghdr envelope{};
    envelope.msg_iov = &bytes;
    envelope.msg_iovlen = 1;
    envelope.msg_control = control;
    envelope.msg_controllen = CMSG_LEN(sizeof fds_);  // not CMSG_SPACE: its padding has room for one more
    const ssize_t size = recvmsg(socket, &envelope, MSG_CMSG_CLOEXEC);
    if (size <= 0) return false;
    size_ = static_cast<size_t>(size);
    const cmsghdr* descriptors = CMSG_FIRSTHDR(&envelope);
    if (descriptors != nullptr && descriptors->cmsg_level == SOL_SOCKET && descriptors->cmsg_type == SCM_RIGHTS) {
        fd_count_ = static_cast<uint32_t>((descriptors->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds_, CMSG_DATA(descriptors), fd_count_ * sizeof(int));  // the kernel gives no more than fit
    }
    return true;
}

// Channels, then "registration done", or whatever else: a daemon that says what we do not know is listened to no more.
void receive_answers(int socket, uint64_t until) {
    for (;;) {
        is_deaf = !wait_for(socket, POLLIN, until);
        if (is_deaf) return;
        Answer answer;
        if (!answer.receive(socket) || !answer.is_channel()) return;
        answer.attach();
    }
}

}  // namespace

bool has_daemon() { return runtime_directory() != nullptr; }

void report_refused_module(uint32_t module_abi) {
    if (is_deaf) return;
    const uint64_t until = deadline();
    const int socket = connect_to_daemon(until);
    if (socket < 0) return;
    const wire::ModuleRefusedMessage message{
        {wire::kAppMagic, wire::kAppVersion, wire::AppMessageType::kModuleRefused}, module_abi, LEAT_ABI_VERSION};
    // Until the daemon has seen who we are.
    if (send(socket, &message, sizeof message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message))
        is_deaf = !wait_for(socket, POLLIN, until);
    close(socket);
}

void register_with_daemon(int control_fd) {
    if (is_deaf) return;
    const uint64_t until = deadline();
    const int socket = connect_to_daemon(until);
    if (socket < 0) return;
    if (send_registration(socket, control_fd)) receive_answers(socket, until);
    close(socket);
}

}  // namespace leat::tracer
