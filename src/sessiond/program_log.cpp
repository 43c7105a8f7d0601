#include "sessiond/program_log.hpp"

#include "base/log.hpp"

namespace leat::sessiond {

void ProgramLog::warn(uid_t uid, std::string_view warning, Clock::time_point now) {
    tell_left_out(now);
    const std::lock_guard guard(lock_);
    OfUser& user = users_.try_emplace(uid, OfUser{.since = now}).first->second;
    if (++user.count <= kMaxLines) log_warning("{}", warning);
}

void ProgramLog::tell_left_out(Clock::time_point now) {
    const std::lock_guard guard(lock_);
    std::erase_if(users_, [now](const auto& entry) {
        const auto& [uid, user] = entry;
        if (now - user.since < kWhile) return false;
        if (user.count > kMaxLines)
            log_warning("programs of user {} caused {} more warnings within a minute", uid, user.count - kMaxLines);
        return true;
    });
}

ProgramLog& the_program_log() {
    static ProgramLog log;
    return log;
}

}  // namespace leat::sessiond
