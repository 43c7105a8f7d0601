#include "sessiond/program_log.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/log.hpp"
#include "support/scratch_directory.hpp"

namespace leat::sessiond {
namespace {

constexpr uid_t kMallory = 1001;
constexpr uid_t kAda = 1002;

class ProgramLogTest : public testing::Test {
  protected:
    ProgramLogTest() {
        const auto opened = the_log().open(directory_.path() / "log");
        EXPECT_TRUE(opened);
        the_log().set_level(Log::Level::kWarning);
    }
    ~ProgramLogTest() override { (void)the_log().open("/dev/null"); }
    ProgramLogTest(const ProgramLogTest&) = delete;
    ProgramLogTest& operator=(const ProgramLogTest&) = delete;

    // Lines of the log with these words in them.
    [[nodiscard]] std::size_t count(const std::string& words) const {
        std::ifstream log(directory_.path() / "log");
        std::size_t found = 0;
        for (std::string line; std::getline(log, line);) found += line.find(words) == std::string::npos ? 0 : 1;
        return found;
    }

    test::ScratchDirectory directory_;
    ProgramLog log_;
    ProgramLog::Clock::time_point start_ = ProgramLog::Clock::now();
};

TEST_F(ProgramLogTest, FloodOfOneUserIsCutAndCounted) {
    for (int i = 0; i < 1000; ++i) log_.warn(kMallory, "mallory's", start_);
    EXPECT_EQ(count("mallory's"), ProgramLog::kMaxLines);
    log_.tell_left_out(start_ + ProgramLog::kWhile);
    EXPECT_EQ(count("user 1001 caused 950 more warnings"), 1U);
}

TEST_F(ProgramLogTest, FloodOfOneUserHidesNobodyElse) {
    for (int i = 0; i < 1000; ++i) log_.warn(kMallory, "mallory's", start_);
    log_.warn(kAda, "ada's", start_);
    EXPECT_EQ(count("ada's"), 1U);
}

TEST_F(ProgramLogTest, AfterAWhileThereAreLinesAgain) {
    for (int i = 0; i < 1000; ++i) log_.warn(kMallory, "mallory's", start_);
    log_.warn(kMallory, "later", start_ + ProgramLog::kWhile);
    EXPECT_EQ(count("more warnings"), 1U);
    EXPECT_EQ(count("later"), 1U);
}

TEST_F(ProgramLogTest, NothingLeftOutIsNotTold) {
    log_.warn(kMallory, "mallory's", start_);
    log_.tell_left_out(start_ + ProgramLog::kWhile);
    EXPECT_EQ(count("more warnings"), 0U);
}

}  // namespace
}  // namespace leat::sessiond
