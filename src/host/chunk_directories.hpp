#pragma once

#include <ctime>
#include <filesystem>

#include "base/result.hpp"

namespace leat::host {

// The directories of a session that is rotated, as LTTng lays them out ([LTTng-2.13], "Trace directories"):
//
//     never rotated        SESSION/ust/...
//     rotated              SESSION/archives/START-END-0/ust/...    SESSION/START-1/ust/...
//     again, and ended     SESSION/archives/{START-END-0, START-END-1, START-END-2}/ust/...
class ChunkDirectories {
  public:
    // All that changes. Whoever goes on with the session needs it.
    struct State {
        std::filesystem::path current;  // where traces go
        std::time_t start = 0;
        unsigned id = 0;
        // Of a rotation that is under way: where traces go then, and where `current` goes. Empty: there is none.
        std::filesystem::path next{};
        std::filesystem::path archived{};
    };

    explicit ChunkDirectories(const std::filesystem::path& session) : session_(session), state_{.current = session} {}
    ChunkDirectories(std::filesystem::path session, State state)
        : session_(std::move(session)), state_(std::move(state)) {}

    [[nodiscard]] const State& state() const { return state_; }
    [[nodiscard]] bool was_rotated() const { return state_.id != 0; }

    // The first chunk begins when the session is started first.
    void begin() { state_.start = state_.start == 0 ? std::time(nullptr) : state_.start; }
    // Sees to it that chunks can be archived. Before a rotation is planned: it shall not fail when it is half done.
    [[nodiscard]] Result<void> make_archives() const;
    // Names the place of the next chunk, which is not there yet.
    void plan_rotation();
    void drop_plan();
    // Nothing is written to the current chunk any more: moves it to the archives, and tells where it is there. The next
    // one is the current one from now on, also if that fails. Does what is left of it if another process was killed in
    // the middle.
    Result<std::filesystem::path> rotate();

  private:
    [[nodiscard]] Result<void> archive() const;

    std::filesystem::path session_;
    State state_;
};

}  // namespace leat::host
