/* Libraries loaded and unloaded while a program runs, traced: the events "lttng_ust_dl:*", with fields and types, of
 * LTTng's liblttng-ust-dl ([LTTng-2.13], lttng-ust-dl(3)). (LTTng repeats them as "lttng_ust_lib:*" for libraries that
 * come along with others. We do not.)
 *
 * Any thread; in forked children. */
#include <dlfcn.h>
#include <errno.h>
#include <leat/tracepoint.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>

#include "elf_file.h"
#include "statedump.h"

/* The fields that dlopen and dlmopen share; dlmopen has a namespace, too. */
#define LIBRARY_FIELDS(FIELD)                                        \
    FIELD(string, path, library->path)                               \
    FIELD(integer, uint8_t, has_build_id, library->elf.has_build_id) \
    FIELD(integer, uint8_t, has_debug_link, library->elf.has_debug_link)
#define BASE_FIELDS(FIELD)                              \
    FIELD(integer_hex, uintptr_t, baddr, library->base) \
    FIELD(integer, uint64_t, memsz, library->elf.memory_size)

struct library {
    uintptr_t base;
    struct elf_file elf;
    char path[PATH_MAX];
};

#define DLOPEN_FIELDS(FIELD)              \
    BASE_FIELDS(FIELD)                    \
    FIELD(integer_hex, int, flags, flags) \
    LIBRARY_FIELDS(FIELD)
LEAT_TRACEPOINT(lttng_ust_dl, dlopen, LEAT_DEBUG_LINE, DLOPEN_FIELDS, const struct library* library, int flags);

#define DLMOPEN_FIELDS(FIELD)             \
    BASE_FIELDS(FIELD)                    \
    FIELD(integer, Lmid_t, nsid, nsid)    \
    FIELD(integer_hex, int, flags, flags) \
    LIBRARY_FIELDS(FIELD)
LEAT_TRACEPOINT(lttng_ust_dl, dlmopen, LEAT_DEBUG_LINE, DLMOPEN_FIELDS, const struct library* library, Lmid_t nsid,
                int flags);

#define BUILD_ID_FIELDS(FIELD)                          \
    FIELD(integer_hex, uintptr_t, baddr, library->base) \
    FIELD(sequence_hex, uint8_t, build_id, library->elf.build_id, size_t, library->elf.build_id_size)
LEAT_TRACEPOINT(lttng_ust_dl, build_id, LEAT_DEBUG_LINE, BUILD_ID_FIELDS, const struct library* library);

#define DEBUG_LINK_FIELDS(FIELD)                               \
    FIELD(integer_hex, uintptr_t, baddr, library->base)        \
    FIELD(integer, uint32_t, crc, library->elf.debug_link_crc) \
    FIELD(string, filename, library->elf.debug_link)
LEAT_TRACEPOINT(lttng_ust_dl, debug_link, LEAT_DEBUG_LINE, DEBUG_LINK_FIELDS, const struct library* library);

#define DLCLOSE_FIELDS(FIELD) FIELD(integer_hex, uintptr_t, baddr, base)
LEAT_TRACEPOINT(lttng_ust_dl, dlclose, LEAT_DEBUG_LINE, DLCLOSE_FIELDS, uintptr_t base);

static void* (*next_dlopen)(const char*, int);
static void* (*next_dlmopen)(Lmid_t, const char*, int);
static int (*next_dlclose)(void*);

/* Two threads may do this at once: both find the same. Constructors that run before ours may come here, too. */
static __attribute__((constructor(101))) void find_next(void) {
    const int saved_errno = errno;
    next_dlopen = dlsym(RTLD_NEXT, "dlopen");
    next_dlmopen = dlsym(RTLD_NEXT, "dlmopen");
    next_dlclose = dlsym(RTLD_NEXT, "dlclose");
    errno = saved_errno;
}

static bool wants_opened(void) {
    return leat_enabled(lttng_ust_dl, dlopen) || leat_enabled(lttng_ust_dl, dlmopen) ||
           leat_enabled(lttng_ust_dl, build_id) || leat_enabled(lttng_ust_dl, debug_link);
}

static bool has_tag(const ElfW(Dyn) * entry, long tag) {
    while (entry->d_tag != DT_NULL && entry->d_tag != tag) ++entry;
    return entry->d_tag == tag;
}

static bool has_own_search_path(const struct link_map* map) {
    return map != NULL && map->l_ld != NULL && (has_tag(map->l_ld, DT_RPATH) || has_tag(map->l_ld, DT_RUNPATH));
}

/* The loader looks at no DT_RPATH beside a DT_RUNPATH. */
static int has_rpath(struct dl_phdr_info* info, size_t size, void* unused) {
    (void)size;
    (void)unused;
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const ElfW(Dyn)* const entries = (const ElfW(Dyn)*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        if (has_tag(entries, DT_RPATH) && !has_tag(entries, DT_RUNPATH)) return 1;
    }
    return 0;
}

/* dlopen() learns from its return address which object calls it. It searches a bare name, and expands "$ORIGIN", on
 * behalf of that object: a name also by the DT_RPATH of the program and of those that have loaded the object, which
 * only the loader knows. Where that could matter, we must not be the caller: we go on with a jump and record no event.
 */
static bool depends_on_caller(const char* name, const void* caller) {
    if (strchr(name, '$') != NULL) return true;
    if (strchr(name, '/') != NULL) return false;
    Dl_info ignored;
    struct link_map* map = NULL;
    if (dladdr1(caller, &ignored, (void**)&map, RTLD_DL_LINKMAP) == 0) return true;
    return has_own_search_path(map) || dl_iterate_phdr(has_rpath, NULL) != 0;
}

static struct link_map* map_of(void* handle) {
    struct link_map* map = NULL;
    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map : NULL;
}

/* Finds out everything about an open library. Returns false if we cannot tell which library it is. */
static bool describe(void* handle, struct library* library) {
    const struct link_map* map = map_of(handle);
    if (map == NULL) return false;
    const int saved_errno = errno;
    library->base = map->l_addr;
    if (realpath(map->l_name, library->path) == NULL) {
        strncpy(library->path, map->l_name, sizeof library->path - 1);
        library->path[sizeof library->path - 1] = '\0';
    }
    read_elf_file(library->path, &library->elf);
    errno = saved_errno;
    return true;
}

static void trace_details(const struct library* library) {
    if (library->elf.has_build_id) leat_tracepoint(lttng_ust_dl, build_id, library);
    if (library->elf.has_debug_link) leat_tracepoint(lttng_ust_dl, debug_link, library);
}

static __attribute__((noinline)) void trace_dlopen(void* handle, int flags) {
    struct library library;
    if (!describe(handle, &library)) return;
    leat_tracepoint(lttng_ust_dl, dlopen, &library, flags);
    trace_details(&library);
}

static __attribute__((noinline)) void trace_dlmopen(void* handle, Lmid_t nsid, int flags) {
    struct library library;
    if (!describe(handle, &library)) return;
    leat_tracepoint(lttng_ust_dl, dlmopen, &library, nsid, flags);
    trace_details(&library);
}

LEAT_EXPORT void* dlopen(const char* name, int flags) {
    if (next_dlopen == NULL) find_next();
    /* NULL means the program itself: nothing is loaded. */
    if (name == NULL || depends_on_caller(name, __builtin_return_address(0))) return next_dlopen(name, flags);
    void* const handle = next_dlopen(name, flags);
    if (handle != NULL && wants_opened()) trace_dlopen(handle, flags);
    if (handle != NULL) note_libraries();
    return handle;
}

LEAT_EXPORT void* dlmopen(Lmid_t nsid, const char* name, int flags) {
    if (next_dlmopen == NULL) find_next();
    if (name == NULL || depends_on_caller(name, __builtin_return_address(0))) return next_dlmopen(nsid, name, flags);
    void* const handle = next_dlmopen(nsid, name, flags);
    if (handle != NULL && wants_opened()) trace_dlmopen(handle, nsid, flags);
    if (handle != NULL) note_libraries();
    return handle;
}

LEAT_EXPORT int dlclose(void* handle) {
    if (next_dlclose == NULL) find_next();
    if (leat_enabled(lttng_ust_dl, dlclose)) {
        const struct link_map* map = map_of(handle);
        if (map != NULL) leat_tracepoint(lttng_ust_dl, dlclose, map->l_addr);
    }
    const int result = next_dlclose(handle);
    note_libraries();
    return result;
}
