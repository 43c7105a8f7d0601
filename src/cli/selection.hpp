// Which events of a trace a command is about.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "viewer/filter/event_expression.hpp"
#include "viewer/filter/filter_expression.hpp"
#include "viewer/filter/time_range.hpp"
#include "viewer/merge/merge.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/sink/loss_text.hpp"

namespace CLI {
class App;
}

namespace leat::cli {

using Traces = std::vector<std::unique_ptr<viewer::RecordedTrace>>;

// Of each trace.
[[nodiscard]] std::vector<const ctf::TraceClass*> classes_of(const Traces& traces);

// What nobody would miss in a result: an error names a pattern that no event of the traces matches, and the option that
// has it.
Result<void> check_event_names(std::string_view option, const std::string& from, const std::string& to,
                               std::span<const ctf::TraceClass* const> trace_classes);

struct Selection {
    std::optional<viewer::FilterExpression> expression{};
    viewer::TimeRange range{};

    [[nodiscard]] std::optional<viewer::EventExpression> filter() const {
        return expression ? std::optional<viewer::EventExpression>(*expression) : std::nullopt;
    }
};

// As the command line has it.
struct SelectionOptions {
    std::optional<std::string> filter{};
    std::optional<std::string> begin{};
    std::optional<std::string> end{};
    std::optional<std::string> time_range{};

    // The options are part of this object.
    void add_to(CLI::App& command);
    [[nodiscard]] Result<Selection> parse(bool is_gmt) const;
};

// The events of traces on disk that are selected, in the order of their times, and the losses among them.
class SelectedEvents {
  public:
    // The traces must outlive this object. An error names a field that no event of theirs has.
    static Result<SelectedEvents> make(const Traces& traces, const Selection& selection);

    // Calls `on_events(packet, places)` for some events after the others, which returns Result<bool>: whether to go on;
    // and `on_loss(message)`, which returns Result<void>.
    template <class OnEvents, class OnLoss>
    Result<void> for_each(OnEvents on_events, OnLoss on_loss) {
        bool goes_on = true;
        while (goes_on && LEAT_TRY(merge_.next())) {
            const viewer::Message& message = merge_.message();
            if (message.time_ns && !std::exchange(has_begun_, true)) LEAT_TRY(range_.begin_at(*message.time_ns));
            if (message.time_ns && range_.is_behind(*message.time_ns)) return {};
            if (viewer::is_loss(message.kind) && is_in_range(message.loss)) LEAT_TRY(on_loss(message));
            if (message.kind != viewer::Message::Kind::kEvent) continue;
            goes_on = LEAT_TRY(give(*message.packet, {&message.place, 1}, on_events));
            const auto run = merge_.take_run();
            if (goes_on && !run.empty()) goes_on = LEAT_TRY(give(*message.packet, run, on_events));
        }
        return {};
    }

  private:
    SelectedEvents(viewer::Merge merge, const Selection& selection)
        : merge_(std::move(merge)), filter_(selection.filter()), range_(selection.range) {}

    template <class OnEvents>
    Result<bool> give(const viewer::PacketView& packet, std::span<const ctf::EventPlace> places, OnEvents& on_events) {
        if (!filter_ && !range_.is_bounded()) return on_events(packet, places);
        for (const ctf::EventPlace& place : places)
            if (LEAT_TRY(is_selected(packet, place)) && !LEAT_TRY(on_events(packet, std::span(&place, 1))))
                return false;
        return true;
    }
    Result<bool> is_selected(const viewer::PacketView& packet, const ctf::EventPlace& place);
    [[nodiscard]] bool is_in_range(const viewer::Loss& loss) const;

    viewer::Merge merge_;
    std::optional<viewer::EventExpression> filter_;
    viewer::TimeRange range_;
    bool has_begun_ = false;
};

}  // namespace leat::cli
