// The tracepoints of this process, as their own daemon sees and switches them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "session/session.hpp"
#include "session/sticky_replay.hpp"
#include "wire/app/control_file.hpp"

namespace leat::capture {

// Reads descriptions and switches words in the files by which daemons know the process, too. There is one of these at a
// time. One thread.
class OwnTracepoints {
  public:
    // The session has one trace. A child of fork() leaves alone what its parent has switched.
    static Result<std::unique_ptr<OwnTracepoints>> create(session::Session& session);
    ~OwnTracepoints();
    OwnTracepoints(const OwnTracepoints&) = delete;
    OwnTracepoints& operator=(const OwnTracepoints&) = delete;

    // Whether any tracepoint can be switched on, or there is none yet.
    [[nodiscard]] static bool has_files();
    // Whether libraries have been loaded or unloaded since. Some ns.
    [[nodiscard]] bool has_news() const;
    // Gives the program the rings of this channel; an error: they cannot be mapped.
    Result<void> attach(const session::TraceChannel& channel);
    // Switches on what the session wants and is not on yet. What cannot be switched on is warned of.
    std::vector<std::string> switch_on();
    // Of what was switched on since: the values that its sticky events have by now are to be recorded, too.
    [[nodiscard]] std::vector<session::StickyProgram> take_sticky_values() { return std::exchange(sticky_values_, {}); }
    // Afterwards no thread begins a record.
    void switch_off();

  private:
    explicit OwnTracepoints(session::Session& session);
    struct Module {
        std::string path;
        wire::ControlFile control;
    };
    Result<void> switch_on(const std::string& path, std::vector<std::string>& warnings);
    void find_copies();
    void note_sticky_values(const session::Application& application, const session::Orders& orders);

    session::Session& session_;
    std::uint32_t process_;
    uid_t uid_;                  // at the start: the trace is that user's
    bool has_switched_ = false;  // anything on
    std::uint32_t changes_ = 0;
    std::vector<Module> modules_;
    std::vector<session::StickyProgram> sticky_values_;
    std::vector<std::uint32_t> channels_;  // that are attached
};

}  // namespace leat::capture
