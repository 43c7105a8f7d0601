#include "trace/trace_directories.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "support/scratch_directory.hpp"

namespace leat::trace {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

class FoundTraces : public testing::Test {
  protected:
    fs::path make_trace(const fs::path& name) {
        const fs::path directory = scratch_.path() / name;
        fs::create_directories(directory);
        std::ofstream(directory / "metadata") << "/* CTF 1.8 */";
        return directory;
    }
    void link(const fs::path& name, const fs::path& target) { fs::create_symlink(target, scratch_.path() / name); }
    [[nodiscard]] fs::path at(const fs::path& name) const { return scratch_.path() / name; }
    [[nodiscard]] Paths found(const fs::path& name) const {
        auto traces = find_trace_directories(at(name));
        return traces ? traces->paths : Paths{};
    }

  private:
    test::ScratchDirectory scratch_;
};

TEST_F(FoundTraces, AreAtOrBelowTheDirectory) {
    const fs::path inner = make_trace("all/session/ust/uid");
    const fs::path outer = make_trace("all");
    EXPECT_EQ(found("all"), (Paths{outer, inner}));
    EXPECT_EQ(find_trace_directories(at("none")).error().kind, ErrorKind::kNotFound);
}

TEST_F(FoundTraces, AreBelowSymbolicLinks) {
    make_trace("elsewhere/ust/uid");
    fs::create_directory(at("all"));
    link("all/yesterday", "../elsewhere");
    EXPECT_EQ(found("all"), Paths{at("all/yesterday/ust/uid")});
}

TEST_F(FoundTraces, AreFoundOnceWhateverLeadsThere) {
    const fs::path trace = make_trace("all/session/ust/uid");
    link("all/a-latest", "session");
    link("all/z-uid", "session/ust/uid");
    EXPECT_EQ(found("all"), Paths{trace});
}

TEST_F(FoundTraces, LinksInCirclesEnd) {
    const fs::path trace = make_trace("all/session");
    make_trace("beside");
    link("all/session/back", "..");
    link("all/session/further-back", "../..");
    link("all/root", "/");
    link("all/self", "self");
    EXPECT_EQ(found("all"), Paths{trace});
}

}  // namespace
}  // namespace leat::trace
