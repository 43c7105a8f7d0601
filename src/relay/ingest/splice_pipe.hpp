#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::relay {

// Bytes on their way from a socket into a file without coming to us: the system hands on the pages that the network
// filled, and copies once instead of twice.
class SplicePipe {
  public:
    // Whether there is a pipe: the system may have no descriptor to spare. Again: nothing.
    bool open();

    [[nodiscard]] std::size_t size() const { return size_; }  // bytes in it
    // As many bytes as have come and fit, `count` at most; 0: the peer has closed; nothing: there is nothing yet.
    // Throws std::system_error if the connection is lost. Only when it is empty.
    std::optional<std::size_t> fill(int socket, std::size_t count);
    // As write_what_fits(), `count` of its bytes. ErrorKind::kUnsupported: this file can only be written from memory,
    // and nothing was.
    Result<std::size_t> write_what_fits(int fd, std::uint64_t offset, std::uint64_t count);
    // Into memory: as many as it has, and fit.
    Result<std::size_t> read(std::span<std::byte> bytes);

  private:
    UniqueFd in_;
    UniqueFd out_;
    std::size_t size_ = 0;
};

}  // namespace leat::relay
