// Control memory as a program makes it, or as a hostile one could.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "base/file.hpp"
#include "base/unique_fd.hpp"
#include "support/description_table.hpp"
#include "wire/app/app_protocol.hpp"
#include "wire/app/control_format.hpp"

namespace leat::test {

inline UniqueFd memfd_of(const std::string& bytes, int seals) {
    UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_TRUE(write_all(fd.get(), untrusted(bytes)));
    EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
}

class TestControl {
  public:
    static constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

    explicit TestControl(const std::vector<TestTracepoint>& tracepoints = {TestTracepoint{}})
        : table(TestTable{tracepoints}.bytes()) {
        header.magic = wire::kControlMagic;
        header.version = wire::kAppVersion;
        header.bitness = 64;
        header.tracepoint_count = static_cast<std::uint32_t>(tracepoints.size());
        header.descriptions_size = static_cast<std::uint32_t>(table.size());
        header.pid = 1;
        std::memcpy(header.procname, "program", 8);
    }

    [[nodiscard]] wire::ControlLayout layout() const { return {header.tracepoint_count, table.size()}; }
    [[nodiscard]] std::string bytes() const {
        std::string bytes(layout().size(), '\0');
        std::memcpy(bytes.data(), &header, sizeof header);
        bytes.replace(layout().descriptions(), table.size(), table);
        return bytes;
    }
    [[nodiscard]] UniqueFd memfd(int seals = kSeals) const { return memfd_of(bytes(), seals); }

    wire::ControlFileHeader header{};
    std::string table;
};

// What a program reads of an entry.
inline wire::ControlEntry entry_in(int fd, const wire::ControlLayout& layout, std::uint64_t index) {
    wire::ControlEntry entry{};
    EXPECT_EQ(::pread(fd, &entry, sizeof entry, static_cast<off_t>(layout.entry(index))),
              static_cast<ssize_t>(sizeof entry));
    return entry;
}

}  // namespace leat::test
