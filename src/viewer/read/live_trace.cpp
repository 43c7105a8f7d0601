#include "viewer/read/live_trace.hpp"

#include <utility>

#include "ctf/model/clock.hpp"

namespace leat::viewer {

Result<std::shared_ptr<TraceModel>> LiveTrace::model() {
    const std::string_view text = metadata_.text();
    if (text.size() == parsed_size_) return model_;
    parsed_size_ = text.size();
    auto read = reader_->read(text);
    if (!read) return wrap("metadata", std::move(read).error());
    const ctf::TraceClass* const trace_class = reader_->trace_class();
    if (model_ != nullptr || trace_class == nullptr) return model_;
    auto plans = ctf::TracePlans::make(*trace_class);
    if (!plans) return wrap("metadata", std::move(plans).error());
    // The pointer to the class keeps the reader alive, which owns the class.
    const std::shared_ptr<const ctf::TraceClass> shared_class(reader_, trace_class);
    model_ = std::make_shared<TraceModel>(shared_class, *std::move(plans));
    return model_;
}

std::optional<std::int64_t> LiveTrace::nanoseconds(std::uint64_t cycles) {
    const auto current = model();
    // LTTng's traces and ours have one clock.
    if (!current || *current == nullptr || (*current)->trace_class->clocks.empty()) return std::nullopt;
    return ctf::Clock((*current)->trace_class->clocks.front()).nanoseconds(cycles);
}

}  // namespace leat::viewer
