#include "viewer/live_trace.hpp"

#include <utility>

#include "ctf/clock.hpp"
#include "ctf/tsdl_parser.hpp"

namespace leat::viewer {
namespace {

// Plans point into the class: it is put where it stays before they are made.
Result<std::shared_ptr<TraceModel>> make_model(ctf::TraceClass trace_class) {
    const auto home = std::make_shared<ctf::TraceClass>(std::move(trace_class));
    auto plans = ctf::TracePlans::make(*home);
    if (!plans) return tl::unexpected(std::move(plans).error());
    return std::make_shared<TraceModel>(home, *std::move(plans));
}

}  // namespace

Result<std::shared_ptr<TraceModel>> LiveTrace::model() {
    const std::string_view text = metadata_.text();
    if (text.size() == parsed_size_) return model_;
    parsed_size_ = text.size();
    auto trace_class = ctf::parse_tsdl(text);
    if (!trace_class) return wrap("metadata", std::move(trace_class).error());
    auto model = make_model(*std::move(trace_class));
    if (!model) return wrap("metadata", std::move(model).error());
    model_ = *std::move(model);
    return model_;
}

std::optional<std::int64_t> LiveTrace::nanoseconds(std::uint64_t cycles) {
    const auto current = model();
    // LTTng's traces, and ours, have one clock.
    if (!current || *current == nullptr || (*current)->trace_class->clocks.empty()) return std::nullopt;
    return ctf::Clock((*current)->trace_class->clocks.front()).nanoseconds(cycles);
}

}  // namespace leat::viewer
