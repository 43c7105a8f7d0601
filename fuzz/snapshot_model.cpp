// Histories of writers that go over the oldest records, and of snapshots: see tests/support/snapshot_model.hpp. Each
// holds the newest blocks whole, and what several hold is the same.
#include "support/snapshot_model.hpp"

#include "model_run.hpp"

namespace leat::fuzz::snapshot_model {

LEAT_FUZZ_TARGET(snapshot_model) { return run_model<test::SnapshotModel>(data, size); }

}  // namespace leat::fuzz::snapshot_model
