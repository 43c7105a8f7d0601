// The memory that a module's tracepoints share with daemons: descriptions, which they read, and words, which they
// write. Layout: wire/app/control_format.hpp.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "leat/abi.h"
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
    char* file;  // where the file is mapped

    [[nodiscard]] wire::ControlLayout layout() const { return {tracepoint_count, descriptions_size}; }
    [[nodiscard]] wire::ControlFileHeader& header() const {
        return *reinterpret_cast<wire::ControlFileHeader*>(file);  // NOLINT(*-reinterpret-cast)
    }
    [[nodiscard]] const wire::ControlEntry& entry(uint64_t index) const {
        return *reinterpret_cast<const wire::ControlEntry*>(file + layout().entry(index));  // NOLINT
    }
};

// Whether that many tracepoints need more memory than a daemon reads at once.
bool is_too_large(const leat_tracepoint* const* tracepoints, size_t count);

// Makes and maps the memory of these tracepoints, all switched off, and passes its descriptor to the caller. nullptr:
// there is none to be had. Under the RegistrationLock.
ControlMemory* make_control_memory(const leat_tracepoint* const* tracepoints, size_t count, int& fd);

// Gives back a list of memories whose tracepoints point elsewhere by now. Under the RegistrationLock.
void give_back(ControlMemory* memories);

// Where the entry that a tracepoint's word begins lies: its memory and number. Not for the common case: it looks
// through the list of all memories. Any thread; async-signal-safe.
struct ControlPlace {
    const ControlMemory* memory;  // nullptr: it is in none
    uint64_t index;
};
ControlPlace find_place(const wire::ControlEntry& entry);

}  // namespace leat::tracer
