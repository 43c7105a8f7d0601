// The names of the files in a trace directory: [LTTng-2.13], "Trace directories".
//
//     TRACE/metadata
//     TRACE/CHANNEL_INSTANCE              a stream's packets
//     TRACE/index/CHANNEL_INSTANCE.idx    where they lie
#pragma once

#include <filesystem>
#include <string>

namespace leat::trace {

inline constexpr char kMetadataFile[] = "metadata";
inline constexpr char kIndexDirectory[] = "index";

// The name of a stream's index, in kIndexDirectory.
inline std::string index_name(const std::string& stream_file) { return stream_file + ".idx"; }

// The path of the index of the stream file at this path.
inline std::filesystem::path index_path(const std::filesystem::path& stream_file) {
    return stream_file.parent_path() / kIndexDirectory / index_name(stream_file.filename().string());
}

}  // namespace leat::trace
