#include "viewer/check/packet_search.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "ctf/decode/packet_decoder.hpp"
#include "ctf/record/packet_header.hpp"

namespace leat::viewer {
namespace {

constexpr std::size_t kPlaces = 256;
// How often the search may read, on average, each byte of what is damaged. Packets of honest traces lie one behind the
// other, so it is once; but bytes can be made such that a packet, which goes to the end of the file, seems to begin at
// each of them.
constexpr std::uint64_t kMaxReads = 8;
constexpr std::uint64_t kWorkOfHeader = 64;  // bytes: what it costs, at least, to try a packet

}  // namespace

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

std::vector<RecordedPacket> PacketSearch::run() {
    find_all();
    return of_one_class();
}

void PacketSearch::find_all() {
    const std::uint64_t size = bytes().size();
    std::uint64_t offset = 0;
    std::uint64_t counted = 0;
    while (offset < size) {
        progress_->add(offset - std::exchange(counted, offset));
        if (work_ > kMaxReads * size) return note_damage(offset, "too much is damaged to search what follows");
        auto candidate = whole_packet(offset, found_.empty() ? 0 : found_.back().begin);
        // Then what was read may be zeros, and all that follows is.
        if (file_->mapping.was_shortened()) return note_damage(offset, "it has become shorter while it was read");
        if (!candidate) {
            if (offset >= told_until_) note_damage(offset, candidate.error().message);
            told_until_ = std::max(told_until_, claimed_until_);
            offset = next_begin(offset + 1, size);
            continue;
        }
        const std::uint64_t packet_size = candidate->packet.properties.packet_size;
        if (const auto inside = packet_inside(*candidate)) {
            note_damage(offset, fmt::format("the packet says that it has {} bytes, but another one begins at offset {}",
                                            packet_size, *inside));
            offset = *inside;
            continue;
        }
        found_.push_back(*std::move(candidate));
        work_ -= kWorkOfHeader;  // what is there is no damage, however small it is
        offset += packet_size;
    }
}

Result<PacketSearch::Candidate> PacketSearch::whole_packet(std::uint64_t offset, std::uint64_t clock,
                                                           std::optional<std::int64_t> not_before) {
    const UntrustedBytes rest = bytes().subspan(offset);
    work_ += kWorkOfHeader;
    claimed_until_ = 0;
    const ctf::DecodePlan* const plan = LEAT_TRY(plans_->plan_for(rest));
    ctf::PacketDecoder decoder(*plan);
    decoder.set_clock(clock);
    const ctf::PacketProperties properties = LEAT_TRY(decoder.start(rest, offset));
    const std::uint64_t begin = decoder.clock();
    claimed_until_ = offset + std::min<std::uint64_t>(properties.packet_size, rest.size());
    if (properties.packet_size > rest.size())
        return corrupt("the packet is cut short: {} bytes of {}", rest.size(), properties.packet_size);
    if (not_before && properties.begin_ns && *properties.begin_ns < *not_before)
        return corrupt("the packet is too old");
    std::array<ctf::EventPlace, kPlaces> places;
    for (std::size_t found = 1; found != 0;) {
        auto located = decoder.locate(places);
        if (!located) {
            // All of it may have been looked at, for the end of a text.
            work_ += (properties.content_bits + 7) / 8;
            return tl::unexpected(std::move(located).error());
        }
        found = *located;
    }
    return Candidate{{file_, offset, properties}, plan, begin};
}

// A size that is damaged swallows the packets behind it. Nothing else is like a packet, and is later, in the padding:
//
//     | content | padding ...              |   what the size says
//     | content | pad | packet | packet |     what there is
std::optional<std::uint64_t> PacketSearch::packet_inside(const Candidate& outer) {
    const ctf::PacketProperties& properties = outer.packet.properties;
    const std::uint64_t end = outer.packet.offset + properties.packet_size;
    std::uint64_t at = outer.packet.offset + std::max<std::uint64_t>(1, (properties.content_bits + 7) / 8);
    for (at = next_begin(at, end); at < end; at = next_begin(at + 1, end)) {
        if (work_ > kMaxReads * bytes().size()) return std::nullopt;
        if (whole_packet(at, outer.begin, properties.end_ns)) return at;
    }
    return std::nullopt;
}

// `end`, if there is none in front of it.
std::uint64_t PacketSearch::next_begin(std::uint64_t from, std::uint64_t end) const {
    if (packet_begin_.empty() || from >= end) return end;
    const auto rest = bytes().subspan(from, end - from);
    const auto* const found =
        static_cast<const std::byte*>(::memmem(rest.data(), rest.size(), packet_begin_.data(), packet_begin_.size()));
    return found == nullptr ? end : from + static_cast<std::uint64_t>(found - rest.data());
}

// All packets of a file are of one stream. One stream id may be damaged, also the first.
std::vector<RecordedPacket> PacketSearch::of_one_class() {
    std::map<const ctf::DecodePlan*, std::size_t> count_by_plan;
    for (const Candidate& candidate : found_) {
        const std::size_t count = ++count_by_plan[candidate.plan];
        if (plan_ == nullptr || count > count_by_plan[plan_]) plan_ = candidate.plan;
    }
    std::vector<RecordedPacket> packets;
    packets.reserve(found_.size());
    for (const Candidate& candidate : found_) {
        if (candidate.plan == plan_)
            packets.push_back(candidate.packet);
        else
            note_damage(candidate.packet.offset,
                        fmt::format("the packet is of stream class {}, unlike most in the file",
                                    candidate.plan->stream_class->id));
    }
    return packets;
}

void PacketSearch::note_damage(std::uint64_t offset, std::string what) {
    findings_->add(file_->path, offset, std::move(what));
}

}  // namespace leat::viewer
