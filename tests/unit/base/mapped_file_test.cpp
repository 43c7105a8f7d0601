#include "base/mapped_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/copy_memory.hpp"
#include "base/file.hpp"
#include "base/unique_fd.hpp"
#include "support/scratch_directory.hpp"

namespace leat {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLarge = kLargestCopy;  // with a byte more, a file is mapped

class MappedFileTest : public testing::Test {
  protected:
    std::filesystem::path file(std::size_t size) {
        const auto path = scratch_.path() / "file";
        std::ofstream(path, std::ios::binary) << std::string(size, 'x');
        return path;
    }

    static Result<MappedFile> open_mapped(const std::filesystem::path& path) {
        const UniqueFd fd = open_for_reading(path).value();
        return MappedFile::of_file(fd.get(), std::filesystem::file_size(path));
    }

    static bool is_as_it_was(const MappedFile& mapped) {
        return std::ranges::all_of(mapped.bytes(), [](std::byte byte) { return byte == std::byte{'x'}; });
    }

    test::ScratchDirectory scratch_{};
};

// Wherever a file is cut off: what was read is as it was, or else was_shortened().
TEST_F(MappedFileTest, ZerosThatAreReadAreTold) {
    for (const std::size_t more : {std::size_t{1}, kPage - 1, kPage, kPage + 1, 3 * kPage, 3 * kPage + 100}) {
        const std::size_t size = kLarge + more;
        for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, kPage, kPage + 1, kLarge - 1, kLarge, kLarge + 1,
                                      kLarge + kPage - 1, kLarge + kPage, kLarge + 2 * kPage - 7, kLarge + 2 * kPage,
                                      kLarge + 3 * kPage, kLarge + 3 * kPage + 99}) {
            if (cut >= size) continue;
            const auto path = file(size);
            const auto mapped = open_mapped(path);
            ASSERT_TRUE(mapped);
            EXPECT_FALSE(mapped->was_shortened());
            std::filesystem::resize_file(path, cut);
            // Most readers read what is in front of the cut first.
            const bool is_whole = is_as_it_was(*mapped);
            EXPECT_EQ(mapped->was_shortened(), !is_whole) << cut << " of " << size;
            // The last page is ours.
            EXPECT_EQ(is_whole, cut > (size - 1) / kPage * kPage) << cut << " of " << size;
        }
    }
}

TEST_F(MappedFileTest, CutInFrontOfWhatIsReadLaterIsTold) {
    const auto path = file(kLarge + 4 * kPage);
    const auto mapped = open_mapped(path).value();
    std::filesystem::resize_file(path, kLarge + 2 * kPage - 1);
    EXPECT_EQ(mapped.bytes()[0], std::byte{'x'});
    EXPECT_TRUE(mapped.was_shortened());
}

// The first few thousand are put into memory in another way than the rest.
TEST_F(MappedFileTest, CutsOfManyFilesAreTold) {
    const auto path = file(kLarge + kPage);
    std::vector<MappedFile> files;
    for (std::size_t i = 0; i < 2500; ++i) files.push_back(open_mapped(path).value());
    EXPECT_TRUE(std::ranges::all_of(files, is_as_it_was));
    EXPECT_TRUE(std::ranges::none_of(files, &MappedFile::was_shortened));
    std::filesystem::resize_file(path, kPage);
    for (const MappedFile& mapped : files) {
        EXPECT_FALSE(is_as_it_was(mapped));
        EXPECT_TRUE(mapped.was_shortened());
    }
}

TEST_F(MappedFileTest, FileThatIsCutAndGrowsAgainIsTold) {
    for (const std::size_t size : {kLarge + 3 * kPage - 1, kLarge + 3 * kPage, kLarge + 3 * kPage + 1}) {
        const auto path = file(size);
        const auto mapped = open_mapped(path).value();
        std::filesystem::resize_file(path, kPage + 7);
        std::filesystem::resize_file(path, kLarge + 9 * kPage);
        EXPECT_FALSE(is_as_it_was(mapped)) << size;
        EXPECT_TRUE(mapped.was_shortened()) << size;
    }
}

TEST_F(MappedFileTest, FileThatGrowsIsAsItWas) {
    for (const std::size_t size : {kPage, kLarge + 3 * kPage - 1, kLarge + 3 * kPage, kLarge + 3 * kPage + 1}) {
        const auto path = file(size);
        const auto mapped = open_mapped(path).value();
        std::ofstream(path, std::ios::binary | std::ios::app) << std::string(2 * kPage, 'y');
        EXPECT_TRUE(is_as_it_was(mapped)) << size;
        EXPECT_FALSE(mapped.was_shortened()) << size;
    }
}

TEST_F(MappedFileTest, FileStaysAsItIs) {
    const auto path = file(kLarge + 100);
    const auto before = std::filesystem::last_write_time(path);
    EXPECT_TRUE(open_mapped(path));
    EXPECT_EQ(std::filesystem::last_write_time(path), before);
    EXPECT_EQ(std::filesystem::file_size(path), kLarge + 100);
}

TEST_F(MappedFileTest, EmptyFileHasNoBytes) {
    const auto mapped = open_mapped(file(0)).value();
    EXPECT_TRUE(mapped.bytes().empty());
    EXPECT_FALSE(mapped.was_shortened());
}

TEST_F(MappedFileTest, FileThatIsShorterThanAskedForIsRefused) {
    const auto path = file(kPage);
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    for (const std::size_t size : {kPage + 1, 3 * kPage, kLarge + 3 * kPage}) {
        const auto mapped = MappedFile::of_file(fd.get(), size);
        ASSERT_FALSE(mapped);
        EXPECT_EQ(mapped.error().message, "it has become shorter while it was opened");
    }
}

TEST_F(MappedFileTest, SmallFileIsAsItWasWhateverBecomesOfIt) {
    for (const std::size_t size : {std::size_t{1}, kPage, kLarge}) {
        const auto path = file(size);
        const auto mapped = open_mapped(path).value();
        std::filesystem::resize_file(path, 0);
        EXPECT_EQ(mapped.bytes().size(), size);
        EXPECT_TRUE(is_as_it_was(mapped)) << size;
        EXPECT_FALSE(mapped.was_shortened()) << size;
    }
}

TEST_F(MappedFileTest, MoreSmallFilesThanAreCopiedAreMapped) {
    const auto path = file(kLarge);
    std::vector<MappedFile> files;
    for (std::size_t i = 0; i < kMostCopied / kLarge + 10; ++i) files.push_back(open_mapped(path).value());
    EXPECT_TRUE(std::ranges::all_of(files, is_as_it_was));
    std::filesystem::resize_file(path, 0);
    EXPECT_TRUE(is_as_it_was(files.front()));
    EXPECT_FALSE(is_as_it_was(files.back()));
    EXPECT_TRUE(files.back().was_shortened());
    files.clear();
    EXPECT_NE(take_copy_memory(kLarge), nullptr);
}

}  // namespace
}  // namespace leat
