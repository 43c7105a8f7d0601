#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_options.hpp"
#include "viewer/sink/time_text.hpp"

namespace leat::viewer {

// One line of text for each event, byte for byte that of babeltrace2 ([babeltrace-2.0]); a warning on another channel
// for each loss.
class TextSink {
  public:
    TextSink(const TextOptions& options, int output_fd, int warning_fd)
        : options_(options), time_text_(options), output_(output_fd), warnings_(warning_fd) {}

    Result<void> consume(const Message& message);
    // Writes the remaining text. Call this at the end, also after an error.
    Result<void> flush();

    // Whether the reader of the output is gone.
    [[nodiscard]] bool is_closed() const { return output_.is_closed(); }

  private:
    // The part of a line that depends on the trace only.
    struct TraceHead {
        std::string text;
        bool has_fields = false;
    };

    void event(const Message& message);
    void times(const ctf::EventRecord& event);
    void delta(std::int64_t time_ns);
    void head(const Message& message);
    void scope(std::string_view name, std::span<const ctf::FieldValue> values, bool has_names);
    const TraceHead& head_of(const Message& message);
    void append_head_field(std::string& head, bool& has_fields, std::string_view name, std::string_view value) const;
    Result<void> loss(const Message& message);
    void loss_range(const Loss& loss);
    [[nodiscard]] std::string_view name_or(std::string_view name, std::string_view otherwise) const {
        return options_.names_header ? name : otherwise;
    }

    TextOptions options_;
    TimeText time_text_;
    TextBuffer output_;
    TextBuffer warnings_;
    std::unordered_map<std::uint64_t, TraceHead> heads_;  // by trace number
    std::optional<std::int64_t> previous_ns_;
    bool has_scope_ = false;  // whether the current line has a scope yet
};

}  // namespace leat::viewer
