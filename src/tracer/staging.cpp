#include "tracer/staging.hpp"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "leat/abi.h"
#include "ring/ring_format.hpp"
#include "tracer/process_page.hpp"

namespace leat::tracer {
namespace {

// Whole pages for each buffer. Most are never touched, and cost address space only.
constexpr uint64_t kBufferSize =
    (ring::kMaxRecordSize + LEAT_STAGE_SLACK + ring::kPageSize - 1) / ring::kPageSize * ring::kPageSize;

char* buffers = nullptr;

}  // namespace

bool make_staging() {
    if (__atomic_load_n(&buffers, __ATOMIC_RELAXED) != nullptr) return true;
    const int saved_errno = errno;
    void* memory = mmap(nullptr, kStagingBuffers * kBufferSize, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved_errno;
    if (memory == MAP_FAILED) return false;
    // Two threads may arrive here at once: the first one's memory counts.
    char* none = nullptr;
    if (!__atomic_compare_exchange_n(&buffers, &none, static_cast<char*>(memory), false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        munmap(memory, kStagingBuffers * kBufferSize);
    return true;
}

char* lend_staging(uint64_t size) {
    // A daemon may switch a tracepoint on in a process that has attached no channel yet.
    if (size > ring::kMaxRecordSize || !make_staging()) return nullptr;
    char* const first = __atomic_load_n(&buffers, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < kStagingBuffers; ++i) {
        // R: whoever had the buffer has read it to the end. Pairs with Q in return_staging().
        if (__atomic_exchange_n(&process_page->staging_is_lent[i], 1, __ATOMIC_ACQUIRE) == 0)
            return first + i * kBufferSize;
    }
    return nullptr;
}

void return_staging(const void* buffer) {
    // The buffer's place tells its number: the site gives back what it was given.
    const auto index = static_cast<uint64_t>(static_cast<const char*>(buffer) - buffers) / kBufferSize;
    // Q: the record is in the ring before another thread may stage its own here. Pairs with R in lend_staging().
    __atomic_store_n(&process_page->staging_is_lent[index], 0, __ATOMIC_RELEASE);
}

}  // namespace leat::tracer
