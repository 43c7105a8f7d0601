// A simulated IO queue, traced with one line for each event: LEAT_EVENT.
//
//     c++ -std=c++17 io_queue.cpp -lleat -lpthread -o io-queue
//     leat record -o trace -- ./io-queue
//     leat view trace
//
// One thread queues requests, the other dispatches and completes them. Each request has three events, which carry its
// id. From them, an analysis works out how long the request waited, how long the device took, and how deep the queue
// was. (The events are those of [seastar-tracer], docs/references.md.)
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <leat/event.hpp>
#include <mutex>
#include <queue>
#include <thread>

namespace {

struct Request {
    std::uint32_t id;
    std::uint8_t priority_class;  // which share of the device it belongs to
    std::uint32_t length;         // bytes
};

class IoQueue {
  public:
    // Waits while the queue is full.
    void submit(const Request& request) {
        std::unique_lock lock(mutex_);
        not_full_.wait(lock, [this] { return requests_.size() < kMaxDepth; });
        requests_.push(request);
        // A field has the name of its variable, or the one that LEAT_FIELD(name, expression) gives it. The compiler
        // works out the types. Nothing is evaluated unless the event is enabled.
        LEAT_EVENT("io:queued", LEAT_FIELD(id, request.id), LEAT_FIELD(priority_class, request.priority_class),
                   LEAT_FIELD(length, request.length), LEAT_FIELD(depth, requests_.size()));
        not_empty_.notify_one();
    }

    void close() {
        const std::lock_guard lock(mutex_);
        is_closed_ = true;
        not_empty_.notify_one();
    }

    // Returns false when the queue is closed and empty.
    bool take(Request& request) {
        std::unique_lock lock(mutex_);
        not_empty_.wait(lock, [this] { return is_closed_ || !requests_.empty(); });
        if (requests_.empty()) return false;
        request = requests_.front();
        requests_.pop();
        not_full_.notify_one();
        return true;
    }

  private:
    static constexpr std::size_t kMaxDepth = 64;

    std::mutex mutex_;
    std::condition_variable not_empty_;
    std::condition_variable not_full_;
    std::queue<Request> requests_;
    bool is_closed_ = false;
};

// A device whose time depends on the length alone.
void transfer(std::uint32_t length) { std::this_thread::sleep_for(std::chrono::nanoseconds(length)); }

void run_device(IoQueue& queue) {
    for (Request request{}; queue.take(request);) {
        const std::uint32_t id = request.id;
        LEAT_EVENT("io:dispatched", id, LEAT_FIELD(priority_class, request.priority_class),
                   LEAT_FIELD(length, request.length));
        transfer(request.length);
        LEAT_EVENT("io:completed", id, LEAT_FIELD(priority_class, request.priority_class),
                   LEAT_FIELD(length, request.length));
        // Not the default log level: `leat record -l warning` records only these.
        if (request.length > 32 * 1024) LEAT_EVENT_AT(LEAT_WARNING, "io:slow", id);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::uint32_t count = argc > 1 ? static_cast<std::uint32_t>(std::atoi(argv[1])) : 1000;
    IoQueue queue;
    std::thread device(run_device, std::ref(queue));
    for (std::uint32_t id = 1; id <= count; ++id) queue.submit({id, static_cast<std::uint8_t>(id % 3), 512U << id % 8});
    queue.close();
    device.join();
    std::printf("%u requests\n", count);
    return 0;
}
