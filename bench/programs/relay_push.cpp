// Pushes packets of 128 KiB into a relay as fast as it takes them, from several sessions at once, with a thread for
// each.
//
//     bench-relay-push CONTROL DATA LIVE_TIMER SESSIONS STREAMS WARM_UP_MIB MIB FILE_MIB
//
// With CONTROL 0 it sends bytes only, for bench-relay-floor. First each session sends WARM_UP_MIB. Then it prints
// "ready" and waits for a line. Then each session sends MIB, and it prints the seconds until the relay says that all is
// stored.
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#include "producer.hpp"

namespace leat::bench {
namespace {

constexpr std::size_t kPacket = std::size_t{128} << 10;

struct Parameters {
    std::uint16_t control;
    std::uint16_t data;
    std::uint32_t live_timer_us;
    unsigned sessions;
    unsigned streams;
    std::uint64_t warm_up_mib;
    std::uint64_t mib;
    std::uint64_t file_mib;
};

// Sends packets one after another, to all streams in turn.
class Session {
  public:
    Session(const Parameters& parameters, unsigned number)
        : producer_({.control = parameters.control,
                     .data = parameters.data,
                     .live_timer_us = parameters.live_timer_us,
                     .streams = parameters.streams,
                     .packet_size = kPacket,
                     .file_mib = parameters.file_mib},
                    number) {}

    void push(std::uint64_t packets) {
        for (std::uint64_t i = 0; i < packets; ++i) {
            ++time_;
            producer_.push(i % producer_.stream_count(), 10 * time_ + 1, 10 * time_ + 9);
        }
        producer_.take_replies();
    }
    void wait_until_stored() {
        producer_.wait_until_stored([] { std::this_thread::sleep_for(std::chrono::microseconds(200)); });
    }

  private:
    Producer producer_;
    std::uint64_t time_ = 0;
};

// Sends the same bytes to a program that interprets none of them.
class Floor {
  public:
    explicit Floor(const Parameters& parameters) : data_(connect_to(parameters.data)) {}

    void push(std::uint64_t packets) {
        const wire::Bytes header = wire::encode(wire::DataHeader{});
        for (std::uint64_t i = 0; i < packets; ++i) send_all(data_.get(), header, packet_);
    }
    void wait_until_stored() {
        ::shutdown(data_.get(), SHUT_WR);
        std::byte done{};
        receive_all(data_.get(), std::span(&done, 1));
    }

  private:
    UniqueFd data_;
    wire::Bytes packet_ = wire::Bytes(kPacket, std::byte{0x5a});
};

template <class Target>
void run(Target target, const Parameters& parameters, std::barrier<>& barrier) {
    constexpr std::uint64_t kPacketsInMib = (std::uint64_t{1} << 20) / kPacket;
    target.push(parameters.warm_up_mib * kPacketsInMib);
    barrier.arrive_and_wait();  // all have warmed up
    barrier.arrive_and_wait();  // go
    target.push(parameters.mib * kPacketsInMib);
    target.wait_until_stored();
    barrier.arrive_and_wait();  // all is stored
    barrier.arrive_and_wait();  // the time has been read
}

void push(const Parameters& parameters) {
    std::barrier<> barrier(parameters.sessions + 1);
    std::vector<std::jthread> threads;
    for (unsigned number = 0; number < parameters.sessions; ++number) {
        threads.emplace_back([&parameters, &barrier, number] {
            if (parameters.control == 0)
                run(Floor(parameters), parameters, barrier);
            else
                run(Session(parameters, number), parameters, barrier);
        });
    }
    const auto wait_for_line = [] {
        while (std::getchar() != '\n') {
        }
    };
    barrier.arrive_and_wait();
    std::puts("ready");
    std::fflush(stdout);
    wait_for_line();
    const auto begin = std::chrono::steady_clock::now();
    barrier.arrive_and_wait();
    barrier.arrive_and_wait();
    const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - begin;
    std::printf("%.6f\n", duration.count());
    std::fflush(stdout);
    wait_for_line();
    barrier.arrive_and_wait();
}

}  // namespace
}  // namespace leat::bench

int main(int argc, char** argv) {
    if (argc != 9) {
        std::fprintf(stderr,
                     "usage: bench-relay-push CONTROL DATA LIVE_TIMER SESSIONS STREAMS WARM_UP_MIB MIB FILE_MIB\n");
        return 2;
    }
    std::array<std::uint64_t, 8> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::strtoull(argv[i + 1], nullptr, 10);
    leat::bench::push({.control = static_cast<std::uint16_t>(numbers[0]),
                       .data = static_cast<std::uint16_t>(numbers[1]),
                       .live_timer_us = static_cast<std::uint32_t>(numbers[2]),
                       .sessions = static_cast<unsigned>(numbers[3]),
                       .streams = static_cast<unsigned>(numbers[4]),
                       .warm_up_mib = numbers[5],
                       .mib = numbers[6],
                       .file_mib = numbers[7]});
}
