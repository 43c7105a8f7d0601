#include "wire/app/app_socket.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/fd_passing.hpp"
#include "base/file.hpp"
#include "base/printable_text.hpp"
#include "wire/app/description_format.hpp"

namespace leat::wire {
namespace {

constexpr int kBacklog = 512;
constexpr int kUnchanging = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

// One message and the descriptors that came with it.
struct Envelope {
    RegisterMessage message{};  // of which `size` bytes have come
    std::size_t size = 0;
    bool is_cut_off = false;
    std::vector<UniqueFd> descriptors{};
};

Result<Envelope> receive_envelope(int socket) {
    Envelope envelope;
    const MessageWithFds received =
        receive_with_fds(socket, std::as_writable_bytes(std::span(&envelope.message, 1)), MSG_DONTWAIT);
    if (received.size < 0) return io_error("cannot receive a registration");
    for (std::size_t i = 0; i < received.fd_count; ++i) envelope.descriptors.emplace_back(received.fds[i]);
    envelope.size = static_cast<std::size_t>(received.size);
    envelope.is_cut_off = received.is_cut;
    return envelope;
}

// Of a message of any version, only its header has the form that we know.
Result<void> check_version(const Envelope& envelope) {
    const AppMessageHeader& header = envelope.message.header;
    if (envelope.size < sizeof header || header.magic != kAppMagic || header.version == kAppVersion) return {};
    return unsupported("its libleat speaks version {} of the protocol, this recorder version {}: {}", header.version,
                       kAppVersion,
                       header.version > kAppVersion ? "record it with a newer leat"
                                                    : "upgrade its libleat; if it is linked statically, link it again");
}

// A program whose tracer library is not made for it says so.
Result<void> check_module(const Envelope& envelope) {
    const AppMessageHeader& header = envelope.message.header;
    ModuleRefusedMessage message{};
    if (envelope.size != sizeof message || header.magic != kAppMagic || header.type != AppMessageType::kModuleRefused)
        return {};
    std::memcpy(&message, &envelope.message, sizeof message);
    return unsupported("its headers are of ABI version {}, the libleat that it runs with is of version {}: {}",
                       message.module_abi, message.library_abi,
                       message.module_abi > message.library_abi ? "upgrade that libleat" : "compile it again");
}

Result<void> check_register_message(const Envelope& envelope) {
    LEAT_TRY(check_version(envelope));
    LEAT_TRY(check_module(envelope));
    if (envelope.is_cut_off) return corrupt("registration has more than {} bytes", sizeof envelope.message);
    if (envelope.size != sizeof envelope.message)
        return corrupt("registration has {} bytes of {}", envelope.size, sizeof envelope.message);
    const AppMessageHeader& header = envelope.message.header;
    if (header.magic != kAppMagic) return corrupt("registration begins with {:#x}", header.magic);
    if (header.type != AppMessageType::kRegister)
        return corrupt("message of type {} instead of a registration", static_cast<unsigned>(header.type));
    if (envelope.descriptors.size() != 1)
        return corrupt("registration comes with {} descriptors, not 1", envelope.descriptors.size());
    return {};
}

// Copies the table first and parses the copy. It must be a sealed memfd: any other file could change or block us.
Result<std::vector<TracepointDescription>> read_table(int fd) {
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & kUnchanging) != kUnchanging) return refused("the description table is not sealed");
    struct stat status {};
    if (::fstat(fd, &status) != 0) return io_error("cannot stat the description table");
    if (static_cast<std::uint64_t>(status.st_size) > kMaxDescriptionSize)
        return refused("description table of {} bytes; the limit is {}", status.st_size, kMaxDescriptionSize);
    std::vector<std::byte> table(static_cast<std::size_t>(status.st_size));
    if (::pread(fd, table.data(), table.size(), 0) != status.st_size)
        return io_error("cannot read the description table");
    return parse_descriptions(table);
}

Result<UniqueFd> make_event_id_table(const std::vector<std::uint32_t>& event_ids) {
    UniqueFd fd(::memfd_create("leat-event-ids", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd.is_open()) return io_error("cannot create the event id table");
    LEAT_TRY(write_all(fd.get(), std::as_bytes(std::span(event_ids))));
    if (::fcntl(fd.get(), F_ADD_SEALS, kUnchanging | F_SEAL_SEAL) != 0)
        return io_error("cannot seal the event id table");
    return fd;
}

}  // namespace

Result<AppRegistration> AppConnection::receive() {
    const Envelope envelope = LEAT_TRY(receive_envelope(fd()));
    LEAT_TRY(check_register_message(envelope));
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return io_error("cannot tell who registers");

    AppRegistration registration;
    registration.pid = peer.pid;
    registration.uid = peer.uid;
    registration.bitness = envelope.message.bitness;
    const char* procname = envelope.message.procname;
    registration.procname = printable(std::string(procname, ::strnlen(procname, kProcnameSize)));
    registration.tracepoints = LEAT_TRY(read_table(envelope.descriptors[0].get()));
    return registration;
}

std::string AppConnection::program_name() const {
    ucred peer{};
    socklen_t size = sizeof peer;
    std::string name;
    if (::getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
        std::getline(std::ifstream(fmt::format("/proc/{}/comm", peer.pid)), name);
    return name.empty() ? "a program" : printable(name);
}

Result<void> AppConnection::answer(RegistrationDoneMessage message, const std::vector<std::uint32_t>& event_ids,
                                   int ring_set_fd, int clock_fd) {
    const UniqueFd ids = LEAT_TRY(make_event_id_table(event_ids));
    message.header = {kAppMagic, kAppVersion, AppMessageType::kRegistrationDone};
    message.is_active = 1;
    const std::array<int, kRegistrationDoneDescriptors> descriptors{ids.get(), ring_set_fd, clock_fd};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
    iovec bytes{&message, sizeof message};
    msghdr header{};
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof descriptors);
    std::memcpy(CMSG_DATA(part), descriptors.data(), sizeof descriptors);
    if (::sendmsg(fd(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return io_error("cannot answer");
    return {};
}

Result<AppSocket> AppSocket::listen(const std::filesystem::path& runtime_directory) {
    const std::string path = runtime_directory / kAppSocketName;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return refused("the runtime directory's path is too long for a socket: {}", path);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    AppSocket listener;
    listener.socket_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener.socket_.is_open()) return io_error("cannot create the application socket");
    // NOLINTNEXTLINE(*-reinterpret-cast)
    if (::bind(listener.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener.fd(), kBacklog) != 0)
        return io_error(fmt::format("cannot listen on {}", path));
    return listener;
}

std::optional<AppConnection> AppSocket::accept() {
    UniqueFd peer(::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer.is_open()) return std::nullopt;
    return AppConnection(std::move(peer));
}

}  // namespace leat::wire
