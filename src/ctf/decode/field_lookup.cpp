#include "ctf/decode/field_lookup.hpp"

#include <algorithm>
#include <array>

namespace leat::ctf {

void FieldLookup::begin_event() {
    roots_.erase(Scope::kContext);
    roots_.erase(Scope::kFields);
}

void FieldLookup::end_event(std::uint32_t first_node) {
    member_by_name_.erase(member_by_name_.lower_bound({first_node, {}}), member_by_name_.end());
}

void FieldLookup::begin_struct(std::uint32_t node, std::uint32_t first_member, const StructClass& struct_class) {
    for (std::uint32_t i = 0; i < struct_class.members.size(); ++i)
        member_by_name_.emplace(std::pair{node, std::string_view(struct_class.members[i].name)}, first_member + i);
    frames_.push_back({node, first_member, 0});
}

std::optional<std::uint32_t> FieldLookup::find(const FieldPath& path) const {
    if (path.front() == ".") return find_from_here(std::span(path).subspan(1));
    if (path.front() == "/") return find_in_scope(std::span(path).subspan(1));
    const auto found = find_in_scope(path);
    return found ? found : find_nearby(path);
}

std::optional<std::uint32_t> FieldLookup::find_from_here(std::span<const std::string> path) const {
    auto frame = frames_.rbegin();
    for (; frame != frames_.rend() && !path.empty() && path.front() == ".."; path = path.subspan(1)) ++frame;
    return frame == frames_.rend() ? std::nullopt : descend(frame->node, path);
}

std::optional<std::uint32_t> FieldLookup::find_in_scope(std::span<const std::string> path) const {
    using Prefix = std::vector<std::string_view>;
    static const std::array<std::pair<Prefix, Scope>, 6> kScopePrefixes{
        std::pair{Prefix{"trace", "packet", "header"}, Scope::kPacketHeader},
        std::pair{Prefix{"stream", "packet", "context"}, Scope::kPacketContext},
        std::pair{Prefix{"stream", "event", "header"}, Scope::kEventHeader},
        std::pair{Prefix{"stream", "event", "context"}, Scope::kEventContext},
        std::pair{Prefix{"event", "context"}, Scope::kContext},
        std::pair{Prefix{"event", "fields"}, Scope::kFields},
    };
    for (const auto& [prefix, scope] : kScopePrefixes) {
        const auto root = roots_.find(scope);
        if (root == roots_.end() || path.size() <= prefix.size()) continue;
        if (!std::equal(prefix.begin(), prefix.end(), path.begin())) continue;
        return descend(root->second, path.subspan(prefix.size()));
    }
    return std::nullopt;
}

std::optional<std::uint32_t> FieldLookup::find_nearby(const FieldPath& path) const {
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
        const auto first = member_of(frame->node, path.front());
        if (!first || *first >= frame->first_member + frame->member) continue;
        return descend(*first, std::span(path).subspan(1));
    }
    return std::nullopt;
}

std::optional<std::uint32_t> FieldLookup::descend(std::uint32_t node, std::span<const std::string> path) const {
    for (const std::string& name : path) {
        const auto child = member_of(node, name);
        if (!child) return std::nullopt;
        node = *child;
    }
    return node;
}

std::optional<std::uint32_t> FieldLookup::member_of(std::uint32_t node, std::string_view name) const {
    for (auto part = part_of_.find(node); part != part_of_.end(); part = part_of_.find(node)) node = part->second;
    const auto found = member_by_name_.find({node, name});
    return found == member_by_name_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace leat::ctf
