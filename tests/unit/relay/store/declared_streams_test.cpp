#include "relay/store/declared_streams.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace leat::relay {
namespace {

constexpr std::uint64_t kEnd = 1000;

DeclaredStreams streams_of(std::string_view text, std::size_t piece = 1) {
    DeclaredStreams streams;
    streams.begin_text();
    for (std::size_t at = 0; at < text.size(); at += piece)
        streams.add(std::as_bytes(std::span(text.substr(at, piece))));
    streams.end_message(kEnd);
    return streams;
}

// Which of 0 to 9 are declared.
std::string ids_in(std::string_view text, std::size_t piece = 1) {
    const DeclaredStreams streams = streams_of(text, piece);
    std::string found;
    for (std::uint64_t id = 0; id < 10; ++id)
        if (streams.has(id, kEnd)) found += std::to_string(id);
    EXPECT_EQ(streams.has_any(kEnd), !found.empty()) << text;
    return found;
}

TEST(DeclaredStreams, AreThoseOfTheText) {
    for (const std::size_t piece : {1U, 3U, 1000U}) {
        EXPECT_EQ(ids_in("/* CTF 1.8 */ trace { major = 1; }; env { stream = \"x\"; };", piece), "");
        EXPECT_EQ(ids_in("/* CTF 1.8 */\nstream {\n\tid = 0;\n\tevent.header := struct h;\n};", piece), "0");
        EXPECT_EQ(ids_in("/* CTF 1.8 */ stream{id=3;}; event { stream_id = 5; }; stream { id = 7; };", piece), "37");
        EXPECT_EQ(
            ids_in("/* CTF 1.8 */ /* stream { id = 1; } */ // stream { id = 2; }\nstream /**/ { id = 4; };", piece),
            "4");
        EXPECT_EQ(ids_in("/* CTF 1.8 */ stream { id = ", piece), "") << "half a declaration";
        EXPECT_EQ(
            ids_in(R"(/* CTF 1.8 */ env { a = "*/*"; b = "\"/* // stream { id = 1; }"; }; stream { id = 2; };)", piece),
            "2");
        EXPECT_EQ(ids_in("/* CTF 1.8 */ streams { id = 1; }; x_stream { id = 2; }; stream.event { id = 3; };", piece),
                  "");
        EXPECT_EQ(ids_in("/* CTF 1.8 */ env/**/stream/**/{/**/id/**/=/**/6/**/;/**/}", piece), "6");
    }
}

TEST(DeclaredStreams, WhateverIsOfAnotherFormCounts) {
    const std::string all = "0123456789";
    EXPECT_EQ(ids_in("[{\"type\": \"preamble\"}]"), all);
    EXPECT_EQ(ids_in("/* CTF 1.8 */ stream { event.header := struct h; id = 1; };"), all);
    EXPECT_EQ(ids_in("/* CTF 1.8 */ stream { id = 0x3; };"), all);
    EXPECT_EQ(ids_in("/* CTF 1.8 */ stream { id = 011; };"), all) << "an octal number";
    EXPECT_EQ(ids_in("/* CTF 1.8 */ stream { id = 99999999999999999999999999; };"), all);
}

TEST(DeclaredStreams, CountFromTheirMessageOn) {
    DeclaredStreams streams = streams_of("/* CTF 1.8 */ stream { id = 1; };");
    EXPECT_FALSE(streams.has(1, kEnd - 1));
    EXPECT_FALSE(streams.has_any(kEnd - 1));
    const std::string_view next = "stream { id = 2; };";
    streams.add(std::as_bytes(std::span(next)));
    EXPECT_FALSE(streams.has(2, 2 * kEnd)) << "its message is not whole";
    streams.end_message(2 * kEnd);
    EXPECT_TRUE(streams.has(2, 2 * kEnd));
    EXPECT_FALSE(streams.has(2, kEnd));
    EXPECT_TRUE(streams.has(1, kEnd));
}

TEST(DeclaredStreams, StayWhereTheTextComesAgain) {
    DeclaredStreams streams = streams_of("/* CTF 1.8 */ stream { id = 1; };");
    streams.begin_text();
    EXPECT_FALSE(streams.has(7, kEnd)) << "it was not there before";
    const std::string_view begin = "/* CTF 1.8 */";
    streams.add(std::as_bytes(std::span(begin)));
    streams.end_message(begin.size());
    EXPECT_FALSE(streams.has_any(begin.size()));
    EXPECT_TRUE(streams.has(1, kEnd));
    EXPECT_FALSE(streams.has(7, kEnd));
}

TEST(DeclaredStreams, ThereMayBeNoTextYet) {
    EXPECT_TRUE(DeclaredStreams().has(0, 0));
    EXPECT_FALSE(DeclaredStreams().has_any(0));
}

TEST(DeclaredStreams, AreManyAtMost) {
    std::string text = "/* CTF 1.8 */";
    for (int id = 0; id < 5000; ++id) text += "stream{id=" + std::to_string(id) + ";};";
    EXPECT_TRUE(streams_of(text, text.size()).has(1'000'000, kEnd));
}

}  // namespace
}  // namespace leat::relay
