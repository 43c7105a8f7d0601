#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "base/result.hpp"

namespace leat {

// The caller's clause, followed by the text of `errno`, as mmap() left it: kDiskFull if it is for want of address
// space, or of mappings (vm.max_map_count).
tl::unexpected<Error> cannot_map(std::string_view what);

// Owns a range of mapped memory and unmaps it in its destructor.
class Mapping {
  public:
    Mapping() = default;
    // Takes over `size` bytes at `address`, as mmap returned them.
    Mapping(void* address, std::size_t size) : address_(address), size_(size) {}
    Mapping(Mapping&& other) noexcept
        : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Mapping& operator=(Mapping&& other) noexcept {
        std::swap(address_, other.address_);
        std::swap(size_, other.size_);
        return *this;
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();

    // Maps the first `size` bytes of `fd`, shared.
    static Result<Mapping> of_file(int fd, std::size_t size, bool is_writable);
    // The same, but what is written there the file does not get.
    static Result<Mapping> copy_of_file(int fd, std::size_t size);
    // Reserves `size` bytes of address space, without access, to map other things into.
    static Result<Mapping> of_address_space(std::size_t size);

    [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(address_); }
    [[nodiscard]] std::size_t size() const { return size_; }

  private:
    void* address_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace leat
