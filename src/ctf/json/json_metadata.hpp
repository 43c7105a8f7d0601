#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

class JsonMetadataParser;

// What each fragment begins with: a record separator (RFC 7464, section 2.1).
inline constexpr char kFragmentBegin = '\x1e';

// Reads the metadata of CTF 2: JSON objects, one for each class ([CTF-2], "Metadata stream"). The text may grow: each
// fragment is read once, and what it declares stays where it is.
//
// The text may be hostile: memory stays below a few hundred MiB, recursion below a fixed depth, and time grows with the
// size of the text. Errors name the fragment, where in it, what was expected and what was found.
class JsonMetadataReader {
  public:
    JsonMetadataReader();
    ~JsonMetadataReader();
    JsonMetadataReader(const JsonMetadataReader&) = delete;
    JsonMetadataReader& operator=(const JsonMetadataReader&) = delete;

    // `text` is the whole text so far. It begins with the text of the last call and ends with a whole fragment. After
    // an error, what was declared before it remains, and every later call fails too.
    Result<void> read(std::string_view text);

    // Null until it is known what a packet begins with.
    [[nodiscard]] const TraceClass* trace_class() const;

    // A measure of the work.
    [[nodiscard]] std::uint64_t fragments_read() const;

  private:
    std::unique_ptr<JsonMetadataParser> parser_;
    std::size_t read_size_ = 0;
    std::optional<Error> failure_;
};

// Reads a whole text with a JsonMetadataReader.
Result<TraceClass> parse_json_metadata(std::string_view text);

}  // namespace leat::ctf
