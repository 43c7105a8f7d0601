// The daemon opens what the tracer makes. Both ends run over a real descriptor.
#include "tracer/control_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <leat/tracepoint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "ring/ring_format.hpp"
#include "support/resource_limit.hpp"
#include "support/runtime_directory.hpp"
#include "wire/app/control_file.hpp"

#define FIELDS(FIELD) FIELD(integer, std::uint32_t, number, 1)
LEAT_TRACEPOINT(control, first, LEAT_INFO, FIELDS, void);
LEAT_TRACEPOINT(control, second, LEAT_INFO, LEAT_NO_FIELDS, void);

namespace leat::tracer {
namespace {

// Memory for some tracepoints, and what a daemon gets of it.
class Made {
  public:
    explicit Made(const std::vector<const leat_tracepoint*>& tracepoints) {
        int fd = -1;
        memory_ = make_control_memory(tracepoints.data(), tracepoints.size(), true, fd);
        fd_ = UniqueFd(fd);
    }
    ~Made() { give_back(memory_); }
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;

    [[nodiscard]] const ControlMemory* get() const { return memory_; }
    [[nodiscard]] Result<wire::ControlFile> open() const {
        return wire::ControlFile::open(UniqueFd(::dup(fd_.get())), wire::Lane::kRecorder);
    }

  private:
    ControlMemory* memory_;
    UniqueFd fd_;
};

const std::vector<const leat_tracepoint*> kTwo{&leat_tracepoint_control__first, &leat_tracepoint_control__second};

TEST(ControlMemory, DaemonReadsWhatTheProgramHas) {
    const Made made(kTwo);
    const auto file = made.open();
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->pid(), static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(file->bitness(), 64U);
    const auto descriptions = file->read_descriptions();
    ASSERT_TRUE(descriptions) << descriptions.error().message;
    ASSERT_EQ(descriptions->size(), 2U);
    EXPECT_EQ(descriptions->at(1).name, "control:second");
}

TEST(ControlMemory, ProgramSeesWhatTheDaemonSwitches) {
    const Made made(kTwo);
    auto file = made.open();
    ASSERT_TRUE(file);
    EXPECT_EQ(made.get()->entry(1).word, 0U);
    const std::vector<wire::Action> action{{.event_id = 5, .channel = 6}};
    ASSERT_TRUE(file->switch_to(1, action));
    EXPECT_EQ(made.get()->entry(0).word, 0U);
    const std::uint8_t byte = wire::lane_byte(made.get()->entry(1).word, 2);
    ASSERT_NE(byte, 0);
    EXPECT_EQ(made.get()->entry(1).first[2][wire::list_of(byte)].event_id, 5U);
}

TEST(ControlMemory, NobodyCanShortenWhatIsForTheRecorderAlone) {
    const Made made(kTwo);
    const auto file = made.open();
    ASSERT_TRUE(file);
    EXPECT_EQ(::ftruncate(file->fd(), 0), -1);
}

// There may be room for the memory, and not for a second look at its file.
TEST(ControlMemory, WithoutAddressSpaceThereIsNone) {
    constexpr int kNone = 0;
    constexpr int kMade = 1;
    bool was_any_made = false;
    for (std::size_t more = 0; more < 64; ++more) {
        const pid_t child = ::fork();
        if (child == 0) {
            int fd = -1;
            constexpr int kMoreThanOthersHaveLeft = 20;
            for (int i = 0; i < kMoreThanOthersHaveLeft; ++i)
                (void)make_control_memory(kTwo.data(), kTwo.size(), true, fd);
            std::size_t pages = 0;
            std::ifstream("/proc/self/statm") >> pages;
            const rlim_t limit = (pages + more) * ring::kPageSize;
            const struct rlimit no_more {
                limit, limit
            };
            if (::setrlimit(RLIMIT_AS, &no_more) != 0) ::_exit(2);
            ::_exit(make_control_memory(kTwo.data(), kTwo.size(), true, fd) == nullptr ? kNone : kMade);
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        ASSERT_TRUE(WIFEXITED(status)) << more << " pages more";
        ASSERT_LE(WEXITSTATUS(status), kMade);
        was_any_made = was_any_made || WEXITSTATUS(status) == kMade;
        ASSERT_TRUE(more != 0 || !was_any_made);
    }
    EXPECT_TRUE(was_any_made);
}

TEST(ControlMemory, PlaceOfAnEntryIsFound) {
    const Made first(kTwo);
    const Made second(kTwo);
    const ControlPlace place = find_place(second.get()->entry(1));
    EXPECT_EQ(place.memory, second.get());
    EXPECT_EQ(place.index, 1U);
    const wire::ControlEntry elsewhere{};
    EXPECT_EQ(find_place(elsewhere).memory, nullptr);
}

// A library that is loaded and unloaded a thousand times takes the address space of one.
TEST(ControlMemory, WhatAnUnloadedLibraryLeavesServesTheNext) {
    const ControlMemory* at = nullptr;
    const wire::ControlEntry* entry = nullptr;
    {
        const Made made(kTwo);
        at = made.get();
        entry = &made.get()->entry(1);
        auto file = made.open();
        const std::vector<wire::Action> action{{.event_id = 5, .channel = 6}};
        ASSERT_TRUE(file->switch_to(1, action));
        EXPECT_NE(entry->word, 0U);
    }
    EXPECT_EQ(entry->word, 0U) << "off for those that are on their way";
    const Made again(kTwo);
    EXPECT_EQ(again.get(), at);
    EXPECT_EQ(again.get()->entry(1).word, 0U);
}

// A thread may be about to count while another one unloads the library, or while the process exits.
TEST(ControlMemory, HeaderCanBeWrittenAfterItWasGivenBack) {
    wire::ControlFileHeader* header = nullptr;
    {
        const Made made(kTwo);
        header = &made.get()->header();
    }
    header->not_attached[0] = 1;
    const Made again(kTwo);
    EXPECT_EQ(&again.get()->header(), header);
    EXPECT_EQ(header->not_attached[0], 0U);
}

TEST(ControlMemory, NobodyToReadItNothingMade) {
    int fd = -1;
    EXPECT_EQ(make_control_memory(kTwo.data(), kTwo.size(), false, fd), nullptr);
    EXPECT_EQ(fd, -1);
}

// A header declares many tracepoints and many source files include it. The module describes them in parts.
TEST(ControlMemory, TooManyDescriptionsAreTold) {
    const std::vector<const leat_tracepoint*> many(300'000, &leat_tracepoint_control__first);
    EXPECT_TRUE(is_too_large(many.data(), many.size()));
    EXPECT_FALSE(is_too_large(many.data(), 1));
}

// Making it anyway would end the program with SIGXFSZ.
TEST(ControlMemory, ProgramThatMayWriteNoFilesHasNone) {
    std::optional<test::LowerLimit> none(std::in_place, RLIMIT_FSIZE, 0);
    const Made made(kTwo);
    none.reset();
    EXPECT_EQ(made.get(), nullptr);
}

}  // namespace
}  // namespace leat::tracer
