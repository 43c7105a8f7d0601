// Writes that the kernel does meanwhile, by io_uring.
#pragma once

#include <linux/io_uring.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/mapping.hpp"
#include "base/unique_fd.hpp"

namespace leat::capture {

// One thread. Its system calls never wait for the disk, but for wait(). Whoever destroys it has waited, or is a child
// of fork(): what is under way is its parent's.
//
//     free --add()--> added --submit()--> under way --take_done()--> free
class UringWriter {
  public:
    static constexpr std::size_t kMaxWrites = 64;

    struct Done {
        std::uint64_t number;
        std::int32_t result;  // bytes, or -errno
    };

    // nullptr: the kernel has none, or does not allow it.
    static std::unique_ptr<UringWriter> create();

    [[nodiscard]] bool has_room() const { return count_ < kMaxWrites; }
    // The kernel takes nothing any more: what it has not got comes back by take_done().
    [[nodiscard]] bool has_failed() const { return error_ != 0; }
    // Of writes that are not free.
    [[nodiscard]] std::size_t count() const { return count_; }
    // What the parts point to holds still until the write is done. There is room.
    void add(std::uint64_t number, int fd, std::uint64_t offset, std::span<const iovec> parts);
    // Hands over what was added, in one system call. What the kernel does not take now, it gets the next time.
    void submit();
    std::optional<Done> take_done();
    // Until a write is done. At least one is under way.
    void wait();

  private:
    struct Write {
        bool is_free = true;
        std::uint64_t number = 0;
        std::array<iovec, 2> parts{};
    };
    // Words that we share with the kernel, by their offsets.
    template <class T>
    [[nodiscard]] T* at(std::uint32_t offset) const {
        return reinterpret_cast<T*>(rings_.data() + offset);  // NOLINT(*-reinterpret-cast)
    }
    [[nodiscard]] int enter(unsigned to_submit, unsigned to_wait_for) const;

    UniqueFd fd_;
    io_uring_params parameters_{};
    Mapping rings_;
    Mapping entries_;
    std::array<Write, kMaxWrites> writes_{};
    std::size_t count_ = 0;
    unsigned added_ = 0;  // and not submitted
    std::int32_t error_ = 0;
};

}  // namespace leat::capture
