#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/byte_cursor.hpp"

namespace leat::relay {

// Which stream classes the text of a trace declares ([CTF-1.8], section 7.3.4), as it comes in messages. LTTng sends
// packets without events before it has declared what they are of, and babeltrace2 fails where it is shown one; nor does
// it take a trace well whose first text declares no stream.
//
//     stream {  id = 0 ;     whole words; space and comments may be between them
//
// A stream class that does not begin so, or a text that does not begin as TSDL does: then everything counts as
// declared.
class DeclaredStreams {
  public:
    // It comes from its beginning. What was declared stays so: the same text comes again.
    void begin_text();
    void add(UntrustedBytes text);
    // All that was added belongs to whole messages, up to this position of the text.
    void end_message(std::uint64_t position);

    // By the text up to this position.
    [[nodiscard]] bool has(std::uint64_t stream_class_id, std::uint64_t position) const;
    [[nodiscard]] bool has_any(std::uint64_t position) const;

  private:
    enum class After : std::uint8_t { kNothing, kStream, kBrace, kId, kEquals };
    // Where there is something else than TSDL's words and signs.
    enum class Aside : std::uint8_t { kNone, kSlash, kBlockComment, kBlockStar, kLineComment, kString, kEscape };

    void take(char c);
    bool is_aside(char c);
    void end_word();
    void take_sign(char c);
    void go_back();

    bool has_text_ = false;
    bool is_unknown_ = false;  // what it declares
    std::string begin_{};      // the first bytes
    Aside aside_ = Aside::kNone;
    After after_ = After::kNothing;
    std::string word_{};  // that is not over
    std::vector<std::uint64_t> new_{};
    std::map<std::uint64_t, std::uint64_t> positions_{};  // by id: where it is declared for certain
};

}  // namespace leat::relay
