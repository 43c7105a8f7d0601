#include "base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "support/file_size_limit.hpp"
#include "support/pipe.hpp"
#include "support/scratch_directory.hpp"

namespace leat {
namespace {

// A pipe whose reading end is read only when the test wants it.
struct Pipe : test::Pipe {
    [[nodiscard]] std::string read() const {
        std::string text(1 << 20, '\0');
        const ssize_t size = ::read(read_end.get(), text.data(), text.size());
        text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
        return text;
    }
};

std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

TEST(Log, LineHasTimeProgramAndLevel) {
    const Pipe pipe;
    Log log(pipe.write_end.get());
    log.write(Log::Level::kWarning, "the disk is full");
    const std::regex form(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d{4} leat\[\d+\] warning: the disk is full\n)");
    EXPECT_TRUE(std::regex_match(pipe.read(), form));
}

TEST(Log, JsonQuotesWhatItMust) {
    const Pipe pipe;
    Log log(pipe.write_end.get());
    log.set_format(Log::Format::kJson);
    log.write(Log::Level::kError, "a \"b\" \\ \n");
    const std::string line = pipe.read();
    EXPECT_NE(line.find(R"("level":"error","message":"a \"b\" \\ \\x0A"})"), std::string::npos) << line;
}

TEST(Log, LevelsAboveTheChosenOneAreOff) {
    Log log;
    EXPECT_TRUE(log.has(Log::Level::kError));
    EXPECT_TRUE(log.has(Log::Level::kWarning));
    EXPECT_FALSE(log.has(Log::Level::kInfo));
    log.set_level(Log::Level::kInfo);
    EXPECT_TRUE(log.has(Log::Level::kInfo));
    EXPECT_FALSE(log.has(Log::Level::kDebug));
}

TEST(Log, ControlCharactersAndBrokenUtf8AreEscaped) {
    EXPECT_EQ(escaped("plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"), "plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
    EXPECT_EQ(escaped("a\nb\rc\x1B[31m\x7F"), "a\\x0Ab\\x0Dc\\x1B[31m\\x7F");
    EXPECT_EQ(escaped(std::string("\0", 1)), "\\x00");
    EXPECT_EQ(escaped("\xC2\x9B"), "\\xC2\\x9B");           // a control character of two bytes
    EXPECT_EQ(escaped("\xC0\x8A"), "\\xC0\\x8A");           // a newline in too many bytes
    EXPECT_EQ(escaped("\xE2\x82"), "\\xE2\\x82");           // cut
    EXPECT_EQ(escaped("\xED\xA0\x80"), "\\xED\\xA0\\x80");  // half of a pair
    EXPECT_EQ(escaped("\xFF"), "\\xFF");
}

TEST(Log, PipeThatNobodyReadsStopsNobody) {
    const Pipe pipe;
    Log log(pipe.write_end.get());
    for (int i = 0; i < 5000; ++i) log.write(Log::Level::kWarning, std::string(100, 'x'));  // a pipe takes 64 KiB
    std::string text = pipe.read();
    EXPECT_EQ(text.size() % (text.find('\n') + 1), 0U) << "whole lines only";
    log.write(Log::Level::kWarning, "later");
    text = pipe.read();
    EXPECT_TRUE(std::regex_search(text, std::regex("warning: \\d+ lines of this log were lost\n.*: later\n"))) << text;
}

TEST(Log, LongLinesAreCutBetweenCharacters) {
    const Pipe pipe;
    Log log(pipe.write_end.get());
    std::string text = "x";
    for (int i = 0; i < 10000; ++i) text += "\xC3\xA9";
    for (const auto format : {Log::Format::kText, Log::Format::kJson}) {
        log.set_format(format);
        for (const std::string& message : {text, std::string(10000, '\n'), std::string(10000, '"')}) {
            log.write(Log::Level::kWarning, message);
            const std::string line = pipe.read();
            EXPECT_LE(line.size(), 4096U);
            EXPECT_EQ(line.back(), '\n');
            EXPECT_EQ(escaped(line.substr(0, line.size() - 1)), line.substr(0, line.size() - 1));
        }
    }
}

TEST(Log, ReopenedFileIsANewOneAfterTheOldWasMovedAway) {
    const test::ScratchDirectory scratch;
    const std::string path = scratch.path() / "log";
    Log log;
    ASSERT_TRUE(log.open(path));
    log.write(Log::Level::kWarning, "one");
    std::filesystem::rename(path, path + ".1");
    log.write(Log::Level::kWarning, "two");
    ASSERT_TRUE(log.reopen());
    log.write(Log::Level::kWarning, "three");
    EXPECT_TRUE(std::regex_search(text_of(path + ".1"), std::regex("one\n.*two\n")));
    EXPECT_TRUE(std::regex_search(text_of(path), std::regex("^[^\n]*three\n$")));
}

TEST(Log, LineThatADiskHasHalfTakenEndsBeforeTheNext) {
    const test::ScratchDirectory scratch;
    const std::string path = scratch.path() / "log";
    Log log;
    ASSERT_TRUE(log.open(path));
    {
        const test::FileSizeLimit limit(10);
        log.write(Log::Level::kWarning, "one");
        log.write(Log::Level::kWarning, "two");
    }
    log.write(Log::Level::kWarning, "three");
    EXPECT_TRUE(std::regex_search(
        text_of(path), std::regex("^[^\n]{10}\n[^\n]*warning: 2 lines of this log were lost\n[^\n]*: three\n$")))
        << text_of(path);
}

TEST(Log, FullDeviceStopsNobody) {
    Log log;
    ASSERT_TRUE(log.open("/dev/full"));
    log.write(Log::Level::kWarning, "lost");
    EXPECT_FALSE(Log().open("/nowhere/log"));
}

}  // namespace
}  // namespace leat
