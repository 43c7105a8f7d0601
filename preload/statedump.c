#include "statedump.h"

#include <errno.h>
#include <leat/sticky.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf_file.h"

struct loaded {
    uintptr_t base; /* of its first segment */
    uint64_t size;
    bool is_pic;
    struct elf_file elf;
    char path[PATH_MAX];
};

#define BIN_INFO_FIELDS(FIELD)                                      \
    FIELD(integer_hex, uintptr_t, baddr, loaded->base)              \
    FIELD(integer, uint64_t, memsz, loaded->size)                   \
    FIELD(string, path, loaded->path)                               \
    FIELD(integer, uint8_t, is_pic, loaded->is_pic)                 \
    FIELD(integer, uint8_t, has_build_id, loaded->elf.has_build_id) \
    FIELD(integer, uint8_t, has_debug_link, loaded->elf.has_debug_link)
LEAT_STICKY_EVENT(leat_statedump, bin_info, LEAT_DEBUG_LINE, BIN_INFO_FIELDS, const struct loaded* loaded);

#define BUILD_ID_FIELDS(FIELD)                         \
    FIELD(integer_hex, uintptr_t, baddr, loaded->base) \
    FIELD(sequence_hex, uint8_t, build_id, loaded->elf.build_id, size_t, loaded->elf.build_id_size)
LEAT_STICKY_EVENT(leat_statedump, build_id, LEAT_DEBUG_LINE, BUILD_ID_FIELDS, const struct loaded* loaded);

#define DEBUG_LINK_FIELDS(FIELD)                              \
    FIELD(integer_hex, uintptr_t, baddr, loaded->base)        \
    FIELD(integer, uint32_t, crc, loaded->elf.debug_link_crc) \
    FIELD(string, filename, loaded->elf.debug_link)
LEAT_STICKY_EVENT(leat_statedump, debug_link, LEAT_DEBUG_LINE, DEBUG_LINK_FIELDS, const struct loaded* loaded);

/* Those whose values are set. There is no room for the values of more. */
enum { kMaxKnown = 128 };
static struct known {
    uintptr_t base; /* 0: unused */
    uint64_t size;
    unsigned round; /* in which it was seen last */
} known[kMaxKnown];
static unsigned current_round;

static void forget(struct known* gone) {
    leat_forget(leat_statedump, bin_info, gone->base);
    leat_forget(leat_statedump, build_id, gone->base);
    leat_forget(leat_statedump, debug_link, gone->base);
    gone->base = 0;
}

/* Returns whether it is new. Another library may lie where one was that has gone. */
static bool note(uintptr_t base, uint64_t size) {
    struct known* free_place = NULL;
    for (struct known* at = known; at != known + kMaxKnown; ++at) {
        if (at->base == base && at->size == size) {
            at->round = current_round;
            return false;
        }
        if (at->base == base) forget(at);
        if (at->base == 0 && free_place == NULL) free_place = at;
    }
    if (free_place != NULL) *free_place = (struct known){base, size, current_round};
    return true;
}

static void measure(const struct dl_phdr_info* info, struct loaded* loaded) {
    uint64_t begin = UINT64_MAX;
    uint64_t end = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)* const segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD) continue;
        if (segment->p_vaddr < begin) begin = segment->p_vaddr;
        if (segment->p_vaddr + segment->p_memsz > end) end = segment->p_vaddr + segment->p_memsz;
    }
    if (begin > end) begin = end;
    loaded->base = info->dlpi_addr + begin;
    loaded->size = end - begin;
    loaded->is_pic = info->dlpi_addr != 0;
}

/* The kernel's own has no file, and a name without a directory. */
static void find_file(const char* name, struct loaded* loaded) {
    memset(&loaded->elf, 0, sizeof loaded->elf);
    if (name[0] == '\0') name = "/proc/self/exe";
    if (strchr(name, '/') == NULL || realpath(name, loaded->path) == NULL) {
        strncpy(loaded->path, name, sizeof loaded->path - 1);
        loaded->path[sizeof loaded->path - 1] = '\0';
    }
    if (strchr(loaded->path, '/') != NULL) read_elf_file(loaded->path, &loaded->elf);
}

static __attribute__((noinline)) void set_values(const char* name, struct loaded* loaded) {
    find_file(name, loaded);
    leat_sticky(leat_statedump, bin_info, loaded->base, loaded);
    if (loaded->elf.has_build_id) leat_sticky(leat_statedump, build_id, loaded->base, loaded);
    if (loaded->elf.has_debug_link) leat_sticky(leat_statedump, debug_link, loaded->base, loaded);
}

static int visit(struct dl_phdr_info* info, size_t size, void* unused) {
    (void)size;
    (void)unused;
    struct loaded loaded;
    measure(info, &loaded);
    if (note(loaded.base, loaded.size)) set_values(info->dlpi_name, &loaded);
    return 0;
}

static void compare_with_loader(void) {
    ++current_round;
    dl_iterate_phdr(visit, NULL);
    for (struct known* at = known; at != known + kMaxKnown; ++at)
        if (at->base != 0 && at->round != current_round) forget(at);
}

/* Whoever comes while another thread is at it leaves it to that one: it looks again if anybody came.
 *
 *     a    busy        compares    not busy    wanted has changed: once more
 *     b        wanted + 1, busy: returns
 */
static unsigned wanted;
static unsigned is_busy;

/* Before libleat knows our tracepoints, values would be lost. */
static bool has_begun;

void note_libraries(void) {
    if (!__atomic_load_n(&has_begun, __ATOMIC_ACQUIRE)) return;
    const int saved_errno = errno;
    __atomic_add_fetch(&wanted, 1, __ATOMIC_SEQ_CST);
    while (__atomic_exchange_n(&is_busy, 1, __ATOMIC_SEQ_CST) == 0) {
        const unsigned seen = __atomic_load_n(&wanted, __ATOMIC_SEQ_CST);
        compare_with_loader();
        __atomic_store_n(&is_busy, 0, __ATOMIC_SEQ_CST);
        if (seen == __atomic_load_n(&wanted, __ATOMIC_SEQ_CST)) break;
    }
    errno = saved_errno;
}

/* The thread that was at it is not there. */
static void settle_in_child(void) { __atomic_store_n(&is_busy, 0, __ATOMIC_SEQ_CST); }

/* After libleat knows our tracepoints. Constructors of other libraries may have run before, and loaded more. */
static __attribute__((constructor(102))) void begin(void) {
    pthread_atfork(NULL, NULL, settle_in_child);
    __atomic_store_n(&has_begun, true, __ATOMIC_RELEASE);
    note_libraries();
}
