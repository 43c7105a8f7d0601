#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/decode/bit_reader.hpp"
#include "ctf/decode/decode_plan.hpp"
#include "ctf/decode/event_cursor.hpp"
#include "ctf/decode/field_value.hpp"
#include "ctf/model/clock.hpp"

namespace leat::ctf {

// Decodes the fields of one packet after another along a plan. It trusts no byte: it never reads outside the packet,
// and the packet's size limits the number of its fields, so a few bytes cannot cause days of work.
class FieldDecoder {
  public:
    // The plan must outlive the decoder. It may grow.
    explicit FieldDecoder(const DecodePlan& plan) : plan_(&plan), slots_(plan.slot_count) {}

    // The next fields come from the first `size_bits` of these bytes.
    void start_packet(UntrustedBytes bytes, std::uint64_t size_bits);
    // The packet ends after so many of them. False: that is less than its fields so far can take.
    [[nodiscard]] bool set_end(std::uint64_t size_bits);

    // Appends the shown fields of a scope to `values`. Texts that had to be made of others live until forget_texts()
    // takes them back, which takes all but the first so many.
    Result<void> decode(PlanRoot root, std::vector<FieldValue>& values, std::uint64_t max_values = kMaxValues);
    [[nodiscard]] std::size_t texts_made() const { return texts_.size(); }
    void forget_texts(std::size_t kept) {
        if (kept < texts_.size()) texts_.resize(kept);
    }

    // Steps over the scopes of an event, laid out. If that fails, the position is anywhere: decode() says what is
    // wrong.
    [[nodiscard]] bool skip(const EventLayout& layout);
    // The same for one step, after seek() to what the event's header is followed by. Afterwards begin_of_step() is
    // where the step's fields begin.
    [[nodiscard]] bool skip(const EventLayout& layout, const LayoutStep& step);
    [[nodiscard]] std::uint64_t begin_of_step() const { return begin_of_step_; }
    // The bytes from there on, which must be at a whole byte.
    [[nodiscard]] const std::byte* bytes_of_step() const { return bytes_at(begin_of_step_); }
    [[nodiscard]] const std::byte* bytes_at(std::uint64_t position) const { return reader_.at(position); }
    // The value of a number at this position, with 64 bits. It must have been stepped over.
    [[nodiscard]] std::uint64_t number_at(const PlanNode& node, std::uint64_t position) const;
    [[nodiscard]] double real_at(const PlanNode& node, std::uint64_t position) const {
        return real_of(number_at(node, position), node.size);
    }
    // The same with its class, without a name.
    [[nodiscard]] FieldValue value_at(const PlanNode& node, std::uint64_t position) const;
    // The next header, if it is a short one: its id. If it is not, nothing is read.
    [[nodiscard]] std::optional<std::uint64_t> short_header(const HeaderForm& form);
    // Where it is. Others may go on from there, and then the decoder from where they have come to.
    [[nodiscard]] EventCursor cursor() const { return {reader_, clock_, has_clock_, fields_left_}; }
    void go_on_from(const EventCursor& cursor);

    [[nodiscard]] std::uint64_t position() const { return reader_.position(); }
    // Readers of single steps come to each event by this, and the plan may have grown since the packet began.
    void seek(std::uint64_t position) {
        follow_plan();
        reader_.seek(position);
    }
    [[nodiscard]] std::uint64_t remaining() const { return reader_.remaining(); }
    // How many more fields and elements the packet may have.
    [[nodiscard]] std::uint64_t fields_left() const { return fields_left_; }

    // The value of the last field with that role, if the packet had one.
    [[nodiscard]] std::optional<std::uint64_t> role(FieldRole role) const;
    void forget(FieldRole role) { roles_seen_ &= ~(1U << static_cast<unsigned>(role)); }

    // The clock's value after the last timestamp.
    [[nodiscard]] std::uint64_t clock() const { return clock_; }
    [[nodiscard]] bool has_clock() const { return has_clock_; }
    void set_clock(std::uint64_t clock) { clock_ = clock; }

  private:
    // The plan may have grown.
    void follow_plan() {
        if (slots_.size() < plan_->slot_count) slots_.resize(plan_->slot_count);
    }
    static double real_of(std::uint64_t bits, unsigned size);
    enum class Failure { kNone, kNoMoreBits, kTooManyFields, kTooManyValues, kNoOption, kOpenString, kTooLarge };

    bool field(const PlanNode& node, std::vector<FieldValue>& values);
    bool integer(const PlanNode& node, std::vector<FieldValue>& values);
    bool odd_integer(const PlanNode& node, std::vector<FieldValue>& values);
    bool variable_integer(const PlanNode& node, std::vector<FieldValue>& values);
    // Takes the value, whose lowest bits were read.
    bool take_integer(const PlanNode& node, std::uint64_t value, unsigned bits, std::vector<FieldValue>& values);
    bool real(const PlanNode& node, std::vector<FieldValue>& values);
    bool string(const PlanNode& node, std::vector<FieldValue>& values);
    bool text(const PlanNode& node, std::vector<FieldValue>& values);
    bool wide_string(const PlanNode& node, std::vector<FieldValue>& values);
    bool wide_text(const PlanNode& node, std::vector<FieldValue>& values);
    bool append_wide_text(const PlanNode& node, std::string_view text, Encoding encoding,
                          std::vector<FieldValue>& values);
    bool array(const PlanNode& node, std::vector<FieldValue>& values);
    bool structure(const PlanNode& node, std::vector<FieldValue>& values);
    bool variant(const PlanNode& node, std::vector<FieldValue>& values);

    bool skip_other(const LayoutStep& step);
    void keep_of_run(const EventLayout& layout, const LayoutStep& run);
    bool skip_string();
    bool skip_elements(const LayoutStep& step);

    void keep(const PlanNode& node, std::uint64_t value);
    bool append(const PlanNode& node, const FieldValue& value, std::vector<FieldValue>& values);
    bool append_text(const PlanNode& node, std::string_view text, std::vector<FieldValue>& values);
    [[nodiscard]] const PlanNode* chosen_option(const PlanNode& node) const;
    [[nodiscard]] const PlanNode* option_of_value(const PlanNode& node, std::uint64_t tag) const;
    [[nodiscard]] const PlanNode* option_of_label(const PlanNode& node, std::uint64_t tag) const;
    [[nodiscard]] std::uint64_t length_of(const PlanNode& node) const;
    bool spend(std::uint64_t fields) {
        if (fields > fields_left_) return fail_with(Failure::kTooManyFields);
        fields_left_ -= fields;
        return true;
    }
    bool fail_with(Failure failure) {
        failure_ = failure;
        return false;
    }

    const DecodePlan* plan_;
    BitReader reader_;
    std::vector<std::uint64_t> slots_;
    std::array<std::uint64_t, kFieldRoles> roles_{};
    std::uint32_t roles_seen_ = 0;
    std::uint64_t clock_ = 0;
    bool has_clock_ = false;
    std::uint64_t fields_at_first_ = 0;      // as many as the bytes could hold
    std::uint64_t fields_left_ = 0;          // how many more fields the packet may have
    std::uint64_t max_values_ = kMaxValues;  // of the scope that is decoded
    Failure failure_ = Failure::kNone;
    std::vector<FieldValue> skipped_;
    std::deque<std::string> texts_;
    std::uint64_t begin_of_step_ = 0;  // bits
};

// What steps over events is compiled into the loops that do so.

inline std::optional<std::uint64_t> FieldDecoder::short_header(const HeaderForm& form) {
    BitReader reader = reader_;
    if (!form.is_known || !reader.align(form.alignment) || reader.remaining() < 64) return std::nullopt;
    const std::uint64_t bits = reader.peek_64();
    const std::uint64_t id = form.id_of(bits);
    if (!form.is_of(id)) return std::nullopt;
    if (form.time_size != 0) {
        clock_ = extend_timestamp(clock_, form.time_of(bits), form.time_size);
        has_clock_ = true;
    }
    reader.skip(form.size);
    reader_ = reader;
    return id;
}

inline void FieldDecoder::go_on_from(const EventCursor& cursor) {
    reader_ = cursor.reader;
    clock_ = cursor.clock;
    has_clock_ = cursor.has_clock;
    fields_left_ = cursor.fields_left;
}

inline bool FieldDecoder::skip(const EventLayout& layout) {
    follow_plan();
    if (!spend(layout.count)) return false;
    for (const LayoutStep& step : layout.steps)
        if (!skip(layout, step)) return false;
    return true;
}

inline bool FieldDecoder::skip(const EventLayout& layout, const LayoutStep& step) {
    if (!reader_.align(step.alignment)) return false;
    begin_of_step_ = reader_.position();
    if (step.op != LayoutStep::Op::kRun) return skip_other(step);
    if (reader_.remaining() < step.size) return false;
    reader_.skip(step.size);
    if (step.kept_count != 0) keep_of_run(layout, step);
    return true;
}

}  // namespace leat::ctf
