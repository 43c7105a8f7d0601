#include "host/kept_trace.hpp"

#include <algorithm>
#include <fstream>

#include "session/contexts.hpp"

namespace leat::host {
namespace {

using nlohmann::json;
using session::Trace;

// Objects in one another; there are three.
constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxChannels = 257;  // with that of --snapshot-on
constexpr std::uint32_t kMaxCpuRings = 8192;
constexpr std::uint32_t kMaxThreadRings = 1024;
constexpr std::size_t kMaxName = 255;

constexpr char kDiscard[] = "discard";
constexpr char kOverwrite[] = "overwrite";
constexpr char kTrigger[] = "trigger";

// Of this boot of the system.
std::string boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;
}

json channel_json(const session::TraceChannel& channel) {
    const ring::RingSetGeometry& geometry = channel.rings().geometry();
    const char* const mode = geometry.overwrites ? kOverwrite : channel.is_trigger() ? kTrigger : kDiscard;
    return {{"name", channel.name()},
            {"header", session::header_name(channel.header_kind())},
            {"mode", mode},
            {"contexts", session::context_names(channel.contexts())}};
}

Result<session::Channel> channel_from(const json& described) {
    session::Channel channel{.name = described.at("name").get<std::string>(), .rules = {}};
    const auto header = session::header_kind(described.at("header").get<std::string>());
    const auto mode = described.at("mode").get<std::string>();
    if (!header || (mode != kDiscard && mode != kOverwrite && mode != kTrigger) || channel.name.empty() ||
        channel.name.size() > kMaxName || channel.name.starts_with('.') ||
        channel.name.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
        return corrupt("it has a channel that cannot be");
    channel.header = *header;
    channel.overwrites = mode == kOverwrite;
    channel.is_trigger = mode == kTrigger;
    channel.contexts = LEAT_TRY(session::parse_contexts(described.at("contexts").get<std::vector<std::string>>()));
    return channel;
}

Result<void> check(const DescribedTrace& trace) {
    const auto is_possible = [](const Trace::Shape::OfChannel& channel) {
        return ring::is_valid_ring_size(channel.geometry.ring_size) && channel.geometry.cpu_rings != 0 &&
               channel.geometry.cpu_rings <= kMaxCpuRings && channel.geometry.thread_rings <= kMaxThreadRings;
    };
    if (trace.channels.empty() || trace.channels.size() > kMaxChannels ||
        trace.shape.channels.size() != trace.channels.size() || !std::ranges::all_of(trace.shape.channels, is_possible))
        return corrupt("it has channels that cannot be");
    for (std::size_t i = 0; i < trace.channels.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (trace.channels[i].name == trace.channels[j].name ||
                !have_one_clock(trace.channels[i], trace.channels[j]))
                return corrupt("it has channels that cannot be together");
    return {};
}

Result<DescribedTrace> read_memory(const json& known) {
    DescribedTrace trace{trace_from(known.at("trace")), {}};
    trace.parameters.session_name = known.at("session").get<std::string>();
    trace.stored_in = known.at("directory").get<std::string>();
    trace.is_of_this_boot = !boot_id().empty() && known.at("boot").get<std::string>() == boot_id();
    for (const json& channel : known.at("channels")) trace.channels.push_back(LEAT_TRY(channel_from(channel)));
    LEAT_TRY(check(trace));
    for (std::size_t i = 0; i < trace.channels.size(); ++i) {
        trace.channels[i].ring_size = trace.shape.channels[i].geometry.ring_size;
        trace.shape.channels[i].geometry.overwrites = trace.channels[i].overwrites;
    }
    return trace;
}

}  // namespace

json trace_json(const Trace& trace) {
    const Trace::Parameters& parameters = trace.parameters();
    const Trace::Shape shape = trace.shape();
    json channels = json::array();
    for (const Trace::Shape::OfChannel& channel : shape.channels)
        channels.push_back({{"number", channel.number},
                            {"ring_size", channel.geometry.ring_size},
                            {"cpu_rings", channel.geometry.cpu_rings},
                            {"thread_rings", channel.geometry.thread_rings},
                            {"created", channel.created}});
    return {{"uid", parameters.key.uid},
            {"bits", parameters.key.bitness},
            {"pid", parameters.key.pid},
            {"pid_namespace", parameters.key.pid_namespace},
            {"program", parameters.program},
            {"vpid", parameters.vpid},
            {"path", shape.path},
            {"channels", std::move(channels)}};
}

KnownTrace trace_from(const json& described) {
    KnownTrace known{.parameters = {.key = {.uid = described.at("uid").get<uid_t>(),
                                            .bitness = described.at("bits").get<unsigned>(),
                                            .pid = described.at("pid").get<pid_t>(),
                                            .pid_namespace = described.value("pid_namespace", std::uint32_t{})},
                                    .program = described.at("program").get<std::string>(),
                                    .vpid = described.at("vpid").get<pid_t>(),
                                    .is_kept = true},
                     .shape = {.path = described.at("path").get<std::string>()}};
    for (const json& channel : described.at("channels"))
        known.shape.channels.push_back({.number = channel.at("number").get<std::uint32_t>(),
                                        .geometry = {.ring_size = channel.at("ring_size").get<std::uint64_t>(),
                                                     .cpu_rings = channel.at("cpu_rings").get<std::uint32_t>(),
                                                     .thread_rings = channel.at("thread_rings").get<std::uint32_t>()},
                                        .created = channel.at("created").get<std::uint64_t>()});
    return known;
}

Result<void> describe_memory(Trace& trace, const Destination& destination) {
    std::error_code error;
    const auto directory = destination.directory.empty() ? std::filesystem::path()
                                                         : std::filesystem::absolute(destination.directory, error);
    json channels = json::array();
    for (const auto& channel : trace.channels()) channels.push_back(channel_json(*channel));
    const json described{{"leat_memory", kMemoryVersion},
                         {"boot", boot_id()},
                         {"session", trace.parameters().session_name},
                         {"directory", directory.string()},
                         {"channels", std::move(channels)},
                         {"trace", trace_json(trace)}};
    return trace.files()->describe(described.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

Result<DescribedTrace> parse_memory(const std::string& text) try {
    bool is_strange = false;
    // A number that is no integer, or too large, could not be taken for one.
    const auto check = [&is_strange](int depth, json::parse_event_t, const json& parsed) {
        is_strange |= depth > kMaxDepth || parsed.is_number_float();
        return !is_strange;
    };
    const json known = json::parse(text, check, false);
    if (is_strange || !known.is_object()) return corrupt("it is no JSON that can be read");
    if (known.at("leat_memory") != kMemoryVersion)
        return unsupported("it is of version {}, and {} is known: recover it with the Leat that recorded it",
                           known.at("leat_memory").dump(), kMemoryVersion);
    return read_memory(known);
} catch (const json::exception& error) {
    return corrupt("it is not understood: {}", error.what());
}

}  // namespace leat::host
