// An option that may be given several times, with one value each time.
#pragma once

#include <CLI/CLI.hpp>

namespace leat::cli {

// With extra arguments allowed, "[a,b]" would be taken for a list, and the `--` behind a value for another one.
inline CLI::Option* repeated(CLI::Option* option) {
    return option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace leat::cli
