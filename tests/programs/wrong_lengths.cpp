// Impossible lengths, each followed by fields that add to the size. tests/interop/tracer.py counts the discarded
// events.
#include <leat/tracepoint.h>

#include <cstdint>
#include <cstdio>
#include <leat/event.hpp>

namespace {

volatile std::size_t wrong = SIZE_MAX;  // volatile: a compiler that knows the number would warn

// A container whose size was overwritten.
struct Broken {
    const std::uint8_t* data() const { return bytes; }
    std::size_t size() const { return wrong; }
    std::uint8_t bytes[1] = {1};
};

}  // namespace

#define WRONG_LENGTH(FIELD) FIELD(sequence, std::uint8_t, bytes, "x", std::size_t, wrong)

#define BEFORE_INTEGER_FIELDS(FIELD) WRONG_LENGTH(FIELD) FIELD(integer, std::uint64_t, last, 7)
LEAT_TRACEPOINT(wrong, before_integer, LEAT_INFO, BEFORE_INTEGER_FIELDS, void);
#define BEFORE_STRING_FIELDS(FIELD) WRONG_LENGTH(FIELD) FIELD(string, last, "text")
LEAT_TRACEPOINT(wrong, before_string, LEAT_INFO, BEFORE_STRING_FIELDS, void);
#define BEFORE_ARRAY_FIELDS(FIELD) WRONG_LENGTH(FIELD) FIELD(array, std::uint8_t, last, "text", 4)
LEAT_TRACEPOINT(wrong, before_array, LEAT_INFO, BEFORE_ARRAY_FIELDS, void);
#define BEFORE_TEXT_FIELDS(FIELD) WRONG_LENGTH(FIELD) FIELD(text, last, "text", 4)
LEAT_TRACEPOINT(wrong, before_text, LEAT_INFO, BEFORE_TEXT_FIELDS, void);
#define BEFORE_SEQUENCE_FIELDS(FIELD) WRONG_LENGTH(FIELD) FIELD(sequence, std::uint16_t, last, "text", std::uint8_t, 2)
LEAT_TRACEPOINT(wrong, before_sequence, LEAT_INFO, BEFORE_SEQUENCE_FIELDS, void);
#define WIDE_FIELDS(FIELD) FIELD(sequence, std::uint64_t, wide, "x", std::size_t, wrong / 4) FIELD(boolean, last, true)
LEAT_TRACEPOINT(wrong, wide, LEAT_INFO, WIDE_FIELDS, void);

int main() {
    leat_tracepoint(wrong, before_integer);
    leat_tracepoint(wrong, before_string);
    leat_tracepoint(wrong, before_array);
    leat_tracepoint(wrong, before_text);
    leat_tracepoint(wrong, before_sequence);
    leat_tracepoint(wrong, wide);
    const Broken broken;
    const std::uint64_t last = 7;
    LEAT_EVENT("wrong:one_line", broken, last);
    LEAT_EVENT("right:done", last);
    std::puts("7");
    return 0;
}
