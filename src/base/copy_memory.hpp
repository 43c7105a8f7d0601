#pragma once

#include <cstddef>
#include <memory>

namespace leat {

// Memory for copies of small files. A mapping of its own costs the system more than the copy, and so does memory that
// comes page by page.
//
//     a block of memory   | file | file | file | free ... |     given back with the last of its files
//
// The block that is being filled, of 1 MiB at most, stays.
//
// Any thread. Null: the file is not a small one, all copies together have taken enough, or there is no memory.
std::shared_ptr<std::byte> take_copy_memory(std::size_t size);

// Larger files are not copied: of those, a mapping costs no more.
inline constexpr std::size_t kLargestCopy = 8U << 10U;
// All blocks have no more.
inline constexpr std::size_t kMostCopied = 32U << 20U;

}  // namespace leat
