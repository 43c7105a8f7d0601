#include "base/mapped_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <utility>

#include "base/file.hpp"

namespace leat {
namespace {

// Copies the page by writing to it, which the file does not see. If it is not in the file any more, that is a fault.
Result<void> copy_last_page(const Mapping& mapping) {
    constexpr std::size_t kPage = 4096;  // bytes
    const std::size_t last = mapping.size() - 1;
    std::byte* const page = mapping.data() + last / kPage * kPage;
    if (::mprotect(page, kPage, PROT_READ | PROT_WRITE) != 0) return io_error("cannot copy a page");
    volatile std::byte& byte = mapping.data()[last];
    const std::byte same = byte;
    byte = same;
    if (::mprotect(page, kPage, PROT_READ) != 0) return io_error("cannot copy a page");
    return {};
}

Result<std::size_t> size_of(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) return io_error("cannot ask for its size");
    return static_cast<std::size_t>(status.st_size);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    const UniqueFd fd = LEAT_TRY(open_for_reading(path));
    const auto size = size_of(fd.get());
    auto mapped = size ? of_file(fd.get(), *size) : tl::unexpected(size.error());
    if (!mapped) return wrap(path.string(), std::move(mapped).error());
    return mapped;
}

Result<MappedFile> MappedFile::of_file(int fd, std::size_t size) {
    if (size == 0) return MappedFile(Mapping(), FaultGuard());  // mmap refuses a size of 0
    Mapping mapping = LEAT_TRY(Mapping::private_of_file(fd, size));
    FaultGuard guard = LEAT_TRY(FaultGuard::of(mapping.data(), mapping.size()));
    LEAT_TRY(copy_last_page(mapping));
    // Cut off before it was copied, the page has zeros that nobody would tell from the file's.
    if (LEAT_TRY(size_of(fd)) < size) return corrupt("it has become shorter while it was opened");
    return MappedFile(std::move(mapping), std::move(guard));
}

}  // namespace leat
