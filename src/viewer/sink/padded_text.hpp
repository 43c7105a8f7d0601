#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace leat::viewer {

// Texts that are written often are copied in whole pieces, which needs no call. So both sides have as many bytes behind
// the text; those of the copy are overwritten by what comes next.
inline constexpr std::size_t kTextPiece = 16;

// Returns the end of the copy.
inline char* write_in_pieces(char* at, const char* text, std::size_t size) {
    for (std::size_t done = 0; done < size; done += kTextPiece) std::memcpy(at + done, text + done, kTextPiece);
    return at + size;
}

class PaddedText {
  public:
    PaddedText() : PaddedText(std::string_view()) {}
    explicit PaddedText(std::string_view text) : text_(text), size_(text.size()) { text_.append(kTextPiece, '\0'); }

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::string_view text() const { return std::string_view(text_).substr(0, size_); }
    // There must be room for it and kTextPiece more. Returns its end.
    char* write(char* at) const { return write_in_pieces(at, text_.data(), size_); }

  private:
    std::string text_;
    std::size_t size_;
};

// A copy of a text, if that is short. Of many that are used in turn, each in memory of its own takes longer to fetch
// than to copy.
class ShortText {
  public:
    static constexpr std::size_t kMostSize = 48;

    ShortText() = default;
    explicit ShortText(std::string_view text) {
        if (text.size() > kMostSize) return;
        size_ = static_cast<std::uint32_t>(text.size());
        std::ranges::copy(text, text_.begin());
    }

    // Empty, too, if it was too long.
    [[nodiscard]] bool is_empty() const { return size_ == 0; }
    // As PaddedText::write().
    char* write(char* at) const { return write_in_pieces(at, text_.data(), size_); }

  private:
    std::uint32_t size_ = 0;
    std::array<char, kMostSize> text_{};
    static_assert(kMostSize % kTextPiece == 0);
};

}  // namespace leat::viewer
