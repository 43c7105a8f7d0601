// Measures the time from an event to its line.
//
//     VIEWER | bench-line-latency COUNT
//
// Notes when each line of bench-tick-TRACER arrives, and subtracts the time that is in the line. At the end of the
// input, or when number COUNT has come, it prints the latencies of numbers 0 to COUNT - 1 in ns, one a line.
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::int64_t number_behind(std::string_view line, std::string_view name, std::int64_t otherwise) {
    const std::size_t at = line.find(name);
    if (at == std::string_view::npos) return otherwise;
    std::int64_t value = otherwise;
    std::from_chars(line.data() + at + name.size(), line.data() + line.size(), value);
    return value;
}

class Latencies {
  public:
    explicit Latencies(std::int64_t count) : count_(count) {}

    // Returns false when all have come.
    bool add(std::string_view line, std::int64_t arrival) {
        const std::int64_t number = number_behind(line, " a = ", -1);
        if (number >= count_) return false;
        if (number >= 0) all_.push_back(arrival - number_behind(line, " b = ", arrival));
        return true;
    }
    void print() const {
        for (const std::int64_t latency : all_) std::printf("%lld\n", static_cast<long long>(latency));
    }

  private:
    std::int64_t count_;
    std::vector<std::int64_t> all_;
};

void read_lines(Latencies& latencies) {
    std::vector<char> block(1U << 16);
    std::string text;
    for (;;) {
        const ssize_t size = ::read(STDIN_FILENO, block.data(), block.size());
        if (size <= 0) return;
        const std::int64_t arrival = now_ns();
        text.append(block.data(), static_cast<std::size_t>(size));
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
            if (!latencies.add(std::string_view(text).substr(begin, end - begin), arrival)) return;
        text.erase(0, begin);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: bench-line-latency COUNT\n");
        return 2;
    }
    Latencies latencies(std::atoll(argv[1]));
    read_lines(latencies);
    latencies.print();
}
