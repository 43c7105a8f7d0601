// What is asked of the disk.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>

namespace io_tracer {

enum class Direction : std::uint8_t { kRead, kWrite };

// Lies still from Disk::submit() to completed().
class Operation {
  public:
    Operation() = default;
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    // `result`: bytes, or -errno. The disk has forgotten the operation.
    virtual void completed(ssize_t result) = 0;

    Direction direction = Direction::kRead;
    int fd = -1;
    std::array<iovec, 2> parts{};
    unsigned part_count = 1;
    std::uint64_t offset = 0;

  protected:
    ~Operation() = default;
};

}  // namespace io_tracer
