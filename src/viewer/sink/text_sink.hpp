#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/sink/line_renderer.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_options.hpp"
#include "viewer/sink/time_text.hpp"

namespace leat::viewer {

// One line of text for each event, byte for byte that of babeltrace2 ([babeltrace-2.0]); a warning on another channel
// for each loss.
class TextSink {
  public:
    TextSink(const TextOptions& options, int output_fd, int warning_fd)
        : renderer_(options), time_text_(options), output_(output_fd), warnings_(warning_fd) {}

    Result<void> consume(const Message& message);
    // Writes the remaining text. Call this at the end, also after an error.
    Result<void> flush();

    // Whether the reader of the output is gone.
    [[nodiscard]] bool is_closed() const { return output_.is_closed(); }

  private:
    Result<void> event(const Message& message);
    Result<void> loss(const Message& message);
    void loss_range(const Message& message);

    LineRenderer renderer_;
    TimeText time_text_;
    TextBuffer output_;
    TextBuffer warnings_;
    std::optional<Moment> previous_;
};

}  // namespace leat::viewer
