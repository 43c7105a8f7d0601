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
// Of all that an application and a daemon share: these messages, the description table, ring set and clock page.
inline constexpr uint16_t kAppVersion = 2;

// The daemon's SOCK_SEQPACKET socket in its runtime directory.
inline constexpr char kAppSocketName[] = "app.sock";
inline constexpr char kRuntimeDirectoryVariable[] = "LEAT_RUNTIME_DIR";

inline constexpr uint32_t kProcnameSize = 17;  // LTTng's: the kernel's 16 and a NUL

// Contexts of a channel, in the order in which they lie in a record.
inline constexpr uint32_t kContextVpid = 1;      // i32
inline constexpr uint32_t kContextVtid = 2;      // i32
inline constexpr uint32_t kContextProcname = 4;  // text of kProcnameSize bytes
inline constexpr uint32_t kAllContexts = kContextVpid | kContextVtid | kContextProcname;
inline constexpr uint32_t kMaxContextSize = 4 + 4 + kProcnameSize;

enum class AppMessageType : uint16_t {
    kRegister = 1,          // application -> daemon; carries the description table's descriptor
    kRegistrationDone = 2,  // daemon -> application; carries the descriptors of an active session
    kModuleRefused = 3,     // application -> daemon: it has tracepoints that its tracer library does not understand
};

struct AppMessageHeader {
    uint32_t magic;
    uint16_t version;
    AppMessageType type;
};

// Sent when a program starts, and when a library brings new tracepoints. Each has a connection of its own, so a program
// keeps no descriptor of ours that it might close, reuse or hand on.
struct RegisterMessage {
    AppMessageHeader header;
    uint32_t pid;      // for people; the daemon trusts SO_PEERCRED only
    uint32_t bitness;  // 32 or 64
    char procname[kProcnameSize];
    char unused[7];
};
static_assert(sizeof(RegisterMessage) == 40 && offsetof(RegisterMessage, procname) == 16);

// A program or library was compiled with headers whose leat_module is another than its tracer library's: the library
// left it alone. Somebody should be told; there is no answer but the end of the connection.
struct ModuleRefusedMessage {
    AppMessageHeader header;
    uint32_t module_abi;   // LEAT_ABI_VERSION of the headers
    uint32_t library_abi;  // and of the library
};
static_assert(sizeof(ModuleRefusedMessage) == 16 && offsetof(ModuleRefusedMessage, module_abi) == 8);

// The daemon has set up everything for the application, which now goes on. If a session is active, the message says
// what to write, and carries three descriptors in this order: event ids, ring set, clock page. If none is, is_active is
// 0 and no descriptors follow.
struct RegistrationDoneMessage {
    AppMessageHeader header;
    uint64_t session_id;  // not 0; for the same session, the application keeps the rings it has mapped
    uint32_t is_active;
    ring::HeaderKind header_kind;
    uint32_t contexts;  // kContext... bits
    uint32_t cpu_ring_count;
    uint64_t ring_size;  // bytes of records in each ring
    uint32_t thread_ring_count;
    uint32_t unused;
};
static_assert(sizeof(RegistrationDoneMessage) == 48 && offsetof(RegistrationDoneMessage, session_id) == 8);
inline constexpr uint32_t kRegistrationDoneDescriptors = 3;

// The event ids memfd: an array of uint32_t, one for each entry of the description table, in its order.
inline constexpr uint32_t kNotEnabled = 0xffff'ffff;

}  // namespace leat::wire
