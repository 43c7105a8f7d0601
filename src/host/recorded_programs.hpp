// The control memory of programs that a recorder has switched on: to switch them off while they run, and to know what
// they could not write.
#pragma once

#include <sys/types.h>

#include <list>
#include <set>
#include <span>

#include "session/session.hpp"
#include "wire/app/control_file.hpp"

namespace leat::host {

// Those of their children are found by name: docs/formats/runtime-directory.md, "Children". What is kept is open anew:
// the descriptor that a program sends has its lock, by which others know that it lives. One thread.
class RecordedPrograms {
  public:
    // A program that was switched on.
    void add(const session::Application& application, const wire::ControlFile& control);
    // Switches off what goes to these channels. Programs that are about to end, or to have a child, are not waited for.
    void switch_off(std::span<const std::uint32_t> channels);
    // Events that they could not write, because they have not got the rings. Not those of their children.
    [[nodiscard]] std::uint64_t not_attached() const;

  private:
    struct Program {
        pid_t pid;
        bool is_nameless;  // and open for writing
        wire::ControlFile control;
    };
    void forget_ended();

    std::set<uid_t> users_;
    std::list<Program> programs_;
    std::uint64_t not_attached_ = 0;  // of those that are forgotten
    static constexpr std::size_t kForgetAtLeastAt = 64;
    std::size_t forget_at_ = kForgetAtLeastAt;  // as many: some of them may have ended
};

}  // namespace leat::host
