#include "data_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace io_tracer {
namespace {

constexpr std::size_t kStep = 1 << 20;

int open_in(const std::string& directory) {
    const int flags = O_TMPFILE | O_RDWR | O_CLOEXEC;
    const int fd = ::open(directory.c_str(), flags | O_DIRECT, 0600);
    // A tmpfs has no disk to be direct with.
    return fd < 0 && errno == EINVAL ? ::open(directory.c_str(), flags, 0600) : fd;
}

}  // namespace

AlignedMemory::AlignedMemory(std::size_t size) : memory_(new(kAlignment) std::byte[size]) {
    std::memset(memory_.get(), 'i', size);
}

DataFile::DataFile(const std::string& directory, std::uint64_t size)
    : size_((size + kStep - 1) / kStep * kStep), fd_(open_in(directory)) {
    if (fd_ < 0 || fill()) return;
    const int error = errno;
    ::close(fd_);
    fd_ = -1;
    errno = error;
}

DataFile::~DataFile() {
    if (fd_ >= 0) ::close(fd_);
}

bool DataFile::fill() const {
    const AlignedMemory memory(kStep);
    for (std::uint64_t offset = 0; offset < size_; offset += kStep) {
        const ssize_t written = ::pwrite(fd_, memory.part(0, kStep).iov_base, kStep, static_cast<off_t>(offset));
        if (written == static_cast<ssize_t>(kStep)) continue;
        if (written >= 0) errno = ENOSPC;
        return false;
    }
    return ::fdatasync(fd_) == 0;
}

}  // namespace io_tracer
