// Writes the description table of a module: what the daemon pulls. Format: wire/app/description_format.hpp.
#pragma once

#include <stddef.h>

#include "leat/abi.h"

namespace leat::tracer {

// Bytes of the table of `count` tracepoints.
size_t description_table_size(const leat_tracepoint* const* tracepoints, size_t count);

// Writes the table, `size` bytes, to `memory`.
void write_description_table(char* memory, size_t size, const leat_tracepoint* const* tracepoints, size_t count);

}  // namespace leat::tracer
