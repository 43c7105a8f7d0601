#include "viewer/read/tracer_quirks.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace leat::viewer {
namespace {

using Version = std::array<std::int64_t, 3>;

// What is not stated is 0.
Version version_of(const ctf::TraceClass& trace_class) {
    Version version{};
    if (const auto* const major = ctf::environment_number(trace_class, "tracer_major")) version[0] = *major;
    if (const auto* const minor = ctf::environment_number(trace_class, "tracer_minor")) version[1] = *minor;
    for (const char* const name : {"tracer_patchlevel", "tracer_patch"})
        if (const auto* const patch = ctf::environment_number(trace_class, name)) version[2] = *patch;
    return version;
}

// Three releases of the modules have the mend.
bool ends_packets_early(const std::string& tracer, const Version& version) {
    if (tracer == "lttng-ust") return version < Version{2, 11};
    if (tracer != "lttng-modules") return false;
    return version < Version{2, 9, 13} || (version >= Version{2, 10} && version < Version{2, 10, 10});
}

}  // namespace

TracerQuirks TracerQuirks::of(const ctf::TraceClass& trace_class) {
    const std::string* const tracer = ctf::environment_text(trace_class, "tracer_name");
    if (tracer == nullptr) return {};
    const Version version = version_of(trace_class);
    const bool is_of_lttng = *tracer == "lttng-ust" || *tracer == "lttng-modules";
    return {.leaves_packets_open = is_of_lttng,
            .ends_packets_early = viewer::ends_packets_early(*tracer, version),
            .begins_packets_late = *tracer == "barectf" && version < Version{2, 3, 1},
            .counts_from_epoch = is_of_lttng};
}

}  // namespace leat::viewer
