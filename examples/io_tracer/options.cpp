#include "options.hpp"

#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace io_tracer {
namespace {

constexpr const char* kUsage =
    "usage: io_tracer [OPTIONS]\n"
    "\n"
    "Reads and writes a file of its own, a shard on each CPU, until the capture is over. Its requests are of three\n"
    "scheduling classes: main (short reads and writes), exit (bursts of writes), lr (long reads and writes).\n"
    "\n"
    "  --capture DIR              capture the requests' events into a new directory\n"
    "  --duration TIME            of the capture, at most: 5s\n"
    "  --max-size SIZE            of the capture, at most: 50M\n"
    "  --run TIME                 work for at least so long: 0s; without --capture, 1s\n"
    "  --shards N                 one for each CPU\n"
    "  --max-requests N           of a shard, that the disk has at a time: 16\n"
    "  --max-bytes SIZE           of a shard, that the disk has at a time: 256K\n"
    "  --engine auto|io_uring|calls   how the disk is reached\n"
    "  --directory DIR            where the file lies: /var/tmp\n"
    "  --file-size SIZE           of each shard: 64M\n"
    "\n"
    "TIME: a number and ms or s. SIZE: a number, and K, M or G.\n";

[[noreturn]] void refuse(const std::string& what) {
    std::fprintf(stderr, "io_tracer: %s; see --help\n", what.c_str());
    std::exit(2);
}

struct Unit {
    std::string_view name;
    std::uint64_t factor;
};

template <std::size_t N>
std::uint64_t quantity(const char* option, const char* text, const Unit (&units)[N], std::uint64_t least,
                       std::uint64_t most) {
    char* end = nullptr;
    const unsigned long long number = std::strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9')
        for (const Unit& unit : units)
            if (unit.name == end && number <= most / unit.factor && number * unit.factor >= least)
                return number * unit.factor;
    refuse(std::string("--") + option + ": \"" + text + "\" makes no sense");
}

constexpr Unit kTimes[] = {{"ms", 1'000'000}, {"s", 1'000'000'000}};
constexpr Unit kSizes[] = {{"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}};
constexpr Unit kNumbers[] = {{"", 1}};
constexpr std::uint64_t kDay = 86'400'000'000'000;

std::chrono::nanoseconds time(const char* option, const char* text, std::uint64_t least) {
    return std::chrono::nanoseconds(quantity(option, text, kTimes, least, kDay));
}

void apply(Options& options, const std::string& name, const char* text) {
    const char* const option = name.c_str();
    if (name == "capture") options.capture = text;
    if (name == "duration") options.duration = time(option, text, 1);
    if (name == "max-size") options.max_size = quantity(option, text, kSizes, 1, 1ULL << 40);
    if (name == "run") options.run = time(option, text, 0);
    if (name == "shards") options.shards = static_cast<unsigned>(quantity(option, text, kNumbers, 1, 255));
    if (name == "max-requests")
        options.capacity.requests = static_cast<unsigned>(quantity(option, text, kNumbers, 1, 1024));
    if (name == "max-bytes") options.capacity.bytes = quantity(option, text, kSizes, 1, 1ULL << 30);
    if (name == "engine") options.engine = text;
    if (name == "directory") options.directory = text;
    if (name == "file-size") options.file_size = quantity(option, text, kSizes, 1 << 20, 1ULL << 40);
}

}  // namespace

Options parse_options(int argc, char** argv) {
    static constexpr option kOptions[] = {
        {"capture", required_argument, nullptr, 0},   {"duration", required_argument, nullptr, 0},
        {"max-size", required_argument, nullptr, 0},  {"run", required_argument, nullptr, 0},
        {"shards", required_argument, nullptr, 0},    {"max-requests", required_argument, nullptr, 0},
        {"max-bytes", required_argument, nullptr, 0}, {"engine", required_argument, nullptr, 0},
        {"directory", required_argument, nullptr, 0}, {"file-size", required_argument, nullptr, 0},
        {"help", no_argument, nullptr, 'h'},          {nullptr, 0, nullptr, 0}};
    Options options;
    int index = 0;
    for (int found = 0; (found = ::getopt_long(argc, argv, "h", kOptions, &index)) != -1;) {
        if (found == 'h') {
            std::fputs(kUsage, stdout);
            std::exit(0);
        }
        if (found != 0) std::exit(2);
        apply(options, kOptions[index].name, optarg);
    }
    if (optind != argc) refuse(std::string("\"") + argv[optind] + "\" is no option");
    if (options.engine != "auto" && options.engine != "io_uring" && options.engine != "calls")
        refuse("--engine: auto, io_uring or calls, not \"" + options.engine + "\"");
    if (options.capture.empty() && options.run.count() == 0) options.run = std::chrono::seconds(1);
    return options;
}

}  // namespace io_tracer
