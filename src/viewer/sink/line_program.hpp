// The text of an event class, prepared: what is the same in all its lines, and where the rest comes from.
//
//     host app:put: { cpu_id = 0 }, { vpid = 42 }, { key = 7, name = "x" }
//     literal      context literal  value literal    value      string
//
// LineRenderer carries it out for one event after the other. Lines of JSON have other literals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ctf/decode/decode_plan.hpp"
#include "viewer/sink/text_options.hpp"

namespace leat::viewer {

// What is written after a literal.
struct LineOp {
    enum class Kind : std::uint8_t {
        kNothing,
        kPacketContext,
        kEventContext,  // a program of its own, for all events of the stream
        kStep,          // the next step of the layout; the fields that follow lie in it, if it is a run
        // Fields of a run. Numbers in decimal: little-endian, of whole bytes, at whole bytes.
        kUnsigned8,
        kUnsigned16,
        kUnsigned32,
        kUnsigned64,
        kSigned8,
        kSigned16,
        kSigned32,
        kSigned64,
        kNumber,  // any other integer, enum or float
        kArray,
        // Steps of their own.
        kString,
        kElements,
        kNode,
    };

    Kind kind = Kind::kNothing;
    std::uint32_t literal = 0;  // into LineProgram::literals
    std::uint32_t literal_size = 0;
    std::uint32_t offset = 0;  // from the begin of the run: bytes for numbers in decimal, bits for all others
    std::uint32_t node = 0;
    bool has_names = true;
};

struct LineProgram {
    std::vector<LineOp> ops{};
    std::string literals{};      // with kTextPiece more bytes
    std::size_t fixed_size = 0;  // bytes: most of all that is not a string, an array or a node
};

// What a scope of an event is called: in text if that is wanted, in JSON always.
struct ScopeName {
    std::string_view text;
    std::string_view json;
};
inline constexpr ScopeName kPacketContextScope{"stream.packet.context", "packet_context"};
inline constexpr ScopeName kEventContextScope{"stream.event.context", "common_context"};
inline constexpr ScopeName kSpecificContextScope{"event.context", "specific_context"};
inline constexpr ScopeName kPayloadScope{"event.fields", "payload"};

// `name` comes after what all lines of the trace begin with.
[[nodiscard]] LineProgram make_line_program(const ctf::DecodePlan& plan, const ctf::EventPlan& event,
                                            std::string_view name, const TextOptions& options);
// Of the stream's event context.
[[nodiscard]] LineProgram make_context_program(const ctf::DecodePlan& plan, const TextOptions& options);

// Whether people see anything of the scope.
[[nodiscard]] bool is_shown(const ctf::DecodePlan& plan, ctf::PlanRoot scope);

}  // namespace leat::viewer
