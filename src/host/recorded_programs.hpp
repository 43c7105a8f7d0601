// The control memory of programs that a recorder has switched on, to switch them off while they run.
#pragma once

#include <sys/types.h>

#include <list>
#include <set>

#include "session/session.hpp"
#include "wire/app/control_file.hpp"

namespace leat::host {

// Files are found by name, those of their children, too: docs/formats/runtime-directory.md, "Children". What has no
// name is kept. One thread.
class RecordedPrograms {
  public:
    // A program that was switched on.
    void add(const session::Application& application, wire::ControlFile control);
    // Switches off what goes to this channel. Programs that are about to end, or to have a child, are not waited for.
    void switch_off(std::uint32_t channel);

  private:
    struct Nameless {
        pid_t pid;
        wire::ControlFile control;
    };
    void forget_ended();

    std::set<uid_t> users_;
    std::list<Nameless> nameless_;
    std::size_t forget_at_ = 64;  // as many: some of them may have ended
};

}  // namespace leat::host
