#include "ctf/record/record_walker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

namespace leat::ctf {
namespace {

using namespace std::string_literals;

IntegerClass integer(unsigned bits) { return {.size = bits}; }

EventClass event(std::uint64_t id, std::vector<StructMember> fields) {
    EventClass event_class{.id = id, .name = "test:event"};
    event_class.fields = StructClass{std::move(fields)};
    return event_class;
}

StructMember sequence(unsigned element_bits) {
    return {"_v", SequenceClass{FieldClass(integer(element_bits)), {"_n"}}};
}

RecordWalker::Walked walk(const RecordWalker& walker, const std::string& records) {
    return walker.walk(std::as_bytes(std::span(records)));
}

// Short headers of the compact form. Their time does not matter here.
std::string header(unsigned id) { return {static_cast<char>(id), 0, 0, 0}; }

TEST(RecordWalker, NothingIsNothing) {
    const RecordWalker walker(ring::kCompactHeader, 0);
    EXPECT_EQ(walk(walker, "").records, 0U);
    EXPECT_EQ(walk(walker, "").bytes, 0U);
}

TEST(RecordWalker, CountsRecordsOfSeveralClasses) {
    RecordWalker walker(ring::kCompactHeader, 2);
    walker.add(event(0, {}));
    walker.add(event(3, {{"_a", integer(32)}, {"_b", FloatClass{.size = 64}}}));
    const std::string records = header(0) + "cc" + header(3) + "cc" + std::string(12, 'x') + header(0) + "cc";
    const auto walked = walk(walker, records);
    EXPECT_EQ(walked.records, 3U);
    EXPECT_EQ(walked.bytes, records.size());
}

TEST(RecordWalker, TimeInTheHeaderIsNotTheId) {
    RecordWalker walker(ring::kCompactHeader, 0);
    walker.add(event(1, {}));
    EXPECT_EQ(walk(walker, "\xe1\xff\xff\xff").records, 1U);
}

TEST(RecordWalker, ExtendedFormsAreStepped) {
    RecordWalker compact(ring::kCompactHeader, 0);
    compact.add(event(40, {{"_a", integer(8)}}));
    EXPECT_EQ(walk(compact, "\x1f"s + "\x28\0\0\0"s + "ttttTTTT" + "x").bytes, 14U);
    RecordWalker large(ring::kLargeHeader, 0);
    large.add(event(0x1234, {{"_a", integer(8)}}));
    EXPECT_EQ(walk(large,
                   "\x34\x12tttt"
                   "x")
                  .bytes,
              7U);
    EXPECT_EQ(walk(large, "\xff\xff\x34\x12\0\0ttttTTTTx"s).bytes, 15U);
}

// Whatever the walker keeps for "no class", in its first stretch and in those where classes change often.
TEST(RecordWalker, NoIdOfTheExtendedFormStandsForNoClass) {
    RecordWalker walker(ring::kCompactHeader, 0);
    walker.add(event(1, {}));
    walker.add(event(2, {{"_text", StringClass{}}}));
    for (const std::string& before : {""s, header(1), header(2) + "x\0"s}) {
        for (std::uint64_t id : {std::uint64_t{1} << 24, (std::uint64_t{1} << 24) - 1, std::uint64_t{0xffff'ffff}}) {
            std::string record = "\x1f"s + std::string(12, '\0');
            record.replace(1, 4, reinterpret_cast<const char*>(&id), 4);  // NOLINT(*-reinterpret-cast)
            EXPECT_EQ(walk(walker, before + record).bytes, before.size()) << id;
        }
    }
}

TEST(RecordWalker, GuessesAndTablesGiveTheSame) {
    RecordWalker walker(ring::kCompactHeader, 0);
    walker.add(event(1, {}));
    walker.add(event(2, {{"_a", integer(16)}}));
    walker.add(event(3, {{"_text", StringClass{}}}));
    const std::array<std::string, 3> kinds = {header(1), header(2) + "ab", header(3) + "text\0"s};
    std::string records;
    std::uint64_t count = 0;
    // Runs of one class, of all lengths up to beyond a stretch; then all classes by turns, and so on.
    for (std::size_t length = 0; length < 700; length += 23) {
        for (std::size_t i = 0; i < length; ++i, ++count) records += kinds[length % 3];
        for (std::size_t i = 0; i < length; ++i, ++count) records += kinds[i % 3];
    }
    const auto walked = walk(walker, records);
    EXPECT_EQ(walked.records, count);
    EXPECT_EQ(walked.bytes, records.size());
    for (const std::size_t cut : {records.size() / 2, records.size() / 3, records.size() - 1})
        EXPECT_LE(cut - walk(walker, records.substr(0, cut)).bytes, 8U);
}

// Many of one class and size, and somewhere among them something else: another class, a long header, a time that is too
// late, the end of the part, or that of the records.
TEST(RecordWalker, ManyAlikeAreWalkedAsOneByOne) {
    RecordWalker walker(ring::kCompactHeader, 2);
    walker.add(event(1, {{"_a", integer(64)}}));
    walker.add(event(2, {{"_a", integer(8)}}));
    const std::array<std::string, 4> others = {header(2) + "cca", header(3),
                                               "\x1f\1\0\0\0\0\0\0\0\0\0\0\0"s + "ccaaaaaaaa", ""};
    std::mt19937_64 random(1);  // NOLINT(bugprone-random-generator-seed): the same each time
    for (int round = 0; round < 300; ++round) {
        std::string records;
        std::uint64_t time = 0;
        for (std::size_t left = random() % 1200; left != 0; --left) {
            if (random() % 2000 == 0) records += others[random() % others.size()];
            time += random() % 4 == 0 ? random() % 1'000'000 : 1;
            const std::uint64_t bits = 1 | time << 5U;
            records.append(reinterpret_cast<const char*>(&bits), 4);  // NOLINT(*-reinterpret-cast)
            records += "ccaaaaaaaa";
        }
        records.resize(records.size() - std::min<std::size_t>(records.size(), random() % 20));
        const std::size_t limit = random() % 2 == 0 ? random() % 20'000 : ~std::size_t{0};
        const RecordWalker::Times times{.previous = 0,
                                        .latest = random() % 2 == 0 ? random() % 300'000'000 : ~std::uint64_t{0}};

        const std::span<const std::byte> bytes = std::as_bytes(std::span(records));
        RecordWalker::Part sum{{0, 0}, times.previous};
        while (true) {
            const auto one = walker.walk_part(bytes.subspan(sum.bytes), 1, {sum.last_timestamp, times.latest});
            if (one.records == 0 || (sum.records != 0 && sum.bytes + one.bytes > limit)) break;
            sum = {{sum.records + one.records, sum.bytes + one.bytes}, one.last_timestamp};
        }
        const auto walked = walker.walk_part(bytes, limit, times);
        ASSERT_EQ(walked.records, sum.records) << round;
        ASSERT_EQ(walked.bytes, sum.bytes) << round;
        ASSERT_EQ(walked.last_timestamp, sum.last_timestamp) << round;
    }
}

// The id that announces a long header may be that of an event, too, which then always has a long one.
TEST(RecordWalker, ManyOfTheIdThatAnnouncesALongHeaderAreNotShort) {
    const auto expect_walked = [](const ring::RecordHeaderLayout& header, const std::string& record) {
        RecordWalker walker(header, 0);
        walker.add(event(header.all_ones(), {{"_a", integer(64)}}));
        std::string records;
        for (int i = 0; i < 1000; ++i) records += record;
        EXPECT_EQ(walk(walker, records).records, 1000U);
        EXPECT_EQ(walk(walker, records).bytes, records.size());
    };
    expect_walked(ring::kCompactHeader, "\x1f\x1f\0\0\0ttttTTTTaaaaaaaa"s);
    expect_walked(ring::kTinyHeader,
                  "\xff\xff\0\0\0"s + std::string(ring::kTinyHeader.extended_size() - 5, 't') + "aaaaaaaa");
    expect_walked(ring::kLargeHeader, "\xff\xff\xff\xff\0\0ttttTTTTaaaaaaaa"s);
}

TEST(RecordWalker, StopsInFrontOfAnUnknownId) {
    RecordWalker walker(ring::kCompactHeader, 0);
    walker.add(event(1, {}));
    walker.add(event(5, {}));
    const auto walked = walk(walker, header(1) + header(3) + header(1));
    EXPECT_EQ(walked.records, 1U);
    EXPECT_EQ(walked.bytes, 4U);
    EXPECT_EQ(walk(walker, header(30)).records, 0U);
    EXPECT_EQ(walk(walker,
                   "\x1f\xff\xff\xff\xff"
                   "ttttTTTT")
                  .records,
              0U);
}

TEST(RecordWalker, TruncatedAnywhereIsNoRecord) {
    RecordWalker walker(ring::kCompactHeader, 3);
    walker.add(event(40, {{"_s", StringClass{}},
                          {"_n", integer(16)},
                          sequence(32),
                          {"_e", EnumClass{.container = integer(8), .ranges = {{"a", 0, 0}}}},
                          {"_t", ArrayClass{FieldClass(integer(16)), 3}}}));
    const std::string whole = "\x1f\x28\0\0\0ttttTTTT"s + "ccc" + "text\0"s + "\2\0"s + "aaaabbbb" + "e" + "112233";
    ASSERT_EQ(walk(walker, whole).bytes, whole.size());
    for (std::size_t size = 0; size < whole.size(); ++size) {
        EXPECT_EQ(walk(walker, whole.substr(0, size)).bytes, 0U) << size << " bytes";
        EXPECT_EQ(walk(walker, whole + whole.substr(0, size)).bytes, whole.size()) << size << " bytes behind it";
    }
}

TEST(RecordWalker, ContextsOfTheApplicationSayHowLargeTheyAre) {
    RecordWalker walker(ring::kCompactHeader, 1, 6);
    walker.add(event(1, {{"_a", integer(16)}}));
    const std::string contexts = "\0"s + "\1aaaaaaaa" + "\2bbbbbbbb" + "\3cccccccc" + "\4text\0"s + "\4\0"s;
    const std::string whole = header(1) + "c" + contexts + "pp";
    ASSERT_EQ(walk(walker, whole + header(1) + "c" + std::string(6, '\0') + "pp").records, 2U);
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_EQ(walk(walker, whole.substr(0, size)).bytes, 0U) << size << " bytes";
    for (const char tag : {'\5', '\x7f', '\xff'})
        EXPECT_EQ(walk(walker, header(1) + "c" + tag + std::string(40, '\0')).bytes, 0U) << "no such tag";
}

TEST(RecordWalker, StringEndsAtItsNul) {
    RecordWalker walker(ring::kCompactHeader, 0);
    walker.add(event(1, {{"_s", StringClass{}}, {"_t", StringClass{}}}));
    EXPECT_EQ(walk(walker, header(1) + "\0\0"s).bytes, 6U);
    EXPECT_EQ(walk(walker, header(1) + "ab\0c\0"s).bytes, 9U);
    EXPECT_EQ(walk(walker, header(1) + "ab\0c"s).bytes, 0U);
}

// Shorter and longer than what is searched at once, with bytes before and behind, and cut anywhere.
TEST(RecordWalker, TextOfAnyLength) {
    RecordWalker walker(ring::kCompactHeader, 3);
    walker.add(event(1, {{"_s", StringClass{}}, {"_a", integer(16)}}));
    for (std::size_t length = 0; length < 70; ++length) {
        const std::string whole = header(1) + "ccc" + std::string(length, 'x') + '\0' + "aa";
        ASSERT_EQ(walk(walker, whole).bytes, whole.size()) << length;
        ASSERT_EQ(walk(walker, whole + whole).records, 2U) << length;
        for (std::size_t size = 0; size < whole.size(); ++size) {
            ASSERT_EQ(walk(walker, whole.substr(0, size)).bytes, 0U) << length << ", " << size << " bytes";
            ASSERT_EQ(walk(walker, whole + whole.substr(0, size)).bytes, whole.size()) << length << ", " << size;
        }
    }
}

// A record is taken for one of the size of the one before.
TEST(RecordWalker, TextsOfOtherLengthsAreNotMissed) {
    RecordWalker walker(ring::kCompactHeader, 0);
    walker.add(event(1, {{"_s", StringClass{}}}));
    const auto record = [](std::size_t length) { return header(1) + std::string(length, 'x') + '\0'; };
    std::string records;
    std::uint64_t count = 0;
    // Texts that stay the same for long, and texts that change each time, for longer than a stretch.
    for (std::size_t length = 0; length < 700; length += 23) {
        for (std::size_t i = 0; i < length; ++i, ++count) records += record(length % 50);
        for (std::size_t i = 0; i < length; ++i, ++count) records += record(i % 50);
    }
    const auto walked = walk(walker, records);
    EXPECT_EQ(walked.records, count);
    EXPECT_EQ(walked.bytes, records.size());
    // Where the text before ended, this one is not over; or it was over before.
    for (const std::size_t other : {3U, 5U, 40U, 60U})
        EXPECT_EQ(walk(walker, record(4) + record(4) + record(other) + record(4)).records, 4U) << other;
    EXPECT_EQ(walk(walker, record(4) + record(4) + header(1) + "xxxxx").records, 2U);
}

TEST(RecordWalker, RecordOfTheSameSizeThatIsCutIsNoRecord) {
    RecordWalker walker(ring::kCompactHeader, 3);
    walker.add(event(1, {{"_a", integer(64)}}));
    const std::string whole = header(1) + "ccc" + "aaaaaaaa";
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_EQ(walk(walker, whole + whole + whole.substr(0, size)).bytes, 2 * whole.size()) << size;
}

TEST(RecordWalker, LengthsOfEverySize) {
    for (const unsigned bits : {8U, 16U, 32U, 64U}) {
        RecordWalker walker(ring::kCompactHeader, 0);
        walker.add(event(1, {{"_n", integer(bits)}, sequence(16)}));
        std::string length(bits / 8, '\0');
        length[0] = 3;
        EXPECT_EQ(walk(walker, header(1) + length + "aabbcc").bytes, 4 + bits / 8 + 6);
        length[0] = 4;
        EXPECT_EQ(walk(walker, header(1) + length + "aabbcc").bytes, 0U);
    }
}

// The product of this length and the element size would wrap to something small.
TEST(RecordWalker, HugeSequenceLengthDoesNotWrap) {
    RecordWalker walker(ring::kCompactHeader, 0);
    walker.add(event(1, {{"_n", integer(64)}, sequence(64)}));
    for (const std::uint64_t length : {~0ULL, 1ULL << 61, (1ULL << 61) + 1, 1ULL << 63}) {
        const std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);  // NOLINT
        EXPECT_EQ(walk(walker, header(1) + bytes + std::string(64, 'x')).bytes, 0U) << length;
    }
}

TEST(RecordWalker, HugeArrayIsNeverThere) {
    RecordWalker walker(ring::kCompactHeader, 0);
    walker.add(event(1, {{"_v", ArrayClass{FieldClass(integer(64)), 0xffff'ffff}}}));
    EXPECT_EQ(walk(walker, header(1) + std::string(100, 'x')).bytes, 0U);
}

}  // namespace
}  // namespace leat::ctf
