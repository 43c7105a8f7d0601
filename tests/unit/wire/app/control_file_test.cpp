#include "wire/app/control_file.hpp"

#include <gtest/gtest.h>

#include <array>

#include "support/scratch_directory.hpp"
#include "support/test_control.hpp"

namespace leat::wire {
namespace {

using test::entry_in;
using test::TestControl;

UniqueFd copy_of(const UniqueFd& fd) { return UniqueFd(::dup(fd.get())); }

void expect_refused(UniqueFd fd, const std::string& message) {
    const auto file = ControlFile::open(std::move(fd), Lane::kUser);
    ASSERT_FALSE(file) << "taken; expected: " << message;
    EXPECT_NE(file.error().message.find(message), std::string::npos) << file.error().message;
}

// A program's memory with two tracepoints, and a daemon that has opened it.
class ControlFileTest : public testing::Test {
  protected:
    [[nodiscard]] ControlFile open(Lane lane) const { return *ControlFile::open(copy_of(memory_), lane); }
    [[nodiscard]] ControlEntry entry(std::uint64_t index) const {
        return entry_in(memory_.get(), control_.layout(), index);
    }
    // What a program would write for an event: the actions of a lane.
    [[nodiscard]] std::vector<Action> actions(std::uint64_t index, Lane lane) const {
        const ControlEntry now = entry(index);
        const auto of = static_cast<std::uint32_t>(lane);
        const std::uint8_t byte = lane_byte(now.word, of);
        if (byte == 0) return {};
        std::vector<Action> list{now.first[of][list_of(byte)]};
        if ((byte & kManyActions) == 0) return list;
        MoreActions more{};
        EXPECT_EQ(::pread(memory_.get(), &more, sizeof more, static_cast<off_t>(control_.layout().more_actions(index))),
                  static_cast<ssize_t>(sizeof more));
        for (std::uint8_t i = 0; i < now.more[of][list_of(byte)]; ++i) list.push_back(more.lists[of][list_of(byte)][i]);
        return list;
    }

    TestControl control_{{{.name = "a:one"}, {.name = "a:two"}}};
    UniqueFd memory_ = control_.memfd();
};

TEST_F(ControlFileTest, SaysWhoseItIsAndWhatItHas) {
    const ControlFile file = open(Lane::kUser);
    EXPECT_EQ(file.tracepoint_count(), 2U);
    EXPECT_EQ(file.bitness(), 64U);
    EXPECT_EQ(file.pid(), 1U);
    EXPECT_EQ(file.procname(), "program");
    const auto descriptions = file.read_descriptions();
    ASSERT_TRUE(descriptions) << descriptions.error().message;
    EXPECT_EQ(descriptions->at(1).name, "a:two");
}

TEST_F(ControlFileTest, SwitchesOffWhatGoesToSomeChannelsAlone) {
    ControlFile file = open(Lane::kRecorder);
    const std::vector<Action> three{
        {.event_id = 7, .channel = 6}, {.event_id = 8, .channel = 10}, {.event_id = 9, .channel = 14}};
    ASSERT_TRUE(file.switch_to(0, three));
    ASSERT_TRUE(file.switch_to(1, std::span(three).first(2)));
    ControlFile other = open(Lane::kRecorder);
    ASSERT_TRUE(other.switch_off(std::array{6U, 10U}));
    EXPECT_EQ(actions(0, Lane::kRecorder), std::vector{three[2]});
    EXPECT_EQ(entry(1).word, 0U);
    ASSERT_TRUE(open(Lane::kRecorder).switch_off(std::array{14U}));
    EXPECT_EQ(entry(0).word, 0U);
}

TEST_F(ControlFileTest, SwitchesOneTracepoint) {
    ControlFile file = open(Lane::kUser);
    const std::vector<Action> one{{.event_id = 7, .channel = 9}};
    ASSERT_TRUE(file.switch_to(1, one));
    EXPECT_EQ(entry(0).word, 0U);
    EXPECT_EQ(actions(1, Lane::kUser), one);
    ASSERT_TRUE(file.switch_to(1, {}));
    EXPECT_EQ(entry(1).word, 0U);
}

TEST_F(ControlFileTest, LanesDoNotGetInEachOthersWay) {
    ControlFile system = open(Lane::kSystem);
    ControlFile recorder = open(Lane::kRecorder);
    const std::vector<Action> first{{.event_id = 1, .channel = 4}};
    const std::vector<Action> second{{.event_id = 2, .channel = 6}};
    ASSERT_TRUE(system.switch_to(0, first));
    ASSERT_TRUE(recorder.switch_to(0, second));
    EXPECT_EQ(actions(0, Lane::kSystem), first);
    EXPECT_EQ(actions(0, Lane::kUser), std::vector<Action>{});
    EXPECT_EQ(actions(0, Lane::kRecorder), second);
    ASSERT_TRUE(system.switch_to(0, {}));
    EXPECT_EQ(actions(0, Lane::kRecorder), second);
}

TEST_F(ControlFileTest, ManyActionsAreAllThere) {
    ControlFile file = open(Lane::kUser);
    std::vector<Action> many;
    for (std::uint32_t i = 0; i < kMaxActions; ++i) many.push_back({.event_id = i, .channel = 4 * i + 1});
    for (std::size_t count = 1; count <= many.size(); ++count) {
        const std::vector<Action> wanted(many.begin(), many.begin() + static_cast<std::ptrdiff_t>(count));
        ASSERT_TRUE(file.switch_to(1, wanted));
        ASSERT_EQ(actions(1, Lane::kUser), wanted);
    }
}

// A program may be reading the list that was in force.
TEST_F(ControlFileTest, ListInForceIsNotTouched) {
    ControlFile file = open(Lane::kUser);
    std::uint8_t last = 0;
    for (std::uint32_t i = 1; i < 200; ++i) {
        const ControlEntry before = entry(0);
        const std::vector<Action> action{{.event_id = i, .channel = 5}};
        ASSERT_TRUE(file.switch_to(0, action));
        const std::uint8_t byte = lane_byte(entry(0).word, 1);
        ASSERT_NE(byte, last);
        ASSERT_NE(byte, 0);
        ASSERT_NE(list_of(byte), list_of(last)) << i;
        ASSERT_EQ(entry(0).first[1][list_of(last)], before.first[1][list_of(last)]);
        last = byte;
        if (i % 3 != 0) continue;
        ASSERT_TRUE(file.switch_to(0, {}));
    }
}

// Whoever comes next goes on from what the last daemon left, and does not write over what is in force.
TEST_F(ControlFileTest, NextDaemonGoesOn) {
    const std::vector<Action> action{{.event_id = 1, .channel = 5}};
    ASSERT_TRUE(open(Lane::kUser).switch_to(0, action));
    const std::uint8_t byte = lane_byte(entry(0).word, 1);
    ControlFile next = open(Lane::kUser);
    ASSERT_TRUE(next.switch_to(0, action));
    EXPECT_NE(list_of(lane_byte(entry(0).word, 1)), list_of(byte));
    ASSERT_TRUE(open(Lane::kUser).switch_to(0, {}));
    EXPECT_EQ(entry(0).word, 0U);
}

// A program that was stopped between its two looks at the word must not take the next daemon's list for the last one's.
TEST_F(ControlFileTest, NextDaemonGoesOnFromWhatWasSwitchedOff) {
    const std::vector<Action> action{{.event_id = 1, .channel = 5}};
    std::uint8_t last = 0;
    for (int i = 0; i < 70; ++i) {
        ControlFile daemon = open(Lane::kUser);
        ASSERT_TRUE(daemon.switch_to(0, action));
        const std::uint8_t byte = lane_byte(entry(0).word, 1);
        ASSERT_NE(byte, last);
        ASSERT_NE(list_of(byte), list_of(last)) << i;
        last = byte;
        ASSERT_TRUE(daemon.switch_to(0, {}));
        ASSERT_EQ(entry(0).word, 0U);
    }
}

TEST_F(ControlFileTest, WhatIsNotAttachedIsTold) {
    const ControlFile file = open(Lane::kUser);
    const std::uint64_t lost = 12;
    ASSERT_EQ(::pwrite(memory_.get(), &lost, sizeof lost, offsetof(ControlFileHeader, not_attached) + sizeof lost), 8);
    EXPECT_EQ(*file.not_attached(), 12U);
    EXPECT_EQ(*open(Lane::kSystem).not_attached(), 0U);
}

// It is read and written by calls, so a program that shortens it harms nobody.
TEST_F(ControlFileTest, MemoryThatIsShortenedMeanwhileIsAnError) {
    const UniqueFd memory = control_.memfd(0);
    auto file = ControlFile::open(copy_of(memory), Lane::kUser);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ(::ftruncate(memory.get(), 4096), 0);
    EXPECT_FALSE(file->read_descriptions());
    ASSERT_EQ(::ftruncate(memory.get(), 0), 0);
    EXPECT_FALSE(file->not_attached());
    EXPECT_FALSE(ControlFile::open(copy_of(memory), Lane::kUser));
}

TEST_F(ControlFileTest, FileInADirectoryIsTaken) {
    const test::ScratchDirectory directory;
    const std::string path = directory.path() / "control";
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
    ASSERT_TRUE(write_all(file.get(), test::untrusted(control_.bytes())));
    const auto opened = ControlFile::open(std::move(file), Lane::kUser);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->tracepoint_count(), 2U);
}

TEST(BadControlFile, WhatIsNoFileIsRefused) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const UniqueFd writer(ends[1]);
    expect_refused(UniqueFd(ends[0]), "the control memory is no regular file");
    expect_refused(UniqueFd(::open("/dev/zero", O_RDWR)), "the control memory is no regular file");
}

TEST(BadControlFile, HeaderIsChecked) {
    const auto with = [](auto change) {
        TestControl control;
        const std::string bytes = control.bytes();
        change(control.header);
        std::string changed = bytes;
        std::memcpy(changed.data(), &control.header, sizeof control.header);
        return test::memfd_of(changed, TestControl::kSeals);
    };
    expect_refused(with([](ControlFileHeader& header) { header.magic = 0xabcd; }), "begins with 0xabcd");
    expect_refused(with([](ControlFileHeader& header) { header.version = 2; }), "of version 2; this is version 5");
    expect_refused(with([](ControlFileHeader& header) { header.bitness = 16; }), "of a program of 16 bits");
    expect_refused(with([](ControlFileHeader& header) { header.pid = 0; }), "of process 0");
    expect_refused(with([](ControlFileHeader& header) { header.pid = 1U << 31; }), "of process 2147483648");
    expect_refused(with([](ControlFileHeader& header) { header.descriptions_size = 17U << 20; }),
                   "the limit is 16777216");
    expect_refused(with([](ControlFileHeader& header) { header.descriptions_size = 4; }), "table of 4 bytes");
    expect_refused(with([](ControlFileHeader& header) { header.tracepoint_count = 100; }), "do not fit into");
    expect_refused(with([](ControlFileHeader& header) { header.descriptions_size += 8; }), "bytes, not ");
    expect_refused(with([](ControlFileHeader& header) { header.tracepoint_count = 0; }), "bytes, not ");
}

TEST(BadControlFile, HugeOneIsRefusedUnread) {
    UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(fd.get(), 1LL << 40), 0);
    const TestControl control;
    ASSERT_EQ(::pwrite(fd.get(), &control.header, sizeof control.header, 0),
              static_cast<ssize_t>(sizeof control.header));
    ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, TestControl::kSeals), 0);
    expect_refused(std::move(fd), "control memory of 1099511627776 bytes, not ");
}

TEST(BadControlFile, TableOfAnotherLengthIsRefused) {
    TestControl control({{.name = "a:one"}, {.name = "a:two"}});
    control.table = test::TestTable{{{.name = "a:rather-long-one"}}}.bytes();
    control.table.resize(control.header.descriptions_size, '\0');
    const auto file = ControlFile::open(control.memfd(), Lane::kUser);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_FALSE(file->read_descriptions());
}

TEST(BadControlFile, NameWithoutEndOrWithControlCharactersIsMadePrintable) {
    TestControl control;
    std::memset(control.header.procname, '\n', sizeof control.header.procname);
    const auto file = ControlFile::open(control.memfd(), Lane::kUser);
    ASSERT_TRUE(file);
    EXPECT_EQ(file->procname(), std::string(sizeof control.header.procname, '?'));
}

}  // namespace
}  // namespace leat::wire
