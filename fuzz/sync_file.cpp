// The record of a sync file. All of its bytes have a meaning: a record that is accepted and written again gives the
// same bytes.
//
// Input: the file.
#include "trace/sync_file.hpp"

#include <algorithm>
#include <span>

#include "base/check.hpp"
#include "fuzz_input.hpp"

namespace leat::fuzz::sync_file {
namespace {

void run(UntrustedBytes bytes) {
    const auto state = trace::parse_sync_record(bytes);
    if (!state) return;
    const trace::SyncRecord record{.generation = state->generation,
                                   .horizon = state->horizon,
                                   .metadata_size = state->metadata_size,
                                   .generation_again = state->generation};
    LEAT_CHECK(std::ranges::equal(std::as_bytes(std::span(&record, 1)), bytes));
    // The byte of its bell must be one that can be locked.
    LEAT_CHECK(state->generation <= static_cast<std::uint64_t>(INT64_MAX) - trace::kSyncLockBase);
}

}  // namespace

LEAT_FUZZ_TARGET(sync_file) {
    run(FuzzInput(data, size).take_rest());
    return 0;
}

}  // namespace leat::fuzz::sync_file
