#include "viewer/sink/text_buffer.hpp"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "base/file.hpp"

namespace leat::viewer {

Result<void> TextBuffer::flush() {
    const std::string_view pending = text();
    clear();
    if (failure_) return tl::unexpected(*failure_);
    if (pending.empty() || is_closed_) return {};
    errno = 0;
    auto written = write_all(fd_, std::as_bytes(std::span(pending)), WhenFull::kWait);
    is_closed_ = !written && errno == EPIPE;
    if (!written && !is_closed_) {
        failure_ = std::move(written).error();
        return tl::unexpected(*failure_);
    }
    return {};
}

void TextBuffer::grow(std::size_t needed) {
    constexpr std::size_t kFirstCapacity = 4096;  // many are of one line
    const std::size_t capacity = std::max({kFirstCapacity, 2 * capacity_, size_ + needed});
    auto text = std::make_unique_for_overwrite<char[]>(capacity);
    if (size_ > 0) std::memcpy(text.get(), text_.get(), size_);
    text_ = std::move(text);
    capacity_ = capacity;
}

}  // namespace leat::viewer
