// Runs a function in a child, instruction by instruction, so that each state that other processes can see is checked.
#pragma once

#include <gtest/gtest.h>
#include <linux/rseq.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace leat::test {

// Memory shared with a child.
template <class T>
class Shared {
  public:
    Shared() : value_(new(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) T()) {}
    ~Shared() { ::munmap(value_, sizeof(T)); }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

    T& operator*() const { return *value_; }
    T* operator->() const { return value_; }

  private:
    void* memory_;
    T* value_;
};

// The child stops where the window opens. It is stepped through from there to where the window closes.
class Window {
  public:
    explicit Window(volatile bool& is_closed) : is_closed_(is_closed) {}
    void open() {
        is_closed_ = false;
        __asm__ volatile("int3" : : : "memory");
    }
    void close() {
        is_closed_ = true;
        __asm__ volatile("int3" : : : "memory");
    }

  private:
    volatile bool& is_closed_;
};

// Runs `body(window)` in a child, as often as needed.
class SteppedChild {
  public:
    // Starts the child and waits until it stops where the window opens.
    template <class Body>
    explicit SteppedChild(const Body& body) : pid_(::fork()) {
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
            Window window(*is_closed_);
            for (;;) body(window);
        }
        wait();
    }
    ~SteppedChild() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    SteppedChild(const SteppedChild&) = delete;
    SteppedChild& operator=(const SteppedChild&) = delete;

    [[nodiscard]] bool is_done() const { return is_dead_ || is_closed(); }
    // Runs one instruction.
    void step() { go_on(PTRACE_SINGLESTEP); }
    // As the kernel does when it preempts a thread: inside a restartable sequence ([linux-rseq]), it goes on at the
    // abort handler. `place`: where the child's thread tells which sequence it is in. The place and the sequence lie
    // there in us too.
    void preempt(std::uint64_t& place) {
        const auto sequence = static_cast<std::uintptr_t>(::ptrace(PTRACE_PEEKDATA, pid_, &place, nullptr));
        if (sequence == 0) return;
        const auto& range = *reinterpret_cast<const struct rseq_cs*>(sequence);  // NOLINT(*-reinterpret-cast)
        user_regs_struct registers{};
        ::ptrace(PTRACE_GETREGS, pid_, nullptr, &registers);
        if (registers.rip - range.start_ip < range.post_commit_offset) {
            registers.rip = range.abort_ip;
            ::ptrace(PTRACE_SETREGS, pid_, nullptr, &registers);
        }
        ::ptrace(PTRACE_POKEDATA, pid_, &place, nullptr);
    }
    // Runs to where the window closes.
    void finish() {
        while (!is_done()) go_on(PTRACE_CONT);
    }
    // The same, but the child gets a signal first.
    void finish_with(int signal) {
        if (!is_done()) go_on(PTRACE_CONT, signal);
        finish();
    }
    // Runs to where it opens again.
    void begin_again() {
        while (is_closed() && !is_dead_) go_on(PTRACE_CONT);
    }

  private:
    [[nodiscard]] bool is_closed() const { return static_cast<volatile bool&>(*is_closed_); }
    void go_on(__ptrace_request how, long signal = 0) {
        ::ptrace(how, pid_, nullptr, signal);
        wait();
    }
    void wait() {
        int status = 0;
        is_dead_ = ::waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP;
        EXPECT_FALSE(is_dead_) << "the child has ended, or cannot be traced here: status " << status;
    }

    Shared<bool> is_closed_;
    pid_t pid_;
    bool is_dead_ = false;
};

// Runs `body(window)` once for each instruction in the window, or for each `stride`th. In run n, `between(child)` is
// called after n (times `stride`) instructions, beginning with none and ending before `end`, and `after` when the
// window is closed.
template <class Body, class Between, class After>
void stop_everywhere(const Body& body, const Between& between, const After& after, std::size_t stride = 1,
                     std::size_t end = SIZE_MAX) {
    SteppedChild child(body);
    for (std::size_t at = 0; at < end && !testing::Test::HasFailure(); at += stride) {
        for (std::size_t step = 0; step < at && !child.is_done(); ++step) child.step();
        if (child.is_done()) return;
        between(child);
        child.finish();
        after();
        if (testing::Test::HasFailure()) FAIL() << "interrupted after instruction " << at;
        child.begin_again();
    }
}

// The same, where `between` has nothing to do with the child.
template <class Body, class Between, class After>
void interrupt_everywhere(const Body& body, const Between& between, const After& after, std::size_t stride = 1,
                          std::size_t end = SIZE_MAX) {
    stop_everywhere(
        body, [&](SteppedChild& /*child*/) { between(); }, after, stride, end);
}

// The same, where the child is preempted.
template <class Body, class After>
void preempt_everywhere(const Body& body, std::uint64_t& place, const After& after) {
    stop_everywhere(
        body, [&](SteppedChild& child) { child.preempt(place); }, after);
}

}  // namespace leat::test
