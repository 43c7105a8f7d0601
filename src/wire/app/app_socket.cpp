#include "wire/app/app_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/fd_passing.hpp"
#include "base/printable_text.hpp"

namespace leat::wire {
namespace {

constexpr int kBacklog = 512;

// One message and the descriptors that came with it.
struct Envelope {
    ModuleRefusedMessage message{};  // the longest; `size` bytes have come
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
    const ModuleRefusedMessage& message = envelope.message;
    if (envelope.size != sizeof message || message.header.magic != kAppMagic ||
        message.header.type != AppMessageType::kModuleRefused)
        return {};
    return unsupported("its headers are of ABI version {}, the libleat that it runs with is of version {}: {}",
                       message.module_abi, message.library_abi,
                       message.module_abi > message.library_abi ? "upgrade that libleat" : "compile it again");
}

Result<void> check_register_message(const Envelope& envelope) {
    LEAT_TRY(check_version(envelope));
    LEAT_TRY(check_module(envelope));
    if (envelope.is_cut_off || envelope.size != sizeof(RegisterMessage))
        return corrupt("registration has {}{} bytes, not {}", envelope.is_cut_off ? "more than " : "", envelope.size,
                       sizeof(RegisterMessage));
    const AppMessageHeader& header = envelope.message.header;
    if (header.magic != kAppMagic) return corrupt("registration begins with {:#x}", header.magic);
    if (header.type != AppMessageType::kRegister)
        return corrupt("message of type {} instead of a registration", static_cast<unsigned>(header.type));
    if (envelope.descriptors.size() != 1)
        return corrupt("registration comes with {} descriptors, not 1", envelope.descriptors.size());
    return {};
}

Result<void> send_message(int socket, UntrustedBytes message, std::span<const int> fds) {
    if (send_with_fds(socket, message, fds, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return io_error("cannot answer");
    return {};
}

}  // namespace

Result<RegisteredApp> AppConnection::receive(Lane lane) {
    Envelope envelope = LEAT_TRY(receive_envelope(fd()));
    LEAT_TRY(check_register_message(envelope));
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return io_error("cannot tell who registers");

    ControlFile control = LEAT_TRY(ControlFile::open(std::move(envelope.descriptors[0]), lane));
    AppRegistration registration;
    registration.pid = peer.pid;
    registration.uid = peer.uid;
    registration.bitness = control.bitness();
    registration.procname = control.procname();
    registration.tracepoints = LEAT_TRY(control.read_descriptions());
    return RegisteredApp{std::move(registration), std::move(control)};
}

std::string AppConnection::program_name() const {
    ucred peer{};
    socklen_t size = sizeof peer;
    std::string name;
    if (::getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
        std::getline(std::ifstream(fmt::format("/proc/{}/comm", peer.pid)), name);
    return name.empty() ? "a program" : printable(name);
}

Result<void> AppConnection::send_channel(ChannelMessage message, int ring_set_fd, int clock_fd) {
    message.header = {kAppMagic, kAppVersion, AppMessageType::kChannel};
    const std::array<int, kChannelDescriptors> fds{ring_set_fd, clock_fd};
    return send_message(fd(), std::as_bytes(std::span(&message, 1)), fds);
}

Result<void> AppConnection::send_done() {
    const RegistrationDoneMessage message{{kAppMagic, kAppVersion, AppMessageType::kRegistrationDone}};
    return send_message(fd(), std::as_bytes(std::span(&message, 1)), {});
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
