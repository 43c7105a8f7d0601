#include "tracer/control_renewal.hpp"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/app_directory.hpp"
#include "tracer/capture_link.hpp"
#include "tracer/control_memory.hpp"
#include "tracer/daemon_link.hpp"
#include "tracer/descriptors.hpp"
#include "tracer/process_page.hpp"
#include "tracer/sandbox.hpp"
#include "tracer/trust.hpp"

namespace leat::tracer {
namespace {

using wire::ControlEntry;
using wire::kLanes;
using wire::Lane;

// A fork() should not take longer because a program has a great many tracepoints: its children share such a file.
constexpr uint64_t kMaxSizeForChild = 256U << 10;

// An entry is given up if its word changes this often while it is copied.
constexpr int kMaxLooks = 100;

// `size`: of a register's width, which a bare system call goes by.
bool write_at(int fd, const void* bytes, size_t size, uint64_t offset) {
    return syscall(SYS_pwrite64, fd, bytes, size, static_cast<off_t>(offset)) == static_cast<long>(size);
}

// From a control memory that daemons may be switching into a new file.
class Copy {
  public:
    // `with_daemons`: what they have switched on stays on. What the recorder has does in any case: it does not look for
    // files, so nobody would switch it on again. A capture is the parent's own.
    // `has_name`: whoever looks for files finds this one. A capture does.
    Copy(const ControlMemory& from, int fd, bool with_daemons, bool has_name)
        : from_(from),
          fd_(fd),
          with_daemons_(with_daemons),
          with_capture_(has_name && from.process == process_number()) {}

    bool run() { return write_header() && copy_sticky_values() && copy_entries() && copy_descriptions(); }

  private:
    bool write_header() const {
        wire::ControlFileHeader header{};
        describe_process(header);
        header.tracepoint_count = static_cast<uint32_t>(from_.tracepoint_count);
        header.descriptions_size = static_cast<uint32_t>(from_.descriptions_size);
        header.sticky_slots = static_cast<uint32_t>(from_.sticky_slots);
        return write_at(fd_, &header, sizeof header, 0);
    }

    // A value that another thread of the parent was writing at the fork is in pieces for good.
    bool copy_sticky_values() const {
        for (uint64_t i = 0; i < from_.sticky_slots; ++i) {
            wire::StickySlot slot = from_.sticky(i);
            if (slot.sequence == 0) continue;
            if (slot.sequence % 2 != 0) {
                slot = {};
                slot.sequence = 2;
                slot.tracepoint = wire::kNoTracepoint;
            }
            if (!write_at(fd_, &slot, sizeof slot, from_.layout().sticky(i))) return false;
        }
        return true;
    }

    // Straight from the mapping: a page that is not there is an error of the call.
    bool copy_descriptions() const {
        const uint64_t begin = from_.layout().descriptions();
        return write_at(fd_, from_.file + begin, from_.descriptions_size, begin);
    }

    bool copy_entries() const {
        constexpr uint64_t kAtOnce = 32;
        ControlEntry entries[kAtOnce];
        for (uint64_t first = 0; first < from_.tracepoint_count; first += kAtOnce) {
            const uint64_t left = from_.tracepoint_count - first;
            const uint64_t count = left < kAtOnce ? left : kAtOnce;
            for (uint64_t i = 0; i < count; ++i)
                if (!copy_entry(first + i, entries[i])) return false;
            if (!write_at(fd_, entries, count * sizeof(ControlEntry), from_.layout().entry(first))) return false;
        }
        return true;
    }

    // As it is between two looks at its word.
    bool copy_entry(uint64_t index, ControlEntry& copy) const {
        const ControlEntry& entry = from_.entry(index);
        for (int look = 0; look < kMaxLooks; ++look) {
            // P, as in write_x86_64.S.
            const uint32_t word = __atomic_load_n(&entry.word, __ATOMIC_ACQUIRE);
            memcpy(&copy, &entry, sizeof copy);
            copy.word = word;
            if (!with_daemons_) {
                switch_off(copy, Lane::kSystem);
                switch_off(copy, Lane::kUser);
            }
            if (captures_itself() && !with_capture_) switch_off(copy, Lane::kRecorder);
            if (!copy_more_actions(index, copy)) return false;
            // For the compiler: x86 keeps loads in order.
            __atomic_signal_fence(__ATOMIC_SEQ_CST);
            if (__atomic_load_n(&entry.word, __ATOMIC_RELAXED) == word) return true;
        }
        return false;
    }

    static void switch_off(ControlEntry& copy, Lane which) {
        const auto lane = static_cast<uint32_t>(which);
        const uint8_t byte = wire::lane_byte(copy.word, lane);
        if (byte != 0) copy.last[lane] = byte;
        copy.word &= ~(uint32_t{0xff} << (8 * lane));
    }

    // Of the lists in force. Elsewhere there may be a hole.
    bool copy_more_actions(uint64_t index, const ControlEntry& copy) const {
        for (uint32_t lane = 0; lane < kLanes; ++lane) {
            const uint8_t byte = wire::lane_byte(copy.word, lane);
            if ((byte & wire::kManyActions) == 0) continue;
            const uint32_t list = wire::list_of(byte);
            const uint64_t at = from_.layout().more_actions(index) + (2 * lane + list) * sizeof(wire::MoreActions) / 6;
            const uint64_t count = copy.more[lane][list] < wire::kMaxActions ? copy.more[lane][list] : 0;
            if (count != 0 && !write_at(fd_, from_.file + at, count * sizeof(wire::Action), at)) return false;
        }
        return true;
    }

    const ControlMemory& from_;
    int fd_;
    bool with_daemons_;
    bool with_capture_;
};
static_assert(sizeof(wire::MoreActions) % (2 * size_t{kLanes}) == 0);

bool is_of_same_user(const char* path, const char* other) {
    const auto length = static_cast<size_t>(strrchr(path, '/') - path);
    return strncmp(path, other, length + 1) == 0;
}

bool is_of_effective_user(const ControlMemory& memory) {
    char directory[kMaxAppPath];
    if (!app_directory_beside(memory.path, directory)) return false;
    const size_t length = strlen(directory);
    return strncmp(memory.path, directory, length) == 0 && memory.path[length] == '/';
}

// The file is filled. Whoever looks at the words meanwhile finds those of before or the new ones, which are the same,
// or off. False: there is no memory for it.
bool take_over(ControlMemory& memory, int fd) {
    // In another user's directory we may be no longer allowed to: whoever clears away there does it.
    remove_file(memory);
    memory.process = process_number();
    if (replace_file(memory, fd)) return true;
    replace_by_zeros(memory);
    return false;
}

// False: it is as it was.
bool renew(ControlMemory& memory) {
    AppFile file;
    if (!file.create_beside(memory.path, memory.layout().more_actions(0), memory.layout().size())) return false;
    const bool is_same_user = is_of_same_user(memory.path, file.path());
    const StickyLock lock;
    if (!Copy(memory, file.fd(), is_same_user, true).run()) return false;
    // Before the old one is left: a daemon that sees that nobody has that one any more finds this one.
    const bool is_published = file.publish();
    if (!take_over(memory, file.fd())) return true;
    // What nobody finds nobody could ever switch off.
    if (is_published)
        set_path(memory, file.path());
    else
        replace_by_zeros(memory);
    return true;
}

// Where there is no place for a file, the recorder's events go on, and those of daemons end.
void renew_without_name(ControlMemory& memory) {
    const StickyLock lock;
    const int fd = beyond_standard(static_cast<int>(syscall(SYS_memfd_create, "leat-control", MFD_CLOEXEC)));
    const wire::ControlLayout layout = memory.layout();
    if (fd >= 0 && may_have_files_of(layout.size()) && make_room(fd, layout.more_actions(0), layout.size()) &&
        Copy(memory, fd, false, false).run()) {
        (void)take_over(memory, fd);
    } else {
        set_path(memory, nullptr);
        replace_by_zeros(memory);
    }
    if (fd >= 0) syscall(SYS_close, fd);
}

bool has_file(const ControlMemory& memory) {
    // DD: the path is whole, and the memory is in use. Pairs with CC in set_path().
    return __atomic_load_n(memory.path, __ATOMIC_ACQUIRE) != '\0';
}

bool is_parents(const ControlMemory& memory) { return has_file(memory) && memory.process != process_number(); }

bool has_parents_memory() {
    for (const ControlMemory* memory = first_memory(); memory != nullptr; memory = memory->next_of_all)
        if (is_parents(*memory)) return true;
    return false;
}

// The daemon of the new user gets to know the program before it goes on, and root's again: as at a start.
void register_all() {
    for (ControlMemory* memory = first_memory(); memory != nullptr; memory = memory->next_of_all) {
        if (!has_file(*memory)) continue;
        const int fd = beyond_standard(
            static_cast<int>(syscall(SYS_openat, AT_FDCWD, memory->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC)));
        if (fd < 0) continue;
        register_again(*memory, fd);
        syscall(SYS_close, fd);
    }
}

}  // namespace

void watch_forks() { (void)pthread_atfork(nullptr, nullptr, renew_in_child); }

void renew_in_child() {
    if (is_sandboxed()) return;
    const int saved_errno = errno;
    for (ControlMemory* memory = first_memory(); memory != nullptr; memory = memory->next_of_all)
        if (has_file(*memory) && memory->layout().more_actions(0) <= kMaxSizeForChild) (void)renew(*memory);
    errno = saved_errno;
}

void renew_for_user() {
    // A child of vfork() runs in its parent's memory, whose user is the former one. A handler that interrupts a thread
    // that loads a library cannot wait for it.
    const int saved_errno = errno;
    if (is_effective_user_trusted() && !is_guest() && !RegistrationLock::is_ours()) {
        const RegistrationLock lock;
        bool is_changed = false;
        for (ControlMemory* memory = first_memory(); memory != nullptr; memory = memory->next_of_all) {
            if (!has_file(*memory)) continue;
            const bool is_at_its_place = is_of_effective_user(*memory);
            // A child that was forked by a process that was not where it belonged has had no place for its own.
            const bool is_due = is_parents(*memory) && memory->layout().more_actions(0) <= kMaxSizeForChild;
            if (is_at_its_place && !is_due) continue;
            is_changed = true;
            if (!renew(*memory) && !is_at_its_place) renew_without_name(*memory);
        }
        begin_new_generation();
        if (is_changed) register_all();
    }
    errno = saved_errno;
}

void renew_for_capture() {
    if (!has_parents_memory() || is_guest() || RegistrationLock::is_ours()) return;
    const RegistrationLock lock;
    for (ControlMemory* memory = first_memory(); memory != nullptr; memory = memory->next_of_all)
        if (is_parents(*memory)) (void)renew(*memory);
}

}  // namespace leat::tracer
