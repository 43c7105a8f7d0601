// A session file: the daemon refuses it, or makes a session of which it saves the same.
#include <string>

#include "fuzz_input.hpp"
#include "support/session_model.hpp"

namespace leat::fuzz::session_file {
namespace {

using nlohmann::json;

void run(const std::string& bytes) {
    static test::ScratchDaemon* const daemon = new test::ScratchDaemon;  // NOLINT: as long as the process
    static std::uint64_t runs = 0;
    json definition = json::parse(bytes, nullptr, false);
    if (definition.is_discarded()) return;
    if (definition.is_object()) {
        definition.erase("output");
        definition.erase("live");
        definition["directory"] = daemon->outputs() / std::to_string(++runs);
    }
    const json loaded = daemon->ask({{"verb", "load"}, {"session", "first"}, {"definition", definition}});
    LEAT_CHECK(loaded.contains("ok"));
    if (loaded["ok"] != true) return;
    // As a client reads it.
    const json saved = json::parse(daemon->ask({{"verb", "save"}, {"session", "first"}}).dump());
    LEAT_CHECK(saved.at("ok") == true && daemon->ask({{"verb", "destroy"}, {"session", "first"}})["ok"] == true);
    const json again = daemon->ask({{"verb", "load"}, {"definition", saved.at("definition")}});
    LEAT_CHECK(again["ok"] == true);
    const json same = json::parse(daemon->ask({{"verb", "save"}, {"session", "first"}}).dump());
    LEAT_CHECK(same["definition"] == saved["definition"]);
    LEAT_CHECK(daemon->ask({{"verb", "destroy"}, {"session", "first"}})["ok"] == true);
}

}  // namespace

LEAT_FUZZ_TARGET(session_file) {
    const std::string bytes(reinterpret_cast<const char*>(data), size);  // NOLINT(*-reinterpret-cast)
    run(bytes);
    return 0;
}

}  // namespace leat::fuzz::session_file
