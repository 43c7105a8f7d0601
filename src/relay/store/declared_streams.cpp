#include "relay/store/declared_streams.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "ctf/tsdl/tsdl_characters.hpp"

namespace leat::relay {
namespace {

constexpr std::string_view kTsdl = "/* CTF 1.8";
// Of one trace; of one with more, nothing is held back.
constexpr std::size_t kMaxStreams = 4096;
constexpr std::size_t kMaxWord = 24;

}  // namespace

void DeclaredStreams::begin_text() {
    begin_.clear();
    aside_ = Aside::kNone;
    after_ = After::kNothing;
    word_.clear();
    new_.clear();
}

void DeclaredStreams::add(UntrustedBytes text) {
    has_text_ = has_text_ || !text.empty();
    for (const std::byte byte : text) {
        if (is_unknown_) return;
        take(static_cast<char>(byte));
    }
}

void DeclaredStreams::take(char c) {
    if (begin_.size() < kTsdl.size()) {
        begin_ += c;
        is_unknown_ = !kTsdl.starts_with(begin_);
    }
    const bool is_beside = is_aside(c);
    if (!is_beside && ctf::is_word(c)) {
        if (word_.size() < kMaxWord) word_ += c;
        return;
    }
    if (!word_.empty()) end_word();
    if (!is_beside && !ctf::is_blank(c)) take_sign(c);
}

// Of a comment or a string; a slash waits for what comes behind it.
bool DeclaredStreams::is_aside(char c) {
    switch (aside_) {
        case Aside::kNone:
            aside_ = c == '/' ? Aside::kSlash : c == '"' ? Aside::kString : Aside::kNone;
            return aside_ != Aside::kNone;
        case Aside::kSlash:
            aside_ = c == '*' ? Aside::kBlockComment : c == '/' ? Aside::kLineComment : Aside::kNone;
            return aside_ != Aside::kNone;
        case Aside::kBlockComment:
            if (c == '*') aside_ = Aside::kBlockStar;
            return true;
        case Aside::kBlockStar:
            if (c != '*') aside_ = c == '/' ? Aside::kNone : Aside::kBlockComment;
            return true;
        case Aside::kLineComment:
            if (c == '\n') aside_ = Aside::kNone;
            return true;
        case Aside::kString:
            aside_ = c == '"' ? Aside::kNone : c == '\\' ? Aside::kEscape : Aside::kString;
            return true;
        case Aside::kEscape:
            aside_ = Aside::kString;
            return true;
    }
    return false;
}

void DeclaredStreams::end_word() {
    const std::string word = std::exchange(word_, {});
    if (after_ == After::kBrace && word == "id") {
        after_ = After::kId;
        return;
    }
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    const bool is_decimal = word.size() == 1 || !word.starts_with('0');
    if (after_ == After::kEquals && is_decimal && error == std::errc{} && end == word.data() + word.size()) {
        if (new_.size() < kMaxStreams)
            new_.push_back(id);
        else
            is_unknown_ = true;
        after_ = After::kNothing;
        return;
    }
    go_back();
    if (word == "stream") after_ = After::kStream;
}

void DeclaredStreams::take_sign(char c) {
    if (after_ == After::kStream && c == '{')
        after_ = After::kBrace;
    else if (after_ == After::kId && c == '=')
        after_ = After::kEquals;
    else
        go_back();
}

// To where no declaration is. One that has begun is of another form.
void DeclaredStreams::go_back() {
    is_unknown_ = is_unknown_ || after_ == After::kBrace || after_ == After::kId || after_ == After::kEquals;
    after_ = After::kNothing;
}

void DeclaredStreams::end_message(std::uint64_t position) {
    for (const std::uint64_t id : std::exchange(new_, {})) positions_.try_emplace(id, position);
    is_unknown_ = is_unknown_ || positions_.size() > kMaxStreams;
}

bool DeclaredStreams::has(std::uint64_t stream_class_id, std::uint64_t position) const {
    const auto found = positions_.find(stream_class_id);
    return is_unknown_ || !has_text_ || (found != positions_.end() && found->second <= position);
}

bool DeclaredStreams::has_any(std::uint64_t position) const {
    return is_unknown_ || std::ranges::any_of(positions_, [&](const auto& entry) { return entry.second <= position; });
}

}  // namespace leat::relay
