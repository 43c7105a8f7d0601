// The hostile metadata of a trace: the packets of its stream, TSDL or the JSON of CTF 2, and the plans made from it. It
// is read as a whole and in pieces.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "ctf/decode/decode_plan.hpp"
#include "ctf/metadata/growing_metadata.hpp"
#include "ctf/metadata/metadata_reader.hpp"
#include "ctf/metadata/metadata_stream.hpp"
#include "fuzz_input.hpp"

namespace leat::fuzz::metadata {
namespace {

void read_metadata(leat::UntrustedBytes bytes) {
    const auto text = leat::ctf::parse_metadata_stream(bytes);
    if (!text) return;
    const auto trace_class = leat::ctf::parse_metadata(*text);
    if (!trace_class) return;
    for (const leat::ctf::StreamClass& stream : trace_class->streams)
        static_cast<void>(leat::ctf::make_decode_plan(*trace_class, stream));
}

// Reads it as a live viewer does: plans are made between the pieces, and grow.
void read_pieces(leat::UntrustedBytes bytes) {
    constexpr std::size_t kPieces = 4;
    leat::ctf::GrowingMetadata growing;
    leat::ctf::MetadataReader reader;
    std::map<std::uint64_t, std::unique_ptr<leat::ctf::DecodePlanner>> planners;
    std::optional<leat::ctf::TraceIndex> index;
    for (std::size_t i = 0; i < kPieces; ++i) {
        const std::size_t begin = bytes.size() * i / kPieces;
        if (!growing.append(bytes.subspan(begin, bytes.size() * (i + 1) / kPieces - begin))) return;
        static_cast<void>(reader.read(growing.text()));
        const leat::ctf::TraceClass* const trace_class = reader.trace_class();
        if (trace_class == nullptr) continue;
        if (!index) index.emplace(*trace_class);
        for (const leat::ctf::StreamClass& stream : trace_class->streams) {
            auto& planner = planners[stream.id];
            if (planner == nullptr) planner = std::make_unique<leat::ctf::DecodePlanner>(*trace_class, stream);
            static_cast<void>(planner->grow(*index));
        }
    }
}

}  // namespace

LEAT_FUZZ_TARGET(metadata) {
    read_metadata(std::as_bytes(std::span(data, size)));
    read_pieces(std::as_bytes(std::span(data, size)));
    return 0;
}

}  // namespace leat::fuzz::metadata
