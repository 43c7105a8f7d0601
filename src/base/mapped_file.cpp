#include "base/mapped_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <utility>

#include "base/file.hpp"

namespace leat {

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    const UniqueFd fd = LEAT_TRY(open_for_reading(path));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return io_error(fmt::format("cannot stat {}", path.string()));
    if (status.st_size == 0) return MappedFile(UntrustedBytes{});  // which mmap refuses
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (address == MAP_FAILED) return io_error(fmt::format("cannot map {}", path.string()));
    return MappedFile(UntrustedBytes(static_cast<const std::byte*>(address), size));
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
}

MappedFile::~MappedFile() {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): munmap takes what mmap gave
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace leat
