#pragma once

#include <cstddef>
#include <span>

#include "base/mapping.hpp"
#include "base/unique_fd.hpp"

namespace leat {

// Fills mappings with one byte, whatever their size, in little memory: the same pages are mapped there again and again.
// Where they cannot be, the bytes are written. One thread.
class PageFill {
  public:
    explicit PageFill(std::byte value) : value_(value) {}

    // `memory`: of private mappings, which may be written. What is written there later stays there, as before.
    void fill(std::span<std::byte> memory);

  private:
    // False: there is no memory for them.
    bool make_pages();
    // How many bytes at `begin`, where a page does, now are such pages; 0: none.
    std::size_t map_pages(std::byte* begin, std::size_t size);

    std::byte value_;
    UniqueFd pages_;
};

}  // namespace leat
