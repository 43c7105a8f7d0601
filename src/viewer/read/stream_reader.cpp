#include "viewer/read/stream_reader.hpp"

#include <utility>

namespace leat::viewer {

Result<bool> StreamReader::next() {
    while (true) {
        auto is_message = reader_.next();
        if (is_message && !*is_message) {
            if (next_packet_ == stream_->packets.size()) {
                if (std::exchange(is_finished_, true)) return false;
                reader_.finish();
                continue;
            }
            packet_ = &stream_->packets[next_packet_++];
            const UntrustedBytes bytes = packet_->file->mapping.bytes().subspan(packet_->offset);
            auto started = reader_.start(*trace_class_, *stream_->plan, bytes, packet_->offset);
            if (started) continue;
            is_message = tl::unexpected(std::move(started).error());
        }
        if (!is_message) return wrap(packet_->file->path.string(), std::move(is_message).error());
        return true;
    }
}

}  // namespace leat::viewer
