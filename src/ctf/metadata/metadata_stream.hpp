#pragma once

#include <string>
#include <string_view>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"

namespace leat::ctf {

// What all metadata of CTF 1.8 that is text begins with ([CTF-1.8], section 7.1).
inline constexpr std::string_view kMetadataSignature = "/* CTF 1.8";

// Larger metadata is refused. The metadata of a kernel with all its events is a hundredth of it.
inline constexpr std::size_t kMaxMetadataSize = 64U << 20U;

// Whether a metadata stream with this beginning, of at least 4 bytes, consists of packets.
bool is_metadata_packet(UntrustedBytes bytes);

// The size of the packet at the start of these bytes; 0 if more bytes are needed to know.
Result<std::size_t> metadata_packet_size(UntrustedBytes bytes);

// Returns the text of a metadata stream, which is TSDL or the fragments of CTF 2. The stream is that text, or packets
// of it in either byte order.
Result<std::string> parse_metadata_stream(UntrustedBytes bytes);

}  // namespace leat::ctf
