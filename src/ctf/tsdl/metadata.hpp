#pragma once

#include <string>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"

namespace leat::ctf {

// Larger metadata is refused: that of a kernel with all its events has a hundredth of it.
inline constexpr std::size_t kMaxMetadataSize = 64U << 20U;

// Whether a metadata stream that begins so is made of packets; at least 4 bytes.
bool is_metadata_packet(UntrustedBytes bytes);

// Bytes of the whole packet that begins these; 0 if more are needed to know.
Result<std::size_t> metadata_packet_size(UntrustedBytes bytes);

// The TSDL text of a metadata stream, which is either that text, or packets of it in either byte order.
Result<std::string> parse_metadata_stream(UntrustedBytes bytes);

}  // namespace leat::ctf
