// What others see while an event is being written. Not in sanitized builds, which have other instructions.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/attached_tracer.hpp"
#include "support/rseq.hpp"
#include "support/skip.hpp"
#include "support/stepped_child.hpp"

namespace leat::tracer {
namespace {

// A consumer woken earlier would find nothing, and arm the bell again.
TEST(WriteSteps, BellRingsBehindTheCommit) {
    test::AttachedTracer tracer;
    tracer.do_without_rseq();  // an rseq sequence would begin again at each step
    test::SteppedChild child([&](auto window) {
        tracer.emit();
        ring::RingHeader& ring = *find_filled(tracer.channel(), channel_key(tracer.channel().number))->ring;
        ring.limit = ring.head;
        window.open();
        tracer.emit();
        window.close();
    });
    const std::uint64_t records = tracer.records();
    const std::uint32_t bells = tracer.bells();
    while (!child.is_done() && tracer.bells() == bells) child.step();
    EXPECT_EQ(tracer.bells(), bells + 1);
    EXPECT_EQ(tracer.records(), records + 1);
}

// A second tracepoint, for events of a signal handler.
class HandlersTracepoint {
  public:
    explicit HandlersTracepoint(wire::Lane lane) : control_(*wire::ControlFile::open(memory_.take_fd(), lane)) {}

    void switch_to(const std::vector<wire::Action>& actions) { EXPECT_TRUE(control_.switch_to(0, actions)); }
    void emit() { leat_write(&tracepoint_, nullptr, 0, staged_, 8); }

  private:
    alignas(16) char staged_[8 + LEAT_STAGE_SLACK] = {};
    leat_tracepoint tracepoint_{&tracepoint_.off, 0, 0, "test:handler", "test.c", nullptr, nullptr, 0, 6, 0, 1, {}};
    test::ControlMemoryOf memory_{tracepoint_};
    wire::ControlFile control_;
};

HandlersTracepoint* of_handler = nullptr;

std::uint64_t all_records(const std::vector<std::unique_ptr<test::OtherChannel>>& channels) {
    std::uint64_t sum = 0;
    for (const auto& channel : channels) sum += channel->records();
    return sum;
}

// Its events displace all that the thread keeps, several times.
void emit_much(int /*signal*/) {
    for (int i = 0; i < 20; ++i) of_handler->emit();
}

// An event must not get into the ring that a signal handler's events went to meanwhile. Stops before the sequence,
// which would begin again at each step.
class HandledSteps : public testing::TestWithParam<wire::Lane> {
  protected:
    void SetUp() override { LEAT_NEEDS(test::has_rseq(), "rseq"); }
};

INSTANTIATE_TEST_SUITE_P(Lanes, HandledSteps, testing::Values(wire::Lane::kUser, wire::Lane::kRecorder),
                         [](const auto& lane) { return lane.param == wire::Lane::kUser ? "User" : "Recorder"; });

TEST_P(HandledSteps, SignalHandlerOfOtherChannelsLeavesTheEventItsOwn) {
    test::AttachedTracer tracer;
    tracer.channel().sees_vforks = true;  // so that events go straight
    HandlersTracepoint handlers(GetParam());
    of_handler = &handlers;
    std::vector<std::unique_ptr<test::OtherChannel>> others;
    std::vector<wire::Action> actions;
    for (std::uint32_t i = 0; i < kThreadChannels + 1; ++i) {
        const std::uint32_t number =
            (test::AttachedTracer::next_number() & ~3U) | static_cast<std::uint32_t>(GetParam());
        others.push_back(std::make_unique<test::OtherChannel>(0, number));
        others.back()->channel().sees_vforks = true;
        actions.push_back({.event_id = 7 + i, .channel = number});
    }
    handlers.switch_to(actions);
    ASSERT_NE(::signal(SIGUSR1, emit_much), SIG_ERR);
    // That lane has had the tracepoint on, for the channel that the handler leaves in front.
    wire::ControlFile lane = *wire::ControlFile::open(UniqueFd(::dup(tracer.control().fd())), GetParam());
    for (const auto& other : others) {
        if (GetParam() != wire::Lane::kRecorder) {
            ASSERT_TRUE(lane.switch_to(0, {{{.event_id = 3, .channel = other->channel().number}}}));
            ASSERT_TRUE(lane.switch_to(0, {}));
        }
        constexpr std::size_t kSteps = 60;  // more than there are as far as the sequence
        for (std::size_t at = 0; at < kSteps && !HasFailure(); ++at) {
            test::SteppedChild child([&](auto window) {
                thread_state = {};  // of the first event's channel, which goes straight then
                tracer.emit();
                window.open();
                tracer.emit();
                window.close();
            });
            const std::uint64_t records = tracer.records();
            const std::uint64_t others_records = all_records(others);
            for (std::size_t step = 0; step < at; ++step) child.step();
            if (child.is_done()) break;
            child.finish_with(SIGUSR1);
            EXPECT_EQ(tracer.records(), records + 1) << "after step " << at;
            EXPECT_EQ(all_records(others), others_records + others.size() * 20) << "after step " << at;
        }
    }
}

// A signal handler forks before the sequence: the child's event is the child's.
volatile bool is_grandchild = false;
void fork_once(int /*signal*/) {
    if (::fork() == 0) is_grandchild = true;
}

TEST(WriteSteps, ChildOfASignalHandlerIsNotItsParent) {
    LEAT_NEEDS(test::has_rseq(), "rseq");
    test::AttachedTracer tracer;
    tracer.channel().sees_vforks = true;
    ASSERT_NE(::signal(SIGUSR1, fork_once), SIG_ERR);
    const test::Shared<std::uint64_t> generation;
    constexpr std::size_t kSteps = 60;
    for (std::size_t at = 0; at < kSteps && !HasFailure(); ++at) {
        test::SteppedChild child([&](auto window) {
            ::signal(SIGCHLD, SIG_IGN);  // it would look as if the child had stopped
            thread_state = {};
            tracer.emit();
            window.open();
            tracer.emit();
            if (is_grandchild) {
                *generation = process_page->generation;
                ::_exit(0);
            }
            while (::waitpid(-1, nullptr, 0) > 0) continue;
            window.close();
        });
        const std::uint64_t records = tracer.records();
        *generation = 0;
        for (std::size_t step = 0; step < at; ++step) child.step();
        if (child.is_done()) break;
        child.finish_with(SIGUSR1);
        EXPECT_EQ(tracer.records(), records + 2) << "after step " << at;
        EXPECT_NE(*generation, 0U) << "after step " << at;
    }
}

// The same anywhere while all is asked for. What its parent was told is not the child's.
TEST(WriteSteps, ChildOfASignalHandlerIsNotTakenForItsParent) {
    test::AttachedTracer tracer;
    tracer.do_without_rseq();
    ASSERT_NE(::signal(SIGUSR1, fork_once), SIG_ERR);
    const test::Shared<pid_t> child_of_handler;
    const test::Shared<pid_t> known_as;
    constexpr std::size_t kStride = 13;
    std::size_t children = 0;
    for (std::size_t at = 0; !HasFailure(); at += kStride) {
        test::SteppedChild child([&](auto window) {
            ::signal(SIGCHLD, SIG_IGN);  // it would look as if the child had stopped
            thread_state = {};
            window.open();
            tracer.emit();
            if (is_grandchild) {
                tracer.emit();
                *child_of_handler = ::getpid();
                *known_as = thread_state.tid;
                ::_exit(0);
            }
            while (::waitpid(-1, nullptr, 0) > 0) continue;
            window.close();
        });
        *child_of_handler = *known_as = 0;
        for (std::size_t step = 0; step < at && !child.is_done(); ++step) child.step();
        if (child.is_done()) break;
        child.finish_with(SIGUSR1);
        if (*child_of_handler == 0) break;  // the event was written before
        EXPECT_EQ(*known_as, *child_of_handler) << "after step " << at;
        ++children;
    }
    constexpr std::size_t kFewest = 50;
    EXPECT_GT(children, kFewest);
}

// Events of a thread that has its channel ready, in an area that the kernel does not know: it is us who preempt.
class StraightSteps : public testing::Test {
  protected:
    void SetUp() override {
        LEAT_NEEDS(test::has_rseq(), "rseq");
        tracer_.channel().sees_vforks = true;  // so that events go straight
    }

    // What a child does, time and again: an event that goes straight, after `prepare(ring)`.
    template <class Emit, class Prepare>
    auto straight(const Emit& emit, const Prepare& prepare) {
        return [&](auto window) {
            ThreadChannel& mine = thread_state.channels[0];
            const auto is_ready = [&] { return mine.straight_key() == channel_key(tracer_.channel().number); };
            if (!is_ready()) {
                thread_state = {};  // the next event's channel is the first
                emit();
            }
            *goes_straight_ = is_ready();
            mine.writer.base.map.rseq_offset = test::unknown_area_offset();
            test::unknown_area.cpu_id = static_cast<std::uint32_t>(::sched_getcpu());
            prepare(*mine.writer.base.map.rings[test::unknown_area.cpu_id]);
            window.open();
            emit();
            *left_behind_ = test::unknown_area.sequence;
            window.close();
        };
    }
    template <class Emit>
    auto straight(const Emit& emit) {
        return straight(emit, [](ring::RingHeader& /*ring*/) {});
    }
    // Preempts an event of these bytes at any instruction: its record is there once, whole.
    template <class Emit>
    void expect_one_record_if_preempted(const Emit& emit, const std::string& written) {
        std::uint64_t records = 1;
        test::preempt_everywhere(straight(emit), test::unknown_area.sequence, [&] {
            EXPECT_TRUE(*goes_straight_);
            EXPECT_EQ(*left_behind_, 0U);
            EXPECT_EQ(tracer_.records(), ++records);
            EXPECT_EQ(tracer_.discarded(), 0U);
            EXPECT_EQ(last_bytes(written.size()), written);
        });
        EXPECT_GT(records, 60U);
    }
    template <class Prepare, class Between>
    void expect_nothing_is_left_behind(const Prepare& prepare, const Between& between, std::size_t stride = 1);
    [[nodiscard]] std::string last_bytes(std::size_t size) const {
        const ring::RingHeader& ring = *tracer_.used_ring();
        const auto* const bytes = reinterpret_cast<const char*>(&ring) + ring::kPageSize;  // NOLINT(*-reinterpret-cast)
        return {bytes + ring.head - size, size};
    }

    test::AttachedTracer tracer_;
    const test::Shared<bool> goes_straight_;
    const test::Shared<std::uint64_t> left_behind_;
};

TEST_F(StraightSteps, RecordOfAPreemptedEventIsThereOnce) {
    std::string staged = "two blocks of sixteen, or a bit less";
    const std::string written = staged;
    staged.append(LEAT_STAGE_SLACK, '~');
    expect_one_record_if_preempted(
        [&] { leat_write(&tracer_.tracepoint(), nullptr, 0, staged.data(), written.size()); }, written);
}

TEST_F(StraightSteps, RecordOfAPreemptedTextIsThereOnce) {
    const std::string around = std::string(8, 'h') + std::string(ring::kCopySlack, '~');
    const leat_text_payload payload{"a text of some blocks", around.data(), 8, around.data(), 5};
    expect_one_record_if_preempted([&] { leat_write_text(&tracer_.tracepoint(), nullptr, &payload); },
                                   "hhhhhhhha text of some blocks" + std::string(1, '\0') + "hhhhh");
}

TEST_F(StraightSteps, RecordOfPreemptedWordsIsThereOnce) {
    const std::string written = "twelve bytes";
    leat_words words{};
    std::memcpy(&words, written.data(), written.size());
    expect_one_record_if_preempted([&] { leat_write_words(&tracer_.tracepoint(), nullptr, words, written.size()); },
                                   written);
}

// Whoever is stopped for an hour, and preempted, does not write what nobody asks for any more.
TEST_F(StraightSteps, SwitchedOffBeforeTheCommitIsNotWritten) {
    std::uint64_t records = 0;
    test::stop_everywhere(
        straight([&] { tracer_.emit(); }),
        [&](test::SteppedChild& child) {
            tracer_.switch_to({});
            child.preempt(test::unknown_area.sequence);
            records = tracer_.records();
        },
        [&] {
            EXPECT_EQ(tracer_.records(), records);
            EXPECT_EQ(tracer_.discarded(), 0U);
            tracer_.switch_to({{.event_id = 1, .channel = tracer_.channel().number}});
        });
}

// The daemon rewrites the list that is being read, while another CPU's thread is in the sequence. Half an action would
// be the id of one channel in the other.
TEST_F(StraightSteps, ActionIsReadWhole) {
    constexpr std::uint32_t kId = 9;
    const test::OtherChannel other(0);
    std::string staged(8 + LEAT_STAGE_SLACK, 'x');
    const auto emit = [&] { leat_write(&tracer_.tracepoint(), nullptr, 0, staged.data(), 8); };
    // The thread stays ready for our channel, although all events go to the other.
    const auto body = straight(emit, [](ring::RingHeader& ring) {
        thread_state.misses = 0;
        ring.last_timestamp = std::uint64_t{1} << 60U;  // nobody gets there: headers are short
    });
    constexpr std::size_t kSteps =
        150;  // more than the sequence has as far as it sees that the writer is the wrong one
    std::uint64_t records = 0;
    std::uint64_t others_records = 0;
    test::interrupt_everywhere(
        body,
        [&] {
            records = tracer_.records();
            others_records = other.records();
            for (int i = 0; i < 2; ++i) tracer_.switch_to({{.event_id = kId, .channel = tracer_.channel().number}});
        },
        [&] {
            EXPECT_TRUE(*goes_straight_);
            EXPECT_EQ(tracer_.records() + other.records(), records + others_records + 1);
            constexpr std::uint32_t kIds = (1U << ring::kCompactHeader.id_bits) - 1;
            const std::uint32_t id = static_cast<std::uint8_t>(last_bytes(4 + 8)[0]) & kIds;
            EXPECT_EQ(id, kId);
            tracer_.switch_to({{.event_id = 1, .channel = other.channel().number}});
        },
        1, kSteps);
}

// The next event's first instructions would be restarted. `prepare(ring)`: before each event; `between`: what others do
// at any instruction, beside switching the tracepoint off.
template <class Prepare, class Between>
void StraightSteps::expect_nothing_is_left_behind(const Prepare& prepare, const Between& between, std::size_t stride) {
    const auto emit = [&] { tracer_.emit(); };
    const auto body = straight(emit, prepare);
    test::interrupt_everywhere(
        body,
        [&] {
            between();
            tracer_.switch_to({});
        },
        [&] {
            EXPECT_TRUE(*goes_straight_);
            EXPECT_EQ(*left_behind_, 0U);
            tracer_.switch_to({{.event_id = 1, .channel = tracer_.channel().number}});
        },
        stride);
}

TEST_F(StraightSteps, NothingIsLeftBehindBySwitchingOff) {
    expect_nothing_is_left_behind([](auto& /*ring*/) {}, [] {});
}

TEST_F(StraightSteps, NothingIsLeftBehindByANewClockLine) {
    expect_nothing_is_left_behind([&](auto& /*ring*/) { tracer_.renew_clock(); }, [&] { tracer_.renew_clock(); });
}

TEST_F(StraightSteps, NothingIsLeftBehindByAFullRing) {
    constexpr std::size_t kStride = 7;  // instructions: it takes long until the event is counted
    expect_nothing_is_left_behind([](ring::RingHeader& ring) { ring.limit = ring.head; }, [] {}, kStride);
}

TEST_F(StraightSteps, NothingIsLeftBehindByTheEndOfABlock) {
    tracer_.channel().map.overwrite();
    expect_nothing_is_left_behind([](ring::RingHeader& ring) { ring.limit = ring.head + 8; }, [] {});
}

}  // namespace
}  // namespace leat::tracer
