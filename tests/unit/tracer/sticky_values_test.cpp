// The daemon reads what the program keeps.
#include <gtest/gtest.h>
#include <leat/sticky.h>

#include <string>
#include <vector>

#include "support/attached_tracer.hpp"
#include "wire/app/sticky_reader.hpp"

namespace leat::tracer {
namespace {

// A sticky event of this program, with control memory of its own.
class StickyValues : public testing::Test {
  protected:
    StickyValues() {
        make_process_page();
        tracepoint_.name = "test:sticky";
        tracepoint_.flags = LEAT_TRACEPOINT_STICKY;
        tracepoint_.word = &tracepoint_.off;
        memory_.emplace(tracepoint_);
        fd_ = memory_->take_fd();
    }

    void stick(std::uint64_t key, const std::string& value) {
        leat_stick(&tracepoint_, key, value.data(), value.size());
    }
    [[nodiscard]] wire::StickyValues read() const {
        auto file = wire::ControlFile::open(UniqueFd(::dup(fd_.get())), wire::Lane::kRecorder);
        EXPECT_TRUE(file) << file.error().message;
        auto values = wire::read_sticky_values(fd_.get(), file->layout());
        EXPECT_TRUE(values);
        return *std::move(values);
    }
    [[nodiscard]] std::vector<std::string> values() const {
        std::vector<std::string> texts;
        for (const wire::StickyValue& value : read().values)
            texts.emplace_back(reinterpret_cast<const char*>(value.payload.data()), value.payload.size());  // NOLINT
        return texts;
    }

    leat_tracepoint tracepoint_{};
    std::optional<test::ControlMemoryOf> memory_;
    UniqueFd fd_;
};

using Texts = std::vector<std::string>;

TEST_F(StickyValues, LastOneOfEachKeyIsKeptInTheOrderOfSetting) {
    stick(1, "one");
    stick(2, "two");
    stick(1, "another");
    EXPECT_EQ(values(), (Texts{"two", "another"}));
}

TEST_F(StickyValues, SlotsThatBecomeFreeAreUsedAgain) {
    for (std::uint64_t key = 0; key < wire::kStickySlots; ++key) stick(key, "x");
    stick(1000, "no room");
    EXPECT_EQ(read().not_kept, 1U);
    stick(5, std::string(wire::kStickyPayload + 1, 'x'));
    EXPECT_EQ(read().not_kept, 2U);
    EXPECT_EQ(read().values.size(), wire::kStickySlots - 1);
    stick(1000, "room");
    EXPECT_EQ(values().back(), "room");
    EXPECT_EQ(read().not_kept, 2U);
}

TEST_F(StickyValues, HandlerThatInterruptsTheWriterKeepsNothingAndCounts) {
    stick(1, "one");
    {
        const StickyLock writer;
        stick(1, "in a handler");
    }
    EXPECT_EQ(values(), Texts{"one"});
    EXPECT_EQ(read().not_kept, 1U);
}

TEST_F(StickyValues, WithoutControlMemoryNothingHappens) {
    leat_tracepoint unregistered{};
    unregistered.name = "test:unregistered";
    unregistered.word = &unregistered.off;
    errno = 77;
    leat_stick(&unregistered, 1, "x", 1);
    leat_unstick(&leat_module_, "test:unregistered", 1);
    EXPECT_EQ(errno, 77);
}

TEST_F(StickyValues, TracepointThatIsNotStickyHasNoSlots) {
    leat_tracepoint plain{};
    plain.name = "test:plain";
    plain.word = &plain.off;
    test::ControlMemoryOf memory(plain);
    leat_stick(&plain, 1, "x", 1);
    const UniqueFd fd = memory.take_fd();
    const auto file = wire::ControlFile::open(UniqueFd(::dup(fd.get())), wire::Lane::kRecorder);
    ASSERT_TRUE(file);
    EXPECT_EQ(file->layout().sticky_slots, 0U);
}

}  // namespace
}  // namespace leat::tracer
