#include "base/fault_guard.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>

#include "base/mapping.hpp"

namespace leat {
namespace {

constexpr std::size_t kPageSize = 4096;

// What the handler looks at. `version` is odd while the slot changes: one that was reused meanwhile counts as another.
struct Slot {
    std::atomic<std::uint64_t> version;
    std::atomic<std::uintptr_t> begin;  // 0: free
    std::atomic<std::uintptr_t> end;
    std::atomic<std::size_t> part_size;
    std::atomic<std::atomic<bool>*> lost;
};

// More than a process may have of mappings, unless its system was told otherwise. They are mapped at the first guard:
// pages of slots that nobody uses do not exist, and a slot of zeros is free.
constexpr std::size_t kSlots = 1U << 17;
std::atomic<Slot*> slots;             // NOLINT(*-avoid-non-const-global-variables): a signal handler's
std::atomic<std::size_t> slots_used;  // NOLINT(*-avoid-non-const-global-variables): the first so many
struct sigaction before {};           // NOLINT(*-avoid-non-const-global-variables)
std::mutex changing;                  // NOLINT(*-avoid-non-const-global-variables): of those who change slots
std::size_t freed = 0;                // NOLINT(*-avoid-non-const-global-variables): of the used; under the lock
bool is_installed = false;            // NOLINT(*-avoid-non-const-global-variables): under the lock

// One part of a guarded range.
struct Part {
    std::uintptr_t end;
    std::atomic<bool>* lost;
};

std::optional<Part> part_at(std::uintptr_t address) {
    const std::size_t used = slots_used.load(std::memory_order_acquire);
    for (const Slot& slot : std::span(slots.load(std::memory_order_acquire), used)) {
        const std::uint64_t version = slot.version.load(std::memory_order_acquire);
        const std::uintptr_t begin = slot.begin.load(std::memory_order_acquire);
        const std::uintptr_t end = slot.end.load(std::memory_order_acquire);
        const std::size_t part_size = slot.part_size.load(std::memory_order_acquire);
        std::atomic<bool>* const lost = slot.lost.load(std::memory_order_acquire);
        if (version % 2 != 0 || slot.version.load(std::memory_order_acquire) != version) continue;
        if (begin == 0 || address < begin || address >= end) continue;
        const std::size_t part = (address - begin) / part_size;
        return Part{std::min(end, begin + (part + 1) * part_size), lost + part};
    }
    return std::nullopt;
}

void change(Slot& slot, std::uintptr_t begin, std::uintptr_t end, std::size_t part_size, std::atomic<bool>* lost) {
    slot.version.fetch_add(1);
    slot.begin = begin;
    slot.end = end;
    slot.part_size = part_size;
    slot.lost = lost;
    slot.version.fetch_add(1);
}

// As the kernel would have called the handler of before. It may jump out of here.
void call_former(int signal, siginfo_t* info, void* context) {
    constexpr std::size_t kMaskOfKernel = 8;  // bytes; ours has room for more signals than there are
    sigset_t mask;
    ::sigemptyset(&mask);
    std::memcpy(&mask, &static_cast<ucontext_t*>(context)->uc_sigmask, kMaskOfKernel);
    ::sigorset(&mask, &mask, &before.sa_mask);
    if ((before.sa_flags & SA_NODEFER) == 0) ::sigaddset(&mask, signal);
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    if ((before.sa_flags & SA_SIGINFO) != 0)
        before.sa_sigaction(signal, info, context);
    else
        before.sa_handler(signal);
}

// Async-signal-safe: mmap() is a bare system call.
void handle(int signal, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);  // NOLINT(*-reinterpret-cast)
    const std::uintptr_t page = address & ~std::uintptr_t{kPageSize - 1};
    const auto part = info->si_code == BUS_ADRERR ? part_at(address) : std::nullopt;
    if (part) part->lost->store(true);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    void* const at = reinterpret_cast<void*>(page);  // NOLINT(*-reinterpret-cast,performance-no-int-to-ptr)
    // Where memory is limited and all of it is given out, there is none to write to. Records are only read.
    const auto put_zeros = [&](int access) {
        return ::mmap(at, part->end - page, access, kFlags, -1, 0) != MAP_FAILED;
    };
    const bool is_repaired = part && (put_zeros(PROT_READ | PROT_WRITE) || put_zeros(PROT_READ));
    errno = saved_errno;
    if (is_repaired) return;
    const bool is_sent = info->si_code <= 0;
    const bool has_handler =
        (before.sa_flags & SA_SIGINFO) != 0 || (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN);
    // One that wants to be called once restores what was before by itself, if it is installed.
    if (has_handler && (before.sa_flags & SA_RESETHAND) == 0) return call_former(signal, info, context);
    if (is_sent && before.sa_handler == SIG_IGN) return;
    // The instruction is tried again, and then this is whose signal it was before. Who sends a signal does not do so
    // again.
    ::sigaction(signal, &before, nullptr);
    if (is_sent) (void)::raise(signal);
    errno = saved_errno;
}

Result<void> install() {
    if (is_installed) return {};
    if (slots == nullptr) {
        constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* const memory = ::mmap(nullptr, kSlots * sizeof(Slot), PROT_READ | PROT_WRITE, kFlags, -1, 0);
        if (memory == MAP_FAILED) return cannot_map("cannot guard files in memory");
        slots = static_cast<Slot*>(memory);
    }
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigfillset(&action.sa_mask);
    if (::sigaction(SIGBUS, &action, &before) != 0) return io_error("cannot handle SIGBUS");
    is_installed = true;
    return {};
}

}  // namespace

Result<FaultGuard> FaultGuard::of(const void* address, std::size_t size, std::size_t part_size) {
    const std::lock_guard guard(changing);
    LEAT_TRY(install());
    const auto begin = reinterpret_cast<std::uintptr_t>(address);  // NOLINT(*-reinterpret-cast)
    part_size = std::min(part_size, size);
    // Without this, many files would take a time that grows with the square of their number.
    const std::span all(slots.load(), kSlots);
    const auto search_from = freed == 0 ? all.begin() + static_cast<std::ptrdiff_t>(slots_used) : all.begin();
    const auto free = std::find_if(search_from, all.end(), [](const Slot& slot) { return slot.begin == 0; });
    if (free == all.end()) return refused("too many files are in memory at once: {}", kSlots);
    FaultGuard made;
    // First, because it may throw: a guard that has a slot takes the lock when it goes.
    made.lost_ = std::make_unique<std::atomic<bool>[]>((size + part_size - 1) / part_size);  // NOLINT(*-c-arrays)
    made.slot_ = static_cast<std::size_t>(free - all.begin());
    change(*free, begin, begin + size, part_size, made.lost_.get());
    if (made.slot_ < slots_used)
        --freed;
    else
        slots_used = made.slot_ + 1;
    return made;
}

FaultGuard::~FaultGuard() {
    if (slot_ == kNone) return;
    const std::lock_guard guard(changing);
    change(std::span(slots.load(), kSlots)[slot_], 0, 0, 1, nullptr);
    ++freed;
}

bool FaultGuard::touch(std::span<const std::byte> bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());  // NOLINT(*-reinterpret-cast)
    if (bytes.empty() || !part_at(begin)) return false;
    const auto* const volatile_bytes = reinterpret_cast<const volatile std::byte*>(bytes.data());  // NOLINT
    for (std::size_t at = 0; at < bytes.size(); at += kPageSize) (void)volatile_bytes[at];
    (void)volatile_bytes[bytes.size() - 1];
    return true;
}

}  // namespace leat
