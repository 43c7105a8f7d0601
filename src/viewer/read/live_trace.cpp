#include "viewer/read/live_trace.hpp"

#include <utility>

#include "ctf/model/clock.hpp"

namespace leat::viewer {

Result<void> LiveTrace::append_metadata(UntrustedBytes bytes) {
    auto appended = metadata_.append(bytes);
    if (!appended) append_failure_ = appended.error();
    return appended;
}

Result<std::shared_ptr<TraceModel>> LiveTrace::model() {
    const std::string_view text = metadata_.text();
    if (text.size() != parsed_size_) {
        parsed_size_ = text.size();
        parsed_ = parse(text);
    }
    if (model_ != nullptr) return model_;
    if (!parsed_) return wrap("metadata", parsed_.error());
    if (append_failure_) return tl::unexpected(*append_failure_);
    return model_;
}

std::optional<Error> LiveTrace::take_failure() {
    if (model_ == nullptr || parsed_ || std::exchange(is_failure_told_, true)) return std::nullopt;
    return parsed_.error();
}

// What was declared before something that cannot be read serves whoever needs no more: as soon as there is a stream.
Result<void> LiveTrace::parse(std::string_view text) {
    auto read = reader_->read(text);
    const ctf::TraceClass* const trace_class = reader_->trace_class();
    const bool serves = trace_class != nullptr && (read || !trace_class->streams.empty());
    if (model_ != nullptr || !serves) return read;
    ctf::TracePlans plans = LEAT_TRY(ctf::TracePlans::make(*trace_class));
    // The pointer to the class keeps the reader alive, which owns the class.
    const std::shared_ptr<const ctf::TraceClass> shared_class(reader_, trace_class);
    model_ = std::make_shared<TraceModel>(shared_class, std::move(plans));
    return read;
}

std::optional<std::int64_t> LiveTrace::nanoseconds(std::uint64_t cycles) {
    (void)model();
    // Traces of LTTng and of Leat have one clock. It stays known if a later declaration cannot be read.
    if (model_ == nullptr || model_->trace_class->clocks.empty()) return std::nullopt;
    return ctf::Clock(model_->trace_class->clocks.front()).nanoseconds(cycles);
}

}  // namespace leat::viewer
