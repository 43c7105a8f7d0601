// The protocol between an application's tracer library and the daemon. See docs/formats/app-protocol.md.
//
// Freestanding, because the tracer library includes this. Types have fixed widths and are the same for 32- and 64-bit
// programs.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ring/event_header.hpp"

namespace leat::wire {

inline constexpr uint32_t kAppMagic = 0x5041'454c;  // "LEAP"
// Of all that an application and a daemon share: these messages, control memory, the description table, ring set and
// clock page.
inline constexpr uint16_t kAppVersion = 3;

// The daemon's SOCK_SEQPACKET socket in its runtime directory.
inline constexpr char kAppSocketName[] = "app.sock";
inline constexpr char kRuntimeDirectoryVariable[] = "LEAT_RUNTIME_DIR";

inline constexpr uint32_t kProcnameSize = 17;  // LTTng's: the kernel's 16 and a NUL

// Contexts of a channel, in the order in which they lie in a record.
inline constexpr uint32_t kContextVpid = 1;      // i32
inline constexpr uint32_t kContextVtid = 2;      // i32
inline constexpr uint32_t kContextProcname = 4;  // text of kProcnameSize bytes
inline constexpr uint32_t kContextIp = 8;        // u64: an address in the code of the site
inline constexpr uint32_t kDefaultContexts = kContextVpid | kContextVtid | kContextProcname;
inline constexpr uint32_t kAllContexts = kDefaultContexts | kContextIp;

// Bytes of these contexts in a record.
constexpr uint32_t context_size(uint32_t contexts) {
    return ((contexts & kContextVpid) != 0 ? 4U : 0U) + ((contexts & kContextVtid) != 0 ? 4U : 0U) +
           ((contexts & kContextProcname) != 0 ? kProcnameSize : 0U) + ((contexts & kContextIp) != 0 ? 8U : 0U);
}
inline constexpr uint32_t kMaxContextSize = context_size(kAllContexts);

enum class AppMessageType : uint16_t {
    kRegister = 1,          // application -> daemon; carries the descriptor of its control memory
    kRegistrationDone = 2,  // daemon -> application: everything is switched as it should be
    kModuleRefused = 3,     // application -> daemon: it has tracepoints that its tracer library does not understand
    kChannel = 4,           // daemon -> application; carries the descriptors of a channel
};

struct AppMessageHeader {
    uint32_t magic;
    uint16_t version;
    AppMessageType type;
};

// Sent when a program starts, and when a library brings new tracepoints; who and what it is, its control memory says.
// Each has a connection of its own, so a program keeps no descriptor of ours that it might close, reuse or hand on.
struct RegisterMessage {
    AppMessageHeader header;
};
static_assert(sizeof(RegisterMessage) == 8);

// A program or library was compiled with headers whose leat_module is another than its tracer library's: the library
// left it alone. Somebody should be told; there is no answer but the end of the connection.
struct ModuleRefusedMessage {
    AppMessageHeader header;
    uint32_t module_abi;   // LEAT_ABI_VERSION of the headers
    uint32_t library_abi;  // and of the library
};
static_assert(sizeof(ModuleRefusedMessage) == 16 && offsetof(ModuleRefusedMessage, module_abi) == 8);

// A channel that the application's events go to: any number of these come before "registration done". Each carries two
// descriptors: ring set, clock page.
struct ChannelMessage {
    AppMessageHeader header;
    uint32_t number;  // as in Action; the application keeps the rings of a number that it knows
    ring::HeaderKind header_kind;
    uint32_t contexts;  // kContext... bits
    uint32_t cpu_ring_count;
    uint64_t ring_size;  // bytes of records in each ring
    uint32_t thread_ring_count;
    uint32_t unused;
};
static_assert(sizeof(ChannelMessage) == 40 && offsetof(ChannelMessage, ring_size) == 24);
inline constexpr uint32_t kChannelDescriptors = 2;

// The words in the application's control memory are set, and it has been told of all channels. It now goes on.
struct RegistrationDoneMessage {
    AppMessageHeader header;
};
static_assert(sizeof(RegistrationDoneMessage) == 8);

inline constexpr uint32_t kNotEnabled = 0xffff'ffff;  // instead of an event id

}  // namespace leat::wire
