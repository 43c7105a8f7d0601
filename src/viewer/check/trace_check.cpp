#include "viewer/check/trace_check.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/file.hpp"
#include "ctf/decode/packet_decoder.hpp"
#include "ctf/record/packet_header.hpp"
#include "ctf/tsdl/growing_metadata.hpp"
#include "ctf/tsdl/metadata.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"
#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"
#include "trace/trace_directories.hpp"
#include "viewer/read/packet_reader.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPlaces = 256;

// What packets begin with if their header is {magic, uuid} ([CTF-1.8], section 5.1), as that of all tracers is.
std::vector<std::byte> packet_begin_of(const ctf::TraceClass& trace_class) {
    const auto& header = trace_class.packet_header;
    if (!header || header->members.size() < 2 || !trace_class.uuid) return {};
    const auto* const magic = header->members[0].field_class.as<ctf::IntegerClass>();
    const auto* const uuid = header->members[1].field_class.as<ctf::ArrayClass>();
    if (header->members[0].name != "magic" || magic == nullptr || magic->size != 32) return {};
    if (header->members[1].name != "uuid" || uuid == nullptr || uuid->length != trace_class.uuid->size()) return {};
    std::vector<std::byte> begin;
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned shift = magic->byte_order == ctf::ByteOrder::kLittleEndian ? 8 * i : 8 * (3 - i);
        begin.push_back(static_cast<std::byte>(ctf::kPacketMagic >> shift));
    }
    std::ranges::transform(*trace_class.uuid, std::back_inserter(begin),
                           [](auto b) { return static_cast<std::byte>(b); });
    return begin;
}

// The end of the file: there is none, or it is not known what packets begin with.
std::uint64_t next_packet(const CheckedDirectory& directory, UntrustedBytes bytes, std::uint64_t offset) {
    if (directory.packet_begin.empty() || offset >= bytes.size()) return bytes.size();
    const auto rest = bytes.subspan(offset);
    const auto found = std::ranges::search(rest, directory.packet_begin);
    return found.empty() ? bytes.size() : offset + static_cast<std::uint64_t>(found.begin() - rest.begin());
}

// A stream up to some packet.
struct ReadSoFar {
    explicit ReadSoFar(const StreamIdentity& stream) : reader(stream) {}

    Result<void> read(const ctf::TraceClass& trace_class, const ctf::DecodePlan& plan, const RecordedPacket& packet) {
        const UntrustedBytes rest = packet.file->mapping.bytes().subspan(packet.offset);
        LEAT_TRY(reader.start(trace_class, plan, rest, packet.offset));
        while (LEAT_TRY(reader.next())) {
            const std::int64_t time_ns = reader.message().time_ns.value_or(last_ns);
            if (time_ns < last_ns)
                return corrupt("time goes back by {} ns in the packet, or from the one before it",
                               static_cast<std::uint64_t>(last_ns) - static_cast<std::uint64_t>(time_ns));
            last_ns = time_ns;
            if (reader.message().kind == Message::Kind::kEvent) ++events;
        }
        if (packet.file->mapping.was_shortened()) return became_shorter(*packet.file);
        return {};
    }

    PacketReader reader;
    std::int64_t last_ns = INT64_MIN;
    std::uint64_t events = 0;
};

}  // namespace

Result<TraceCheck> TraceCheck::run(const std::vector<fs::path>& directories) {
    TraceCheck check;
    std::optional<Error> error;
    for (const fs::path& path : directories) {
        CheckedDirectory& directory = check.directories_.emplace_back(CheckedDirectory{.path = path});
        auto read = check.read_metadata(directory);
        if (read) continue;
        check.find(path / trace::kMetadataFile, {}, read.error().message);
        if (!error) error = wrap((path / trace::kMetadataFile).string(), std::move(read).error()).value();
        check.directories_.pop_back();
    }
    if (check.directories_.empty() && error) return tl::unexpected(*std::move(error));
    check.find_longest_metadata();
    for (CheckedDirectory& directory : check.directories_)
        for (const fs::path& path : LEAT_TRY(trace::find_stream_files(directory.path)))
            check.check_file(directory, path);
    check.check_streams();
    return check;
}

// If it is cut short, its whole part is used.
Result<void> TraceCheck::read_metadata(CheckedDirectory& directory) {
    const fs::path path = directory.path / trace::kMetadataFile;
    const std::string bytes = LEAT_TRY(read_file(path, ctf::kMaxMetadataSize));
    const auto read_bytes = std::as_bytes(std::span(bytes));
    auto text = ctf::parse_metadata_stream(read_bytes);
    auto parsed = text ? ctf::parse_tsdl(*text) : tl::unexpected(text.error());
    if (!parsed) {
        ctf::GrowingMetadata whole;
        if (!whole.append(read_bytes) || whole.text().empty()) return tl::unexpected(std::move(parsed).error());
        text = std::string(whole.text());
        auto parsed_whole = ctf::parse_tsdl(*text);
        if (!parsed_whole) return tl::unexpected(std::move(parsed).error());
        find(path, {}, parsed.error().message);
        parsed = std::move(parsed_whole);
    }
    directory.metadata_text = *std::move(text);
    directory.trace_class = *std::move(parsed);
    directory.plans = LEAT_TRY(ctf::TracePlans::make(directory.trace_class));
    directory.packet_begin = packet_begin_of(directory.trace_class);
    return {};
}

// That of a chunk goes up to the chunk's end, so all are beginnings of the longest.
void TraceCheck::find_longest_metadata() {
    std::map<ctf::Uuid, CheckedDirectory*> longest;
    for (CheckedDirectory& directory : directories_) {
        directory.longest = &directory;
        if (!directory.trace_class.uuid) continue;
        auto& known = longest.emplace(*directory.trace_class.uuid, &directory).first->second;
        if (directory.metadata_text.size() > known->metadata_text.size()) known = &directory;
    }
    for (CheckedDirectory& directory : directories_) {
        if (!directory.trace_class.uuid) continue;
        directory.longest = longest.at(*directory.trace_class.uuid);
        if (!directory.longest->metadata_text.starts_with(directory.metadata_text))
            find(directory.path / trace::kMetadataFile, {},
                 fmt::format("it is no beginning of that of {}, which has the same UUID",
                             directory.longest->path.string()));
    }
}

void TraceCheck::find(const fs::path& file, std::optional<std::uint64_t> offset, std::string what) {
    ++finding_count_;
    if (findings_.size() < kMaxFindings) findings_.push_back({file, offset, std::move(what)});
}

void TraceCheck::check_file(CheckedDirectory& directory, const fs::path& path) {
    auto opened = open_stream_file(path);
    if (!opened) return find(path, {}, opened.error().message);
    CheckedFile& checked = directory.files.emplace_back(CheckedFile{.file = *std::move(opened)});
    const std::uint64_t size = checked.file->mapping.bytes().size();
    std::uint64_t offset = 0;
    while (offset < size) {
        const std::size_t packets = checked.packets.size();
        const std::uint64_t next = check_packet(directory, checked, offset);
        if (checked.packets.size() == packets) checked.lost_bytes += next - offset;
        offset = next;
    }
    check_index(checked);
    put_in_order(checked);
}

std::uint64_t TraceCheck::check_packet(CheckedDirectory& directory, CheckedFile& checked, std::uint64_t offset) {
    const RecordedFile& file = *checked.file;
    const UntrustedBytes rest = file.mapping.bytes().subspan(offset);
    const auto is_damaged = [&](std::string what) {
        if (file.mapping.was_shortened()) what = became_shorter(file).value().message;
        find(file.path, offset, std::move(what));
        return next_packet(directory, file.mapping.bytes(), offset + 1);
    };
    const auto plan = directory.longest->plans->plan_for(rest);
    if (!plan) return is_damaged(plan.error().message);
    if (checked.plan != nullptr && checked.plan != *plan)
        return is_damaged(
            fmt::format("the packet is of stream class {}, unlike those in front of it", (*plan)->stream_class->id));
    ctf::PacketDecoder decoder(**plan);
    const auto properties = decoder.start(rest, offset);
    if (!properties) return is_damaged(properties.error().message);
    if (properties->packet_size > rest.size())
        return is_damaged(fmt::format("the packet is cut short: {} bytes of {}", rest.size(), properties->packet_size));
    std::array<ctf::EventPlace, kPlaces> places;
    std::size_t found = 0;
    do {
        const auto located = decoder.locate(places);
        if (!located) return is_damaged(located.error().message);
        found = *located;
    } while (found != 0);
    if (file.mapping.was_shortened()) return is_damaged("");
    checked.plan = *plan;
    checked.packets.push_back({&file, offset, *properties});
    return offset + properties->packet_size;
}

void TraceCheck::put_in_order(CheckedFile& checked) {
    const auto begin_of = [](const RecordedPacket& packet) { return packet.properties.begin_ns; };
    const auto at = std::ranges::is_sorted_until(checked.packets, {}, begin_of);
    if (at == checked.packets.end()) return;
    find(checked.file->path, at->offset, "the packet begins before the one in front of it");
    std::ranges::stable_sort(checked.packets, {}, begin_of);
}

// A stream's packets may be in several files, and in several directories of one UUID, which share their plans.
std::vector<TraceCheck::Stream> TraceCheck::streams() const {
    std::vector<Stream> streams;
    std::map<StreamKey, std::size_t> stream_by_key;
    for (const CheckedDirectory& directory : directories_) {
        for (const CheckedFile& checked : directory.files) {
            for (const RecordedPacket& packet : checked.packets) {
                const StreamKey key = stream_key(*checked.plan, packet.properties, *packet.file);
                const auto [entry, is_new] = stream_by_key.try_emplace(key, streams.size());
                if (is_new) streams.push_back({&directory.longest->trace_class, checked.plan});
                streams[entry->second].packets.push_back(packet);
            }
        }
    }
    return streams;
}

void TraceCheck::check_streams() {
    BadPackets bad;
    for (Stream& stream : streams()) {
        sort_packets(stream.packets);
        check_stream(stream, bad);
    }
    const auto drop_bad = [&](CheckedFile& checked) {
        std::erase_if(checked.packets, [&](const RecordedPacket& packet) {
            if (!bad.contains({packet.file, packet.offset})) return false;
            checked.lost_bytes += packet.properties.packet_size;
            return true;
        });
    };
    for (CheckedDirectory& directory : directories_) std::ranges::for_each(directory.files, drop_bad);
}

// Reads the stream as viewers do, without the packets that would stop them. Of two that overlap, the one that ends
// first stays: so most of all packets do.
//
//     A |----------------------|  its end is damaged: B and C stay
//     B    |----|
//     C              |-----|
void TraceCheck::check_stream(const Stream& stream, BadPackets& bad) {
    const StreamIdentity identity;
    ReadSoFar before(identity);
    ReadSoFar now(identity);  // `before`, and one packet more
    const RecordedPacket* latest = nullptr;
    const auto drop = [&](const RecordedPacket& packet, std::string why) {
        find(packet.file->path, packet.offset, std::move(why));
        bad.emplace(packet.file, packet.offset);
    };
    for (const RecordedPacket& packet : stream.packets) {
        ReadSoFar next = now;
        auto read = next.read(*stream.trace_class, *stream.plan, packet);
        if (read) {
            before = std::exchange(now, std::move(next));
            latest = &packet;
            continue;
        }
        ReadSoFar without_latest = before;
        if (latest != nullptr && without_latest.read(*stream.trace_class, *stream.plan, packet) &&
            without_latest.last_ns < now.last_ns) {
            drop(*latest, "the packet ends after the begin of the next, which ends before it");
            now = std::move(without_latest);
            latest = &packet;
        } else {
            drop(packet, read.error().message);
        }
    }
    events_ += now.events;
}

// Readers go without an index, or make their own: so what is wrong there loses nothing.
void TraceCheck::check_index(const CheckedFile& checked) {
    const fs::path path = trace::index_path(checked.file->path);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return;
    const auto mapping = MappedFile::open(path);
    if (!mapping) return find(path, {}, mapping.error().message);
    UntrustedBytes rest = mapping->bytes();
    if (rest.size() < trace::kIndexHeaderSize) return find(path, {}, "it has no header");
    const auto entry_size = trace::parse_index_header(rest.first(trace::kIndexHeaderSize));
    if (!entry_size) return find(path, 0, entry_size.error().message);
    std::map<std::uint64_t, std::uint64_t> sizes;
    for (const RecordedPacket& packet : checked.packets) sizes.emplace(packet.offset, packet.properties.packet_size);
    std::uint64_t offset = trace::kIndexHeaderSize;
    for (rest = rest.subspan(offset); rest.size() >= *entry_size; rest = rest.subspan(*entry_size)) {
        const auto entry = trace::parse_index_entry(rest.first(*entry_size));
        if (!entry) {
            find(path, offset, entry.error().message);
        } else if (!entry->is_lost()) {
            const auto known = sizes.find(entry->offset);
            if (known == sizes.end())
                find(path, offset, fmt::format("no whole packet begins at offset {} of the stream", entry->offset));
            else if (8 * known->second != entry->packet_size)
                find(path, offset,
                     fmt::format("the packet at offset {} has {} bytes, not {}", entry->offset, known->second,
                                 entry->packet_size / 8));
            if (known != sizes.end()) sizes.erase(known);
        }
        offset += *entry_size;
    }
    if (!rest.empty()) find(path, offset, "an entry is cut short");
    for (const auto& [packet, size] : sizes) find(path, {}, fmt::format("it lacks the packet at offset {}", packet));
}

}  // namespace leat::viewer
