// The libraries that trace programs which nobody recompiled.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace leat::cli {

// What --preload takes.
std::vector<std::string> preload_names();

// The value of LD_PRELOAD for these libraries, in front of what the environment has. They are looked for beside this
// program, in ../lib/leat, then ../lib. Programs of another C library start as if the variable did not name them.
Result<std::string> preload_variable(const std::vector<std::string>& names);

}  // namespace leat::cli
