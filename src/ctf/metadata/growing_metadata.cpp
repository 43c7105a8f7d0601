#include "ctf/metadata/growing_metadata.hpp"

#include "ctf/json/json_metadata.hpp"
#include "ctf/metadata/metadata_stream.hpp"

namespace leat::ctf {
namespace {

constexpr std::size_t kMagicSize = 4;

UntrustedBytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

Result<void> GrowingMetadata::append(UntrustedBytes bytes) {
    if (bytes.size() > kMaxMetadataSize - size_)
        return refused("metadata has more than {} bytes, which is the limit", kMaxMetadataSize);
    size_ += bytes.size();
    const std::string_view added(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (form_ == Form::kText) {
        take_text(added);
        return {};
    }
    pending_ += added;
    if (form_ == Form::kUnknown) LEAT_TRY(recognize());
    return form_ == Form::kPackets ? take_packets() : Result<void>();
}

Result<void> GrowingMetadata::recognize() {
    if (pending_.size() < kMagicSize) return {};
    if (is_metadata_packet(bytes_of(pending_))) {
        form_ = Form::kPackets;
        return {};
    }
    if (pending_.front() != '/' && pending_.front() != kFragmentBegin)
        return corrupt("metadata begins with neither a comment nor a packet nor a fragment of CTF 2");
    form_ = Form::kText;
    take_text(pending_);
    pending_.clear();
    return {};
}

Result<void> GrowingMetadata::take_packets() {
    std::size_t offset = 0;
    while (offset < pending_.size()) {
        const UntrustedBytes rest = bytes_of(pending_).subspan(offset);
        const std::size_t size = LEAT_TRY(metadata_packet_size(rest));
        if (size == 0 || size > rest.size()) break;
        const std::string text = LEAT_TRY(parse_metadata_stream(rest.first(size)));
        take_text(text);
        offset += size;
    }
    pending_.erase(0, offset);
    return {};
}

void GrowingMetadata::take_text(std::string_view text) {
    const std::size_t begin = text_.size();
    text_ += text;
    is_json_ = text_.starts_with(kFragmentBegin);
    for (std::size_t at = begin; at < text_.size(); ++at) {
        const State before = state_;
        scan(text_[at]);
        if (is_end_of_declaration(before, text_[at])) whole_size_ = at + 1;
    }
}

// A fragment of CTF 2 is one object.
bool GrowingMetadata::is_end_of_declaration(State before, char character) const {
    return before == State::kPlain && depth_ == 0 && character == (is_json_ ? '}' : ';');
}

// Tracks comments and quotes, in which braces and semicolons do not count.
void GrowingMetadata::scan(char character) {
    // What comes before it may be damaged, and is told apart from it all the same.
    if (is_json_ && character == kFragmentBegin) {
        state_ = State::kPlain;
        depth_ = 0;
    }
    switch (state_) {
        case State::kSlash:
            state_ = character == '*' ? State::kBlockComment : character == '/' ? State::kLineComment : State::kPlain;
            if (state_ == State::kPlain) scan_plain(character);
            break;
        case State::kBlockComment:
            if (character == '*') state_ = State::kBlockCommentStar;
            break;
        case State::kBlockCommentStar:
            if (character != '*') state_ = character == '/' ? State::kPlain : State::kBlockComment;
            break;
        case State::kLineComment:
            if (character == '\n') state_ = State::kPlain;
            break;
        case State::kString:
        case State::kCharacter:
            if (is_escaped_)
                is_escaped_ = false;
            else if (character == '\\')
                is_escaped_ = true;
            else if (character == (state_ == State::kString ? '"' : '\''))
                state_ = State::kPlain;
            break;
        case State::kPlain:
            scan_plain(character);
            break;
    }
}

void GrowingMetadata::scan_plain(char character) {
    if (character == '/' && !is_json_) state_ = State::kSlash;
    if (character == '"') state_ = State::kString;
    if (character == '\'' && !is_json_) state_ = State::kCharacter;
    if (character == '{') ++depth_;
    if (character == '}' && depth_ > 0) --depth_;
}

}  // namespace leat::ctf
