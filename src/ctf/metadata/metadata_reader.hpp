#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "ctf/json/json_metadata.hpp"
#include "ctf/model/trace_class.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"

namespace leat::ctf {

// Reads the text of a metadata stream that may grow, in either of its languages: TSDL, or the fragments of CTF 2.
class MetadataReader {
  public:
    // `text` is the whole text so far. It begins with the text of the last call and ends with a whole declaration.
    // After an error, what was declared before it remains, and every later call fails too.
    Result<void> read(std::string_view text) {
        is_json_ = text.starts_with(kFragmentBegin);
        return is_json_ ? json_.read(text) : tsdl_.read(text);
    }

    // Null until it is known what a packet begins with.
    [[nodiscard]] const TraceClass* trace_class() const { return is_json_ ? json_.trace_class() : tsdl_.trace_class(); }

    // A measure of the work.
    [[nodiscard]] std::uint64_t parts_read() const { return tsdl_.tokens_read() + json_.fragments_read(); }

  private:
    bool is_json_ = false;
    TsdlReader tsdl_;
    JsonMetadataReader json_;
};

// Reads a whole text.
inline Result<TraceClass> parse_metadata(std::string_view text) {
    return text.starts_with(kFragmentBegin) ? parse_json_metadata(text) : parse_tsdl(text);
}

}  // namespace leat::ctf
