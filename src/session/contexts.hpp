// Contexts of a channel, a field each in every record: their names, and the class of what records carry. Bits:
// wire/app/app_protocol.hpp. Names and types are LTTng's ([LTTng-2.13]).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::session {

// What a channel has.
struct Contexts {
    Contexts(std::uint32_t known = 0) : bits(known) {}  // NOLINT(google-explicit-constructor)

    std::uint32_t bits;                       // wire::kContext..., but kContextApp
    std::vector<std::string> of_application;  // PROVIDER:NAME, in the order of records

    [[nodiscard]] bool empty() const { return bits == 0 && of_application.empty(); }
    bool operator==(const Contexts&) const = default;
};

// By their names; those of applications are written $app.PROVIDER:NAME. Fails if there is no such context, or if they
// cannot be together in a channel.
Result<Contexts> parse_contexts(std::span<const std::string> names);
// All of both. Fails if they cannot be together in a channel.
Result<Contexts> joined(Contexts known, const Contexts& more);

// In the order of records.
std::vector<std::string> context_names(const Contexts& contexts);

// For messages and help: "vpid, vtid, ..."
std::string all_context_names();

ctf::StructClass context_class(const Contexts& contexts);

// Of those of applications, as programs are told. There are some, and no more than a channel may have.
wire::AppContextNames app_context_names(const Contexts& contexts);

}  // namespace leat::session
