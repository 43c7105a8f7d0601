#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "net/connecting.hpp"

namespace leat::net {

// Asks the system's resolver, which may take minutes, on a thread of its own. The thread goes on by itself if nobody
// waits for the answer any more. An address that is written as a number is known at once.
class NameLookup {
  public:
    explicit NameLookup(const std::string& host);

    // Readable once the answer is there.
    [[nodiscard]] int fd() const;
    [[nodiscard]] bool is_done() const;
    // As resolve(). Once, when it is done.
    [[nodiscard]] Result<std::vector<HostAddress>> take();

  private:
    struct Answer;

    std::shared_ptr<Answer> answer_;
};

// The same, and waits for so long at most; or until `stop_fd`, if there is one, becomes readable.
Result<std::vector<HostAddress>> resolve_within(std::chrono::milliseconds patience, const std::string& host,
                                                int stop_fd = -1);

}  // namespace leat::net
