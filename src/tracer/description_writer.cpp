#include "tracer/description_writer.hpp"

#include <string.h>

#include "wire/app/description_format.hpp"

namespace leat::tracer {
namespace {

// Appends to memory, or only counts when it has none: so the table is measured and written by the same code.
class Appender {
  public:
    explicit Appender(char* memory) : memory_(memory) {}

    [[nodiscard]] size_t size() const { return size_; }

    template <class T>
    void value(T value) {
        bytes(&value, sizeof value);
    }

    void string(const char* text) {
        const size_t length = text == nullptr ? 0 : strnlen(text, UINT16_MAX);
        value(static_cast<uint16_t>(length));
        bytes(text, length);
    }

  private:
    void bytes(const void* from, size_t count) {
        if (memory_ != nullptr && count != 0) memcpy(memory_ + size_, from, count);
        size_ += count;
    }

    char* memory_;
    size_t size_ = 0;
};

// An enumerator without a value of its own follows the one before, as in C. The sum may wrap: so it is an unsigned one.
void append_values(Appender& out, const leat_enumeration* enumeration) {
    if (enumeration == nullptr) return out.value(uint32_t{0});
    out.value(enumeration->value_count);
    int64_t next = 0;
    for (uint32_t i = 0; i < enumeration->value_count; ++i) {
        const leat_value& value = enumeration->values[i];
        const bool is_auto = (value.flags & LEAT_VALUE_AUTO) != 0;
        const int64_t high = is_auto ? next : value.high;
        out.string(value.label);
        out.value(is_auto ? next : value.low);
        out.value(high);
        next = static_cast<int64_t>(static_cast<uint64_t>(high) + 1);
    }
}

void append_field(Appender& out, const leat_field& field) {
    out.string(field.name);
    out.value(field.shape);
    out.value(field.element);
    out.value(field.element_size);
    out.value(static_cast<uint8_t>(field.flags | (field.is_hidden != 0 ? wire::kHiddenField : 0)));
    out.value(field.length_size);
    out.value(field.count);
    append_values(out, field.element == LEAT_ELEMENT_ENUM ? field.enumeration : nullptr);
}

void append_tracepoint(Appender& out, const leat_tracepoint& tracepoint) {
    out.string(tracepoint.name);
    out.value(tracepoint.log_level);
    out.string(tracepoint.file);
    out.value(tracepoint.line);
    out.string(tracepoint.uri);
    out.value(tracepoint.field_count);
    for (uint32_t i = 0; i < tracepoint.field_count; ++i) append_field(out, tracepoint.fields[i]);
}

size_t append_table(char* memory, size_t table_size, const leat_tracepoint* const* tracepoints, size_t count) {
    Appender out(memory);
    out.value(wire::kDescriptionMagic);
    out.value(wire::kDescriptionVersion);
    out.value(static_cast<uint32_t>(count));
    out.value(static_cast<uint32_t>(table_size));
    for (size_t i = 0; i < count; ++i) append_tracepoint(out, *tracepoints[i]);
    return out.size();
}

}  // namespace

size_t description_table_size(const leat_tracepoint* const* tracepoints, size_t count) {
    return append_table(nullptr, 0, tracepoints, count);
}

void write_description_table(char* memory, size_t size, const leat_tracepoint* const* tracepoints, size_t count) {
    append_table(memory, size, tracepoints, count);
}

}  // namespace leat::tracer
