#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/sink/event_table.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/time_text.hpp"

namespace leat::viewer {

// Different texts, each once, by the numbers in which they came.
class TextSet {
  public:
    std::uint32_t number_of(std::string_view text);
    [[nodiscard]] const std::vector<std::string_view>& texts() const { return texts_; }

  private:
    std::unordered_map<std::string_view, std::uint32_t> numbers_{};
    std::uint32_t latest_ = 0;
    std::vector<std::string_view> texts_{};
    // What the texts are views of. A block never moves.
    std::vector<std::unique_ptr<char[]>> blocks_{};  // NOLINT(*-avoid-c-arrays): uninitialised
    std::size_t size_of_last_ = 0;                   // bytes
    std::size_t room_ = 0;                           // bytes of it that are free
};

// The values of a field, or of another property, in events one after the other.
class Column {
  public:
    enum class Type : std::uint8_t { kInt64, kUint64, kDouble, kText };

    Column(std::string name, Type type) : name_(std::move(name)), type_(type) {}

    // A row with a value of the column's type; kText: a number of texts().
    void append(std::uint64_t bits) {
        values_.push_back(bits);
        if (!is_missing_.empty()) is_missing_.push_back(0);
    }
    void append_missing();
    void cut(std::size_t rows);

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] Type type() const { return type_; }
    [[nodiscard]] const std::vector<std::uint64_t>& values() const { return values_; }
    [[nodiscard]] const std::vector<std::uint8_t>& is_missing() const { return is_missing_; }  // empty: none is
    [[nodiscard]] TextSet& texts() { return texts_; }
    [[nodiscard]] const TextSet& texts() const { return texts_; }

  private:
    std::string name_;
    Type type_;
    std::vector<std::uint64_t> values_{};
    std::vector<std::uint8_t> is_missing_{};
    TextSet texts_{};
};

// Reads events into columns.
class ColumnReader {
  public:
    // Names as in EventTable; none: all but "time", which is another form of "time_ns".
    // The type of a column is that of its fields in events that the filter may take.
    static Result<ColumnReader> make(std::optional<std::span<const std::string_view>> names,
                                     const RecordedTraces& traces, std::optional<EventExpression> filter);

    // Appends the row of an event.
    Result<void> append(const PacketView& packet, const ctf::EventPlace& place);
    // The columns, with so many rows: those of a row that could not be finished are cut off. The next row is the first
    // of others.
    std::vector<Column> take(std::size_t rows);
    // Of the rows so far, each with its own texts.
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

  private:
    explicit ColumnReader(EventTable table) : table_(std::move(table)) {}

    void append_cell(std::size_t number);
    void append_text(Column& column, std::string_view text) {
        bytes_ += text.size();
        column.append(column.texts().number_of(text));
    }

    EventTable table_;
    std::vector<Column> columns_{};
    std::size_t bytes_ = 0;
    TextBuffer scratch_{-1};
    TimeText time_text_{{.time_format = viewer::TimeFormat::kIso, .is_gmt = true}};
};

}  // namespace leat::viewer
