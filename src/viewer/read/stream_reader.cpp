#include "viewer/read/stream_reader.hpp"

#include <utility>

namespace leat::viewer {

Result<bool> StreamReader::next() {
    while (true) {
        auto is_message = reader_.next();
        // Then what was read may be zeros, and any error comes from that.
        if (packet_ != nullptr && packet_->file->mapping.was_shortened()) return became_shorter(*packet_->file);
        if (is_message && !*is_message) {
            if (next_packet_ == stream_->packets.size()) {
                if (std::exchange(is_finished_, true)) return false;
                reader_.finish();
                continue;
            }
            packet_ = &stream_->packets[next_packet_++];
            const MappedFile& mapping = packet_->file->mapping;
            auto started = reader_.start(*trace_class_, *stream_->plan, mapping.bytes().subspan(packet_->offset),
                                         packet_->offset, &mapping);
            if (started) continue;
            is_message = tl::unexpected(std::move(started).error());
        }
        if (!is_message) return wrap(packet_->file->path.string(), std::move(is_message).error());
        return true;
    }
}

}  // namespace leat::viewer
