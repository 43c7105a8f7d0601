// The file of the program that was to be recorded, and what keeps the tracer out of it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace leat::cli {

// Why no library of ours can be loaded into a program, and what to do about it: two clauses of one sentence.
struct Obstacle {
    std::string reason;
    std::string remedy;
};

// Its file, as execvp() finds it: through PATH, unless the name has a slash. Nothing if there is none.
std::optional<std::filesystem::path> find_program(const std::string& program);

// Looks at `program` as the system does when it starts it: through PATH, and a script through its interpreter.
// Nothing if there is no such obstacle, or no such file.
std::optional<Obstacle> find_obstacle(const std::string& program);

}  // namespace leat::cli
