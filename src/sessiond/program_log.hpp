#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>

namespace leat::sessiond {

// Warnings that programs cause. Each user's get so many lines in a while; of the others, the log has the number. So
// nobody fills the disk with it, or hides what others should know. Any thread.
class ProgramLog {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::uint64_t kMaxLines = 50;
    static constexpr auto kWhile = std::chrono::minutes(1);

    void warn(uid_t uid, std::string_view warning, Clock::time_point now = Clock::now());
    // Of those whose while is over: says how many were left out.
    void tell_left_out(Clock::time_point now = Clock::now());

  private:
    struct OfUser {
        Clock::time_point since;
        std::uint64_t count = 0;
    };

    std::mutex lock_;
    std::map<uid_t, OfUser> users_{};  // that had a warning within a while
};

// Of this daemon.
ProgramLog& the_program_log();

}  // namespace leat::sessiond
