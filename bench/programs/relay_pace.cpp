// Sends small packets to a relay as live producers do, at an even pace or as fast as the relay takes them. Each packet
// goes to the next stream of the next session, and a beacon follows for the stream half a turn away.
//
//     bench-relay-pace CONTROL DATA SESSIONS STREAMS PACKET_BYTES RATE MILLISECONDS
//
// First each stream gets a packet. Then it prints "ready PACKETS" and waits for a line. Then it sends RATE packets a
// second (0: as many as the relay takes) for MILLISECONDS, and prints the number of these packets and the time until
// the relay had stored them. It keeps its connections until the next line. Packets end at CLOCK_MONOTONIC, in ns, so
// that viewers know how late they are.
#include <chrono>
#include <deque>
#include <thread>

#include "monotonic.h"
#include "producer.hpp"

namespace leat::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kLiveTimerUs = 1'000'000;

void wait_for_line() {
    for (int c = std::getchar(); c != '\n'; c = std::getchar())
        if (c == EOF) std::exit(1);
}

// The streams of all sessions.
class Crowd {
  public:
    Crowd(const Producer::Parameters& parameters, unsigned sessions) {
        for (unsigned number = 0; number < sessions; ++number) producers_.emplace_back(parameters, number);
        stream_count_ = std::uint64_t{sessions} * parameters.streams;
    }

    [[nodiscard]] std::uint64_t stream_count() const { return stream_count_; }

    void push_packet(std::uint64_t number) {
        const std::uint64_t now = time();
        producer_of(number).push(stream_of(number), now - 1, now);
    }
    void push_beacon(std::uint64_t number) { producer_of(number).push_beacon(stream_of(number), time()); }

    void wait_until_stored() {
        for (Producer& producer : producers_) {
            producer.take_replies();
            producer.wait_until_stored([] { std::this_thread::sleep_for(std::chrono::microseconds(200)); });
        }
    }

  private:
    static std::uint64_t time() { return static_cast<std::uint64_t>(now_ns()); }
    Producer& producer_of(std::uint64_t number) { return producers_[number % producers_.size()]; }
    [[nodiscard]] std::size_t stream_of(std::uint64_t number) const {
        return number / producers_.size() % producers_.front().stream_count();
    }

    std::deque<Producer> producers_{};
    std::uint64_t stream_count_ = 0;
};

// Returns the number of packets.
std::uint64_t push_for(Crowd& crowd, std::uint64_t rate, std::chrono::milliseconds duration) {
    const auto begin = Clock::now();
    const auto gap = std::chrono::nanoseconds(rate == 0 ? 0 : 1'000'000'000 / rate);
    std::uint64_t packets = 0;
    for (auto next = begin; next - begin < duration && Clock::now() - begin < duration; next += gap) {
        if (rate != 0) std::this_thread::sleep_until(next);
        crowd.push_packet(packets);
        crowd.push_beacon(packets + crowd.stream_count() / 2);
        ++packets;
    }
    return packets;
}

void run(const Producer::Parameters& parameters, unsigned sessions, std::uint64_t rate,
         std::chrono::milliseconds duration) {
    Crowd crowd(parameters, sessions);
    for (std::uint64_t stream = 0; stream < crowd.stream_count(); ++stream) crowd.push_packet(stream);
    crowd.wait_until_stored();
    std::printf("ready %llu\n", static_cast<unsigned long long>(crowd.stream_count()));
    std::fflush(stdout);
    wait_for_line();
    const auto begin = Clock::now();
    const std::uint64_t packets = push_for(crowd, rate, duration);
    crowd.wait_until_stored();
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    std::printf("%llu %.6f\n", static_cast<unsigned long long>(packets), seconds.count());
    std::fflush(stdout);
    wait_for_line();
}

}  // namespace
}  // namespace leat::bench

int main(int argc, char** argv) {
    if (argc != 8) {
        std::fprintf(stderr, "usage: bench-relay-pace CONTROL DATA SESSIONS STREAMS PACKET_BYTES RATE MILLISECONDS\n");
        return 2;
    }
    std::array<std::uint64_t, 7> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::strtoull(argv[i + 1], nullptr, 10);
    leat::bench::run({.control = static_cast<std::uint16_t>(numbers[0]),
                      .data = static_cast<std::uint16_t>(numbers[1]),
                      .live_timer_us = leat::bench::kLiveTimerUs,
                      .streams = static_cast<unsigned>(numbers[3]),
                      .packet_size = numbers[4]},
                     static_cast<unsigned>(numbers[2]), numbers[5], std::chrono::milliseconds(numbers[6]));
}
