// The names of the files in a trace directory: [LTTng-2.13], "Trace directories".
//
//     TRACE/metadata
//     TRACE/CHANNEL_RING              a stream's packets
//     TRACE/index/CHANNEL_RING.idx    where they lie
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace leat::trace {

inline constexpr char kMetadataFile[] = "metadata";
inline constexpr char kIndexDirectory[] = "index";
inline constexpr std::string_view kIndexSuffix = ".idx";

// The name of the file that holds the packets of a channel's ring.
inline std::string stream_name(const std::string& channel, std::uint32_t ring) {
    return channel + "_" + std::to_string(ring);
}

// The name of a stream's index, in kIndexDirectory.
inline std::string index_name(const std::string& stream_file) { return stream_file + std::string(kIndexSuffix); }

// Whether a stream of this channel may have a file of this name.
inline bool is_stream_name(std::string_view name, const std::string& channel) {
    return name.size() > channel.size() + 1 && name.starts_with(channel) && name[channel.size()] == '_' &&
           name.find_first_not_of("0123456789_", channel.size()) == std::string_view::npos;
}

// The path of the index of the stream file at this path.
inline std::filesystem::path index_path(const std::filesystem::path& stream_file) {
    return stream_file.parent_path() / kIndexDirectory / index_name(stream_file.filename().string());
}

}  // namespace leat::trace
