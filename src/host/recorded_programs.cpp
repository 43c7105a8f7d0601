#include "host/recorded_programs.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/descriptors.hpp"
#include "base/file.hpp"
#include "base/unique_fd.hpp"
#include "wire/app/app_directory_parent.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::host {
namespace {

// Descriptors that programs leave to streams and what else there is, beside the reserve.
constexpr std::size_t kLeft = 256;

// Fails where there is none of our version, which is none of ours.
Result<void> switch_off_file(int directory, const std::string& name, uid_t uid,
                             std::span<const std::uint32_t> channels) {
    UniqueFd fd(::openat(directory, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status {};
    if (!fd.is_open() || ::fstat(fd.get(), &status) != 0 || status.st_uid != uid) return not_found("no file");
    auto control = LEAT_TRY(wire::ControlFile::open(std::move(fd), wire::Lane::kRecorder));
    return control.switch_off(channels);
}

void switch_off_user(uid_t uid, std::span<const std::uint32_t> channels) {
    const auto path = wire::app_directory_parent() / (wire::kAppDirectoryPrefix + std::to_string(uid));
    const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory.is_open()) return;
    for (const std::string& name : names_in(directory.get()).value_or(std::vector<std::string>()))
        if (name.ends_with(wire::kControlFile)) (void)switch_off_file(directory.get(), name, uid, channels);
}

// Without the lock.
Result<wire::ControlFile> opened_anew(const wire::ControlFile& control, bool is_nameless) {
    const std::string path = fmt::format("/proc/self/fd/{}", control.fd());
    UniqueFd fd(::open(path.c_str(), (is_nameless ? O_RDWR : O_RDONLY) | O_CLOEXEC));
    if (!fd.is_open()) return io_error("cannot open control memory anew");
    return wire::ControlFile::open(std::move(fd), wire::Lane::kRecorder);
}

}  // namespace

void RecordedPrograms::add(const session::Application& application, const wire::ControlFile& control) {
    users_.insert(application.uid);
    if (programs_.size() >= forget_at_) forget_ended();
    if (are_descriptors_scarce(kLeft)) {
        forget_ended();
        // One without a name is not switched off, then. What it writes is left out.
        if (are_descriptors_scarce(kLeft)) return;
    }
    const bool is_nameless = is_removed(control.fd());
    if (auto opened = opened_anew(control, is_nameless))
        programs_.push_back({application.pid, is_nameless, *std::move(opened)});
}

void RecordedPrograms::forget_ended() {
    std::erase_if(programs_, [this](const Program& program) {
        // Of another PID namespace, the number is 0; and a library that is unloaded ends before its program. Memory
        // that has never had a name nobody locks.
        const bool is_dead = program.pid > 0 && ::kill(program.pid, 0) != 0 && errno == ESRCH;
        const bool has_ended = is_dead || (!program.is_nameless && !program.control.is_in_use());
        if (has_ended) not_attached_ += program.control.not_attached().value_or(0);
        return has_ended;
    });
    forget_at_ = std::max(kForgetAtLeastAt, 2 * programs_.size());
}

void RecordedPrograms::switch_off(std::span<const std::uint32_t> channels) {
    for (const uid_t uid : users_) switch_off_user(uid, channels);
    for (Program& program : programs_)
        if (program.is_nameless) (void)program.control.switch_off(channels);
}

std::uint64_t RecordedPrograms::not_attached() const {
    std::uint64_t sum = not_attached_;
    for (const Program& program : programs_) sum += program.control.not_attached().value_or(0);
    return sum;
}

}  // namespace leat::host
