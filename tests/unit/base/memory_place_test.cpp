#include "base/memory_place.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/sealed_memory.hpp"
#include "support/scratch_directory.hpp"

namespace leat {
namespace {

Result<MemoryPlace> place_at(const std::filesystem::path& path) {
    return MemoryPlace::of_directory(UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), path);
}

struct stat status_of(const UniqueFd& fd) {
    struct stat status {};
    EXPECT_EQ(::fstat(fd.get(), &status), 0);
    return status;
}

TEST(MemoryPlace, MemoryWithoutNameIsSealed) {
    const auto memory = MemoryPlace().make("test", 8192, {});
    ASSERT_TRUE(memory);
    EXPECT_TRUE(is_sealed(memory->get(), 8192));
}

TEST(MemoryPlace, FileBelongsToItsOwnerAlone) {
    const test::ScratchDirectory directory;
    const auto place = place_at(directory.path());
    ASSERT_TRUE(place) << place.error().message;
    const auto file = place->make("test");
    ASSERT_TRUE(file);
    EXPECT_EQ(status_of(*file).st_mode & 0777, 0600U);
    EXPECT_TRUE(std::filesystem::exists(directory.path() / "test"));
    EXPECT_FALSE(place->make("test"));
    ASSERT_EQ(::symlink("elsewhere", (directory.path() / "link").c_str()), 0);
    EXPECT_FALSE(place->make("link"));
}

TEST(MemoryPlace, OnlyPartsOfAFileAreThereFromTheStart) {
    const test::ScratchDirectory directory;
    const auto file =
        place_at(directory.path())
            ->make("test", 100U << 20, std::array{MemoryPlace::Part{0, 4096}, MemoryPlace::Part{1U << 20, 8192}});
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(status_of(*file).st_size, 100 << 20);
    EXPECT_GE(status_of(*file).st_blocks * 512, 3 * 4096);
    EXPECT_LE(status_of(*file).st_blocks * 512, 1 << 20);
}

TEST(MemoryPlace, PartsOfPromisedMemoryAreThereFromTheStart) {
    const auto memory = MemoryPlace::promised().make("test", 100U << 20, std::array{MemoryPlace::Part{1U << 20, 8192}});
    ASSERT_TRUE(memory) << memory.error().message;
    EXPECT_TRUE(is_sealed(memory->get(), 100U << 20));
    EXPECT_EQ(status_of(*memory).st_blocks * 512, 8192);
}

TEST(MemoryPlace, FileSystemThatCannotPromiseRoomIsRefused) {
    const auto place = place_at("/proc");
    ASSERT_FALSE(place);
    EXPECT_EQ(place.error().kind, ErrorKind::kRefused);
}

}  // namespace
}  // namespace leat
