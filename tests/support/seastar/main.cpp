// The recipe of docs/seastar.md, built into a reactor that is no more than that: requests that are queued, dispatched
// and completed, some of which wait or are cancelled, and tasks. The pieces of code are files *.inc.
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <leat_capture.hh>
#include <leat_events.hh>
#include <memory>
#include <seastar/core/reactor.hh>

namespace seastar {

constexpr int io_direction_read = 1;

struct io_direction_and_length {
    int direction;
    std::size_t bytes;
    [[nodiscard]] int rw_idx() const noexcept { return direction; }
    [[nodiscard]] std::size_t length() const noexcept { return bytes; }
};

struct priority_class_data {
    unsigned id;
    [[nodiscard]] unsigned fq_class() const noexcept { return id; }
};

class io_desc_read_write {
    bool _cancelled = false;

  public:
    io_desc_read_write(priority_class_data& pc, io_direction_and_length dnl) {
#include "queued.inc"
    }
    void dispatch() noexcept {
        if (_cancelled) return;
#include "dispatched.inc"
    }
    void complete(std::size_t) noexcept {
#include "completed.inc"
    }
    void set_exception(std::exception_ptr) noexcept {
#include "completed.inc"
    }
    void cancel() noexcept {
#include "cancelled.inc"
        _cancelled = true;
    }
};

struct fair_queue {
    void grab_capacity() noexcept {
#include "wait.inc"
    }
};

}  // namespace seastar

namespace {

struct counting_task final : seastar::task {
    int* count;
    explicit counting_task(int* counted) : count(counted) {}
    void run_and_dispose() noexcept override {
        ++*count;
        delete this;
    }
};

void request(int number) {
    seastar::priority_class_data pc{static_cast<unsigned>(number % 2)};
    const auto made = std::make_unique<seastar::io_desc_read_write>(
        pc, seastar::io_direction_and_length{number % 3 == 0 ? 0 : seastar::io_direction_read, 4096});
    if (number % 10 == 1) seastar::fair_queue().grab_capacity();
    if (number % 100 == 7) made->cancel();
    made->dispatch();
    if (number % 100 == 7) return;
    if (number % 100 == 8)
        made->set_exception(nullptr);
    else
        made->complete(4096);
}

}  // namespace

// DIRECTORY REQUESTS
int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const std::vector<seastar::scheduling_group> groups = {{0, "main"}, {1, "streaming"}};
    io_capture capture(argv[1], std::chrono::milliseconds(500), 10 << 20, groups);
    seastar::reactor::task_queue tasks{1};
    int count = 0;
    for (int number = 0; number < std::atoi(argv[2]); ++number) {
        request(number);
        tasks._q.push_back(new counting_task(&count));
        tasks.run_tasks();
        seastar::reactor::poll();
    }
    while (!capture.is_over()) seastar::reactor::poll();
    return count == std::atoi(argv[2]) ? 0 : 1;
}
