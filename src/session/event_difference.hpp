#pragma once

#include <string>

#include "ctf/model/trace_class.hpp"

namespace leat::session {

// What tells two event classes of one name apart, in words: the first thing that does. "there" is `known`, "here"
// `other`.
std::string difference_between(const ctf::EventClass& known, const ctf::EventClass& other);

}  // namespace leat::session
