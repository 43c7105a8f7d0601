#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"

namespace leat::ctf {

// Metadata that arrives piece by piece, cut anywhere: packets of TSDL text, or the text itself. Nothing is shown of a
// packet or a declaration that is not whole.
class GrowingMetadata {
  public:
    Result<void> append(UntrustedBytes bytes);

    // All declarations that are whole; they can be parsed.
    [[nodiscard]] std::string_view text() const { return std::string_view(text_).substr(0, whole_size_); }
    // Of what was appended.
    [[nodiscard]] std::size_t size() const { return size_; }

  private:
    enum class Form { kUnknown, kText, kPackets };
    enum class State { kPlain, kSlash, kBlockComment, kBlockCommentStar, kLineComment, kString, kCharacter };

    Result<void> recognize();
    Result<void> take_packets();
    void take_text(std::string_view text);
    void scan(char character);
    void scan_plain(char character);

    Form form_ = Form::kUnknown;
    std::string pending_;  // the beginning of a packet
    std::string text_;
    std::size_t size_ = 0;

    // Where the scan for ends of declarations stands.
    std::size_t whole_size_ = 0;
    State state_ = State::kPlain;
    bool is_escaped_ = false;
    std::size_t depth_ = 0;  // of braces
};

}  // namespace leat::ctf
