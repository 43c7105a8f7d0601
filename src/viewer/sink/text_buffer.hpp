#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "viewer/sink/decimal_text.hpp"
#include "viewer/sink/padded_text.hpp"

namespace leat::viewer {

// Text on its way to a file descriptor, in large writes.
class TextBuffer {
  public:
    explicit TextBuffer(int fd) : fd_(fd) {}

    void append(std::string_view text) {
        if (text.size() > capacity_ - size_) grow(text.size());
        if (!text.empty()) std::memcpy(text_.get() + size_, text.data(), text.size());
        size_ += text.size();
    }
    void append(const PaddedText& text) { set_end(text.write(reserve(text.size() + kTextPiece))); }
    // Room for so many more characters. What was written there counts from set_end() on.
    char* reserve(std::size_t size) {
        if (size > capacity_ - size_) grow(size);
        return text_.get() + size_;
    }
    void set_end(const char* end) { size_ = static_cast<std::size_t>(end - text_.get()); }
    void append(char character) { append(std::string_view(&character, 1)); }
    void append_number(std::uint64_t number) { set_end(write_decimal(reserve(kMaxDecimalSize), number)); }
    void append_number(std::int64_t number) { set_end(write_decimal(reserve(kMaxDecimalSize), number)); }

    void set_fd(int fd) { fd_ = fd; }

    // Writes the text if enough has gathered. Once that has failed, it fails again each time: what was not written is
    // missing in the middle.
    Result<void> flush_if_full() { return size_ < kFlushSize ? Result<void>() : flush(); }
    Result<void> flush();
    // For what is said beside the result: that it cannot be written changes nothing.
    void flush_if_possible() {
        (void)flush();
        failure_.reset();
    }

    // Whether the reader is gone, as in `leat view | head`. That is not an error: text is then dropped.
    [[nodiscard]] bool is_closed() const { return is_closed_; }

    [[nodiscard]] std::string_view text() const { return {text_.get(), size_}; }
    void clear() { size_ = 0; }
    // Takes back what was appended since it had so many characters.
    void cut(std::size_t size) { size_ = size; }
    [[nodiscard]] std::size_t capacity() const { return capacity_; }

  private:
    static constexpr std::size_t kFlushSize = 256U << 10U;

    void grow(std::size_t needed);

    int fd_;
    bool is_closed_ = false;
    std::optional<Error> failure_{};
    std::unique_ptr<char[]> text_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace leat::viewer
