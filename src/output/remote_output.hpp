#pragma once

#include "base/result.hpp"
#include "consumer/output.hpp"

namespace leat::output {

// An output that may be gone for a while, and may lack packets. An output beside another one, where nothing is lost:
// see Tee. Nothing here waits.
class RemoteOutput : public consumer::Output {
  public:
    // Packets leave as they are written.
    [[nodiscard]] virtual bool is_connected() const = 0;
    // The first connection is under way: it is not there yet, and has not failed.
    [[nodiscard]] virtual bool is_connecting() const = 0;
    // Connections that it has had: what was stored over each of them is a part of the session for itself.
    [[nodiscard]] virtual std::uint64_t connections() const = 0;
    // All packets are stored, and nothing else is under way.
    [[nodiscard]] virtual bool is_settled() const = 0;
    // Forgets all packets that are not stored, and ends the connection. The session goes on as a new part, without
    // them.
    virtual void forget_packets() = 0;
    // As begin_chunk() and clear(), but asked for and not waited for. Only if is_settled().
    virtual void ask_for_chunk() = 0;
    virtual Result<void> ask_for_clear() = 0;
    // As set_clock_offset(), but not waited for; at any time.
    virtual Result<void> ask_for_clock_offset(std::uint64_t offset) = 0;
};

}  // namespace leat::output
