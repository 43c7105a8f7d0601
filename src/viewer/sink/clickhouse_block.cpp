#include "viewer/sink/clickhouse_block.hpp"

#include <string>
#include <string_view>

#include "base/varint.hpp"

namespace leat::viewer {
namespace {

void append_size(TextBuffer& buffer, std::uint64_t size) {
    write_varint(size, [&buffer](char byte) { buffer.append(byte); });
}

void append_string(TextBuffer& buffer, std::string_view text) {
    append_size(buffer, text.size());
    buffer.append(text);
}

void append_bytes(TextBuffer& buffer, const void* bytes, std::size_t size) {
    buffer.append(std::string_view(static_cast<const char*>(bytes), size));
}

std::string_view name_of(Column::Type type) {
    switch (type) {
        case Column::Type::kInt64:
            return "Int64";
        case Column::Type::kUint64:
            return "UInt64";
        case Column::Type::kDouble:
            return "Float64";
        case Column::Type::kText:
            break;
    }
    return "String";
}

}  // namespace

void append_clickhouse_block(TextBuffer& buffer, std::span<const Column> columns, std::size_t rows) {
    append_size(buffer, columns.size());
    append_size(buffer, rows);
    for (const Column& column : columns) {
        const bool may_be_missing = column.name() != "name";
        const std::string_view type = name_of(column.type());
        append_string(buffer, column.name());
        append_string(buffer, may_be_missing ? fmt::format("Nullable({})", type) : std::string(type));
        const auto& is_missing = column.is_missing();
        if (may_be_missing) {
            const std::string none(is_missing.empty() ? rows : 0, '\0');
            append_bytes(buffer, is_missing.empty() ? none.data() : static_cast<const void*>(is_missing.data()), rows);
        }
        if (column.type() != Column::Type::kText) {
            append_bytes(buffer, column.values().data(), rows * sizeof(std::uint64_t));
            continue;
        }
        for (std::size_t row = 0; row < rows; ++row) {
            const bool has_text = is_missing.empty() || is_missing[row] == 0;
            append_string(buffer, has_text ? column.texts().texts()[column.values()[row]] : std::string_view());
        }
    }
}

}  // namespace leat::viewer
