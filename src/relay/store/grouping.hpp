#pragma once

#include <cstdint>
#include <string>

namespace leat::relay {

// What comes first in the path of a session below the output directory.
enum class Grouping : std::uint8_t {
    kByHost,     // HOST/SESSION-DATE, or HOST/BASE where the producer names a base path
    kBySession,  // SESSION/HOST-DATE, or SESSION/HOST-DATE/BASE
};

// Producers before 2.11 say with each stream where it goes: HOST/SESSION-DATE/REST or HOST/BASE/REST. By session that
// is SESSION/HOST-DATE/REST or SESSION/HOST-DATE/BASE/REST. `date` is for paths that have none.
std::string grouped_by_session(const std::string& path, const std::string& host, const std::string& session,
                               const std::string& date);

}  // namespace leat::relay
