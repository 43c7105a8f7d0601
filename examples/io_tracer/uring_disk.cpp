// io_uring, by its three system calls.
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "disk.hpp"

namespace io_tracer {
namespace {

// Memory that is shared with the kernel.
class SharedRing {
  public:
    SharedRing(int fd, std::size_t size, off_t offset)
        : size_(size), memory_(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset)) {}
    ~SharedRing() {
        if (is_mapped()) ::munmap(memory_, size_);
    }
    SharedRing(const SharedRing&) = delete;
    SharedRing& operator=(const SharedRing&) = delete;

    [[nodiscard]] bool is_mapped() const { return memory_ != MAP_FAILED; }
    template <typename T>
    [[nodiscard]] T* at(std::size_t offset) const {
        return reinterpret_cast<T*>(static_cast<std::byte*>(memory_) + offset);
    }

  private:
    std::size_t size_;
    void* memory_;
};

class UringDisk final : public Disk {
  public:
    UringDisk(int fd, const io_uring_params& parameters)
        : fd_(fd),
          parameters_(parameters),
          submissions_(fd, parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING),
          completions_(fd, parameters.cq_off.cqes + parameters.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING),
          entries_(fd, parameters.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES) {}
    ~UringDisk() override { ::close(fd_); }

    [[nodiscard]] bool is_usable() const {
        return submissions_.is_mapped() && completions_.is_mapped() && entries_.is_mapped();
    }

    void submit(Operation& operation) override {
        std::atomic_ref tail(*submissions_.at<unsigned>(parameters_.sq_off.tail));
        const unsigned position = tail.load(std::memory_order_relaxed);
        const unsigned index = position & (parameters_.sq_entries - 1);
        io_uring_sqe& entry = entries_.at<io_uring_sqe>(0)[index];
        entry = {};
        entry.opcode = operation.direction == Direction::kRead ? IORING_OP_READV : IORING_OP_WRITEV;
        entry.fd = operation.fd;
        entry.off = operation.offset;
        entry.addr = reinterpret_cast<__u64>(operation.parts.data());
        entry.len = operation.part_count;
        entry.user_data = reinterpret_cast<__u64>(&operation);
        submissions_.at<unsigned>(parameters_.sq_off.array)[index] = index;
        // The kernel reads the entry once it sees the tail.
        tail.store(position + 1, std::memory_order_release);
        ++unsubmitted_;
    }

    void wait(std::chrono::microseconds longest) override {
        enter(has_completion() ? std::chrono::microseconds(0) : longest);
        std::atomic_ref head(*completions_.at<unsigned>(parameters_.cq_off.head));
        while (has_completion()) {
            const unsigned position = head.load(std::memory_order_relaxed);
            const io_uring_cqe found =
                completions_.at<io_uring_cqe>(parameters_.cq_off.cqes)[position & (parameters_.cq_entries - 1)];
            head.store(position + 1, std::memory_order_release);
            reinterpret_cast<Operation*>(found.user_data)->completed(found.res);
        }
    }

    [[nodiscard]] const char* name() const override { return "io_uring"; }

  private:
    [[nodiscard]] bool has_completion() const {
        const std::atomic_ref tail(*completions_.at<unsigned>(parameters_.cq_off.tail));
        return tail.load(std::memory_order_acquire) != *completions_.at<unsigned>(parameters_.cq_off.head);
    }

    void enter(std::chrono::microseconds longest) {
        __kernel_timespec time = {.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(longest).count()};
        io_uring_getevents_arg argument{};
        argument.sigmask_sz = _NSIG / 8;
        argument.ts = reinterpret_cast<__u64>(&time);
        const bool waits = longest.count() != 0;
        const long submitted = ::syscall(__NR_io_uring_enter, fd_, unsubmitted_, waits ? 1 : 0,
                                         IORING_ENTER_GETEVENTS | (waits ? IORING_ENTER_EXT_ARG : 0),
                                         waits ? &argument : nullptr, waits ? sizeof argument : 0);
        if (submitted > 0) unsubmitted_ -= static_cast<unsigned>(submitted);
        // EAGAIN, EBUSY: no memory, or too many completions; ETIME, EINTR: nothing is complete yet.
        if (submitted < 0 && errno != EAGAIN && errno != EBUSY && errno != ETIME && errno != EINTR) {
            std::perror("io_tracer: io_uring_enter");
            std::abort();
        }
    }

    int fd_;
    io_uring_params parameters_;
    SharedRing submissions_;
    SharedRing completions_;
    SharedRing entries_;
    unsigned unsubmitted_ = 0;
};

}  // namespace

std::unique_ptr<Disk> make_uring_disk(unsigned operations) {
    io_uring_params parameters{};
    const auto fd = static_cast<int>(::syscall(__NR_io_uring_setup, std::bit_ceil(operations), &parameters));
    if (fd < 0) return nullptr;
    auto disk = std::make_unique<UringDisk>(fd, parameters);
    // Without EXT_ARG (Linux 5.11), a wait has no end of its own.
    if (disk->is_usable() && (parameters.features & IORING_FEAT_EXT_ARG) != 0) return disk;
    errno = ENOSYS;
    return nullptr;
}

}  // namespace io_tracer
