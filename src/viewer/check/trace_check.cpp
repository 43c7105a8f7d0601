#include "viewer/check/trace_check.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "base/file.hpp"
#include "ctf/decode/packet_decoder.hpp"
#include "ctf/tsdl/growing_metadata.hpp"
#include "ctf/tsdl/metadata.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"
#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"
#include "trace/trace_directories.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kMagic = 0xC1FC1FC1;
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
        begin.push_back(static_cast<std::byte>(kMagic >> shift));
    }
    std::ranges::transform(*trace_class.uuid, std::back_inserter(begin),
                           [](auto b) { return static_cast<std::byte>(b); });
    return begin;
}

}  // namespace

Result<std::unique_ptr<TraceCheck>> TraceCheck::run(const fs::path& directory) {
    std::unique_ptr<TraceCheck> check(new TraceCheck(directory));
    LEAT_TRY(check->read_metadata());
    for (const fs::path& path : LEAT_TRY(trace::find_stream_files(directory))) check->check_file(path);
    return check;
}

// If it is cut short, its whole part is used.
Result<void> TraceCheck::read_metadata() {
    const fs::path path = directory_ / trace::kMetadataFile;
    const std::string bytes = LEAT_TRY(read_file(path, ctf::kMaxMetadataSize));
    const auto read_bytes = std::as_bytes(std::span(bytes));
    auto text = ctf::parse_metadata_stream(read_bytes);
    auto parsed = text ? ctf::parse_tsdl(*text) : tl::unexpected(text.error());
    if (!parsed) {
        find(path, {}, parsed.error().message);
        ctf::GrowingMetadata whole;
        if (!whole.append(read_bytes) || whole.text().empty()) return wrap(path.string(), std::move(parsed).error());
        text = std::string(whole.text());
        auto parsed_whole = ctf::parse_tsdl(*text);
        if (!parsed_whole) return wrap(path.string(), std::move(parsed).error());
        parsed = std::move(parsed_whole);
    }
    metadata_text_ = *std::move(text);
    trace_class_ = *std::move(parsed);
    auto plans = ctf::TracePlans::make(trace_class_);
    if (!plans) return wrap(path.string(), std::move(plans).error());
    plans_ = *std::move(plans);
    packet_begin_ = packet_begin_of(trace_class_);
    return {};
}

void TraceCheck::find(const fs::path& file, std::optional<std::uint64_t> offset, std::string what) {
    ++finding_count_;
    if (findings_.size() < kMaxFindings) findings_.push_back({file, offset, std::move(what)});
}

void TraceCheck::check_file(const fs::path& path) {
    auto mapping = MappedFile::open(path);
    if (!mapping) return find(path, {}, mapping.error().message);
    CheckedFile& file = files_.emplace_back(CheckedFile{.path = path, .mapping = *std::move(mapping)});
    const std::uint64_t size = file.mapping.bytes().size();
    std::uint64_t offset = 0;
    while (offset < size) {
        const std::uint64_t next = check_packet(file, offset);
        const bool is_whole = !file.packets.empty() && file.packets.back().offset == offset;
        if (!is_whole) file.lost_bytes += next - offset;
        offset = next;
    }
    if (file.mapping.was_shortened()) find(path, {}, "it has become shorter while it was read");
    check_index(file);
    put_in_order(file);
}

std::uint64_t TraceCheck::check_packet(CheckedFile& file, std::uint64_t offset) {
    const UntrustedBytes rest = file.mapping.bytes().subspan(offset);
    const auto is_damaged = [&](const std::string& what) {
        find(file.path, offset, what);
        return next_packet(file.mapping.bytes(), offset + 1);
    };
    const auto plan = plans_->plan_for(rest);
    if (!plan) return is_damaged(plan.error().message);
    ctf::PacketDecoder decoder(**plan);
    const auto properties = decoder.start(rest, offset);
    if (!properties) return is_damaged(properties.error().message);
    if (properties->packet_size > rest.size())
        return is_damaged(fmt::format("the packet is cut short: {} bytes of {}", rest.size(), properties->packet_size));
    if (properties->begin_ns && properties->end_ns && *properties->end_ns < *properties->begin_ns &&
        properties->end_cycles != std::uint64_t{0})
        return is_damaged("the packet ends before it begins");
    std::array<ctf::EventPlace, kPlaces> places;
    std::uint64_t events = 0;
    std::optional<std::int64_t> last_ns = properties->begin_ns;
    while (true) {
        const auto found = decoder.locate(places);
        if (!found) {
            // Where it ends is known, if the next one begins there.
            find(file.path, offset, fmt::format("event {} of the packet: {}", events, found.error().message));
            return next_packet(file.mapping.bytes(), offset + 1);
        }
        if (*found == 0) break;
        events += *found;
        if ((*plan)->clock == nullptr) continue;
        for (const ctf::EventPlace& place : std::span(places).first(*found)) {
            if (last_ns && place.time_ns < *last_ns)
                return is_damaged("time goes back from one event of the packet to the next");
            last_ns = place.time_ns;
        }
    }
    file.events += events;
    // Tracers before LTTng 2.11 have events behind the end of their packet: then the packet ends with them.
    const auto end_ns = properties->end_ns && last_ns ? std::max(properties->end_ns, last_ns) : properties->end_ns;
    file.packets.push_back({offset, properties->packet_size, properties->begin_ns, end_ns});
    return offset + properties->packet_size;
}

// The end of the file: there is none, or it is not known what packets begin with.
std::uint64_t TraceCheck::next_packet(UntrustedBytes bytes, std::uint64_t offset) const {
    if (packet_begin_.empty() || offset >= bytes.size()) return bytes.size();
    const auto rest = bytes.subspan(offset);
    const auto found = std::ranges::search(rest, packet_begin_);
    return found.empty() ? bytes.size() : offset + static_cast<std::uint64_t>(found.begin() - rest.begin());
}

void TraceCheck::put_in_order(CheckedFile& file) {
    if (!std::ranges::is_sorted(file.packets, {}, &WholePacket::begin_ns)) {
        const auto at = std::ranges::is_sorted_until(file.packets, {}, &WholePacket::begin_ns);
        find(file.path, at->offset, "the packet begins before the one in front of it");
        std::ranges::stable_sort(file.packets, {}, &WholePacket::begin_ns);
    }
    std::optional<std::int64_t> end_ns;
    const auto overlaps = [&](const WholePacket& packet) {
        if (end_ns && packet.begin_ns && *packet.begin_ns < *end_ns) {
            find(file.path, packet.offset, "the packet begins before the end of the one in front of it");
            file.lost_bytes += packet.size;
            return true;
        }
        end_ns = packet.end_ns;
        return false;
    };
    std::erase_if(file.packets, overlaps);
}

// Readers go without an index, or make their own: so what is wrong there loses nothing.
void TraceCheck::check_index(const CheckedFile& file) {
    const fs::path path = trace::index_path(file.path);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return;
    const auto mapping = MappedFile::open(path);
    if (!mapping) return find(path, {}, mapping.error().message);
    UntrustedBytes rest = mapping->bytes();
    if (rest.size() < trace::kIndexHeaderSize) return find(path, {}, "it has no header");
    const auto entry_size = trace::parse_index_header(rest.first(trace::kIndexHeaderSize));
    if (!entry_size) return find(path, 0, entry_size.error().message);
    std::map<std::uint64_t, std::uint64_t> sizes;
    for (const WholePacket& packet : file.packets) sizes.emplace(packet.offset, packet.size);
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
