#include "net/name_lookup.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/blocked_signals.hpp"
#include "base/threads.hpp"
#include "base/unique_fd.hpp"
#include "net/bounded_wait.hpp"

namespace leat::net {
namespace {

bool is_number(const std::string& host) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST;
    addrinfo* found = nullptr;
    const int status = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
    return status == 0;
}

}  // namespace

struct NameLookup::Answer {
    void give(Result<std::vector<HostAddress>> found) {
        const std::lock_guard guard(lock);
        addresses = std::move(found);
        ::eventfd_write(bell.get(), 1);
    }

    UniqueFd bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    mutable std::mutex lock{};
    std::optional<Result<std::vector<HostAddress>>> addresses{};
};

NameLookup::NameLookup(const std::string& host) : answer_(std::make_shared<Answer>()) {
    if (!answer_->bell.is_open()) {
        answer_->give(io_error("cannot look up a host"));
        return;
    }
    if (is_number(host)) {
        answer_->give(resolve(host));
        return;
    }
    const BlockedSignals blocked;
    try {
        std::thread([answer = answer_, host] { answer->give(resolve(host)); }).detach();
    } catch (const std::system_error&) {
        answer_->give(cannot_start_thread());
    }
}

int NameLookup::fd() const { return answer_->bell.get(); }

bool NameLookup::is_done() const {
    const std::lock_guard guard(answer_->lock);
    return answer_->addresses.has_value();
}

Result<std::vector<HostAddress>> NameLookup::take() {
    const std::lock_guard guard(answer_->lock);
    return *std::exchange(answer_->addresses, std::nullopt);
}

Result<std::vector<HostAddress>> resolve_within(std::chrono::milliseconds patience, const std::string& host,
                                                int stop_fd) {
    NameLookup lookup(host);
    const auto answered = lookup.is_done() ? Result<void>() : wait_for(lookup.fd(), POLLIN, patience, stop_fd);
    if (!answered) return wrap(fmt::format("cannot find the host {}", host), answered.error());
    return lookup.take();
}

}  // namespace leat::net
