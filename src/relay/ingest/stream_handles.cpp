#include "relay/ingest/stream_handles.hpp"

#include "base/random_value.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::relay {

std::uint64_t StreamHandles::draw_random() { return random_value<std::uint64_t>(); }

std::uint64_t StreamHandles::add(const std::shared_ptr<StoredSession>& session) {
    const std::lock_guard lock(mutex_);
    for (;;) {
        const std::uint64_t handle = draw_();
        // 0 and -1 mean something else to some producers.
        if (handle != 0 && handle != wire::kNoPacket && sessions_.try_emplace(handle, session).second) return handle;
    }
}

void StreamHandles::remove(std::uint64_t handle) {
    const std::lock_guard lock(mutex_);
    sessions_.erase(handle);
}

void StreamHandles::announce(std::uint64_t handle, const std::shared_ptr<StoredSession>& session) {
    const std::lock_guard lock(mutex_);
    news_.push_back({handle, session});
    announced_.fetch_add(1, std::memory_order_release);
}

std::vector<StreamHandles::Announced> StreamHandles::take_announced() {
    const std::lock_guard lock(mutex_);
    return std::exchange(news_, {});
}

std::shared_ptr<StoredSession> StreamHandles::session_of(std::uint64_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(handle);
    return found == sessions_.end() ? nullptr : found->second.lock();
}

}  // namespace leat::relay
