// The daemon's end of the application protocol: accepts registrations, answers them.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/listener.hpp"
#include "base/result.hpp"
#include "base/stranger_socket.hpp"
#include "base/unique_fd.hpp"
#include "wire/app/app_protocol.hpp"
#include "wire/app/control_file.hpp"
#include "wire/app/description_reader.hpp"

namespace leat::wire {

// An application that registers: who it is, as the kernel says (SO_PEERCRED), and what it has.
struct AppRegistration {
    pid_t pid = 0;
    uid_t uid = 0;
    std::string procname{};  // printable
    unsigned bitness = 64;
    std::vector<TracepointDescription> tracepoints{};
};

// The same, with the place where its tracepoints are switched.
struct RegisteredApp {
    AppRegistration registration;
    ControlFile control;
};

// An application that registers with a session daemon: where its control file is, and who it is, as the kernel says.
struct RegisteredFile {
    std::uint64_t file;
    uid_t uid;
};

// An application that has a tracepoint switched on, and has not got the rings of its channel: who it is, as the kernel
// says. The answer is that channel, or the end of the connection.
struct AttachRequest {
    std::uint32_t channel;  // its number
    uid_t uid;
    pid_t pid;
};

// An application that has connected. It sends one message and waits for one answer.
class AppConnection {
  public:
    explicit AppConnection(UniqueFd socket) : socket_(std::move(socket)) {}

    [[nodiscard]] int fd() const { return socket_.get(); }

    // Call this when fd() is readable. It fails on anything but one good message; then drop the connection.
    // kUnsupported: the program is of another version than we are. `lane`: ours. A recorder gets a RegisteredApp, a
    // session daemon a RegisteredFile.
    Result<std::variant<RegisteredApp, RegisteredFile, AttachRequest>> receive(Lane lane);

    // The program's name as the kernel knows it, whatever the program sends; for people. Only while it waits for its
    // answer.
    [[nodiscard]] std::string program_name() const;
    // Its user, likewise.
    [[nodiscard]] uid_t user() const;

    // Hands a channel over, which the application attaches. The header of `message` is filled in here. `names` count if
    // its contexts have kContextApp.
    Result<void> send_channel(ChannelMessage message, int ring_set_fd, int clock_fd, const AppContextNames& names = {});
    // "Registration done": the application goes on.
    Result<void> send_done();

  private:
    StrangerSocket socket_;
};

// Listens in a runtime directory. Never blocks.
class AppSocket {
  public:
    // `mode`: of the socket, whatever the umask is. Usually our user's programs alone may connect.
    static Result<AppSocket> listen(const std::filesystem::path& runtime_directory, mode_t mode = 0600);

    // One that listens there, of a daemon whose place we take.
    static AppSocket take_over(UniqueFd socket);
    // For who takes ours.
    UniqueFd release() { return socket_.release(); }

    [[nodiscard]] int fd() const { return socket_.fd(); }
    // Accepts the next application if one waits.
    std::optional<AppConnection> accept();

  private:
    Listener socket_;
};

}  // namespace leat::wire
