#include "tracer/contexts.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <thread>

#include "support/attached_tracer.hpp"
#include "support/skip.hpp"
#include "support/two_users.hpp"
#include "tracer/shared_thread.hpp"
#include "tracer/thread_identity.hpp"

namespace leat::tracer {
namespace {

using test::AttachedTracer;
using test::OtherChannel;
using test::Writer;

constexpr std::uint32_t kOfThreads = wire::kAllContexts & ~wire::kContextIp;

Task this_task() { return {.pid = ::getpid(), .tid = ::gettid(), .owns_thread = true}; }

// What lies in front of the payload of this thread's records.
std::string contexts_of_thread(std::uint32_t contexts) {
    RoomyWriter writer;
    set_contexts(writer, contexts, this_task());
    const char* const begin =
        reinterpret_cast<const char*>(&writer) + offsetof(ring::RecordWriter, contexts);  // NOLINT
    return {begin, writer.base.context_size};
}

template <class Value>
std::string bytes_of(Value value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};  // NOLINT(*-reinterpret-cast)
}

std::uint64_t inode(const std::string& name) {
    struct stat status {};
    EXPECT_EQ(::stat(("/proc/thread-self/ns/" + name).c_str(), &status), 0) << name;
    return status.st_ino;
}

TEST(Contexts, AreWhatTheThreadSeesOfItself) {
    std::array<char, wire::kProcnameSize> name{};
    ::prctl(PR_GET_NAME, name.data());
    const auto check = [](std::uint32_t context, const std::string& bytes) {
        EXPECT_EQ(contexts_of_thread(context), bytes) << "context " << context;
    };
    check(wire::kContextVpid, bytes_of(::getpid()));
    check(wire::kContextVtid, bytes_of(::gettid()));
    check(wire::kContextProcname, {name.data(), name.size()});
    check(wire::kContextPthreadId, bytes_of(std::uint64_t{::pthread_self()}));
    check(wire::kContextVuid, bytes_of(::getuid()));
    check(wire::kContextVeuid, bytes_of(::geteuid()));
    check(wire::kContextVgid, bytes_of(::getgid()));
    check(wire::kContextVegid, bytes_of(::getegid()));
    check(wire::kContextCgroupNs, bytes_of(inode("cgroup")));
    check(wire::kContextIpcNs, bytes_of(inode("ipc")));
    check(wire::kContextMntNs, bytes_of(inode("mnt")));
    check(wire::kContextNetNs, bytes_of(inode("net")));
    check(wire::kContextPidNs, bytes_of(inode("pid")));
    check(wire::kContextTimeNs, bytes_of(inode("time")));
    check(wire::kContextUserNs, bytes_of(inode("user")));
    check(wire::kContextUtsNs, bytes_of(inode("uts")));
}

TEST(Contexts, LieInTheOrderOfTheTable) {
    std::string all;
    for (const wire::ContextKind& first : wire::kContextKinds) {
        all += contexts_of_thread(first.bit);
        for (const wire::ContextKind& second : wire::kContextKinds) {
            if (&first >= &second) continue;
            EXPECT_EQ(contexts_of_thread(first.bit | second.bit),
                      contexts_of_thread(first.bit) + contexts_of_thread(second.bit));
        }
    }
    EXPECT_EQ(contexts_of_thread(wire::kAllContexts), all);
    EXPECT_EQ(all.size(), wire::context_size(kOfThreads)) << "ip is not the thread's";
}

TEST(Contexts, ErrnoIsKept) {
    errno = ENOTTY;
    (void)contexts_of_thread(wire::kAllContexts);
    EXPECT_EQ(errno, ENOTTY);
}

TEST(Contexts, WithoutProcNamespacesAreZero) {
    LEAT_NEEDS(test::can_be_two_users(), "two-users");
    const pid_t child = ::fork();
    if (child == 0) {
        const bool is_away = ::chroot("/proc/self/fdinfo") == 0;
        errno = ENOTTY;
        const std::string found = contexts_of_thread(wire::kContextPidNs | wire::kContextUtsNs);
        ::_exit(is_away && errno == ENOTTY && found == std::string(16, '\0') ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

class ContextsOfRecords : public testing::TestWithParam<Writer> {
  protected:
    void SetUp() override { LEAT_NEEDS(GetParam() == Writer::kOfThread || test::has_rseq(), "rseq"); }

    void switch_to(OtherChannel& other) {
        if (GetParam() == Writer::kOfThread) other.channel().has_rseq = false;
        tracer_.switch_to({{.event_id = 1, .channel = other.channel().number}});
    }
    // What lies in front of the payloads.
    static std::vector<std::string> contexts_in(const OtherChannel& other) {
        const std::string payload(100, 'x');
        const std::uint32_t size = other.channel().context_size;
        std::vector<std::string> found;
        for (std::uint32_t ring = 0; ring < other.set().geometry().ring_count(); ++ring) {
            const std::string bytes(test::records_of(other.set(), ring), 4'000);
            for (std::size_t at = bytes.find(payload); at != std::string::npos; at = bytes.find(payload, at + 100))
                found.push_back(bytes.substr(at - size, size));
        }
        return found;
    }

    AttachedTracer tracer_;
};

INSTANTIATE_TEST_SUITE_P(Both, ContextsOfRecords, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

// Whether they fit into a writer's own room or go on behind it: blocks of any number and remainder.
TEST_P(ContextsOfRecords, OfAnySize) {
    for (std::size_t left_out = 0; left_out < std::size(wire::kContextKinds); ++left_out) {
        std::uint32_t contexts = 0;
        for (std::size_t i = 0; i < std::size(wire::kContextKinds); ++i) {
            if (i == left_out || wire::kContextKinds[i].bit == wire::kContextIp) continue;
            contexts |= wire::kContextKinds[i].bit;
            OtherChannel other(contexts);
            switch_to(other);
            for (int event = 0; event < 3; ++event) tracer_.emit();
            const std::string expected = contexts_of_thread(contexts);
            EXPECT_EQ(contexts_in(other), (std::vector<std::string>(3, expected))) << "contexts " << contexts;
        }
    }
}

TEST_P(ContextsOfRecords, AllGoStraight) {
    OtherChannel other(kOfThreads);
    LEAT_NEEDS(ring::uses_tsc(*other.channel().map.clock), "tsc");
    other.channel().sees_vforks = true;
    switch_to(other);
    tracer_.emit();
    const std::uint64_t key = channel_key(other.channel().number);
    const bool is_straight = std::ranges::any_of(thread_state.channels,
                                                 [&](const ThreadChannel& mine) { return mine.straight_key() == key; });
    EXPECT_EQ(is_straight, GetParam() == Writer::kOfCpu);
}

// Bare system calls, which change the calling thread alone.
class ContextsThatChange : public ContextsOfRecords {
  protected:
    void SetUp() override {
        ContextsOfRecords::SetUp();
        LEAT_NEEDS(test::can_be_two_users(), "two-users");
    }
    // Emits before and after, in a thread of its own.
    std::vector<std::string> before_and_after(OtherChannel& other, const std::function<void()>& change) {
        switch_to(other);
        std::thread([&] {
            tracer_.emit();
            change();
            tracer_.emit();
        }).join();
        return contexts_in(other);
    }
};

INSTANTIATE_TEST_SUITE_P(Both, ContextsThatChange, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

std::string groups(std::uint32_t real, std::uint32_t effective, std::uint32_t saved) {
    return bytes_of(real) + bytes_of(effective) + bytes_of(saved);
}
constexpr std::uint32_t kGroups = wire::kContextVgid | wire::kContextVegid | wire::kContextVsgid;

TEST_P(ContextsThatChange, AreNewWhenTheyAreToldOf) {
    OtherChannel other(kGroups);
    other.channel().sees_vforks = true;
    const std::string before = contexts_of_thread(kGroups);
    const auto found = before_and_after(other, [] {
        EXPECT_EQ(::syscall(SYS_setresgid, 7, 8, 9), 0);
        leat_contexts_changed();
    });
    EXPECT_EQ(found, (std::vector{before, groups(7, 8, 9)}));
}

// A program of which only a library is instrumented: nobody tells.
TEST_P(ContextsThatChange, AreNewAfterAPause) {
    OtherChannel other(kGroups);
    other.channel().sees_vforks = false;
    const std::string before = contexts_of_thread(kGroups);
    const auto found = before_and_after(other, [] {
        EXPECT_EQ(::syscall(SYS_setresgid, 7, 8, 9), 0);
        ::usleep(2'000);  // moment: longer than it takes a thread to ask again; more is as good
    });
    EXPECT_EQ(found, (std::vector{before, groups(7, 8, 9)}));
}

}  // namespace
}  // namespace leat::tracer
