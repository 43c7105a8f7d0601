#include "session/session.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/check.hpp"
#include "base/random_value.hpp"
#include "ctf/tsdl/tsdl_writer.hpp"
#include "ring/clock.hpp"
#include "session/event_description.hpp"
#include "session/trace_description.hpp"

namespace leat::session {
namespace {

// Rings for threads without rseq, and for children of vfork(). Until such a thread comes, they cost only address space.
constexpr std::uint32_t kThreadRings = 264;
constexpr std::uint32_t kFewestThreadRings = 72;
constexpr std::uint64_t kThreadRingSpace = 32ULL << 30;  // bytes

// Warnings about tracepoints of one registration. The rest is only counted, so that a broken program cannot flood the
// user's terminal.
constexpr std::size_t kMaxWarnings = 20;

std::uint32_t thread_rings(std::uint64_t ring_size) {
    const std::uint64_t that_fit = std::min<std::uint64_t>(kThreadRingSpace / ring_size, kThreadRings);
    return std::max(static_cast<std::uint32_t>(that_fit), kFewestThreadRings);
}

// A number that no other channel of this lane has: they count up from a random one, so that a program which has
// outlived another recorder does not take our channel for that one's.
std::uint32_t next_channel_number(wire::Lane lane) {
    static std::atomic<std::uint32_t> next = random_value<std::uint32_t>();
    std::uint32_t number = 0;  // which is no channel
    while (number == 0) number = next++ << 2 | static_cast<std::uint32_t>(lane);
    return number;
}

}  // namespace

Result<Session> Session::create(const SessionParameters& parameters) {
    ring::SharedClock clock = LEAT_TRY(ring::SharedClock::create());
    const ring::RingSetGeometry geometry{.ring_size = parameters.ring_size,
                                         .cpu_rings = ring::possible_cpus(),
                                         .thread_rings = thread_rings(parameters.ring_size)};
    ring::RingSet rings = LEAT_TRY(ring::RingSet::create(geometry, ring::clock_now(clock.page())));
    return Session(parameters, std::move(clock), std::move(rings));
}

Session::Session(const SessionParameters& parameters, ring::SharedClock clock, ring::RingSet rings)
    : parameters_(parameters),
      clock_(std::move(clock)),
      rings_(std::move(rings)),
      channel_number_(next_channel_number(wire::Lane::kRecorder)),
      trace_class_(describe_trace(parameters.name, parameters.uid, parameters.header, parameters.contexts)),
      walker_(ring::header_layout(parameters.header), wire::context_size(parameters.contexts)) {}

std::string Session::initial_metadata() const { return ctf::kTsdlSignature + ctf::trace_blocks(trace_class_); }

Result<Registry::Enrolled> Session::enroll(const wire::TracepointDescription& tracepoint) {
    const std::string place = fmt::format("{}:{}", tracepoint.file, tracepoint.line);
    auto described = event_class_of(tracepoint);
    if (!described)
        return wrap(fmt::format("tracepoint \"{}\" of {} is not recorded", tracepoint.name, place), described.error());
    return registry_.enroll(*std::move(described), place);
}

RegistrationOutcome Session::register_application(const wire::AppRegistration& application) {
    RegistrationOutcome outcome;
    std::size_t refusals = 0;
    ++registrations_;
    for (const wire::TracepointDescription& tracepoint : application.tracepoints) {
        if (names_seen_.size() < kMaxEventClasses) names_seen_.insert(tracepoint.name);
        outcome.event_ids.push_back(wire::kNotEnabled);
        if (!parameters_.rules.matches(tracepoint.name, tracepoint.log_level)) continue;
        const auto enrolled = enroll(tracepoint);
        if (enrolled) {
            outcome.event_ids.back() = enrolled->id;
            if (enrolled->is_new) outcome.new_classes.push_back(registry_.event_class(enrolled->id));
        } else if (++refusals <= kMaxWarnings) {
            outcome.warnings.push_back(
                fmt::format("{} ({}): {}", application.procname, application.pid, enrolled.error().message));
        }
    }
    if (refusals > kMaxWarnings)
        outcome.warnings.push_back(fmt::format("{} ({}): {} more tracepoints are not recorded", application.procname,
                                               application.pid, refusals - kMaxWarnings));
    return outcome;
}

std::string Session::describe(const std::vector<ctf::EventClass>& classes) {
    std::string metadata;
    for (const ctf::EventClass& event_class : classes) {
        walker_.add(event_class);
        metadata += ctf::event_block(event_class, kStreamClassId);
        if (has_thread_streams_) metadata += ctf::event_block(event_class, kThreadStreamClassId);
        described_.push_back(event_class);
    }
    return metadata;
}

std::string Session::describe_thread_streams() {
    std::string metadata;
    if (std::exchange(has_thread_streams_, true)) return metadata;
    for (const ctf::EventClass& event_class : described_)
        metadata += ctf::event_block(event_class, kThreadStreamClassId);
    return metadata;
}

Result<void> Session::enable(wire::AppConnection& application, wire::ControlFile& control,
                             const std::vector<std::uint32_t>& event_ids) const {
    wire::ChannelMessage message{};
    message.number = channel_number_;
    message.header_kind = parameters_.header;
    message.contexts = parameters_.contexts;
    message.ring_size = rings_.geometry().ring_size;
    message.cpu_ring_count = rings_.geometry().cpu_rings;
    message.thread_ring_count = rings_.geometry().thread_rings;
    LEAT_TRY(application.send_channel(message, rings_.fd(), clock_.fd()));
    for (std::uint32_t i = 0; i < event_ids.size(); ++i) {
        const std::array action{wire::Action{.event_id = event_ids[i], .channel = channel_number_}};
        const std::span<const wire::Action> actions(action);
        LEAT_TRY(control.switch_to(i, actions.first(event_ids[i] == wire::kNotEnabled ? 0 : 1)));
    }
    return {};
}

}  // namespace leat::session
