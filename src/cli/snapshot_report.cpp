#include "cli/snapshot_report.hpp"

#include <cstdio>

#include "cli/steer/quantities.hpp"
#include "cli/steer/session_text.hpp"
#include "cli/tell.hpp"

namespace leat::cli {

void SnapshotReport::add(const Result<host::StoredSnapshot>& snapshot, const char* why) {
    if (!snapshot) {
        has_failed_ = true;
        tell("leat: snapshot ({}): {}", why, snapshot.error().message);
        return;
    }
    const consumer::SnapshotTotals& totals = snapshot->totals;
    for (const std::string& quarantined : totals.quarantined)
        tell("leat: warning: {}; it is not in the snapshot", quarantined);
    const std::uint64_t span = totals.packets == 0 ? 0 : totals.end - totals.begin;
    tell("leat: snapshot ({}): {} events of the last {}, {}; {}", why, totals.events, span_for_people(span),
         size_for_people(totals.bytes), text_of_snapshot_place(snapshot->directory.string(), snapshot->relay));
    if (totals.unreadable != 0)
        tell("leat: warning: {} of its events are lost: a traced program wrote over them in its ring",
             totals.unreadable);
    events_ += totals.events;
    bytes_ += totals.bytes;
    packets_ += totals.packets;
    stored_.push_back({{"directory", snapshot->directory.string()},
                       {"reason", why},
                       {"events", totals.events},
                       {"bytes", totals.bytes},
                       {"packets", totals.packets},
                       {"unreadable", totals.unreadable},
                       {"span_ns", span}});
    if (!snapshot->relay.empty()) stored_.back()["relay"] = snapshot->relay;
}

}  // namespace leat::cli
