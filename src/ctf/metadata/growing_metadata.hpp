#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"

namespace leat::ctf {

// Metadata that arrives in pieces, cut anywhere: packets of text, or the text itself, which is TSDL or the fragments of
// CTF 2. text() shows only whole declarations from whole packets.
class GrowingMetadata {
  public:
    Result<void> append(UntrustedBytes bytes);

    // The whole declarations so far. They can be parsed.
    [[nodiscard]] std::string_view text() const { return std::string_view(text_).substr(0, whole_size_); }
    // Bytes appended so far.
    [[nodiscard]] std::size_t size() const { return size_; }

  private:
    enum class Form { kUnknown, kText, kPackets };
    enum class State { kPlain, kSlash, kBlockComment, kBlockCommentStar, kLineComment, kString, kCharacter };

    Result<void> recognize();
    Result<void> take_packets();
    void take_text(std::string_view text);
    [[nodiscard]] bool is_end_of_declaration(State before, char character) const;
    void scan(char character);
    void scan_plain(char character);

    Form form_ = Form::kUnknown;
    std::string pending_;  // the beginning of a packet
    std::string text_;
    std::size_t size_ = 0;

    // The scan for ends of declarations: how far it is, and its state.
    std::size_t whole_size_ = 0;
    State state_ = State::kPlain;
    bool is_escaped_ = false;
    bool is_json_ = false;
    std::size_t depth_ = 0;  // of braces
};

}  // namespace leat::ctf
