// An output for those who look at something else.
#pragma once

#include <string_view>

#include "consumer/output.hpp"

namespace leat::test {

class NoOutput final : public consumer::Output {
    Result<void> write_metadata(std::string_view /*unit*/) override { return {}; }
    Result<void> write_packet(const consumer::Packet& /*packet*/) override { return {}; }
};

}  // namespace leat::test
