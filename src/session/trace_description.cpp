#include "session/trace_description.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "base/random_value.hpp"
#include "ctf/record/packet_header.hpp"
#include "ring/clock.hpp"
#include "session/session.hpp"
#include "wire/app/app_protocol.hpp"

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

// CLOCK_REALTIME - CLOCK_MONOTONIC, ns; of several tries the one that was least disturbed.
std::uint64_t epoch_offset() {
    std::uint64_t shortest = UINT64_MAX;
    std::uint64_t offset = 0;
    for (int i = 0; i < 10; ++i) {
        const std::uint64_t before = ring::system_now();
        const auto real = std::chrono::system_clock::now().time_since_epoch();
        const std::uint64_t after = ring::system_now();
        if (after - before >= shortest) continue;
        shortest = after - before;
        const auto real_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(real).count();
        offset = static_cast<std::uint64_t>(real_ns) - (before + (after - before) / 2);
    }
    return offset;
}

std::string creation_time() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    std::array<char, 64> text{};
    std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%S%z", &local);
    return text.data();
}

// An enum tag that selects the short or the extended form, as LTTng's headers have it ([CTF-1.8], section 6.1). Forms
// of whole bytes are aligned to bytes; the compact one has its bits side by side.
ctf::StructClass event_header_class(const ring::RecordHeaderLayout& layout) {
    const unsigned alignment = layout.id_bits % 8 == 0 ? 8 : 1;
    const auto integer = [](unsigned bits, unsigned aligned) {
        return ctf::IntegerClass{.size = bits, .alignment = aligned};
    };
    const auto timestamp = [](unsigned bits, unsigned aligned) {
        return ctf::IntegerClass{.size = bits, .alignment = aligned, .clock = kClockName};
    };
    const std::uint64_t last = layout.all_ones();
    const ctf::EnumClass tag{integer(layout.id_bits, alignment), {{"compact", 0, last - 1}, {"extended", last, last}}};
    const ctf::StructClass short_form{{{"timestamp", timestamp(layout.time_bits(), alignment)}}};
    const ctf::StructClass extended{
        {{"id", integer(ring::kExtendedIdSize * 8, 8)}, {"timestamp", timestamp(ring::kExtendedTimeSize * 8, 8)}}};
    const ctf::VariantClass forms{{"id"}, {{"compact", short_form}, {"extended", extended}}};
    return {.members = {{"id", tag}, {"v", forms}}, .minimum_alignment = 8};
}

ctf::StructClass context_class(std::uint32_t contexts) {
    const ctf::IntegerClass id{.size = 32, .is_signed = true};
    const ctf::FieldClass character = ctf::IntegerClass{.size = 8, .encoding = ctf::Encoding::kUtf8};
    ctf::StructClass result;
    if ((contexts & wire::kContextVpid) != 0) result.members.push_back({"_vpid", id});
    if ((contexts & wire::kContextVtid) != 0) result.members.push_back({"_vtid", id});
    if ((contexts & wire::kContextProcname) != 0)
        result.members.push_back({"_procname", ctf::ArrayClass{character, wire::kProcnameSize}});
    if ((contexts & wire::kContextIp) != 0)
        result.members.push_back({"_ip", ctf::IntegerClass{.size = 64, .base = ctf::DisplayBase::kHexadecimal}});
    return result;
}

std::vector<ctf::EnvironmentEntry> environment(const std::string& session_name, uid_t uid) {
    return {{"domain", std::string("ust")},
            {"tracer_name", std::string("leat")},
            {"tracer_major", std::int64_t{0}},
            {"tracer_minor", std::int64_t{1}},
            {"tracer_buffering_scheme", std::string("uid")},
            {"tracer_buffering_id", static_cast<std::int64_t>(uid)},
            {"architecture_bit_width", std::int64_t{64}},
            {"trace_name", session_name},
            {"trace_creation_datetime", creation_time()},
            {"hostname", host_name()}};
}

}  // namespace

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

ctf::TraceClass describe_trace(const std::string& session_name, uid_t uid, ring::HeaderKind header,
                               std::uint32_t contexts) {
    ctf::TraceClass trace;
    trace.uuid = random_uuid();
    trace.packet_header = ctf::packet_header_class();
    trace.environment = environment(session_name, uid);
    trace.clocks.push_back({.name = kClockName,
                            .uuid = random_uuid(),
                            .description = "CLOCK_MONOTONIC",
                            .offset = epoch_offset(),
                            .is_absolute = true});
    for (const bool is_of_cpus : {true, false}) {
        const std::string owner = is_of_cpus ? "cpu_id" : "thread_ring";
        ctf::StreamClass stream{.id = is_of_cpus ? kStreamClassId : kThreadStreamClassId,
                                .packet_context = ctf::packet_context_class(kClockName, owner),
                                .event_header = event_header_class(ring::header_layout(header))};
        if (contexts != 0) stream.event_context = context_class(contexts);
        trace.streams.push_back(std::move(stream));
    }
    return trace;
}

}  // namespace leat::session
