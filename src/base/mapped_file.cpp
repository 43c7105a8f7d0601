#include "base/mapped_file.hpp"

#include <sys/stat.h>

#include <utility>

#include "base/file.hpp"

namespace leat {

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    const UniqueFd fd = LEAT_TRY(open_for_reading(path));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return io_error(fmt::format("cannot stat {}", path.string()));
    if (status.st_size == 0) return MappedFile(Mapping());  // which mmap refuses
    auto mapping = Mapping::of_file(fd.get(), static_cast<std::size_t>(status.st_size), false);
    if (!mapping) return wrap(path.string(), std::move(mapping.error()));
    return MappedFile(*std::move(mapping));
}

}  // namespace leat
