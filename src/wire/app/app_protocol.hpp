// The protocol between an application's tracer library and the daemon. See docs/formats/app-protocol.md.
//
// Freestanding, because the tracer library includes this. Types have fixed widths and are the same for 32- and 64-bit
// programs.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ring/event_header.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::wire {

inline constexpr uint32_t kAppMagic = 0x5041'454c;  // "LEAP"
// Of all that an application and a daemon share: these messages, control memory, the description table, ring set and
// clock page.
inline constexpr uint16_t kAppVersion = 5;

inline constexpr uint32_t kProcnameSize = 17;  // LTTng's: the kernel's 16 and a NUL

// Contexts of a channel.
inline constexpr uint32_t kContextVpid = 1U << 0;
inline constexpr uint32_t kContextVtid = 1U << 1;
inline constexpr uint32_t kContextProcname = 1U << 2;
inline constexpr uint32_t kContextIp = 1U << 3;
inline constexpr uint32_t kContextPthreadId = 1U << 4;
inline constexpr uint32_t kContextVuid = 1U << 5;
inline constexpr uint32_t kContextVeuid = 1U << 6;
inline constexpr uint32_t kContextVsuid = 1U << 7;
inline constexpr uint32_t kContextVgid = 1U << 8;
inline constexpr uint32_t kContextVegid = 1U << 9;
inline constexpr uint32_t kContextVsgid = 1U << 10;
inline constexpr uint32_t kContextCgroupNs = 1U << 11;
inline constexpr uint32_t kContextIpcNs = 1U << 12;
inline constexpr uint32_t kContextMntNs = 1U << 13;
inline constexpr uint32_t kContextNetNs = 1U << 14;
inline constexpr uint32_t kContextPidNs = 1U << 15;
inline constexpr uint32_t kContextTimeNs = 1U << 16;
inline constexpr uint32_t kContextUserNs = 1U << 17;
inline constexpr uint32_t kContextUtsNs = 1U << 18;
inline constexpr uint32_t kDefaultContexts = kContextVpid | kContextVtid | kContextProcname;

struct ContextKind {
    uint32_t bit;
    uint32_t size;
    char name[12];
};

// In the order in which they lie in a record: first those that a thread keeps ready, then those that differ from call
// to call. Nothing is aligned. Names and types are LTTng's.
inline constexpr ContextKind kContextKinds[] = {
    {kContextVpid, 4, "vpid"},  // i32
    {kContextVtid, 4, "vtid"},
    {kContextProcname, kProcnameSize, "procname"},  // text
    {kContextPthreadId, 8, "pthread_id"},           // u64: what pthread_self() returns
    {kContextVuid, 4, "vuid"},                      // u32: real, effective and saved user
    {kContextVeuid, 4, "veuid"},
    {kContextVsuid, 4, "vsuid"},
    {kContextVgid, 4, "vgid"},  // u32: and group
    {kContextVegid, 4, "vegid"},
    {kContextVsgid, 4, "vsgid"},
    {kContextCgroupNs, 8, "cgroup_ns"},  // u64: inodes of the thread's namespaces; 0: the kernel does not say
    {kContextIpcNs, 8, "ipc_ns"},
    {kContextMntNs, 8, "mnt_ns"},
    {kContextNetNs, 8, "net_ns"},
    {kContextPidNs, 8, "pid_ns"},
    {kContextTimeNs, 8, "time_ns"},
    {kContextUserNs, 8, "user_ns"},
    {kContextUtsNs, 8, "uts_ns"},
    {kContextIp, 8, "ip"},  // u64: an address in the code of the site
};
inline constexpr uint32_t kAllContexts = (1U << 19) - 1;

// Bytes of these contexts in a record.
constexpr uint32_t context_size(uint32_t contexts) {
    uint32_t size = 0;
    for (const ContextKind& kind : kContextKinds)
        if ((contexts & kind.bit) != 0) size += kind.size;
    return size;
}
inline constexpr uint32_t kMaxContextSize = context_size(kAllContexts);

// Contexts of the application come last, in the order of the channel: a tag each, then as many bytes as it says. So
// records differ in size.
inline constexpr uint32_t kContextApp = 1U << 19;
// Those that differ from call to call.
inline constexpr uint32_t kContextsOfCall = kContextIp | kContextApp;
using ring::AppContextTag;
inline constexpr uint32_t kAppContextTags = 5;
inline constexpr uint32_t kMaxAppContextString = 63;  // bytes, without the NUL
inline constexpr uint32_t kMaxAppContextSize = 1 + kMaxAppContextString + 1;
inline constexpr uint32_t kMaxAppContexts = 8;       // of a channel
inline constexpr uint32_t kAppContextNameSize = 64;  // with a NUL

// Whether these are PROVIDER:NAME, of letters, digits and underscores.
constexpr bool is_app_context_name(const char* name, size_t size) {
    size_t colon = 0;
    size_t colons = 0;
    for (size_t i = 0; i < size; ++i) {
        const char c = name[i];
        const bool is_of_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        if (c == ':') {
            ++colons;
            colon = i;
        } else if (!is_of_word) {
            return false;
        }
    }
    return size < kAppContextNameSize && colons == 1 && colon != 0 && colon + 1 != size;
}

enum class AppMessageType : uint16_t {
    kRegister = 1,          // application -> recorder; carries the descriptor of its control memory
    kRegistrationDone = 2,  // daemon -> application: everything is switched as it should be
    kModuleRefused = 3,     // application -> daemon: it has tracepoints that its tracer library does not understand
    kChannel = 4,           // daemon -> application; carries the descriptors of a channel
    kAttach = 5,            // application -> daemon: an event goes to a channel that it has not got
    kRegisterFile = 6,      // application -> session daemon, which has its control memory as a file
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

// The same to a session daemon. It opens the file by itself, and takes no descriptors: a descriptor may lead to a file
// system whose server does not answer.
struct RegisterFileMessage {
    AppMessageHeader header;
    uint64_t file;  // the number that its control file is called by, in the directory of its user
};
static_assert(sizeof(RegisterFileMessage) == 16 && offsetof(RegisterFileMessage, file) == 8);

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
    uint32_t number;       // as in Action; the application keeps the rings of a number that it knows
    uint16_t header_kind;  // ring::HeaderKind
    // 1: writers go on over the oldest records. A tracer library that does not know of this takes both for a header
    // kind that it does not know either.
    uint16_t overwrites;
    uint32_t contexts;  // kContext... bits
    uint32_t cpu_ring_count;
    uint64_t ring_size;  // bytes of records in each ring
    uint32_t thread_ring_count;
    // How long a writer that finds its ring full may wait for room, if its program allows that; 0: not at all.
    uint32_t blocking_timeout_us;
};
static_assert(sizeof(ChannelMessage) == 40 && offsetof(ChannelMessage, ring_size) == 24);
static_assert(offsetof(ChannelMessage, blocking_timeout_us) == 36);
inline constexpr uint32_t kNoBlocking = 0;
inline constexpr uint32_t kBlocksForever = 0xffff'ffff;
inline constexpr uint32_t kChannelDescriptors = 2;

// Follows a ChannelMessage whose contexts have kContextApp, in the same message.
struct AppContextNames {
    uint32_t count;  // 1 or more
    uint32_t unused;
    char names[kMaxAppContexts][kAppContextNameSize];  // each ends with a NUL
};
static_assert(sizeof(AppContextNames) == 520);

// The answer is a ChannelMessage, or the end of the connection: there is no such channel, or it is another user's.
struct AttachMessage {
    AppMessageHeader header;
    uint32_t number;  // of the channel
    uint32_t unused;
};
static_assert(sizeof(AttachMessage) == 16 && offsetof(AttachMessage, number) == 8);

// The words in the application's control memory are set, and it has been told of all channels. It now goes on.
struct RegistrationDoneMessage {
    AppMessageHeader header;
};
static_assert(sizeof(RegistrationDoneMessage) == 8);

inline constexpr uint32_t kNotEnabled = 0xffff'ffff;  // instead of an event id

}  // namespace leat::wire
