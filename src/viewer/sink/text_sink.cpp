#include "viewer/sink/text_sink.hpp"

namespace leat::viewer {

Result<void> TextSink::consume(const Message& message) {
    if (message.kind == Message::Kind::kEvent) return event(message);
    return message.is_loss() ? loss(message) : Result<void>();
}

Result<void> TextSink::flush() {
    warnings_.flush_if_possible();
    return output_.flush();
}

Result<void> TextSink::event(const Message& message) {
    if (filter_ && !LEAT_TRY(filter_->takes(*message.packet, message.place))) return {};
    LEAT_TRY(renderer_.append(output_, *message.packet, message.place, previous_));
    if (message.time_ns) previous_ = Moment{*message.time_ns, message.place.cycles};
    return output_.flush_if_full();
}

// Warnings are written at once, so that a person who watches sees them beside the events they are about.
Result<void> TextSink::loss(const Message& message) {
    if (is_json_) LossText::append_json_line(output_, message);
    loss_text_.append_warning(warnings_, message);
    warnings_.flush_if_possible();
    return {};
}

}  // namespace leat::viewer
