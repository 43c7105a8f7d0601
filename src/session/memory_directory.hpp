#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/memory_place.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::session {

// The files that a trace's memory is in, so that it outlives all processes (docs/formats/ring-files.md):
//
//     DIR/NAME-YYYYMMDD-HHMMSS     of a session
//       ust/uid/1000/64-bit        of a trace: what a MemoryDirectory is about
//         trace.json               what it is; locked as long as somebody records it, or may
//         registry metadata progress CHANNEL.rings
//
// Files for a trace that does not come about go away with the object. After describe(), they stay until remove().
class MemoryDirectory {
  public:
    static constexpr char kDescription[] = "trace.json";

    // Makes the directory of a session below `parent`, and that, if need be. Its name is that of the session, the time,
    // and a number if that is taken.
    static Result<std::filesystem::path> make_for_session(const std::filesystem::path& parent, const std::string& name);
    // Takes it back, if nothing is left there but what a recorder has left that was killed while it made a trace.
    static void remove_of_session(const std::filesystem::path& of_session);

    // Of a new trace, also in the place of one that no program has got to know. `trace_path`: as Trace::path().
    static Result<MemoryDirectory> create(const std::filesystem::path& of_session, const std::string& trace_path);
    // Of one that another process has described, and locked by this descriptor.
    static Result<MemoryDirectory> adopt(const std::filesystem::path& of_session, const std::string& trace_path,
                                         UniqueFd lock);
    MemoryDirectory(MemoryDirectory&& other) noexcept
        : place_(std::move(other.place_)),
          lock_(std::move(other.lock_)),
          of_session_(std::move(other.of_session_)),
          trace_path_(std::move(other.trace_path_)),
          is_ours_to_remove_(std::exchange(other.is_ours_to_remove_, false)) {}
    MemoryDirectory& operator=(MemoryDirectory&&) = delete;
    MemoryDirectory(const MemoryDirectory&) = delete;
    MemoryDirectory& operator=(const MemoryDirectory&) = delete;
    ~MemoryDirectory();

    [[nodiscard]] const MemoryPlace& place() const { return place_; }

    // Says what the files are, once all are there: only then is there something to recover. It is locked from the
    // start.
    Result<void> describe(std::string_view text);
    // Open as long as somebody may go on with the trace. Closed: it is not described.
    [[nodiscard]] int lock() const { return lock_.get(); }

    // Its memory is not needed any more.
    void remove();

  private:
    MemoryDirectory() = default;

    MemoryPlace place_;
    UniqueFd lock_;
    std::filesystem::path of_session_;
    std::filesystem::path trace_path_;
    bool is_ours_to_remove_ = false;
};

}  // namespace leat::session
