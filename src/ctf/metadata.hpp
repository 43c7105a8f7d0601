#pragma once

#include <string>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"

namespace leat::ctf {

// Larger metadata is refused: that of a kernel with all its events has a hundredth of it.
inline constexpr std::size_t kMaxMetadataSize = 64U << 20U;

// The TSDL text of a metadata stream, which is either that text, or packets of it in either byte order.
Result<std::string> parse_metadata_stream(UntrustedBytes bytes);

}  // namespace leat::ctf
