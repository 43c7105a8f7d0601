// The command line.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "io_queue.hpp"

namespace io_tracer {

struct Options {
    std::string capture;  // empty: none
    std::chrono::nanoseconds duration = std::chrono::seconds(5);
    std::uint64_t max_size = 50 << 20;
    std::chrono::nanoseconds run{0};
    unsigned shards = 0;  // 0: one for each CPU
    Capacity capacity = {.requests = 16, .bytes = 256 << 10};
    std::string engine = "auto";
    std::string directory = "/var/tmp";
    std::uint64_t file_size = 64 << 20;  // of each shard
};

// Ends the program where a word makes no sense.
Options parse_options(int argc, char** argv);

}  // namespace io_tracer
