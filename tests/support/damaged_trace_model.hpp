// A model of traces to which bad things happen: chunks and overlapping snapshots of several streams, whose packets,
// files and metadata are damaged in random ways. What can be saved is judged by TraceCheck, written anew, and read as
// viewers read it. The model knows which packets nobody touched. Unit tests draw the steps from random numbers, a fuzz
// target from its input.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_cursor.hpp"
#include "support/model.hpp"
#include "support/scratch_directory.hpp"
#include "trace/trace_directories.hpp"
#include "viewer/check/check_progress.hpp"
#include "viewer/check/repaired_trace.hpp"
#include "viewer/check/trace_check.hpp"
#include "viewer/merge/merge.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::test {

class DamagedTraceModel {
  public:
    explicit DamagedTraceModel(Choose choose);

    // Damages something.
    void step();
    // Checks and repairs what has become of the traces. No step may follow.
    void finish();

    // The first violation, in words; empty if there was none.
    [[nodiscard]] const std::string& violation() const { return violation_; }
    // Counts, to check that the steps achieve something.
    [[nodiscard]] std::uint64_t saved() const { return saved_; }
    [[nodiscard]] std::uint64_t lost_bytes() const { return lost_bytes_; }

  private:
    // Offsets of a packet's fields.
    static constexpr std::uint64_t kUuid = 4;
    static constexpr std::uint64_t kStreamId = 20;
    static constexpr std::uint64_t kInstance = 24;
    static constexpr std::uint64_t kBegin = 32;
    static constexpr std::uint64_t kEnd = 40;
    static constexpr std::uint64_t kContentSize = 48;
    static constexpr std::uint64_t kPacketSize = 56;
    static constexpr std::uint64_t kSequence = 64;
    static constexpr std::uint64_t kHeaderSize = 72;
    static constexpr std::uint64_t kEventSize = 16;

    struct Packet {
        std::uint64_t offset;
        std::uint64_t size;
        bool is_intact = true;
    };
    struct File {
        std::string directory;
        std::string name;
        std::string bytes{};
        std::vector<Packet> packets{};  // in the order of their offsets
    };
    struct Directory {
        std::string name;
        unsigned trace;  // 0 or 1: which of two UUIDs
        std::string metadata;
    };
    struct Stream {
        std::uint64_t stream_id;
        std::uint64_t instance;
        std::uint64_t now = 1000;
        std::uint64_t number = 0;
    };

    std::uint64_t below(std::uint64_t bound) { return choose_(bound); }
    static std::string uuid_text(unsigned trace);
    static std::string uuid_bytes(unsigned trace);
    [[nodiscard]] std::string metadata(unsigned trace, std::uint64_t events, std::uint64_t salt) const;
    std::string packet_of(unsigned trace, Stream& stream);
    void make_trace(unsigned trace);
    void add(File& file, const std::string& packet) const;

    void damage_field(File& file);
    void damage_bytes(File& file);
    void cut(File& file);
    void insert(File& file);
    void swap_packets(File& file);
    void damage_metadata();
    void change(File& file, std::uint64_t offset, const std::string& bytes);

    void write() const;
    static std::string text_of(const viewer::Findings& findings);
    void check_saved(const viewer::TraceCheck& check);
    void check_repaired(const viewer::TraceCheck& check, viewer::CheckProgress& progress);
    void violate(std::string what) {
        if (violation_.empty()) violation_ = std::move(what);
    }

    Choose choose_;
    bool has_ends_;  // its packets say when they end
    ScratchDirectory scratch_{};
    std::vector<Directory> directories_{};
    std::vector<File> files_{};
    std::uint64_t steps_ = 0;
    bool has_bad_metadata_ = false;
    std::string violation_{};
    std::uint64_t saved_ = 0;
    std::uint64_t lost_bytes_ = 0;
};

inline void put(std::string& bytes, std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

inline std::string little_endian(std::uint64_t value, std::size_t size) {
    std::string bytes;
    put(bytes, value, size);
    return bytes;
}

inline std::string DamagedTraceModel::uuid_text(unsigned trace) {
    return fmt::format("0123456{}-89ab-cdef-0123-456789abcdef", trace);
}

inline std::string DamagedTraceModel::uuid_bytes(unsigned trace) {
    std::string bytes = "\x01\x23\x45\x60\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef";
    bytes[3] = static_cast<char>(0x60 + trace);
    return bytes;
}

// More events make a longer text of which the shorter is a beginning; another salt makes another text.
inline std::string DamagedTraceModel::metadata(unsigned trace, std::uint64_t events, std::uint64_t salt) const {
    std::string text = fmt::format(R"(/* CTF 1.8 */
trace {{ major = 1; minor = 8; uuid = "{}"; byte_order = le; packet.header := struct {{
    integer {{ size = 32; align = 8; }} magic; integer {{ size = 8; align = 8; }} uuid[16];
    integer {{ size = 32; align = 8; }} stream_id; integer {{ size = 64; align = 8; }} stream_instance_id; }}; }};
env {{ salt = {}; }};
clock {{ name = c; freq = 1000000000; absolute = true; }};
typealias integer {{ size = 64; align = 8; map = clock.c.value; }} := time;
)",
                                   uuid_text(trace), salt);
    for (unsigned id = 0; id < 2; ++id)
        text += fmt::format(R"(stream {{ id = {}; packet.context := struct {{ time timestamp_begin;
    {};
    integer {{ size = 64; align = 8; }} content_size; integer {{ size = 64; align = 8; }} packet_size;
    integer {{ size = 64; align = 8; }} packet_seq_num; }};
    event.header := struct {{ integer {{ size = 32; align = 8; }} id; time timestamp; }}; }};
)",
                            id, has_ends_ ? "time timestamp_end" : "integer { size = 64; align = 8; } some_time");
    for (std::uint64_t event = 0; event < events; ++event)
        for (unsigned id = 0; id < 2; ++id)
            text += fmt::format(
                "event {{ name = e{}; id = {}; stream_id = {}; fields := struct {{ integer {{ size = 32; "
                "align = 8; }} n; }}; }};\n",
                event, event, id);
    return text;
}

inline std::string DamagedTraceModel::packet_of(unsigned trace, Stream& stream) {
    const std::uint64_t events = below(5);
    std::string content;
    const std::uint64_t begin = stream.now;
    for (std::uint64_t i = 0; i < events; ++i) {
        stream.now += below(4);
        put(content, below(2), 4);
        put(content, stream.now, 8);
        put(content, below(256), 4);
    }
    stream.now += below(4);
    const std::uint64_t padding = below(3) * 20;
    std::string packet = little_endian(0xc1fc1fc1, 4) + uuid_bytes(trace);
    put(packet, stream.stream_id, 4);
    put(packet, stream.instance, 8);
    put(packet, begin, 8);
    put(packet, stream.now, 8);
    put(packet, 8 * (kHeaderSize + content.size()), 8);
    put(packet, 8 * (kHeaderSize + content.size() + padding), 8);
    put(packet, stream.number++, 8);
    stream.now += below(3);
    return packet + content + std::string(padding, '\0');
}

// A trace of a few streams, in one directory; or in two chunks; or in two snapshots, which have some packets in common.
inline void DamagedTraceModel::make_trace(unsigned trace) {
    const std::uint64_t parts = 1 + below(2);
    const bool is_snapshot = below(2) == 0;
    std::vector<std::string> names;
    for (std::uint64_t part = 0; part < parts; ++part) {
        names.push_back(fmt::format("{}-{}", trace, part));
        directories_.push_back({names.back(), trace, metadata(trace, 2 + part, below(8) == 0 ? part : 0)});
    }
    for (std::uint64_t stream_number = 0, streams = 1 + below(3); stream_number < streams; ++stream_number) {
        Stream stream{.stream_id = below(2), .instance = stream_number};
        std::vector<std::string> packets;
        for (std::uint64_t count = 1 + below(6); count > 0; --count) packets.push_back(packet_of(trace, stream));
        std::uint64_t from = 0;
        for (std::uint64_t part = 0; part < parts; ++part) {
            const std::uint64_t to = part + 1 == parts ? packets.size() : below(packets.size() + 1);
            File file{.directory = names[part], .name = fmt::format("s{}", stream_number)};
            if (is_snapshot && from > 0) from = below(from);
            for (std::uint64_t i = from; i < std::max(from, to); ++i) add(file, packets[i]);
            from = std::max(from, to);
            if (!file.packets.empty()) files_.push_back(std::move(file));
        }
    }
}

inline void DamagedTraceModel::add(File& file, const std::string& packet) const {
    file.packets.push_back({file.bytes.size(), packet.size()});
    file.bytes += packet;
}

inline DamagedTraceModel::DamagedTraceModel(Choose choose) : choose_(std::move(choose)), has_ends_(below(4) != 0) {
    make_trace(0);
    if (below(3) == 0) make_trace(1);
}

inline void DamagedTraceModel::step() {
    ++steps_;
    File& file = files_[below(files_.size())];
    switch (below(12)) {
        case 0:
            return damage_bytes(file);
        case 1:
            return cut(file);
        case 2:
            return insert(file);
        case 3:
            return swap_packets(file);
        case 4:
            return damage_metadata();
        default:
            return damage_field(file);
    }
}

inline void DamagedTraceModel::change(File& file, std::uint64_t offset, const std::string& bytes) {
    for (std::uint64_t i = 0; i < bytes.size() && offset + i < file.bytes.size(); ++i) {
        if (file.bytes[offset + i] == bytes[i]) continue;
        file.bytes[offset + i] = bytes[i];
        for (Packet& packet : file.packets)
            if (offset + i >= packet.offset && offset + i < packet.offset + packet.size) packet.is_intact = false;
    }
}

// A field that means something gets a value that means something.
inline void DamagedTraceModel::damage_field(File& file) {
    if (file.packets.empty()) return;
    const Packet packet = file.packets[below(file.packets.size())];
    struct Field {
        std::uint64_t offset;
        std::size_t size;
    };
    const std::array<Field, 10> fields{{{0, 4},
                                        {kUuid, 8},
                                        {kStreamId, 4},
                                        {kInstance, 8},
                                        {kBegin, 8},
                                        {kEnd, 8},
                                        {kContentSize, 8},
                                        {kPacketSize, 8},
                                        {kSequence, 8},
                                        {kHeaderSize + 4, 8}}};
    const Field field = fields[below(fields.size())];
    const std::uint64_t at = packet.offset + field.offset;
    if (at + field.size > file.bytes.size()) return;
    std::uint64_t value = 0;
    std::memcpy(&value, file.bytes.data() + at, field.size);
    switch (below(7)) {
        case 0:
            value = 0;
            break;
        case 1:
            value = ~std::uint64_t{0};
            break;
        case 2:
            value ^= std::uint64_t{1} << below(8 * field.size);
            break;
        case 3:
            value += 8 * (1 + below(200));
            break;
        case 4:
            value -= 1 + below(20);
            break;
        case 5:
            value = 8 * (file.bytes.size() - packet.offset);
            break;
        default:
            value = 8 * (packet.size + below(3) * kHeaderSize);
            break;
    }
    change(file, at, little_endian(value, field.size));
}

inline void DamagedTraceModel::damage_bytes(File& file) {
    if (file.bytes.empty()) return;
    const std::string bytes(1 + below(40), static_cast<char>(below(3) - 1));
    change(file, below(file.bytes.size()), bytes);
}

inline void DamagedTraceModel::cut(File& file) {
    const std::uint64_t size = below(file.bytes.size() + 1);
    for (Packet& packet : file.packets)
        if (packet.offset + packet.size > size) packet.is_intact = false;
    std::erase_if(file.packets, [&](const Packet& packet) { return packet.offset >= size; });
    file.bytes.resize(size);
}

// Of bytes that are somewhere else in the file, perhaps whole packets. A header that gets the bytes of another packet
// takes these, and the time of the packet that it was copied from: this counts as two steps.
inline void DamagedTraceModel::insert(File& file) {
    ++steps_;
    const std::uint64_t from = below(file.bytes.size() + 1);
    const std::string bytes = file.bytes.substr(from, 1 + below(200));
    const std::uint64_t at = below(file.bytes.size() + 1);
    file.bytes.insert(at, bytes);
    for (Packet& packet : file.packets) {
        if (packet.offset < at && packet.offset + packet.size > at) packet.is_intact = false;
        if (packet.offset >= at) packet.offset += bytes.size();
    }
}

inline void DamagedTraceModel::swap_packets(File& file) {
    if (file.packets.size() < 2) return;
    const std::size_t first = below(file.packets.size() - 1);
    Packet& left = file.packets[first];
    Packet& right = file.packets[first + 1];
    if (right.offset != left.offset + left.size || right.offset + right.size > file.bytes.size()) return;
    const auto begin = file.bytes.begin() + static_cast<std::ptrdiff_t>(left.offset);
    std::rotate(begin, begin + static_cast<std::ptrdiff_t>(left.size),
                begin + static_cast<std::ptrdiff_t>(left.size + right.size));
    right.offset = left.offset;
    left.offset = right.offset + right.size;
    std::swap(left, right);
}

inline void DamagedTraceModel::damage_metadata() {
    std::string& text = directories_[below(directories_.size())].metadata;
    has_bad_metadata_ = true;
    switch (below(3)) {
        case 0:
            text.resize(below(text.size() + 1));
            break;
        case 1:
            text = "nothing";
            break;
        default:
            if (!text.empty()) text[below(text.size())] = static_cast<char>(' ' + below(90));
    }
}

inline void DamagedTraceModel::write() const {
    const auto write_file = [&](const std::string& directory, const std::string& name, const std::string& bytes) {
        std::ofstream(scratch_.path() / "traces" / directory / name, std::ios::binary) << bytes;
    };
    for (const Directory& directory : directories_) {
        std::filesystem::create_directories(scratch_.path() / "traces" / directory.name);
        write_file(directory.name, "metadata", directory.metadata);
    }
    for (const File& file : files_) write_file(file.directory, file.name, file.bytes);
}

inline void DamagedTraceModel::finish() {
    write();
    const auto directories = trace::find_trace_directories(scratch_.path() / "traces");
    if (!directories) return violate(directories.error().message);
    viewer::CheckProgress progress(viewer::TraceCheck::kPasses + 1);
    std::uint64_t looks = 0, latest = 0;
    progress.watch([&] {
        ++looks;
        if (progress.bytes_begun() < latest) violate("progress goes back");
        latest = progress.bytes_begun();
    });
    const viewer::TraceCheck check = *viewer::TraceCheck::run(*directories, progress);
    lost_bytes_ = check.lost_bytes();
    check_saved(check);
    if (looks < viewer::TraceCheck::kPasses * check.packets()) violate("packets are not counted as progress");
    if (latest > progress.bytes_in_all()) violate("progress has no end");
    const bool is_comparable = std::ranges::none_of(check.findings().told(), [](const viewer::Finding& finding) {
        return finding.what.find("clocks that cannot be compared") != std::string::npos;
    });
    if (check.packets() != 0 && is_comparable) check_repaired(check, progress);
}

inline std::string DamagedTraceModel::text_of(const viewer::Findings& findings) {
    std::string text;
    for (const viewer::Finding& finding : findings.told())
        text += fmt::format("\n    {} {}: {}", finding.file.string(), finding.offset.value_or(0), finding.what);
    return text;
}

// Most of what nobody touched is saved: what is damaged may claim the time of one other packet, or the bytes.
inline void DamagedTraceModel::check_saved(const viewer::TraceCheck& check) {
    if (steps_ == 0 && (check.findings().count() != 0 || check.lost_bytes() != 0))
        return violate(fmt::format("nothing is damaged, but: {}", check.findings().told().front().what));
    if (check.lost_bytes() != 0 && check.findings().count() == 0) return violate("bytes are lost, and nothing is told");
    std::set<std::string> kept;  // the bytes of packets, which may be in several places
    for (const viewer::CheckedDirectory& directory : check.directories()) {
        for (const viewer::CheckedFile& file : directory.files) {
            const UntrustedBytes bytes = file.file->mapping.bytes();
            std::map<std::uint64_t, std::uint64_t> places;
            for (const viewer::RecordedPacket& packet : file.packets)
                places.emplace(packet.offset, packet.properties.packet_size);
            if (places.size() != file.packets.size()) return violate("a packet is kept twice");
            std::uint64_t end = 0;
            for (const auto& [offset, size] : places) {
                if (std::exchange(end, offset + size) > offset) return violate("two packets share bytes");
                if (end > bytes.size()) return violate("a packet goes beyond its file");
                kept.emplace(reinterpret_cast<const char*>(&bytes[offset]), size);  // NOLINT(*-reinterpret-cast)
            }
        }
    }
    std::set<std::string> lost;
    for (const File& file : files_) {
        for (const Packet& packet : file.packets) {
            if (!packet.is_intact) continue;
            const std::string bytes = file.bytes.substr(packet.offset, packet.size);
            if (kept.contains(bytes))
                ++saved_;
            else
                lost.insert(bytes);
        }
    }
    if (!has_bad_metadata_ && lost.size() > steps_)
        violate(fmt::format("{} packets that nobody touched are lost after damage to {}, where is found:{}",
                            lost.size(), steps_, text_of(check.findings())));
}

inline void DamagedTraceModel::check_repaired(const viewer::TraceCheck& check, viewer::CheckProgress& progress) {
    const std::filesystem::path output = scratch_.path() / "repaired";
    const auto written = viewer::write_repaired_trace(check, output, progress);
    if (!written) return violate(written.error().message);
    const auto traces = viewer::open_traces({output});
    if (!traces) return violate("what is repaired cannot be opened: " + traces.error().message);
    auto merge = viewer::Merge::make(*traces);
    if (!merge) return violate("what is repaired cannot be merged: " + merge.error().message);
    std::uint64_t events = 0;
    auto is_message = merge->next();
    for (; is_message && *is_message; is_message = merge->next()) events += merge->events().size();
    if (!is_message) return violate("what is repaired cannot be read: " + is_message.error().message);
    const auto damage = viewer::first_damage(*traces);
    if (!damage) return violate("what is repaired is damaged: " + damage.error().message);
    if (events != check.events())
        return violate(fmt::format("{} events can be read, {} could be saved", events, check.events()));
    viewer::CheckProgress of_repaired(viewer::TraceCheck::kPasses);
    const auto again = *viewer::TraceCheck::run(trace::find_trace_directories(output).value(), of_repaired);
    if (of_repaired.bytes_begun() != of_repaired.bytes_in_all()) violate("the check of a whole trace does not end");
    if (again.findings().count() != 0)
        return violate("what is repaired is not sound: " + again.findings().told().front().what);
    if (again.events() != events || again.packets() != check.packets()) violate("what is repaired has changed");
}

}  // namespace leat::test
