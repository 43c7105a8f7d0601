#include "cli/json_text.hpp"

#include <vector>

namespace leat::cli {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxMembers = 4096;  // of one object: a search for a member compares it with all others

// Counts while the parser reads. What it rejects is left out of the value.
class Bounds {
  public:
    bool accept(int depth, Json::parse_event_t event) {
        using Event = Json::parse_event_t;
        if (event == Event::object_start) members_.push_back(0);
        if (event == Event::object_end) members_.pop_back();
        if (event == Event::key && ++members_.back() > kMaxMembers) are_exceeded_ = true;
        if (depth > kMaxDepth) are_exceeded_ = true;
        return !are_exceeded_;
    }
    [[nodiscard]] bool are_exceeded() const { return are_exceeded_; }

  private:
    std::vector<std::size_t> members_;  // of each object that is open
    bool are_exceeded_ = false;
};

// The library's text without its own name: "[json.exception.parse_error.101] parse error at line 1, ...".
std::string_view reason_of(const nlohmann::json::exception& error) {
    const std::string_view text = error.what();
    const std::size_t end = text.find("] ");
    return end == std::string_view::npos ? text : text.substr(end + 2);
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
    Bounds bounds;
    try {
        Json value = Json::parse(
            text, [&](int depth, Json::parse_event_t event, Json& /*parsed*/) { return bounds.accept(depth, event); });
        if (bounds.are_exceeded()) return refused("nested too deeply, or too many members in one object");
        return value;
    } catch (const nlohmann::json::exception& error) {
        return corrupt("not JSON: {}", reason_of(error));
    }
}

Result<std::string> json_line(const Json& value) {
    try {
        return value.dump();
    } catch (const nlohmann::json::exception&) {
        return refused("a name, pattern or path is not UTF-8");
    }
}

std::string readable_json(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace); }

const char* kind_name(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::kNotFound:
            return "not-found";
        case ErrorKind::kRefused:
            return "refused";
        case ErrorKind::kUnsupported:
            return "unsupported";
        default:
            return "io";
    }
}

Json failure_object(std::string_view kind, const std::string& message) {
    return {{"ok", false}, {"kind", kind}, {"error", message}};
}

}  // namespace leat::cli
