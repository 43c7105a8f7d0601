// The libraries that trace programs which nobody recompiled.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace leat::cli {

// What --preload takes.
std::vector<std::string> preload_names();

// The value of LD_PRELOAD for these libraries, in front of what the environment has. They are looked for relative to
// this program, as it was installed (../lib/x86_64-linux-gnu/leat below /usr), then as it was built (../lib/leat).
// Programs of another C library start as if the variable did not name them.
Result<std::string> preload_variable(const std::vector<std::string>& names);

}  // namespace leat::cli
