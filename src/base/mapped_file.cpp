#include "base/mapped_file.hpp"

#include <sys/stat.h>

#include <utility>

#include "base/file.hpp"

namespace leat {

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    const UniqueFd fd = LEAT_TRY(open_for_reading(path));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return io_error(fmt::format("cannot stat {}", path.string()));
    auto mapped = of_file(fd.get(), static_cast<std::size_t>(status.st_size));
    if (!mapped) return wrap(path.string(), std::move(mapped).error());
    return mapped;
}

Result<MappedFile> MappedFile::of_file(int fd, std::size_t size) {
    if (size == 0) return MappedFile(Mapping(), FaultGuard());  // mmap refuses a size of 0
    Mapping mapping = LEAT_TRY(Mapping::of_file(fd, size, false));
    FaultGuard guard = LEAT_TRY(FaultGuard::of(mapping.data(), mapping.size()));
    return MappedFile(std::move(mapping), std::move(guard));
}

}  // namespace leat
