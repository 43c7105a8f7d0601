// Where the fields of an event lie after its header. Most lie at a constant distance from the one before, so they are
// found without a look at the others, and one check of the packet's end serves a whole run of them:
//
//     TSDL   u32 a; u64 b;  string s;  u8 n; u16 list[n];  u8 c;  variant <...> v;
//     steps  run: a, b      string     run: n  elements    run    node
//
// The steps serve readers in a hurry: those that step over events, and those that make text of them. FieldDecoder reads
// all fields without them, and is what they are tested against.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ctf/decode/bit_reader.hpp"
#include "ctf/decode/plan_node.hpp"

namespace leat::ctf {

// Bounds the memory of one event record: how many values it may have, with the elements of arrays and sequences.
inline constexpr std::uint64_t kMaxValues = 1U << 22U;
// Of the context of a packet, which is kept of each stream at once.
inline constexpr std::uint64_t kMaxContextValues = 1U << 16U;
// Of a packet header, which is decoded wherever a packet might begin.
inline constexpr std::uint64_t kMaxHeaderValues = 1U << 10U;

struct LayoutStep {
    enum class Op : std::uint8_t {
        kRun,       // `size` bits, with fields at constant distances
        kString,    // bytes up to a NUL
        kElements,  // of a sequence: as many of `size` bits as its length says
        kNode,      // anything else: FieldDecoder reads it
    };

    Op op = Op::kRun;
    std::uint32_t alignment = 1;    // bits
    std::uint32_t node = 0;         // of all but runs, into DecodePlan::nodes
    std::uint32_t length_slot = 0;  // of kElements
    std::uint64_t size = 0;         // bits
    std::uint32_t first_field = 0;  // of a run, into EventLayout::fields
    std::uint32_t field_count = 0;
    std::uint32_t first_kept = 0;  // of a run, into EventLayout::kept
    std::uint32_t kept_count = 0;
};

// A field of a run: an integer, an enum, a float, or an array of them or of characters.
struct LayoutField {
    std::uint32_t node = 0;
    std::uint32_t offset = 0;  // bits, from the begin of its run
};

// Fields at constant distances, to none of which another refers.
struct PlainRun {
    std::uint32_t alignment = 1;  // bits
    std::uint32_t size = 0;       // bits

    // Where it ends, if what is in front of it ends at `position`.
    [[nodiscard]] constexpr std::uint64_t end_after(std::uint64_t position) const {
        return aligned(position, alignment) + size;
    }
};

// Scopes of which nothing is a length or a tag: a run, and perhaps strings, each with a run behind it.
struct PlainLayout {
    PlainRun first{};
    std::vector<PlainRun> behind_strings{};
    std::uint32_t count = 0;  // of fields
};

struct EventLayout {
    std::vector<LayoutStep> steps{};
    std::vector<LayoutField> fields{};  // of all runs, in the order of the bytes
    std::vector<LayoutField> kept{};    // those that lengths and tags name
    std::uint64_t count = 0;            // of all fields and elements, but for those of steps of their own
    // It moves the clock, or a length or tag is a field of another scope: PacketDecoder reads the whole event.
    bool is_for_decoder = false;
    std::optional<PlainLayout> plain{};  // if the scopes are plain, and not for the decoder
};

// The step that a field other than a struct has of its own; none: it lies in a run.
[[nodiscard]] std::optional<LayoutStep::Op> step_of(std::span<const PlanNode> nodes, const PlanNode& field);

// Lays out some scopes of an event, in the order of their bytes. `is_for_decoder`: if it is known already.
[[nodiscard]] EventLayout lay_out(std::span<const PlanNode> nodes, std::span<const PlanRoot> scopes,
                                  bool is_for_decoder = false);

}  // namespace leat::ctf
