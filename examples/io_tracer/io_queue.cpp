#include "io_queue.hpp"

#include <algorithm>

namespace io_tracer {
namespace {

// A request costs the disk something, however short it is.
double cost_of(const Request& request) { return 1 + request.length() / 16384.0; }

}  // namespace

void Request::await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    queue_.push(*this);
}

void Request::completed(ssize_t result) {
    result_ = result;
    queue_.completed(*this, result);
    waiter_.resume();
}

void IoQueue::push(Request& request) {
    constexpr std::uint32_t kCount = (1U << kCountBits) - 1;
    request.id = next_id_;
    next_id_ = (next_id_ & ~kCount) | ((next_id_ + 1) & kCount);
    if (request.direction == Direction::kRead)
        leat_tracepoint(io, read_queued, request.id, request.class_number, request.length());
    else
        leat_tracepoint(io, write_queued, request.id, request.class_number, request.length());
    Waiting& waiting = classes_[request.class_number];
    // Nobody saves up for later.
    if (waiting.requests.empty()) waiting.used = std::max(waiting.used, used_);
    waiting.requests.push_back(&request);
}

IoQueue::Waiting* IoQueue::next_class() {
    Waiting* next = nullptr;
    for (Waiting& waiting : classes_)
        if (!waiting.requests.empty() && (next == nullptr || waiting.used < next->used)) next = &waiting;
    return next;
}

bool IoQueue::has_capacity(const Request& request) const {
    if (in_flight_ == 0) return true;
    return in_flight_ < capacity_.requests && bytes_in_flight_ + request.length() <= capacity_.bytes;
}

void IoQueue::dispatch() {
    while (Waiting* const waiting = head_ != nullptr ? head_ : next_class()) {
        Request& request = *waiting->requests.front();
        if (!has_capacity(request)) {
            if (head_ == nullptr) leat_tracepoint(io, wait);
            head_ = waiting;
            return;
        }
        head_ = nullptr;
        waiting->requests.pop_front();
        waiting->used += cost_of(request) / waiting->shares;
        used_ = waiting->used;
        ++in_flight_;
        bytes_in_flight_ += request.length();
        leat_tracepoint(io, dispatched, request.id);
        disk_.submit(request);
    }
}

void IoQueue::completed(const Request& request, ssize_t result) {
    leat_tracepoint(io, completed, request.id);
    --in_flight_;
    bytes_in_flight_ -= request.length();
    ++requests_;
    if (result == static_cast<ssize_t>(request.length()))
        bytes_ += request.length();
    else
        ++failed_;
}

}  // namespace io_tracer
