#include "viewer/check/trace_check.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file.hpp"
#include "ctf/metadata/growing_metadata.hpp"
#include "ctf/metadata/metadata_reader.hpp"
#include "ctf/metadata/metadata_stream.hpp"
#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"
#include "trace/sync_file.hpp"
#include "trace/trace_directories.hpp"
#include "viewer/check/packet_order.hpp"
#include "viewer/check/packet_search.hpp"
#include "viewer/read/clock_agreement.hpp"
#include "viewer/read/metadata_choice.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;

bool begins_with(const CheckedFile& checked, std::span<const std::byte> begin) {
    const UntrustedBytes bytes = checked.file->mapping.bytes();
    return !begin.empty() && bytes.size() >= begin.size() && std::ranges::equal(bytes.first(begin.size()), begin);
}

}  // namespace

Result<TraceCheck> TraceCheck::run(const trace::TraceDirectories& directories, CheckProgress& progress) {
    TraceCheck check;
    for (const fs::path& path : directories.denied)
        check.findings_.add(path, std::nullopt, "this directory may not be read");
    std::set<fs::path> known;
    for (const fs::path& path : directories.paths)
        if (known.insert(trace::real_path(path)).second)
            check.directories_.emplace_back(CheckedDirectory{.path = path});
    for (CheckedDirectory& directory : check.directories_) {
        // Open the files before the metadata is read: a writer writes metadata before the packets that need it.
        check.open_files(directory);
        if (check.failure_) return tl::unexpected(*check.failure_);
        check.read_metadata(directory);
    }
    check.choose_metadata();
    progress.begin(check.opened_bytes());
    for (CheckedDirectory& directory : check.directories_) check.find_packets(directory, progress);
    progress.end_pass();
    check.check_streams(progress);
    progress.end_pass();
    check.check_indexes();
    return check;
}

std::uint64_t TraceCheck::opened_bytes() const {
    std::uint64_t bytes = 0;
    for (const CheckedDirectory& directory : directories_)
        for (const CheckedFile& checked : directory.files) bytes += checked.file->mapping.bytes().size();
    return bytes;
}

std::uint64_t TraceCheck::lost_bytes() const {
    std::uint64_t bytes = unopened_bytes_;
    for (const CheckedDirectory& directory : directories_)
        for (const CheckedFile& checked : directory.files) bytes += checked.lost_bytes();
    return bytes;
}

void TraceCheck::read_metadata(CheckedDirectory& directory) {
    const fs::path path = directory.path / trace::kMetadataFile;
    auto metadata = parse_metadata(path);
    if (!metadata) return findings_.add(path, {}, metadata.error().message);
    directory.own_metadata = *std::move(metadata);
    directory.metadata = directory.own_metadata.get();
}

// If it is cut short, its whole part is used.
Result<std::unique_ptr<CheckedMetadata>> TraceCheck::parse_metadata(const fs::path& path) {
    const std::string bytes = LEAT_TRY(read_file(path, ctf::kMaxMetadataSize));
    const auto read_bytes = std::as_bytes(std::span(bytes));
    auto text = ctf::parse_metadata_stream(read_bytes);
    auto parsed = text ? ctf::parse_metadata(*text) : tl::unexpected(text.error());
    if (!parsed) {
        ctf::GrowingMetadata whole;
        if (!whole.append(read_bytes) || whole.text().empty()) return tl::unexpected(std::move(parsed).error());
        text = std::string(whole.text());
        auto parsed_whole = ctf::parse_metadata(*text);
        if (!parsed_whole) return tl::unexpected(std::move(parsed).error());
        if (!trace::is_being_written(path.parent_path())) findings_.add(path, {}, parsed.error().message);
        parsed = std::move(parsed_whole);
    }
    auto metadata = std::make_unique<CheckedMetadata>(CheckedMetadata{path, *std::move(text), *std::move(parsed)});
    metadata->plans = LEAT_TRY(ctf::TracePlans::make(metadata->trace_class));
    metadata->packet_begin = packet_begin_of(metadata->trace_class);
    return metadata;
}

void TraceCheck::choose_metadata() {
    std::vector<CheckedDirectory*> readable;
    std::vector<const ctf::TraceClass*> declared;
    for (CheckedDirectory& directory : directories_) {
        if (directory.metadata == nullptr) continue;
        readable.push_back(&directory);
        declared.push_back(&directory.metadata->trace_class);
    }
    const std::vector<std::size_t> chosen = viewer::choose_metadata(declared);
    for (std::size_t i = 0; i < readable.size(); ++i) readable[i]->metadata = readable[chosen[i]]->own_metadata.get();
}

void TraceCheck::open_files(CheckedDirectory& directory) {
    const auto paths = trace::find_stream_files(directory.path);
    if (!paths) return findings_.add(directory.path, {}, paths.error().message);
    for (const fs::path& path : *paths) {
        IndexCheck index(path);
        errno = 0;
        auto opened = open_stream_file(path);
        if (opened) {
            directory.files.push_back({*std::move(opened), std::move(index)});
            continue;
        }
        // That is no fault of the trace.
        if (errno == ENOMEM || errno == EMFILE || errno == ENFILE) failure_ = opened.error();
        const std::string& what = opened.error().message;
        const std::string name = path.string() + ": ";
        findings_.add(path, {}, what.starts_with(name) ? what.substr(name.size()) : what);
        std::error_code error;
        const std::uintmax_t size = fs::file_size(path, error);
        if (!error) unopened_bytes_ += size;
    }
}

// If its own metadata do not serve, perhaps those of another directory do: its own may be damaged. They serve if they
// read something of each file, as they do where packets are damaged.
void TraceCheck::find_packets(CheckedDirectory& directory, CheckProgress& progress) {
    FoundPackets best;
    if (directory.metadata != nullptr) best = find_packets(directory, *directory.metadata, progress);
    const bool is_served = std::ranges::none_of(best.files, [](const auto& file) { return file.packets.empty(); });
    if (directory.metadata == nullptr || !is_served) {
        for (CheckedMetadata* const other : other_metadata(directory)) {
            FoundPackets found = find_packets(directory, *other, progress);
            if (found.bytes <= best.bytes) continue;
            best = std::move(found);
            directory.metadata = other;
        }
        if (directory.metadata == nullptr) return;
    }
    findings_.add(best.findings);
    for (std::size_t i = 0; i < best.files.size(); ++i) {
        directory.files[i].plan = best.files[i].plan;
        directory.files[i].packets = std::move(best.files[i].packets);
    }
}

TraceCheck::FoundPackets TraceCheck::find_packets(const CheckedDirectory& directory, CheckedMetadata& metadata,
                                                  CheckProgress& progress) {
    FoundPackets found;
    for (const CheckedFile& checked : directory.files) {
        PacketSearch search(*metadata.plans, metadata.packet_begin, *checked.file, found.findings, progress);
        std::vector<RecordedPacket> packets = search.run();
        put_in_order(packets, found.findings);
        for (const RecordedPacket& packet : packets) found.bytes += packet.properties.packet_size;
        found.files.push_back({search.plan(), std::move(packets)});
    }
    return found;
}

// What the packets of its files can be of, besides what its own metadata declare.
std::vector<CheckedMetadata*> TraceCheck::other_metadata(const CheckedDirectory& directory) const {
    constexpr std::size_t kMostOthers = 4;  // each means to read the whole directory again
    std::vector<CheckedMetadata*> others;
    for (const CheckedDirectory& other : directories_) {
        if (others.size() == kMostOthers) break;
        CheckedMetadata* const metadata = other.own_metadata == nullptr ? nullptr : other.metadata;
        if (metadata == nullptr || metadata == directory.metadata || std::ranges::count(others, metadata) != 0)
            continue;
        if (std::ranges::any_of(directory.files,
                                [&](const CheckedFile& file) { return begins_with(file, metadata->packet_begin); }))
            others.push_back(metadata);
    }
    return others;
}

// An index that names packets, where there is no file that has them.
void TraceCheck::check_for_lost_files(const CheckedDirectory& directory) {
    constexpr std::string_view kSuffix = ".idx";
    std::error_code error;
    std::vector<fs::path> lost;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory.path / trace::kIndexDirectory, error)) {
        std::string name = entry.path().filename().string();
        if (!name.ends_with(kSuffix) || name.starts_with('.')) continue;
        name.resize(name.size() - kSuffix.size());
        std::error_code of_entry;
        const bool has_packets = fs::file_size(entry.path(), of_entry) > trace::kIndexHeaderSize && !of_entry;
        if (has_packets && fs::status(directory.path / name, of_entry).type() == fs::file_type::not_found)
            lost.push_back(entry.path());
    }
    std::ranges::sort(lost);
    for (const fs::path& index : lost) findings_.add(index, {}, "the file whose packets it names is not there");
}

// Of files that somebody writes, or replaces, the indexes may lack something, for a moment.
void TraceCheck::check_indexes() {
    struct Unfinished {
        const IndexCheck* index;
        Findings findings;
    };
    std::vector<Unfinished> all;
    for (const CheckedDirectory& directory : directories_) {
        const bool is_being_written = trace::is_being_written(directory.path);
        if (!is_being_written) check_for_lost_files(directory);
        if (directory.metadata == nullptr) continue;
        for (const CheckedFile& checked : directory.files) {
            if (is_replaced(*checked.file) || checked.index.is_replaced()) continue;
            Findings unfinished;
            checked.index.run(checked.packets, checked.plan, checked.file->mapping.bytes().size(), findings_,
                              unfinished);
            if (unfinished.count() != 0 && !is_being_written) all.push_back({&checked.index, std::move(unfinished)});
        }
    }
    if (!all.empty()) std::this_thread::sleep_for(kReplacing);
    for (const Unfinished& unfinished : all)
        if (!unfinished.index->has_changed()) findings_.add(unfinished.findings);
}

// A stream's packets may be in several files, and in several directories that are read by the same metadata.
std::vector<TraceCheck::Stream> TraceCheck::streams() const {
    std::vector<Stream> streams;
    std::map<StreamKey, std::size_t> stream_by_key;
    for (const CheckedDirectory& directory : directories_) {
        for (const CheckedFile& checked : directory.files) {
            if (checked.packets.empty()) continue;
            // As those who read it take a file: for one stream.
            const RecordedPacket& first = checked.packets.front();
            const StreamKey key = stream_key(*checked.plan, first.properties, *first.file);
            const auto [entry, is_new] = stream_by_key.try_emplace(key, streams.size());
            if (is_new) streams.push_back({&directory.metadata->trace_class, checked.plan});
            std::ranges::copy(checked.packets, std::back_inserter(streams[entry->second].packets));
        }
    }
    return streams;
}

void TraceCheck::check_streams(CheckProgress& progress) {
    BadPackets bad;
    std::vector<Stream> all = streams();
    for (Stream& stream : all) {
        sort_packets(stream.packets);
        StreamCheck check(*stream.trace_class, *stream.plan, bad, findings_, progress);
        check.run(stream.packets);
        packets_ += check.packets();
        events_ += check.events();
    }
    for (CheckedDirectory& directory : directories_)
        for (CheckedFile& checked : directory.files)
            std::erase_if(checked.packets, [&](const RecordedPacket& packet) {
                return bad.contains({packet.file, packet.offset});
            });
    check_clocks(all);
}

void TraceCheck::check_clocks(const std::vector<Stream>& streams) {
    ClockAgreement clocks;
    for (const Stream& stream : streams) {
        if (stream.plan->clock == nullptr) continue;
        const auto agree = clocks.add(*stream.trace_class, *stream.plan->clock);
        if (!agree) return findings_.add(stream.packets.front().file->path, {}, agree.error().message);
    }
}

}  // namespace leat::viewer
