#include "viewer/sink/fields_by_name.hpp"

#include <algorithm>
#include <string>
#include <variant>

namespace leat::viewer {

FieldsByName::FieldsByName(const ctf::TraceClass& trace_class, EventExpression* filter) : trace_class_(&trace_class) {
    for (const ctf::StreamClass& stream : trace_class.streams) add(stream, filter);
}

void FieldsByName::add(const ctf::StreamClass& stream, EventExpression* filter) {
    std::size_t events = 0;
    for (const ctf::EventClass& event : stream.events) {
        if (filter != nullptr && !filter->may_take({*trace_class_, stream, event})) continue;
        if (events++ == 0) {
            add(contexts_, {Kind::kPacketContext, &stream, &stream.packet_context});
            add(contexts_, {Kind::kStreamContext, &stream, &stream.event_context});
        }
        add(contexts_, {Kind::kOfEvent, &stream, &event.context});
        add(payload_, {Kind::kOfEvent, &stream, &event.fields});
    }
    if (events != 0) event_counts_.emplace(&stream, events);
}

void FieldsByName::add(Scopes& scopes, const Scope& scope) {
    if (!*scope.members) return;
    for (const ctf::StructMember& member : (*scope.members)->members) {
        std::vector<Scope>& known = scopes[ctf::display_name(member)];
        if (known.empty() || known.back().members != scope.members) known.push_back(scope);
    }
}

const std::vector<FieldsByName::Scope>& FieldsByName::scopes_of(const Scopes& scopes, ValuePathView path) {
    static const std::vector<Scope> none;
    const auto* const name = path.empty() ? nullptr : std::get_if<std::string>(&path.front());
    const auto found = name == nullptr ? scopes.end() : scopes.find(*name);
    return found == scopes.end() ? none : found->second;
}

bool FieldsByName::visit(const Scope& scope, ValuePathView path, const ClassVisitor& accepts) const {
    return scope.kind == Kind::kPacketContext ? any_packet_field(*trace_class_, *scope.stream, path, accepts)
                                              : any_field(*scope.members, path, accepts);
}

void FieldsByName::visit_payload(ValuePathView path, const ClassVisitor& accepts) const {
    for (const Scope& scope : scopes_of(payload_, path))
        if (visit(scope, path, accepts)) return;
}

void FieldsByName::visit_contexts(ValuePathView path, const ClassVisitor& accepts) const {
    for (const Scope& scope : scopes_of(contexts_, path))
        if (visit(scope, path, accepts)) return;
}

bool FieldsByName::may_lack_context(ValuePathView path) const {
    std::unordered_map<const ctf::StreamClass*, std::size_t> having;
    for (const Scope& scope : scopes_of(contexts_, path)) {
        if (!visit(scope, path, [](const ctf::FieldClass& /*field_class*/) { return true; })) continue;
        having[scope.stream] += scope.kind == Kind::kOfEvent ? 1 : event_counts_.at(scope.stream);
    }
    const auto all_have = [&](const auto& stream) { return stream.second >= event_counts_.at(stream.first); };
    return static_cast<std::size_t>(std::ranges::count_if(having, all_have)) < event_counts_.size();
}

}  // namespace leat::viewer
