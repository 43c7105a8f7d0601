// The queue of a shard: requests of all classes wait here for capacity.
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <deque>

#include "disk.hpp"
#include "events.hpp"

namespace io_tracer {

// What the disk is given at a time, at most. A request that alone is larger than all capacity has the disk for itself.
struct Capacity {
    unsigned requests;
    std::uint64_t bytes;
};

class IoQueue;

struct Place {
    int fd;
    std::uint64_t offset;
};

// co_await it: the bytes that were read or written, or -errno.
class Request final : public Operation {
  public:
    Request(IoQueue& queue, Class of_class, Direction of_direction, Place place, iovec memory)
        : class_number(of_class), queue_(queue) {
        direction = of_direction;
        fd = place.fd;
        offset = place.offset;
        parts[0] = memory;
    }

    [[nodiscard]] bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiter);
    ssize_t await_resume() const { return result_; }

    void completed(ssize_t result) override;
    [[nodiscard]] std::uint32_t length() const { return static_cast<std::uint32_t>(parts[0].iov_len); }

    Class class_number;
    std::uint32_t id = 0;

  private:
    IoQueue& queue_;
    std::coroutine_handle<> waiter_;
    ssize_t result_ = 0;
};

// Classes share the disk by their shares: next is the one that has got least, measured by its shares.
class IoQueue {
  public:
    IoQueue(unsigned shard, Capacity capacity, Disk& disk)
        : next_id_(shard << kCountBits), capacity_(capacity), disk_(disk) {}

    void push(Request& request);
    // Hands to the disk what there is capacity for.
    void dispatch();
    void completed(const Request& request, ssize_t result);

    [[nodiscard]] std::uint64_t requests() const { return requests_; }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t failed() const { return failed_; }

  private:
    struct Waiting {
        double shares;
        std::deque<Request*> requests{};
        double used = 0;  // cost by shares, since the start
    };
    // An id is a shard's number, and its count.
    static constexpr unsigned kCountBits = 24;

    [[nodiscard]] Waiting* next_class();
    [[nodiscard]] bool has_capacity(const Request& request) const;

    std::uint32_t next_id_;
    Capacity capacity_;
    Disk& disk_;
    std::array<Waiting, kClasses> classes_{Waiting{.shares = 1000}, Waiting{.shares = 200}, Waiting{.shares = 200}};
    Waiting* head_ = nullptr;  // whose first request waits for capacity. It keeps its place
    double used_ = 0;          // by the class that was served last
    unsigned in_flight_ = 0;
    std::uint64_t bytes_in_flight_ = 0;
    std::uint64_t requests_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t failed_ = 0;
};

}  // namespace io_tracer
