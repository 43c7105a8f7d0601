#include "viewer/read/recorded_trace.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <list>
#include <memory>
#include <string>

#include "base/unique_fd.hpp"
#include "ctf/metadata/metadata_reader.hpp"
#include "support/byte_metadata.hpp"
#include "trace/index_format.hpp"
#include "trace/moving_lock.hpp"
#include "trace/sync_file.hpp"
#include "viewer/merge/merge.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

std::string packet(char instance, char begin, char end, const std::string& times) {
    return std::string{instance, static_cast<char>((4 + times.size()) * 8), begin, end} + times;
}

class RecordedTraceTest : public testing::Test {
  protected:
    RecordedTraceTest() : root_(fs::temp_directory_path() / fmt::format("leat-recorded-trace-{}", ::getpid())) {
        fs::remove_all(root_);
    }
    ~RecordedTraceTest() override { fs::remove_all(root_); }

    void write(const std::string& name, const std::string& bytes) const {
        fs::create_directories((root_ / name).parent_path());
        std::ofstream(root_ / name, std::ios::binary) << bytes;
    }

    // The seconds of all events in the order of the merge; then the error or the damage, if any.
    [[nodiscard]] std::string read() const {
        const auto traces = open_traces({root_});
        if (!traces) return traces.error().message;
        auto merge = Merge::make(*traces);
        if (!merge) return merge.error().message;
        std::string text;
        auto is_message = merge->next();
        for (; is_message && *is_message; is_message = merge->next())
            for (const FoundEvent& event : merge->events())
                text += fmt::format("{} ", *event.time_ns() / 1'000'000'000);
        if (!is_message) return text + "error: " + is_message.error().message;
        for (const auto& trace : *traces)
            if (trace->damage()) text += "damage: " + trace->damage()->message;
        return text;
    }

    [[nodiscard]] std::string losses(std::int64_t from_ns = INT64_MIN) const {
        const auto traces = open_traces({root_});
        if (!traces) return traces.error().message;
        auto merge = Merge::make(*traces, from_ns);
        std::string losses;
        while (merge->next().value_or(false)) {
            if (!merge->events().empty()) continue;
            const Message& message = merge->message();
            if (message.kind == Message::Kind::kDiscardedPackets)
                losses += fmt::format("tracer {} ", *message.loss.count);
            if (message.kind == Message::Kind::kLostPackets) losses += fmt::format("network {} ", *message.loss.count);
        }
        return losses;
    }

    [[nodiscard]] std::string path(const std::string& name) const { return (root_ / name).string(); }

    fs::path root_;
};

TEST_F(RecordedTraceTest, StreamsAreMergedByTime) {
    write("metadata", test::kByteMetadata);
    write("a", packet(1, 1, 9, "\1\5\7"));
    write("b", packet(2, 1, 9, "\2\6\10"));
    EXPECT_EQ(read(), "1 2 5 6 7 8 ");
}

TEST_F(RecordedTraceTest, FilesOfOneInstanceAreOneStream) {
    write("metadata", test::kByteMetadata);
    write("a", packet(1, 5, 9, "\6"));
    write("b", packet(1, 1, 5, "\2"));
    EXPECT_EQ(read(), "2 6 ");
    EXPECT_EQ(open_traces({root_}).value().front()->streams().size(), 1U);
}

TEST_F(RecordedTraceTest, PacketsThatBeginAtOneTimeAreSortedByTheirEnds) {
    write("metadata", test::kByteMetadata);
    write("a", packet(1, 5, 9, "\6"));
    write("b", packet(1, 5, 5, "\5"));
    EXPECT_EQ(read(), "5 6 ");
}

TEST_F(RecordedTraceTest, StreamsWithoutTimesAreNumberedByTheirFiles) {
    std::string metadata = test::kByteMetadata;
    const std::string begin = "ts timestamp_begin;";
    metadata.erase(metadata.find(begin), begin.size());
    write("metadata", metadata);
    const auto without_begin = [](char instance, const std::string& times) {
        return std::string{instance, static_cast<char>((3 + times.size()) * 8), 9} + times;
    };
    write("b", without_begin(1, "\2"));
    write("a", without_begin(7, "\3"));
    write("c", without_begin(7, "\1"));
    const auto traces = open_traces({root_}).value();
    std::string names;
    for (const RecordedStream& stream : traces.front()->streams())
        names += fmt::format("{}={} ", fs::path(stream.name).filename().string(), *stream.instance_id);
    EXPECT_EQ(names, "a=0 b=1 c=2 ");
    EXPECT_EQ(read(), "1 2 3 ");
}

TEST_F(RecordedTraceTest, TracesAreInTheOrderOfTheirUuids) {
    std::string other = test::kByteMetadata;
    other.replace(other.find("00112233"), 8, "00000001");
    std::string nameless = test::kByteMetadata;
    nameless.erase(nameless.find("uuid"), std::string("uuid = \"00112233-4455-6677-8899-aabbccddeeff\";").size());
    write("a/metadata", nameless);
    write("b/metadata", test::kByteMetadata);
    write("c/x/metadata", other);
    for (const char* const name : {"a/s", "b/s", "c/x/s"}) write(name, packet(1, 1, 9, "\1"));
    std::string paths;
    const auto traces = open_traces({root_}).value();
    for (const auto& trace : traces) paths += trace->streams().front().trace_path + " ";
    EXPECT_EQ(paths, "c/x b a ");
}

TEST_F(RecordedTraceTest, FileIsReadUpToThePacketThatBeginsEarlier) {
    write(
        "metadata",
        "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; }; clock { name = m; freq = 1; };"
        "stream { packet.context := struct { integer { size = 8; } packet_size;"
        "  integer { size = 64; align = 8; map = clock.m.value; } timestamp_begin; };"
        "  event.header := struct { integer { size = 8; map = clock.m.value; } timestamp; }; }; event { name = e; };");
    const auto packet_at = [](char begin, char time) { return "\x50"s + begin + "\0\0\0\0\0\0\0"s + time; };
    write("a", packet_at(1, 2) + packet_at(5, 6) + packet_at(3, 3));
    write("b", packet_at(1, 7));
    EXPECT_EQ(read(), "2 6 7 damage: " + path("a") + ": packet at offset 20: it begins earlier than the one before it");
}

TEST_F(RecordedTraceTest, FileIsReadUpToAPacketOfAnotherStreamClass) {
    write("metadata",
          "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le;"
          "  packet.header := struct { integer { size = 8; } stream_id; }; };"
          "clock { name = m; freq = 1; }; typealias integer { size = 8; map = clock.m.value; } := ts;"
          "struct context { integer { size = 8; } packet_size; };"
          "stream { id = 1; packet.context := struct context; event.header := struct { ts timestamp; }; };"
          "stream { id = 2; packet.context := struct context; event.header := struct { ts timestamp; }; };"
          "event { name = a; stream_id = 1; }; event { name = b; stream_id = 2; };");
    write("a", "\1\x18\5\2\x18\6"s);
    EXPECT_EQ(read(),
              "5 damage: " + path("a") + ": packet at offset 3: it is of stream class 2, unlike the one before it");
}

// Else each of its packets might be a stream, whose memory is much more than a packet's bytes.
TEST_F(RecordedTraceTest, FileIsOfTheStreamThatItsFirstPacketIsOf) {
    write("metadata",
          "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le;"
          "  packet.header := struct { integer { size = 8; } stream_instance_id; }; };"
          "clock { name = m; freq = 1; }; typealias integer { size = 8; map = clock.m.value; } := ts;"
          "stream { packet.context := struct { integer { size = 8; } packet_size; ts timestamp_begin; };"
          "  event.header := struct { ts timestamp; }; };"
          "event { name = a; };");
    write("a", "\1\x20\5\5\2\x20\6\6\3\x20\7\7"s);
    EXPECT_EQ(read(), "5 6 7 ");
    const auto traces = open_traces({root_});
    ASSERT_TRUE(traces);
    EXPECT_EQ(traces->front()->streams().size(), 1U);
}

TEST_F(RecordedTraceTest, ChunksAreOneTraceAndRepeatedPacketsAreReadOnce) {
    write("chunk-0/metadata", test::kByteMetadata);
    write("chunk-0/a", packet(1, 1, 5, "\2"));
    write("chunk-1/metadata", test::kByteMetadata);
    write("chunk-1/a", packet(1, 1, 5, "\2") + packet(1, 5, 9, "\6"));
    EXPECT_EQ(read(), "2 6 ");
}

TEST_F(RecordedTraceTest, TruncatedLastPacketIsDamageBehindTheEvents) {
    write("metadata", test::kByteMetadata);
    const std::string second = packet(1, 5, 9, "\6\7");
    for (std::size_t size = 1; size < second.size(); ++size) {
        write("a", packet(1, 1, 5, "\2") + second.substr(0, size));
        EXPECT_EQ(read().rfind("2 damage: " + path("a") + ": packet at offset 5", 0), 0U) << read();
    }
}

TEST_F(RecordedTraceTest, TimeThatGoesBackEndsTheMerge) {
    write("metadata", test::kByteMetadata);
    write("a", packet(1, 1, 3, "\2\5"));
    EXPECT_EQ(read().rfind("2 5 error: ", 0), 0U) << read();
}

TEST_F(RecordedTraceTest, ClocksThatCannotBeComparedAreRefused) {
    std::string other = test::kByteMetadata;
    other.replace(other.find("0011"), 4, "9911");
    write("x/metadata", test::kByteMetadata);
    write("x/a", packet(1, 1, 9, "\2"));
    write("y/metadata", other);
    write("y/a", packet(1, 1, 9, "\2"));
    EXPECT_NE(read().find("clocks that cannot be compared"), std::string::npos);
}

TEST_F(RecordedTraceTest, NoTraceIsNotFound) {
    write("something", "else");
    EXPECT_NE(read().find("holds no trace"), std::string::npos);
    EXPECT_NE(open_traces({root_ / "missing"}).error().message.find("does not exist"), std::string::npos);
}

TEST_F(RecordedTraceTest, EmptyTraceHasNoEvents) {
    write("metadata", test::kByteMetadata);
    write("a", "");
    EXPECT_EQ(read(), "");
}

constexpr char kUnknown = '\xff';

// Index entries of packets with these numbers. The packets in `lost` are not in the file.
std::string index_of(const std::string& numbers, const std::string& lost) {
    const auto append = [](std::string& text, const auto& bytes) {
        for (const std::byte byte : bytes) text += static_cast<char>(byte);
    };
    std::string index;
    append(index, trace::encode_index_header());
    for (const char number : numbers) {
        ctf::IndexEntry entry{.packet_seq_num =
                                  number == kUnknown ? ctf::IndexEntry::kUnknown : static_cast<std::uint64_t>(number)};
        if (lost.find(number) != std::string::npos) entry.offset = ctf::IndexEntry::kLostOffset;
        append(index, trace::encode_index_entry(entry));
    }
    return index;
}

// And where it was, so that who reads a range of time alone is told, too.
TEST_F(RecordedTraceTest, NetworkLossIsToldOnceAndIsNoneOfTheTracers) {
    std::string metadata = test::kByteMetadata;
    const std::string size = "packet_size;";
    metadata.insert(metadata.find(size) + size.size(), " integer { size = 8; } packet_seq_num;");
    const auto packet = [](char number, char time) { return "\1"s + "\60"s + number + time + time + time; };
    write("metadata", metadata);
    write("c_0", packet(1, 1) + packet(5, 5) + packet(7, 7));
    write("index/c_0.idx", index_of("\1\2\3\5\6\7\10", "\2\3\6\10"));  // 4 is in neither list
    EXPECT_EQ(losses(), "network 2 tracer 1 network 1 network 1 ");
}

// Times of 64 bits.
std::string with_long_times(std::string metadata) {
    const std::string of_clock = "integer { size = 8; map";
    return metadata.replace(metadata.find(of_clock), of_clock.size(), "integer { size = 64; map");
}

std::string long_times(const std::string& times) {
    std::string bytes;
    for (const char time : times) bytes += time + std::string(7, '\0');
    return bytes;
}

// barectf before 2.3.1 stamped the begin of a packet after its first event.
TEST_F(RecordedTraceTest, EarlyEventsOfTracersThatAreKnownForThem) {
    for (const std::string patch : {"0", "1"}) {
        write("metadata",
              with_long_times(test::kByteMetadata) +
                  "env { tracer_name = barectf; tracer_major = 2; tracer_minor = 3; tracer_patch = " + patch + "; };");
        write("c_0", std::string{1, static_cast<char>(26 * 8)} + long_times("\4\11\2"));
        EXPECT_EQ(read().substr(0, 6), patch == "0" ? "2 " : "error:");
    }
}

TEST_F(RecordedTraceTest, NetworkLossBeforeWhatIsReadIsNotTold) {
    write("metadata", with_long_times(test::numbered_byte_metadata()));
    std::string packets;
    for (const char number : {1, 5, 7, 9})
        packets += std::string{1, static_cast<char>(27 * 8), number} + long_times(std::string(3, number));
    write("c_0", packets);
    write("index/c_0.idx", index_of("\1\2\3\5\7\10\11", "\2\3\10"));
    EXPECT_EQ(losses(), "network 2 tracer 1 tracer 1 network 1 ");
    EXPECT_EQ(losses(8'500'000'000), "tracer 1 network 1 ");
}

// As two snapshots have it: a packet that is in both, and what the network lost before it.
TEST_F(RecordedTraceTest, NetworkLossInTwoSnapshotsIsOne) {
    for (const std::string snapshot : {"first/", "second/"}) {
        write(snapshot + "metadata", test::numbered_byte_metadata());
        for (const char number : {1, 4}) {
            const std::string name = fmt::format("c_{}", static_cast<int>(number));
            write(snapshot + name, "\1"s + "\60"s + number + number + number + number);
            write(snapshot + "index/" + name + ".idx",
                  number == 1 ? index_of("\1\2\3", "\2\3") : index_of("\4\5", "\5"));
        }
    }
    EXPECT_EQ(losses(), "network 2 network 1 ");
}

// A connection broke, and the packet that the relay missed came in the next part.
TEST_F(RecordedTraceTest, NetworkLossThatCameLaterIsNone) {
    for (const char number : {1, 2, 3}) {
        const std::string part = number == 1 ? "first/" : "second/";
        write(part + "metadata", test::numbered_byte_metadata());
        const std::string name = fmt::format("c_{}", static_cast<int>(number));
        write(part + name, "\1"s + "\60"s + number + number + number + number);
        write(part + "index/" + name + ".idx",
              number == 1 ? index_of("\1\2", "\2") : index_of(std::string(1, number), ""));
    }
    EXPECT_EQ(losses(), "");
}

// What has no number is as often there as it is told.
TEST_F(RecordedTraceTest, NetworkLossWithoutNumbersIsCounted) {
    write("metadata", test::kByteMetadata);
    write("c_0", packet(1, 1, 9, "\2"));
    write("index/c_0.idx", index_of("\xff\xff", "\xff"));
    EXPECT_EQ(losses(), "network 2 ");
}

// An index of packets of equal sizes, one after the other.
std::string index_of_packets(std::size_t size, std::size_t count) {
    std::string index;
    const auto append = [&index](const auto& bytes) {
        for (const std::byte byte : bytes) index += static_cast<char>(byte);
    };
    append(trace::encode_index_header());
    for (std::size_t number = 0; number < count; ++number)
        append(trace::encode_index_entry({.offset = number * size, .packet_size = 8 * size}));
    return index;
}

// Between two packets, or at its beginning: it looks whole.
TEST_F(RecordedTraceTest, FileThatIsCutOffAtAPacketIsDamaged) {
    const std::string whole = packet(1, 1, 9, "\2") + packet(1, 10, 19, "\14");
    const std::size_t size = whole.size() / 2;
    write("metadata", test::kByteMetadata);
    for (const std::size_t left : {2 * size, size, std::size_t{0}}) {
        write("c_0", whole.substr(0, left));
        write("index/c_0.idx", index_of_packets(size, 2));
        const std::string told = read();
        EXPECT_EQ(told.find("cut short: its index names") == std::string::npos, left == 2 * size) << told;
        EXPECT_EQ(told.starts_with("2 "), left != 0) << told;
    }
}

TEST_F(RecordedTraceTest, IndexOfZerosNamesNothing) {
    write("metadata", test::kByteMetadata);
    write("c_0", "");
    write("index/c_0.idx", index_of_packets(0, 100));
    EXPECT_EQ(read(), "");
}

// Who replaces a file and its index does so one after the other; who writes one lets it grow.
class FileThatSeemsCutOff : public RecordedTraceTest {
  protected:
    FileThatSeemsCutOff() {
        write("c_0", packet_);
        write("index/c_0.idx", index_of_packets(packet_.size(), 2));
        std::list<RecordedDirectory> directories(1);
        directories.front().path = root_;
        directories.front().files.emplace(path("c_0"), open_stream_file(path("c_0")));
        directories.front().trace_class = ctf::parse_metadata(test::kByteMetadata).value();
        trace_ = RecordedTrace::open(std::move(directories), 0).value();
    }
    void SetUp() override { ASSERT_TRUE(trace_->has_suspects()); }

    void replace(const std::string& name, const std::string& bytes) const {
        write("new", bytes);
        fs::rename(root_ / "new", root_ / name);
    }
    [[nodiscard]] bool is_damaged() const {
        trace_->look_again();
        EXPECT_FALSE(trace_->has_suspects());
        return trace_->damage().has_value();
    }

    const std::string packet_ = packet(1, 1, 9, "\2");
    std::unique_ptr<RecordedTrace> trace_;
};

TEST_F(FileThatSeemsCutOff, IsDamagedIfNothingHappens) { EXPECT_TRUE(is_damaged()); }

TEST_F(FileThatSeemsCutOff, MayHaveBeenReplaced) {
    replace("c_0", packet_);
    EXPECT_FALSE(is_damaged());
}

TEST_F(FileThatSeemsCutOff, MayHaveTheIndexOfAnother) {
    replace("index/c_0.idx", index_of_packets(packet_.size(), 2));
    EXPECT_FALSE(is_damaged());
}

TEST_F(FileThatSeemsCutOff, MayHaveAnIndexThatGrows) {
    write("index/c_0.idx", index_of_packets(packet_.size(), 3));
    EXPECT_FALSE(is_damaged());
}

TEST_F(FileThatSeemsCutOff, MayGrow) {
    std::ofstream(root_ / "c_0", std::ios::binary | std::ios::app) << packet_;
    EXPECT_FALSE(is_damaged());
}

TEST_F(RecordedTraceTest, IndexThatIsNoneDisturbsNobody) {
    write("metadata", test::kByteMetadata);
    write("c_0", packet(1, 1, 9, "\2"));
    for (const std::string& index : {""s, "short"s, std::string(200, 'x'), index_of("\1\2", "").substr(0, 100)}) {
        write("index/c_0.idx", index);
        EXPECT_EQ(read(), "2 ");
    }
}

// Metadata with packet numbers, and a packet of instance 1 with one event, whose field is the packet's number.
std::string numbered_metadata() {
    std::string metadata = test::kByteMetadata;
    const std::string size = "packet_size;";
    metadata.insert(metadata.find(size) + size.size(), " integer { size = 8; } packet_seq_num;");
    const std::string event = "name = e;";
    metadata.insert(metadata.find(event) + event.size(), " fields := struct { integer { size = 8; } n; };");
    return metadata;
}

std::string numbered_packet(char number, char begin, char end) { return {1, 7 * 8, number, begin, end, begin, number}; }

// An event's only field, a byte.
int number_of(const PacketView& packet, const ctf::EventPlace& place) {
    return std::to_integer<int>(packet.bytes[place.payload / 8]);
}

// The events' fields, in the order of the merge.
std::string numbers_in(const fs::path& root) {
    const auto traces = open_traces({root});
    if (!traces) return traces.error().message;
    auto merge = Merge::make(*traces).value();
    std::string text;
    while (merge.next().value_or(false))
        for (const auto& [packet, place] : merge.events()) text += fmt::format("{} ", number_of(*packet, *place));
    return text;
}

// A packet of such an instance with events of these times, which are their fields, too.
std::string packet_of(char instance, std::string_view times) {
    std::string packet = numbered_packet(0, times.front(), times.back()).substr(0, 5);
    packet[0] = instance;
    for (const char time : times) packet += {time, time};
    packet[1] = static_cast<char>(packet.size() * 8);
    return packet;
}

TEST_F(RecordedTraceTest, EventsOfAlternatingStreamsAreInOrder) {
    write("metadata", numbered_metadata());
    write("a", packet_of(1, "\1\2\3\7\7\10"));
    write("b", packet_of(2, "\4\5\7\11"));
    EXPECT_EQ(numbers_in(root_), "1 2 3 4 5 7 7 7 8 9 ");
}

// The records were stamped late: the packet begins and ends at one time, and the next packet begins at the same time.
TEST_F(RecordedTraceTest, PacketsOfOneAgeKeepTheirOrderInAFile) {
    write("metadata", numbered_metadata());
    write("a", numbered_packet(1, 5, 5) + numbered_packet(2, 5, 5) + numbered_packet(3, 5, 9));
    EXPECT_EQ(numbers_in(root_), "1 2 3 ");
}

TEST_F(RecordedTraceTest, PacketsOfOneAgeKeepTheirOrderFromFileToFile) {
    write("metadata", numbered_metadata());
    write("c_0_2", numbered_packet(1, 5, 5));
    write("c_0_10", numbered_packet(2, 5, 5));  // before the other by its name
    write("c_0_0", numbered_packet(3, 5, 9));   // rolled over
    EXPECT_EQ(numbers_in(root_), "1 2 3 ");
}

TEST_F(RecordedTraceTest, PacketsOfOneAgeWithoutNumbersKeepTheOrderOfTheirFile) {
    write("metadata", test::kByteMetadata);
    write("a", packet(1, 5, 5, "\5") + packet(1, 5, 5, "\5\5") + packet(1, 5, 9, "\5\6\7"));
    EXPECT_EQ(read(), "5 5 5 5 6 7 ");
}

// A lock that a writer of the directory holds on the bytes that are not yet safe.
class Lock {
  public:
    Lock(const fs::path& path, std::uint64_t begin)
        : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)), lock_(fd_.get(), begin) {}

  private:
    UniqueFd fd_;
    trace::MovingLock lock_;
};

TEST_F(RecordedTraceTest, WhatIsBeingWrittenIsNotDamage) {
    write("metadata", test::kByteMetadata);
    const std::string first = packet(1, 1, 5, "\2");
    write("a", first + packet(1, 5, 9, "\6\7").substr(0, 3));
    {
        const Lock lock(root_ / "a", first.size());
        EXPECT_EQ(read(), "2 ");
    }
    EXPECT_NE(read().find("2 damage: "), std::string::npos);
}

TEST_F(RecordedTraceTest, MetadataThatAreBeingWrittenMayEndAnywhere) {
    const std::string metadata = test::kByteMetadata;
    write("metadata", metadata + "event { id = 1; name =");
    write("a", packet(1, 1, 5, "\2"));
    {
        const UniqueFd directory(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        const auto writer = trace::SyncWriter::create(directory.get());
        ASSERT_TRUE(writer);
        EXPECT_EQ(read(), "2 ");
    }
    EXPECT_NE(read().find("expected"), std::string::npos) << read();
}

}  // namespace
}  // namespace leat::viewer
