#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "net/metrics_server.hpp"

namespace leat::relay {

// Serves metrics on a thread of its own: a slow reader keeps no connection of the relay waiting.
class MetricsThread {
  public:
    // `page` is called on that thread, until this object is gone. The address is that of MetricsServer::listen().
    static Result<std::unique_ptr<MetricsThread>> start(const std::string& address, std::function<std::string()> page);
    ~MetricsThread();
    MetricsThread(const MetricsThread&) = delete;
    MetricsThread& operator=(const MetricsThread&) = delete;

    [[nodiscard]] std::string endpoint() const { return server_->endpoint(); }

  private:
    MetricsThread(std::unique_ptr<net::MetricsServer> server, UniqueFd stop)
        : server_(std::move(server)), stop_(std::move(stop)), thread_([this] { run(); }) {}
    void run();

    std::unique_ptr<net::MetricsServer> server_;
    UniqueFd stop_;  // readable: the thread ends
    std::thread thread_;
};

}  // namespace leat::relay
