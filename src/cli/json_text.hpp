// JSON as text: what comes from files and peers, and what goes to them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace leat::cli {

using Json = nlohmann::ordered_json;  // members keep their order

// Parses one value. Refuses values that nest deeply, and objects of very many members: these would take much stack or
// time.
Result<Json> parse_json(std::string_view text);

// One line, as the control protocol has it. Fails if a string is not UTF-8.
Result<std::string> json_line(const Json& value);

// With indentation, for people and files. What is not UTF-8 becomes U+FFFD.
std::string readable_json(const Json& value);

// The kind of an error, as the control protocol names it.
const char* kind_name(ErrorKind kind);

// What a script gets of a command that failed: "ok", which is false, "kind" and "error".
Json failure_object(std::string_view kind, const std::string& message);

}  // namespace leat::cli
