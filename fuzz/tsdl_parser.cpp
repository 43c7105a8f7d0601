// The metadata of a trace, hostile: the stream's packets, TSDL, and the plans that are made of it.
#include "ctf/tsdl_parser.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

#include "ctf/decode_plan.hpp"
#include "ctf/metadata.hpp"

namespace {

void read_metadata(leat::UntrustedBytes bytes) {
    const auto text = leat::ctf::parse_metadata_stream(bytes);
    if (!text) return;
    const auto trace_class = leat::ctf::parse_tsdl(*text);
    if (!trace_class) return;
    for (const leat::ctf::StreamClass& stream : trace_class->streams)
        static_cast<void>(leat::ctf::make_decode_plan(*trace_class, stream));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    read_metadata(std::as_bytes(std::span(data, size)));
    return 0;
}
