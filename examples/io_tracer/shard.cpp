#include "shard.hpp"

#include <sched.h>

#include <cstddef>
#include <utility>

namespace io_tracer {
namespace {

constexpr std::uint32_t kPage = 4096;

void stay_on(unsigned cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    ::sched_setaffinity(0, sizeof cpus, &cpus);
}

}  // namespace

Shard::Shard(Options options)
    : cpu_(options.cpu),
      file_(*options.file),
      disk_(std::move(options.disk)),
      queue_(options.number, options.capacity, *disk_),
      each_turn_(std::move(options.each_turn)),
      log_(kPage),
      random_(0x9e3779b97f4a7c15 * (options.number + 1)) {}

void Shard::run() {
    stay_on(cpu_);
    start_workers();
    constexpr std::chrono::microseconds kLongestWait(500);
    while (workers_ > 0) {
        queue_.dispatch();
        if (each_turn_) each_turn_(*disk_);
        disk_->wait(kLongestWait);
        wake_sleepers();
    }
}

void Shard::wake_sleepers() {
    const Clock::time_point now = Clock::now();
    std::vector<Sleeper> due;
    std::erase_if(sleepers_, [&](const Sleeper& sleeper) {
        const bool is_due = sleeper.until <= now || is_stopped();
        if (is_due) due.push_back(sleeper);
        return is_due;
    });
    for (const Sleeper& sleeper : due) sleeper.waiter.resume();
}

// Xorshift: the load is the same in each run.
std::uint32_t Shard::random(std::uint32_t below) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<std::uint32_t>(random_ >> 32) % below;
}

std::uint64_t Shard::random_place(std::uint32_t length) {
    return std::uint64_t{random(static_cast<std::uint32_t>((file_.size() - length) / kPage + 1))} * kPage;
}

void Shard::start_workers() {
    constexpr int kQueries = 12;
    for (int i = 0; i < kQueries; ++i) answer_queries();
    write_logs();
    compact();
}

// main: short reads at random places, one after the other, and a write now and then.
Worker Shard::answer_queries() {
    const Busy busy(*this);
    const AlignedMemory memory(std::size_t{4} * kPage);
    while (!is_stopped()) {
        const std::uint32_t length = kPage << random(3);
        const iovec part = memory.part(0, length);
        if (random(8) == 0)
            co_await write(kMain, random_place(length), part);
        else
            co_await read(kMain, random_place(length), part);
    }
}

// exit: at times, a burst of writes that end something.
Worker Shard::write_logs() {
    const Busy busy(*this);
    constexpr std::uint32_t kBurst = 16;
    while (!is_stopped()) {
        co_await sleep(std::chrono::milliseconds(20));
        for (std::uint32_t i = 0; i < kBurst && !is_stopped(); ++i) write_log();
    }
}

Worker Shard::write_log() {
    const Busy busy(*this);
    co_await write(kExit, random_place(kPage), log_.part(0, kPage));
}

// lr: long reads in order, and what was read is written again.
Worker Shard::compact() {
    const Busy busy(*this);
    constexpr std::uint32_t kLength = 32 * kPage;
    const AlignedMemory memory(kLength);
    for (std::uint64_t place = 0; !is_stopped(); place = (place + kLength) % file_.size()) {
        const iovec whole = memory.part(0, kLength);
        co_await read(kLr, place, whole);
        co_await write(kLr, place, whole);
        co_await sleep(std::chrono::milliseconds(2));
    }
}

}  // namespace io_tracer
