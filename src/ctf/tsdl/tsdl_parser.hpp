#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

class TsdlParser;

// Reads TSDL, the metadata language of CTF ([CTF-1.8], section 7), with the whole of its grammar: what any tracer
// wrote. The text may grow: each declaration is read once, and what it declares stays where it is.
//
// The text may be hostile: memory stays below a few hundred MiB, recursion below a fixed depth, and time grows with the
// size of the text. Errors name the line, what was expected and what was found.
class TsdlReader {
  public:
    TsdlReader();
    ~TsdlReader();
    TsdlReader(const TsdlReader&) = delete;
    TsdlReader& operator=(const TsdlReader&) = delete;

    // `text` is the whole text so far. It begins with the text of the last call and ends with a whole declaration.
    // After an error, what was declared before it remains, and every later call fails too.
    Result<void> read(std::string_view text);

    // Null until the text has a trace block. Types may precede it, and it states their byte order.
    [[nodiscard]] const TraceClass* trace_class() const;

    // A measure of the work.
    [[nodiscard]] std::uint64_t tokens_read() const;

  private:
    Result<void> read_more(std::string_view text);

    std::unique_ptr<TsdlParser> parser_;
    std::size_t searched_size_ = 0;  // how far the trace block was searched for
    std::size_t read_size_ = 0;
    std::uint64_t tokens_searched_ = 0;
    std::optional<Error> failure_;
};

// Reads a whole text with a TsdlReader.
Result<TraceClass> parse_tsdl(std::string_view text);

}  // namespace leat::ctf
