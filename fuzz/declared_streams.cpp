// TSDL from a producer, cut into pieces. Where they are cut makes no difference; and what our own reader takes for a
// stream class is one here: otherwise its packets would be kept from viewers until the metadata end.
//
// Input: the size of the pieces, and the text behind its beginning.
#include "relay/store/declared_streams.hpp"

#include <span>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "ctf/metadata/metadata_reader.hpp"
#include "fuzz_input.hpp"

namespace leat::fuzz::declared_streams {
namespace {

relay::DeclaredStreams streams_of(std::string_view text, std::size_t piece) {
    relay::DeclaredStreams streams;
    streams.begin_text();
    for (std::size_t at = 0; at < text.size(); at += piece)
        streams.add(std::as_bytes(std::span(text.substr(at, piece))));
    streams.end_message(text.size());
    return streams;
}

void run(FuzzInput input) {
    const std::size_t piece = 1 + input.take<std::uint8_t>();
    std::string text = "/* CTF 1.8";
    for (const std::byte byte : input.take_rest()) text += static_cast<char>(byte);
    const relay::DeclaredStreams whole = streams_of(text, text.size());
    const relay::DeclaredStreams pieces = streams_of(text, piece);
    constexpr std::uint64_t kIds = 16;
    for (std::uint64_t id = 0; id < kIds; ++id) LEAT_CHECK(whole.has(id, text.size()) == pieces.has(id, text.size()));
    LEAT_CHECK(whole.has_any(text.size()) == pieces.has_any(text.size()));
    const auto trace_class = ctf::parse_metadata(text);
    if (!trace_class) return;
    for (const ctf::StreamClass& stream : trace_class->streams) {
        LEAT_CHECK(pieces.has(stream.id, text.size()));
        LEAT_CHECK(pieces.has_any(text.size()));
    }
}

}  // namespace

LEAT_FUZZ_TARGET(declared_streams) {
    run(FuzzInput(data, size));
    return 0;
}

}  // namespace leat::fuzz::declared_streams
