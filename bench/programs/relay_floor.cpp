// The least work that a relay can do for a byte: it receives bytes and writes them into files that are rolled.
//
//     bench-relay-floor PORT DIRECTORY FILE_MIB new|in-place copy|splice
//
// "new": a file whose turn has come again is unlinked and created anew, as a relay with readers must do. "in-place":
// the file is overwritten. That costs less, but changes bytes that somebody may be reading.
// "copy": receives into memory and writes from there. "splice": moves the bytes through a pipe, as leat-relayd does
// with large packets; they are copied once instead of twice. One thread and two files for each connection. A byte that
// comes back on the connection says that all is written.
#include <fcntl.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "sockets.hpp"

namespace leat::bench {
namespace {

constexpr std::size_t kReceive = std::size_t{1} << 20;
constexpr std::size_t kFiles = 2;
constexpr int kPipe = 1 << 20;  // as large as the relay's

struct Files {
    std::string directory;
    std::size_t size;  // each
    bool in_place;
    bool spliced;
};

class RolledFiles {
  public:
    RolledFiles(std::string name, std::size_t size, bool in_place)
        : name_(std::move(name)), size_(size), in_place_(in_place) {
        for (std::size_t i = 0; i < kFiles; ++i) open(i);
    }
    void write(std::span<const std::byte> bytes) {
        const int file = file_for(bytes.size());
        while (!bytes.empty()) {
            const ssize_t written = ::write(file, bytes.data(), bytes.size());
            if (written < 0) die("write");
            bytes = bytes.subspan(static_cast<std::size_t>(written));
        }
    }
    void splice(int pipe, std::size_t size) {
        const int file = file_for(size);
        while (size > 0) {
            const ssize_t moved = ::splice(pipe, nullptr, file, nullptr, size, SPLICE_F_MOVE);
            if (moved < 0) die("splice to a file");
            size -= static_cast<std::size_t>(moved);
        }
    }

  private:
    void open(std::size_t number) {
        const std::string path = name_ + std::to_string(number);
        files_[number] = UniqueFd(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0640));
        if (!files_[number].is_open()) die("open");
    }
    int file_for(std::size_t size) {
        if (used_ + size > size_) roll();
        used_ += size;
        return files_[current_].get();
    }
    void roll() {
        current_ = (current_ + 1) % kFiles;
        used_ = 0;
        if (in_place_) {
            if (::lseek(files_[current_].get(), 0, SEEK_SET) < 0) die("seek");
            return;
        }
        if (::unlink((name_ + std::to_string(current_)).c_str()) != 0) die("unlink");
        open(current_);
    }

    std::string name_;
    std::size_t size_;
    bool in_place_;
    std::array<UniqueFd, kFiles> files_{};
    std::size_t current_ = 0;
    std::size_t used_ = 0;
};

void copy_all(int connection, RolledFiles& files) {
    std::vector<std::byte> buffer(kReceive);
    while (true) {
        const ssize_t count = ::recv(connection, buffer.data(), buffer.size(), 0);
        if (count < 0) die("receive");
        if (count == 0) return;
        files.write(std::span(buffer).first(static_cast<std::size_t>(count)));
    }
}

void splice_all(int connection, RolledFiles& files) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) die("pipe");
    const UniqueFd out(ends[0]);
    const UniqueFd in(ends[1]);
    (void)::fcntl(in.get(), F_SETPIPE_SZ, kPipe);
    while (true) {
        const ssize_t count = ::splice(connection, nullptr, in.get(), nullptr, kPipe, SPLICE_F_MOVE);
        if (count < 0) die("splice from the connection");
        if (count == 0) return;
        files.splice(out.get(), static_cast<std::size_t>(count));
    }
}

void serve(UniqueFd connection, unsigned number, const Files& how) {
    RolledFiles files(how.directory + "/" + std::to_string(number) + "_", how.size, how.in_place);
    if (how.spliced)
        splice_all(connection.get(), files);
    else
        copy_all(connection.get(), files);
    const std::byte done{1};
    send_all(connection.get(), std::span(&done, 1), {});
}

void listen_on(std::uint16_t port, const Files& files) {
    const UniqueFd listener = tcp_socket();
    const int on = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in address = loopback(port);
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) die("bind");
    if (::listen(listener.get(), SOMAXCONN) != 0) die("listen");
    for (unsigned number = 0;; ++number) {
        UniqueFd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!connection.is_open()) die("accept");
        std::thread(serve, std::move(connection), number, files).detach();
    }
}

}  // namespace
}  // namespace leat::bench

int main(int argc, char** argv) {
    const std::string_view rolling = argc == 6 ? argv[4] : "";
    const std::string_view way = argc == 6 ? argv[5] : "";
    if ((rolling != "new" && rolling != "in-place") || (way != "copy" && way != "splice")) {
        std::fprintf(stderr, "usage: bench-relay-floor PORT DIRECTORY FILE_MIB new|in-place copy|splice\n");
        return 2;
    }
    leat::bench::listen_on(static_cast<std::uint16_t>(std::strtoul(argv[1], nullptr, 10)),
                           {.directory = argv[2],
                            .size = std::strtoul(argv[3], nullptr, 10) << 20,
                            .in_place = rolling == "in-place",
                            .spliced = way == "splice"});
}
