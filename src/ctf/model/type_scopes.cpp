#include "ctf/model/type_scopes.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

namespace leat::ctf {
namespace {

// The metadata of a kernel with all its events needs a tenth of it.
constexpr std::size_t kMaxBytesHeld = 64U << 20U;

// Roughly how much memory a copy of a field class takes, and how deep the class is.
struct Extent {
    std::size_t bytes = sizeof(StructMember);
    unsigned depth = 1;

    void add(const Extent& part) {
        bytes += part.bytes;
        depth = std::max(depth, part.depth + 1);
    }
};

struct ExtentOf {
    Extent operator()(const IntegerClass&) const { return {}; }
    Extent operator()(const FloatClass&) const { return {}; }
    Extent operator()(const StringClass&) const { return {}; }
    Extent operator()(const EnumClass& enumeration) const {
        Extent extent;
        for (const EnumRange& range : enumeration.ranges) extent.bytes += sizeof(EnumRange) + range.label.size();
        return extent;
    }
    Extent operator()(const ArrayClass& array) const { return around(*array.element); }
    Extent operator()(const SequenceClass& sequence) const {
        Extent extent = around(*sequence.element);
        extent.bytes += path_bytes(sequence.length);
        return extent;
    }
    Extent operator()(const StructClass& struct_class) const { return around(struct_class.members); }
    Extent operator()(const VariantClass& variant) const {
        Extent extent = around(variant.options);
        extent.bytes += path_bytes(variant.tag) + variant.choices.size() * sizeof(VariantChoice);
        return extent;
    }

  private:
    static Extent around(const FieldClass& element) {
        Extent extent;
        extent.add(std::visit(ExtentOf{}, element.form()));
        return extent;
    }
    static Extent around(const std::vector<StructMember>& members) {
        Extent extent;
        for (const StructMember& member : members) {
            extent.add(std::visit(ExtentOf{}, member.field_class.form()));
            extent.bytes += member.name.size();
        }
        return extent;
    }
    static std::size_t path_bytes(const FieldPath& path) {
        std::size_t bytes = path.size() * sizeof(std::string);
        for (const std::string& part : path) bytes += part.size();
        return bytes;
    }
};

}  // namespace

unsigned field_depth(const FieldClass& field_class) { return std::visit(ExtentOf{}, field_class.form()).depth; }

Result<void> TypeScopes::declare(std::string name, const FieldClass& field_class) {
    const Extent extent = std::visit(ExtentOf{}, field_class.form());
    LEAT_TRY(charge(extent.bytes + name.size()));
    const auto [entry, is_new] =
        scopes_.back().try_emplace(std::move(name), NamedType{field_class, extent.bytes, extent.depth});
    if (!is_new) return corrupt("type '{}' is declared twice", entry->first);
    return {};
}

Result<FieldClass> TypeScopes::copy(std::string_view name, unsigned depth) {
    const NamedType* const type = find(name);
    if (type == nullptr) return corrupt("type '{}' is not declared", name);
    if (type->depth + depth > kMaxFieldDepth)
        return corrupt("type '{}' is nested deeper than {} levels", name, kMaxFieldDepth);
    LEAT_TRY(charge(type->bytes));
    return type->field_class;
}

Result<void> TypeScopes::charge(std::size_t bytes) {
    bytes_held_ += std::min(bytes, kMaxBytesHeld);
    if (bytes_held_ > kMaxBytesHeld) return corrupt("the types take more than {} MiB", kMaxBytesHeld >> 20U);
    return {};
}

Result<void> TypeScopes::charge_copy(const FieldClass& field_class) {
    return charge(std::visit(ExtentOf{}, field_class.form()).bytes);
}

std::size_t TypeScopes::bytes_left() const { return kMaxBytesHeld - std::min(bytes_held_, kMaxBytesHeld); }

const TypeScopes::NamedType* TypeScopes::find(std::string_view name) const {
    for (const auto& scope : std::views::reverse(scopes_))
        if (const auto type = scope.find(name); type != scope.end()) return &type->second;
    return nullptr;
}

}  // namespace leat::ctf
