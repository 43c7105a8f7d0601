#include "cli/program_file.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace leat::cli {
namespace {

namespace fs = std::filesystem;

// How many bytes of a file the kernel looks at, and how many scripts may interpret each other (linux/binfmts.h).
constexpr std::size_t kInspectedBytes = 256;
constexpr int kMaxScripts = 5;
constexpr char kDefaultPath[] = "/bin:/usr/bin";

bool is_executable(const fs::path& file) {
    std::error_code error;
    return fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0;
}

}  // namespace

// An empty name in PATH is the current directory.
std::optional<fs::path> find_program(const std::string& program) {
    if (program.find('/') != std::string::npos) return program;
    const char* variable = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): one thread
    std::string_view path = variable != nullptr ? variable : kDefaultPath;
    for (;;) {
        const std::size_t length = path.find(':');
        const fs::path candidate = fs::path(path.substr(0, length)) / program;
        if (is_executable(candidate)) return candidate;
        if (length == std::string_view::npos) return std::nullopt;
        path.remove_prefix(length + 1);
    }
}

namespace {

std::string read_at(const fs::path& file, std::uint64_t offset, std::size_t size) {
    std::string bytes(size, '\0');
    std::ifstream in(file, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(offset));
    in.read(bytes.data(), static_cast<std::streamsize>(size));
    bytes.resize(static_cast<std::size_t>(in.gcount()));
    return bytes;
}

std::optional<fs::path> interpreter_of_script(const fs::path& file) {
    const std::string start = read_at(file, 0, kInspectedBytes);
    if (!start.starts_with("#!")) return std::nullopt;
    std::string_view line = std::string_view(start).substr(2, start.find('\n') - 2);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return fs::path(line.substr(0, line.find_first_of(" \t\r")));
}

// The file whose code runs: the program itself, or the interpreter of its interpreter.
fs::path find_binary(fs::path file) {
    for (int i = 0; i < kMaxScripts; ++i) {
        const auto interpreter = interpreter_of_script(file);
        if (!interpreter) break;
        file = *interpreter;
    }
    return file;
}

template <class T>
std::optional<T> read_struct(const fs::path& file, std::uint64_t offset) {
    const std::string bytes = read_at(file, offset, sizeof(T));
    if (bytes.size() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
}

// The dynamic loader that a 64-bit program names; nothing in one that needs none.
std::optional<fs::path> loader_of(const fs::path& file, const Elf64_Ehdr& header) {
    for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
        const auto segment = read_struct<Elf64_Phdr>(file, header.e_phoff + i * header.e_phentsize);
        if (!segment) return std::nullopt;
        if (segment->p_type == PT_INTERP)
            return read_at(file, segment->p_offset, std::min<std::size_t>(segment->p_filesz, PATH_MAX)).c_str();
    }
    return std::nullopt;
}

std::optional<Obstacle> obstacle_in_format(const fs::path& file, const std::string& name) {
    const auto header = read_struct<Elf64_Ehdr>(file, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
    if (header->e_ident[EI_CLASS] == ELFCLASS32) return Obstacle{name + " is a 32-bit program", "build it for 64 bits"};
    const auto loader = loader_of(file, *header);
    if (!loader)
        return Obstacle{name + " is statically linked, so no library can be loaded into it",
                        "link it dynamically with glibc, or with libleat.a"};
    if (!loader->filename().string().starts_with("ld-linux"))
        return Obstacle{fmt::format("{} uses another C library than glibc (its loader is {})", name, loader->string()),
                        "build it with glibc"};
    return std::nullopt;
}

// The loader ignores its environment in a program that gains rights by being started. Root gains none from
// capabilities.
std::optional<Obstacle> obstacle_in_rights(const fs::path& file, const std::string& name) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) return std::nullopt;
    const auto ignored = [&](const char* how) {
        return fmt::format("{} {}, so the tracer's environment variables are ignored in it", name, how);
    };
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid())
        return Obstacle{ignored("is setuid"),
                        fmt::format("record it as the user it changes to (uid {})", status.st_uid)};
    // Without the group's right to execute, the set-group-ID bit means something else.
    constexpr mode_t kSetGroup = S_ISGID | S_IXGRP;
    if ((status.st_mode & kSetGroup) == kSetGroup && status.st_gid != ::getgid())
        return Obstacle{ignored("is setgid"),
                        fmt::format("record it as the group it changes to (gid {})", status.st_gid)};
    if (::getuid() != 0 && ::getxattr(file.c_str(), "security.capability", nullptr, 0) > 0)
        return Obstacle{ignored("has file capabilities"), "record it as root"};
    return std::nullopt;
}

}  // namespace

std::optional<Obstacle> find_obstacle(const std::string& program) {
    const auto file = find_program(program);
    if (!file) return std::nullopt;
    const fs::path binary = find_binary(*file);
    const std::string name = binary == *file ? program : fmt::format("{}, which runs {},", binary.string(), program);
    const auto obstacle = obstacle_in_format(binary, name);
    return obstacle ? obstacle : obstacle_in_rights(binary, name);
}

}  // namespace leat::cli
