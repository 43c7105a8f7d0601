// As much of Seastar's reactor as docs/seastar.md speaks of: one shard, whose tasks and pollers run in turns.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "leat_events.hh"

namespace seastar {

struct smp {
    static constexpr unsigned count = 1;
};

class task {
  public:
    virtual ~task() = default;
    virtual void run_and_dispose() noexcept = 0;
};

class reactor {
    static inline std::vector<std::shared_ptr<std::function<bool()>>> pollers;

  public:
    class poller {
        std::shared_ptr<std::function<bool()>> _poll;

      public:
        explicit poller(std::function<bool()> poll) : _poll(std::make_shared<std::function<bool()>>(std::move(poll))) {
            pollers.push_back(_poll);
        }
        static poller simple(std::function<bool()> poll) { return poller(std::move(poll)); }
    };

    struct task_queue {
        unsigned _id;
        std::deque<task*> _q{};

        void run_tasks() {
            while (!_q.empty()) {
                task* const tsk = _q.front();
                _q.pop_front();
#include "task.inc"
            }
        }
    };

    static void poll() {
        for (const auto& poller : pollers) (*poller)();
    }
};

}  // namespace seastar
