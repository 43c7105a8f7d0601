#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace leat::viewer {

// Text on its way to a file descriptor, in large writes.
class TextBuffer {
  public:
    explicit TextBuffer(int fd) : fd_(fd) {}

    void append(std::string_view text) { text_.append(text.data(), text.data() + text.size()); }
    void append(char character) { text_.push_back(character); }
    void append_number(std::uint64_t number) { append_formatted(fmt::format_int(number)); }
    void append_number(std::int64_t number) { append_formatted(fmt::format_int(number)); }

    // Writes if much has gathered.
    Result<void> flush_if_full() { return text_.size() < kFlushSize ? Result<void>() : flush(); }
    Result<void> flush();

    // Whether nobody reads any more, as in `leat view | head`. That is no error: what is written is dropped.
    [[nodiscard]] bool is_closed() const { return is_closed_; }

    [[nodiscard]] std::string_view text() const { return {text_.data(), text_.size()}; }
    void clear() { text_.clear(); }

  private:
    static constexpr std::size_t kFlushSize = 256U << 10U;

    void append_formatted(const fmt::format_int& number) { text_.append(number.data(), number.data() + number.size()); }

    int fd_;
    bool is_closed_ = false;
    fmt::memory_buffer text_;
};

}  // namespace leat::viewer
