#include "tracer/app_contexts.hpp"

#include <errno.h>
#include <string.h>

#include "tracer/channel.hpp"
#include "tracer/process_page.hpp"
#include "tracer/running_call.hpp"

namespace leat::tracer {
namespace {

static_assert(LEAT_CONTEXT_STRING_MAX == wire::kMaxAppContextString);
static_assert(LEAT_CONTEXT_NONE == static_cast<int>(wire::AppContextTag::kNone));
static_assert(LEAT_CONTEXT_INT64 == static_cast<int>(wire::AppContextTag::kInt64));
static_assert(LEAT_CONTEXT_UINT64 == static_cast<int>(wire::AppContextTag::kUint64));
static_assert(LEAT_CONTEXT_DOUBLE == static_cast<int>(wire::AppContextTag::kDouble));
static_assert(LEAT_CONTEXT_STRING == static_cast<int>(wire::AppContextTag::kString));

struct Slot {
    char name[wire::kAppContextNameSize];  // empty: free, and so are all that follow
    const leat_context* context;           // nullptr: nobody provides it
};
// Names under the AttachLock; contexts change at any time.
Slot slots[kContextSlots];

// Of the thread, see running_call.hpp: get() is running. The events that it emits must not call it again.
constinit thread_local __attribute__((tls_model("initial-exec"))) uintptr_t asking_frame = 0;
static_assert(sizeof(CallWriter) > kDepthWithin, "lies between get() and that of an event which it emits");

// The bytes of a text that go into a record: not more than there is room for, and no character in parts. Another thread
// may be changing it: so each byte is read once.
uint32_t copy_text(char* to, const char* text) {
    uint32_t size = 0;
    while (size <= wire::kMaxAppContextString && (to[size] = __atomic_load_n(&text[size], __ATOMIC_RELAXED)) != '\0')
        ++size;
    if (size <= wire::kMaxAppContextString) return size;
    --size;
    const auto is_inside = [&](uint32_t at) { return (static_cast<uint8_t>(to[at]) & 0xc0) == 0x80; };
    constexpr uint32_t kLongestTail = 3;  // of a character, after its first byte
    uint32_t begin = size;
    while (is_inside(begin) && size - begin < kLongestTail) --begin;
    return is_inside(begin) ? size : begin;
}

void append_tagged(CallWriter& writer, wire::AppContextTag tag, const void* value, uint64_t size) {
    writer.roomy.append(&tag, sizeof tag);
    if (size != 0) writer.roomy.append(value, size);
}

void append_text(CallWriter& writer, const char* text) {
    char copy[wire::kMaxAppContextString + 1];
    const uint32_t size = copy_text(copy, text);
    copy[size] = '\0';
    append_tagged(writer, wire::AppContextTag::kString, copy, size + 1);
}

void append_value(CallWriter& writer, const leat_context_value& value) {
    const bool is_number = value.kind >= LEAT_CONTEXT_INT64 && value.kind <= LEAT_CONTEXT_DOUBLE;
    if (is_number)
        append_tagged(writer, static_cast<wire::AppContextTag>(value.kind), &value.as, sizeof value.as.uint64);
    else if (value.kind == LEAT_CONTEXT_STRING && value.as.string != nullptr)
        append_text(writer, value.as.string);
    else
        append_tagged(writer, wire::AppContextTag::kNone, nullptr, 0);
}

leat_context_value ask(uint32_t slot) {
    leat_context_value value{};
    if (slot == kContextSlots || runs_around(asking_frame, own_frame())) return value;
    // FF: what the context says of itself is there. Pairs with EE in leat_context_provide().
    const leat_context* const context = __atomic_load_n(&slots[slot].context, __ATOMIC_ACQUIRE);
    if (context == nullptr) return value;
    asking_frame = own_frame();
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    context->get(context, &value);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    asking_frame = 0;
    return value;
}

}  // namespace

uint32_t slot_of(const char* name) {
    uint32_t slot = 0;
    while (slot < kContextSlots && slots[slot].name[0] != '\0' && strcmp(slots[slot].name, name) != 0) ++slot;
    if (slot < kContextSlots) strcpy(slots[slot].name, name);
    return slot;
}

void append_app_contexts(CallWriter& writer, const Channel& channel) {
    const int saved_errno = errno;
    for (uint32_t i = 0; i < channel.app_context_count; ++i) append_value(writer, ask(channel.app_contexts[i]));
    errno = saved_errno;
}

}  // namespace leat::tracer

using namespace leat;
using namespace leat::tracer;

namespace {

// Nobody has the AttachLock for longer than it takes to fetch a channel.
constexpr uint64_t kPatience = 1'000'000'000;  // ns

uint32_t slot_of(const leat_context& context) {
    if (context.name == nullptr ||
        !wire::is_app_context_name(context.name, strnlen(context.name, wire::kAppContextNameSize)))
        return kContextSlots;
    const AttachLock lock(kPatience);
    return lock.is_held() ? tracer::slot_of(context.name) : kContextSlots;
}

}  // namespace

int leat_context_provide(const leat_context* context) {
    const int saved_errno = errno;
    make_process_page();
    const uint32_t slot = slot_of(*context);
    errno = saved_errno;
    if (slot == kContextSlots) return -1;
    // EE: pairs with FF in ask().
    __atomic_store_n(&slots[slot].context, context, __ATOMIC_RELEASE);
    return 0;
}

void leat_context_withdraw(const leat_context* context) {
    for (Slot& slot : slots) {
        const leat_context* known = context;
        __atomic_compare_exchange_n(&slot.context, &known, nullptr, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
}
