// A trace whose streams are written by a test, which knows what must be told of them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

namespace leat::test {

inline constexpr const char* kWrittenMetadata =
    "/* CTF 1.8 */"
    "trace { major = 1; minor = 8; byte_order = le;"
    "    packet.header := struct { integer { size = 64; align = 8; } stream_instance_id; }; };"
    "clock { name = m; freq = 1000000000; };"
    "typealias integer { size = 64; align = 8; } := u64;"
    "typealias integer { size = 64; align = 8; map = clock.m.value; } := ts64;"
    "stream { packet.context := struct { ts64 timestamp_begin; ts64 timestamp_end; u64 content_size; u64 packet_size; "
    "};"
    "    event.header := struct { ts64 timestamp; }; };"
    "event { name = e; fields := struct { u64 n; }; };";

inline std::string numbers_as_bytes(std::initializer_list<std::uint64_t> numbers) {
    std::string bytes;
    for (const std::uint64_t number : numbers)
        for (unsigned bit = 0; bit < 64; bit += 8) bytes += static_cast<char>(number >> bit & 0xff);
    return bytes;
}

// A stream that is written, and what must be told of it.
class WrittenStream {
  public:
    // What it tells, with its time.
    struct Told {
        std::uint64_t time;
        std::string what;
    };

    static constexpr const char* kError = "error";

    explicit WrittenStream(std::uint64_t number) : number_(number) {}

    // `has_half_event`: behind these events, so that the packet ends with an error.
    void add_packet(const std::vector<std::uint64_t>& times, bool has_half_event = false) {
        std::string events;
        told_.push_back({times.front(), fmt::format("begin {}", number_)});
        for (const std::uint64_t time : times) {
            events += numbers_as_bytes({time, ++events_});
            told_.push_back({time, fmt::format("event {} {}", number_, events_)});
        }
        if (has_half_event) events += numbers_as_bytes({times.back()});
        told_.push_back({times.back(), has_half_event ? kError : fmt::format("end {}", number_)});
        const std::uint64_t bits = (5 * sizeof(std::uint64_t) + events.size()) * 8;
        bytes_ += numbers_as_bytes({number_, times.front(), times.back(), bits, bits}) + events;
    }

    void write(const std::filesystem::path& directory) const {
        std::ofstream(file_in(directory), std::ios::binary) << bytes_;
    }
    void remove(const std::filesystem::path& directory) const { std::filesystem::remove(file_in(directory)); }
    std::deque<Told>& told() { return told_; }

  private:
    [[nodiscard]] std::filesystem::path file_in(const std::filesystem::path& directory) const {
        return directory / fmt::format("stream_{:03}", number_);
    }

    std::uint64_t number_;
    std::uint64_t events_ = 0;
    std::string bytes_;
    std::deque<Told> told_;
};

}  // namespace leat::test
