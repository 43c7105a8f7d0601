// An event goes to a channel that this process has not got, and a daemon of some kind is asked for it.
#include "tracer/channel_fetch.hpp"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/attached_tracer.hpp"
#include "support/patience.hpp"
#include "support/scratch_directory.hpp"
#include "tracer/daemon_directory.hpp"
#include "tracer/process_page.hpp"
#include "wire/app/app_socket.hpp"

namespace leat::tracer {
namespace {

using namespace std::chrono_literals;
using test::AttachedTracer;

enum class Manner {
    kAnswers,
    kSilent,
    kHeld,  // answers when it is told to
    kHangsUp,
    kOtherNumber,
    kBadDescriptors,  // which can change their size
};

// A recorder that listens, on a thread of its own.
class Recorder {
  public:
    Recorder() : thread_([this] { run(); }) {}
    ~Recorder() {
        ::eventfd_write(end_.get(), 1);
        thread_.join();
    }
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    [[nodiscard]] std::string path() const { return directory_.path(); }
    [[nodiscard]] std::uint64_t records() const {
        std::uint64_t sum = 0;
        for (std::uint32_t ring = 0; ring < set_.geometry().ring_count(); ++ring)
            sum += set_.reader(ring).record_count();
        return sum;
    }
    void answer(Manner manner) { manner_ = manner; }
    [[nodiscard]] int requests() const { return requests_; }
    [[nodiscard]] std::uint32_t last_number() const { return last_number_; }

  private:
    void run() {
        std::vector<wire::AppConnection> silent;
        for (;;) {
            std::array<pollfd, 2> wanted{{{end_.get(), POLLIN, 0}, {socket_.fd(), POLLIN, 0}}};
            ::poll(wanted.data(), wanted.size(), -1);
            if (wanted[0].revents != 0) return;
            auto connection = socket_.accept();
            pollfd message{connection->fd(), POLLIN, 0};
            ::poll(&message, 1, -1);
            const auto received = connection->receive(wire::Lane::kRecorder);
            const auto* const request = received ? std::get_if<wire::AttachRequest>(&*received) : nullptr;
            if (request == nullptr) continue;
            const Manner manner = manner_;
            last_number_ = request->channel;
            EXPECT_EQ(request->uid, ::geteuid());
            ++requests_;
            EXPECT_TRUE(manner != Manner::kHeld || test::wait_until([&] { return manner_ != Manner::kHeld; }));
            answer(*connection, request->channel, manner);
            if (manner == Manner::kSilent) silent.push_back(std::move(*connection));
        }
    }
    void answer(wire::AppConnection& connection, std::uint32_t number, Manner manner) const {
        wire::ChannelMessage message = AttachedTracer::channel_message(number);
        if (manner == Manner::kOtherNumber) message.number += 4;
        const bool is_bad = manner == Manner::kBadDescriptors;
        if (manner == Manner::kSilent || manner == Manner::kHangsUp) return;
        // On a busy machine, who asked may have given up by now.
        (void)connection.send_channel(message, set_.fd(), is_bad ? bad_.get() : clock_.fd());
    }

    test::ScratchDirectory directory_;
    wire::AppSocket socket_ = *wire::AppSocket::listen(directory_.path());
    ring::SharedClock clock_ = *ring::SharedClock::create();
    ring::RingSet set_ = *ring::RingSet::create(AttachedTracer::geometry(), ring::clock_now(clock_.page()));
    // There from first to last: ThreadSanitizer sees the thread close what it opens, but not how the tracer comes by
    // its descriptors and gives them back, by calls that bypass it. One number that goes to and fro is a race to it.
    const UniqueFd bad_{::memfd_create("bad", MFD_CLOEXEC)};
    UniqueFd end_{::eventfd(0, EFD_CLOEXEC)};
    std::atomic<Manner> manner_{Manner::kAnswers};
    std::atomic<int> requests_{0};
    std::atomic<std::uint32_t> last_number_{0};
    std::thread thread_;
};

std::size_t open_descriptors() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
}

// Of memory that came by a descriptor. How much others map is up to the allocator.
std::size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find("/memfd:") == std::string::npos ? 0 : 1;
    return count;
}

constexpr std::uint64_t kForever = 3'600'000'000'000;  // ns

// The tracepoint of the tracer is switched on for a channel that the recorder has.
class ChannelFetch : public testing::Test {
  protected:
    ChannelFetch() {
        find("");
        switch_on();
        // Answers may take their time, and a failure is forgotten at once.
        fetching = {.patience = kForever, .pause = 0, .failed_at = {}, .failed_number = {}};
        EXPECT_TRUE(test::wait_until([] { return !is_crowded(); })) << "what another test has begun does not go by";
    }
    ~ChannelFetch() override {
        fetching = {};
        ::unsetenv("LEAT_RECORDER_DIR");
        find("");
    }

    static void find(const char* timeout) {
        ::setenv("LEAT_REGISTER_TIMEOUT", *timeout == '\0' ? "3000" : timeout, 1);
        find_daemons();
        ::unsetenv("LEAT_REGISTER_TIMEOUT");
    }
    // Another channel.
    void switch_on() {
        ::setenv("LEAT_RECORDER_DIR", recorder_.path().c_str(), 1);
        find("");
        number_ = AttachedTracer::next_number();
        tracer_.switch_to({{.event_id = 1, .channel = number_}});
    }
    [[nodiscard]] std::uint64_t not_attached() { return *tracer_.control().not_attached(); }
    // The recorder will not answer, and the next event waits only as long as the product does.
    void fall_silent() {
        recorder_.answer(Manner::kSilent);
        fetching.patience = Fetching{}.patience;
    }
    // The event that asks may give up before the recorder has heard of it.
    void expect_one_request() {
        EXPECT_TRUE(test::wait_until([&] { return recorder_.requests() > 0; }));
        EXPECT_EQ(recorder_.requests(), 1);
    }

    Recorder recorder_;
    AttachedTracer tracer_;
    std::uint32_t number_ = 0;
};

TEST_F(ChannelFetch, FirstEventGetsItsChannel) {
    const std::size_t before = open_descriptors();
    errno = 77;
    for (int i = 0; i < 10; ++i) tracer_.emit();
    EXPECT_EQ(errno, 77);
    EXPECT_EQ(recorder_.records(), 10U);
    EXPECT_EQ(recorder_.last_number(), number_);
    EXPECT_EQ(recorder_.requests(), 1);
    EXPECT_EQ(not_attached(), 0U);
    EXPECT_TRUE(test::wait_until([&] { return open_descriptors() == before; }));
}

TEST_F(ChannelFetch, SilentDaemonIsWaitedForOnceInAWhile) {
    fall_silent();
    fetching.pause = kForever;
    constexpr int kEvents = 1000;
    for (int i = 0; i < kEvents; ++i) tracer_.emit();
    expect_one_request();
    EXPECT_EQ(not_attached(), static_cast<std::uint64_t>(kEvents));
    // It has come to itself, and the pause is over.
    recorder_.answer(Manner::kAnswers);
    fetching.patience = kForever;
    fetching.pause = 0;
    tracer_.emit();
    EXPECT_EQ(recorder_.records(), 1U);
}

TEST_F(ChannelFetch, WhatIsNoAnswerIsCounted) {
    std::uint64_t events = 0;
    for (const Manner manner : {Manner::kHangsUp, Manner::kOtherNumber, Manner::kBadDescriptors}) {
        recorder_.answer(manner);
        errno = 77;
        tracer_.emit();
        EXPECT_EQ(errno, 77);
        EXPECT_EQ(not_attached(), ++events);
        EXPECT_EQ(recorder_.requests(), static_cast<int>(events));
    }
    EXPECT_EQ(recorder_.records(), 0U);
}

TEST_F(ChannelFetch, ChannelThatCannotBeHadDoesNotHoldUpOthers) {
    fetching.pause = kForever;
    recorder_.answer(Manner::kBadDescriptors);
    for (int i = 0; i < 3; ++i) tracer_.emit();
    EXPECT_EQ(recorder_.requests(), 1);
    switch_on();
    recorder_.answer(Manner::kAnswers);
    tracer_.emit();
    EXPECT_EQ(recorder_.requests(), 2);
    EXPECT_EQ(recorder_.records(), 1U);
    // Where there are two, all of them pause.
    switch_on();
    recorder_.answer(Manner::kBadDescriptors);
    tracer_.emit();
    EXPECT_EQ(recorder_.requests(), 3);
    switch_on();
    recorder_.answer(Manner::kAnswers);
    tracer_.emit();
    EXPECT_EQ(recorder_.requests(), 3);
}

TEST_F(ChannelFetch, FailureLeavesNothingBehind) {
    const std::size_t open = open_descriptors();
    recorder_.answer(Manner::kBadDescriptors);
    tracer_.emit();
    const std::size_t mapped = mappings();
    for (int i = 0; i < 3; ++i) tracer_.emit();
    EXPECT_EQ(recorder_.requests(), 4);
    EXPECT_EQ(mappings(), mapped);
    EXPECT_TRUE(test::wait_until([&] { return open_descriptors() == open; }));
}

TEST_F(ChannelFetch, NobodyThereIsCounted) {
    ::setenv("LEAT_RECORDER_DIR", "/nonexistent", 1);
    find("");
    tracer_.emit();
    EXPECT_EQ(not_attached(), 1U);
}

TEST_F(ChannelFetch, ProcessThatWaitsForNobodyDoesNotAsk) {
    find("0");
    tracer_.emit();
    EXPECT_EQ(not_attached(), 1U);
    EXPECT_EQ(recorder_.requests(), 0);
}

// The number says whose it is: no daemon can send an event to another's.
TEST_F(ChannelFetch, ChannelOfAnotherLaneIsNotAskedFor) {
    tracer_.switch_to({{.event_id = 1, .channel = number_ - 1}});
    tracer_.emit();
    EXPECT_EQ(not_attached(), 1U);
    EXPECT_EQ(recorder_.requests(), 0);
}

TEST_F(ChannelFetch, ThreadsThatComeTogetherAskOnce) {
    constexpr std::size_t kThreads = 8;
    std::atomic<std::size_t> ready{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
            std::vector<char> staged(100 + LEAT_STAGE_SLACK, 'x');
            for (++ready; ready < kThreads;) std::this_thread::yield();  // they may all be on one CPU
            tracer_.emit(staged);
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(recorder_.requests(), 1);
    EXPECT_EQ(recorder_.records() + not_attached(), kThreads);
    EXPECT_EQ(not_attached(), 0U);
}

// Its thread is waiting for the answer: it would wait for itself.
TEST_F(ChannelFetch, HandlerOfTheThreadThatAsksDoesNotWait) {
    recorder_.answer(Manner::kHeld);
    static AttachedTracer* emits;
    static std::atomic<int> handled;
    emits = &tracer_;
    handled = 0;
    struct sigaction action {};
    action.sa_handler = [](int) {
        emits->emit();
        ++handled;
    };
    struct sigaction before {};
    ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
    std::thread interrupter([this, asking = ::pthread_self()] {
        EXPECT_TRUE(test::wait_until([&] { return recorder_.requests() == 1; }));
        // Again and again: ThreadSanitizer may note a signal before the wait, and run the handler after it.
        EXPECT_TRUE(test::wait_until([] { return handled >= 1; },
                                     [&] {
                                         ::pthread_kill(asking, SIGALRM);
                                         std::this_thread::sleep_for(1ms);  // moment: between two looks
                                     }));
        recorder_.answer(Manner::kAnswers);
    });
    tracer_.emit();
    interrupter.join();
    ::sigaction(SIGALRM, &before, nullptr);
    EXPECT_GE(not_attached(), 1U) << "the handler's";
    EXPECT_EQ(recorder_.records() + not_attached(), 1U + static_cast<std::uint64_t>(handled));
    EXPECT_EQ(recorder_.requests(), 1);
}

// A thread that is cancelled ends elsewhere.
TEST_F(ChannelFetch, CancelledThreadFinishesItsEvent) {
    pthread_t thread{};
    const auto emit = [](void* tracer) -> void* {
        ::pthread_cancel(::pthread_self());  // it acts upon that at the next cancellation point
        static_cast<AttachedTracer*>(tracer)->emit();
        ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
        return tracer;
    };
    ASSERT_EQ(::pthread_create(&thread, nullptr, emit, &tracer_), 0);
    void* result = nullptr;
    ASSERT_EQ(::pthread_join(thread, &result), 0);
    EXPECT_EQ(result, &tracer_) << "cancelled in the middle of the event";
    EXPECT_EQ(recorder_.records(), 1U);
}

// It has the lock, and somebody has stopped it: a debugger, or a collector of garbage.
TEST_F(ChannelFetch, ThreadThatDoesNotGoOnIsWaitedForOnce) {
    fetching = {.patience = Fetching{}.patience, .pause = kForever, .failed_at = {}, .failed_number = {}};
    std::barrier<> together(2);
    std::thread stopped([&] {
        const AttachLock lock(kForever);
        together.arrive_and_wait();
        together.arrive_and_wait();
    });
    together.arrive_and_wait();
    tracer_.emit();
    EXPECT_NE(fetching.failed_at[static_cast<std::uint32_t>(wire::lane_of(number_))], 0U);
    for (int i = 0; i < 1000; ++i) tracer_.emit();
    together.arrive_and_wait();
    stopped.join();
    EXPECT_EQ(recorder_.requests(), 0);
    EXPECT_EQ(not_attached(), 1001U);
}

// The child's page is wiped, and with it the lock that the thread has in the parent.
TEST_F(ChannelFetch, ChildThatIsForkedMeanwhileAsksForItself) {
    recorder_.answer(Manner::kSilent);
    fetching.patience = 1'000'000'000;
    std::vector<char> staged(100 + LEAT_STAGE_SLACK, 'x');
    std::thread waiting([&] { tracer_.emit(staged); });
    EXPECT_TRUE(test::wait_until([&] { return recorder_.requests() == 1; }));
    recorder_.answer(Manner::kAnswers);
    const pid_t child = ::fork();
    if (child == 0) {
        fetching.patience = kForever;
        tracer_.emit();
        ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    waiting.join();
    EXPECT_EQ(status, 0);
    EXPECT_EQ(recorder_.requests(), 2);
    EXPECT_EQ(recorder_.records(), 1U);
}

// It may end at any time, and would leave the lock of its parent's process.
TEST_F(ChannelFetch, GuestDoesNotAsk) {
    const pid_t child = ::vfork();
    if (child == 0) {
        tracer_.emit();
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    EXPECT_EQ(recorder_.requests(), 0);
    EXPECT_EQ(not_attached(), 1U);
}

// Otherwise each of their events would map a channel and displace another.
TEST_F(ChannelFetch, MoreChannelsThanAProcessKeepsAreNotFetchedInTurn) {
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t i = 0; i < kMaxChannels + 5; ++i) numbers.push_back(AttachedTracer::next_number());
    const std::uint64_t begin = ring::system_now();
    for (int turn = 0; turn < 3; ++turn)
        for (const std::uint32_t number : numbers) {
            tracer_.switch_to({{.event_id = 1, .channel = number}});
            tracer_.emit();
        }
    // A process that stood still for a second has forgotten the crowd.
    const bool stood_still = ring::system_now() - begin >= 1'000'000'000;
    EXPECT_TRUE(stood_still || recorder_.requests() <= static_cast<int>(kMaxChannels) + 2) << recorder_.requests();
    EXPECT_EQ(recorder_.records() + not_attached(), 3 * numbers.size());
}

// People may trace a program by one session after the other while it captures itself.
TEST_F(ChannelFetch, ChannelOfACaptureIsNotDisplaced) {
    const test::OtherChannel capture(0);
    for (std::uint32_t i = 0; i < kMaxChannels + 5; ++i) {
        const auto number = AttachedTracer::next_number() - static_cast<std::uint32_t>(wire::Lane::kRecorder);
        const test::OtherChannel of_session(0, number + static_cast<std::uint32_t>(wire::Lane::kSystem));
    }
    EXPECT_EQ(find_channel(capture.channel().number), &capture.channel());
}

// The first event may be one that is staged in a buffer.
TEST_F(ChannelFetch, LargeEventGetsItsChannel) {
    void* const payload = leat_stage_large(&tracer_.tracepoint(), 600);
    ASSERT_NE(payload, nullptr);
    leat_write_large(&tracer_.tracepoint(), nullptr, 0, payload, 600);
    EXPECT_EQ(not_attached(), 0U);
    EXPECT_EQ(recorder_.requests(), 1);
    EXPECT_EQ(recorder_.records(), 1U);
}

}  // namespace
}  // namespace leat::tracer
