#include "base/journal.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/file.hpp"

namespace leat {
namespace {

constexpr std::uint64_t kHeaderSize = 2 * sizeof(std::uint64_t);

}  // namespace

Result<Journal> Journal::create(const std::string& name, const MemoryPlace& place) {
    Journal journal(LEAT_TRY(place.make(name)), place.is_directory() ? (place.path() / name).string() : name, {});
    LEAT_TRY(journal.set_extent({}));
    return journal;
}

Result<Journal> Journal::adopt(UniqueFd fd) {
    static_assert(sizeof(Extent) == kHeaderSize);
    struct stat status {};
    Extent extent;
    if (::fstat(fd.get(), &status) != 0 || ::pread(fd.get(), &extent, sizeof extent, 0) != sizeof extent)
        return corrupt("not a journal: it is shorter than a header");
    const auto there = static_cast<std::uint64_t>(status.st_size) - kHeaderSize;
    if (extent.begin > there || extent.size > there - extent.begin)
        return corrupt("a journal claims {} bytes from {} on, and has {}", extent.size, extent.begin, there);
    if (extent.size > kMaxSize) return refused("a journal has {} bytes; the limit is {}", extent.size, kMaxSize);
    return Journal(std::move(fd), "a journal", extent);
}

Result<void> Journal::write_at(std::span<const std::byte> bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
        const ssize_t count = ::pwrite(fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return io_error("cannot write " + name_);
        bytes = bytes.subspan(static_cast<std::size_t>(count));
        offset += static_cast<std::uint64_t>(count);
    }
    return {};
}

Result<void> Journal::append(std::string_view text) {
    if (text.size() > kMaxSize - extent_.size)
        return refused("{} would have more than {} bytes, which is the limit", name_, kMaxSize);
    LEAT_TRY(write_at(std::as_bytes(std::span(text)), kHeaderSize + extent_.begin + extent_.size));
    return set_extent({.begin = extent_.begin, .size = extent_.size + text.size()});
}

// In front of the text of before, if there is room: so what is replaced again and again does not grow.
Result<void> Journal::replace(std::string_view text) {
    if (text.size() > kMaxSize) return refused("{} would have {} bytes; the limit is {}", name_, text.size(), kMaxSize);
    const std::uint64_t begin = text.size() <= extent_.begin ? 0 : extent_.begin + extent_.size;
    LEAT_TRY(write_at(std::as_bytes(std::span(text)), kHeaderSize + begin));
    return set_extent({.begin = begin, .size = text.size()});
}

// The kernel writes so few bytes within a page whole, also for a process that is killed meanwhile.
Result<void> Journal::set_extent(Extent extent) {
    LEAT_TRY(write_at(std::as_bytes(std::span(&extent, 1)), 0));
    extent_ = extent;
    return {};
}

Result<std::string> Journal::read() const {
    std::string text(extent_.size, '\0');
    const auto filled = read_at(fd(), kHeaderSize + extent_.begin, std::as_writable_bytes(std::span(text)));
    if (!filled) return wrap("a journal", filled.error());
    if (*filled < text.size()) return corrupt("a journal became shorter");
    return text;
}

}  // namespace leat
