// Writes the description table of a module: what the daemon pulls. Format: wire/app/description_format.hpp.
#pragma once

#include <stddef.h>

#include "leat/abi.h"

namespace leat::tracer {

// Whether the table of `count` tracepoints is larger than a daemon takes.
bool is_too_large(leat_tracepoint* const* tracepoints, size_t count);

// A sealed memfd with the descriptions of `count` tracepoints, or -1. The caller closes it.
int write_descriptions(leat_tracepoint* const* tracepoints, size_t count);

}  // namespace leat::tracer
