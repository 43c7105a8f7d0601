// The hostile stream files of a trace: the fast way to the text of their events, compared with the slow one.
//
// Input: u8 variant; for variant 0, u16 size and as many bytes of TSDL; then the bytes of a stream file. The other
// variants have metadata of their own, with all field classes among them, so that the bytes get past the parser.
#include "ctf/decode/packet_decoder.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "ctf/decode/trace_plans.hpp"
#include "ctf/metadata/metadata_reader.hpp"
#include "fuzz_input.hpp"
#include "viewer/sink/field_text.hpp"
#include "viewer/sink/line_renderer.hpp"

namespace leat::fuzz::packet_decoder {
namespace {

constexpr std::size_t kMaxText = 1U << 20U;  // of a packet that is compared

constexpr std::array<std::string_view, 5> kVariants{
    // Like LTTng's packets: headers with an escape, contexts, sizes in the packet's context.
    R"(trace { major = 1; minor = 8; byte_order = le;
        packet.header := struct { integer { size = 32; } magic; integer { size = 8; } stream_id;
                                  integer { size = 64; } stream_instance_id; }; };
    clock { name = m; freq = 1000000; offset_s = 17; offset = 99; };
    typealias integer { size = 64; map = clock.m.value; } := ts64;
    typealias integer { size = 27; map = clock.m.value; } := ts27;
    typealias integer { size = 8; encoding = UTF8; } := char;
    stream { id = 0;
        packet.context := struct { ts64 timestamp_begin; ts64 timestamp_end; integer { size = 32; } content_size;
            integer { size = 32; } packet_size; integer { size = 8; } packet_seq_num;
            integer { size = 8; } events_discarded; integer { size = 8; } cpu_id; };
        event.header := struct {
            enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
            variant <id> { struct { ts27 timestamp; } compact;
                           struct { integer { size = 32; } id; ts64 timestamp; } extended; } v; } align(8);
        event.context := struct { integer { size = 32; signed = true; } _vpid; char _procname[17]; }; };
    event { id = 0; name = a; stream_id = 0; fields := struct { string _s; integer { size = 8; } __n_length;
        integer { size = 16; byte_order = be; base = 16; } _n[__n_length]; }; };
    event { id = 1; name = b; stream_id = 0; context := struct { char _c; };
        fields := struct { floating_point { exp_dig = 8; mant_dig = 24; } _f;
            floating_point { exp_dig = 11; mant_dig = 53; byte_order = be; } _d;
            integer { size = 16; } _len; char _text[_len]; }; };
    event { id = 40; name = c; stream_id = 0; };)",
    // Fields at any bit, big endian, nested, without sizes: the file is one packet.
    R"(trace { major = 1; minor = 8; byte_order = be; };
    stream { event.header := struct { integer { size = 2; } id; }; };
    event { id = 0; name = a; fields := struct { integer { size = 3; signed = true; base = 8; } x;
        integer { size = 61; base = 2; } y; integer { size = 1; byte_order = le; } z; }; };
    event { id = 1; name = b; fields := struct {
        enum : integer { size = 3; signed = true; } { P = 1 ... 3, N = -4 ... -1, P = 2 } t;
        variant <t> { struct { integer { size = 7; } n; struct { integer { size = 4; align = 4; } q[n]; } s[n]; } P;
                      string N; } v; }; };
    event { id = 2; name = c; fields := struct { integer { size = 5; } n; struct {} nothing[n][1000000]; }; };
    event { id = 3; name = d; fields := struct { integer { size = 64; } n; struct { } nothing[n];
        integer { size = 64; } bits[n]; }; };)",
    // No header, no id, and a narrow clock that is not declared.
    R"(trace { major = 1; minor = 8; byte_order = le; };
    stream { packet.context := struct { integer { size = 8; } packet_size; };
             event.header := struct { integer { size = 8; } timestamp; }; };
    event { name = a; fields := struct { integer { size = 4; align = 32; } x[stream.event.header.timestamp]; }; };)",
    // An enum with so many ranges that it gets an index.
    R"(trace { major = 1; minor = 8; byte_order = le; };
    event { name = a; fields := struct {
        enum : integer { size = 8; signed = true; } { a = -128 ... 127, b, c = 1, d, e, f = 3 ... 60, g = 40 ... 50, h = 5,
            i, j, k, l, m, n = -7, o = -8 ... 8, p, q, b = 9, c = -100 ... -90, r = 127 } t;
        variant <t> { integer { size = 8; } q; string b; struct { } a; } v; }; };)",
    // What only CTF 2 has.
    "\x1e{\"type\":\"preamble\",\"version\":2}\x1e"
    R"({"type":"clock-class","id":"c","frequency":1000})"
    "\x1e"
    R"({"type":"field-class-alias","name":"u8","field-class":
        {"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian","alignment":8}})"
    "\x1e"
    R"({"type":"data-stream-class","default-clock-class-id":"c",
        "packet-context-field-class":{"type":"structure","member-classes":[
            {"name":"begin","field-class":{"type":"variable-length-unsigned-integer","roles":["default-clock-timestamp"]}},
            {"name":"cpu","field-class":"u8"},
            {"name":"where","field-class":{"type":"static-length-string","length":4,"encoding":"utf-16le"}}]},
        "event-record-header-field-class":{"type":"structure","member-classes":[
            {"name":"id","field-class":{"type":"fixed-length-unsigned-integer","length":3,"byte-order":"big-endian",
                "bit-order":"first-to-last","roles":["event-record-class-id"]}},
            {"name":"time","field-class":{"type":"variable-length-unsigned-integer",
                "roles":["default-clock-timestamp"]}}]}})"
    "\x1e"
    R"({"type":"event-record-class","name":"numbers","payload-field-class":{"type":"structure","member-classes":[
        {"name":"flag","field-class":{"type":"fixed-length-boolean","length":3,"byte-order":"little-endian"}},
        {"name":"bits","field-class":{"type":"fixed-length-bit-array","length":13,"byte-order":"little-endian"}},
        {"name":"map","field-class":{"type":"fixed-length-bit-map","length":9,"byte-order":"big-endian","alignment":8,
            "flags":{"low":[[0,3]],"high":[[8,8]],"all":[[0,8]]}}},
        {"name":"u","field-class":{"type":"variable-length-unsigned-integer","mappings":{"none":[[0,0]],"x":[[3,900]]}}},
        {"name":"s","field-class":{"type":"variable-length-signed-integer","preferred-display-base":16}},
        {"name":"n","field-class":"u8"},
        {"name":"some","field-class":{"type":"dynamic-length-array","length-field-location":{"path":["n"]},
            "minimum-alignment":32,"element-field-class":{"type":"variable-length-signed-integer"}}}]}})"
    "\x1e"
    R"({"type":"event-record-class","id":1,"name":"texts","payload-field-class":{"type":"structure","member-classes":[
        {"name":"n","field-class":"u8"},
        {"name":"a","field-class":{"type":"null-terminated-string","encoding":"utf-16be"}},
        {"name":"b","field-class":{"type":"dynamic-length-string","encoding":"utf-32le",
            "length-field-location":{"origin":"event-record-payload","path":["n"]}}},
        {"name":"c","field-class":{"type":"dynamic-length-blob","length-field-location":{"path":["n"]}}},
        {"name":"d","field-class":{"type":"static-length-array","length":2,
            "element-field-class":{"type":"null-terminated-string","encoding":"utf-32be"}}}]}})"
    "\x1e"
    R"({"type":"event-record-class","id":2,"name":"choices","payload-field-class":{"type":"structure","member-classes":[
        {"name":"t","field-class":{"type":"fixed-length-signed-integer","length":8,"byte-order":"little-endian"}},
        {"name":"o","field-class":{"type":"optional","selector-field-location":{"path":["t"]},
            "selector-field-ranges":[[-5,-1],[3,100]],"field-class":{"type":"structure","member-classes":[
                {"name":"l","field-class":"u8"},
                {"name":"list","field-class":{"type":"dynamic-length-array","element-field-class":"u8",
                    "length-field-location":{"origin":"event-record-payload","path":["o","l"]}}}]}}},
        {"name":"v","field-class":{"type":"variant","selector-field-location":{"path":["t"]},"options":[
            {"selector-field-ranges":[[-128,0]],"field-class":"u8"},
            {"name":"b","selector-field-ranges":[[1,2],[4,90]],"field-class":{"type":"optional","field-class":"u8",
                "selector-field-location":{"path":["t"]},"selector-field-ranges":[[4,4]]}}]}}]}})",
};

// An event as the slow way sees it: all its fields decoded one by one.
struct Known {
    const ctf::EventClass* event_class;
    std::optional<std::uint64_t> cycles;
    std::string text;  // its line without times
};

std::string text_of(const ctf::EventRecord& event) {
    viewer::TextBuffer buffer(-1);
    buffer.append(event.event_class->name);
    buffer.append(": ");
    bool has_scope = false;
    for (const auto scope : {event.packet_context, event.event_context, event.context, event.fields}) {
        if (scope.empty()) continue;
        if (std::exchange(has_scope, true)) buffer.append(", ");
        viewer::append_fields(buffer, scope, true);
    }
    buffer.append('\n');
    return std::string(buffer.text());
}

std::vector<Known> decode_slowly(const ctf::DecodePlan& plan, UntrustedBytes packet) {
    ctf::PacketDecoder decoder(plan);
    LEAT_CHECK(decoder.start(packet, 0));
    std::vector<Known> events;
    std::size_t size = 0;
    for (auto is_event = decoder.next(); is_event && *is_event; is_event = decoder.next()) {
        const ctf::EventRecord& event = decoder.record();
        events.push_back({event.event_class, event.cycles, text_of(event)});
        size += events.back().text.size();
        if (size > kMaxText) break;
    }
    return events;
}

// The fast way finds the same events and makes the same text of them, in batches of any size, and in any order.
void compare(const viewer::PacketView& packet, const std::vector<Known>& known) {
    ctf::PacketDecoder decoder(*packet.plan);
    LEAT_CHECK(decoder.start(packet.bytes, 0));
    std::vector<ctf::EventPlace> places(known.size());
    std::size_t found = 0;
    for (std::size_t most = 1; found < known.size(); most = most % 7 + 1) {
        const auto batch = std::span(places).subspan(found).first(std::min(most, known.size() - found));
        const auto count = decoder.locate(batch);
        LEAT_CHECK(count && *count > 0);
        found += *count;
    }
    ctf::PacketDecoder contexts(*packet.plan);
    LEAT_CHECK(contexts.start(packet.bytes, 0));
    for (std::size_t i = 0; i + 1 < known.size(); ++i) {
        LEAT_CHECK(contexts.decode_contexts(places[i]));
        LEAT_CHECK(contexts.position() == places[i + 1].begin);
    }
    viewer::LineRenderer renderer(viewer::TextOptions{.has_delta = false, .shows_hostname = false});
    for (std::size_t i = known.size(); i-- > 0;) {
        const ctf::EventPlan& event = packet.plan->events[places[i].event];
        LEAT_CHECK(event.event_class == known[i].event_class);
        LEAT_CHECK(!known[i].cycles || places[i].cycles == *known[i].cycles);
        viewer::TextBuffer line(-1);
        LEAT_CHECK(renderer.append(line, packet, places[i], {}));
        const std::string_view text = line.text();
        LEAT_CHECK(text.ends_with(known[i].text));
        LEAT_CHECK(packet.plan->clock != nullptr || text.size() == known[i].text.size());
    }
}

void decode_stream(const ctf::TraceClass& trace_class, UntrustedBytes bytes) {
    auto plans = ctf::TracePlans::make(trace_class);
    if (!plans) return;
    const viewer::StreamIdentity stream{.name = "stream"};
    std::uint64_t offset = 0;
    for (std::uint64_t number = 1; offset < bytes.size(); ++number) {
        const UntrustedBytes rest = bytes.subspan(offset);
        const auto plan = plans->plan_for(rest);
        if (!plan) return;
        ctf::PacketDecoder decoder(**plan);
        const auto packet = decoder.start(rest, offset);
        if (!packet || packet->packet_size > rest.size()) return;
        LEAT_CHECK(packet->packet_size > 0);
        const viewer::PacketView view{.number = number,
                                      .trace_class = &trace_class,
                                      .plan = *plan,
                                      .stream = &stream,
                                      .bytes = rest.first(packet->packet_size),
                                      .content_bits = packet->content_bits};
        compare(view, decode_slowly(**plan, rest));
        offset += packet->packet_size;
    }
}

}  // namespace

LEAT_FUZZ_TARGET(packet_decoder) {
    std::span<const std::uint8_t> input(data, size);
    if (input.size() < 3) return 0;
    const std::size_t variant = input[0] % (kVariants.size() + 1);
    input = input.subspan(1);
    std::string text;
    if (variant == 0) {
        const std::size_t text_size = std::min<std::size_t>(input[0] + 256U * input[1], input.size() - 2);
        text.assign(input.begin() + 2, input.begin() + 2 + static_cast<std::ptrdiff_t>(text_size));
        input = input.subspan(2 + text_size);
    } else {
        text = kVariants[variant - 1];
    }
    const auto trace_class = ctf::parse_metadata(text);
    LEAT_CHECK(trace_class || variant == 0);
    if (trace_class) decode_stream(*trace_class, std::as_bytes(input));
    return 0;
}

}  // namespace leat::fuzz::packet_decoder
