#include "wire/layout.hpp"

#include <algorithm>

namespace leat::wire {

void LayoutWriter::raw(const std::array<std::uint8_t, 16>& bytes) {
    for (const std::uint8_t byte : bytes) bytes_->push_back(std::byte{byte});
}

void LayoutWriter::padded(const std::string& text, std::size_t size) {
    const std::size_t begin = bytes_->size();
    bytes_->resize(begin + size);
    // What is too long is cut: a display name, of which the beginning is better than nothing.
    for (std::size_t i = 0; i < std::min(text.size(), size - 1); ++i)
        (*bytes_)[begin + i] = static_cast<std::byte>(text[i]);
}

std::uint32_t LayoutWriter::length(const std::string& text) {
    const auto length = static_cast<std::uint32_t>(text.size() + 1);
    fields(length);
    return length;
}

std::uint32_t LayoutWriter::length_if_any(const std::string& text) {
    if (!text.empty()) return length(text);
    fields(std::uint32_t{0});
    return 0;
}

void LayoutWriter::terminated(const std::string& text, std::uint32_t length, std::uint32_t max) {
    if (length == 0) return;
    LEAT_CHECK(length == text.size() + 1 && length <= max);
    for (const char c : text) bytes_->push_back(static_cast<std::byte>(c));
    bytes_->push_back(std::byte{0});
}

void LayoutReader::raw(std::array<std::uint8_t, 16>& bytes) {
    const UntrustedBytes source = take(bytes.size());
    for (std::size_t i = 0; i < source.size(); ++i) bytes[i] = std::to_integer<std::uint8_t>(source[i]);
}

void LayoutReader::padded(std::string& text, std::size_t size) {
    const UntrustedBytes field = take(size);
    const std::string_view all(reinterpret_cast<const char*>(field.data()), field.size());
    const std::size_t end = all.find('\0');
    if (!all.empty() && end == std::string_view::npos) fault({ErrorKind::kCorrupt, "a name in it has no end"});
    text = all.substr(0, end);
}

std::uint32_t LayoutReader::length(const std::string& /*text*/) {
    std::uint32_t length = 0;
    fields(length);
    return length;
}

void LayoutReader::terminated(std::string& text, std::uint32_t length, std::uint32_t max) {
    text.clear();
    if (length == 0) return;
    if (length > max)
        return fault({ErrorKind::kCorrupt, fmt::format("a name in it has {} bytes of at most {}", length, max)});
    const UntrustedBytes field = take(length);
    if (field.empty()) return;
    const std::string_view all(reinterpret_cast<const char*>(field.data()), field.size());
    if (all.find('\0') != all.size() - 1)
        return fault({ErrorKind::kCorrupt, "a name in it does not end where it says"});
    text = all.substr(0, all.size() - 1);
}

void LayoutReader::fault(Error error) {
    if (outcome_) outcome_ = tl::unexpected(std::move(error));
}

UntrustedBytes LayoutReader::take(std::size_t count) {
    if (!outcome_) return {};
    const auto bytes = cursor_.take(count);
    if (bytes) return *bytes;
    outcome_ = corrupt("it is cut short, at byte {}", cursor_.offset());
    return {};
}

Result<void> LayoutReader::finish() const {
    if (!outcome_) return outcome_;
    if (cursor_.remaining() != 0) return corrupt("it has {} bytes too many", cursor_.remaining());
    return {};
}

}  // namespace leat::wire
