#include "ctf/metadata/metadata_stream.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>

namespace leat::ctf {
namespace {

Result<std::string> parse(const std::string& bytes) { return parse_metadata_stream(std::as_bytes(std::span(bytes))); }

std::string u32(std::uint32_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

// A packet with `padding` bytes after its text.
std::string packet(const std::string& text, std::size_t padding = 0) {
    const auto content = static_cast<std::uint32_t>((37 + text.size()) * 8);
    const auto size = content + static_cast<std::uint32_t>(padding * 8);
    return u32(0x75D11D57) + std::string(16, 'u') + u32(0) + u32(content) + u32(size) + std::string(3, '\0') + "\1\10" +
           text + std::string(padding, '\0');
}

TEST(Metadata, PlainTextIsItself) { EXPECT_EQ(parse("/* CTF 1.8 */ trace").value(), "/* CTF 1.8 */ trace"); }

TEST(Metadata, PacketsMayCutTheTextAnywhere) {
    EXPECT_EQ(parse(packet("/* CTF 1.", 5) + packet("8 */ tra") + packet("ce")).value(), "/* CTF 1.8 */ trace");
}

TEST(Metadata, TextWithoutSignatureIsRefused) {
    EXPECT_EQ(parse("trace {};").error().kind, ErrorKind::kCorrupt);
    EXPECT_EQ(parse("").error().kind, ErrorKind::kCorrupt);
}

TEST(Metadata, FragmentsOfCtf2AreText) {
    const std::string text = "\x1e{\"type\":\"preamble\",\"version\":2}";
    EXPECT_EQ(parse(text).value(), text);
}

// LTTng's packets have the header of CTF 1.8. That of CTF2-PMETA-1.0 is longer, and says so.
TEST(Metadata, PacketsOfCtf2MayHaveEitherHeader) {
    const std::string text = "\x1e{\"type\":\"preamble\",\"version\":2}";
    std::string short_header = packet(text, 3);
    short_header.replace(35, 2, std::string("\2\0", 2));
    EXPECT_EQ(parse(short_header + short_header).value(), text + text);
    std::string full_header = packet(std::string(3, '\0') + u32(44 * 8) + text, 3);
    full_header.replace(35, 2, std::string("\2\0", 2));
    EXPECT_EQ(parse(full_header).value(), text);
    std::string unknown = packet(text);
    unknown.replace(35, 2, std::string("\2\1", 2));
    EXPECT_EQ(parse(unknown).error().kind, ErrorKind::kUnsupported);
}

TEST(Metadata, TruncatedPacketNamesItsOffset) {
    const std::string whole = packet("/* CTF 1.8 */");
    for (std::size_t size = 1; size < whole.size(); ++size) {
        const auto text = parse(whole + whole.substr(0, size));
        ASSERT_FALSE(text) << size;
        EXPECT_NE(text.error().message.find(fmt::format("offset {}", whole.size())), std::string::npos);
    }
}

TEST(Metadata, LastPacketMayLackPadding) {
    const std::string whole = packet("/* CTF 1.8 */ trace", 100);
    for (const std::size_t missing : {1, 50, 100})
        EXPECT_EQ(parse(whole.substr(0, whole.size() - missing)).value(), "/* CTF 1.8 */ trace") << missing;
    EXPECT_FALSE(parse(whole.substr(0, whole.size() - 101)));
}

TEST(Metadata, ImpossibleSizesAreRefused) {
    std::string small = packet("text");
    std::memcpy(small.data() + 24, u32(8).data(), 4);
    EXPECT_FALSE(parse(small));
    std::string empty = packet("text");
    std::memcpy(empty.data() + 28, u32(0).data(), 4);
    EXPECT_FALSE(parse(empty));
}

TEST(Metadata, ChecksumIsUnsupported) {
    std::string summed = packet("/* CTF 1.8 */");
    summed[20] = 1;
    EXPECT_EQ(parse(summed).error().kind, ErrorKind::kUnsupported);
}

TEST(Metadata, PacketsOfTwoUuidsAreRefused) {
    std::string other = packet("trace");
    other[4] = 'v';
    EXPECT_NE(parse(packet("/* CTF 1.8 */") + other).error().message.find("another UUID"), std::string::npos);
}

TEST(Metadata, CompressedPacketIsUnsupported) {
    std::string compressed = packet("text");
    compressed[32] = 1;
    EXPECT_EQ(parse(compressed).error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace leat::ctf
