#include "sessiond/mailbox.hpp"

#include <sys/eventfd.h>

#include <utility>

namespace leat::sessiond {

Mailbox::Mailbox() : ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Mailbox::post(Task task) {
    const std::lock_guard guard(lock_);
    tasks_.push_back(std::move(task));
    ::eventfd_write(ready_.get(), 1);
}

void Mailbox::run_all() {
    eventfd_t ignored = 0;
    ::eventfd_read(ready_.get(), &ignored);
    std::vector<Task> tasks;
    {
        const std::lock_guard guard(lock_);
        tasks.swap(tasks_);
    }
    for (const Task& task : tasks) task();
}

}  // namespace leat::sessiond
