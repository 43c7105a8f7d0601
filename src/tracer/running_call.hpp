// Programs may jump out of a call of ours: siglongjmp() in a handler that has interrupted it, longjmp() in a context's
// get(). What the call has noted for its thread then stays. So such a note is the place of the call's frame:
//
//     the stack grows down   main  |  emits  |  our call  |  handler  |  emits
//                                            note         here, deeper: the call runs, or another one at its place
//                            main  |  emits           here, not deeper: somebody has jumped out of it
//
// On another stack (sigaltstack), this may be wrong in both ways.
#pragma once

#include <stdint.h>

namespace leat::tracer {

// What lies on the stack between a call of ours and another one that a handler, or a function of the program, makes
// within it: the kernel's frame, or a record in the making. Two calls that follow each other begin less far apart.
inline constexpr uintptr_t kDepthWithin = 512;  // bytes

// Of the function that calls this.
__attribute__((always_inline)) inline uintptr_t own_frame() {
    return reinterpret_cast<uintptr_t>(__builtin_frame_address(0));  // NOLINT(*-reinterpret-cast)
}

// Whether the call that noted its frame as `note` (0: none) still runs, where one at `here` would be a part of it.
inline bool runs_around(uintptr_t note, uintptr_t here) { return note != 0 && here + kDepthWithin < note; }

}  // namespace leat::tracer
