// What a daemon that is killed leaves to the next one, beside memory: JSON that its keeper has under the name "state".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "sessiond/tracing.hpp"

namespace leat::sessiond {

inline constexpr char kStateName[] = "state";
// Of the state, and of the memory that it speaks of. A daemon of another version takes nothing over.
inline constexpr int kStateVersion = 5;

// The names of what belongs to a session or a trace begin with its number: "7/".
std::string kept_name(std::uint64_t id, const std::string& part = {});

nlohmann::json kept_state(const Tracing& tracing);

// Parts of it, read back. Their members throw nlohmann::json::exception if they are not there.
Place place_from(const nlohmann::json& described);
session::StoppedBy stopped_by_from(const nlohmann::json& name);
// Counts by channel.
std::map<std::string, ChannelFigures> figures_from(const nlohmann::json& described);

}  // namespace leat::sessiond
