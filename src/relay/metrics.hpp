#pragma once

#include <string>

#include "relay/admission.hpp"
#include "relay/relay.hpp"

namespace leat::relay {

// All figures as Prometheus takes them ([Prometheus-text]). Sessions beyond kMaxListed are only counted: peers make as
// many as they like. Any thread.
std::string metrics_page(Relay& relay, const Admission& admission);

inline constexpr std::size_t kMaxListed = 256;

}  // namespace leat::relay
