#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::sessiond {

// What other threads want one thread to do, in the order in which they asked.
class Mailbox {
  public:
    using Task = std::function<void()>;

    // Without descriptors there is none: see is_open().
    Mailbox();
    [[nodiscard]] bool is_open() const { return ready_.is_open(); }

    // Any thread.
    void post(Task task);

    // The thread that it belongs to: readable when there is something to do.
    [[nodiscard]] int fd() const { return ready_.get(); }
    void run_all();

  private:
    UniqueFd ready_;  // eventfd
    std::mutex lock_;
    std::vector<Task> tasks_;
};

}  // namespace leat::sessiond
