// The memory that a module's tracepoints share with daemons: descriptions, which they read, and words, which they
// write. Layout: wire/app/control_format.hpp.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "leat/abi.h"
#include "tracer/app_directory.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {

// One mapping, made for some tracepoints of one module. Never unmapped: while a process exits, or a library is
// unloaded, other threads may still be between their test of a word and their record. What an unloaded library leaves
// serves the next one that is loaded.
struct ControlMemory {
    ControlMemory* next;         // of the module, or of those that serve nobody
    ControlMemory* next_of_all;  // that were ever made
    uint64_t reserved;           // bytes of address space from `file` on
    uint64_t tracepoint_count;
    uint64_t descriptions_size;
    uint64_t sticky_slots;
    char* file;              // where the file is mapped
    uint32_t process;        // process_number() of the one that made it
    char path[kMaxAppPath];  // of the file, where daemons find it; empty: they do not

    [[nodiscard]] wire::ControlLayout layout() const { return {tracepoint_count, descriptions_size, sticky_slots}; }
    [[nodiscard]] wire::ControlFileHeader& header() const {
        return *reinterpret_cast<wire::ControlFileHeader*>(file);  // NOLINT(*-reinterpret-cast)
    }
    [[nodiscard]] wire::StickySlot& sticky(uint64_t index) const {
        return *reinterpret_cast<wire::StickySlot*>(file + layout().sticky(index));  // NOLINT(*-reinterpret-cast)
    }
    [[nodiscard]] const wire::ControlEntry& entry(uint64_t index) const {
        return *reinterpret_cast<const wire::ControlEntry*>(file + layout().entry(index));  // NOLINT
    }
};

// Whether that many tracepoints need more memory than a daemon reads at once.
bool is_too_large(const leat_tracepoint* const* tracepoints, size_t count);

// Makes and maps the memory of these tracepoints, all switched off, and passes its descriptor to the caller. It is a
// file in the application directory; where that cannot be, and if there is a recorder, a memfd for the recorder alone.
// nullptr: there is none to be had. Under the RegistrationLock.
ControlMemory* make_control_memory(const leat_tracepoint* const* tracepoints, size_t count, bool has_recorder, int& fd);

// Gives back a list of memories whose tracepoints point elsewhere by now, and removes the files that this process has
// made. Under the RegistrationLock.
void give_back(ControlMemory* memories);

// The same without a system call: files and mappings stay until the process has ended.
void leave_behind(ControlMemory* memories);

// The process is about to end as it means to: whoever finds its files does not take it for crashed. Any thread;
// async-signal-safe. In a child of vfork, whose memory is its parent's, it does nothing.
void mark_all_ended();

// Where the entry that a tracepoint's word begins lies: its memory and number. Not for the common case: it looks
// through the list of all memories. Any thread; async-signal-safe.
struct ControlPlace {
    const ControlMemory* memory;  // nullptr: it is in none
    uint64_t index;
};
ControlPlace find_place(const wire::ControlEntry& entry);

// For control_renewal.cpp. All of it is async-signal-safe and changes errno.

// All memories, in use or not: the first, and each one's next_of_all. The list grows only, so anybody may walk it at
// any time, also in a child of fork() whose parent had other threads.
ControlMemory* first_memory();

// A module's tracepoints got no memory: there was no place for their file, and nobody can switch them on.
void note_unreachable();
// How many times.
uint32_t unreachable_modules();

// Who we are, into a header of zeros.
void describe_process(wire::ControlFileHeader& header);

// Maps another file of the same layout in place of the memory's.
bool replace_file(const ControlMemory& memory, int fd);
// Puts zeros there: everything is off.
void replace_by_zeros(const ControlMemory& memory);

// Daemons find the file there from now on; nullptr: they do not.
void set_path(ControlMemory& memory, const char* path);
// It has no path any more, and its file goes if that is ours. The path goes first: whoever finds no file at a path that
// is there takes it for removed by others. To be called before the file's lock goes with the mapping, so that nobody
// finds a dead program. A child of a fork leaves the file to its parent.
void remove_file(ControlMemory& memory);

// Counts up when a path is set.
uint32_t control_changes();

}  // namespace leat::tracer
