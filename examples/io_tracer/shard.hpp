// A shard: one thread on one CPU, with a queue, a way to the disk and an event loop of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "data_file.hpp"
#include "io_queue.hpp"

namespace io_tracer {

// A worker of a shard: a coroutine that begins at once and goes away by itself.
struct Worker {
    struct promise_type {
        Worker get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
};

class Shard {
  public:
    struct Options {
        unsigned number;
        unsigned cpu;
        Capacity capacity;
        const DataFile* file;
        std::unique_ptr<Disk> disk;
        std::function<void(Disk&)> each_turn;  // of the event loop
    };
    explicit Shard(Options options);

    // The event loop, for the shard's thread: until somebody says stop, and all requests are complete.
    void run();
    // Any thread.
    void stop() { is_stopped_.store(true, std::memory_order_relaxed); }

    [[nodiscard]] const IoQueue& queue() const { return queue_; }

  private:
    using Clock = std::chrono::steady_clock;

    // Its end is counted.
    class Busy {
      public:
        explicit Busy(Shard& shard) : shard_(shard) { ++shard_.workers_; }
        ~Busy() { --shard_.workers_; }
        Busy(const Busy&) = delete;
        Busy& operator=(const Busy&) = delete;

      private:
        Shard& shard_;
    };
    struct Sleep {
        Shard& shard;
        Clock::time_point until;
        [[nodiscard]] bool await_ready() const { return false; }
        void await_suspend(std::coroutine_handle<> waiter) { shard.sleepers_.push_back({until, waiter}); }
        void await_resume() const {}
    };
    struct Sleeper {
        Clock::time_point until;
        std::coroutine_handle<> waiter;
    };

    [[nodiscard]] bool is_stopped() const { return is_stopped_.load(std::memory_order_relaxed); }
    [[nodiscard]] Sleep sleep(std::chrono::microseconds time) { return {*this, Clock::now() + time}; }
    [[nodiscard]] std::uint32_t random(std::uint32_t below);
    [[nodiscard]] std::uint64_t random_place(std::uint32_t length);
    // co_await it.
    [[nodiscard]] Request read(Class of_class, std::uint64_t offset, iovec into) {
        return {queue_, of_class, Direction::kRead, {file_.fd(), offset}, into};
    }
    [[nodiscard]] Request write(Class of_class, std::uint64_t offset, iovec from) {
        return {queue_, of_class, Direction::kWrite, {file_.fd(), offset}, from};
    }
    void start_workers();
    void wake_sleepers();
    Worker answer_queries();
    Worker write_logs();
    Worker write_log();
    Worker compact();

    unsigned cpu_;
    const DataFile& file_;
    std::unique_ptr<Disk> disk_;
    IoQueue queue_;
    std::function<void(Disk&)> each_turn_;
    AlignedMemory log_;
    std::vector<Sleeper> sleepers_;
    unsigned workers_ = 0;
    std::uint64_t random_;
    std::atomic<bool> is_stopped_ = false;
};

}  // namespace io_tracer
