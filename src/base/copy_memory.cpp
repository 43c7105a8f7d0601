#include "base/copy_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/mapping.hpp"

namespace leat {
namespace {

constexpr std::size_t kLeastBlock = 64U << 10U;
constexpr std::size_t kLargestBlock = 1U << 20U;
constexpr std::size_t kAlignment = 64;
static_assert(kLargestCopy <= kLeastBlock);

std::atomic<std::size_t> size_of_all;  // NOLINT(*-avoid-non-const-global-variables): of the process

class Block {
  public:
    explicit Block(Mapping memory) : memory_(std::move(memory)) { size_of_all += memory_.size(); }
    ~Block() { size_of_all -= memory_.size(); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    // Null: there is no room.
    std::byte* take(std::size_t size) {
        const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
        if (memory_.size() - used_ < rounded) return nullptr;
        std::byte* const begin = memory_.data() + used_;
        used_ += rounded;
        return begin;
    }

  private:
    Mapping memory_;
    std::size_t used_ = 0;
};

// As much again as there is: a single small file takes little.
std::shared_ptr<Block> make_block() {
    const std::size_t size = std::clamp(size_of_all.load(), kLeastBlock, kLargestBlock);
    if (size_of_all + size > kMostCopied) return nullptr;
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    void* const address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    return address == MAP_FAILED ? nullptr : std::make_shared<Block>(Mapping(address, size));
}

// The block that is filled. Never destroyed: threads may open files while the process ends.
struct Filling {
    std::mutex lock;
    std::shared_ptr<Block> block;
};
Filling& filling() {
    static auto* const filling = new Filling();
    return *filling;
}

}  // namespace

std::shared_ptr<std::byte> take_copy_memory(std::size_t size) {
    if (size > kLargestCopy) return nullptr;
    auto& [lock, block] = filling();
    const std::lock_guard guard(lock);
    std::byte* begin = block ? block->take(size) : nullptr;
    if (begin == nullptr) {
        std::shared_ptr<Block> made = make_block();
        if (!made) return nullptr;
        block = std::move(made);
        begin = block->take(size);
    }
    return {block, begin};
}

}  // namespace leat
