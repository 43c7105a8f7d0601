// Control memory: what a program shares with the daemons that may trace it. See docs/formats/control-memory.md.
//
// Freestanding, because the tracer library includes this. The same for 32- and 64-bit programs.
//
// A program makes one such file for each library (or program) that has tracepoints, where daemons find it
// (docs/formats/runtime-directory.md). Daemons read it with pread() and
// write it with pwrite(), and never map it; the program maps it, and reads.
//
//     0         4096            + sticky values   + 64 a tracepoint            + kMoreActionsSize a tracepoint
//     | header  | sticky values   | entries         | description table, to 8 B  | more actions (a hole, mostly) |
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace leat::wire {

inline constexpr uint32_t kControlMagic = 0x4341'454c;  // "LEAC"
inline constexpr uint64_t kControlHeaderSize = 4096;

// Who may switch tracepoints. Each has a byte of its own in every word, so they never get in each other's way.
enum class Lane : uint32_t {
    kSystem,    // root's daemon
    kUser,      // the daemon of the program's user
    kRecorder,  // `leat record`
};
inline constexpr uint32_t kLanes = 3;

struct ControlFileHeader {
    uint32_t magic;
    uint16_t version;  // kAppVersion
    uint16_t bitness;  // 32 or 64
    uint32_t tracepoint_count;
    uint32_t descriptions_size;  // bytes
    uint32_t pid;                // in the program's PID namespace
    char procname[20];           // ends with a NUL
    // Written by the program: events for channels whose rings it has not got, of each lane.
    uint64_t not_attached[kLanes];
    uint32_t sticky_slots;  // 0, or kStickySlots
    uint32_t properties;    // kAllowsBlocking, kEnded, or nothing
    // Written by the program: values of sticky events that found no slot, or do not fit into one.
    uint64_t not_kept;
    // The inode of the program's PID namespace, where processes of other containers may have the same pid. 0: unknown.
    uint32_t pid_namespace;
    uint32_t unused;
};
static_assert(sizeof(ControlFileHeader) == 88 && offsetof(ControlFileHeader, not_attached) == 40);
static_assert(offsetof(ControlFileHeader, sticky_slots) == 64 && offsetof(ControlFileHeader, properties) == 68);
static_assert(offsetof(ControlFileHeader, not_kept) == 72 && offsetof(ControlFileHeader, pid_namespace) == 80);
// The program waits for room in channels that block.
inline constexpr uint32_t kAllowsBlocking = 1;
// It has ended as it meant to, or unloaded the library: it has not crashed.
inline constexpr uint32_t kEnded = 2;

// The last value of a sticky event, for one key. See docs/formats/sticky-values.md.
//
//     sequence    0             nobody has used the slot
//                 odd           it is being written
//                 even          it is as the program left it, until the number changes
//
// Programs write it, daemons read it with pread(): a slot whose sequence is the same before and after is whole.
inline constexpr uint32_t kNoTracepoint = 0xffff'ffff;
inline constexpr uint32_t kStickyPayload = 472;
struct StickySlot {
    uint32_t sequence;
    uint32_t tracepoint;  // its number in this file; kNoTracepoint: the value was taken away
    uint64_t name;        // hash of the event's name: with the key, what the value belongs to
    uint64_t key;
    uint32_t order;  // counts up: values are replayed in the order in which they were set
    uint32_t size;   // bytes of the payload
    char payload[kStickyPayload];
    uint64_t unused;
};
static_assert(sizeof(StickySlot) == 512 && offsetof(StickySlot, key) == 16 && offsetof(StickySlot, payload) == 32);
inline constexpr uint32_t kStickySlots = 128;  // of a library (or program) that has sticky events

// One record to write: into which channel, with which event id. Daemons number channels so that the lowest two bits are
// their lane; 0 is no channel, and no number ever stands for two.
struct Action {
    uint32_t event_id;
    uint32_t channel;

    bool operator==(const Action&) const = default;
};
constexpr Lane lane_of(uint32_t channel) { return static_cast<Lane>(channel & 3); }
inline constexpr uint32_t kMaxActions = 16;  // for one tracepoint, of one lane

// A byte of a word: 0 is off. Otherwise two lists of actions take turns, so that one is at rest while the other is
// written anew:
//
//     bit 0        which of the two lists holds
//     bit 1        it has more than one action
//     bits 2 to 7  count up with each change, from 1 to 63 and again
//
//     daemon     writes list 1      word: 0x09                              writes list 0      word: 0x0c
//     program                                   reads 0x09, list 1, 0x09                                    list 0
//
// Off and on again must not give the byte of before, also if it is another daemon that switches on: a program that was
// stopped in between would take the new list for the old one. So whoever switches off leaves the byte in `last`.
//
// One byte is written at a time, because pwrite() promises no more to be seen in one piece.
inline constexpr uint8_t kSecondList = 1;
inline constexpr uint8_t kManyActions = 2;
inline constexpr uint8_t kChangeShift = 2;

struct ControlEntry {
    uint32_t word;            // a byte for each lane; the highest is always 0
    uint8_t more[kLanes][2];  // of each list: actions beyond the first
    uint8_t last[kLanes];     // the lane's byte before it was switched off
    uint8_t unused[3];
    Action first[kLanes][2];
};
static_assert(sizeof(ControlEntry) == 64 && offsetof(ControlEntry, word) == 0);
static_assert(offsetof(ControlEntry, more) == 4 && offsetof(ControlEntry, last) == 10 &&
              offsetof(ControlEntry, first) == 16);

// Of one tracepoint.
struct MoreActions {
    Action lists[kLanes][2][kMaxActions - 1];
};
static_assert(sizeof(MoreActions) == 720);

constexpr uint8_t lane_byte(uint32_t word, uint32_t lane) { return static_cast<uint8_t>(word >> (8 * lane)); }
constexpr uint32_t list_of(uint8_t lane_byte) { return lane_byte & kSecondList; }

// Where things are, in bytes from the start of the file.
struct ControlLayout {
    uint64_t tracepoint_count;
    uint64_t descriptions_size;
    uint64_t sticky_slots = 0;

    [[nodiscard]] constexpr uint64_t sticky(uint64_t index) const {
        return kControlHeaderSize + index * sizeof(StickySlot);
    }
    // What the program writes: the first bytes of the file, whole pages.
    [[nodiscard]] constexpr uint64_t written_by_program() const { return sticky(sticky_slots); }
    [[nodiscard]] constexpr uint64_t entry(uint64_t index) const {
        return written_by_program() + index * sizeof(ControlEntry);
    }
    [[nodiscard]] constexpr uint64_t descriptions() const { return entry(tracepoint_count); }
    [[nodiscard]] constexpr uint64_t more_actions(uint64_t index) const {
        return descriptions() + (descriptions_size + 7) / 8 * 8 + index * sizeof(MoreActions);
    }
    [[nodiscard]] constexpr uint64_t size() const { return more_actions(tracepoint_count); }
};

}  // namespace leat::wire
