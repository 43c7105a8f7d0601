#pragma once

#include "consumer/progress.hpp"
#include "session/trace.hpp"

namespace leat::host {

// For rings in files that are copies, after the system has gone down: the kernel may have written some of their pages
// and not others, so that a page is older than its neighbours, or was never written and is all zeros. Headers of
// records do not tell: of their time they have the low bits, and zeros look like records, too.
//
// But a ring's header says how many records there are up to its head, and when the last of them happened; and notes of
// blocks say the same of each block. Records that do not come to exactly that are all overwritten with what is no
// record, as are those in pages of zeros: whoever reads the ring counts them as unreadable.
void wipe_what_is_torn(const session::Trace& trace, const consumer::Progress& progress);

}  // namespace leat::host
