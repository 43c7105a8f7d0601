#include "session/contexts.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/printable_text.hpp"

namespace leat::session {
namespace {

constexpr std::uint32_t kSigned = wire::kContextVpid | wire::kContextVtid;

ctf::FieldClass field_class(const wire::ContextKind& kind) {
    const ctf::FieldClass character = ctf::IntegerClass{.size = 8, .encoding = ctf::Encoding::kUtf8};
    if (kind.bit == wire::kContextProcname) return ctf::ArrayClass{character, kind.size};
    return ctf::IntegerClass{
        .size = 8 * kind.size,
        .is_signed = (kind.bit & kSigned) != 0,
        .base = kind.bit == wire::kContextIp ? ctf::DisplayBase::kHexadecimal : ctf::DisplayBase::kDecimal};
}

constexpr std::string_view kOfApplication = "$app.";

// A label for each tag. They are those of LTTng's contexts that applications provide.
constexpr std::array<const char*, wire::kAppContextTags> kTagLabels{"_none", "_int64", "_uint64", "_double", "_string"};

ctf::FieldClass class_of(wire::AppContextTag tag) {
    switch (tag) {
        case wire::AppContextTag::kInt64:
            return ctf::IntegerClass{.size = 64, .is_signed = true};
        case wire::AppContextTag::kUint64:
            return ctf::IntegerClass{.size = 64};
        case wire::AppContextTag::kDouble:
            return ctf::FloatClass{.size = 64};
        case wire::AppContextTag::kString:
            return ctf::StringClass{};
        case wire::AppContextTag::kNone:
            break;
    }
    return ctf::StructClass{};
}

// "shop:request" is "_app_shop_request" in the metadata.
std::string field_name(const std::string& name) {
    std::string field = "_app_" + name;
    std::ranges::replace(field, ':', '_');
    return field;
}

std::string tag_name(const std::string& name) { return field_name(name) + "_tag"; }

void append_app_context(ctf::StructClass& to, const std::string& name) {
    ctf::EnumClass tag{.container = ctf::IntegerClass{.size = 8}};
    ctf::VariantClass value{.tag = {tag_name(name)}, .options = {}};
    for (std::uint32_t i = 0; i < wire::kAppContextTags; ++i) {
        tag.ranges.push_back({kTagLabels.at(i), i, i});
        value.options.push_back({kTagLabels.at(i), class_of(static_cast<wire::AppContextTag>(i))});
    }
    to.members.push_back({tag_name(name), std::move(tag)});
    to.members.push_back({field_name(name), std::move(value)});
}

// "a:b_c" and "a_b:c" are one field.
Result<void> check_app_contexts(const std::vector<std::string>& names) {
    if (names.size() > wire::kMaxAppContexts)
        return refused("a channel has at most {} contexts of applications", wire::kMaxAppContexts);
    std::set<std::string> fields;
    for (const std::string& name : names)
        if (!fields.insert(field_name(name)).second || !fields.insert(tag_name(name)).second)
            return refused("two contexts of applications would be called \"{}\": choose one", field_name(name));
    return {};
}

void add_unknown(std::vector<std::string>& names, const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

Result<void> add_context(Contexts& contexts, const std::string& name) {
    const auto* const found = std::ranges::find(wire::kContextKinds, name, &wire::ContextKind::name);
    if (found != std::end(wire::kContextKinds)) {
        contexts.bits |= found->bit;
        return {};
    }
    const bool is_of_application = name.starts_with(kOfApplication);
    const std::string rest = is_of_application ? name.substr(kOfApplication.size()) : "";
    if (!wire::is_app_context_name(rest.data(), rest.size()))
        return refused("unknown context \"{}\": use {}, or $app.PROVIDER:NAME", printable(name), all_context_names());
    add_unknown(contexts.of_application, rest);
    return {};
}

}  // namespace

Result<Contexts> parse_contexts(std::span<const std::string> names) {
    Contexts contexts;
    for (const std::string& name : names) LEAT_TRY(add_context(contexts, name));
    LEAT_TRY(check_app_contexts(contexts.of_application));
    return contexts;
}

Result<Contexts> joined(Contexts known, const Contexts& more) {
    known.bits |= more.bits;
    for (const std::string& name : more.of_application) add_unknown(known.of_application, name);
    LEAT_TRY(check_app_contexts(known.of_application));
    return known;
}

std::vector<std::string> context_names(const Contexts& contexts) {
    std::vector<std::string> names;
    for (const wire::ContextKind& kind : wire::kContextKinds)
        if ((contexts.bits & kind.bit) != 0) names.emplace_back(kind.name);
    for (const std::string& name : contexts.of_application) names.push_back(std::string(kOfApplication) + name);
    return names;
}

std::string all_context_names() { return fmt::format("{}", fmt::join(context_names(wire::kAllContexts), ", ")); }

ctf::StructClass context_class(const Contexts& contexts) {
    ctf::StructClass result;
    for (const wire::ContextKind& kind : wire::kContextKinds)
        if ((contexts.bits & kind.bit) != 0)
            result.members.push_back({fmt::format("_{}", kind.name), field_class(kind)});
    for (const std::string& name : contexts.of_application) append_app_context(result, name);
    return result;
}

wire::AppContextNames app_context_names(const Contexts& contexts) {
    wire::AppContextNames names{};
    for (const std::string& name : contexts.of_application) name.copy(names.names[names.count++], name.size());
    return names;
}

}  // namespace leat::session
