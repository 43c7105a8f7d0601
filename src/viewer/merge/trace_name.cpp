#include "viewer/merge/trace_name.hpp"

namespace leat::viewer {

std::string trace_name(const ctf::TraceClass& trace_class, const std::string& path) {
    const std::string* const host = ctf::environment_text(trace_class, "hostname");
    if (host == nullptr) return path;
    return path.empty() ? *host : *host + "/" + path;
}

}  // namespace leat::viewer
