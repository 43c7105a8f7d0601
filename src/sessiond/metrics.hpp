#pragma once

#include <string>

#include "sessiond/tracing.hpp"

namespace leat::sessiond {

// All figures as Prometheus takes them ([Prometheus-text]).
std::string metrics_page(Tracing& tracing);

}  // namespace leat::sessiond
