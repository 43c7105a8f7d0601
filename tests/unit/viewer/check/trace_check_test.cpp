#include "viewer/check/trace_check.hpp"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "support/byte_metadata.hpp"
#include "support/scratch_directory.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

class TraceCheckTest : public testing::Test {
  protected:
    void write(const std::string& name, const std::string& bytes) const {
        fs::create_directories((directory() / name).parent_path());
        std::ofstream(directory() / name, std::ios::binary) << bytes;
    }

    [[nodiscard]] TraceCheck check() const {
        CheckProgress progress(TraceCheck::kPasses);
        return TraceCheck::run(trace::find_trace_directories(directory()).value(), progress);
    }
    // A line each.
    [[nodiscard]] std::string findings() const {
        const TraceCheck done = check();
        std::string text;
        for (const Finding& finding : done.findings().told()) text += finding.what + "\n";
        return text;
    }

    [[nodiscard]] const fs::path& directory() const { return scratch_.path(); }

  private:
    test::ScratchDirectory scratch_;
};

// The names that were opened in a directory, in order.
class Openings {
  public:
    explicit Openings(const fs::path& directory) : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
        EXPECT_GE(::inotify_add_watch(fd_.get(), directory.c_str(), IN_OPEN), 0);
    }

    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> names;
        std::array<char, 4096> bytes{};
        for (ssize_t size = 0; (size = ::read(fd_.get(), bytes.data(), bytes.size())) > 0;) {
            for (ssize_t at = 0; at < size;) {
                inotify_event event{};
                std::memcpy(&event, bytes.data() + at, sizeof event);
                if (event.len != 0) names.emplace_back(bytes.data() + at + sizeof event);
                at += static_cast<ssize_t>(sizeof event + event.len);
            }
        }
        return names;
    }

  private:
    UniqueFd fd_;
};

// A writer declares events, and then writes packets of them: of a trace that is being recorded, what is in the files by
// then is declared.
TEST_F(TraceCheckTest, MetadataAreReadAfterTheFilesAreOpened) {
    write("metadata", test::kByteMetadata);
    write("a", "\1\x28\1\5\2"s);
    write("b", "\2\x28\1\5\2"s);
    const Openings openings(directory());
    EXPECT_EQ(findings(), "");
    const std::vector<std::string> names = openings.names();
    EXPECT_EQ(std::ranges::count(names, "a"), 1);
    EXPECT_EQ(std::ranges::count(names, "b"), 1);
    ASSERT_FALSE(names.empty());
    EXPECT_EQ(names.back(), "metadata");
}

}  // namespace
}  // namespace leat::viewer
