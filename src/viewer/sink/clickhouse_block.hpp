#pragma once

#include <cstddef>
#include <span>

#include "viewer/sink/columns.hpp"
#include "viewer/sink/text_buffer.hpp"

namespace leat::viewer {

// Appends rows as a block of ClickHouse's format Native ([ClickHouse-Native]): what `INSERT ... FORMAT Native` takes,
// and `clickhouse local` reads. All columns but the event's name may be NULL. Blocks of one file have the same columns.
void append_clickhouse_block(TextBuffer& buffer, std::span<const Column> columns, std::size_t rows);

}  // namespace leat::viewer
