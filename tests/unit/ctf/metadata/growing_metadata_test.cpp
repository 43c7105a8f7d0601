#include "ctf/metadata/growing_metadata.hpp"

#include <gtest/gtest.h>

#include <string>

namespace leat::ctf {
namespace {

using namespace std::string_literals;

const std::string kText =
    "/* CTF 1.8; { */\ntrace { a = \"};\\\"\"; };\n// };\nevent { id = 0; c = ';'; };\nevent { id = 1; };";

UntrustedBytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// A little-endian packet with padding after its text.
std::string packet(const std::string& text) {
    const auto u32 = [](std::size_t value) {
        std::string bytes;
        for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift);
        return bytes;
    };
    const std::size_t content = 37 + text.size();
    return "\x57\x1d\xd1\x75"s + std::string(16, 'u') + u32(0) + u32(content * 8) + u32((content + 11) * 8) +
           "\0\0\0\1\x08"s + text + std::string(11, '\0');
}

const std::string kJson = "\x1e{\"a\":\"}\\\"{ // '\"}\n\x1e{\"b\":{\"c\":[{}]}}\x1e{}";

// Expects that any beginning of these bytes shows exactly the declarations of the text that are whole in it.
void expect_whole_declarations(const std::string& bytes, const std::string& text = kText) {
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
        GrowingMetadata metadata;
        ASSERT_TRUE(metadata.append(bytes_of(std::string_view(bytes).substr(0, cut))));
        const std::string first(metadata.text());
        EXPECT_TRUE(text.starts_with(first));
        EXPECT_TRUE(first.empty() || first.ends_with(text == kText ? "};" : "}")) << first;
        ASSERT_TRUE(metadata.append(bytes_of(std::string_view(bytes).substr(cut))));
        EXPECT_EQ(metadata.text(), text) << "cut at " << cut;
        EXPECT_EQ(metadata.size(), bytes.size());
    }
}

TEST(GrowingMetadata, TextCutAnywhereShowsWholeDeclarations) { expect_whole_declarations(kText); }

TEST(GrowingMetadata, FragmentsOfCtf2CutAnywhereAreShownWhole) {
    expect_whole_declarations(kJson, kJson);
    expect_whole_declarations(packet(kJson.substr(0, 9)) + packet(kJson.substr(9)), kJson);
    GrowingMetadata metadata;
    ASSERT_TRUE(metadata.append(bytes_of(kJson.substr(0, kJson.size() - 5))));
    EXPECT_EQ(metadata.text(), kJson.substr(0, kJson.find('\n')));
}

TEST(GrowingMetadata, PacketsCutAnywhereShowWholeDeclarations) { expect_whole_declarations(packet(kText)); }

TEST(GrowingMetadata, DeclarationMayStraddlePackets) {
    expect_whole_declarations(packet(kText.substr(0, 40)) + packet(kText.substr(40)));
}

TEST(GrowingMetadata, ByteByByteIsTheSame) {
    GrowingMetadata metadata;
    for (const char byte : packet(kText)) ASSERT_TRUE(metadata.append(bytes_of({&byte, 1})));
    EXPECT_EQ(metadata.text(), kText);
}

TEST(GrowingMetadata, OtherBytesAreRefused) {
    EXPECT_FALSE(GrowingMetadata().append(bytes_of("x{}{}")));
    EXPECT_FALSE(GrowingMetadata().append(bytes_of(packet("").replace(28, 4, std::string(4, '\0')))));
    EXPECT_FALSE(GrowingMetadata().append(bytes_of(packet("a") + std::string(40, 'x'))));
}

}  // namespace
}  // namespace leat::ctf
