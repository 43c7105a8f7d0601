#include "viewer/check/trace_check.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "support/byte_metadata.hpp"
#include "support/scratch_directory.hpp"
#include "trace/index_format.hpp"
#include "viewer/check/repaired_trace.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

class TraceCheckTest : public testing::Test {
  protected:
    void write(const std::string& name, const std::string& bytes) const {
        fs::create_directories((directory() / name).parent_path());
        std::ofstream(directory() / name, std::ios::binary) << bytes;
    }

    [[nodiscard]] TraceCheck check() const {
        CheckProgress progress(TraceCheck::kPasses);
        return *TraceCheck::run(trace::find_trace_directories(directory()).value(), progress);
    }
    // A line each.
    [[nodiscard]] std::string findings() const {
        const TraceCheck done = check();
        std::string text;
        for (const Finding& finding : done.findings().told()) text += finding.what + "\n";
        return text;
    }

    [[nodiscard]] const fs::path& directory() const { return scratch_.path(); }

  private:
    test::ScratchDirectory scratch_;
};

// The names that were opened in a directory, in order.
class Openings {
  public:
    explicit Openings(const fs::path& directory) : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
        EXPECT_GE(::inotify_add_watch(fd_.get(), directory.c_str(), IN_OPEN), 0);
    }

    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> names;
        std::array<char, 4096> bytes{};
        for (ssize_t size = 0; (size = ::read(fd_.get(), bytes.data(), bytes.size())) > 0;) {
            for (ssize_t at = 0; at < size;) {
                inotify_event event{};
                std::memcpy(&event, bytes.data() + at, sizeof event);
                if (event.len != 0) names.emplace_back(bytes.data() + at + sizeof event);
                at += static_cast<ssize_t>(sizeof event + event.len);
            }
        }
        return names;
    }

  private:
    UniqueFd fd_;
};

// A writer declares events, and then writes packets of them: of a trace that is being recorded, what is in the files by
// then is declared.
TEST_F(TraceCheckTest, MetadataAreReadAfterTheFilesAreOpened) {
    write("metadata", test::kByteMetadata);
    write("a", "\1\x28\1\5\2"s);
    write("b", "\2\x28\1\5\2"s);
    const Openings openings(directory());
    EXPECT_EQ(findings(), "");
    const std::vector<std::string> names = openings.names();
    EXPECT_EQ(std::ranges::count(names, "a"), 1);
    EXPECT_EQ(std::ranges::count(names, "b"), 1);
    ASSERT_FALSE(names.empty());
    EXPECT_EQ(names.back(), "metadata");
}

// Somebody presses Ctrl-C: what was written until then goes.
TEST_F(TraceCheckTest, RepairThatIsInterruptedLeavesNothing) {
    write("trace/metadata", test::kByteMetadata);
    write("trace/a", "\1\x28\1\5\2"s);
    write("trace/b", "\2\x28\1\5\2"s);
    const TraceCheck done = check();
    for (int asked = 0; asked < 3; ++asked) {
        CheckProgress progress(TraceCheck::kPasses + 1);
        progress.ask([left = asked]() mutable { return left-- == 0 ? refused("stop") : Result<void>(); });
        const auto written = write_repaired_trace(done, directory() / "repaired", progress);
        ASSERT_FALSE(written);
        EXPECT_EQ(written.error().message, "stop");
        EXPECT_EQ(std::distance(fs::directory_iterator(directory()), fs::directory_iterator()), 1);
    }
    CheckProgress progress(TraceCheck::kPasses + 1);
    EXPECT_TRUE(write_repaired_trace(done, directory() / "repaired", progress));
}

// Times of 8 bits go on from the packet before, as for viewers: 250 to 260, 270 to 271, 480 to 511, 520 to 521.
TEST_F(TraceCheckTest, NarrowTimesThatWrapWithinAFile) {
    write("metadata", test::kByteMetadata);
    const auto packet_of = [](char begin, char end) { return "\1\x50"s + begin + end + std::string(6, begin); };
    write("a",
          packet_of('\xfa', '\4') + packet_of('\x0e', '\x0f') + packet_of('\xe0', '\xff') + packet_of('\x08', '\x09'));
    const TraceCheck done = check();
    EXPECT_EQ(done.findings().count(), 0U);
    EXPECT_EQ(done.packets(), 4U);
    std::string begins;
    for (const RecordedPacket& packet : done.directories().front().files.front().packets)
        begins += fmt::format("{} ", *packet.properties.begin_ns / 1'000'000'000);
    EXPECT_EQ(begins, "250 270 480 520 ");
}

// What is damaged moves no clock.
TEST_F(TraceCheckTest, NarrowTimesBehindDamage) {
    std::string metadata = test::kByteMetadata;
    const std::string header = "struct { integer { size = 8; } stream_instance_id; };";
    metadata.replace(metadata.find(header), header.size(),
                     "struct { integer { size = 32; } magic; integer { size = 8; } uuid[16];"
                     "  integer { size = 8; } stream_instance_id; };");
    write("metadata", metadata);
    const std::string begin = "\xc1\x1f\xfc\xc1\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff\1"s;
    const auto packet = [&](const std::string& rest) {
        return begin + static_cast<char>(8 * (begin.size() + 1 + rest.size())) + rest;
    };
    std::string damaged = packet("\xf0\xf1\xf1");
    damaged[begin.size()] = static_cast<char>(0xff);  // its size: no whole bytes
    write("a", packet("\1\2\2") + damaged + packet("\5\6\6"));
    const TraceCheck done = check();
    EXPECT_EQ(done.findings().count(), 1U);
    ASSERT_EQ(done.packets(), 2U);
    EXPECT_EQ(done.directories().front().files.front().packets.back().properties.begin_ns, 5'000'000'000);
}

// All that an index entry says of a packet.
class IndexCheckTest : public TraceCheckTest {
  protected:
    IndexCheckTest() {
        write("metadata",
              "/* CTF 1.8 */ typealias integer { size = 8; } := u8;"
              "trace { major = 1; minor = 8; byte_order = le;"
              "  packet.header := struct { u8 stream_id; u8 stream_instance_id; }; };"
              "clock { name = m; freq = 1; }; typealias integer { size = 64; map = clock.m.value; } := ts;"
              "stream { id = 3; packet.context := struct { u8 packet_size; u8 content_size; ts timestamp_begin;"
              "  ts timestamp_end; u8 events_discarded; u8 packet_seq_num; }; event.header := struct { ts timestamp; };"
              "}; event { stream_id = 3; name = e; };");
        const std::string before = "\3\2\xf8\xf0"s;
        write("a", before + time(5) + time(9) + "\4\6" + time(7) + "\0"s);
    }

    static std::string time(char seconds) { return seconds + "\0\0\0\0\0\0\0"s; }

    void write_index(const std::vector<ctf::IndexEntry>& entries) const {
        std::string bytes;
        const auto append = [&](const auto& encoded) {
            for (const std::byte byte : encoded) bytes += static_cast<char>(byte);
        };
        append(trace::encode_index_header());
        for (const ctf::IndexEntry& entry : entries) append(trace::encode_index_entry(entry));
        write("index/a.idx", bytes);
    }

    static constexpr ctf::IndexEntry kEntry{.offset = 0,
                                            .packet_size = 248,
                                            .content_size = 240,
                                            .timestamp_begin = 5,
                                            .timestamp_end = 9,
                                            .events_discarded = 4,
                                            .stream_class_id = 3,
                                            .stream_instance_id = 2,
                                            .packet_seq_num = 6};
};

TEST_F(IndexCheckTest, EntryThatIsRight) {
    write_index({kEntry});
    EXPECT_EQ(findings(), "");
}

TEST_F(IndexCheckTest, EntryThatSaysSomethingElse) {
    std::string all;
    for (const auto field : ctf::kIndexEntryFields) {
        if (field == &ctf::IndexEntry::offset) continue;
        ctf::IndexEntry entry = kEntry;
        entry.*field = 8;
        write_index({entry});
        all += findings();
    }
    EXPECT_EQ(all,
              "the packet at offset 0 has 31 bytes, not 1\n"
              "the packet at offset 0 has content_size 240, not 8\n"
              "the packet at offset 0 has other times\n"
              "the packet at offset 0 has other times\n"
              "the packet at offset 0 has events_discarded 4, not 8\n"
              "the packet at offset 0 has stream class 3, not 8\n"
              "the packet at offset 0 has stream_instance_id 2, not 8\n"
              "the packet at offset 0 has packet_seq_num 6, not 8\n");
}

TEST_F(IndexCheckTest, EntryThatDoesNotKnowTheRing) {
    ctf::IndexEntry entry = kEntry;
    entry.stream_instance_id = ctf::IndexEntry::kUnknown;
    entry.packet_seq_num = ctf::IndexEntry::kUnknown;
    write_index({entry});
    EXPECT_EQ(findings(), "");
}

TEST_F(IndexCheckTest, TwoEntriesForOnePacket) {
    write_index({kEntry, kEntry});
    EXPECT_EQ(findings(), "another entry is of the packet at offset 0, too\n");
}

TEST_F(IndexCheckTest, ZerosAreOneFinding) {
    ctf::IndexEntry none;
    for (const auto field : ctf::kIndexEntryFields) none.*field = 0;
    write_index({none, none, kEntry});
    EXPECT_EQ(findings(), "144 bytes of it are zeros\n");
    write_index({kEntry, none, none});
    EXPECT_EQ(findings(), "144 bytes of it are zeros\n");
    none.packet_seq_num = 6;
    write_index({kEntry, none});
    EXPECT_EQ(findings(), "another entry is of the packet at offset 0, too\n");
}

// What might be a packet, every 24 bytes: to find out, two megabytes are searched for the end of a text.
TEST_F(TraceCheckTest, SearchForPacketsEnds) {
    write("metadata",
          "/* CTF 1.8 */ typealias integer { size = 32; } := u32; typealias integer { size = 8; } := u8;"
          "trace { major = 1; minor = 8; byte_order = le; uuid = \"01010101-0101-0101-0101-010101010101\";"
          "  packet.header := struct { u32 magic; u8 uuid[16]; }; };"
          "stream { packet.context := struct { u32 packet_size; }; };"
          "event { name = a; fields := struct { string text; }; };");
    std::string bytes;
    while (bytes.size() < 4U << 20U) bytes += "\xc1\x1f\xfc\xc1" + std::string(16, '\1') + "\x08\x01\x01\x01";
    write("a", bytes);
    EXPECT_NE(findings().find("too much is damaged to search what follows"), std::string::npos) << findings();
}

TEST_F(TraceCheckTest, SmallPacketsAreNoDamage) {
    write("metadata",
          "/* CTF 1.8 */ typealias integer { size = 8; } := u8; trace { major = 1; minor = 8; byte_order = le; };"
          "stream { packet.context := struct { u8 packet_size; }; }; event { name = a; fields := struct { u8 x; }; };");
    std::string bytes;
    for (int packet = 0; packet < 1000; ++packet) bytes += "\x10.";
    write("a", bytes);
    EXPECT_EQ(findings(), "");
}

}  // namespace
}  // namespace leat::viewer
