#include "session/trace_description.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "base/local_time.hpp"
#include "base/random_value.hpp"
#include "ctf/record/packet_header.hpp"
#include "ring/clock.hpp"
#include "session/contexts.hpp"

namespace leat::session {
namespace {

const std::string kClockName = "monotonic";

// [RFC-4122], version 4.
ctf::Uuid random_uuid() {
    auto uuid = random_value<ctf::Uuid>();
    uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0f) | 0x40);
    uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3f) | 0x80);
    return uuid;
}

// An enum tag that selects the short or the extended form, as LTTng's headers have it ([CTF-1.8], section 6.1). Forms
// of whole bytes are aligned to bytes; the compact one has its bits side by side.
ctf::StructClass event_header_class(const ring::RecordHeaderLayout& layout) {
    const unsigned alignment = layout.id_bits % 8 == 0 ? 8 : 1;
    const auto integer = [](unsigned bits, unsigned aligned) {
        return ctf::IntegerClass{.size = bits, .alignment = aligned};
    };
    const auto timestamp = [](std::uint64_t bits, unsigned aligned) {
        return ctf::IntegerClass{.size = static_cast<unsigned>(bits), .alignment = aligned, .clock = kClockName};
    };
    const std::uint64_t last = layout.all_ones();
    const ctf::EnumClass tag{integer(layout.id_bits, alignment), {{"compact", 0, last - 1}, {"extended", last, last}}};
    const ctf::StructClass short_form{{{"timestamp", timestamp(layout.time_bits(), alignment)}}};
    const ctf::StructClass extended{
        {{"id", integer(ring::kExtendedIdSize * 8, 8)}, {"timestamp", timestamp(8 * layout.extended_time_size(), 8)}}};
    const ctf::VariantClass forms{{"id"}, {{"compact", short_form}, {"extended", extended}}};
    return {.members = {{"id", tag}, {"v", forms}}, .minimum_alignment = 8};
}

// Of one process it says a bit more, as LTTng does ([LTTng-2.13]).
std::vector<ctf::EnvironmentEntry> environment(const Trace::Parameters& parameters) {
    const RegistryKey& key = parameters.key;
    const bool is_of_process = key.pid != 0;
    std::vector<ctf::EnvironmentEntry> entries{
        {"domain", std::string("ust")},
        {"tracer_name", std::string("leat")},
        {"tracer_major", std::int64_t{0}},
        {"tracer_minor", std::int64_t{1}},
        {"tracer_buffering_scheme", std::string(is_of_process ? "pid" : "uid")},
        {"tracer_buffering_id", is_of_process ? std::int64_t{key.pid} : static_cast<std::int64_t>(key.uid)},
        {"architecture_bit_width", std::int64_t{key.bitness}},
        {"trace_name", parameters.session_name},
        {"trace_creation_datetime", local_time_text("%Y%m%dT%H%M%S%z")},
        {"hostname", host_name()}};
    if (is_of_process) {
        entries.push_back({"vpid", std::int64_t{parameters.vpid}});
        entries.push_back({"procname", parameters.program});
        entries.push_back({"vpid_datetime", local_time_text("%Y%m%d-%H%M%S")});
    }
    entries.insert(entries.end(), parameters.environment.begin(), parameters.environment.end());
    return entries;
}

}  // namespace

// Of several tries the one that was least disturbed.
std::uint64_t epoch_offset(const std::function<std::uint64_t()>& trace_time) {
    std::uint64_t shortest = UINT64_MAX;
    std::uint64_t offset = 0;
    for (int i = 0; i < 10; ++i) {
        const std::uint64_t before = trace_time();
        const auto real = std::chrono::system_clock::now().time_since_epoch();
        const std::uint64_t after = trace_time();
        if (after - before >= shortest) continue;
        shortest = after - before;
        const auto real_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(real).count();
        offset = static_cast<std::uint64_t>(real_ns) - (before + (after - before) / 2);
    }
    return offset;
}

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

ctf::TraceClass describe_trace(const Trace::Parameters& parameters, std::span<const Channel> channels) {
    constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
    static_assert(kNsPerSecond % ring::kTinyHeader.cycle() == 0);
    const ring::RecordHeaderLayout& header = ring::header_layout(channels.front().header);
    ctf::TraceClass trace;
    trace.uuid = random_uuid();
    trace.packet_header = ctf::packet_header_class();
    trace.environment = environment(parameters);
    trace.clocks.push_back({.name = kClockName,
                            .uuid = random_uuid(),
                            .description = "CLOCK_MONOTONIC",
                            .frequency = kNsPerSecond / header.cycle(),
                            .offset = header.cycles(epoch_offset(ring::system_now)),
                            .is_absolute = true});
    for (const Channel& channel : channels) {
        for (const std::string owner : {"cpu_id", "thread_ring"}) {
            ctf::StreamClass stream{.id = trace.streams.size(),
                                    .packet_context = ctf::packet_context_class(kClockName, owner),
                                    .event_header = event_header_class(ring::header_layout(channel.header))};
            if (!channel.contexts.empty()) stream.event_context = context_class(channel.contexts);
            trace.streams.push_back(std::move(stream));
        }
    }
    return trace;
}

}  // namespace leat::session
