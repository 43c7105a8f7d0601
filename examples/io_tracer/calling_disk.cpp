// preadv() and pwritev(): wait() calls them for all that was submitted.
#include <cerrno>
#include <cstddef>
#include <deque>
#include <thread>

#include "disk.hpp"

namespace io_tracer {
namespace {

ssize_t transfer(const Operation& operation) {
    const auto call = operation.direction == Direction::kRead ? ::preadv : ::pwritev;
    const ssize_t size = call(operation.fd, operation.parts.data(), static_cast<int>(operation.part_count),
                              static_cast<off_t>(operation.offset));
    return size < 0 ? -errno : size;
}

class CallingDisk final : public Disk {
  public:
    void submit(Operation& operation) override { submitted_.push_back(&operation); }

    void wait(std::chrono::microseconds longest) override {
        if (submitted_.empty()) return std::this_thread::sleep_for(longest);
        // Who is told of one operation submits the next: that is for the next time.
        for (std::size_t count = submitted_.size(); count > 0; --count) {
            Operation& first = *submitted_.front();
            submitted_.pop_front();
            first.completed(transfer(first));
        }
    }

    [[nodiscard]] const char* name() const override { return "calls"; }

  private:
    std::deque<Operation*> submitted_;
};

}  // namespace

std::unique_ptr<Disk> make_calling_disk() { return std::make_unique<CallingDisk>(); }

}  // namespace io_tracer
