#include "session/trace.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/local_time.hpp"
#include "base/random_value.hpp"
#include "base/utf8.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"
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

// In Trace::memory(): clock, registry, metadata.
constexpr std::size_t kMemoryBesideRings = 3;

std::uint32_t thread_rings(std::uint64_t ring_size) {
    const std::uint64_t that_fit = std::min<std::uint64_t>(kThreadRingSpace / ring_size, kThreadRings);
    return std::max(static_cast<std::uint32_t>(that_fit), kFewestThreadRings);
}

// Of a registry: ids count up, and their records are such as programs write.
Result<void> check_classes(const ctf::StreamClass& stream) {
    for (std::size_t id = 0; id < stream.events.size(); ++id) {
        if (stream.events[id].id != id) return corrupt("a registry has id {} in place {}", stream.events[id].id, id);
        LEAT_TRY(ctf::RecordWalker::check(stream.events[id]));
    }
    return stream.events.size() <= kMaxEventClasses ? Result<void>()
                                                    : corrupt("a registry of {} events", stream.events.size());
}

// What was kept of a trace: its events alone, of each stream.
Result<ctf::TraceClass> parse_kept(const std::string& metadata) {
    ctf::TraceClass trace = LEAT_TRY(ctf::parse_tsdl(metadata));
    for (ctf::StreamClass& stream : trace.streams)
        std::erase_if(stream.events, [](const ctf::EventClass& event) { return event.id == kNoEvent; });
    return trace;
}

}  // namespace

// They count up from a random one, so that a program which has outlived another daemon does not take our channel for
// that one's.
std::uint32_t next_channel_number(wire::Lane lane) {
    static std::atomic<std::uint32_t> next = random_value<std::uint32_t>();
    std::uint32_t number = 0;  // which is no channel
    while (number == 0) number = next++ << 2 | static_cast<std::uint32_t>(lane);
    return number;
}

// A program may call itself what no file may be called, or what relays refuse because it would be hidden.
std::string Trace::usual_path(const Parameters& parameters) {
    if (parameters.key.pid == 0) return fmt::format("ust/uid/{}/{}-bit", parameters.key.uid, parameters.key.bitness);
    std::string name = to_utf8(parameters.program);  // as what is kept of the trace says
    std::replace(name.begin(), name.end(), '/', '_');
    if (name.starts_with('.')) name.front() = '_';
    return fmt::format("{}/{}-{}-{}", kDirectoryOfProcesses, name, parameters.key.pid,
                       local_time_text("%Y%m%d-%H%M%S"));
}

TraceChannel::TraceChannel(const Channel& channel, std::size_t index, std::uint32_t number, ring::RingSet rings,
                           const ring::SharedClock& clock, EventJournal& journal, DescriptionBudget* budget)
    : name_(channel.name),
      index_(index),
      header_(channel.header),
      contexts_(channel.contexts),
      blocking_timeout_us_(channel.blocking_timeout_us),
      files_(channel.files),
      drain_period_us_(session::drain_period_us(channel)),
      is_trigger_(channel.is_trigger),
      number_(number),
      rings_(std::move(rings)),
      clock_(&clock),
      journal_(&journal),
      registry_(budget),
      walker_(ring::header_layout(channel.header), wire::context_size(channel.contexts.bits),
              channel.contexts.of_application.size()) {}

wire::ChannelMessage TraceChannel::message() const {
    wire::ChannelMessage message{};
    message.number = number_;
    message.header_kind = static_cast<std::uint16_t>(header_);
    message.overwrites = rings_.geometry().overwrites ? 1 : 0;
    message.contexts = contexts_.bits | (contexts_.of_application.empty() ? 0 : wire::kContextApp);
    message.ring_size = rings_.geometry().ring_size;
    message.cpu_ring_count = rings_.geometry().cpu_rings;
    message.thread_ring_count = rings_.geometry().thread_rings;
    message.blocking_timeout_us = blocking_timeout_us_;
    return message;
}

// Forgets those of programs that are gone; and all if there are too many: they are asked for again.
TraceChannel::Known& TraceChannel::known(const Application& application) {
    constexpr std::size_t kMaxKnown = 1024;
    const auto found = known_.find(application.tracepoints.get());
    if (found != known_.end() && !found->second.tracepoints.expired()) return found->second;
    std::erase_if(known_, [](const auto& entry) { return entry.second.tracepoints.expired(); });
    if (known_.size() >= kMaxKnown) known_.clear();
    Known known{application.tracepoints, std::vector<std::uint32_t>(application.tracepoints->size(), Known::kUnknown)};
    return known_.emplace(application.tracepoints.get(), std::move(known)).first->second;
}

TraceChannel::Enrolled TraceChannel::enroll(const Application& application, std::size_t index, OnConflict on_conflict) {
    std::uint32_t& id = known(application).ids[index];
    if (id == Known::kConflicting && on_conflict == OnConflict::kRefuse) return {};
    if (id < Known::kOverBudget || id == wire::kNotEnabled) return {.id = id};
    const bool was_over_budget = id == Known::kOverBudget;
    id = wire::kNotEnabled;
    const wire::TracepointDescription& tracepoint = (*application.tracepoints)[index];
    const EventOrigin origin = origin_of(application, tracepoint);
    auto described = event_class_of(tracepoint);
    if (!described)
        return {.warning = fmt::format("{}: tracepoint \"{}\" of {} is not recorded: {}", application.name(),
                                       tracepoint.name, origin.place, described.error().message)};
    auto enrolled = registry_.enroll(*std::move(described), origin, on_conflict);
    if (!enrolled) {
        Registry::Refusal refusal = std::move(enrolled).error();
        // With versions, it is one too many, and stays so.
        if (!refusal.conflict.empty() && on_conflict == OnConflict::kRefuse) id = Known::kConflicting;
        if (refusal.is_over_budget) id = Known::kOverBudget;
        if (refusal.is_over_budget && was_over_budget) return {};
        return {.conflict = std::move(refusal.conflict),
                .warning = std::move(refusal.error.message),
                .is_over_budget = refusal.is_over_budget};
    }
    if (enrolled->is_new) {
        const ctf::EventClass& event_class = registry_.event_class(enrolled->id);
        const auto kept = journal_->append(ctf::event_block(event_class, stream_class_id()));
        // The next process must know all ids: without memory for that, it is not given. There may be some later.
        if (!kept) {
            registry_.take_back_last();
            id = Known::kOverBudget;
            if (was_over_budget) return {};
            return {.warning = fmt::format("event \"{}\" of {} is not recorded: {}", tracepoint.name, origin.text(),
                                           kept.error().message),
                    .is_over_budget = true};
        }
        const std::lock_guard guard(lock_);
        handed_over_.push_back(event_class);
    }
    id = enrolled->id;
    return {.id = id};
}

void TraceChannel::restore(const std::deque<ctf::EventClass>& classes, std::size_t described, bool has_thread_streams) {
    for (const ctf::EventClass& event_class : classes) {
        registry_.restore(event_class);
        if (described_.size() == described) {
            handed_over_.push_back(event_class);
            continue;
        }
        walker_.add(event_class);
        described_.push_back(event_class);
    }
    has_thread_streams_ = has_thread_streams;
}

ctf::RecordWalker TraceChannel::walker_of_all() const {
    ctf::RecordWalker walker(walker_.header(), wire::context_size(contexts_.bits), contexts_.of_application.size());
    for (std::uint32_t id = 0; id < registry_.size(); ++id) walker.add(registry_.event_class(id));
    return walker;
}

std::string TraceChannel::describe_new(bool has_thread_streams) {
    std::vector<ctf::EventClass> classes;
    {
        const std::lock_guard guard(lock_);
        classes.swap(handed_over_);
    }
    std::string metadata;
    for (ctf::EventClass& event_class : classes) {
        walker_.add(event_class);
        metadata += ctf::event_block(event_class, stream_class_id());
        if (has_thread_streams_) metadata += ctf::event_block(event_class, thread_stream_class_id());
        described_.push_back(std::move(event_class));
    }
    if (!has_thread_streams || std::exchange(has_thread_streams_, true)) return metadata;
    for (const ctf::EventClass& event_class : described_)
        metadata += ctf::event_block(event_class, thread_stream_class_id());
    return metadata;
}

std::uint64_t Trace::ring_memory(std::span<const Channel> channels) {
    std::uint64_t sum = 0;
    for (const Channel& channel : channels) sum += channel.ring_size * ring::possible_cpus();
    return sum;
}

Result<std::unique_ptr<Trace>> Trace::create(const Parameters& parameters, std::span<const Channel> channels) {
    auto clock = LEAT_TRY(
        ring::SharedClock::create(parameters.time_source ? parameters.time_source() : ring::TimeSource::of_system()));
    std::unique_ptr<Trace> trace(new Trace(parameters,
                                           parameters.path.empty() ? usual_path(parameters) : parameters.path,
                                           std::move(clock), describe_trace(parameters, channels)));
    if (!parameters.memory_directory.empty())
        trace->files_.emplace(LEAT_TRY(MemoryDirectory::create(parameters.memory_directory, trace->path_)));
    if (parameters.is_kept) {
        trace->registry_ = LEAT_TRY(Journal::create("registry", trace->place()));
        trace->metadata_ = LEAT_TRY(Journal::create("metadata", trace->place()));
        LEAT_TRY(trace->registry_->append(trace->initial_metadata()));
        trace->events_ = EventJournal(&*trace->registry_);
    }
    for (const Channel& channel : channels) {
        const ring::RingSetGeometry geometry{.ring_size = channel.ring_size,
                                             .cpu_rings = ring::possible_cpus(),
                                             .thread_rings = thread_rings(channel.ring_size),
                                             .overwrites = channel.overwrites};
        ring::RingSet rings = LEAT_TRY(
            ring::RingSet::create(geometry, ring::clock_now(trace->clock_.page()), trace->place(), channel.name));
        trace->add_channel(channel, next_channel_number(parameters.lane), std::move(rings));
    }
    return trace;
}

void Trace::add_channel(const Channel& channel, std::uint32_t number, ring::RingSet rings) {
    if (parameters_.claim.maps != nullptr) rings.share_maps(parameters_.claim.maps);
    channels_.push_back(std::make_unique<TraceChannel>(channel, channels_.size(), number, std::move(rings), clock_,
                                                       events_, parameters_.budget));
}

Trace::Shape Trace::shape() const {
    Shape shape{.path = path_};
    for (const auto& channel : channels_)
        shape.channels.push_back({channel->number(), channel->rings().geometry(), channel->rings().created()});
    return shape;
}

std::vector<int> Trace::memory() const {
    std::vector<int> memory{clock_.page_fd(), registry_->fd(), metadata_->fd()};
    for (const auto& channel : channels_) memory.push_back(channel->rings().fd());
    if (files_) memory.push_back(files_->lock());
    return memory;
}

const MemoryPlace& Trace::place() const { return files_ ? files_->place() : MemoryPlace::without_names(); }

std::vector<std::uint32_t> Trace::ring_counts() const {
    std::vector<std::uint32_t> counts;
    counts.reserve(channels_.size());
    for (const auto& channel : channels_) counts.push_back(channel->rings().geometry().ring_count());
    return counts;
}

Result<std::unique_ptr<Trace>> Trace::adopt(const Parameters& parameters, std::span<const Channel> channels,
                                            const Shape& shape, std::vector<UniqueFd> memory) {
    const bool is_in_files = !parameters.memory_directory.empty();
    if (shape.channels.size() != channels.size() ||
        memory.size() != kMemoryBesideRings + channels.size() + (is_in_files ? 1 : 0))
        return corrupt("a trace of {} channels has {} descriptors for {}", channels.size(), memory.size(),
                       shape.channels.size());
    auto clock = LEAT_TRY(ring::SharedClock::adopt(std::move(memory[0])));
    auto registry = LEAT_TRY(Journal::adopt(std::move(memory[1])));
    auto metadata = LEAT_TRY(Journal::adopt(std::move(memory[2])));
    Memory opened{.clock = std::move(clock), .registry = std::move(registry), .metadata = std::move(metadata)};
    for (std::size_t i = 0; i < channels.size(); ++i) {
        const Shape::OfChannel& known = shape.channels[i];
        ring::RingSetGeometry geometry = known.geometry;
        geometry.overwrites = channels[i].overwrites;
        opened.rings.push_back(LEAT_TRY(
            ring::RingSet::adopt(std::move(memory[kMemoryBesideRings + i]), geometry, known.created,
                                 is_in_files ? ring::RingSet::Memory::kFile : ring::RingSet::Memory::kSealed)));
    }
    auto trace = LEAT_TRY(adopt(parameters, channels, shape, std::move(opened)));
    if (is_in_files)
        trace->files_.emplace(
            LEAT_TRY(MemoryDirectory::adopt(parameters.memory_directory, shape.path, std::move(memory.back()))));
    return trace;
}

Result<std::unique_ptr<Trace>> Trace::adopt(const Parameters& parameters, std::span<const Channel> channels,
                                            const Shape& shape, Memory memory) {
    Journal& registry = memory.registry;
    Journal& metadata = memory.metadata;
    const ctf::TraceClass enrolled = LEAT_TRY(parse_kept(LEAT_TRY(registry.read())));
    const ctf::TraceClass described =
        metadata.empty() ? ctf::TraceClass{} : LEAT_TRY(parse_kept(LEAT_TRY(metadata.read())));
    ctf::TraceClass without_events = enrolled;
    for (ctf::StreamClass& stream : without_events.streams) stream.events.clear();
    if (!enrolled.uuid || enrolled.streams.size() != 2 * channels.size())
        return corrupt("a trace of {} channels has {} streams", channels.size(), enrolled.streams.size());
    for (const ctf::StreamClass& stream : enrolled.streams) LEAT_TRY(check_classes(stream));
    std::unique_ptr<Trace> trace(new Trace(parameters, shape.path, std::move(memory.clock), std::move(without_events)));
    trace->registry_ = std::move(memory.registry);
    trace->events_ = EventJournal(&*trace->registry_);
    trace->metadata_ = std::move(memory.metadata);
    trace->is_adopted_ = true;
    for (std::size_t i = 0; i < channels.size(); ++i)
        trace->add_channel(channels[i], shape.channels[i].number, std::move(memory.rings[i]));
    trace->restore(enrolled, described);
    return trace;
}

// Streams come in pairs: those of CPUs, those of threads.
void Trace::restore(const ctf::TraceClass& enrolled, const ctf::TraceClass& described) {
    for (std::size_t i = 0; i < channels_.size(); ++i) {
        const bool is_described = 2 * i + 1 < described.streams.size();
        channels_[i]->restore(enrolled.streams[2 * i].events, is_described ? described.streams[2 * i].events.size() : 0,
                              is_described && !described.streams[2 * i + 1].events.empty());
    }
}

std::vector<std::string> Trace::channel_names() const {
    std::vector<std::string> names;
    names.reserve(channels_.size());
    for (const auto& channel : channels_) names.push_back(channel->name());
    return names;
}

bool Trace::is_for_snapshots() const {
    return std::ranges::any_of(channels_, [](const auto& channel) { return channel->rings().geometry().overwrites; });
}

std::uint64_t Trace::epoch_offset() const {
    const ring::RecordHeaderLayout& header = channels_.front()->walker().header();
    return header.cycles(session::epoch_offset([this] { return ring::clock_now(clock_.page()); }));
}

// babeltrace2 2.0.4 looks for the tags of variants in a stream's event context only when it meets an event of the
// stream, and aborts if there is none. So each such stream has one that never happens.
std::string Trace::initial_metadata() const {
    std::string metadata = ctf::kTsdlSignature + ctf::trace_blocks(trace_class_);
    for (const auto& channel : channels_)
        if (channel->has_app_contexts())
            for (const std::uint64_t stream : {channel->stream_class_id(), channel->thread_stream_class_id()})
                metadata += ctf::event_block({.id = kNoEvent, .name = "leat:no_event"}, stream);
    return metadata;
}

}  // namespace leat::session
