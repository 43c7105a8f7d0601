#include "base/mapped_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>

#include "base/copy_memory.hpp"
#include "base/file.hpp"

namespace leat {
namespace {

constexpr std::size_t kPage = 4096;  // bytes

Result<std::size_t> size_of(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) return io_error("cannot ask for its size");
    return static_cast<std::size_t>(status.st_size);
}

tl::unexpected<Error> became_shorter() { return corrupt("it has become shorter while it was opened"); }

const char* remedy() { return errno == ENOMEM ? " (of so many files? name fewer, or raise vm.max_map_count)" : ""; }

// At an address that is ours already; null: at any.
Result<std::byte*> map_pages(int fd, std::byte* at, std::size_t first, std::size_t count) {
    const int flags = MAP_PRIVATE | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0);
    void* const mapped = ::mmap(at, count * kPage, PROT_READ, flags, fd, static_cast<off_t>(first * kPage));
    if (mapped != MAP_FAILED) return static_cast<std::byte*>(mapped);
    return io_error(fmt::format("cannot map {} bytes{}", count * kPage, remedy()));
}

// To protect a page again, the system must wait for all CPUs to forget that it was writable, which takes longer than
// all else that is done for a file. But a page that stays writable is a mapping of its own, of which a process may have
// only so many (vm.max_map_count): so that is for the first files.
bool may_stay_writable() {
    constexpr unsigned kMost = 2048;
    static std::atomic<unsigned> count = 0;
    return count.load(std::memory_order_relaxed) < kMost && count.fetch_add(1, std::memory_order_relaxed) < kMost;
}

// Copies the page by writing to it, which the file does not see. If it is not in the file any more, that is a fault.
Result<void> write_to_page(std::byte* page, std::size_t offset, std::uint64_t value) {
    if (::mprotect(page, kPage, PROT_READ | PROT_WRITE) != 0)
        return io_error(fmt::format("cannot copy a page{}", remedy()));
    *reinterpret_cast<volatile std::uint64_t*>(page + offset) = value;  // NOLINT(*-reinterpret-cast)
    if (!may_stay_writable() && ::mprotect(page, kPage, PROT_READ) != 0)
        return io_error(fmt::format("cannot copy a page{}", remedy()));
    return {};
}

}  // namespace

Result<MappedFile> MappedFile::of_file(int fd, std::size_t size) {
    MappedFile mapped;
    if (size == 0) return mapped;  // mmap refuses a size of 0
    if (auto memory = take_copy_memory(size)) return copy_of(fd, size, std::move(memory));
    const std::size_t pages = (size + kPage - 1) / kPage;
    const bool has_room = pages * kPage - size >= sizeof(kWitness);
    const std::size_t pages_of_memory = pages + (has_room ? 0 : 1);
    mapped.size_ = size;
    mapped.mapping_ = Mapping(LEAT_TRY(map_pages(fd, nullptr, 0, pages_of_memory)), pages_of_memory * kPage);
    mapped.data_ = mapped.mapping_.data();
    mapped.guard_ = LEAT_TRY(FaultGuard::of(mapped.mapping_.data(), mapped.mapping_.size()));
    LEAT_TRY(mapped.copy_last_page(fd, pages, has_room));
    // Cut off before it was copied, the page has zeros that nobody would tell from the file's.
    if (LEAT_TRY(size_of(fd)) < size) return became_shorter();
    return mapped;
}

Result<MappedFile> MappedFile::copy_of(int fd, std::size_t size, std::shared_ptr<std::byte> memory) {
    // Cut off while it is read, it may have zeros, too.
    if (LEAT_TRY(read_at(fd, 0, {memory.get(), size})) < size || LEAT_TRY(size_of(fd)) < size) return became_shorter();
    MappedFile copied;
    copied.data_ = memory.get();
    copied.size_ = size;
    copied.copy_ = std::move(memory);
    return copied;
}

Result<void> MappedFile::copy_last_page(int fd, std::size_t pages, bool has_room) {
    std::byte* const last = mapping_.data() + (pages - 1) * kPage;
    constexpr std::size_t kPlace = kPage - sizeof(kWitness);
    std::byte* page_of_witness = last;
    if (!has_room) {
        page_of_witness = last + kPage;
        LEAT_TRY(map_pages(fd, page_of_witness, pages - 1, 1));
        const std::uint64_t same = *reinterpret_cast<volatile std::uint64_t*>(last);  // NOLINT(*-reinterpret-cast)
        LEAT_TRY(write_to_page(last, 0, same));
    }
    LEAT_TRY(write_to_page(page_of_witness, kPlace, kWitness));
    witness_ = reinterpret_cast<const volatile std::uint64_t*>(page_of_witness + kPlace);  // NOLINT(*-reinterpret-cast)
    return {};
}

}  // namespace leat
