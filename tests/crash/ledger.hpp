// What the writers report about themselves, in memory that outlives them. See kill_writers.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>

#include "base/mapping.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::torture {

// One writer process from start to end, with its children. Only one of them writes at a time.
struct alignas(64) Incarnation {
    std::atomic<std::uint64_t> counter;    // the writer: the number of its latest event, stored before it
    std::atomic<std::uint64_t> counted;    // the writer: its events so far, stored after each
    std::atomic<std::uint64_t> delivered;  // the host: how many of them have arrived
    std::atomic<std::uint32_t> is_ending;  // the host: end normally
    std::atomic<std::int32_t> child;       // a child that is not reaped; 0: there is none
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

class Ledger {
  public:
    static Result<Ledger> create(std::uint32_t incarnations);
    // In a writer: opens the ledger through the descriptor that it inherited.
    static Result<Ledger> inherit(int fd);

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] std::uint32_t size() const {
        return static_cast<std::uint32_t>(memory_.size() / sizeof(Incarnation));
    }
    [[nodiscard]] Incarnation& operator[](std::uint32_t index) const {
        return reinterpret_cast<Incarnation*>(memory_.data())[index];  // NOLINT(*-reinterpret-cast)
    }

  private:
    UniqueFd fd_;
    Mapping memory_;
};

}  // namespace leat::torture
