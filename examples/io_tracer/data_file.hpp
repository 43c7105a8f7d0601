// What is read and written.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

namespace io_tracer {

// For direct IO: begins at a page.
class AlignedMemory {
  public:
    explicit AlignedMemory(std::size_t size);
    [[nodiscard]] iovec part(std::size_t offset, std::size_t size) const { return {memory_.get() + offset, size}; }

  private:
    struct Free {
        void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
    };
    static constexpr std::align_val_t kAlignment{4096};

    std::unique_ptr<std::byte[], Free> memory_;
};

// A file without a name, which goes with its descriptor. Its pages are written once, so that reading them is work for
// the disk, past the page cache where the file system allows that.
class DataFile {
  public:
    // `size` is rounded up to whole MiB. Without a descriptor, errno says why.
    DataFile(const std::string& directory, std::uint64_t size);
    ~DataFile();
    DataFile(const DataFile&) = delete;
    DataFile& operator=(const DataFile&) = delete;

    [[nodiscard]] bool is_open() const { return fd_ >= 0; }
    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }

  private:
    [[nodiscard]] bool fill() const;

    std::uint64_t size_;
    int fd_;
};

}  // namespace io_tracer
