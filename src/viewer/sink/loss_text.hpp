#pragma once

#include "viewer/merge/message.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_options.hpp"
#include "viewer/sink/time_text.hpp"

namespace leat::viewer {

// What is said of a loss.
class LossText {
  public:
    explicit LossText(const TextOptions& options) : colors_(options.warning_colors), time_text_(options) {}

    // For people: a line, for the most part that of babeltrace2 ([babeltrace-2.0]).
    void append_warning(TextBuffer& buffer, const Message& message);
    // For programs: a line of JSON. What is not known is null.
    static void append_json_line(TextBuffer& buffer, const Message& message);

  private:
    void append_range(TextBuffer& buffer, const Message& message);

    TextColors colors_;
    TimeText time_text_;
};

}  // namespace leat::viewer
