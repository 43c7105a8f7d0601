// Every IO request of a few seconds, for 24 bytes each, without another process or thread:
//
//     io_tracer --capture trace --duration 5s --max-size 50M
//     report trace
//
// A program as storage engines are: a thread on each CPU with an event loop, and queues that give the disk no more than
// it can do well. It captures its own events (<leat/capture.hpp>), and its loop writes them, too. The events are in
// events.hpp, where they happen is in io_queue.cpp, what the loop does for the capture in capture_writer.hpp.
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "capture_writer.hpp"
#include "options.hpp"
#include "shard.hpp"

namespace io_tracer {
namespace {

volatile std::sig_atomic_t was_interrupted = 0;

std::vector<unsigned> own_cpus() {
    std::vector<unsigned> cpus;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
    }
    // It fails where there are more CPUs than the set has room for. A shard that may not stay on its CPU runs anywhere.
    if (cpus.empty()) {
        cpus.resize(std::max(1U, std::thread::hardware_concurrency()));
        std::iota(cpus.begin(), cpus.end(), 0U);
    }
    return cpus;
}

std::unique_ptr<Disk> make_disk(const Options& options) {
    if (options.engine == "calls") return make_calling_disk();
    auto disk = make_uring_disk(options.capacity.requests + CaptureWriter::kWrites);
    if (disk != nullptr || options.engine == "io_uring") return disk;
    return make_calling_disk();
}

// What the trace says of itself: how many shards, and what else was fixed when it began.
leat::capture start_capture(const Options& options, unsigned shards, const char* engine, std::string& error) {
    const leat_capture_environment environment[] = {
        {"shards", nullptr, shards},
        {"classes", "0:main,1:exit,2:lr", 0},
        {"engine", engine, 0},
        {"max_requests", nullptr, options.capacity.requests},
        {"max_bytes", nullptr, static_cast<std::int64_t>(options.capacity.bytes)},
    };
    static constexpr const char* kEvents[] = {"io:*", nullptr};
    leat::capture::options wanted;
    wanted.directory = options.capture.c_str();
    wanted.duration_ns = static_cast<std::uint64_t>(options.duration.count());
    wanted.max_size = options.max_size;
    wanted.events = kEvents;
    wanted.environment = environment;
    wanted.environment_count = std::size(environment);
    return leat::capture::start(wanted, error);
}

const char* reason(leat_capture_end end) {
    switch (end) {
        case LEAT_CAPTURE_ENDED_BY_DURATION:
            return "its duration";
        case LEAT_CAPTURE_ENDED_BY_SIZE:
            return "its size";
        case LEAT_CAPTURE_ENDED_BY_STOP:
            return "a signal";
        case LEAT_CAPTURE_ENDED_BY_ERROR:
            return "an error";
        case LEAT_CAPTURE_RUNS:
            break;
    }
    return "nothing";
}

// Fails where the capture failed.
bool print_capture(const leat::capture::result& result) {
    std::printf("capture: ended by %s: %llu events in %llu bytes, %llu skipped, %llu lost\n", reason(result.end),
                static_cast<unsigned long long>(result.events), static_cast<unsigned long long>(result.bytes),
                static_cast<unsigned long long>(result.skipped), static_cast<unsigned long long>(result.lost));
    if (result.warnings != nullptr) std::fprintf(stderr, "io_tracer: %s\n", result.warnings);
    if (result.error != nullptr) std::fprintf(stderr, "io_tracer: %s\n", result.error);
    return result.end != LEAT_CAPTURE_ENDED_BY_ERROR;
}

bool print_load(const std::deque<Shard>& shards, const char* engine, double seconds) {
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;
    std::uint64_t failed = 0;
    for (const Shard& shard : shards) {
        requests += shard.queue().requests();
        bytes += shard.queue().bytes();
        failed += shard.queue().failed();
    }
    std::printf("load: %zu shards by %s: %llu requests, %llu MiB in %.1f s\n", shards.size(), engine,
                static_cast<unsigned long long>(requests), static_cast<unsigned long long>(bytes >> 20), seconds);
    if (failed != 0)
        std::fprintf(stderr, "io_tracer: the disk failed %llu requests\n", static_cast<unsigned long long>(failed));
    return failed == 0;
}

int fail(const char* what, const std::string& why) {
    std::fprintf(stderr, "io_tracer: %s: %s\n", what, why.c_str());
    return 1;
}

using Clock = std::chrono::steady_clock;

// What the first shard does in each turn: lets the capture write, and ends all when that is over.
class Supervisor {
  public:
    Supervisor(std::deque<Shard>& shards, std::optional<CaptureWriter>& capture, Clock::time_point until)
        : shards_(shards), capture_(capture), until_(until) {}

    void turn(Disk& disk) {
        const bool is_interrupted = was_interrupted != 0;
        if (capture_ && is_interrupted) capture_->stop();
        if (capture_) capture_->poll(disk);
        if (capture_ && !capture_->is_over()) return;
        if (is_interrupted || Clock::now() >= until_)
            for (Shard& shard : shards_) shard.stop();
    }

  private:
    std::deque<Shard>& shards_;
    std::optional<CaptureWriter>& capture_;
    Clock::time_point until_;
};

int run(const Options& options) {
    const std::vector<unsigned> cpus = own_cpus();
    const unsigned count = options.shards != 0 ? options.shards : static_cast<unsigned>(cpus.size());
    std::deque<DataFile> files;
    std::deque<Shard> shards;
    std::optional<CaptureWriter> capture;
    std::optional<Supervisor> supervisor;
    const char* engine = "";
    for (unsigned number = 0; number < count; ++number) {
        const DataFile& file = files.emplace_back(options.directory, options.file_size);
        if (!file.is_open()) return fail(options.directory.c_str(), std::strerror(errno));
        auto disk = make_disk(options);
        if (disk == nullptr) return fail("io_uring", std::string(std::strerror(errno)) + "; try --engine calls");
        engine = disk->name();
        auto each_turn = [&supervisor](Disk& of_shard) { supervisor->turn(of_shard); };
        shards.emplace_back(Shard::Options{.number = number,
                                           .cpu = cpus[number % cpus.size()],
                                           .capacity = options.capacity,
                                           .file = &file,
                                           .disk = std::move(disk),
                                           .each_turn = number == 0 ? each_turn : std::function<void(Disk&)>()});
    }
    if (!options.capture.empty()) {
        std::string error;
        leat::capture started = start_capture(options, count, engine, error);
        if (!started) return fail("capture", error);
        capture.emplace(std::move(started));
    }
    const Clock::time_point begin = Clock::now();
    supervisor.emplace(shards, capture, begin + options.run);
    std::deque<std::thread> threads;
    for (unsigned number = 1; number < count; ++number) threads.emplace_back(&Shard::run, &shards[number]);
    shards.front().run();
    for (std::thread& thread : threads) thread.join();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const bool is_load_well = print_load(shards, engine, seconds);
    return (!capture || print_capture(capture->result())) && is_load_well ? 0 : 1;
}

}  // namespace
}  // namespace io_tracer

int main(int argc, char** argv) {
    const io_tracer::Options options = io_tracer::parse_options(argc, argv);
    const auto interrupt = [](int) { io_tracer::was_interrupted = 1; };
    std::signal(SIGINT, interrupt);
    std::signal(SIGTERM, interrupt);
    return io_tracer::run(options);
}
