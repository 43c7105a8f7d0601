// What an application sends: a message, descriptors, control memory with a description table. The daemon refuses it, or
// makes sound metadata of it.
//
// Input: how the message comes, the message, the control memory or the table.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/file.hpp"
#include "fuzz_input.hpp"
#include "host/answering.hpp"
#include "session/session.hpp"
#include "wire/app/app_socket.hpp"
#include "wire/app/description_format.hpp"

namespace leat::fuzz::app_protocol {
namespace {

// The bits of the input's first byte say how it is sent.
constexpr unsigned kIsWhole = 1;    // a good message comes first, and the memory is good but for its table
constexpr unsigned kIsSealed = 2;   // the memory is sealed
constexpr unsigned kIsTwice = 4;    // the program registers again
constexpr unsigned kHasHeader = 8;  // the memory has a good header, and any table
constexpr unsigned kDescriptorShift = 4;
constexpr std::size_t kMaxDescriptors = 6;

// Control memory around a table; as many tracepoints as the table says, if they fit.
std::vector<std::byte> control_of(UntrustedBytes table) {
    wire::ControlFileHeader header{};
    header.magic = wire::kControlMagic;
    header.version = wire::kAppVersion;
    header.bitness = 64;
    if (table.size() >= wire::kDescriptionHeaderSize)
        std::memcpy(&header.tracepoint_count, table.data() + 8, sizeof header.tracepoint_count);
    header.tracepoint_count = std::min<std::uint32_t>(header.tracepoint_count, 100);
    header.descriptions_size = static_cast<std::uint32_t>(table.size());
    const wire::ControlLayout layout{header.tracepoint_count, header.descriptions_size};
    std::vector<std::byte> memory(layout.size());
    std::memcpy(memory.data(), &header, sizeof header);
    std::copy(table.begin(), table.end(), memory.begin() + static_cast<std::ptrdiff_t>(layout.descriptions()));
    return memory;
}

UniqueFd memfd_of(UntrustedBytes memory, bool is_sealed) {
    UniqueFd fd(::memfd_create("control", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    LEAT_CHECK(fd.is_open() && write_all(fd.get(), memory));
    if (is_sealed) ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    return fd;
}

void send(int socket, UntrustedBytes message, int fd, std::size_t fd_count) {
    std::array<int, kMaxDescriptors> descriptors{};
    descriptors.fill(fd);
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
    iovec bytes{const_cast<std::byte*>(message.data()), message.size()};  // NOLINT(*-const-cast)
    msghdr envelope{};
    envelope.msg_iov = &bytes;
    envelope.msg_iovlen = 1;
    if (fd_count != 0) {
        envelope.msg_control = control.data();
        envelope.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        cmsghdr* part = CMSG_FIRSTHDR(&envelope);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        std::memcpy(CMSG_DATA(part), descriptors.data(), fd_count * sizeof(int));
    }
    LEAT_CHECK(::sendmsg(socket, &envelope, MSG_NOSIGNAL) == static_cast<ssize_t>(message.size()));
}

// Making a trace takes 2 ms, because its clock is measured. So a session is used several times. In its second channel,
// events that conflict have ids of their own.
session::Session& next_session() {
    static std::optional<session::Session> session;
    static unsigned runs = 0;
    if (runs++ % 512 != 0) return *session;
    session::Session::Parameters parameters{.name = "fuzz"};
    parameters.channels.push_back({.name = "channel0", .ring_size = 64U << 10});
    parameters.channels.push_back(
        {.name = "versions", .rules = {{.on_conflict = session::OnConflict::kVersion}}, .ring_size = 64U << 10});
    session.emplace(std::move(parameters));
    session->set_active(true);
    return *session;
}

// Checks what all readers of the metadata that go line by line rely on.
void check_metadata(const std::string& metadata) {
    for (const char c : metadata) LEAT_CHECK(static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t');
    LEAT_CHECK(metadata.empty() || metadata.ends_with("};\n\n"));
}

void check_line(const std::string& message) {
    for (const char c : message) LEAT_CHECK(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

void register_with(session::Session& session, const session::Application& application, wire::ControlFile& control) {
    session.count(application);
    session::Orders orders(application.tracepoints->size());
    session.add_orders(application, orders);
    for (const std::string& warning : orders.warnings) check_line(warning);
    for (const auto& known : session.conflicts()) check_line(known.conflict.text());
    for (const auto& [key, trace] : session.traces())
        for (const auto& channel : trace->channels()) check_metadata(channel->describe_new(true));
    LEAT_CHECK(host::switch_tracepoints(control, orders.actions));
}

void run(FuzzInput input) {
    const unsigned how = input.take<std::uint8_t>();
    std::array<int, 2> ends{};
    LEAT_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const UniqueFd program(ends[0]);
    wire::AppConnection daemon{UniqueFd(ends[1])};

    wire::RegisterMessage good{};
    good.header = {wire::kAppMagic, wire::kAppVersion, wire::AppMessageType::kRegister};
    const bool is_whole = (how & kIsWhole) != 0;
    const UntrustedBytes message =
        is_whole ? std::as_bytes(std::span(&good, 1)) : input.take_bytes(input.take<std::uint8_t>());
    const UntrustedBytes rest = input.take_rest();
    const std::vector<std::byte> around = control_of(rest);
    const bool has_header = is_whole || (how & kHasHeader) != 0;
    const UniqueFd memory = memfd_of(has_header ? UntrustedBytes(around) : rest, is_whole || (how & kIsSealed) != 0);
    send(program.get(), message, memory.get(), is_whole ? 1 : (how >> kDescriptorShift) % (kMaxDescriptors + 1));

    auto received = daemon.receive(wire::Lane::kRecorder);
    if (!received) return check_line(received.error().message);
    auto* const application = std::get_if<wire::RegisteredApp>(&*received);
    if (application == nullptr) return;
    check_line(application->registration.procname);
    session::Session& session = next_session();
    const session::Application known = host::application_of(std::move(application->registration));
    register_with(session, known, application->control);
    if ((how & kIsTwice) != 0) register_with(session, known, application->control);
}

}  // namespace

LEAT_FUZZ_TARGET(app_protocol) {
    run(FuzzInput(data, size));
    return 0;
}

}  // namespace leat::fuzz::app_protocol
