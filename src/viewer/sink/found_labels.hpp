#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ctf/model/field_class.hpp"

namespace leat::viewer {

// The labels of a value, each as the number of the first range that has it, in the order of their declaration.
class FoundLabels {
  public:
    FoundLabels(std::uint64_t number, const ctf::EnumClass& enumeration);

    [[nodiscard]] std::span<const std::uint32_t> labels() const {
        return found_.labels.empty() ? std::span(few_).first(count_) : found_.labels;
    }
    // There are more than are found.
    [[nodiscard]] bool has_more() const { return found_.has_more; }

  private:
    void find_few(std::uint64_t number, const ctf::EnumClass& enumeration);
    void find_bits(std::uint64_t bits, const ctf::EnumClass& map);

    ctf::EnumLabels::Found found_{};  // of an enum with an index
    std::array<std::uint32_t, ctf::EnumLabels::kMaxFound> few_;
    std::size_t count_ = 0;
};

}  // namespace leat::viewer
