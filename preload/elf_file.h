/* Reads from the file of a shared library what traces say of it, so that its addresses can be looked up later. */
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

/* Members that cannot be read, or make no sense, stay zero. Allocates nothing; preserves errno. */
void read_elf_file(const char* path, struct elf_file* elf);

#endif
