#include "base/mapping.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace leat {

tl::unexpected<Error> cannot_map(std::string_view what) {
    const bool is_short = errno == ENOMEM;
    tl::unexpected<Error> error = io_error(what);
    if (is_short) error.value().kind = ErrorKind::kDiskFull;
    return error;
}

Mapping::~Mapping() {
    if (address_ != nullptr) ::munmap(address_, size_);
}

Result<Mapping> Mapping::of_file(int fd, std::size_t size, bool is_writable) {
    void* address = ::mmap(nullptr, size, is_writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) return cannot_map(fmt::format("cannot map {} bytes", size));
    return Mapping(address, size);
}

Result<Mapping> Mapping::copy_of_file(int fd, std::size_t size) {
    void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (address == MAP_FAILED) return cannot_map(fmt::format("cannot map {} bytes", size));
    return Mapping(address, size);
}

Result<Mapping> Mapping::of_address_space(std::size_t size) {
    void* address = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) return cannot_map(fmt::format("cannot reserve {} bytes of address space", size));
    return Mapping(address, size);
}

}  // namespace leat
