#pragma once

#include <sys/types.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "ring/event_header.hpp"
#include "session/contexts.hpp"
#include "session/event_rules.hpp"
#include "trace/file_limits.hpp"
#include "trace/stream_paths.hpp"
#include "wire/app/app_protocol.hpp"
#include "wire/app/description_reader.hpp"

namespace leat::session {

inline constexpr std::uint32_t kShortestPeriodUs = 1'000;
inline constexpr std::uint32_t kLongestPeriodUs = 60'000'000;

// What people call the kinds of headers.
struct HeaderName {
    std::string_view name;
    ring::HeaderKind kind;
};
inline constexpr std::array kHeaderNames = {HeaderName{"compact", ring::HeaderKind::kCompact},
                                            HeaderName{"large", ring::HeaderKind::kLarge},
                                            HeaderName{"tiny", ring::HeaderKind::kTiny}};

inline std::optional<ring::HeaderKind> header_kind(std::string_view name) {
    for (const HeaderName& known : kHeaderNames)
        if (known.name == name) return known.kind;
    return std::nullopt;
}
inline std::string header_name(ring::HeaderKind kind) {
    return std::string(std::ranges::find(kHeaderNames, kind, &HeaderName::kind)->name);
}

inline constexpr std::size_t kMaxRules = 10'000;  // of a channel

// What a channel of a session is: which events it records, and what their records and rings look like. All that is not
// rules is fixed when the session is started first.
struct Channel {
    std::string name = "channel0";
    std::vector<EventRule> rules{EventRule{}};
    ring::HeaderKind header = ring::HeaderKind::kCompact;
    Contexts contexts = wire::kDefaultContexts;
    std::uint64_t ring_size = 1U << 20;  // bytes
    // How long a program waits for room in a full ring, if it allows that; or kNoBlocking, kBlocksForever.
    std::uint32_t blocking_timeout_us = wire::kNoBlocking;
    // How long an event may lie in a ring before it is in the trace, and how long a packet may stay open: from
    // kShortestPeriodUs to kLongestPeriodUs, or 0: no wish. A consumer that cuts packets where it reads takes the
    // shorter one for both.
    std::uint32_t read_period_us = 0;
    std::uint32_t switch_period_us = 0;
    trace::FileLimits files{};  // of each stream
    // Nobody drains its rings, whose writers go on over the oldest events: they are for snapshots.
    bool overwrites = false;
    // Its events are not stored: each asks for a snapshot of the others.
    bool is_trigger = false;
    bool is_enabled = true;
};

inline bool is_valid_period(std::uint64_t period_us) {
    return period_us == 0 || (period_us >= kShortestPeriodUs && period_us <= kLongestPeriodUs);
}

// The shorter one of its periods; 0: it has none.
inline std::uint32_t drain_period_us(const Channel& channel) {
    if (channel.read_period_us == 0 || channel.switch_period_us == 0)
        return channel.read_period_us + channel.switch_period_us;
    return std::min(channel.read_period_us, channel.switch_period_us);
}

// The channel of the events that ask for snapshots.
inline constexpr std::string_view kTriggerChannel = "snapshot-on";
// Their time is that of the channel whose snapshots they ask for.
inline Channel trigger_channel(const std::vector<std::string>& patterns, const Channel& of) {
    Channel channel{.name = std::string(kTriggerChannel), .rules = make_rules(patterns, {}, {}), .header = of.header};
    channel.contexts = {};
    channel.ring_size = 64U << 10;
    channel.is_trigger = true;
    return channel;
}

// Whether both may be in one trace, which has one clock.
inline bool have_one_clock(const Channel& one, const Channel& other) {
    return ring::header_layout(one.header).cycle_bits == ring::header_layout(other.header).cycle_bits;
}

// Whether a file of one channel may be called as one of the other: with limits of the first alone, ring 2 of channel
// "c_3" has the file "c_3_2", and ring 3 of channel "c" has it, too.
inline bool have_files_alike(const Channel& one, const Channel& other) {
    return one.files.size != 0 && other.files.size == 0 && trace::is_stream_name(other.name, one.name);
}

// Whose events are together in one trace, with rings and ids of their own ([RFC-event-ids]).
struct RegistryKey {
    uid_t uid = 0;
    unsigned bitness = 64;
    pid_t pid = 0;                    // 0: of all programs of the user
    std::uint32_t pid_namespace = 0;  // of a process: its inode; 0: unknown

    auto operator<=>(const RegistryKey&) const = default;
};

// All tracepoints of a program or library. Programs that were started from one file share them.
using Tracepoints = std::vector<wire::TracepointDescription>;

// User, pid, and the namespace of that: two containers may have a process of one number.
using ProcessKey = std::tuple<uid_t, pid_t, std::uint32_t>;

// A program or library that may be traced.
struct Application {
    pid_t pid = 0;  // as this host calls it
    pid_t vpid = 0;
    std::uint32_t pid_namespace = 0;  // its inode; 0: unknown
    uid_t uid = 0;
    gid_t gid = 0;
    std::string procname{};  // printable
    unsigned bitness = 64;
    std::shared_ptr<const Tracepoints> tracepoints{};

    // "nginx (4711)"
    [[nodiscard]] std::string name() const { return fmt::format("{} ({})", procname, pid); }
    [[nodiscard]] ProcessKey process() const { return {uid, pid, pid_namespace}; }
};

}  // namespace leat::session
