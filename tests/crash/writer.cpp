#include "crash/writer.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "crash/step_event.hpp"
#include "wire/app_protocol.hpp"

namespace leat::torture {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
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
    // Waits for ever: under sanitizers and much load, a host can be slow to answer.
    std::vector<std::string> environment{
        std::string(wire::kRuntimeDirectoryVariable) + "=" + parameters.runtime_directory.string(),
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

int run_writer(std::uint32_t incarnation, int ledger_fd, std::uint64_t lead) {
    const auto ledger = Ledger::inherit(ledger_fd);
    if (!ledger || !leat_enabled(torture, step)) return kWriterNotTraced;
    Incarnation& self = (*ledger)[incarnation];
    Tail tail{};
    for (std::uint64_t counter = 1; self.is_ending.load(std::memory_order_relaxed) == 0; ++counter) {
        if (tail_length(counter) != 0) tail.fill(tail_byte(counter));
        leat_tracepoint(torture, step, incarnation, counter, tail.data());
        self.counted.store(counter, std::memory_order_release);
        while (lead != 0 && counter - self.delivered.load(std::memory_order_relaxed) > lead) ::sched_yield();
    }
    return kWriterDone;
}

}  // namespace leat::torture
