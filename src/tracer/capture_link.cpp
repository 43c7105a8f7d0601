#include "tracer/capture_link.hpp"

#include <errno.h>
#include <string.h>

#include "tracer/channel.hpp"
#include "tracer/control_memory.hpp"
#include "tracer/control_renewal.hpp"
#include "tracer/daemon_directory.hpp"
#include "tracer/process_page.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::tracer {
namespace {

// Of the process that captures itself; 0: none does. A child of a fork is another one.
uint32_t capturing_process = 0;
bool has_captured = false;

// ns
constexpr uint64_t kAttachPatience = 1'000'000'000;

// Another thread may be faster than we are, and its capture attaches channels when it has begun.
void leave_parent() {
    const AttachLock lock(kAttachPatience);
    const bool has_begun = __atomic_load_n(&capturing_process, __ATOMIC_RELAXED) == process_number();
    if (lock.is_held() && !has_begun) detach_channels_of(wire::Lane::kRecorder);
}

// The file of a memory, where this process may switch it. Who changes the path meanwhile counts the change, and we are
// asked again. But a renewal is waited for: it copies what is on before it sets the path.
const char* copy_path(const ControlMemory& memory, char (&path)[kMaxAppPath]) {
    const StickyLock lock;
    // DD, as in control_renewal.cpp.
    path[0] = __atomic_load_n(memory.path, __ATOMIC_ACQUIRE);
    memcpy(path + 1, memory.path + 1, sizeof path - 2);
    path[sizeof path - 1] = '\0';
    // A child that shares its parent's file may not switch for both.
    return path[0] != '\0' && memory.process == process_number() ? path : nullptr;
}

}  // namespace

bool captures_itself() { return __atomic_load_n(&has_captured, __ATOMIC_RELAXED); }

bool is_captured_elsewhere(uint32_t lane) {
    return lane == static_cast<uint32_t>(wire::Lane::kRecorder) && captures_itself() &&
           __atomic_load_n(&capturing_process, __ATOMIC_RELAXED) != process_number();
}

}  // namespace leat::tracer

using namespace leat;
using namespace leat::tracer;

bool leat_capture_begin() {
    make_process_page();
    if (has_recorder()) return false;
    const uint32_t process = process_number();
    uint32_t known = __atomic_load_n(&capturing_process, __ATOMIC_RELAXED);
    if (known == process) return false;
    // A child may have control memory of its parent, and has its channels. Where there is no place for a file, the
    // memory stays the parent's, whose events are on there: they find no channel.
    renew_for_capture();
    leave_parent();
    __atomic_store_n(&has_captured, true, __ATOMIC_RELAXED);
    return __atomic_compare_exchange_n(&capturing_process, &known, process, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void leat_capture_end() {
    uint32_t process = process_number();
    (void)__atomic_compare_exchange_n(&capturing_process, &process, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void leat_capture_leave() {
    const int saved_errno = errno;
    leave_parent();
    errno = saved_errno;
}

uint32_t leat_capture_control_changes() { return control_changes(); }

void leat_capture_control_files(void (*found)(const char* path, void* context), void* context) {
    for (const ControlMemory* memory = first_memory(); memory != nullptr; memory = memory->next_of_all) {
        if (memory->tracepoint_count == 0) continue;
        char path[kMaxAppPath];
        found(copy_path(*memory, path), context);
    }
    for (uint32_t i = unreachable_modules(); i > 0; --i) found(nullptr, context);
}

bool leat_capture_attach(const void* message, const void* names, int ring_set_fd, int clock_fd) {
    const int saved_errno = errno;
    const AttachLock lock(kAttachPatience);
    const bool is_attached =
        lock.is_held() && attach_channel(*static_cast<const wire::ChannelMessage*>(message), ring_set_fd, clock_fd,
                                         static_cast<const wire::AppContextNames*>(names)) != nullptr;
    errno = saved_errno;
    return is_attached;
}

void leat_capture_detach(uint32_t channel) {
    const int saved_errno = errno;
    {
        const AttachLock lock(kAttachPatience);
        if (lock.is_held()) detach_channel(channel);
    }
    errno = saved_errno;
}

uint32_t leat_capture_process() { return process_number(); }
