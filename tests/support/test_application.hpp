// Programs as a session meets them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "session/channel.hpp"
#include "support/description_table.hpp"

namespace leat::test {

// "program (12)" of user 1000, which is process 12 in its own namespace, too.
inline session::Application application(const std::vector<TestTracepoint>& tracepoints) {
    const TestTable table{tracepoints};
    return {.pid = 12,
            .vpid = 12,
            .uid = 1000,
            .gid = 1000,
            .procname = "program",
            .tracepoints =
                std::make_shared<const session::Tracepoints>(*wire::parse_descriptions(untrusted(table.bytes())))};
}

}  // namespace leat::test
