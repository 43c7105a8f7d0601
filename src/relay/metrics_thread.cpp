#include "relay/metrics_thread.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/blocked_signals.hpp"

namespace leat::relay {

Result<std::unique_ptr<MetricsThread>> MetricsThread::start(const std::string& address,
                                                            std::function<std::string()> page) {
    auto server = LEAT_TRY(net::MetricsServer::listen(address, std::move(page)));
    UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
    if (!stop.is_open()) return io_error("cannot create a descriptor for metrics");
    const BlockedSignals blocked;  // the relay's other threads handle them
    return std::unique_ptr<MetricsThread>(new MetricsThread(std::move(server), std::move(stop)));
}

MetricsThread::~MetricsThread() {
    const std::uint64_t one = 1;
    (void)!::write(stop_.get(), &one, sizeof one);
    thread_.join();
}

void MetricsThread::run() {
    using Clock = net::MetricsServer::Clock;
    for (;;) {
        std::vector<pollfd> fds = server_->wanted();
        fds.push_back({stop_.get(), POLLIN, 0});
        int timeout = -1;
        if (const auto deadline = server_->deadline(); deadline != Clock::time_point::max()) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
            timeout = static_cast<int>(std::max<std::int64_t>(left.count(), 0) + 1);
        }
        ::poll(fds.data(), fds.size(), timeout);
        if (fds.back().revents != 0) return;
        server_->run();
    }
}

}  // namespace leat::relay
