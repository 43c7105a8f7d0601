#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "viewer/filter/filter_expression.hpp"
#include "viewer/filter/filter_value.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/event_decoder.hpp"

namespace leat::viewer {

// A context that is the same for the whole trace: hostname, domain, procname or vpid. kInvalid: there is none.
[[nodiscard]] FilterValue environment_value(const ctf::TraceClass& trace_class, ValuePathView path);

// Chooses events, or computes a value of each. As with LTTng, an event that lacks a field that the expression names, or
// has another type there than an operator takes, has no value, and is not chosen, whatever else the expression says.
class EventExpression {
  public:
    explicit EventExpression(FilterExpression expression) : expression_(std::move(expression)) {}

    // An error names a field that no event of these traces can have.
    [[nodiscard]] Result<void> check(std::span<const ctf::TraceClass* const> trace_classes) const;

    // Where an event class is.
    struct ClassPlace {
        const ctf::TraceClass& trace_class;
        const ctf::StreamClass& stream_class;
        const ctf::EventClass& event_class;
        bool has_time = true;  // its events
    };
    // Whether it takes any events of this class, as far as that is known without a look at them.
    [[nodiscard]] bool may_take(const ClassPlace& place);

    // Classes and plans must outlive this object; plans may grow. An error: the bytes are not those any more in which
    // the event was found.
    Result<bool> takes(const PacketView& packet, const ctf::EventPlace& place);
    // Its text stays as it is until the next call. kInvalid: there is none.
    Result<FilterValue> value(const PacketView& packet, const ctf::EventPlace& place);

  private:
    // What is known of all events of a class.
    enum class Verdict : std::uint8_t { kUnknown, kLacksField, kNever, kAlways, kDepends };

    Verdict look_at(const PacketView& packet, const ctf::EventPlace& place);
    std::vector<Verdict>& verdicts_of(const PacketView& packet);
    Verdict verdict_of(const ClassPlace& place);
    [[nodiscard]] bool is_never(std::uint32_t node) const;
    [[nodiscard]] FilterValue evaluate() const {
        return evaluate(static_cast<std::uint32_t>(expression_.nodes.size() - 1));
    }
    [[nodiscard]] FilterValue evaluate(std::uint32_t node) const;
    [[nodiscard]] FilterValue value_of(const FilterField& field) const;
    [[nodiscard]] FilterValue context_value(const FilterField& field) const;

    FilterExpression expression_;
    EventDecoder decoder_{};
    std::unordered_map<std::uint64_t, std::vector<Verdict>> verdicts_{};  // by the numbers of plan and event
    // What is being looked at. Without a record: all events of the class.
    const ctf::TraceClass* trace_class_ = nullptr;
    const ctf::EventClass* event_class_ = nullptr;
    const ctf::EventRecord* record_ = nullptr;
};

}  // namespace leat::viewer
