#include "tracer/daemon_link.hpp"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "leat/abi.h"
#include "ring/clock.hpp"

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

bool send_registration(int socket, int descriptions_fd) {
    wire::RegisterMessage message{};
    message.header = {wire::kAppMagic, wire::kAppVersion, wire::AppMessageType::kRegister};
    message.pid = static_cast<uint32_t>(getpid());
    message.bitness = 8 * sizeof(void*);
    syscall(SYS_prctl, PR_GET_NAME, message.procname);

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
    memcpy(CMSG_DATA(descriptors), &descriptions_fd, sizeof(int));
    return sendmsg(socket, &envelope, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

}  // namespace

bool has_daemon() { return runtime_directory() != nullptr; }

Registration::~Registration() {
    for (const int fd : fds_) {
        if (fd >= 0) close(fd);
    }
}

// A daemon that speaks another version, or gives other descriptors than we know, leaves the process untraced. What came
// is closed with this object in either case.
void Registration::receive(int socket) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds_)] = {};
    iovec bytes{&message_, sizeof message_};
    msghdr envelope{};
    envelope.msg_iov = &bytes;
    envelope.msg_iovlen = 1;
    envelope.msg_control = control;
    envelope.msg_controllen = CMSG_LEN(sizeof fds_);  // not CMSG_SPACE: its padding has room for one more
    const ssize_t size = recvmsg(socket, &envelope, MSG_CMSG_CLOEXEC);
    if (size < 0) return;
    uint32_t fd_count = 0;
    const cmsghdr* descriptors = CMSG_FIRSTHDR(&envelope);
    if (descriptors != nullptr && descriptors->cmsg_level == SOL_SOCKET && descriptors->cmsg_type == SCM_RIGHTS) {
        fd_count = static_cast<uint32_t>((descriptors->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds_, CMSG_DATA(descriptors), fd_count * sizeof(int));  // the kernel gives no more than fit
    }
    const wire::AppMessageHeader& header = message_.header;
    is_active_ = size == static_cast<ssize_t>(sizeof message_) && header.magic == wire::kAppMagic &&
                 header.version == wire::kAppVersion && header.type == wire::AppMessageType::kRegistrationDone &&
                 message_.is_active != 0 && message_.session_id != 0 && fd_count == wire::kRegistrationDoneDescriptors;
}

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

void Registration::exchange(int descriptions_fd) {
    if (is_deaf) return;
    const uint64_t until = deadline();
    const int socket = connect_to_daemon(until);
    if (socket < 0) return;
    if (send_registration(socket, descriptions_fd)) {
        is_deaf = !wait_for(socket, POLLIN, until);
        if (!is_deaf) receive(socket);
    }
    close(socket);
}

}  // namespace leat::tracer
