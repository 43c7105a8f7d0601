// The least that a relay can do with a byte: receives and writes, into files that are rolled and re-used.
//
//     bench-relay-floor PORT DIRECTORY FILE_MIB
//
// One thread and two files for each connection. A byte that comes back on the connection says that all is written.
#include <fcntl.h>

#include <string>
#include <thread>
#include <vector>

#include "sockets.hpp"

namespace leat::bench {
namespace {

constexpr std::size_t kReceive = std::size_t{1} << 20;
constexpr std::size_t kFiles = 2;

class RolledFiles {
  public:
    RolledFiles(const std::string& name, std::size_t size) : size_(size) {
        for (std::size_t i = 0; i < kFiles; ++i) {
            files_[i] = UniqueFd(::open((name + std::to_string(i)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0640));
            if (!files_[i].is_open()) die("open");
        }
    }
    void write(std::span<const std::byte> bytes) {
        if (used_ + bytes.size() > size_) {
            current_ = (current_ + 1) % kFiles;
            used_ = 0;
            if (::lseek(files_[current_].get(), 0, SEEK_SET) < 0) die("seek");
        }
        used_ += bytes.size();
        while (!bytes.empty()) {
            const ssize_t written = ::write(files_[current_].get(), bytes.data(), bytes.size());
            if (written < 0) die("write");
            bytes = bytes.subspan(static_cast<std::size_t>(written));
        }
    }

  private:
    std::size_t size_;
    std::array<UniqueFd, kFiles> files_;
    std::size_t current_ = 0;
    std::size_t used_ = 0;
};

void serve(UniqueFd connection, const std::string& name, std::size_t file_size) {
    RolledFiles files(name, file_size);
    std::vector<std::byte> buffer(kReceive);
    while (true) {
        const ssize_t count = ::recv(connection.get(), buffer.data(), buffer.size(), 0);
        if (count < 0) die("receive");
        if (count == 0) break;
        files.write(std::span(buffer).first(static_cast<std::size_t>(count)));
    }
    const std::byte done{1};
    send_all(connection.get(), std::span(&done, 1), {});
}

void listen_on(std::uint16_t port, const std::string& directory, std::size_t file_size) {
    const UniqueFd listener = tcp_socket();
    const int on = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in address = loopback(port);
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) die("bind");
    if (::listen(listener.get(), SOMAXCONN) != 0) die("listen");
    for (unsigned number = 0;; ++number) {
        UniqueFd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!connection.is_open()) die("accept");
        std::thread(serve, std::move(connection), directory + "/" + std::to_string(number) + "_", file_size).detach();
    }
}

}  // namespace
}  // namespace leat::bench

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: bench-relay-floor PORT DIRECTORY FILE_MIB\n");
        return 2;
    }
    const std::size_t file_size = std::strtoul(argv[3], nullptr, 10) << 20;
    leat::bench::listen_on(static_cast<std::uint16_t>(std::strtoul(argv[1], nullptr, 10)), argv[2], file_size);
}
