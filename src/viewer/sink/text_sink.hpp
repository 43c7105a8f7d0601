#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/result.hpp"
#include "viewer/filter/event_expression.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/sink/line_renderer.hpp"
#include "viewer/sink/loss_text.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_options.hpp"

namespace leat::viewer {

// One line of text or JSON for each event; a warning on another channel for each loss, which in JSON is a line, too.
class TextSink {
  public:
    TextSink(const TextOptions& options, std::optional<EventExpression> filter, int output_fd, int warning_fd)
        : filter_(std::move(filter)),
          is_json_(options.format == LineFormat::kJson),
          renderer_(options),
          loss_text_(options),
          output_(output_fd),
          warnings_(warning_fd) {}

    Result<void> consume(const Message& message);
    // Writes the remaining text. Call this at the end, also after an error.
    Result<void> flush();

    // Whether the reader of the output is gone.
    [[nodiscard]] bool is_closed() const { return output_.is_closed(); }

  private:
    Result<void> event(const Message& message);
    Result<void> loss(const Message& message);

    std::optional<EventExpression> filter_;
    bool is_json_;
    LineRenderer renderer_;
    LossText loss_text_;
    TextBuffer output_;
    TextBuffer warnings_;
    std::optional<Moment> previous_;
};

}  // namespace leat::viewer
