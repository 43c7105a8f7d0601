// --metrics of the daemons.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "net/metrics_server.hpp"

namespace leat::cli {

inline void add_metrics_option(CLI::App& app, std::string& address) {
    app.add_option("--metrics", address, "serve figures for Prometheus there: ADDRESS:PORT, or :PORT")
        ->type_name("ADDR")
        ->check([](const std::string& text) {
            const auto checked = net::MetricsServer::check_address(text);
            return checked ? std::string() : checked.error().message;
        });
}

}  // namespace leat::cli
