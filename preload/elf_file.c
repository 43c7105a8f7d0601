#include "elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static bool read_at(int fd, void* to, size_t size, uint64_t offset) {
    return pread(fd, to, size, (off_t)offset) == (ssize_t)size;
}

static bool is_ours(const ElfW(Ehdr) * header) {
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) &&
           header->e_phentsize == sizeof(ElfW(Phdr)) &&
           (header->e_shnum == 0 || header->e_shentsize == sizeof(ElfW(Shdr)));
}

static uint64_t padded(uint64_t size) { return (size + 3) & ~(uint64_t)3; }

static void read_build_id(int fd, const ElfW(Phdr) * notes, struct elf_file* elf) {
    ElfW(Nhdr) note;
    const uint64_t end = notes->p_offset + notes->p_filesz;
    for (uint64_t at = notes->p_offset; at + sizeof note <= end && read_at(fd, &note, sizeof note, at);
         at += sizeof note + padded(note.n_namesz) + padded(note.n_descsz)) {
        char name[4];
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof name || note.n_descsz > kMaxBuildIdSize) continue;
        if (!read_at(fd, name, sizeof name, at + sizeof note) || memcmp(name, ELF_NOTE_GNU, sizeof name) != 0) continue;
        elf->has_build_id = read_at(fd, elf->build_id, note.n_descsz, at + sizeof note + sizeof name);
        elf->build_id_size = elf->has_build_id ? note.n_descsz : 0;
        return;
    }
}

static void read_segments(int fd, const ElfW(Ehdr) * header, struct elf_file* elf) {
    for (unsigned i = 0; i < header->e_phnum; ++i) {
        ElfW(Phdr) segment;
        if (!read_at(fd, &segment, sizeof segment, header->e_phoff + i * sizeof segment)) return;
        const uint64_t end = segment.p_vaddr + segment.p_memsz;
        if (segment.p_type == PT_LOAD && end > elf->memory_size) elf->memory_size = end;
        if (segment.p_type == PT_NOTE && !elf->has_build_id) read_build_id(fd, &segment, elf);
    }
}

/* A file name, NULs up to a multiple of four, and the checksum of that file. */
static void read_debug_link(int fd, const ElfW(Shdr) * section, struct elf_file* elf) {
    const uint64_t size = section->sh_size;
    if (size < 2 * sizeof(uint32_t) || size > kMaxDebugLinkSize) return;
    char link[kMaxDebugLinkSize];
    if (!read_at(fd, link, size, section->sh_offset)) return;
    const size_t name_size = size - sizeof(uint32_t);
    if (memchr(link, 0, name_size) == NULL) return;
    memcpy(elf->debug_link, link, name_size);
    memcpy(&elf->debug_link_crc, link + name_size, sizeof elf->debug_link_crc);
    elf->has_debug_link = true;
}

static void read_sections(int fd, const ElfW(Ehdr) * header, struct elf_file* elf) {
    static const char kWanted[] = ".gnu_debuglink";
    ElfW(Shdr) names;
    if (header->e_shstrndx >= header->e_shnum ||
        !read_at(fd, &names, sizeof names, header->e_shoff + header->e_shstrndx * sizeof names))
        return;
    for (unsigned i = 0; i < header->e_shnum && !elf->has_debug_link; ++i) {
        ElfW(Shdr) section;
        char name[sizeof kWanted];
        if (!read_at(fd, &section, sizeof section, header->e_shoff + i * sizeof section)) return;
        if (read_at(fd, name, sizeof name, names.sh_offset + section.sh_name) &&
            memcmp(name, kWanted, sizeof name) == 0)
            read_debug_link(fd, &section, elf);
    }
}

void read_elf_file(const char* path, struct elf_file* elf) {
    const int saved_errno = errno;
    /* dlopen() is no cancellation point. */
    int cancellation;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
    *elf = (struct elf_file){0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ElfW(Ehdr) header;
        if (read_at(fd, &header, sizeof header, 0) && is_ours(&header)) {
            read_segments(fd, &header, elf);
            read_sections(fd, &header, elf);
        }
        close(fd);
    }
    pthread_setcancelstate(cancellation, NULL);
    errno = saved_errno;
}
