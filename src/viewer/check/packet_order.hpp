#pragma once

#include <filesystem>
#include <vector>

#include "viewer/check/finding.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::viewer {

// Sorts the packets of a file by their begins, as its writer should have, and tells which were out of order: the fewest
// that it can have been. Those of which the sequence number says that they belong elsewhere are taken out.
//
//     begins in the file   10  20  99  30  40      99 is out of order, not 30
void put_in_order(std::vector<RecordedPacket>& packets, Findings& findings);

}  // namespace leat::viewer
