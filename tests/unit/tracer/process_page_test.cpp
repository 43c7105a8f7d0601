#include "tracer/process_page.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/sanitizers.hpp"
#include "support/skip.hpp"
#include "tracer/shared_thread.hpp"

namespace leat::tracer {
namespace {

// The exit status of a child that runs `body`. `make` creates the child.
template <class Make, class Body>
int status_of_child(Make make, Body body) {
    const pid_t pid = make();
    if (pid == 0) ::_exit(body());
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

pid_t bare_fork() { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }

class ProcessPageTest : public testing::Test {
  protected:
    ProcessPageTest() { make_process_page(); }
};

TEST_F(ProcessPageTest, GenerationStaysInAProcess) {
    const std::uint32_t generation = process_generation();
    EXPECT_NE(generation, 0U);
    EXPECT_EQ(process_generation(), generation);
    make_process_page();
    EXPECT_EQ(process_generation(), generation);
}

TEST_F(ProcessPageTest, ChildHasAnotherGeneration) {
    const std::uint32_t generation = process_generation();
    const auto differs = [&] { return process_generation() != generation && process_generation() != 0 ? 0 : 1; };
    EXPECT_EQ(status_of_child(::fork, differs), 0);
    EXPECT_EQ(status_of_child(bare_fork, differs), 0) << "no fork handler runs here";
    EXPECT_EQ(process_generation(), generation);
}

TEST_F(ProcessPageTest, GrandchildHasAThirdGeneration) {
    const std::uint32_t generation = process_generation();
    EXPECT_EQ(status_of_child(::fork,
                              [&] {
                                  const std::uint32_t child = process_generation();
                                  return status_of_child(::fork, [&] {
                                      const std::uint32_t own = process_generation();
                                      return own != child && own != generation ? 0 : 1;
                                  });
                              }),
              0);
}

// It asks before the child itself does.
TEST_F(ProcessPageTest, GuestOfABareChildIsNotTakenForIt) {
#ifdef LEAT_THREAD_SANITIZER
    LEAT_NEEDS(false, "sanitizers");  // its vfork() is fork()
#endif
    EXPECT_EQ(status_of_child(bare_fork,
                              [] {
                                  leat_thread_share();
                                  const pid_t guest = ::vfork();
                                  if (guest == 0) ::_exit(is_guest() ? 0 : 1);
                                  int status = -1;
                                  ::waitpid(guest, &status, 0);
                                  leat_thread_unshare();
                                  return status == 0 && !is_guest() ? 0 : 1;
                              }),
              0);
}

TEST_F(ProcessPageTest, LocksAndLoansOfTheParentAreNotInherited) {
    const RegistrationLock lock;
    process_page->staging_is_lent[3] = 1;
    EXPECT_EQ(status_of_child(::fork,
                              [] {
                                  const RegistrationLock own;
                                  return process_page->staging_is_lent[3] == 0 ? 0 : 1;
                              }),
              0);
    EXPECT_EQ(process_page->staging_is_lent[3], 1U);
    process_page->staging_is_lent[3] = 0;
}

}  // namespace
}  // namespace leat::tracer
