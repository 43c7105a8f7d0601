// Values that stand alone, or are missing. An empty value means nothing to any option: it is a variable that a script
// has not set.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/misuse.hpp"

namespace leat::cli {

// What App::parse() gets of a command line. CLI11 would take the word behind `--option=` for its value, and any word
// behind `--live`, which may stand alone: only a URL is, or an empty one. A traced program's own words stay as they
// are.
inline std::vector<std::string> with_empty_values(const CLI::App& app, std::span<char* const> arguments) {
    const CLI::App* command = &app;
    bool is_ours = true;
    bool is_value = false;
    std::vector<std::string> words;
    for (std::size_t i = 1; i < arguments.size(); ++i) {
        const std::string word = arguments[i];
        words.push_back(word);
        if (!is_ours || std::exchange(is_value, false)) continue;
        if (!word.starts_with("-")) {
            const auto named = command->get_subcommands([&](const CLI::App* each) { return each->get_name() == word; });
            is_ours = !named.empty() || !command->get_positionals_at_end();
            if (!named.empty()) command = named.front();
            continue;
        }
        is_ours = word != "--";
        const std::size_t name_size = word.find('=');
        const CLI::Option* const option = command->get_option_no_throw(word.substr(0, name_size));
        if (option == nullptr || option->get_items_expected_max() == 0) continue;
        const bool may_stand_alone = option->get_items_expected_min() == 0;
        const auto may_be_url = [](std::string_view text) { return text.empty() || text.find("://") != text.npos; };
        is_value = name_size == std::string::npos &&
                   (!may_stand_alone || (i + 1 < arguments.size() && may_be_url(arguments[i + 1])));
        if (name_size == std::string::npos && !is_value) words.back() += '=' + option->get_default_str();
        if (name_size != word.size() - 1) continue;
        words.back().pop_back();
        words.emplace_back();
    }
    std::ranges::reverse(words);
    return words;
}

inline void refuse_empty_values(const CLI::App& app) {
    const auto is_given = [](const CLI::Option* option) { return option->count() != 0 && option->nonpositional(); };
    for (const CLI::Option* const option : app.get_options(is_given))
        if (std::ranges::count(option->results(), "") != 0) misuse("{} is empty", option->get_name());
    for (const CLI::App* const command : app.get_subcommands()) refuse_empty_values(*command);
}

}  // namespace leat::cli
