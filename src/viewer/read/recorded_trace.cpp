#include "viewer/read/recorded_trace.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "base/file.hpp"
#include "ctf/metadata/growing_metadata.hpp"
#include "ctf/metadata/metadata_reader.hpp"
#include "ctf/metadata/metadata_stream.hpp"
#include "ctf/record/index_entry.hpp"
#include "trace/moving_lock.hpp"
#include "trace/stream_paths.hpp"
#include "trace/sync_file.hpp"
#include "trace/trace_directories.hpp"
#include "viewer/merge/trace_name.hpp"
#include "viewer/read/metadata_choice.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;

// Identifies a packet within its stream. A packet that is in two snapshots is one packet.
auto identity(const RecordedPacket& packet) {
    const ctf::PacketProperties& properties = packet.properties;
    return std::tuple(properties.begin_ns, properties.end_ns, properties.sequence_number, properties.packet_size,
                      properties.content_bits, properties.events_discarded);
}

bool can_repeat(const RecordedPacket& packet) {
    return packet.properties.begin_ns.has_value() || packet.properties.sequence_number.has_value();
}

// Opens all files of a directory in one consistent state. The writer may replace the oldest files meanwhile. A new file
// beside older ones would make the packets between them seem lost.
Result<OpenedFiles> open_together(const fs::path& directory) {
    constexpr int kMaxRounds = 10;
    OpenedFiles files;
    bool is_complete = false;
    for (int round = 0; round < kMaxRounds && !is_complete; ++round) {
        is_complete = true;
        for (const fs::path& path : LEAT_TRY(trace::find_stream_files(directory))) {
            const auto known = files.find(path.native());
            if (known != files.end() && (!known->second || !is_replaced(**known->second))) continue;
            is_complete = false;
            auto opened = open_stream_file(path);
            // The file has gone since the directory was listed. Another one takes its place.
            std::error_code ignored;
            if (!opened && !fs::exists(path, ignored)) continue;
            files.insert_or_assign(path.native(), std::move(opened));
        }
    }
    return files;
}

Result<std::string> read_metadata_text(const fs::path& directory) {
    const bool may_be_cut = trace::is_being_written(directory);
    const std::string bytes = LEAT_TRY(read_file(directory / trace::kMetadataFile, ctf::kMaxMetadataSize));
    if (!may_be_cut) return ctf::parse_metadata_stream(std::as_bytes(std::span(bytes)));
    ctf::GrowingMetadata metadata;
    LEAT_TRY(metadata.append(std::as_bytes(std::span(bytes))));
    return std::string(metadata.text());
}

Result<void> move_clocks(ctf::TraceClass& trace_class, const ctf::ClockShift& shift) {
    for (ctf::ClockClass& clock : trace_class.clocks)
        if (!ctf::move_clock(clock, shift)) return refused("the clock \"{}\" cannot be moved so far", clock.name);
    return {};
}

Result<RecordedDirectory> read_trace_directory(const fs::path& directory, const ctf::ClockShift& shift) {
    // Open the files before the metadata is read: a writer writes metadata before the packets that need it.
    OpenedFiles files = LEAT_TRY(open_together(directory));
    const std::string file = (directory / trace::kMetadataFile).string();
    auto text = read_metadata_text(directory);
    if (!text) return wrap(file, std::move(text).error());
    auto trace_class = ctf::parse_metadata(*text);
    if (!trace_class) return wrap(file, std::move(trace_class).error());
    if (auto moved = move_clocks(*trace_class, shift); !moved) return wrap(file, std::move(moved).error());
    return RecordedDirectory{directory, std::move(files), *std::move(trace_class)};
}

// The directories of each trace.
std::vector<std::list<RecordedDirectory>> group_by_metadata(std::list<RecordedDirectory> directories) {
    std::vector<const ctf::TraceClass*> metadata;
    metadata.reserve(directories.size());
    for (const RecordedDirectory& directory : directories) metadata.push_back(&directory.trace_class);
    const std::vector<std::size_t> chosen = choose_metadata(metadata);
    std::vector<std::list<RecordedDirectory>> groups;
    std::map<std::size_t, std::size_t> group_by_choice;
    for (const std::size_t choice : chosen) {
        const auto [group, is_new] = group_by_choice.try_emplace(choice, groups.size());
        if (is_new) groups.emplace_back();
        std::list<RecordedDirectory>& traces = groups[group->second];
        traces.splice(traces.end(), directories, directories.begin());
    }
    return groups;
}

// Events of one time are told in the order of their traces, which is that of babeltrace2: by UUID, then by name.
bool comes_before(const std::list<RecordedDirectory>& left, const std::list<RecordedDirectory>& right) {
    const auto rank = [](const std::list<RecordedDirectory>& directories) {
        const RecordedDirectory& first = directories.front();
        const auto& uuid = first.trace_class.uuid;
        std::string name = trace_name(first.trace_class, directories.size() == 1 ? first.path_below : "");
        return std::tuple(!uuid, uuid, name.empty(), std::move(name));
    };
    return rank(left) < rank(right);
}

}  // namespace

// Oldest first. Packets of the same age are sorted by number, because files are not found in that order: the newest
// file may have the first name, and "c_0_10" comes before "c_0_2". Those without numbers are sorted by their ends, and
// without those they stay as they were found.
void sort_packets(std::vector<RecordedPacket>& packets) {
    std::ranges::stable_sort(packets, {}, [](const RecordedPacket& packet) {
        const ctf::PacketProperties& properties = packet.properties;
        return std::tuple(properties.begin_ns, properties.sequence_number, properties.end_ns);
    });
}

bool are_twins(const RecordedPacket& left, const RecordedPacket& right) {
    return left.file != right.file && can_repeat(left) && identity(left) == identity(right);
}

Result<std::unique_ptr<RecordedFile>> open_stream_file(const fs::path& path) {
    const UniqueFd fd = LEAT_TRY(open_for_reading(path));
    // Read the lock first. All bytes below it are then in the file.
    const std::uint64_t safe_size = trace::unlocked_size(fd.get());
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return io_error(fmt::format("cannot stat {}", path.string()));
    const std::uint64_t size = std::min(safe_size, static_cast<std::uint64_t>(status.st_size));
    auto mapping = MappedFile::of_file(fd.get(), size);
    if (!mapping) return wrap(path.string(), std::move(mapping).error());
    return std::make_unique<RecordedFile>(RecordedFile{path, *std::move(mapping), status.st_dev, status.st_ino});
}

// Packets without a time cannot be put in one order with those of other files, so a ring's number does not help.
StreamKey stream_key(const ctf::DecodePlan& plan, const ctf::PacketProperties& properties, const RecordedFile& file) {
    const auto instance = properties.begin_ns ? properties.stream_instance_id : std::nullopt;
    return {&plan, instance, instance ? nullptr : &file};
}

bool is_replaced(const RecordedFile& file) {
    struct stat status {};
    return ::stat(file.path.c_str(), &status) == 0 && (status.st_dev != file.device || status.st_ino != file.inode);
}

tl::unexpected<Error> became_shorter(const RecordedFile& file) {
    return corrupt("{}: it has become shorter while it was read", file.path.string());
}

Result<std::unique_ptr<RecordedTrace>> RecordedTrace::open(std::list<RecordedDirectory> directories,
                                                           std::uint64_t trace_number) {
    const auto most = std::ranges::max_element(
        directories, {}, [](const RecordedDirectory& directory) { return count_declarations(directory.trace_class); });
    std::unique_ptr<RecordedTrace> trace(new RecordedTrace(std::move(most->trace_class), trace_number));
    auto plans = ctf::TracePlans::make(trace->trace_class_);
    if (!plans) return wrap((most->path / trace::kMetadataFile).string(), std::move(plans).error());
    trace->plans_ = *std::move(plans);
    if (directories.size() == 1) trace->path_ = directories.front().path_below;
    for (RecordedDirectory& directory : directories) trace->add_files(std::move(directory.files));
    trace->put_in_order();
    return trace;
}

namespace {

// A producer whose connection breaks sends packets once more, in its next part, of which the relay has noted that they
// did not come.
void forget_found_again(RecordedStream& stream) {
    if (stream.lost_packets.empty()) return;
    std::set<std::uint64_t> there;
    for (const RecordedPacket& packet : stream.packets)
        if (packet.properties.sequence_number) there.insert(*packet.properties.sequence_number);
    std::erase_if(stream.lost_packets, [&there](std::uint64_t lost) { return there.contains(lost); });
}

}  // namespace

void RecordedTrace::add_files(OpenedFiles files) {
    for (auto& [path, opened] : files) {
        if (!opened) {
            note_damage(std::move(opened).error());
            continue;
        }
        files_.push_back(*std::move(opened));
        auto scanned = scan(*files_.back());
        if (!scanned) note_damage(wrap(path, std::move(scanned).error()).value());
    }
}

// Adds whole packets to their streams. The error describes the first packet that is not whole.
Result<void> RecordedTrace::scan(const RecordedFile& file) {
    const UntrustedBytes bytes = file.mapping.bytes();
    const ctf::DecodePlan* plan_of_file = nullptr;
    std::optional<ctf::PacketDecoder> decoder;
    std::optional<std::int64_t> previous_begin_ns;
    std::uint64_t offset = 0;
    std::optional<std::size_t> stream_of_file;
    const LostPackets lost = lost_packets(file.path, bytes.size());
    while (offset < bytes.size()) {
        const UntrustedBytes rest = bytes.subspan(offset);
        auto plan = plans_->plan_for(rest);
        if (!plan) return wrap(fmt::format("packet at offset {}", offset), std::move(plan).error());
        if (!decoder) decoder.emplace(**plan);
        if (std::exchange(plan_of_file, *plan) != *plan && stream_of_file)
            return corrupt("packet at offset {}: it is of stream class {}, unlike the one before it", offset,
                           (*plan)->stream_class->id);
        const ctf::PacketProperties properties = LEAT_TRY(decoder->start(rest, offset));
        const auto before_ns = std::exchange(previous_begin_ns, properties.begin_ns);
        if (before_ns && properties.begin_ns && *before_ns > *properties.begin_ns)
            return corrupt("packet at offset {}: it begins earlier than the one before it", offset);
        if (properties.packet_size > rest.size())
            return corrupt("packet at offset {} is cut short: {} bytes of {}", offset, rest.size(),
                           properties.packet_size);
        // All packets of a file come from one ring, whatever the others say, as in babeltrace2.
        if (!stream_of_file) {
            stream_of_file = stream_of(**plan, properties, file);
            std::ranges::copy(lost.numbers, std::back_inserter(streams_[*stream_of_file].lost_packets));
        }
        streams_[*stream_of_file].packets.push_back({&file, offset, properties});
        offset += properties.packet_size;
    }
    if (lost.cut_off != 0 && !trace::is_being_written(file.path.parent_path()))
        suspects_.push_back({&file, lost.index});
    return {};
}

void RecordedTrace::look_again() {
    for (const auto& [file, index] : std::exchange(suspects_, {})) {
        if (damage_ || is_replaced(*file)) continue;
        const LostPackets lost = lost_packets(file->path, file->mapping.bytes().size());
        if (lost.cut_off == 0 || lost.index != index) continue;
        note_damage(corrupt("{}: it is cut short: its index names {} packet{} behind its end", file->path.string(),
                            lost.cut_off, lost.cut_off == 1 ? "" : "s")
                        .value());
    }
}

std::size_t RecordedTrace::stream_of(const ctf::DecodePlan& plan, const ctf::PacketProperties& properties,
                                     const RecordedFile& file) {
    const StreamKey key = stream_key(plan, properties, file);
    const auto [entry, is_new] = stream_by_key_.try_emplace(key, streams_.size());
    if (is_new)
        streams_.push_back(RecordedStream{{.trace_number = trace_number_,
                                           .class_id = plan.stream_class->id,
                                           .instance_id = std::get<1>(key),
                                           .trace_path = path_},
                                          &plan});
    return entry->second;
}

std::optional<Error> RecordedTrace::damage() const {
    if (damage_) return damage_;
    const auto shorter = std::ranges::find_if(files_, [](const auto& file) { return file->mapping.was_shortened(); });
    if (shorter == files_.end()) return std::nullopt;
    return became_shorter(**shorter).value();
}

void RecordedTrace::note_damage(Error error) {
    if (!damage_) damage_ = std::move(error);
}

void RecordedTrace::put_in_order() {
    std::error_code ignored;  // without a current directory, paths are used as given
    const fs::path current = fs::current_path(ignored);
    for (RecordedStream& stream : streams_) {
        sort_packets(stream.packets);
        const auto repeated = std::ranges::unique(stream.packets, are_twins);
        stream.packets.erase(repeated.begin(), repeated.end());
        // A file that is in two snapshots has its index in both.
        std::ranges::sort(stream.lost_packets);
        const auto again = std::ranges::unique(stream.lost_packets, [](std::uint64_t left, std::uint64_t right) {
            return left == right && left != ctf::IndexEntry::kUnknown;
        });
        stream.lost_packets.erase(again.begin(), again.end());
        forget_found_again(stream);
        stream.name = (current / stream.packets.front().file->path).lexically_normal().string();
    }
    number_streams();
    std::ranges::stable_sort(
        streams_, {}, [](const RecordedStream& stream) { return std::tuple(stream.class_id, stream.instance_id); });
}

// Streams whose packets do not say which ring they are of get numbers in the order of their files, as in babeltrace2.
void RecordedTrace::number_streams() {
    std::ranges::stable_sort(streams_, {}, &RecordedStream::name);
    std::uint64_t number = 0;
    for (RecordedStream& stream : streams_)
        if (!stream.instance_id) stream.instance_id = number++;
}

Result<RecordedTraces> open_traces(const std::vector<fs::path>& paths, std::vector<fs::path>* denied,
                                   const ctf::ClockShift& shift) {
    std::list<RecordedDirectory> directories;
    std::set<fs::path> known;
    for (const fs::path& path : paths) {
        const trace::TraceDirectories below = LEAT_TRY(trace::find_trace_directories(path));
        if (below.paths.empty()) return tl::unexpected(trace::denied_error(below.denied.front()));
        if (denied != nullptr) std::ranges::copy(below.denied, std::back_inserter(*denied));
        for (const fs::path& found : below.paths) {
            if (!known.insert(trace::real_path(found)).second) continue;
            RecordedDirectory& directory = directories.emplace_back(LEAT_TRY(read_trace_directory(found, shift)));
            if (found != path) directory.path_below = found.lexically_relative(path).string();
        }
    }
    std::vector<std::list<RecordedDirectory>> groups = group_by_metadata(std::move(directories));
    std::ranges::stable_sort(groups, comes_before);
    RecordedTraces traces;
    traces.reserve(groups.size());
    for (std::list<RecordedDirectory>& group : groups)
        traces.push_back(LEAT_TRY(RecordedTrace::open(std::move(group), traces.size())));
    if (std::ranges::any_of(traces, &RecordedTrace::has_suspects)) std::this_thread::sleep_for(kReplacing);
    for (const auto& trace : traces) trace->look_again();
    return traces;
}

std::vector<const ctf::TraceClass*> classes_of(const RecordedTraces& traces) {
    std::vector<const ctf::TraceClass*> classes(traces.size());
    std::ranges::transform(traces, classes.begin(), [](const auto& trace) { return &trace->trace_class(); });
    return classes;
}

Result<void> first_denied(std::span<const fs::path> denied) {
    return denied.empty() ? Result<void>() : tl::unexpected(trace::denied_error(denied.front()));
}

Result<void> first_damage(const RecordedTraces& traces) {
    for (const auto& trace : traces)
        if (auto damage = trace->damage()) return tl::unexpected(*std::move(damage));
    return {};
}

}  // namespace leat::viewer
