/* Every program or shared library announces its tracepoints to libleat when it is loaded.
 *
 * Included by the headers that programs include; all of this is hidden, once in each module. */
#ifndef LEAT_MODULE_H
#define LEAT_MODULE_H

#include <leat/sdt.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The linker gathers pointers to all tracepoints of a module in the section "leat_tracepoints". Nothing refers to these
 * pointers by name, so some linkers drop them with --gc-sections; where the compiler knows how, they are marked as
 * retained. The attribute and the flags (for <leat/event.hpp>) must agree: an assembler may refuse to give one section
 * two sets of flags. */
#if defined(__has_attribute)
#if __has_attribute(__retain__)
#define LEAT_IN_SECTION_ __section__("leat_tracepoints"), __used__, __retain__
#define LEAT_SECTION_FLAGS_ "awR"
#endif
#endif
#ifndef LEAT_IN_SECTION_
#define LEAT_IN_SECTION_ __section__("leat_tracepoints"), __used__
#define LEAT_SECTION_FLAGS_ "aw"
#endif

extern struct leat_tracepoint* const __start_leat_tracepoints[] __attribute__((__weak__, __visibility__("hidden")));
extern struct leat_tracepoint* const __stop_leat_tracepoints[] __attribute__((__weak__, __visibility__("hidden")));

/* Tools look where the section ".probes" lies in the file and in memory, and expect the counters of probes
 * (<leat/sdt.h>) in the same distance. Any data of ours brings that section about. */
#if defined(LEAT_HAS_SDT_)
#define LEAT_AMONG_PROBES_ , __section__(".probes")
#else
#define LEAT_AMONG_PROBES_
#endif

/* Weak and hidden: each translation unit brings one, the linker keeps one for each module. */
__attribute__((__weak__, __visibility__("hidden") LEAT_AMONG_PROBES_)) struct leat_module leat_module_ = {
    LEAT_ABI_VERSION, 0, __start_leat_tracepoints, __stop_leat_tracepoints, NULL, {NULL, NULL, NULL}};

/* Early (101 is the first priority that is not the implementation's), so that other constructors are traced. */
static __attribute__((__constructor__(101), __used__)) void leat_module_constructor_(void) {
    leat_module_load(&leat_module_);
}
static __attribute__((__destructor__(101), __used__)) void leat_module_destructor_(void) {
    leat_module_unload(&leat_module_);
}

#ifdef __cplusplus
}
#endif

#endif
