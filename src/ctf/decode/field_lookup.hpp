#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctf/model/field_class.hpp"

namespace leat::ctf {

// The structs of a packet and of an event record, in the order in which they are decoded.
enum class Scope : std::uint8_t { kPacketHeader, kPacketContext, kEventHeader, kEventContext, kContext, kFields };

// Finds the fields that lengths and tags name, while a plan is being built. A field is known by its index in
// DecodePlan::nodes. Its owner reports each struct when it begins and when it ends.
class FieldLookup {
  public:
    // The fields of the event before are not found any more.
    void begin_event();
    // No other event can name the members of this one, whose nodes begin with `first_node`.
    void end_event(std::uint32_t first_node);
    void begin_scope(Scope scope, std::uint32_t root) { roots_[scope] = root; }

    // A struct begins. Its members are the nodes from `first_member` on.
    void begin_struct(std::uint32_t node, std::uint32_t first_member, const StructClass& struct_class);
    // The member of this number begins: those before it can be found by their names alone.
    void begin_member(std::uint32_t number) { frames_.back().member = number; }
    void end_struct() { frames_.pop_back(); }
    // An element of an array, or an option of a variant. Only what lies in it can be reached through the array or the
    // variant, as if that were the part itself.
    void begin_part(std::uint32_t node, std::uint32_t part) { part_of_[node] = part; }
    void end_part(std::uint32_t node) { part_of_.erase(node); }
    // Whether the members of a scope are being built, not those of a struct in it.
    [[nodiscard]] bool is_at_top() const { return frames_.size() == 1; }

    // What a path names: "event.fields.len" from its scope on, or "len" in the innermost struct that has it. See
    // FieldPath for those of CTF 2.
    [[nodiscard]] std::optional<std::uint32_t> find(const FieldPath& path) const;

  private:
    // A struct that is being built, and the number of its member that is being built.
    struct Frame {
        std::uint32_t node;
        std::uint32_t first_member;
        std::uint32_t member;
    };

    [[nodiscard]] std::optional<std::uint32_t> find_from_here(std::span<const std::string> path) const;
    [[nodiscard]] std::optional<std::uint32_t> find_in_scope(std::span<const std::string> path) const;
    [[nodiscard]] std::optional<std::uint32_t> find_nearby(const FieldPath& path) const;
    [[nodiscard]] std::optional<std::uint32_t> descend(std::uint32_t node, std::span<const std::string> path) const;
    [[nodiscard]] std::optional<std::uint32_t> member_of(std::uint32_t node, std::string_view name) const;

    std::map<Scope, std::uint32_t> roots_;            // of the scopes begun so far
    std::vector<Frame> frames_;                       // within the scope, outermost first
    std::map<std::uint32_t, std::uint32_t> part_of_;  // of the arrays and variants that are being built
    std::map<std::pair<std::uint32_t, std::string_view>, std::uint32_t> member_by_name_;  // {struct, TSDL name}
};

}  // namespace leat::ctf
