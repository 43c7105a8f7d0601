/* What traces say of a shared library, so that its addresses can be looked up later: read from its file. */
#ifndef LEAT_PRELOAD_ELF_FILE_H
#define LEAT_PRELOAD_ELF_FILE_H

#include <stdbool.h>
#include <stdint.h>

enum { kMaxBuildIdSize = 64, kMaxDebugLinkSize = 256 };

struct elf_file {
    uint64_t memory_size; /* from its base address to the end of its last segment */
    uint32_t build_id_size;
    uint8_t build_id[kMaxBuildIdSize];
    bool has_build_id;
    bool has_debug_link;
    uint32_t debug_link_crc;
    char debug_link[kMaxDebugLinkSize];
};

/* What cannot be read, or makes no sense, stays zero. Allocates nothing; preserves errno. */
void read_elf_file(const char* path, struct elf_file* elf);

#endif
