/* Asks for a snapshot: what this program and others have recorded lately is to be stored now, because something went
 * wrong.
 *
 *     if (latency_us > 50000) leat_snapshot();
 *
 * Who records the program in overwrite mode (leat record --flight-recorder, leat create --snapshot) stores one; others
 * do nothing. It comes from outside: the call does not wait, and the program may go on, or die. Of many requests, one a
 * second is met. Costs a system call for each channel in overwrite mode; nothing but a few loads if there is none.
 *
 * C11 and C++17. Any thread; async-signal-safe, also in the handler of a SIGSEGV; errno stays as it was. */
#ifndef LEAT_SNAPSHOT_H
#define LEAT_SNAPSHOT_H

#include <leat/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

LEAT_EXPORT void leat_snapshot(void);

#ifdef __cplusplus
}
namespace leat {
inline void snapshot() { leat_snapshot(); }
}  // namespace leat
#endif

#endif
