#pragma once

#include <atomic>
#include <cstdint>

namespace leat::relay {

// What has come since the relay was started, of all sessions. Any thread.
struct Traffic {
    using Count = std::atomic<std::uint64_t>;
    Count bytes{0};    // of whole packets, as they are stored
    Count packets{0};  // whole ones
    Count indexes{0};  // entries
    Count beacons{0};
    Count lost_packets{0};
    Count removed_packets{0};  // of files that somebody had removed before
    Count metadata_bytes{0};
    Count sessions{0};
    // Connections: turned away, and times that one began to wait because the disk was full or no descriptor was left.
    Count refused_connections{0};
    Count disk_stalls{0};
};

}  // namespace leat::relay
