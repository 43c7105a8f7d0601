// The way to the disk: io_uring, or one call after the other where that is not allowed.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "operation.hpp"

namespace io_tracer {

class Disk {
  public:
    virtual ~Disk() = default;
    // At most as many at a time as it was made for.
    virtual void submit(Operation& operation) = 0;
    // Calls completed() of what is complete. If nothing is, waits for that, but not for long.
    virtual void wait(std::chrono::microseconds longest) = 0;
    [[nodiscard]] virtual const char* name() const = 0;
};

// nullptr: the kernel has none for us, and errno says why.
std::unique_ptr<Disk> make_uring_disk(unsigned operations);
std::unique_ptr<Disk> make_calling_disk();

}  // namespace io_tracer
