#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ctf/model/trace_class.hpp"
#include "viewer/filter/event_expression.hpp"
#include "viewer/filter/value_path.hpp"

namespace leat::viewer {

// Where a trace has fields of each name, in those events that a filter may take. Found for all names at once: a trace
// may have as many of them as it has event classes.
class FieldsByName {
  public:
    // `filter`: null takes all events. The trace class outlives this object.
    FieldsByName(const ctf::TraceClass& trace_class, EventExpression* filter);

    // Visits the classes that fields of this path have, until one is accepted. The path begins with a name.
    void visit_payload(ValuePathView path, const ClassVisitor& accepts) const;
    // Of contexts of events, of their streams and of packets.
    void visit_contexts(ValuePathView path, const ClassVisitor& accepts) const;
    // Whether some of those events have no such context: the environment of their trace may have it.
    [[nodiscard]] bool may_lack_context(ValuePathView path) const;

  private:
    enum class Kind : std::uint8_t { kPacketContext, kStreamContext, kOfEvent };
    struct Scope {
        Kind kind;
        const ctf::StreamClass* stream;
        const std::optional<ctf::StructClass>* members;
    };
    // Those of one stream follow each other.
    using Scopes = std::map<std::string_view, std::vector<Scope>>;

    void add(const ctf::StreamClass& stream, EventExpression* filter);
    static void add(Scopes& scopes, const Scope& scope);
    [[nodiscard]] static const std::vector<Scope>& scopes_of(const Scopes& scopes, ValuePathView path);
    bool visit(const Scope& scope, ValuePathView path, const ClassVisitor& accepts) const;

    const ctf::TraceClass* trace_class_;
    Scopes payload_{};
    Scopes contexts_{};
    std::unordered_map<const ctf::StreamClass*, std::size_t> event_counts_{};  // of streams that have any
};

}  // namespace leat::viewer
