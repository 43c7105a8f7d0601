#pragma once

#include <cstdint>
#include <span>

#include "ctf/decode/plan_node.hpp"

namespace leat::ctf {

// The header of most events of a stream: an id and a timestamp in its first 64 bits. Tracers write longer ones for
// large ids and after long pauses; those say so by the id:
//
//     0    5                          32           LTTng's compact header
//     | id | timestamp, low 27 bits   |            id 31: the long form follows
struct HeaderForm {
    bool is_known = false;
    std::uint32_t alignment = 1;  // bits, as all of these
    std::uint32_t size = 0;
    std::uint32_t id_offset = 0;
    std::uint32_t id_size = 0;  // 0: it has none
    std::uint32_t time_offset = 0;
    std::uint32_t time_size = 0;  // 0: likewise
    // Ids for which it holds.
    std::uint64_t lowest_id = 0;
    std::uint64_t highest_id = UINT64_MAX;

    [[nodiscard]] bool is_of(std::uint64_t id) const { return id >= lowest_id && id <= highest_id; }
    // Of the header's first 64 bits.
    [[nodiscard]] std::uint64_t id_of(std::uint64_t bits) const { return part(bits, id_offset, id_size); }
    [[nodiscard]] std::uint64_t time_of(std::uint64_t bits) const { return part(bits, time_offset, time_size); }

  private:
    // Of fewer than 64 bits.
    [[nodiscard]] static std::uint64_t part(std::uint64_t bits, std::uint32_t offset, std::uint32_t size) {
        return bits >> offset & ((std::uint64_t{1} << size) - 1);
    }
};

[[nodiscard]] HeaderForm find_header_form(std::span<const PlanNode> nodes, std::span<const VariantChoice> choices,
                                          PlanRoot header);

}  // namespace leat::ctf
