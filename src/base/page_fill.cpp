#include "base/page_fill.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace leat {
namespace {

constexpr std::size_t kPageSize = 4096;
// Many more mappings than this one gigabyte takes, 64, and a process may have no others (vm.max_map_count).
constexpr std::size_t kPagesSize = 16U << 20;
// Memory that is hardly larger is filled by hand.
constexpr std::size_t kWorthAMapping = 1U << 20;

}  // namespace

bool PageFill::make_pages() {
    if (pages_.is_open()) return true;
    UniqueFd pages(::memfd_create("leat-fill", MFD_CLOEXEC));
    if (!pages.is_open() || ::posix_fallocate(pages.get(), 0, kPagesSize) != 0) return false;
    const auto content = Mapping::of_file(pages.get(), kPagesSize, true);
    if (!content) return false;
    std::memset(content->data(), std::to_integer<int>(value_), kPagesSize);
    pages_ = std::move(pages);
    return true;
}

std::size_t PageFill::map_pages(std::byte* begin, std::size_t size) {
    if (size < kWorthAMapping || !make_pages()) return 0;
    const std::size_t mapped = std::min(size, kPagesSize) / kPageSize * kPageSize;
    const int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
    return ::mmap(begin, mapped, PROT_READ | PROT_WRITE, flags, pages_.get(), 0) != MAP_FAILED ? mapped : 0;
}

void PageFill::fill(std::span<std::byte> memory) {
    const std::size_t beyond =
        reinterpret_cast<std::uintptr_t>(memory.data()) % kPageSize;  // NOLINT(*-reinterpret-cast)
    const auto write = [&](std::size_t count) {
        std::fill_n(memory.begin(), count, value_);
        memory = memory.subspan(count);
    };
    write(std::min(beyond == 0 ? 0 : kPageSize - beyond, memory.size()));
    while (const std::size_t mapped = map_pages(memory.data(), memory.size())) memory = memory.subspan(mapped);
    write(memory.size());
}

}  // namespace leat
