// A filter as a user writes it, on events of several classes. Whatever it says: one that is accepted gives the same
// answer each time, and refuses an event if the expression has no value for it.
//
// Input: the text.
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"
#include "fuzz_input.hpp"
#include "viewer/filter/event_expression.hpp"

namespace leat::fuzz::event_filter {
namespace {

constexpr const char* kMetadata =
    "typealias integer { size = 8; } := u8;"
    "trace { major = 1; minor = 8; byte_order = le; };"
    "env { hostname = \"h\"; vpid = 42; };"
    "stream { packet.context := struct { u8 c; }; event.header := struct { u8 id; }; };"
    "event { name = \"a:b\"; id = 0; loglevel = 6; fields := struct { integer { size = 8; signed = true; } n; string s;"
    " u8 l; u8 q[l]; struct { u8 i; } p; floating_point { exp_dig = 8; mant_dig = 24; } f; enum : u8 { A, B } t;"
    " variant <t> { u8 A; string B; } v; }; };"
    "event { name = \"a:c\"; id = 1; fields := struct { string n; u8 s; }; };";

struct Events {
    Events() {
        using namespace std::string_literals;
        bytes =
            "\x03"s
            "\x00\xFBtext\0"
            "\x02\x0A\x14\x09"
            "\x00\x00\x00\x3F"
            "\x01held\0"
            "\x01other\0"
            "\x07"s;
        packet = {1, &trace_class, &plan, &stream, std::as_bytes(std::span(bytes)), 8 * bytes.size()};
        ctf::PacketDecoder decoder(plan);
        LEAT_CHECK(decoder.start(packet.bytes, 0));
        LEAT_CHECK(decoder.locate(std::span(places).first(1)).value() == 1);
        LEAT_CHECK(decoder.locate(std::span(places).subspan(1)).value() == 1);
    }

    ctf::TraceClass trace_class = *ctf::parse_tsdl(kMetadata);
    ctf::DecodePlan plan = *ctf::make_decode_plan(trace_class, trace_class.streams.front());
    viewer::StreamIdentity stream{};
    std::string bytes{};
    viewer::PacketView packet{};
    std::array<ctf::EventPlace, 2> places{};
};

}  // namespace

LEAT_FUZZ_TARGET(event_filter) {
    static const Events events;
    const std::string_view text(reinterpret_cast<const char*>(data), size);  // NOLINT(*-reinterpret-cast)
    auto parsed = viewer::parse_filter(text);
    if (!parsed) return 0;
    viewer::EventExpression filter(*std::move(parsed));
    const std::array<const ctf::TraceClass*, 1> classes{&events.trace_class};
    const bool is_known = filter.check(classes).has_value();
    for (const ctf::EventPlace& place : events.places) {
        const bool is_taken = filter.takes(events.packet, place).value();
        LEAT_CHECK(is_known || !is_taken);
        LEAT_CHECK(filter.takes(events.packet, place).value() == is_taken);
        const viewer::FilterValue value = filter.value(events.packet, place).value();
        LEAT_CHECK(is_taken == viewer::is_true(value));
    }
    return 0;
}

}  // namespace leat::fuzz::event_filter
