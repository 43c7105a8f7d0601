#include "relay/store/metadata_scan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace leat::relay {
namespace {

std::string packets_of(std::string_view text) {
    const ctf::MetadataPackets packets = ctf::packetize_metadata(text, ctf::Uuid{});
    std::string bytes(reinterpret_cast<const char*>(packets.bytes.data()), packets.bytes.size());
    return bytes + std::string(packets.padding_size, '\0');
}

UntrustedBytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::uint64_t text_in(const std::string& bytes, std::size_t piece) {
    MetadataScan scan;
    for (std::size_t at = 0; at < bytes.size(); at += piece) scan.add(bytes_of(bytes.substr(at, piece)));
    EXPECT_EQ(scan.bytes(), bytes.size());
    return scan.text();
}

TEST(MetadataScan, CountsTextAndNotWhatCarriesIt) {
    const std::string text(10'000, 'x');
    for (const std::size_t piece : {1U, 36U, 37U, 4096U, 100'000U}) {
        EXPECT_EQ(text_in("/* CTF 1.8 */" + text, piece), 13U + text.size());
        EXPECT_EQ(text_in(packets_of(text), piece), text.size());
        EXPECT_EQ(text_in(packets_of("a") + packets_of(text) + packets_of("b"), piece), text.size() + 2);
    }
}

TEST(MetadataScan, WhatIsNoPacketIsPlain) {
    std::string wrong = packets_of("text");
    wrong[24] = 1;  // bits
    for (const std::size_t piece : {1U, 40U, 5000U}) {
        EXPECT_EQ(text_in(wrong, piece), wrong.size());
        EXPECT_EQ(text_in(packets_of("text") + "rest", piece), 8U);
        EXPECT_EQ(text_in("", piece), 0U);
        EXPECT_EQ(text_in(packets_of("text").substr(0, 20), piece), 0U) << "half a header is nothing yet";
    }
}

TEST(MetadataScan, RestOfAPacketIsAPacket) {
    const std::string bytes = packets_of("first") + packets_of("second");
    MetadataScan scan;
    const std::size_t taken = scan.add(bytes_of(bytes), 8);
    ASSERT_EQ(scan.text(), 8U);
    EXPECT_FALSE(scan.is_at_first_text());
    EXPECT_EQ(taken, ctf::kMetadataPacketSize + ctf::kMetadataPacketHeaderSize + 3);
    const MetadataScan::Header header = scan.header_of_rest();
    std::string rest(reinterpret_cast<const char*>(header.data()), header.size());
    rest += bytes.substr(taken, scan.packet_left());
    EXPECT_EQ(text_in(rest, 1), 3U);
    EXPECT_EQ(rest.substr(header.size(), 3), "ond");
    EXPECT_EQ(rest.size(), ctf::kMetadataPacketSize - 3);
}

// Whatever the sizes of pieces: what is behind the last whole packet does not count any more.
TEST(MetadataScan, GoesBackToWhereAPacketBegins) {
    const std::string bytes = packets_of("first") + packets_of("second");
    for (std::size_t size = 0; size <= bytes.size(); ++size) {
        MetadataScan scan;
        scan.add(bytes_of(bytes).first(size));
        const std::size_t packets = size / ctf::kMetadataPacketSize;
        ASSERT_EQ(scan.whole_bytes(), packets * ctf::kMetadataPacketSize) << size;
        scan.go_back();
        ASSERT_EQ(scan.bytes(), scan.whole_bytes());
        ASSERT_EQ(scan.text(), packets == 0 ? 0U : packets == 1 ? 5U : 11U) << size;
        scan.add(bytes_of(bytes).subspan(static_cast<std::size_t>(scan.bytes())));
        ASSERT_EQ(scan.text(), 11U) << size;
    }
}

TEST(MetadataScan, PlainTextIsWholeAnywhere) {
    MetadataScan scan;
    scan.add(bytes_of("/* CTF"));
    EXPECT_EQ(scan.whole_bytes(), 6U);
    scan.go_back();
    EXPECT_EQ(scan.text(), 6U);
}

TEST(MetadataScan, PacketsOfTheOtherByteOrder) {
    std::string bytes = packets_of("text") + packets_of("more");
    for (const std::size_t packet : {std::size_t{0}, ctf::kMetadataPacketSize})
        for (const std::size_t number : {0U, 24U, 28U}) {
            const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(packet + number);
            std::reverse(begin, begin + 4);
        }
    for (const std::size_t piece : {1U, 5000U}) EXPECT_EQ(text_in(bytes, piece), 8U);
    MetadataScan scan;
    const std::size_t taken = scan.add(bytes_of(bytes), 6);
    const MetadataScan::Header header = scan.header_of_rest();
    std::string rest(reinterpret_cast<const char*>(header.data()), header.size());
    EXPECT_EQ(text_in(rest + bytes.substr(taken), 1), 2U);
}

// Sizes that packets claim are only counted down.
TEST(MetadataScan, PacketThatClaimsMoreThanComes) {
    std::string bytes = packets_of("text").substr(0, ctf::kMetadataPacketHeaderSize);
    bytes.replace(24, 8, "\xf8\xff\xff\xff\xf8\xff\xff\xff");
    MetadataScan scan;
    scan.add(bytes_of(bytes));
    scan.add(bytes_of(packets_of("more")));
    EXPECT_EQ(scan.text(), ctf::kMetadataPacketSize);
    EXPECT_EQ(scan.whole_bytes(), 0U);
    EXPECT_EQ(scan.packet_left(), 0xffff'fff8U / 8 - ctf::kMetadataPacketHeaderSize - ctf::kMetadataPacketSize);
}

TEST(MetadataScan, StopsInFrontOfTheTextThatFollows) {
    const std::string bytes = packets_of("first") + packets_of("second");
    MetadataScan scan;
    EXPECT_EQ(scan.add(bytes_of(bytes), 5), ctf::kMetadataPacketSize + ctf::kMetadataPacketHeaderSize);
    EXPECT_TRUE(scan.is_at_first_text());
    EXPECT_EQ(scan.text(), 5U);
}

}  // namespace
}  // namespace leat::relay
