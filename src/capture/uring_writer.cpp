#include "capture/uring_writer.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/check.hpp"

namespace leat::capture {
namespace {

Mapping map(int fd, std::size_t size, std::uint64_t offset) {
    void* const address =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(offset));
    return address == MAP_FAILED ? Mapping() : Mapping(address, size);
}

}  // namespace

std::unique_ptr<UringWriter> UringWriter::create() {
    auto writer = std::make_unique<UringWriter>();
    io_uring_params& parameters = writer->parameters_;
    writer->fd_ = UniqueFd(static_cast<int>(::syscall(SYS_io_uring_setup, kMaxWrites, &parameters)));
    constexpr std::uint32_t kNeeded = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE;
    if (!writer->fd_.is_open() || (parameters.features & kNeeded) != kNeeded) return nullptr;
    const std::size_t size = std::max(parameters.sq_off.array + parameters.sq_entries * sizeof(std::uint32_t),
                                      parameters.cq_off.cqes + parameters.cq_entries * sizeof(io_uring_cqe));
    writer->rings_ = map(writer->fd_.get(), size, IORING_OFF_SQ_RING);
    writer->entries_ = map(writer->fd_.get(), parameters.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
    if (writer->rings_.data() == nullptr || writer->entries_.data() == nullptr) return nullptr;
    return writer;
}

void UringWriter::add(std::uint64_t number, int fd, std::uint64_t offset, std::span<const iovec> parts) {
    const auto found = std::ranges::find(writes_, true, &Write::is_free);
    LEAT_CHECK(found != writes_.end() && parts.size() <= found->parts.size());
    found->is_free = false;
    found->number = number;
    std::ranges::copy(parts, found->parts.begin());
    // The kernel reads it in io_uring_enter() alone: that is the barrier.
    std::uint32_t& tail = *at<std::uint32_t>(parameters_.sq_off.tail);
    const std::uint32_t index = tail & *at<std::uint32_t>(parameters_.sq_off.ring_mask);
    auto& entry = reinterpret_cast<io_uring_sqe*>(entries_.data())[index];  // NOLINT(*-reinterpret-cast)
    entry = {};
    entry.opcode = IORING_OP_WRITEV;
    entry.fd = fd;
    entry.off = offset;
    entry.addr = reinterpret_cast<std::uint64_t>(found->parts.data());  // NOLINT(*-reinterpret-cast)
    entry.len = static_cast<std::uint32_t>(parts.size());
    entry.user_data = static_cast<std::uint64_t>(found - writes_.begin());
    at<std::uint32_t>(parameters_.sq_off.array)[index] = index;
    std::atomic_ref(tail).store(tail + 1, std::memory_order_release);
    ++added_;
    ++count_;
}

int UringWriter::enter(unsigned to_submit, unsigned to_wait_for) const {
    const unsigned flags = to_wait_for != 0 ? IORING_ENTER_GETEVENTS : 0;
    return static_cast<int>(::syscall(SYS_io_uring_enter, fd_.get(), to_submit, to_wait_for, flags, nullptr, 0));
}

void UringWriter::submit() {
    if (added_ == 0 || error_ != 0) return;
    const int taken = enter(added_, 0);
    if (taken >= 0)
        added_ -= static_cast<unsigned>(taken);
    else if (errno != EINTR && errno != EAGAIN && errno != EBUSY)
        error_ = -errno;
}

std::optional<UringWriter::Done> UringWriter::take_done() {
    std::uint32_t& head = *at<std::uint32_t>(parameters_.cq_off.head);
    // The kernel has filled the entry: it stores the tail after that.
    const std::uint32_t tail =
        std::atomic_ref(*at<std::uint32_t>(parameters_.cq_off.tail)).load(std::memory_order_acquire);
    if (head != tail) {
        const std::uint32_t index = head & *at<std::uint32_t>(parameters_.cq_off.ring_mask);
        const io_uring_cqe entry = at<io_uring_cqe>(parameters_.cq_off.cqes)[index];
        std::atomic_ref(head).store(head + 1, std::memory_order_release);
        Write& write = writes_[entry.user_data];
        write.is_free = true;
        --count_;
        return Done{write.number, entry.res};
    }
    if (error_ == 0 || added_ == 0) return std::nullopt;
    // The kernel takes nothing any more: what it has not got comes back, the last one first.
    std::uint32_t& end = *at<std::uint32_t>(parameters_.sq_off.tail);
    --end;
    --added_;
    --count_;
    const std::uint32_t index = end & *at<std::uint32_t>(parameters_.sq_off.ring_mask);
    const auto& entry = reinterpret_cast<const io_uring_sqe*>(entries_.data())[index];  // NOLINT(*-reinterpret-cast)
    writes_[entry.user_data].is_free = true;
    return Done{writes_[entry.user_data].number, error_};
}

// If the kernel takes nothing for want of memory, and has nothing under way, nothing would ever be done.
void UringWriter::wait() {
    constexpr int kTries = 1000;
    constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 1'000'000};
    submit();
    for (int i = 0; error_ == 0 && count_ != 0 && added_ == count_; ++i) {
        if (i == kTries) error_ = -EAGAIN;
        ::nanosleep(&kPause, nullptr);
        submit();
    }
    if (error_ == 0 || added_ == 0) (void)enter(0, 1);
}

}  // namespace leat::capture
