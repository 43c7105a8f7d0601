// Sticky events: their last values lie in the control memory, where daemons find them. See
// docs/formats/sticky-values.md.
#include <errno.h>
#include <string.h>

#include "leat/abi.h"
#include "tracer/control_memory.hpp"
#include "tracer/process_page.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {
namespace {

using wire::StickySlot;

// What a value belongs to. By name, as each source file that includes a header has a tracepoint of its own.
struct ValueOf {
    uint64_t name;
    uint64_t key;
};

// FNV-1a, 64 bits.
uint64_t hash_of(const char* name) {
    uint64_t hash = 0xcbf2'9ce4'8422'2325;
    for (; *name != '\0'; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100'0000'01b3;
    return hash;
}

// Counts the values of this process, whatever library they are of. Under the StickyLock.
uint32_t last_order = 0;

// Daemons read the slot at any time: they see that it is being written by its odd sequence. 0 stays "never used".
class SlotChange {
  public:
    explicit SlotChange(StickySlot& slot) : slot_(slot), odd_(slot.sequence | 1) {
        // AE: who sees anything of the new value sees that the sequence has changed. Pairs with AF in
        // read_sticky_values(). An exchange, because nothing that follows may come before it.
        (void)__atomic_exchange_n(&slot_.sequence, odd_, __ATOMIC_ACQ_REL);
    }
    ~SlotChange() {
        const uint32_t next = odd_ + 1;
        // AE, as above: the value is whole before the sequence says so.
        __atomic_store_n(&slot_.sequence, next != 0 ? next : 2, __ATOMIC_RELEASE);
    }
    SlotChange(const SlotChange&) = delete;
    SlotChange& operator=(const SlotChange&) = delete;

  private:
    StickySlot& slot_;
    uint32_t odd_;
};

bool is_free(const StickySlot& slot) { return slot.sequence == 0 || slot.tracepoint == wire::kNoTracepoint; }

struct Slots {
    StickySlot* of_value;  // nullptr: it has none
    StickySlot* free;      // nullptr: all are taken
};

// Slots are taken from the first on, so there is nothing after one that was never used.
Slots find_slots(const ControlMemory& memory, const ValueOf& value) {
    Slots found{nullptr, nullptr};
    for (uint64_t i = 0; i < memory.sticky_slots; ++i) {
        StickySlot& slot = memory.sticky(i);
        if (is_free(slot)) {
            if (found.free == nullptr) found.free = &slot;
        } else if (slot.name == value.name && slot.key == value.key) {
            found.of_value = &slot;
        }
        if (slot.sequence == 0 || found.of_value != nullptr) break;
    }
    return found;
}

void forget(StickySlot& slot) {
    const SlotChange change(slot);
    slot.tracepoint = wire::kNoTracepoint;
}

void count_not_kept(const ControlMemory& memory) { __atomic_add_fetch(&memory.header().not_kept, 1, __ATOMIC_RELAXED); }

void keep(const ControlPlace& place, const ValueOf& value, const void* payload, size_t size) {
    const Slots slots = find_slots(*place.memory, value);
    const bool fits = payload != nullptr && size <= wire::kStickyPayload;
    StickySlot* const slot = slots.of_value != nullptr ? slots.of_value : slots.free;
    if (!fits || slot == nullptr) {
        // Nobody shall take the value of before for the last one.
        if (slots.of_value != nullptr) forget(*slots.of_value);
        return count_not_kept(*place.memory);
    }
    const SlotChange change(*slot);
    slot->tracepoint = static_cast<uint32_t>(place.index);
    slot->name = value.name;
    slot->key = value.key;
    slot->order = ++last_order;
    slot->size = static_cast<uint32_t>(size);
    memcpy(slot->payload, payload, size);
}

// Where the tracepoint's module is not registered, or is being unloaded, there is no place.
ControlPlace place_of(const leat_tracepoint& tracepoint) {
    const uint32_t* const word = __atomic_load_n(&tracepoint.word, __ATOMIC_RELAXED);
    if (word == &tracepoint.off) return {nullptr, 0};
    return find_place(*reinterpret_cast<const wire::ControlEntry*>(word));  // NOLINT(*-reinterpret-cast)
}

}  // namespace
}  // namespace leat::tracer

using namespace leat::tracer;

void leat_stick(const leat_tracepoint* tracepoint, uint64_t key, const void* payload, size_t size) {
    const int saved_errno = errno;
    if (!is_guest()) {
        const StickyLock lock;
        const ControlPlace place = place_of(*tracepoint);
        const bool has_slots = place.memory != nullptr && place.memory->sticky_slots != 0;
        if (has_slots && lock.is_held()) keep(place, {hash_of(tracepoint->name), key}, payload, size);
        if (has_slots && !lock.is_held()) count_not_kept(*place.memory);
    }
    errno = saved_errno;
}

void leat_unstick(const leat_module* module, const char* name, uint64_t key) {
    const int saved_errno = errno;
    if (!is_guest()) {
        const StickyLock lock;
        const ValueOf value{hash_of(name), key};
        const auto* memory = static_cast<const ControlMemory*>(module->registration);
        for (; memory != nullptr; memory = memory->next) {
            if (memory->sticky_slots == 0) continue;
            if (!lock.is_held()) {
                count_not_kept(*memory);
                break;
            }
            const Slots slots = find_slots(*memory, value);
            if (slots.of_value != nullptr) forget(*slots.of_value);
        }
    }
    errno = saved_errno;
}
