#include "crash/writer.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "crash/step_event.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::torture {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

constexpr int kEventsOfAChild = 5;

// How many events of its own the writer emits until the next child: mostly few, sometimes enough to fill rings.
std::uint64_t draw_pause(std::minstd_rand& random) { return 1 + random() % (random() % 8 == 0 ? 20'000 : 50); }

// Emits events for an incarnation. It changes nothing but the ledger, because some children share our memory.
struct Emitter {
    Incarnation* self;
    std::uint32_t incarnation;

    void emit(pid_t pid) const {
        const std::uint64_t counter = self->counter.load(std::memory_order_relaxed) + 1;
        self->counter.store(counter, std::memory_order_relaxed);
        Tail tail{};
        if (tail_length(counter) != 0) tail.fill(tail_byte(counter));
        emit_step(incarnation, pid, counter, tail.data());
        self->counted.store(self->counted.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
};

// Runs in a child: emits a little and ends in one of two ways.
struct Child {
    const Emitter* emitter;
    bool executes;

    [[noreturn]] void run() const {
        // Not getpid(): C libraries may remember their parent's.
        const auto pid = static_cast<pid_t>(::syscall(SYS_getpid));
        emitter->self->child.store(pid);
        for (int i = 0; i < kEventsOfAChild; ++i) emitter->emit(pid);
        if (executes) ::execl("/bin/true", "true", nullptr);
        ::_exit(0);
    }
};

int run_clone(void* child) { static_cast<const Child*>(child)->run(); }

alignas(16) std::array<char, 256U << 10> clone_stack;

// Makes the system call directly, as a program does that calls no library for it. The return address must not lie on
// the stack that the child uses.
[[gnu::always_inline]] inline pid_t raw_vfork() {
    long child = SYS_vfork;
    __asm__ volatile("syscall" : "+a"(child) : : "rcx", "r11", "memory");
    return static_cast<pid_t>(child);
}

// Returns in the parent only.
[[gnu::noinline]] pid_t make_child(const Child& child, std::uint64_t way) {
    pid_t pid = -1;
    switch (way % 4) {
        case 0:
            return ::clone(run_clone, clone_stack.data() + clone_stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD,
                           const_cast<Child*>(&child));  // NOLINT(*-const-cast)
        case 1:
            pid = ::fork();
            break;
        case 2:
            pid = ::vfork();  // NOLINT(*-vfork)
            break;
        default:
            pid = raw_vfork();
    }
    if (pid == 0) child.run();
    return pid;
}

// Makes a child and waits for it, so that only one process emits at a time. Only the host may kill the child.
bool run_child(const Emitter& emitter, std::uint64_t choice) {
    const Child child{&emitter, choice % 8 == 0};
    const pid_t pid = make_child(child, choice / 8);
    if (pid < 0) return false;
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT | __WALL) != 0) return false;
    emitter.self->child.store(0);  // from here on, another process may get its pid
    int status = 0;
    if (::waitpid(pid, &status, __WALL) != pid) return false;
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0;
}

}  // namespace

Result<pid_t> start_writer(std::uint32_t incarnation, const Ledger& ledger, const WriterParameters& parameters) {
    std::vector<std::string> arguments{"writer",
                                       "--writer",
                                       std::to_string(incarnation),
                                       "--ledger-fd",
                                       std::to_string(ledger.fd()),
                                       "--lead",
                                       std::to_string(parameters.lead)};
    if (parameters.has_children) arguments.emplace_back("--children");
    // The writer waits without limit: a host can be slow to answer under sanitizers and much load.
    std::vector<std::string> environment{
        std::string(wire::kRecorderDirectoryVariable) + "=" + parameters.runtime_directory.string(),
        "LEAT_REGISTER_TIMEOUT=-1"};
    if (!parameters.has_rseq) environment.emplace_back("GLIBC_TUNABLES=glibc.pthread.rseq=0");
    const std::vector<char*> argument_pointers = pointers(arguments);
    const std::vector<char*> environment_pointers = pointers(environment);

    const pid_t pid = ::fork();
    if (pid < 0) return io_error("cannot start a writer");
    if (pid > 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execve("/proc/self/exe", argument_pointers.data(), environment_pointers.data());
    ::_exit(127);
}

int run_writer(std::uint32_t incarnation, int ledger_fd, std::uint64_t lead, bool has_children) {
    const auto ledger = Ledger::inherit(ledger_fd);
    if (!ledger || !is_traced()) return kWriterNotTraced;
    Incarnation& self = (*ledger)[incarnation];
    const Emitter emitter{&self, incarnation};
    const pid_t pid = ::getpid();
    std::minstd_rand random(incarnation + 1);
    for (std::uint64_t until_child = 1; self.is_ending.load(std::memory_order_relaxed) == 0; --until_child) {
        emitter.emit(pid);
        while (lead != 0 && self.counter - self.delivered.load(std::memory_order_relaxed) > lead) ::sched_yield();
        if (until_child > 1) continue;
        if (has_children && !run_child(emitter, random())) return kWriterLostChild;
        until_child = 1 + draw_pause(random);
    }
    return kWriterDone;
}

}  // namespace leat::torture
