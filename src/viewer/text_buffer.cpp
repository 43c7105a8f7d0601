#include "viewer/text_buffer.hpp"

#include <cerrno>
#include <span>

#include "base/file.hpp"

namespace leat::viewer {

Result<void> TextBuffer::flush() {
    if (text_.size() == 0 || is_closed_) {
        text_.clear();
        return {};
    }
    errno = 0;
    auto written = write_all(fd_, std::as_bytes(std::span(text_.data(), text_.size())));
    text_.clear();
    is_closed_ = !written && errno == EPIPE;
    if (!written && !is_closed_) return written;
    return {};
}

}  // namespace leat::viewer
