#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/decode/bit_reader.hpp"
#include "ctf/decode/decode_plan.hpp"
#include "ctf/decode/field_value.hpp"

namespace leat::ctf {

// Decodes the fields of one packet after another along a plan. It trusts no byte: it never reads outside the packet,
// and the packet's size limits the number of its fields, so a few bytes cannot cause days of work.
class FieldDecoder {
  public:
    // The plan must outlive the decoder. It may grow.
    explicit FieldDecoder(const DecodePlan& plan) : plan_(&plan), slots_(plan.slot_count) {}

    // The next fields come from the first `size_bits` of these bytes.
    void start_packet(UntrustedBytes bytes, std::uint64_t size_bits);
    // Call this before the fields of an event that was added to the plan.
    void follow_plan() {
        if (slots_.size() < plan_->slot_count) slots_.resize(plan_->slot_count);
    }
    void set_end(std::uint64_t size_bits) { reader_.set_end(size_bits); }

    // Appends the shown fields of a scope to `values`.
    Result<void> decode(PlanRoot root, std::vector<FieldValue>& values);

    [[nodiscard]] std::uint64_t position() const { return reader_.position(); }
    [[nodiscard]] std::uint64_t remaining() const { return reader_.remaining(); }

    // The value of the last field with that role, if the packet had one.
    [[nodiscard]] std::optional<std::uint64_t> role(FieldRole role) const;
    void forget(FieldRole role) { roles_seen_ &= ~(1U << static_cast<unsigned>(role)); }

    // The clock's value after the last timestamp.
    [[nodiscard]] std::uint64_t clock() const { return clock_; }
    [[nodiscard]] bool has_clock() const { return has_clock_; }

  private:
    enum class Failure { kNone, kNoMoreBits, kTooManyFields, kNoOption, kOpenString };

    bool field(const PlanNode& node, std::vector<FieldValue>& values);
    bool integer(const PlanNode& node, std::vector<FieldValue>& values);
    bool real(const PlanNode& node, std::vector<FieldValue>& values);
    bool string(const PlanNode& node, std::vector<FieldValue>& values);
    bool text(const PlanNode& node, std::vector<FieldValue>& values);
    bool array(const PlanNode& node, std::vector<FieldValue>& values);
    bool structure(const PlanNode& node, std::vector<FieldValue>& values);
    bool variant(const PlanNode& node, std::vector<FieldValue>& values);

    void keep(const PlanNode& node, std::uint64_t value);
    bool append(const PlanNode& node, const FieldValue& value, std::vector<FieldValue>& values);
    bool append_text(const PlanNode& node, std::string_view text, std::vector<FieldValue>& values);
    [[nodiscard]] const PlanNode* chosen_option(const PlanNode& node) const;
    [[nodiscard]] const PlanNode* option_of_label(const PlanNode& node, std::uint64_t tag) const;
    [[nodiscard]] std::uint64_t length_of(const PlanNode& node) const;
    bool spend(std::uint64_t fields);
    bool fail_with(Failure failure);

    const DecodePlan* plan_;
    BitReader reader_;
    std::vector<std::uint64_t> slots_;
    std::array<std::uint64_t, kFieldRoles> roles_{};
    std::uint32_t roles_seen_ = 0;
    std::uint64_t clock_ = 0;
    bool has_clock_ = false;
    std::uint64_t fields_left_ = 0;  // how many more fields the packet may have
    Failure failure_ = Failure::kNone;
};

}  // namespace leat::ctf
