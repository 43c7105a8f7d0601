// Metadata of a trace in which every value has one byte, so that packets can be written as text. Times are seconds.
#pragma once

#include <string>

namespace leat::test {

inline const std::string kByteMetadata =
    "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le;"
    "  uuid = \"00112233-4455-6677-8899-aabbccddeeff\";"
    "  packet.header := struct { integer { size = 8; } stream_instance_id; }; };"
    "clock { name = m; freq = 1; };"
    "typealias integer { size = 8; map = clock.m.value; } := ts;"
    "stream { packet.context := struct { integer { size = 8; } packet_size; ts timestamp_begin; ts timestamp_end; };"
    "  event.header := struct { ts timestamp; }; };"
    "event { name = e; };";

// Of which nothing can be used.
inline const std::string kUnreadableMetadata =
    "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; }; nonsense;";

// The same metadata with packet numbers.
inline std::string numbered_byte_metadata(const std::string& more_numbers = "") {
    std::string metadata = kByteMetadata;
    const std::string before = "packet_size;";
    metadata.insert(metadata.find(before) + before.size(), " integer { size = 8; } packet_seq_num;" + more_numbers);
    return metadata;
}

}  // namespace leat::test
