#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/steer/quantities.hpp"

namespace leat::cli {

// Of an option that is a number: takes what parse_size() takes.
inline CLI::Validator as_size() {
    return {[](std::string& text) {
                const auto size = parse_size(text);
                if (size) text = std::to_string(*size);
                return size ? std::string() : size.error().message;
            },
            ""};
}

}  // namespace leat::cli
