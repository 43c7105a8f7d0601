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

/* libleat keeps so many values for us. Those that say where libraries are go first: build ids and debug links have what
 * is left, and make room for a library that comes later. */
enum { kMaxValues = 128 };

enum detail {
    kNone, /* the file has none */
    kLeftOut,
    kSet,
};

/* Those whose bin_info is set. */
static struct known {
    uintptr_t base; /* 0: unused */
    uint64_t size;
    unsigned round; /* in which it was seen last */
    unsigned came;  /* in this round: later, its path may be another file's */
    enum detail build_id;
    enum detail debug_link;
} known[kMaxValues];
static unsigned current_round;
static unsigned values_set; /* no fewer than that; a child of fork() may count one too many */

static void leave_out_details(struct known* of) {
    if (of->build_id == kSet) {
        leat_forget(leat_statedump, build_id, of->base);
        of->build_id = kLeftOut;
        --values_set;
    }
    if (of->debug_link == kSet) {
        leat_forget(leat_statedump, debug_link, of->base);
        of->debug_link = kLeftOut;
        --values_set;
    }
}

static void forget(struct known* gone) {
    leave_out_details(gone);
    leat_forget(leat_statedump, bin_info, gone->base);
    gone->base = 0;
    --values_set;
}

/* Those that came last give first. */
static bool has_room_for_library(void) {
    for (struct known* at = known + kMaxValues; values_set == kMaxValues && at-- != known;)
        if (at->base != 0) leave_out_details(at);
    return values_set != kMaxValues;
}

/* Of 0: an unused one. */
static struct known* find(uintptr_t base) {
    for (struct known* at = known; at != known + kMaxValues; ++at)
        if (at->base == base) return at;
    return NULL;
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

/* As far as there is room for them. */
static void set_details(struct known* of, const struct loaded* loaded) {
    if (of->build_id == kLeftOut && loaded->elf.has_build_id && values_set != kMaxValues) {
        leat_sticky(leat_statedump, build_id, of->base, loaded);
        ++values_set;
        of->build_id = kSet;
    }
    if (of->debug_link == kLeftOut && loaded->elf.has_debug_link && values_set != kMaxValues) {
        leat_sticky(leat_statedump, debug_link, of->base, loaded);
        ++values_set;
        of->debug_link = kSet;
    }
}

/* Another library may lie where one was that has gone. */
static int see(struct dl_phdr_info* info, size_t size, void* count) {
    (void)size;
    ++*(unsigned*)count;
    struct loaded loaded;
    measure(info, &loaded);
    struct known* const found = find(loaded.base);
    if (found != NULL && found->size == loaded.size) found->round = current_round;
    return 0;
}

/* With its details, if all libraries have room for theirs: so each file is read once. */
static int add(struct dl_phdr_info* info, size_t size, void* has_room_for_all) {
    (void)size;
    struct loaded loaded;
    measure(info, &loaded);
    if (find(loaded.base) != NULL) return 0;
    if (!has_room_for_library()) return 1;
    find_file(info->dlpi_name, &loaded);
    leat_sticky(leat_statedump, bin_info, loaded.base, &loaded);
    ++values_set;
    struct known* const added = find(0);
    *added = (struct known){loaded.base,
                            loaded.size,
                            current_round,
                            current_round,
                            loaded.elf.has_build_id ? kLeftOut : kNone,
                            loaded.elf.has_debug_link ? kLeftOut : kNone};
    if (*(const bool*)has_room_for_all) set_details(added, &loaded);
    return 0;
}

static int add_details(struct dl_phdr_info* info, size_t size, void* unused) {
    (void)size;
    (void)unused;
    if (values_set == kMaxValues) return 1;
    struct loaded loaded;
    measure(info, &loaded);
    struct known* const found = find(loaded.base);
    if (found == NULL || found->came != current_round) return 0;
    if (found->build_id != kLeftOut && found->debug_link != kLeftOut) return 0;
    find_file(info->dlpi_name, &loaded);
    set_details(found, &loaded);
    return 0;
}

static void compare_with_loader(void) {
    ++current_round;
    unsigned count = 0;
    dl_iterate_phdr(see, &count);
    for (struct known* at = known; at != known + kMaxValues; ++at)
        if (at->base != 0 && at->round != current_round) forget(at);
    bool has_room_for_all = 3 * count <= kMaxValues;
    dl_iterate_phdr(add, &has_room_for_all);
    dl_iterate_phdr(add_details, NULL);
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
