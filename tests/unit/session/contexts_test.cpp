#include "session/contexts.hpp"

#include <gtest/gtest.h>

#include "wire/app/app_protocol.hpp"

namespace leat::session {
namespace {

using Names = std::vector<std::string>;

TEST(Contexts, EachBitHasItsName) {
    std::uint32_t all = 0;
    for (const wire::ContextKind& kind : wire::kContextKinds) {
        EXPECT_EQ(all & kind.bit, 0U) << kind.name;
        EXPECT_EQ(*parse_contexts(Names{kind.name}), kind.bit);
        EXPECT_EQ(context_names(kind.bit), Names{kind.name});
        EXPECT_EQ(wire::context_size(kind.bit), kind.size);
        all |= kind.bit;
    }
    EXPECT_EQ(all, wire::kAllContexts);
    for (const char* const name : {"weather", "", "none"}) EXPECT_FALSE(parse_contexts(Names{name})) << name;
}

TEST(Contexts, ThoseOfApplicationsKeepTheirOrder) {
    const Names names{"vpid", "$app.shop:request", "$app.a:b"};
    const Contexts contexts = *parse_contexts(Names{"$app.shop:request", "vpid", "$app.a:b", "$app.shop:request"});
    EXPECT_EQ(context_names(contexts), names);
    EXPECT_EQ(context_names(*joined(*parse_contexts(Names{"$app.shop:request"}), contexts)), names);
    const wire::AppContextNames told = app_context_names(contexts);
    ASSERT_EQ(told.count, 2U);
    EXPECT_STREQ(told.names[0], "shop:request");
    EXPECT_STREQ(told.names[1], "a:b");
}

TEST(Contexts, NamesOfApplicationsAreIdentifiers) {
    const std::string longest = "$app.p:" + std::string(wire::kAppContextNameSize - 3, 'n');
    EXPECT_TRUE(parse_contexts(Names{longest}));
    for (const std::string& name :
         {std::string("$app."), std::string("$app.a"), std::string("$app.a:"), std::string("$app.:b"),
          std::string("$app.a:b:c"), std::string("$app.a:b c"), std::string("$app.a:\"b"),
          std::string("$app.a:b\0c", 10), std::string("app.a:b"), std::string("$app.\u00e4:b"), longest + "n"})
        EXPECT_FALSE(parse_contexts(Names{name})) << name;
}

TEST(Contexts, TwoThatWouldBeOneFieldAreRefused) {
    EXPECT_FALSE(parse_contexts(Names{"$app.a:b_c", "$app.a_b:c"}));
    EXPECT_FALSE(parse_contexts(Names{"$app.a:b", "$app.a:b_tag"}));
    EXPECT_FALSE(joined(*parse_contexts(Names{"$app.a:b_c"}), *parse_contexts(Names{"$app.a_b:c"})));
}

TEST(Contexts, OfApplicationsAreBounded) {
    Names names;
    for (std::uint32_t i = 0; i < wire::kMaxAppContexts; ++i) names.push_back(fmt::format("$app.a:n{}", i));
    EXPECT_TRUE(parse_contexts(names));
    names.emplace_back("$app.a:more");
    EXPECT_FALSE(parse_contexts(names));
}

TEST(Contexts, NamesAreInTheOrderOfRecords) {
    EXPECT_EQ(context_names(0), Names{});
    EXPECT_EQ(context_names(wire::kContextIp | wire::kContextUtsNs | wire::kContextVuid | wire::kContextVpid),
              (Names{"vpid", "vuid", "uts_ns", "ip"}));
    EXPECT_EQ(all_context_names(),
              "vpid, vtid, procname, pthread_id, vuid, veuid, vsuid, vgid, vegid, vsgid, cgroup_ns, ipc_ns, mnt_ns, "
              "net_ns, pid_ns, time_ns, user_ns, uts_ns, ip");
}

std::size_t size_of(const ctf::FieldClass& field) {
    if (const auto* const array = field.as<ctf::ArrayClass>()) return array->length * size_of(*array->element);
    return field.as<ctf::IntegerClass>()->size / 8;
}

// Else the viewer would take one context for another.
TEST(Contexts, FieldsAreAsLargeAsInRecords) {
    for (const wire::ContextKind& kind : wire::kContextKinds) {
        const ctf::StructClass fields = context_class(kind.bit);
        ASSERT_EQ(fields.members.size(), 1U);
        EXPECT_EQ(fields.members[0].name, "_" + std::string(kind.name));
        EXPECT_EQ(size_of(fields.members[0].field_class), kind.size) << kind.name;
    }
}

}  // namespace
}  // namespace leat::session
