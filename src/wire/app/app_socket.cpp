#include "wire/app/app_socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/fd_passing.hpp"
#include "base/local_socket.hpp"
#include "base/printable_text.hpp"

namespace leat::wire {
namespace {

constexpr int kBacklog = 512;

// One message and the descriptors that came with it.
struct Envelope {
    union {
        AppMessageHeader header;
        ModuleRefusedMessage refused{};  // the longest; `size` bytes have come
        AttachMessage attach;
        RegisterFileMessage file;
    };
    std::size_t size = 0;
    bool is_cut_off = false;
    std::vector<UniqueFd> descriptors{};
};

Result<Envelope> receive_envelope(int socket) {
    Envelope envelope;
    const MessageWithFds received =
        receive_with_fds(socket, std::as_writable_bytes(std::span(&envelope.refused, 1)), MSG_DONTWAIT);
    if (received.size < 0) return io_error("cannot receive a registration");
    for (std::size_t i = 0; i < received.fd_count; ++i) envelope.descriptors.emplace_back(received.fds[i]);
    envelope.size = static_cast<std::size_t>(received.size);
    envelope.is_cut_off = received.is_cut;
    return envelope;
}

// Of a message of any version, only its header has the form that we know.
Result<void> check_version(const Envelope& envelope) {
    const AppMessageHeader& header = envelope.header;
    if (envelope.size < sizeof header || header.magic != kAppMagic || header.version == kAppVersion) return {};
    return unsupported("its libleat speaks version {} of the protocol, this recorder version {}: {}", header.version,
                       kAppVersion,
                       header.version > kAppVersion ? "record it with a newer leat"
                                                    : "upgrade its libleat; if it is linked statically, link it again");
}

// A program whose tracer library is not made for it says so.
Result<void> check_module(const Envelope& envelope) {
    const ModuleRefusedMessage& message = envelope.refused;
    if (envelope.size != sizeof message || message.header.magic != kAppMagic ||
        message.header.type != AppMessageType::kModuleRefused)
        return {};
    return unsupported("its headers are of ABI version {}, the libleat that it runs with is of version {}: {}",
                       message.module_abi, message.library_abi,
                       message.module_abi > message.library_abi ? "upgrade that libleat" : "compile it again");
}

Result<void> check_register_message(const Envelope& envelope) {
    if (envelope.is_cut_off || envelope.size != sizeof(RegisterMessage))
        return corrupt("registration has {}{} bytes, not {}", envelope.is_cut_off ? "more than " : "", envelope.size,
                       sizeof(RegisterMessage));
    const AppMessageHeader& header = envelope.header;
    if (header.magic != kAppMagic) return corrupt("registration begins with {:#x}", header.magic);
    if (header.type != AppMessageType::kRegister)
        return corrupt("message of type {} instead of a registration", static_cast<unsigned>(header.type));
    if (envelope.descriptors.size() != 1)
        return corrupt("registration comes with {} descriptors, not 1", envelope.descriptors.size());
    return {};
}

// A message of this type, whole, with no descriptor.
template <class Message>
bool is_plain(const Envelope& envelope, AppMessageType type) {
    const AppMessageHeader& header = envelope.header;
    return !envelope.is_cut_off && envelope.size == sizeof(Message) && header.magic == kAppMagic &&
           header.type == type && envelope.descriptors.empty();
}

Result<RegisteredApp> read_registration(Envelope envelope, Lane lane, const ucred& peer) {
    LEAT_TRY(check_register_message(envelope));
    ControlFile control = LEAT_TRY(ControlFile::open(std::move(envelope.descriptors[0]), lane));
    AppRegistration registration;
    registration.pid = peer.pid;
    registration.uid = peer.uid;
    registration.bitness = control.bitness();
    registration.procname = control.procname();
    registration.tracepoints = LEAT_TRY(control.read_descriptions());
    return RegisteredApp{std::move(registration), std::move(control)};
}

Result<void> send_message(int socket, UntrustedBytes message, std::span<const int> fds) {
    if (send_with_fds(socket, message, fds, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return io_error("cannot answer");
    return {};
}

}  // namespace

Result<std::variant<RegisteredApp, RegisteredFile, AttachRequest>> AppConnection::receive(Lane lane) {
    if (lane != Lane::kRecorder && socket_.brings_descriptors())
        return corrupt("it sends descriptors, which no session daemon takes");
    Envelope envelope = LEAT_TRY(receive_envelope(fd()));
    if (envelope.size == 0 && !envelope.is_cut_off) return corrupt("it ended, or gave up, before it had registered");
    LEAT_TRY(check_version(envelope));
    LEAT_TRY(check_module(envelope));
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return io_error("cannot tell who registers");
    if (is_plain<AttachMessage>(envelope, AppMessageType::kAttach))
        return AttachRequest{.channel = envelope.attach.number, .uid = peer.uid, .pid = peer.pid};
    if (lane != Lane::kRecorder) {
        if (!is_plain<RegisterFileMessage>(envelope, AppMessageType::kRegisterFile))
            return corrupt("{} bytes are no registration of a file", envelope.size);
        return RegisteredFile{.file = envelope.file.file, .uid = peer.uid};
    }
    return LEAT_TRY(read_registration(std::move(envelope), lane, peer));
}

uid_t AppConnection::user() const {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.uid : static_cast<uid_t>(-1);
}

std::string AppConnection::program_name() const {
    ucred peer{};
    socklen_t size = sizeof peer;
    std::string name;
    if (::getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
        std::getline(std::ifstream(fmt::format("/proc/{}/comm", peer.pid)), name);
    return name.empty() ? "a program" : printable(name);
}

Result<void> AppConnection::send_channel(ChannelMessage message, int ring_set_fd, int clock_fd,
                                         const AppContextNames& names) {
    message.header = {kAppMagic, kAppVersion, AppMessageType::kChannel};
    const std::array<int, kChannelDescriptors> fds{ring_set_fd, clock_fd};
    std::array<std::byte, sizeof message + sizeof names> bytes{};
    std::memcpy(bytes.data(), &message, sizeof message);
    std::memcpy(bytes.data() + sizeof message, &names, sizeof names);
    const bool has_names = (message.contexts & kContextApp) != 0;
    return send_message(fd(), std::span(bytes).first(sizeof message + (has_names ? sizeof names : 0)), fds);
}

Result<void> AppConnection::send_done() {
    const RegistrationDoneMessage message{{kAppMagic, kAppVersion, AppMessageType::kRegistrationDone}};
    return send_message(fd(), std::as_bytes(std::span(&message, 1)), {});
}

Result<AppSocket> AppSocket::listen(const std::filesystem::path& runtime_directory, mode_t mode) {
    UniqueFd socket = LEAT_TRY(listen_at(runtime_directory / kAppSocketName,
                                         {.type = SOCK_SEQPACKET | SOCK_NONBLOCK, .backlog = kBacklog, .mode = mode}));
    return take_over(std::move(socket));
}

AppSocket AppSocket::take_over(UniqueFd socket) {
    AppSocket listener;
    listener.socket_ = Listener(std::move(socket), "programs");
    return listener;
}

std::optional<AppConnection> AppSocket::accept() {
    UniqueFd peer = socket_.accept();
    if (!peer.is_open()) return std::nullopt;
    return AppConnection(std::move(peer));
}

}  // namespace leat::wire
