#pragma once

namespace leat {

// Whether a guess, a number or a pointer, was right. The processor takes it for right and goes on. If the compiler knew
// that both are the same then, it could go on with the real value instead, for which the processor would have to wait.
template <class Value>
[[nodiscard, gnu::always_inline]] inline bool is_right(Value guess, Value real) {
    asm("" : "+r"(guess));
    return guess == real;
}

}  // namespace leat
