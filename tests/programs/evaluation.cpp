// Counts how often arguments and field expressions are evaluated, and prints the counts.
#include <leat/printf.h>
#include <leat/tracepoint.h>

#include <cstdio>
#include <leat/event.hpp>

namespace {
int evaluated = 0;
int evaluate(int value) {
    ++evaluated;
    return value;
}
int in_field = 0;
}  // namespace

#define ONCE_FIELDS(FIELD)                \
    FIELD(integer, int32_t, value, value) \
    FIELD(integer, int32_t, twice, (++in_field, 2 * value))
LEAT_TRACEPOINT(test, once, LEAT_INFO, ONCE_FIELDS, int value);

int main() {
    leat_tracepoint(test, once, evaluate(1));
    std::printf("declared %d %d\n", evaluated, in_field);
    evaluated = 0;
    LEAT_EVENT("test:line", LEAT_FIELD(value, evaluate(2)), LEAT_FIELD(other, evaluate(3)));
    std::printf("one-line %d\n", evaluated);
    evaluated = 0;
    leat_printf("%d", evaluate(4));
    std::printf("printf %d\n", evaluated);
    return 0;
}
